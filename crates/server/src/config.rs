//! Configuration of the server: a TOML file, which environment variables and flags override.

use crate::http::callers::AddressLimit;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// Configuration of a server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Address and port; port 0 selects a free one.
    pub listen: String,
    /// Address and port for operators alone, whom devices then cannot keep out; default: they share `listen`.
    pub operator_listen: Option<String>,
    /// The folder for everything that has no other location.
    pub data: PathBuf,
    /// The database: a path, `sqlite:PATH` or `postgres://...`; default: a file in `data`.
    pub database: Option<String>,
    /// The store of model versions: a folder or `s3://bucket/prefix`; default: a folder in `data`.
    pub models: Option<String>,
    /// Certificate and key; default: no TLS.
    pub tls: Option<Tls>,
    /// The largest number of simultaneous connections.
    pub connections: usize,
    /// The largest number of simultaneous connections of one address (of IPv6: of one network of 64 bits); 0: any;
    /// default: 256, but any number from this machine, where a proxy may be.
    pub connections_per_address: Option<usize>,
    /// Threads that handle requests; 0: one per core.
    pub threads: usize,
    /// The log level, or a filter: `error`, `warn`, `info`, `debug`.
    pub log: String,
    /// Whether the log is in JSON, one object per line.
    pub log_json: bool,
    /// Whether this start creates a new admin's token, because the others are lost. No setting of a file.
    #[serde(skip)]
    pub new_admin_token: bool,
}

/// Configuration of TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tls {
    /// The certificate chain, in PEM.
    pub certificate: Option<PathBuf>,
    /// Its private key, in PEM.
    pub key: Option<PathBuf>,
    /// Names of a self-signed certificate, for development only.
    pub self_signed: Vec<String>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:8470".to_owned(),
            operator_listen: None,
            data: PathBuf::from("sottovoce-server"),
            database: None,
            models: None,
            tls: None,
            connections: 10_000,
            connections_per_address: None,
            threads: 0,
            log: "info".to_owned(),
            log_json: false,
            new_admin_token: false,
        }
    }
}

/// Why a configuration is invalid.
#[derive(Debug, thiserror::Error)]
pub enum ConfigFileError {
    /// The file cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The file is invalid.
    #[error("{}: {error}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Where and why.
        error: Box<toml::de::Error>,
    },
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, or a line is invalid.
    pub fn read(path: &Path) -> Result<Self, ConfigFileError> {
        let failed = |error| ConfigFileError::Read { path: path.to_owned(), error };
        let invalid = |error| ConfigFileError::Parse { path: path.to_owned(), error: Box::new(error) };
        toml::from_str(&std::fs::read_to_string(path).map_err(failed)?).map_err(invalid)
    }

    /// How many connections one address may have.
    pub(crate) fn per_address(&self) -> AddressLimit {
        let given = |connections| AddressLimit { connections, local: true };
        self.connections_per_address.map_or_else(AddressLimit::default, given)
    }

    /// The address of the database.
    pub fn database(&self) -> String {
        let in_data = || format!("sqlite:{}", self.data.join("server.sqlite").display());
        self.database.clone().unwrap_or_else(in_data)
    }

    /// The store of model versions.
    pub fn models(&self) -> String {
        self.models.clone().unwrap_or_else(|| self.data.join("models").display().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_overrides_defaults_and_errors_name_the_line() {
        let config: Config = toml::from_str("listen = '0.0.0.0:1'\n[tls]\nself_signed = ['localhost']").unwrap();
        assert_eq!((config.listen.as_str(), config.connections), ("0.0.0.0:1", 10_000));
        assert_eq!(config.database(), "sqlite:sottovoce-server/server.sqlite");
        assert_eq!(config.tls.map(|tls| tls.self_signed), Some(vec!["localhost".to_owned()]));
        let wrong = toml::from_str::<Config>("listen = '0.0.0.0:1'\nport = 3").unwrap_err().to_string();
        assert!(wrong.contains("line 2") && wrong.contains("port"), "{wrong}");
    }
}
