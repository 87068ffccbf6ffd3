//! Where a device keeps what must survive.

use crate::Items;
use sottovoce_protocol::SharedModel;
use std::sync::Arc;
use thiserror::Error;

/// A store that cannot be read or written. Nothing was overwritten.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The file system says no.
    #[error("{doing} {path}: {error}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// With which file.
        path: String,
        /// Why not.
        error: std::io::Error,
    },
    /// Another process uses the folder.
    #[error("{path} is in use by another process")]
    InUse {
        /// The folder.
        path: String,
    },
    /// The file was sealed with another key.
    #[error("{path} was sealed with another key than the one given")]
    Key {
        /// The file.
        path: String,
    },
    /// The file is not as it was written.
    #[error("{path} is damaged: {what}")]
    Damaged {
        /// The file.
        path: String,
        /// What is wrong.
        what: String,
    },
    /// The machine gives no random numbers.
    #[error("no random numbers: {what}")]
    Random {
        /// Why not.
        what: String,
    },
    /// A store of the embedder's failed.
    #[error("{0}")]
    Other(String),
}

/// Where a device keeps its state. The small state is one block that changes whole or not at all; shared model and catalog,
/// which are large and can be had again, are kept apart from it.
pub trait Store: Send {
    /// The state kept last.
    ///
    /// # Errors
    /// If there is one that cannot be read.
    fn load(&mut self) -> Result<Option<Vec<u8>>, StoreError>;

    /// Keeps a state in the place of the one before: when this returns, it survives whatever happens; if it fails, the one
    /// before is still there.
    ///
    /// # Errors
    /// If it cannot be kept.
    fn commit(&mut self, state: &[u8]) -> Result<(), StoreError>;

    /// The shared model kept last.
    ///
    /// # Errors
    /// If there is one that cannot be read.
    fn model(&mut self) -> Result<Option<Arc<SharedModel>>, StoreError>;

    /// Keeps a shared model.
    ///
    /// # Errors
    /// If it cannot be kept.
    fn keep_model(&mut self, model: &Arc<SharedModel>) -> Result<(), StoreError>;

    /// Throws shared model and catalog away, before another device begins here.
    ///
    /// # Errors
    /// If they cannot be removed.
    fn forget(&mut self) -> Result<(), StoreError>;

    /// The catalog kept last.
    ///
    /// # Errors
    /// If there is one that cannot be read.
    fn items(&mut self) -> Result<Option<Arc<Items>>, StoreError>;

    /// Keeps a catalog.
    ///
    /// # Errors
    /// If it cannot be kept.
    fn keep_items(&mut self, items: &Arc<Items>) -> Result<(), StoreError>;
}

/// Keeps everything in memory: for fleets, tests, and devices that begin anew each time. ModelCache and catalogs are shared with
/// whoever else holds them.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    state: Option<Vec<u8>>,
    model: Option<Arc<SharedModel>>,
    items: Option<Arc<Items>>,
}

impl MemoryStore {
    /// Empty.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Store for MemoryStore {
    fn load(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.state.clone())
    }

    fn commit(&mut self, state: &[u8]) -> Result<(), StoreError> {
        let kept = self.state.get_or_insert_default();
        kept.clear();
        kept.extend_from_slice(state);
        Ok(())
    }

    fn model(&mut self) -> Result<Option<Arc<SharedModel>>, StoreError> {
        Ok(self.model.clone())
    }

    fn keep_model(&mut self, model: &Arc<SharedModel>) -> Result<(), StoreError> {
        self.model = Some(Arc::clone(model));
        Ok(())
    }

    fn forget(&mut self) -> Result<(), StoreError> {
        (self.model, self.items) = (None, None);
        Ok(())
    }

    fn items(&mut self) -> Result<Option<Arc<Items>>, StoreError> {
        Ok(self.items.clone())
    }

    fn keep_items(&mut self, items: &Arc<Items>) -> Result<(), StoreError> {
        self.items = Some(Arc::clone(items));
        Ok(())
    }
}

/// One store that several hold, one after the other: what a device killed and begun anew finds again.
impl<S: Store> Store for Arc<std::sync::Mutex<S>> {
    fn load(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
        locked(self)?.load()
    }

    fn commit(&mut self, state: &[u8]) -> Result<(), StoreError> {
        locked(self)?.commit(state)
    }

    fn model(&mut self) -> Result<Option<Arc<SharedModel>>, StoreError> {
        locked(self)?.model()
    }

    fn keep_model(&mut self, model: &Arc<SharedModel>) -> Result<(), StoreError> {
        locked(self)?.keep_model(model)
    }

    fn forget(&mut self) -> Result<(), StoreError> {
        locked(self)?.forget()
    }

    fn items(&mut self) -> Result<Option<Arc<Items>>, StoreError> {
        locked(self)?.items()
    }

    fn keep_items(&mut self, items: &Arc<Items>) -> Result<(), StoreError> {
        locked(self)?.keep_items(items)
    }
}

fn locked<S>(store: &std::sync::Mutex<S>) -> Result<std::sync::MutexGuard<'_, S>, StoreError> {
    store
        .lock()
        .map_err(|_| StoreError::Other("another holder of this store broke off in the middle".to_owned()))
}
/// A device's secret, from the machine's random numbers.
///
/// # Errors
/// If the machine gives none.
#[cfg(feature = "files")]
pub fn random_secret() -> Result<sottovoce_client::Secret, StoreError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| StoreError::Random { what: error.to_string() })?;
    Ok(sottovoce_client::Secret::new(bytes))
}
