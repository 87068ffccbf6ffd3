//! PostgreSQL.
//!
//! The tables are in the first schema of the connection's `search_path`. A session's advisory lock excludes a second
//! server. Every commit increments a counter in the same transaction: if the connection is lost before a commit is
//! acknowledged, the counter shows on the next connection whether it was made. The lock makes this safe: it can be
//! acquired only after the lost session has ended, with everything that was in progress in it.

mod address;
mod connection;

use self::address::Address;
use self::connection::{Session, sql_error};
use super::schema::{self, Dialect, MigrationError};
use super::sql::{Result, Sql, SqlError};
use super::{Change, Database, StorageError, changes};
use std::sync::Mutex;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a server that was killed a moment ago may still hold the lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a commit waits for a lost connection to come back, unless set otherwise.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(20);
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

const DIALECT: Dialect = Dialect {
    words: [
        ("{int}", "BIGINT"),
        ("{bytes}", "BYTEA"),
        ("{auto}", "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"),
        ("{rows}", ""),
        ("{keyed}", ""),
    ],
    // Updates hardly compress; they are stored beside the table (TOAST) as they are.
    extra: [
        "CREATE TABLE sottovoce_layout (layout BIGINT NOT NULL);
         INSERT INTO sottovoce_layout VALUES (0);
         ALTER TABLE server ADD COLUMN commits BIGINT NOT NULL DEFAULT 0;
         ALTER TABLE body ALTER COLUMN bytes SET STORAGE EXTERNAL;",
        "",
        "ALTER TABLE anonymous_body ALTER COLUMN bytes SET STORAGE EXTERNAL;",
        "",
        "",
        "",
        "",
    ],
};

/// A database on a PostgreSQL server.
pub struct Postgres {
    address: Address,
    reconnect_timeout: Duration,
    writer: Mutex<Writer>,
    reader: Mutex<Option<Session>>,
}

/// The session that holds the lock, and its progress.
struct Writer {
    session: Option<Session>,
    /// Process of the session on the database server.
    process: i32,
    /// Commits made, as counted by the database.
    commits: i64,
}

impl std::fmt::Debug for Postgres {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Postgres").field("name", &self.address.name).finish_non_exhaustive()
    }
}

/// Why an attempt to commit failed.
enum CommitError {
    /// Nothing was changed.
    Undone(String, SqlError),
    /// The connection was lost before the commit was requested: nothing was or will be changed.
    Broken,
    /// The connection was lost after that.
    Unknown,
}

impl Postgres {
    /// Opens the database at a URL and creates its tables if they do not exist.
    ///
    /// # Errors
    /// If it cannot be opened, is newer than this program or is in use.
    pub fn open(url: &str) -> Result<Self, StorageError> {
        let address = Address::parse(url)?;
        let opening = |error: SqlError| MigrationError::from(error).of(&address.name);
        let mut session = connect(&address).map_err(opening)?;
        let until = Instant::now() + LOCK_TIMEOUT;
        while !try_lock(&mut session).map_err(opening)? {
            if Instant::now() > until {
                return Err(StorageError::InUse(address.name));
            }
            sleep(RETRY_INTERVAL);
        }
        migrate(&mut session).map_err(|error| error.of(&address.name))?;
        let writer = Mutex::new(Writer::new(session).map_err(opening)?);
        Ok(Self { address, reconnect_timeout: RECONNECT_TIMEOUT, writer, reader: Mutex::new(None) })
    }

    /// Sets how long a commit waits for a lost connection to come back.
    #[must_use]
    pub fn with_reconnect_timeout(self, reconnect_timeout: Duration) -> Self {
        Self { reconnect_timeout, ..self }
    }

    /// Acquires the lock on a new connection.
    fn reconnect(&self, writer: &mut Writer) -> Result<()> {
        let until = Instant::now() + self.reconnect_timeout;
        loop {
            match self.try_reconnect(writer) {
                Ok(()) => return Ok(()),
                Err(error) if Instant::now() > until => return Err(error),
                Err(_) => sleep(RETRY_INTERVAL),
            }
        }
    }

    /// Ends the lost session if the database server has not noticed yet.
    fn try_reconnect(&self, writer: &mut Writer) -> Result<()> {
        let mut session = connect(&self.address)?;
        if !try_lock(&mut session)? {
            // Only a session that holds our lock is ended: its process number may belong to another one by now.
            let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_locks
                       WHERE locktype = 'advisory' AND granted AND pid = $1
                       AND ((classid::BIGINT << 32) | objid::BIGINT) = hashtextextended('sottovoce in ' || current_schema(), 0)";
            session.client.query(end, &[&writer.process]).map_err(sql_error)?;
            return Err(SqlError::Failed("another session holds the lock".into()));
        }
        *writer = Writer::new(session)?;
        Ok(())
    }
}

impl Writer {
    fn new(mut session: Session) -> Result<Self> {
        let row = session.client.query_one("SELECT pg_backend_pid(), commits FROM server", &[]);
        let row = row.map_err(sql_error)?;
        let (process, commits) = (row.try_get(0).map_err(sql_error)?, row.try_get(1).map_err(sql_error)?);
        Ok(Self { session: Some(session), process, commits })
    }

    fn try_commit(&mut self, changes: &[Change]) -> Result<(), CommitError> {
        let Some(session) = self.session.as_mut() else { return Err(CommitError::Broken) };
        let error = match apply(session, self.commits, changes) {
            Ok(()) => match session.client.batch_execute("COMMIT").map_err(sql_error) {
                Ok(()) => {
                    self.commits += 1;
                    return Ok(());
                }
                Err(SqlError::ConnectionLost(_)) => CommitError::Unknown,
                Err(error) => CommitError::Undone("storing".into(), error),
            },
            Err((_, SqlError::ConnectionLost(_))) => CommitError::Broken,
            Err((what, error)) => CommitError::Undone(what, error),
        };
        let usable = matches!(error, CommitError::Undone(..)) && session.client.batch_execute("ROLLBACK").is_ok();
        if !usable {
            self.session = None;
        }
        Err(error)
    }
}

/// A new connection. Commits are durable even if the database server's default is not to wait, and keep-alives end the
/// session of a machine that has vanished, so that it does not hold the lock for hours.
fn connect(address: &Address) -> Result<Session> {
    let mut client = address.connect().map_err(sql_error)?;
    let settings = "SELECT set_config('synchronous_commit', 'on', false)
                        WHERE current_setting('synchronous_commit') = 'off';
                    SET idle_in_transaction_session_timeout = 0;
                    SET tcp_keepalives_idle = 20; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 4";
    client.batch_execute(settings).map_err(sql_error)?;
    Ok(Session::new(client))
}

fn begin_reading(session: &mut Session) -> Result<()> {
    let begin = "ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
    session.client.batch_execute(begin).map_err(sql_error)
}

fn try_lock(session: &mut Session) -> Result<bool> {
    let lock = "SELECT pg_try_advisory_lock(hashtextextended('sottovoce in ' || current_schema(), 0))";
    let row = session.client.query_one(lock, &[]).map_err(sql_error)?;
    let locked: Option<bool> = row.try_get(0).map_err(sql_error)?;
    locked.ok_or_else(|| SqlError::Failed("search_path names no schema that exists".into()))
}

/// Creates the tables of an empty schema or migrates an older one, in one transaction.
fn migrate(session: &mut Session) -> Result<(), MigrationError> {
    session.client.batch_execute("BEGIN").map_err(sql_error)?;
    let sql: &mut dyn Sql = session;
    let exists = "SELECT (to_regclass('sottovoce_layout') IS NOT NULL)::INT::BIGINT";
    let found = match sql.integer(exists, &[])? {
        Some(1) => sql.integer("SELECT layout FROM sottovoce_layout", &[])?.unwrap_or(0),
        _ => 0,
    };
    let found = u32::try_from(found).unwrap_or(u32::MAX);
    let newest =
        schema::migrate(found, &DIALECT.migrations(), |text| session.client.batch_execute(text).map_err(sql_error))?;
    let sql: &mut dyn Sql = session;
    if found == 0 {
        schema::initialise(sql)?;
    }
    if found < newest {
        sql.execute("UPDATE sottovoce_layout SET layout = $1", &[newest.into()])?;
    }
    Ok(session.client.batch_execute("COMMIT").map_err(sql_error)?)
}

/// A transaction up to its commit.
fn apply(session: &mut Session, commits: i64, changes: &[Change]) -> Result<(), (String, SqlError)> {
    let storing = |error| ("storing".to_owned(), error);
    session.client.batch_execute("BEGIN").map_err(sql_error).map_err(storing)?;
    let sql: &mut dyn Sql = session;
    changes::apply(sql, changes)?;
    let count = "UPDATE server SET commits = $1 + 1 WHERE commits = $1";
    match sql.execute(count, &[commits.into()]).map_err(storing)? {
        1 => Ok(()),
        _ => Err(storing(SqlError::Failed("another program has changed the database".into()))),
    }
}

impl Database for Postgres {
    fn name(&self) -> &str {
        &self.address.name
    }

    /// Reconnects if the last connection was lost.
    fn read(&self, work: &mut dyn FnMut(&mut dyn Sql) -> Result<()>) -> Result<()> {
        let mut reader = crate::lock(&self.reader);
        if reader.as_mut().is_none_or(|session| begin_reading(session).is_err()) {
            let session = reader.insert(connect(&self.address)?);
            begin_reading(session)?;
        }
        let Some(session) = reader.as_mut() else { return Ok(()) };
        let result = work(session);
        if session.client.batch_execute("ROLLBACK").is_err() {
            *reader = None;
        }
        result
    }

    fn write(&self, changes: &[Change]) -> Result<(), StorageError> {
        let mut writer = crate::lock(&self.writer);
        let (before, name) = (writer.commits, &self.address.name);
        let uncertain = || StorageError::Uncertain(format!("{name}: storing"));
        let failed = |what: &str, error| StorageError::from_sql(format!("{name}: {what}"), error);
        let mut unknown = false;
        // A connection may have been lost long ago: the first attempt notices, the second has a new one.
        for _ in 0..3 {
            if writer.session.is_none() {
                let reconnected = self.reconnect(&mut writer);
                reconnected.map_err(|error| if unknown { uncertain() } else { failed("storing", error) })?;
                match (writer.commits - before, unknown) {
                    (0, _) => {}
                    (1, true) => return Ok(()),
                    _ => {
                        // Memory and database have diverged; only a restart can help.
                        (writer.session, writer.commits) = (None, before);
                        return Err(uncertain());
                    }
                }
            }
            match writer.try_commit(changes) {
                Ok(()) => return Ok(()),
                Err(CommitError::Undone(what, error)) => return Err(failed(&what, error)),
                Err(CommitError::Broken) => unknown = false,
                Err(CommitError::Unknown) => unknown = true,
            }
        }
        let lost = || SqlError::Failed("the connection is lost again and again".to_owned());
        Err(if unknown { uncertain() } else { failed("storing", lost()) })
    }
}
