//! What an audit cannot do.

use std::path::PathBuf;
use thiserror::Error;

/// Why there is no audit.
#[derive(Debug, Error)]
pub enum AuditError {
    /// A model whose updates no attack here reads.
    #[error("{model} cannot be audited: it is not a federated model, or its updates expose nothing")]
    Model {
        /// The model.
        model: String,
    },
    /// A model that goes by facts of the items, without them.
    #[error("{model} sends rows of features: the audit needs the facts of the items (--graph)")]
    NoFacts {
        /// The model.
        model: String,
    },
    /// Nobody sent anything.
    #[error("nothing was recorded: no audited person sent an update")]
    Nothing,
    /// A file of recorded uploads.
    #[error("{}: {what}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
}
