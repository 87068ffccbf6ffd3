//! The server's own configuration: a file in TOML, over which environment and flags are put.

use crate::http::tls::Certificate;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// Where to listen, what to stand on.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Address and port; port 0 takes a free one.
    pub listen: String,
    /// Where everything goes that has no other place.
    pub data: PathBuf,
    /// The database: a path, `sqlite:PATH` or `postgres://...`; not given: a file in `data`.
    pub database: Option<String>,
    /// Where versions of shared models go: a folder or `s3://bucket/prefix`; not given: a folder in `data`.
    pub models: Option<String>,
    /// Certificate and key; not given: no TLS.
    pub tls: Option<Tls>,
    /// Connections at the same time.
    pub connections: usize,
    /// Threads that answer requests; 0: as many as cores.
    pub threads: usize,
    /// What is logged: `error`, `warn`, `info`, `debug`, or a filter.
    pub log: String,
    /// Whether logs are lines of JSON.
    pub log_json: bool,
}

/// TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tls {
    /// The certificate, and those that vouch for it, in PEM.
    pub certificate: Option<PathBuf>,
    /// Its private key, in PEM.
    pub key: Option<PathBuf>,
    /// Names to make a certificate for: for development only.
    pub self_signed: Vec<String>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:8470".to_owned(),
            data: PathBuf::from("sottovoce-server"),
            database: None,
            models: None,
            tls: None,
            connections: 10_000,
            threads: 0,
            log: "info".to_owned(),
            log_json: false,
        }
    }
}

/// What is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigFileError {
    /// It cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// It is not understood.
    #[error("{}: {error}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Where and why.
        error: Box<toml::de::Error>,
    },
    /// TLS needs both files or names.
    #[error("tls: give certificate and key, or self_signed names, and not both")]
    Tls,
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, or has a line that is not understood.
    pub fn read(path: &Path) -> Result<Self, ConfigFileError> {
        let read = std::fs::read_to_string(path);
        let text = read.map_err(|error| ConfigFileError::Read { path: path.to_owned(), error })?;
        toml::from_str(&text)
            .map_err(|error| ConfigFileError::Parse { path: path.to_owned(), error: Box::new(error) })
    }

    /// The database's address.
    pub fn database(&self) -> String {
        let in_data = || format!("sqlite:{}", self.data.join("server.sqlite").display());
        self.database.clone().unwrap_or_else(in_data)
    }

    /// Where versions go.
    pub fn models(&self) -> String {
        self.models.clone().unwrap_or_else(|| self.data.join("models").display().to_string())
    }

    /// Where certificate and key come from; `None` without TLS.
    ///
    /// # Errors
    /// If only half of it is said, or too much.
    pub fn certificate(&self) -> Result<Option<Certificate>, ConfigFileError> {
        let Some(tls) = &self.tls else { return Ok(None) };
        match (&tls.certificate, &tls.key, &tls.self_signed[..]) {
            (Some(certificate), Some(key), []) => {
                Ok(Some(Certificate::Files { certificate: certificate.clone(), key: key.clone() }))
            }
            (None, None, names) if !names.is_empty() => {
                let folder = self.data.join("tls");
                Ok(Some(Certificate::SelfSigned { names: names.to_vec(), folder }))
            }
            _ => Err(ConfigFileError::Tls),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_put_over_the_defaults_and_a_wrong_line_is_named() {
        let config: Config =
            toml::from_str("listen = '0.0.0.0:1'\n[tls]\nself_signed = ['localhost']").unwrap();
        assert_eq!((config.listen.as_str(), config.connections), ("0.0.0.0:1", 10_000));
        assert_eq!(config.database(), "sqlite:sottovoce-server/server.sqlite");
        assert!(matches!(config.certificate(), Ok(Some(Certificate::SelfSigned { .. }))));
        let half = Tls { key: Some("key.pem".into()), ..Tls::default() };
        let half = Config { tls: Some(half), ..Config::default() };
        assert!(matches!(half.certificate(), Err(ConfigFileError::Tls)));
        let wrong = toml::from_str::<Config>("listen = '0.0.0.0:1'\nport = 3").unwrap_err().to_string();
        assert!(wrong.contains("line 2") && wrong.contains("port"), "{wrong}");
    }
}
