//! SQLite: one file beside the server.
//!
//! Write-ahead log with a sync at every commit; one connection writes, another reads beside it. A lock on a file of its
//! own keeps a second server away; SQLite's own locks are left to it, so that a backup can be made while the server runs.

mod connection;
mod layout;

use self::connection::{Lane, fault};
use super::sql::Fault;
use super::{
    Change, Hash, RoundRecord, Storage, StorageError, Stored, Visit, VisitAnonymous, changes, reading,
};
use rusqlite::{Connection, OpenFlags, TransactionBehavior};
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Three updates of 10 kB fill a page; measured to store them fastest (`examples/store_uploads.rs`).
const PAGE_BYTES: u32 = 32 * 1024;

/// The log goes into the file when it is this long: 64 MiB.
const LOG_PAGES: u32 = 64 * 1024 * 1024 / PAGE_BYTES;

/// How long another program (a backup, a shell) may hold the file before a commit fails.
const PATIENCE: Duration = Duration::from_secs(10);

/// A database in a file.
#[derive(Debug)]
pub struct Sqlite {
    name: String,
    writer: Mutex<Connection>,
    reader: Mutex<Connection>,
    /// Deleted bytes may still stand in the log.
    residue: AtomicBool,
    /// Locked until this is dropped, which it is last.
    _lock: File,
}

impl Sqlite {
    /// Opens the database in a file, which is created if it is not there (readable by its owner only).
    ///
    /// # Errors
    /// If it cannot be used, is not a database of Sottovoce, is newer than this program or is in use.
    pub fn open(path: &Path) -> Result<Self, StorageError> {
        let name = path.display().to_string();
        let lock = lock(path, &name)?;
        create(path).map_err(|error| failed(&name, "cannot be created or opened", &error))?;
        let opened = || -> Result<_, Fault> {
            let mut writer = connect(path)?;
            let found = layout::prepare(&mut writer)?;
            Ok((writer, found))
        };
        let (writer, found) = opened().map_err(|fault| told(&name, "opening", fault))?;
        match found {
            layout::Found::Present => {}
            layout::Found::Newer { found, known } => {
                return Err(StorageError::Newer { what: name, found, known });
            }
            layout::Found::Foreign => {
                return Err(StorageError::Damaged {
                    what: name,
                    reason: "is another program's database".into(),
                });
            }
        }
        let reader = connect(path).map_err(|fault| told(&name, "opening", fault))?;
        let (writer, reader) = (Mutex::new(writer), Mutex::new(reader));
        Ok(Self { name, writer, reader, residue: AtomicBool::new(false), _lock: lock })
    }

    fn read<T>(
        &self,
        what: &str,
        read: impl FnOnce(&mut Lane<'_>) -> Result<T, Fault>,
    ) -> Result<T, StorageError> {
        let mut reader = held(&self.reader);
        let work = || -> Result<T, Fault> {
            let work = reader.transaction().map_err(fault)?;
            read(&mut Lane(&work))
        };
        work().map_err(|fault| told(&self.name, what, fault))
    }

    /// Empties the log, in which deleted bytes would otherwise stand until they are written over. While somebody reads an
    /// older state this has to wait; the next commit tries again.
    fn wipe(&self, writer: &Connection) {
        let wiped = writer.busy_timeout(Duration::ZERO).and_then(|()| {
            writer.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0))
        });
        let patient = writer.busy_timeout(PATIENCE);
        self.residue.store(!matches!((wiped, patient), (Ok(0), Ok(()))), Ordering::Relaxed);
    }
}

/// A panic in a visitor leaves a connection as good as it was: its transaction is rolled back.
fn held(connection: &Mutex<Connection>) -> MutexGuard<'_, Connection> {
    connection.lock().unwrap_or_else(PoisonError::into_inner)
}

fn told(name: &str, what: &str, fault: Fault) -> StorageError {
    StorageError::from_fault(format!("{name}: {what}"), fault)
}

fn failed(name: &str, what: &str, error: &io::Error) -> StorageError {
    StorageError::Database { what: name.to_owned(), reason: format!("{what}: {error}") }
}

/// The file whose lock says that a server uses the database; it stays when the server is gone.
fn lock(path: &Path, name: &str) -> Result<File, StorageError> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".lock");
    let beside = PathBuf::from(beside);
    let file = private(&beside).create(true).truncate(false).open(&beside);
    let file = file.map_err(|error| failed(&beside.display().to_string(), "cannot be created", &error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StorageError::InUse { what: name.to_owned() }),
        Err(TryLockError::Error(error)) => {
            Err(failed(&beside.display().to_string(), "cannot be locked", &error))
        }
    }
}

/// Makes the file before SQLite does, so that nobody else can read it from the start; its log gets the same mode.
fn create(path: &Path) -> io::Result<()> {
    match private(path).create_new(true).open(path) {
        Ok(file) => {
            file.sync_all()?;
            sync_folder(path)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(unix)]
fn private(_path: &Path) -> OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

#[cfg(not(unix))]
fn private(_path: &Path) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    options
}

/// So that the new file's name is durable too.
#[cfg(unix)]
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

#[cfg(not(unix))]
fn sync_folder(_path: &Path) -> io::Result<()> {
    Ok(())
}

fn connect(path: &Path) -> Result<Connection, Fault> {
    // One thread at a time uses a connection: the mutex around it is ours.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(fault)?;
    connection.busy_timeout(PATIENCE).map_err(fault)?;
    connection.set_prepared_statement_cache_capacity(64);
    connection
        .execute_batch(&format!(
            "PRAGMA page_size = {PAGE_BYTES};
             PRAGMA journal_mode = WAL;
             PRAGMA synchronous = FULL;
             PRAGMA fullfsync = ON;
             PRAGMA wal_autocheckpoint = {LOG_PAGES};
             PRAGMA foreign_keys = ON;
             PRAGMA secure_delete = ON;
             PRAGMA temp_store = MEMORY;
             PRAGMA cache_size = -16384;"
        ))
        .map_err(fault)?;
    Ok(connection)
}

impl Storage for Sqlite {
    fn load(&self) -> Result<Stored, StorageError> {
        self.read("loading", |lane| reading::load(lane))
    }

    fn secret(&self) -> Result<Hash, StorageError> {
        self.read("reading the secret", |lane| reading::secret(lane))
    }

    fn commit(&self, changes: &[Change]) -> Result<(), StorageError> {
        let mut writer = held(&self.writer);
        let failed = |what: &str, fault| told(&self.name, what, fault);
        let work = writer.transaction_with_behavior(TransactionBehavior::Immediate);
        let work = work.map_err(|error| failed("storing", fault(error)))?;
        changes::apply(&mut Lane(&work), changes).map_err(|(what, fault)| failed(&what, fault))?;
        work.commit().map_err(|error| failed("storing", fault(error)))?;
        let takes_away = |change: &Change| matches!(change, Change::Withdraw { .. } | Change::Revoke { .. });
        if changes.iter().any(takes_away) || self.residue.load(Ordering::Relaxed) {
            self.wipe(&writer);
        }
        Ok(())
    }

    fn updates(&self, federation: u64, round: u64, visit: &mut Visit<'_>) -> Result<(), StorageError> {
        let mut reader = held(&self.reader);
        let what = || format!("{}: updates of round {round} of federation {federation}", self.name);
        let work = reader.transaction().map_err(|error| StorageError::from_fault(what(), fault(error)))?;
        reading::updates(&mut Lane(&work), federation, round, visit).map_err(|stop| match stop {
            reading::Stop::Fault(fault) => StorageError::from_fault(what(), fault),
            reading::Stop::Visitor(error) => error,
        })
    }

    fn anonymous_updates(
        &self,
        federation: u64,
        round: u64,
        visit: &mut VisitAnonymous<'_>,
    ) -> Result<(), StorageError> {
        let mut reader = held(&self.reader);
        let what = || format!("{}: updates of round {round} of federation {federation}", self.name);
        let work = reader.transaction().map_err(|error| StorageError::from_fault(what(), fault(error)))?;
        let visited = reading::anonymous_updates(&mut Lane(&work), federation, round, visit);
        visited.map_err(|stop| match stop {
            reading::Stop::Fault(fault) => StorageError::from_fault(what(), fault),
            reading::Stop::Visitor(error) => error,
        })
    }

    fn rounds(
        &self,
        federation: u64,
        before: Option<u64>,
        most: usize,
    ) -> Result<Vec<RoundRecord>, StorageError> {
        self.read("reading rounds", |lane| reading::rounds(lane, federation, before, most))
    }

    fn ping(&self) -> Result<(), StorageError> {
        self.read("asking", |lane| reading::secret(lane).map(drop))
    }
}

#[cfg(test)]
mod tests;
