//! The store of model versions: each is an object in a folder or in an S3-compatible store.
//!
//! Objects are safetensors files, which other tools can read. They are large and never change, and therefore not in the
//! database. An object is written before the database records its version as current.

mod object;
#[cfg(feature = "s3")]
mod s3;

use object_store::local::LocalFileSystem;
use object_store::path::Path as Key;
use object_store::{ObjectStore, ObjectStoreExt};
use sottovoce_protocol::Parameters;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

/// Everything needed to resume training from a version.
#[derive(Clone, Debug, PartialEq)]
pub struct VersionState {
    /// Its federation.
    pub federation: u64,
    /// Its number.
    pub version: u64,
    /// The federation's name, for readers of the file.
    pub name: String,
    /// The model's name, for readers of the file.
    pub model: String,
    /// The shared model.
    pub shared: Parameters,
    /// The coordinator's other state: of the strategy, and what devices hold.
    pub state: Vec<u8>,
}

/// Why a version was not stored or read.
#[derive(Debug, Error)]
pub enum VersionStoreError {
    /// The location is invalid.
    #[error("versions in {location}: {reason}")]
    Location {
        /// As given.
        location: String,
        /// What is wrong.
        reason: String,
    },
    /// The folder or store reported an error.
    #[error("{object}: {reason}")]
    Store {
        /// Which object, and where.
        object: String,
        /// What it reports.
        reason: String,
    },
    /// The object does not exist.
    #[error("{0} is missing")]
    Missing(String),
    /// The object is invalid.
    #[error("{object}: {reason}")]
    Corrupt {
        /// Which object, and where.
        object: String,
        /// What is wrong.
        reason: String,
    },
    /// A version that is or was current is never overwritten.
    #[error("version {version} of federation {federation} is not written: version {current} is current")]
    Current {
        /// Its federation.
        federation: u64,
        /// The version to be written.
        version: u64,
        /// The current version.
        current: u64,
    },
}

/// A store of versions.
#[derive(Clone, Debug)]
pub struct VersionStore {
    store: Arc<dyn ObjectStore>,
    prefix: Key,
    location: String,
}

impl VersionStore {
    /// Opens a location: a folder (a path, or `file:` and a path), created if it does not exist, or
    /// `s3://BUCKET/PREFIX`, with region, endpoint and credentials from the environment (`AWS_REGION`,
    /// `AWS_ENDPOINT_URL`, `AWS_ACCESS_KEY_ID`, ...; `AWS_ALLOW_HTTP=true` for a store without TLS).
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(location: &str) -> Result<Self, VersionStoreError> {
        let text = |(key, value): (OsString, OsString)| Some((key.into_string().ok()?, value.into_string().ok()?));
        Self::open_with(location, std::env::vars_os().filter_map(text))
    }

    /// Opens a location with variables instead of the environment's.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open_with(
        location: &str,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, VersionStoreError> {
        let wrong = |reason| VersionStoreError::Location { location: location.to_owned(), reason };
        #[cfg(not(feature = "s3"))]
        drop(environment);
        let (store, prefix) = match location.strip_prefix("s3://") {
            #[cfg(feature = "s3")]
            Some(rest) => s3::open(rest, environment).map_err(wrong)?,
            #[cfg(not(feature = "s3"))]
            Some(_) => return Err(wrong("needs the cargo feature `s3`, which this build leaves out".to_owned())),
            None => (folder(location).map_err(wrong)?, Key::default()),
        };
        Ok(Self { store, prefix, location: location.trim_end_matches('/').to_owned() })
    }

    /// Writes a version durably and returns its size in bytes. A version that was written before a crash and has not
    /// become current may be written again.
    ///
    /// # Errors
    /// If it does not follow the current version, or cannot be written.
    pub async fn put(&self, state: &VersionState, current: Option<u64>) -> Result<u64, VersionStoreError> {
        let (federation, version) = (state.federation, state.version);
        if let Some(current) = current.filter(|current| version <= *current) {
            return Err(VersionStoreError::Current { federation, version, current });
        }
        let key = self.key(federation, version);
        let bytes = object::encode(state).map_err(|reason| self.corrupt(&key, reason))?;
        let length = bytes.len() as u64;
        self.store.put(&key, bytes.into()).await.map_err(|error| self.failed(&key, &error))?;
        Ok(length)
    }

    /// Reads a version.
    ///
    /// # Errors
    /// If it is missing or corrupt, or cannot be read.
    pub async fn get(&self, federation: u64, version: u64) -> Result<VersionState, VersionStoreError> {
        let key = self.key(federation, version);
        let found = self.store.get(&key).await.map_err(|error| self.failed(&key, &error))?;
        let bytes = found.bytes().await.map_err(|error| self.failed(&key, &error))?;
        let state = object::decode(&bytes).map_err(|reason| self.corrupt(&key, reason))?;
        if (state.federation, state.version) != (federation, version) {
            let reason = format!("holds version {} of federation {}", state.version, state.federation);
            return Err(self.corrupt(&key, reason));
        }
        Ok(state)
    }

    /// Removes a version, if it exists.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub async fn delete(&self, federation: u64, version: u64) -> Result<(), VersionStoreError> {
        let key = self.key(federation, version);
        match self.store.delete(&key).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed(&key, &error)),
        }
    }

    fn key(&self, federation: u64, version: u64) -> Key {
        let folder = self.prefix.clone().join("federations").join(federation.to_string());
        folder.join(format!("{version:010}.safetensors"))
    }

    fn named(&self, key: &Key) -> String {
        let within =
            key.prefix_match(&self.prefix).map(|parts| parts.map(|part| part.as_ref().to_owned()).collect::<Vec<_>>());
        format!("{}/{}", self.location, within.unwrap_or_default().join("/"))
    }

    fn failed(&self, key: &Key, error: &object_store::Error) -> VersionStoreError {
        let object = self.named(key);
        match error {
            object_store::Error::NotFound { .. } => VersionStoreError::Missing(object),
            other => VersionStoreError::Store { object, reason: other.to_string() },
        }
    }

    fn corrupt(&self, key: &Key, reason: String) -> VersionStoreError {
        VersionStoreError::Corrupt { object: self.named(key), reason }
    }
}

type Store = Arc<dyn ObjectStore>;

fn folder(location: &str) -> Result<Store, String> {
    let path = location.strip_prefix("file://").or_else(|| location.strip_prefix("file:")).unwrap_or(location);
    if path.is_empty() {
        return Err("no folder is named".into());
    }
    let path = PathBuf::from(path);
    std::fs::create_dir_all(&path).map_err(|error| format!("cannot be created: {error}"))?;
    remove_partial(&path).map_err(|error| format!("partial files cannot be removed: {error}"))?;
    let store = LocalFileSystem::new_with_prefix(&path).map_err(|error| error.to_string())?;
    Ok(Arc::new(store.with_fsync(true)))
}

/// Removes files that were being written when a server was killed: `NAME#NUMBER`, renamed to NAME when complete.
fn remove_partial(path: &Path) -> std::io::Result<()> {
    let federations = match std::fs::read_dir(path.join("federations")) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    for federation in federations {
        for file in std::fs::read_dir(federation?.path())? {
            let file = file?;
            let name = file.file_name();
            let staged = name.to_str().and_then(|name| name.split_once(".safetensors#"));
            if staged.is_some_and(|(_, number)| number.bytes().all(|byte| byte.is_ascii_digit())) {
                std::fs::remove_file(file.path())?;
            }
        }
    }
    Ok(())
}
