//! What the server must not forget.

mod changes;
#[cfg(feature = "postgres")]
mod postgres;
mod reading;
mod record;
mod sql;
mod sqlite;

#[cfg(feature = "postgres")]
pub use postgres::Postgres;
pub use sqlite::Sqlite;

pub use record::{
    AnonymousReceipt, Change, DeviceRecord, FederationRecord, Hash, Millis, OpenRound, Purpose,
    RECEIPT_ROUNDS, Receipt, RoundOpening, RoundRecord, SealNote, Standing, Stored, TokenRecord,
    VersionRecord,
};

use sql::Fault;
use std::path::Path;
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
    /// A change contradicts what is stored; nothing was changed.
    #[error("{what}: {reason}")]
    Refused {
        /// Which change, and where.
        what: String,
        /// What it contradicts.
        reason: String,
    },
    /// Another server uses the same database.
    #[error("{what} is in use by another server")]
    InUse {
        /// The database.
        what: String,
    },
    /// The connection was lost while changes were made, and the database could not be asked since: they may or may not be
    /// stored. No more changes are taken; a new start finds out.
    #[error(
        "{what}: the connection was lost, and whether changes were stored is not known; start the server again"
    )]
    Uncertain {
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

impl StorageError {
    fn from_fault(what: String, fault: Fault) -> Self {
        match fault {
            Fault::Refused(reason) => Self::Refused { what, reason },
            Fault::Damaged(reason) => Self::Damaged { what, reason },
            Fault::Failed(reason) | Fault::Lost(reason) => Self::Database { what, reason },
        }
    }
}

/// Opens a database: `sqlite:PATH` or a path is a file, which is created if it is not there; `postgres://` or
/// `postgresql://` begins the URL of a PostgreSQL database, in whose schema the tables are made if they are not there.
///
/// # Errors
/// If it cannot be used, is not a database of Sottovoce, is newer than this program or is in use.
pub fn open(url: &str) -> Result<Box<dyn Storage>, StorageError> {
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        #[cfg(feature = "postgres")]
        return Ok(Box::new(Postgres::open(url)?));
        #[cfg(not(feature = "postgres"))]
        return Err(StorageError::Database {
            what: "opening a PostgreSQL database".to_owned(),
            reason: "needs the cargo feature `postgres`, which this build leaves out".to_owned(),
        });
    }
    let path = url.strip_prefix("sqlite:").unwrap_or(url);
    Ok(Box::new(Sqlite::open(Path::new(path))?))
}

/// Is given the device and the bytes of one update after the other.
pub type Visit<'a> = dyn FnMut(u32, &[u8]) -> Result<(), StorageError> + 'a;

/// Is given the nullifier and the bytes of one update after the other.
pub type VisitAnonymous<'a> = dyn FnMut(&Hash, &[u8]) -> Result<(), StorageError> + 'a;

/// A durable record of the server's state. Blocking: to be called on a thread of its own, never within an async task.
/// What is read does not wait for what is written, nor the other way round.
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
    /// If they cannot be made, or one contradicts what is stored ([`StorageError::Refused`]); then none is made. Only after
    /// [`StorageError::Uncertain`] it is not known whether they were.
    fn commit(&self, changes: &[Change]) -> Result<(), StorageError>;

    /// Goes through the updates of a round by ascending device.
    ///
    /// # Errors
    /// If they cannot be read; with the visitor's answer if it stops early.
    fn updates(&self, federation: u64, round: u64, visit: &mut Visit<'_>) -> Result<(), StorageError>;

    /// Goes through the updates of a round that came with a token, by ascending nullifier.
    ///
    /// # Errors
    /// If they cannot be read; with the visitor's answer if it stops early.
    fn anonymous_updates(
        &self,
        federation: u64,
        round: u64,
        visit: &mut VisitAnonymous<'_>,
    ) -> Result<(), StorageError>;

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
