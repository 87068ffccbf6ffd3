//! Versions of shared models, each an object in a folder or in an S3-compatible store.
//!
//! Objects are safetensors files, which other tools can read; they are large and never change, which is why they are not in
//! the database. An object is there before the database says that its version is current.

mod object;

use futures_util::TryStreamExt;
use object_store::local::LocalFileSystem;
use object_store::path::Path as Key;
use object_store::{ObjectStore, ObjectStoreExt};
use sottovoce_protocol::Parameters;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

/// Everything that is needed to go on from a version.
#[derive(Clone, Debug, PartialEq)]
pub struct VersionState {
    /// Its federation.
    pub federation: u64,
    /// Its number.
    pub version: u64,
    /// The federation's name; for people.
    pub name: String,
    /// The model's name; for people.
    pub model: String,
    /// The shared model.
    pub shared: Parameters,
    /// What the rounds need besides: the strategy's memory, what devices hold.
    pub state: Vec<u8>,
}

/// Why a version was not stored or found.
#[derive(Debug, Error)]
pub enum VersionsError {
    /// There is no place for versions there.
    #[error("versions in {place}: {reason}")]
    Place {
        /// As it was given.
        place: String,
        /// What is wrong.
        reason: String,
    },
    /// The folder or store says no.
    #[error("{object}: {reason}")]
    Store {
        /// Which object, and where.
        object: String,
        /// What it says.
        reason: String,
    },
    /// The object is not there.
    #[error("{object} is missing")]
    Missing {
        /// Which object, and where.
        object: String,
    },
    /// What is in the object makes no sense.
    #[error("{object}: {reason}")]
    Damaged {
        /// Which object, and where.
        object: String,
        /// What is wrong.
        reason: String,
    },
    /// A version that is or was current is not written again.
    #[error("version {version} of federation {federation} is not written: version {current} is current")]
    Current {
        /// Its federation.
        federation: u64,
        /// The version that was to be written.
        version: u64,
        /// The one that is current.
        current: u64,
    },
}

/// Where versions are kept.
#[derive(Clone, Debug)]
pub struct Versions {
    store: Arc<dyn ObjectStore>,
    prefix: Key,
    place: String,
}

impl Versions {
    /// Opens a place: a folder (a path or `file:` and a path), which is created if it is not there, or `s3://BUCKET/PREFIX`
    /// with region, endpoint and credentials from the environment (`AWS_REGION`, `AWS_ENDPOINT_URL`,
    /// `AWS_ACCESS_KEY_ID`, ...; `AWS_ALLOW_HTTP=true` for a store without TLS).
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(place: &str) -> Result<Self, VersionsError> {
        Self::open_with(
            place,
            std::env::vars_os()
                .filter_map(|(key, value)| Some((key.to_str()?.to_owned(), value.to_str()?.to_owned()))),
        )
    }

    /// The same with an environment of one's own.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open_with(
        place: &str,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, VersionsError> {
        let wrong = |reason| VersionsError::Place { place: place.to_owned(), reason };
        let (store, prefix) = match place.strip_prefix("s3://") {
            Some(rest) => bucket(rest, environment).map_err(wrong)?,
            None => (folder(place).map_err(wrong)?, Key::default()),
        };
        Ok(Self { store, prefix, place: place.trim_end_matches('/').to_owned() })
    }

    /// Writes a version durably, and says how many bytes it has. One that does not come after the current one is not
    /// written; one that was written before a crash and has not become current may be written again.
    ///
    /// # Errors
    /// If it does not come after the current version, or cannot be written.
    pub async fn put(&self, state: &VersionState, current: Option<u64>) -> Result<u64, VersionsError> {
        let (federation, version) = (state.federation, state.version);
        if let Some(current) = current.filter(|current| version <= *current) {
            return Err(VersionsError::Current { federation, version, current });
        }
        let key = self.key(federation, version);
        let bytes = object::encode(state).map_err(|reason| self.damaged(&key, reason))?;
        let length = bytes.len() as u64;
        self.store.put(&key, bytes.into()).await.map_err(|error| self.failed(&key, &error))?;
        Ok(length)
    }

    /// Reads a version.
    ///
    /// # Errors
    /// If it is missing or damaged, or cannot be read.
    pub async fn get(&self, federation: u64, version: u64) -> Result<VersionState, VersionsError> {
        let key = self.key(federation, version);
        let found = self.store.get(&key).await.map_err(|error| self.failed(&key, &error))?;
        let bytes = found.bytes().await.map_err(|error| self.failed(&key, &error))?;
        let state = object::decode(&bytes).map_err(|reason| self.damaged(&key, reason))?;
        if (state.federation, state.version) != (federation, version) {
            let reason = format!("holds version {} of federation {}", state.version, state.federation);
            return Err(self.damaged(&key, reason));
        }
        Ok(state)
    }

    /// Removes a version, if it is there.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub async fn delete(&self, federation: u64, version: u64) -> Result<(), VersionsError> {
        let key = self.key(federation, version);
        match self.store.delete(&key).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed(&key, &error)),
        }
    }

    /// The versions of a federation that are there, ascending.
    ///
    /// # Errors
    /// If they cannot be listed.
    pub async fn list(&self, federation: u64) -> Result<Vec<u64>, VersionsError> {
        let folder = self.folder(federation);
        let found: Vec<_> = self
            .store
            .list(Some(&folder))
            .try_collect()
            .await
            .map_err(|error| self.failed(&folder, &error))?;
        let version = |key: &Key| key.filename()?.strip_suffix(".safetensors")?.parse().ok();
        let mut versions: Vec<u64> = found.iter().filter_map(|meta| version(&meta.location)).collect();
        versions.sort_unstable();
        Ok(versions)
    }

    fn folder(&self, federation: u64) -> Key {
        self.prefix.clone().join("federations").join(federation.to_string())
    }

    fn key(&self, federation: u64, version: u64) -> Key {
        self.folder(federation).join(format!("{version:010}.safetensors"))
    }

    fn named(&self, key: &Key) -> String {
        let within = key
            .prefix_match(&self.prefix)
            .map(|parts| parts.map(|part| part.as_ref().to_owned()).collect::<Vec<_>>());
        format!("{}/{}", self.place, within.unwrap_or_default().join("/"))
    }

    fn failed(&self, key: &Key, error: &object_store::Error) -> VersionsError {
        let object = self.named(key);
        match error {
            object_store::Error::NotFound { .. } => VersionsError::Missing { object },
            other => VersionsError::Store { object, reason: other.to_string() },
        }
    }

    fn damaged(&self, key: &Key, reason: String) -> VersionsError {
        VersionsError::Damaged { object: self.named(key), reason }
    }
}

type Store = Arc<dyn ObjectStore>;

fn folder(place: &str) -> Result<Store, String> {
    let path = place.strip_prefix("file://").or_else(|| place.strip_prefix("file:")).unwrap_or(place);
    if path.is_empty() {
        return Err("no folder is named".into());
    }
    let path = PathBuf::from(path);
    std::fs::create_dir_all(&path).map_err(|error| format!("cannot be created: {error}"))?;
    tidy(&path).map_err(|error| format!("cannot be tidied up: {error}"))?;
    let store = LocalFileSystem::new_with_prefix(&path).map_err(|error| error.to_string())?;
    Ok(Arc::new(store.with_fsync(true)))
}

/// Removes what was being written when a server was killed: `NAME#NUMBER`, which becomes NAME when it is whole.
fn tidy(path: &Path) -> std::io::Result<()> {
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

#[cfg(not(feature = "s3"))]
fn bucket(_: &str, _: impl IntoIterator<Item = (String, String)>) -> Result<(Store, Key), String> {
    Err("needs the cargo feature `s3`, which this build leaves out".to_owned())
}

#[cfg(feature = "s3")]
fn bucket(
    rest: &str,
    environment: impl IntoIterator<Item = (String, String)>,
) -> Result<(Store, Key), String> {
    use object_store::ClientConfigKey;
    use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    if bucket.is_empty() {
        return Err("no bucket is named".into());
    }
    // The HTTP client takes the process's own; another part may have set it, to the same.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // A large model on a slow line takes minutes.
    let timeout = AmazonS3ConfigKey::Client(ClientConfigKey::Timeout);
    let mut builder = AmazonS3Builder::new().with_config(timeout, "10 minutes");
    for (key, value) in environment.into_iter().filter(|(key, _)| key.starts_with("AWS_")) {
        if let Ok(key) = key.to_ascii_lowercase().parse() {
            builder = builder.with_config(key, value);
        }
    }
    let store = builder.with_bucket_name(bucket).build().map_err(|error| error.to_string())?;
    let prefix = Key::parse(prefix).map_err(|error| error.to_string())?;
    Ok((Arc::new(store), prefix))
}
