//! PostgreSQL: a database server beside or away from ours.
//!
//! The tables stand in the schema that the connection's `search_path` begins with. A session's advisory lock keeps a
//! second server away. Every commit counts up a number in the same transaction: when the connection is lost while the
//! answer to a commit is awaited, that number tells on the next connection whether it was made. The lock makes this sure:
//! it is only had again when the lost session is over, with everything that was still under way in it.

mod address;
mod connection;
mod layout;

use self::address::Address;
use self::connection::{Lane, fault};
use super::sql::{Fault, Sql, Value};
use super::{
    Change, Hash, RoundRecord, Storage, StorageError, Stored, Visit, VisitAnonymous, changes, reading,
};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a server that was killed a moment ago may still hold the lock.
const GRACE: Duration = Duration::from_secs(2);
/// How long a lost connection is tried to be had again before a commit fails, unless it is set.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(50);

/// A database on a PostgreSQL server.
pub struct Postgres {
    address: Address,
    patience: Duration,
    writer: Mutex<Writer>,
    reader: Mutex<Option<Lane>>,
}

/// The session that holds the lock, and what it has done.
struct Writer {
    lane: Option<Lane>,
    /// Process of the session on the database server.
    process: i32,
    /// Commits that were made, as the database counts them.
    commits: i64,
}

impl std::fmt::Debug for Postgres {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Postgres").field("name", &self.address.name).finish_non_exhaustive()
    }
}

/// How an attempt to commit ended that did not succeed.
enum Ended {
    /// Nothing was changed.
    Undone(String, Fault),
    /// The connection was lost before the end was asked for: nothing was or will be changed.
    Broken,
    /// The connection was lost after that.
    Unknown,
}

impl Postgres {
    /// Opens the database at a URL and makes its tables if they are not there.
    ///
    /// # Errors
    /// If it cannot be used, is newer than this program or is in use.
    pub fn open(url: &str) -> Result<Self, StorageError> {
        let address = Address::parse(url)?;
        let told = |fault| StorageError::from_fault(format!("{}: opening", address.name), fault);
        let mut lane = session(&address).map_err(told)?;
        let until = Instant::now() + GRACE;
        while !try_lock(&mut lane).map_err(told)? {
            if Instant::now() > until {
                return Err(StorageError::InUse { what: address.name });
            }
            sleep(PAUSE);
        }
        match layout::prepare(&mut lane.client).map_err(told)? {
            layout::Found::Present => {}
            layout::Found::Newer { found, known } => {
                return Err(StorageError::Newer { what: address.name, found, known });
            }
        }
        let (process, commits) = standing(&mut lane).map_err(told)?;
        let writer = Mutex::new(Writer { lane: Some(lane), process, commits });
        Ok(Self { address, patience: PATIENCE, writer, reader: Mutex::new(None) })
    }

    /// The same, with another time for which a lost connection is tried to be had again before a commit fails.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    fn told(&self, what: &str, fault: Fault) -> StorageError {
        StorageError::from_fault(format!("{}: {what}", self.address.name), fault)
    }

    /// Runs something that only reads, in one transaction, with a new connection if the last one is gone.
    fn read<E: From<Fault>>(&self, work: &mut dyn FnMut(&mut Lane) -> Result<(), E>) -> Result<(), E> {
        let mut reader = held(&self.reader);
        let begun = reader.as_mut().is_some_and(|lane| begin_reading(lane).is_ok());
        if !begun {
            let mut lane = session(&self.address)?;
            begin_reading(&mut lane)?;
            *reader = Some(lane);
        }
        let Some(lane) = reader.as_mut() else { return Ok(()) };
        let result = work(lane);
        if lane.client.batch_execute("ROLLBACK").is_err() {
            *reader = None;
        }
        result
    }

    fn read_one<T>(
        &self,
        what: &str,
        read: impl Fn(&mut Lane) -> Result<T, Fault>,
    ) -> Result<T, StorageError> {
        let mut found = None;
        let result = self.read(&mut |lane| -> Result<(), Fault> {
            found = Some(read(lane)?);
            Ok(())
        });
        let nothing = || Fault::Failed("nothing was read".into());
        result.and_then(|()| found.ok_or_else(nothing)).map_err(|fault| self.told(what, fault))
    }

    /// Has the lock again on a new connection. The lost session is ended if the database server has not noticed yet.
    fn regain(&self, writer: &mut Writer) -> Result<(), Fault> {
        let until = Instant::now() + self.patience;
        loop {
            match self.try_regain(writer) {
                Ok(()) => return Ok(()),
                Err(fault) if Instant::now() > until => return Err(fault),
                Err(_) => sleep(PAUSE),
            }
        }
    }

    fn try_regain(&self, writer: &mut Writer) -> Result<(), Fault> {
        let mut lane = session(&self.address)?;
        if !try_lock(&mut lane)? {
            // Only a session that holds our lock is ended, lest its number stands for another one by now.
            let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_locks
                       WHERE locktype = 'advisory' AND granted AND pid = $1
                       AND ((classid::BIGINT << 32) | objid::BIGINT) = hashtextextended('sottovoce in ' || current_schema(), 0)";
            lane.client.query(end, &[&writer.process]).map_err(fault)?;
            return Err(Fault::Failed("another session holds the lock".into()));
        }
        let (process, commits) = standing(&mut lane)?;
        *writer = Writer { lane: Some(lane), process, commits };
        Ok(())
    }

    /// One attempt; how it ended if it did not succeed.
    fn attempt(writer: &mut Writer, changes: &[Change]) -> Result<(), Ended> {
        let Some(lane) = writer.lane.as_mut() else { return Err(Ended::Broken) };
        let made = make(lane, writer.commits, changes);
        let ended = match made {
            Ok(()) => match lane.client.batch_execute("COMMIT").map_err(fault) {
                Ok(()) => {
                    writer.commits += 1;
                    return Ok(());
                }
                Err(Fault::Lost(_)) => Ended::Unknown,
                Err(fault) => Ended::Undone("storing".into(), fault),
            },
            Err((_, Fault::Lost(_))) => Ended::Broken,
            Err((what, fault)) => Ended::Undone(what, fault),
        };
        let usable = matches!(ended, Ended::Undone(..)) && lane.client.batch_execute("ROLLBACK").is_ok();
        if !usable {
            writer.lane = None;
        }
        Err(ended)
    }
}

/// A panic in a visitor leaves a connection as good as it was: the next transaction begins with the end of the last.
fn held<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A new connection. Commits are durable even where the database server's default is not to wait for that, and a machine of
/// ours that is gone without a word does not hold the lock for hours.
fn session(address: &Address) -> Result<Lane, Fault> {
    let mut client = address.connect().map_err(fault)?;
    let settings = "SELECT set_config('synchronous_commit', 'on', false)
                        WHERE current_setting('synchronous_commit') = 'off';
                    SET idle_in_transaction_session_timeout = 0;
                    SET tcp_keepalives_idle = 20; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 4";
    client.batch_execute(settings).map_err(fault)?;
    Ok(Lane::new(client))
}

fn begin_reading(lane: &mut Lane) -> Result<(), Fault> {
    lane.client.batch_execute("ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").map_err(fault)
}

fn try_lock(lane: &mut Lane) -> Result<bool, Fault> {
    let lock = "SELECT pg_try_advisory_lock(hashtextextended('sottovoce in ' || current_schema(), 0))";
    let row = lane.client.query_one(lock, &[]).map_err(fault)?;
    let locked: Option<bool> = row.try_get(0).map_err(fault)?;
    locked.ok_or_else(|| Fault::Failed("search_path names no schema that exists".into()))
}

/// The session's process, and the number of commits.
fn standing(lane: &mut Lane) -> Result<(i32, i64), Fault> {
    let row = lane.client.query_one("SELECT pg_backend_pid(), commits FROM server", &[]).map_err(fault)?;
    Ok((row.try_get(0).map_err(fault)?, row.try_get(1).map_err(fault)?))
}

/// All but the end of a commit.
fn make(lane: &mut Lane, commits: i64, changes: &[Change]) -> Result<(), (String, Fault)> {
    let storing = |fault| ("storing".to_owned(), fault);
    lane.client.batch_execute("BEGIN").map_err(fault).map_err(storing)?;
    changes::apply(lane, changes)?;
    let count = "UPDATE server SET commits = $1 + 1 WHERE commits = $1";
    match lane.execute(count, &[Value::Int(commits)]).map_err(storing)? {
        1 => Ok(()),
        _ => Err(storing(Fault::Failed("somebody else has changed the database".into()))),
    }
}

impl Storage for Postgres {
    fn load(&self) -> Result<Stored, StorageError> {
        self.read_one("loading", reading::load)
    }

    fn secret(&self) -> Result<Hash, StorageError> {
        self.read_one("reading the secret", reading::secret)
    }

    fn commit(&self, changes: &[Change]) -> Result<(), StorageError> {
        let mut writer = held(&self.writer);
        let before = writer.commits;
        let mut unknown = false;
        // A connection may have been lost long ago: the first attempt finds out, the second is on a new one.
        for _ in 0..3 {
            if writer.lane.is_none() {
                let what = || format!("{}: storing", self.address.name);
                self.regain(&mut writer).map_err(|fault| match unknown {
                    true => StorageError::Uncertain { what: what() },
                    false => StorageError::from_fault(what(), fault),
                })?;
                match (writer.commits - before, unknown) {
                    (0, _) => {}
                    (1, true) => return Ok(()),
                    _ => {
                        // What memory holds is not what is stored; only a new start can help.
                        (writer.lane, writer.commits) = (None, before);
                        return Err(StorageError::Uncertain { what: what() });
                    }
                }
            }
            match Self::attempt(&mut writer, changes) {
                Ok(()) => return Ok(()),
                Err(Ended::Undone(what, fault)) => return Err(self.told(&what, fault)),
                Err(Ended::Broken) => unknown = false,
                Err(Ended::Unknown) => unknown = true,
            }
        }
        let reason = "the connection is lost again and again".to_owned();
        match unknown {
            true => Err(StorageError::Uncertain { what: self.address.name.clone() }),
            false => Err(self.told("storing", Fault::Failed(reason))),
        }
    }

    fn updates(&self, federation: u64, round: u64, visit: &mut Visit<'_>) -> Result<(), StorageError> {
        let result = self.read(&mut |lane| reading::updates(lane, federation, round, visit));
        result.map_err(|stop| match stop {
            reading::Stop::Fault(fault) => {
                self.told(&format!("updates of round {round} of federation {federation}"), fault)
            }
            reading::Stop::Visitor(error) => error,
        })
    }

    fn anonymous_updates(
        &self,
        federation: u64,
        round: u64,
        visit: &mut VisitAnonymous<'_>,
    ) -> Result<(), StorageError> {
        let result = self.read(&mut |lane| reading::anonymous_updates(lane, federation, round, visit));
        result.map_err(|stop| match stop {
            reading::Stop::Fault(fault) => {
                self.told(&format!("updates of round {round} of federation {federation}"), fault)
            }
            reading::Stop::Visitor(error) => error,
        })
    }

    fn rounds(
        &self,
        federation: u64,
        before: Option<u64>,
        most: usize,
    ) -> Result<Vec<RoundRecord>, StorageError> {
        self.read_one("reading rounds", |lane| reading::rounds(lane, federation, before, most))
    }

    fn ping(&self) -> Result<(), StorageError> {
        self.read_one("asking", |lane| reading::secret(lane).map(drop))
    }
}
