//! Errors of a device.

use crate::store::StoreError;
use sottovoce_client::ClientError;
use sottovoce_models::settings::TermsError;
use sottovoce_protocol::PolicyError;
use thiserror::Error;

/// Why a device cannot do what its embedder asked. An unreachable server is no such error: the device waits and
/// retries.
#[derive(Debug, Error)]
pub enum DeviceError {
    /// The store could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store is empty.
    #[error("there is no device in this store yet: enrol first")]
    NotEnrolled,
    /// The store has a device that has not withdrawn.
    #[error("this store has a device of federation {0:?} already: withdraw first, or use another store (--store)")]
    Enrolled(String),
    /// A federation's name that cannot be part of a path.
    #[error("{0:?} is no federation's name: expected at most 128 letters, digits, dots, dashes and underscores")]
    Name(String),
    /// The change of policy is invalid.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// No budget of differential privacy.
    #[error("{0} is no budget: expected an epsilon above 0")]
    EpsilonBudget(f64),
    /// The history or the roster is too long.
    #[error("{found} {what}, this device stores at most {most}")]
    TooLong {
        /// `interactions` or `identities`.
        what: &'static str,
        /// How many there would be.
        found: usize,
        /// The limit.
        most: usize,
    },
    /// The catalog has no such item.
    #[error("the catalog has no item {0:?}")]
    UnknownItem(String),
    /// There is no catalog yet.
    #[error("there is no catalog yet: let the device reach its server once")]
    NoCatalog,
    /// There is no model to recommend with yet.
    #[error("there is no model yet: let the device reach its server once training has begun")]
    NoModel,
    /// Training on the server diverged.
    #[error(
        "version {0} of the shared model gives scores that are not finite: training diverged, and the device waits for a sound version"
    )]
    Diverged(u64),
    /// The stored model cannot be used.
    #[error(transparent)]
    Model(#[from] ClientError),
    /// The stored model's settings cannot be used.
    #[error(transparent)]
    Settings(#[from] TermsError),
}
