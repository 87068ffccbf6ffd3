//! What can fail within the server.

use crate::commit_queue::CommitError;
use crate::federation::ResumeError;
use crate::secret::NoRandomness;
use crate::storage::StorageError;
use crate::versions::VersionStoreError;
use sottovoce_federation::{FederationError, UploadsError};

/// Why the server could not start, or something that it does failed.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// A change was not stored.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The database.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The shared models.
    #[error(transparent)]
    Versions(#[from] VersionStoreError),
    /// A round.
    #[error(transparent)]
    Federation(#[from] FederationError),
    /// A federation that cannot be resumed.
    #[error(transparent)]
    Resume(#[from] ResumeError),
    /// The files of retained uploads.
    #[error("retained uploads: {0}")]
    Uploads(#[from] UploadsError),
    /// No token could be drawn.
    #[error(transparent)]
    Randomness(#[from] NoRandomness),
    /// A task that panicked.
    #[error("a worker stopped: {0}")]
    Worker(#[from] tokio::task::JoinError),
    /// The system.
    #[error("a thread or a file failed: {0}")]
    System(#[from] std::io::Error),
}
