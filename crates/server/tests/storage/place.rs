//! Where a test keeps its database.

use sottovoce_server::storage::{Storage, StorageError, open};
use tempfile::TempDir;

/// An empty database of a test's own, which is gone with it.
pub(crate) struct Place {
    url: String,
    _folder: Option<TempDir>,
}

impl Place {
    pub(crate) fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("server.db").display());
        Self { url, _folder: Some(folder) }
    }

    pub(crate) fn open(&self) -> Box<dyn Storage> {
        self.try_open().unwrap()
    }

    pub(crate) fn try_open(&self) -> Result<Box<dyn Storage>, StorageError> {
        open(&self.url)
    }
}
