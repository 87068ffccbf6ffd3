//! URLs of PostgreSQL databases, and TLS.

use super::super::StorageError;
use ::postgres::config::{Host, SslMode};
use ::postgres::{Client, Config, NoTls};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres_rustls::MakeRustlsConnect;

/// How long a connection attempt may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection on which nothing was acknowledged for this long is lost.
const TCP_TIMEOUT: Duration = Duration::from_secs(30);

/// The address of a database.
pub(super) struct Address {
    config: Config,
    tls: Option<MakeRustlsConnect>,
    /// For error messages; without the password.
    pub(super) name: String,
}

impl Address {
    /// Parses a URL. If `sslmode` requires TLS (`require`, `verify-ca`, `verify-full`), the server's certificate and name are
    /// always verified: against the file `sslrootcert` if given, otherwise against the system's roots. Without `sslmode` there
    /// is no TLS.
    ///
    /// # Errors
    /// If it is not a PostgreSQL URL, or there are no roots to trust.
    pub(super) fn parse(url: &str) -> Result<Self, StorageError> {
        let (rest, secure, roots) = split_tls(url);
        let mut config: Config = rest.parse().map_err(|error: ::postgres::Error| {
            let reason = std::error::Error::source(&error).map_or(error.to_string(), ToString::to_string);
            wrong("the PostgreSQL URL", reason)
        })?;
        config.ssl_mode(if secure { SslMode::Require } else { SslMode::Disable });
        if config.get_application_name().is_none() {
            config.application_name("sottovoce");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(TCP_TIMEOUT);
        }
        let name = name(&config);
        let tls = secure.then(|| tls(roots.as_deref())).transpose().map_err(|reason| wrong(&name, reason))?;
        Ok(Self { config, tls, name })
    }

    pub(super) fn connect(&self) -> Result<Client, ::postgres::Error> {
        match &self.tls {
            Some(tls) => self.config.connect(tls.clone()),
            None => self.config.connect(NoTls),
        }
    }
}

fn wrong(what: &str, reason: String) -> StorageError {
    StorageError::Database { what: what.to_owned(), reason }
}

fn name(config: &Config) -> String {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(host)) => host.clone(),
        #[cfg(unix)]
        Some(Host::Unix(path)) => path.display().to_string(),
        None => String::new(),
    };
    let port = config.get_ports().first().map_or(String::new(), |port| format!(":{port}"));
    format!("postgres://{host}{port}/{}", config.get_dbname().unwrap_or_default())
}

/// Splits off the parameters of TLS: the rest of the URL, whether TLS is required, and the file with root certificates.
fn split_tls(url: &str) -> (String, bool, Option<PathBuf>) {
    let Some((start, query)) = url.split_once('?') else { return (url.to_owned(), false, None) };
    let (mut rest, mut secure, mut roots) = (Vec::new(), false, None);
    for pair in query.split('&') {
        match pair.split_once('=') {
            Some(("sslmode", "require" | "verify-ca" | "verify-full")) => secure = true,
            Some(("sslrootcert", file)) => roots = (file != "system").then(|| PathBuf::from(file)),
            _ => rest.push(pair),
        }
    }
    (format!("{start}?{}", rest.join("&")), secure, roots)
}

fn tls(file: Option<&Path>) -> Result<MakeRustlsConnect, String> {
    let mut roots = RootCertStore::empty();
    let certificates = match file {
        Some(file) => {
            let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
            read.map_err(|error| format!("sslrootcert {}: {error}", file.display()))?
        }
        None => rustls_native_certs::load_native_certs().certs,
    };
    roots.add_parsable_certificates(certificates);
    if roots.is_empty() {
        return Err("TLS is required, but there is no root certificate; sslrootcert=FILE names some".into());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let versions = versions.map_err(|error| error.to_string())?;
    Ok(MakeRustlsConnect::new(versions.with_root_certificates(roots).with_no_client_auth()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_parameters_are_split_off() {
        assert_eq!(split_tls("postgres://a/b"), ("postgres://a/b".into(), false, None));
        let plain = "postgres://a/b?sslmode=disable&connect_timeout=3";
        assert_eq!(split_tls(plain), (plain.into(), false, None));
        assert_eq!(
            split_tls("postgres://a/b?sslmode=verify-full&options=x&sslrootcert=/r.pem"),
            ("postgres://a/b?options=x".into(), true, Some("/r.pem".into()))
        );
        assert_eq!(split_tls("postgres://a/b?sslrootcert=system&sslmode=require").2, None);
    }

    #[test]
    fn names_omit_passwords_and_errors_name_the_parameter() {
        let address = Address::parse("postgres://ada:geheim@db.example:5433/town").unwrap();
        assert_eq!(address.name, "postgres://db.example:5433/town");
        let error = Address::parse("postgres://a/b?nonsense=1").err().unwrap().to_string();
        assert!(error.contains("nonsense"), "{error}");
        let error = Address::parse("postgres://a/b?sslmode=require&sslrootcert=/no/such.pem").err().unwrap();
        assert!(error.to_string().contains("/no/such.pem"), "{error}");
    }
}
