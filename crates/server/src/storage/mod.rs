//! What the server must not forget.

mod record;

pub use record::{
    Change, DeviceRecord, FederationRecord, Hash, Millis, OpenRound, Purpose, RECEIPT_ROUNDS, Receipt,
    RoundOpening, RoundRecord, Standing, Stored, TokenRecord, VersionRecord,
};

use thiserror::Error;

/// Why something was not stored or found.
#[derive(Debug, Error)]
pub enum StorageError {
    /// The database says no.
    #[error("{what}: {reason}")]
    Database {
        /// What was tried, and where.
        what: String,
        /// What the database says.
        reason: String,
    },
    /// What is stored makes no sense.
    #[error("{what}: {reason}")]
    Damaged {
        /// Where.
        what: String,
        /// What is wrong.
        reason: String,
    },
    /// Another server uses the same database.
    #[error("{what} is in use by another server")]
    InUse {
        /// The database.
        what: String,
    },
    /// Made by a newer program.
    #[error("{what} has layout {found}; this program knows up to {known}")]
    Newer {
        /// The database.
        what: String,
        /// Its layout.
        found: u32,
        /// The newest known.
        known: u32,
    },
}

/// Is given the device and the bytes of one update after the other.
pub type Visit<'a> = dyn FnMut(u32, &[u8]) -> Result<(), StorageError> + 'a;

/// A durable record of the server's state. Blocking; one writer.
pub trait Storage: Send + Sync {
    /// Everything that is kept in memory while the server runs.
    ///
    /// # Errors
    /// If it cannot be read.
    fn load(&self) -> Result<Stored, StorageError>;

    /// The secret that credentials are derived from; made when the database is.
    ///
    /// # Errors
    /// If it cannot be read.
    fn secret(&self) -> Result<Hash, StorageError>;

    /// Makes changes in order, all or none; they are durable when this returns.
    ///
    /// # Errors
    /// If they cannot be made; then none is.
    fn commit(&self, changes: &[Change]) -> Result<(), StorageError>;

    /// Goes through the updates of a round by ascending device.
    ///
    /// # Errors
    /// If they cannot be read; with the visitor's answer if it stops early.
    fn updates(&self, federation: u64, round: u64, visit: &mut Visit<'_>) -> Result<(), StorageError>;

    /// Rounds that are over, the latest first, from before a round on.
    ///
    /// # Errors
    /// If they cannot be read.
    fn rounds(
        &self,
        federation: u64,
        before: Option<u64>,
        most: usize,
    ) -> Result<Vec<RoundRecord>, StorageError>;

    /// Does nothing, to see whether the database answers.
    ///
    /// # Errors
    /// If it does not.
    fn ping(&self) -> Result<(), StorageError>;
}
