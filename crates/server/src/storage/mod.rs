//! The durable state of the server, in SQLite or PostgreSQL.

mod audience_changes;
mod changes;
mod living_changes;
mod load;
#[cfg(feature = "postgres")]
mod postgres;
mod records;
mod round_changes;
mod schema;
mod sql;
mod sqlite;

#[cfg(feature = "postgres")]
pub use postgres::Postgres;
pub use records::{
    ActRecord, AudienceRecord, AudienceTokens, Change, DeviceRecord, FederationRecord, GoneRecord, Hash,
    MeasurementRecord, Millis, OpenRound, RECEIPT_ROUNDS, Receipt, RoundOpening, RoundRecord, SealMessage,
    SegmentRecord, Sender, Status, Stored, TokenPurpose, TokenRecord, VersionRecord,
};
pub use sqlite::Sqlite;

use sql::{Result, Sql, SqlError};
use std::path::Path;
use thiserror::Error;

/// Why something was not stored or read.
#[derive(Debug, Error)]
pub enum StorageError {
    /// The database reported an error.
    #[error("{what}: {reason}")]
    Database {
        /// What was tried, and where.
        what: String,
        /// What the database reports.
        reason: String,
    },
    /// What is stored is invalid.
    #[error("{what}: {reason}")]
    Corrupt {
        /// Where.
        what: String,
        /// What is wrong.
        reason: String,
    },
    /// A change contradicts what is stored; nothing was changed.
    #[error("{what}: {reason}")]
    Rejected {
        /// Which change, and where.
        what: String,
        /// What it contradicts.
        reason: String,
    },
    /// Another server uses the same database.
    #[error("{0} is in use by another server")]
    InUse(String),
    /// The connection was lost during a commit and the database could not be reached since: the changes may or may not
    /// be stored. No more changes are accepted; a restart finds out.
    #[error("{0}: the connection was lost, and whether changes were stored is unknown; restart the server")]
    Uncertain(String),
    /// Written by a newer program.
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
    fn from_sql(what: String, error: SqlError) -> Self {
        match error {
            SqlError::Rejected(reason) => Self::Rejected { what, reason },
            SqlError::Corrupt(reason) => Self::Corrupt { what, reason },
            SqlError::Failed(reason) | SqlError::ConnectionLost(reason) => Self::Database { what, reason },
            SqlError::Stopped => Self::Database { what, reason: "stopped".to_owned() },
        }
    }
}

/// Opens a database. `sqlite:PATH` or a path is a file, created if it does not exist; `postgres://` or `postgresql://`
/// starts the URL of a PostgreSQL database, in whose schema the tables are created if they do not exist.
///
/// # Errors
/// If it cannot be opened, belongs to another program, is newer than this program or is in use.
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

/// A visitor of updates: called with the sender and the bytes of each.
pub type Visit<'a> = dyn FnMut(Sender, &[u8]) -> Result<(), StorageError> + 'a;

/// The durable state of a server. Blocking: call it on a thread of its own, never within an async task. Reads do not
/// wait for writes, nor writes for reads.
pub trait Storage: Send + Sync {
    /// Everything that the server holds in memory while it runs.
    ///
    /// # Errors
    /// If it cannot be read.
    fn load(&self) -> Result<Stored, StorageError>;

    /// The secret that credentials are derived from; created with the database.
    ///
    /// # Errors
    /// If it cannot be read.
    fn secret(&self) -> Result<Hash, StorageError>;

    /// Makes changes in order, all or none; they are durable when this returns.
    ///
    /// # Errors
    /// If they cannot be made, or one contradicts what is stored ([`StorageError::Rejected`]); then none is made. Only
    /// after [`StorageError::Uncertain`] is it unknown whether they were.
    fn commit(&self, changes: &[Change]) -> Result<(), StorageError>;

    /// Visits the updates of an open round by ascending sender.
    ///
    /// # Errors
    /// If they cannot be read; the visitor's error if it returns one.
    fn updates(&self, federation: u64, round: u64, visit: &mut Visit<'_>) -> Result<(), StorageError>;

    /// Closed rounds before a round, the latest first.
    ///
    /// # Errors
    /// If they cannot be read.
    fn rounds(&self, federation: u64, before: Option<u64>, limit: usize) -> Result<Vec<RoundRecord>, StorageError>;

    /// Operators' acts before a number, the latest first.
    ///
    /// # Errors
    /// If they cannot be read.
    fn acts(&self, before: Option<u64>, limit: usize) -> Result<Vec<ActRecord>, StorageError>;
}

/// A database that understands SQL.
trait Database: Send + Sync {
    /// Its name for error messages.
    fn name(&self) -> &str;

    /// Reads in one transaction.
    fn read(&self, work: &mut dyn FnMut(&mut dyn Sql) -> Result<()>) -> Result<()>;

    /// Makes changes in one transaction.
    fn write(&self, changes: &[Change]) -> Result<(), StorageError>;
}

fn read<T>(database: &impl Database, what: &str, work: impl Fn(&mut dyn Sql) -> Result<T>) -> Result<T, StorageError> {
    let mut found = None;
    let done = database.read(&mut |sql| {
        found = Some(work(sql)?);
        Ok(())
    });
    let nothing = || SqlError::Failed("nothing was read".to_owned());
    let found = done.and_then(|()| found.ok_or_else(nothing));
    found.map_err(|error| StorageError::from_sql(format!("{}: {what}", database.name()), error))
}

impl<D: Database> Storage for D {
    fn load(&self) -> Result<Stored, StorageError> {
        read(self, "loading", load::load)
    }

    fn secret(&self) -> Result<Hash, StorageError> {
        read(self, "reading the secret", load::secret)
    }

    fn commit(&self, changes: &[Change]) -> Result<(), StorageError> {
        self.write(changes)
    }

    fn updates(&self, federation: u64, round: u64, visit: &mut Visit<'_>) -> Result<(), StorageError> {
        let mut stopped = None;
        let mut each = |sender, bytes: &[u8]| {
            visit(sender, bytes).map_err(|error| {
                stopped = Some(error);
                SqlError::Stopped
            })
        };
        let done = self.read(&mut |sql| load::updates(sql, federation, round, &mut each));
        let what = || format!("{}: updates of round {round} of federation {federation}", self.name());
        stopped.map_or(done.map_err(|error| StorageError::from_sql(what(), error)), Err)
    }

    fn rounds(&self, federation: u64, before: Option<u64>, limit: usize) -> Result<Vec<RoundRecord>, StorageError> {
        read(self, "reading rounds", |sql| load::rounds(sql, federation, before, limit))
    }

    fn acts(&self, before: Option<u64>, limit: usize) -> Result<Vec<ActRecord>, StorageError> {
        read(self, "reading acts", |sql| load::acts(sql, before, limit))
    }
}
