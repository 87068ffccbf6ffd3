//! Why a client does not take part in a round.

use sottovoce_protocol::{DisclosureError, ModelError, Refusal, UpdateError};
use thiserror::Error;

/// A model, history or buffer that does not fit.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ClientError {
    /// The shared model is not one of this model.
    #[error("the shared model does not fit: {0}")]
    Shared(#[from] ModelError),
    /// The private model is not one of this model.
    #[error("a private model of {found} values, expected {expected}")]
    Private {
        /// Values given.
        found: usize,
        /// Values of this model.
        expected: usize,
    },
    /// The history does not ascend, or has items past the catalog.
    #[error("the history must ascend, each item once, below the catalog's {items} items")]
    History {
        /// Size of the catalog.
        items: usize,
    },
    /// Not one score an item.
    #[error("room for {found} scores, expected one for each of {expected} items")]
    Scores {
        /// Room given.
        found: usize,
        /// Size of the catalog.
        expected: usize,
    },
    /// The update does not fit the buffer.
    #[error(transparent)]
    Update(#[from] UpdateError),
    /// The model has no DP-SGD.
    #[error("{0} cannot be trained by DP-SGD, as noise = sgd asks")]
    NoDpSgd(String),
}

/// Why a round gets no update from this device.
#[derive(Debug, Error)]
pub enum Declined {
    /// The owner's policy refuses the terms.
    #[error("the owner's policy: {0}")]
    Policy(Refusal),
    /// The terms ask for something that this device cannot do.
    #[error("{0}")]
    Terms(String),
    /// There is nothing to train on.
    #[error("nothing to train on")]
    NoHistory,
    /// The model does not fit, or training failed.
    #[error("training: {0}")]
    Training(#[from] ClientError),
    /// The update cannot be sent as the terms ask.
    #[error("the update cannot be sent: {0}")]
    Disclosure(DisclosureError),
    /// Training diverged.
    #[error("training led to values that are not finite")]
    NotFinite,
}

impl Declined {
    /// Terms that this device cannot follow.
    pub fn terms(why: impl std::fmt::Display) -> Self {
        Self::Terms(why.to_string())
    }

    /// What the server is told.
    pub fn refusal(&self) -> Refusal {
        match self {
            Self::Policy(refusal) => refusal.clone(),
            Self::NoHistory => Refusal::NoHistory,
            Self::Terms(_) | Self::Training(_) | Self::Disclosure(_) | Self::NotFinite => Refusal::NoReason,
        }
    }
}

impl From<DisclosureError> for Declined {
    fn from(error: DisclosureError) -> Self {
        match error {
            DisclosureError::Refused(refusal) => Self::Policy(refusal),
            other => Self::Disclosure(other),
        }
    }
}

impl From<UpdateError> for Declined {
    fn from(error: UpdateError) -> Self {
        Self::Training(error.into())
    }
}
