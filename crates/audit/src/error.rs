//! Errors of an audit.

use thiserror::Error;

/// Why a model or a run cannot be audited.
#[derive(Debug, Error)]
pub enum AuditError {
    /// Not a federated model, or its updates expose nothing.
    #[error("{0} cannot be audited: it is not a federated model, or its updates expose nothing")]
    Model(String),
    /// The model needs facts about items, and there are none.
    #[error("{0} sends rows of features: the audit needs the facts of the items (--graph)")]
    NoFacts(String),
    /// Rows of its updates are clusters of devices: these attacks look for items.
    #[error("{0} cannot be audited by these attacks: its updates have no rows of items or features, only of clusters")]
    Clusters(String),
    /// No audited user sent an update.
    #[error("nothing was recorded: no audited user sent an update")]
    NoUploads,
}
