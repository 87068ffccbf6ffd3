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
    /// Adapting to new interactions diverged.
    #[error("adapting to new interactions led to values that are not finite")]
    Adapted,
}

/// Why a round gets no update from this device.
#[derive(Debug, Error)]
pub enum Declined {
    /// The owner's policy refuses the terms.
    #[error("the owner's policy: {0}")]
    Policy(Refusal),
    /// The terms ask for something that this device cannot do.
    #[error("{why}")]
    Terms {
        /// What, for the owner.
        why: String,
        /// What the server is told.
        refusal: Refusal,
    },
    /// The policy discloses none of the user's items.
    #[error("none of the user's items is disclosed; training was for the owner's private model alone")]
    NothingDisclosed,
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
        Self::Terms { why: why.to_string(), refusal: Refusal::NoReason }
    }

    /// What the server is told.
    pub fn refusal(&self) -> Refusal {
        match self {
            Self::Policy(refusal) | Self::Terms { refusal, .. } => refusal.clone(),
            Self::NoHistory | Self::NothingDisclosed => Refusal::NoHistory,
            Self::Training(_) | Self::Disclosure(_) | Self::NotFinite => Refusal::NoReason,
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
