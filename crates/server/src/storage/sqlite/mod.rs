//! SQLite: one file beside the server.
//!
//! The write-ahead log is synced at every commit; one connection writes, another reads. The lock on a separate file
//! excludes a second server; SQLite's own locks are left alone, so that a backup can be made while the server runs.

mod connection;

use self::connection::{Session, sql_error};
use super::schema::{self, Dialect, MigrationError};
use super::sql::{Result, Sql, SqlError};
use super::{Change, Database, StorageError, changes};
use crate::private_file;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Three updates of 10 kB fill a page; measured to store them fastest (`examples/store_uploads.rs`).
const PAGE_BYTES: u32 = 32 * 1024;

/// The log is copied into the file when it is this long: 64 MiB.
const LOG_PAGES: u32 = 64 * 1024 * 1024 / PAGE_BYTES;

/// How long another program (a backup, a shell) may hold the file before a commit fails.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// In the file's header, so that another program's database is recognised: "SOTV".
const APPLICATION: i32 = 0x534f_5456;

const DIALECT: Dialect = Dialect {
    words: [
        ("{int}", "INTEGER"),
        ("{bytes}", "BLOB"),
        ("{auto}", "INTEGER PRIMARY KEY"),
        ("{rows}", " STRICT"),
        ("{keyed}", " STRICT, WITHOUT ROWID"),
    ],
    extra: [""; 7],
};

/// A database in a file.
#[derive(Debug)]
pub struct Sqlite {
    name: String,
    writer: Mutex<Connection>,
    reader: Mutex<Connection>,
    /// The log may still contain deleted bytes.
    residue: AtomicBool,
    /// Locked until this is dropped, which it is last.
    _lock: File,
}

impl Sqlite {
    /// Opens the database in a file, which is created if it does not exist (readable by its owner only).
    ///
    /// # Errors
    /// If it cannot be opened, belongs to another program, is newer than this program or is in use.
    pub fn open(path: &Path) -> Result<Self, StorageError> {
        let name = path.display().to_string();
        let lock = lock(path, &name)?;
        create(path).map_err(|error| failed(&name, "cannot be created or opened", &error))?;
        let opening = |error: SqlError| MigrationError::from(error).of(&name);
        let mut writer = connect(path).map_err(opening)?;
        migrate(&mut writer, &DIALECT.migrations(), schema::initialise).map_err(|error| error.of(&name))?;
        let reader = Mutex::new(connect(path).map_err(opening)?);
        Ok(Self { writer: Mutex::new(writer), reader, residue: AtomicBool::new(false), _lock: lock, name })
    }

    /// Truncates the log, which would otherwise contain deleted bytes until they are overwritten. If a reader is in the
    /// way, the next commit tries again.
    fn wipe(&self, writer: &Connection) {
        let wiped = writer
            .busy_timeout(Duration::ZERO)
            .and_then(|()| writer.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0)));
        let restored = writer.busy_timeout(BUSY_TIMEOUT);
        self.residue.store(!matches!((wiped, restored), (Ok(0), Ok(()))), Ordering::Relaxed);
    }
}

fn failed(name: &str, what: &str, error: &io::Error) -> StorageError {
    StorageError::Database { what: name.to_owned(), reason: format!("{what}: {error}") }
}

/// Locks the file `PATH.lock`, which excludes a second server; it stays when the server ends.
fn lock(path: &Path, name: &str) -> Result<File, StorageError> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".lock");
    let beside = PathBuf::from(beside);
    let not = |what: &str, error: &io::Error| failed(&beside.display().to_string(), what, error);
    let file = private_file::options().read(true).create(true).truncate(false).open(&beside);
    let file = file.map_err(|error| not("cannot be created", &error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StorageError::InUse(name.to_owned())),
        Err(TryLockError::Error(error)) => Err(not("cannot be locked", &error)),
    }
}

/// Creates the file before SQLite does, so that nobody else can ever read it; its log gets the same mode.
fn create(path: &Path) -> io::Result<()> {
    match private_file::options().create_new(true).open(path) {
        Ok(file) => {
            file.sync_all()?;
            sync_folder(path)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Makes the name of a new file durable.
fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(not(unix)) {
        return Ok(());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

fn connect(path: &Path) -> Result<Connection> {
    // One thread at a time uses a connection: the mutex around it is ours.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(sql_error)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(sql_error)?;
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
        .map_err(sql_error)?;
    Ok(connection)
}

/// Creates the tables of an empty database or migrates an older one, in one transaction.
fn migrate<S: AsRef<str>>(
    connection: &mut Connection,
    migrations: &[S],
    initialise: impl FnOnce(&mut dyn Sql) -> Result<()>,
) -> Result<(), MigrationError> {
    let work = Transaction::new(connection, TransactionBehavior::Immediate).map_err(sql_error)?;
    let number = |sql| work.query_row(sql, [], |row| row.get::<_, i32>(0)).map_err(sql_error);
    let (application, layout) = (number("PRAGMA application_id")?, number("PRAGMA user_version")?);
    let found = match (application, number("SELECT count(*) FROM sqlite_schema")?) {
        (APPLICATION, _) => u32::try_from(layout).unwrap_or(u32::MAX),
        (0, 0) => 0,
        _ => return Err(MigrationError::Foreign),
    };
    let newest = schema::migrate(found, migrations, |text| work.execute_batch(text).map_err(sql_error))?;
    if found == 0 {
        initialise(&mut Session(&work))?;
    }
    if found < newest {
        work.pragma_update(None, "application_id", APPLICATION).map_err(sql_error)?;
        work.pragma_update(None, "user_version", newest).map_err(sql_error)?;
    }
    Ok(work.commit().map_err(sql_error)?)
}

impl Database for Sqlite {
    fn name(&self) -> &str {
        &self.name
    }

    fn read(&self, work: &mut dyn FnMut(&mut dyn Sql) -> Result<()>) -> Result<()> {
        let mut reader = crate::lock(&self.reader);
        let transaction = reader.transaction().map_err(sql_error)?;
        work(&mut Session(&transaction))
    }

    fn write(&self, changes: &[Change]) -> Result<(), StorageError> {
        let mut writer = crate::lock(&self.writer);
        let failed = |what: &str, error| StorageError::from_sql(format!("{}: {what}", self.name), error);
        let storing = |error| failed("storing", sql_error(error));
        let work = writer.transaction_with_behavior(TransactionBehavior::Immediate).map_err(storing)?;
        changes::apply(&mut Session(&work), changes).map_err(|(what, error)| failed(&what, error))?;
        work.commit().map_err(storing)?;
        let deletes = |change: &Change| matches!(change, Change::Withdraw { .. } | Change::Revoke { .. });
        if changes.iter().any(deletes) || self.residue.load(Ordering::Relaxed) {
            self.wipe(&writer);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
