//! What can go wrong on a device.

use crate::store::StoreError;
use sottovoce_client::ClientError;
use sottovoce_models::settings::TermsError;
use sottovoce_protocol::PolicyError;
use thiserror::Error;

/// What keeps a device from doing what it was asked. That a server cannot be reached is none of these: the device waits and
/// tries again.
#[derive(Debug, Error)]
pub enum DeviceError {
    /// The store could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store is empty.
    #[error("there is no device in this store yet: enrol first")]
    NotEnrolled,
    /// The store has a device that takes part.
    #[error("this store has a device of federation {0:?} already: withdraw first, or use another store")]
    Enrolled(String),
    /// A federation's name that no path can carry.
    #[error(
        "{0:?} is no federation's name: expected letters, digits, dots, dashes and underscores, at most 128"
    )]
    Name(String),
    /// The change of policy makes no sense.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The history has no room.
    #[error("{found} interactions, this device keeps at most {most}")]
    TooLong {
        /// Interactions there would be.
        found: usize,
        /// The bound.
        most: usize,
    },
    /// The roster has no room.
    #[error("{found} identities, this device keeps at most {most}")]
    Roster {
        /// Identities there would be.
        found: usize,
        /// The bound.
        most: usize,
    },
    /// The catalog has no such item.
    #[error("the catalog has no item {0:?}")]
    UnknownItem(String),
    /// There is no catalog yet.
    #[error("there is no catalog yet: let the device reach its server once")]
    NoCatalog,
    /// There is nothing to recommend with yet.
    #[error("there is no model yet: let the device take part in a round first")]
    NoModel,
    /// The held model cannot be used.
    #[error(transparent)]
    Learn(#[from] ClientError),
    /// The held model's settings cannot be used.
    #[error(transparent)]
    Spec(#[from] TermsError),
}
