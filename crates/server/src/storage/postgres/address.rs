//! Where a database is and how it is reached: the URL, and TLS.

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

/// A database server that does not answer is given up after this long.
const CONNECT: Duration = Duration::from_secs(10);
/// A connection on which nothing was acknowledged for this long is lost.
const SILENCE: Duration = Duration::from_secs(30);

/// A way to a database.
pub(super) struct Address {
    config: Config,
    tls: Option<MakeRustlsConnect>,
    /// For people; without the password.
    pub(super) name: String,
}

impl Address {
    /// Reads a URL. Where `sslmode` asks for TLS (`require`, `verify-ca`, `verify-full`), the server's certificate and
    /// name are always verified: against the file `sslrootcert` if that is given, otherwise against the system's roots.
    /// Without `sslmode` there is no TLS.
    ///
    /// # Errors
    /// If it is not a PostgreSQL URL, or there are no roots to trust.
    pub(super) fn parse(url: &str) -> Result<Self, StorageError> {
        let (rest, secure, roots) = take_tls(url);
        let mut config: Config = rest.parse().map_err(|error: ::postgres::Error| {
            let reason = std::error::Error::source(&error).map_or(error.to_string(), ToString::to_string);
            wrong("the PostgreSQL URL", reason)
        })?;
        config.ssl_mode(if secure { SslMode::Require } else { SslMode::Disable });
        if config.get_application_name().is_none() {
            config.application_name("sottovoce");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(SILENCE);
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

/// The URL without its words on TLS, whether TLS is asked for, and the file with roots.
fn take_tls(url: &str) -> (String, bool, Option<PathBuf>) {
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
        return Err(
            "TLS is asked for, but there is no certificate to trust; sslrootcert=FILE names some".into()
        );
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
    fn words_on_tls_are_understood_and_others_left() {
        let taken = |url| take_tls(url);
        assert_eq!(taken("postgres://a/b"), ("postgres://a/b".into(), false, None));
        let plain = "postgres://a/b?sslmode=disable&connect_timeout=3";
        assert_eq!(taken(plain), (plain.into(), false, None));
        assert_eq!(
            taken("postgres://a/b?sslmode=verify-full&options=x&sslrootcert=/r.pem"),
            ("postgres://a/b?options=x".into(), true, Some("/r.pem".into()))
        );
        assert_eq!(taken("postgres://a/b?sslrootcert=system&sslmode=require").2, None);
    }

    #[test]
    fn passwords_are_not_shown_and_errors_name_what_is_wrong() {
        let address = Address::parse("postgres://ada:geheim@db.example:5433/town").unwrap();
        assert_eq!(address.name, "postgres://db.example:5433/town");
        let error = Address::parse("postgres://a/b?nonsense=1").err().unwrap().to_string();
        assert!(error.contains("nonsense"), "{error}");
        let error = Address::parse("postgres://a/b?sslmode=require&sslrootcert=/no/such.pem").err().unwrap();
        assert!(error.to_string().contains("/no/such.pem"), "{error}");
    }
}
