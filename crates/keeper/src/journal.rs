//! What a keeper remembers for good, in a database of one file.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use sottovoce_privacy::keeper::{Record, RoundKey, SpentSeed};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Tables; none says which device a seed was of.
const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS keeper (key BLOB NOT NULL);
    CREATE TABLE IF NOT EXISTS opened (round BLOB PRIMARY KEY, request BLOB NOT NULL) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS spent (seed BLOB PRIMARY KEY) WITHOUT ROWID;";

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The database.
    #[error("{}: {error}", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// What it reports.
        error: rusqlite::Error,
    },
    /// It belongs to another key.
    #[error("{}: this is the journal of another keeper's key", .0.display())]
    OtherKey(PathBuf),
}

/// The rounds that were opened and the seeds that were used. What it has told is on the disk: a keeper that is killed
/// at any moment has either spent a round with all of its seeds, or nothing of it. One process at a time holds it.
pub struct Journal {
    database: Connection,
}

impl Journal {
    /// Opens the journal of the keeper with this public key, or begins one.
    ///
    /// # Errors
    /// If it cannot be used, another process holds it, or it is another key's.
    pub fn open(path: &Path, public: &[u8; 32]) -> Result<Self, JournalError> {
        let failed = |error| JournalError::Database { path: path.to_owned(), error };
        let database = connect(path).map_err(failed)?;
        let known: Option<Vec<u8>> =
            database.query_row("SELECT key FROM keeper", [], |row| row.get(0)).optional().map_err(failed)?;
        match known {
            Some(known) if known != public => return Err(JournalError::OtherKey(path.to_owned())),
            Some(_) => (),
            None => {
                database.execute("INSERT INTO keeper (key) VALUES (?1)", [&public[..]]).map_err(failed)?;
            }
        }
        Ok(Self { database })
    }

    /// How many rounds were opened.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn rounds(&self) -> Result<u64, String> {
        let count = self.database.query_row("SELECT count(*) FROM opened", [], |row| row.get::<_, i64>(0));
        count.map(i64::unsigned_abs).map_err(|error| error.to_string())
    }

    fn store(&mut self, round: &RoundKey, request: &[u8; 32], seeds: &[SpentSeed]) -> rusqlite::Result<()> {
        let change = self.database.transaction_with_behavior(TransactionBehavior::Immediate)?;
        change.execute("INSERT INTO opened (round, request) VALUES (?1, ?2)", params![&round[..], &request[..]])?;
        {
            let mut insert = change.prepare_cached("INSERT INTO spent (seed) VALUES (?1)")?;
            for seed in seeds {
                insert.execute([&seed[..]])?;
            }
        }
        change.commit()
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let database = Connection::open(path)?;
    database.busy_timeout(Duration::ZERO)?;
    // Exclusive: a second keeper on the same journal would not see what this one is about to spend.
    database.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    database.pragma_update(None, "journal_mode", "WAL")?;
    database.pragma_update(None, "synchronous", "FULL")?;
    database.execute_batch(SCHEMA)?;
    Ok(database)
}

impl Record for Journal {
    fn opened(&self, round: &RoundKey) -> Result<Option<[u8; 32]>, String> {
        let select = "SELECT request FROM opened WHERE round = ?1";
        let found = self.database.query_row(select, [&round[..]], |row| row.get(0)).optional();
        found.map_err(|error| error.to_string())
    }

    fn is_spent(&self, seed: &SpentSeed) -> Result<bool, String> {
        let mut select =
            self.database.prepare_cached("SELECT 1 FROM spent WHERE seed = ?1").map_err(|error| error.to_string())?;
        select.exists([&seed[..]]).map_err(|error| error.to_string())
    }

    fn spend(&mut self, round: &RoundKey, request: &[u8; 32], seeds: &[SpentSeed]) -> Result<(), String> {
        self.store(round, request, seeds).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spent_stays_spent() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.db");
        let mut journal = Journal::open(&path, &[1; 32]).unwrap();
        journal.spend(&[2; 32], &[3; 32], &[[4; 16], [5; 16]]).unwrap();
        // All of it or nothing: the second seed was used, so neither the first nor the round is.
        assert!(journal.spend(&[6; 32], &[7; 32], &[[8; 16], [5; 16]]).is_err());
        assert!(journal.spend(&[2; 32], &[9; 32], &[[9; 16]]).is_err());
        // Another process at the same time.
        let second = Journal::open(&path, &[1; 32]).err().expect("it is held").to_string();
        assert!(second.contains("locked"), "{second}");
        drop(journal);
        let journal = Journal::open(&path, &[1; 32]).unwrap();
        assert_eq!(journal.opened(&[2; 32]), Ok(Some([3; 32])));
        assert_eq!((journal.opened(&[6; 32]), journal.rounds()), (Ok(None), Ok(1)));
        let spent = [[4; 16], [5; 16], [8; 16], [9; 16]].map(|seed| journal.is_spent(&seed).unwrap());
        assert_eq!(spent, [true, true, false, false]);
        drop(journal);
        assert!(matches!(Journal::open(&path, &[2; 32]), Err(JournalError::OtherKey(_))));
    }
}
