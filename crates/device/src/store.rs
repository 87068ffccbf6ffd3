//! Where a device stores what must survive.

use crate::Items;
use sottovoce_protocol::SharedModel;
use std::sync::Arc;
use thiserror::Error;

/// A store that cannot be read or written. Nothing was overwritten.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The file system failed.
    #[error("{doing} {path}: {error}")]
    Io {
        /// The operation.
        doing: &'static str,
        /// The file.
        path: String,
        /// The cause.
        error: std::io::Error,
    },
    /// Another process uses the folder.
    #[error("{0} is in use by another process")]
    InUse(String),
    /// The file was encrypted under another key.
    #[error("{0} was encrypted under another key than the one given")]
    Key(String),
    /// The file is damaged.
    #[error("{path} is damaged: {what}")]
    Damaged {
        /// The file.
        path: String,
        /// What is wrong.
        what: String,
    },
    /// The operating system gives no random numbers.
    #[error("no random numbers: {0}")]
    Random(String),
    /// A store of the embedder failed.
    #[error("{0}")]
    Other(String),
}

/// Where a device stores its state. The state is one small block that changes atomically; shared model and catalog,
/// which are large and can be downloaded again, are stored apart from it.
pub trait Store: Send {
    /// The state committed last.
    ///
    /// # Errors
    /// If there is one that cannot be read.
    fn load(&mut self) -> Result<Option<Vec<u8>>, StoreError>;

    /// Replaces the state, atomically and durably: if this fails, the earlier state is still there.
    ///
    /// # Errors
    /// If it cannot be written.
    fn commit(&mut self, state: &[u8]) -> Result<(), StoreError>;

    /// The shared model saved last.
    ///
    /// # Errors
    /// If there is one that cannot be read.
    fn load_model(&mut self) -> Result<Option<Arc<SharedModel>>, StoreError>;

    /// Replaces the shared model.
    ///
    /// # Errors
    /// If it cannot be written.
    fn save_model(&mut self, model: &Arc<SharedModel>) -> Result<(), StoreError>;

    /// The catalog saved last.
    ///
    /// # Errors
    /// If there is one that cannot be read.
    fn load_catalog(&mut self) -> Result<Option<Arc<Items>>, StoreError>;

    /// Replaces the catalog.
    ///
    /// # Errors
    /// If it cannot be written.
    fn save_catalog(&mut self, items: &Arc<Items>) -> Result<(), StoreError>;

    /// Deletes shared model and catalog, before another device enrols here.
    ///
    /// # Errors
    /// If they cannot be deleted.
    fn clear_downloads(&mut self) -> Result<(), StoreError>;
}

/// Stores everything in memory: for fleets, tests, and devices that start afresh each time. Models and catalogs are
/// shared with whoever else holds them.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    state: Option<Vec<u8>>,
    model: Option<Arc<SharedModel>>,
    items: Option<Arc<Items>>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Store for MemoryStore {
    fn load(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.state.clone())
    }

    fn commit(&mut self, state: &[u8]) -> Result<(), StoreError> {
        let stored = self.state.get_or_insert_default();
        stored.clear();
        stored.extend_from_slice(state);
        Ok(())
    }

    fn load_model(&mut self) -> Result<Option<Arc<SharedModel>>, StoreError> {
        Ok(self.model.clone())
    }

    fn save_model(&mut self, model: &Arc<SharedModel>) -> Result<(), StoreError> {
        self.model = Some(Arc::clone(model));
        Ok(())
    }

    fn load_catalog(&mut self) -> Result<Option<Arc<Items>>, StoreError> {
        Ok(self.items.clone())
    }

    fn save_catalog(&mut self, items: &Arc<Items>) -> Result<(), StoreError> {
        self.items = Some(Arc::clone(items));
        Ok(())
    }

    fn clear_downloads(&mut self) -> Result<(), StoreError> {
        (self.model, self.items) = (None, None);
        Ok(())
    }
}

/// Fresh random bytes, where the build knows where from.
#[cfg(feature = "files")]
pub(crate) fn system_entropy() -> Result<[u8; 32], StoreError> {
    random_bytes()
}

/// Fresh random bytes, where the build knows where from.
#[cfg(not(feature = "files"))]
pub(crate) fn system_entropy() -> Result<[u8; 32], StoreError> {
    Err(StoreError::Random("this build has no source of them; its embedder sets Options::entropy".to_owned()))
}

/// Random bytes of the operating system.
#[cfg(feature = "files")]
pub(crate) fn random_bytes<const N: usize>() -> Result<[u8; N], StoreError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| StoreError::Random(error.to_string()))?;
    Ok(bytes)
}

/// A secret for a new device, from the operating system's random numbers.
///
/// # Errors
/// If it gives none.
#[cfg(feature = "files")]
pub fn random_secret() -> Result<sottovoce_client::Secret, StoreError> {
    random_bytes().map(sottovoce_client::Secret::new)
}
