//! The tables of a SQLite database, and how an older one becomes a present one.

use super::super::sql::{Fault, fresh_secret};
use super::fault;
use rusqlite::{Connection, Transaction, TransactionBehavior};

/// Stands in the file's header, so that another program's database is not taken for one of ours: "SOTV".
const APPLICATION: i32 = 0x534f_5456;

/// Each makes the next layout of the one before; the first one starts from nothing. Never changed, only added to.
const LAYOUTS: &[&str] = &[FIRST, SEALS, ANONYMOUS, GOING_BACK];

/// Training that goes back when somebody withdraws. Before there was that, a version had as many rounds as its number says.
const GOING_BACK: &str = "
    ALTER TABLE federation ADD COLUMN undone INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE federation ADD COLUMN went_back INTEGER;
    ALTER TABLE federation ADD COLUMN unlearn INTEGER;
    ALTER TABLE version ADD COLUMN rounds INTEGER NOT NULL DEFAULT 0;
    UPDATE version SET rounds = version;
";

/// What is said between devices and server beside the updates, where those are sealed.
const SEALS: &str = "
    CREATE TABLE seal_note (
        id INTEGER PRIMARY KEY, federation INTEGER NOT NULL, round INTEGER NOT NULL, device INTEGER, bytes BLOB NOT NULL
    ) STRICT;
    CREATE INDEX seal_note_of ON seal_note (federation, round);
";

/// Tokens that devices were given, and what came with tokens. No row of the one says which of the other is its: neither by a
/// number, nor a time, nor the order in which they were written, which goes by the tokens' random bytes.
const ANONYMOUS: &str = "
    CREATE TABLE issued (
        federation INTEGER NOT NULL, round INTEGER NOT NULL, device INTEGER NOT NULL, blinded BLOB NOT NULL,
        PRIMARY KEY (federation, round, device)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE anonymous_receipt (
        federation INTEGER NOT NULL, round INTEGER NOT NULL, nullifier BLOB NOT NULL, key TEXT NOT NULL,
        digest BLOB NOT NULL, bytes INTEGER NOT NULL,
        PRIMARY KEY (federation, round, nullifier)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE anonymous_body (
        federation INTEGER NOT NULL, round INTEGER NOT NULL, nullifier BLOB NOT NULL, bytes BLOB NOT NULL,
        PRIMARY KEY (federation, round, nullifier)
    ) STRICT, WITHOUT ROWID;
";

// Receipts and bodies are written one after the other whatever the device, so that pages fill up and few others change: a
// page that changes is written whole. Only the index over receipts goes by device. A cohort, which can be large, is last in
// its row, so that what is asked at every upload is found before it.
const FIRST: &str = "
    CREATE TABLE server (
        only_row INTEGER PRIMARY KEY CHECK (only_row = 1), secret BLOB NOT NULL,
        next_federation INTEGER NOT NULL, next_token INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE federation (
        id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, config TEXT NOT NULL, catalog BLOB NOT NULL,
        created INTEGER NOT NULL, standing TEXT NOT NULL, next_device INTEGER NOT NULL, next_round INTEGER NOT NULL,
        version INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE device (
        federation INTEGER NOT NULL REFERENCES federation, number INTEGER NOT NULL, credential BLOB NOT NULL,
        enrolled INTEGER NOT NULL, seen INTEGER NOT NULL, revoked INTEGER NOT NULL,
        PRIMARY KEY (federation, number)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE token (
        id INTEGER PRIMARY KEY, federation INTEGER REFERENCES federation, uses INTEGER, role TEXT, hash BLOB NOT NULL,
        label TEXT NOT NULL, created INTEGER NOT NULL, expires INTEGER
    ) STRICT;
    CREATE TABLE open_round (
        federation INTEGER PRIMARY KEY REFERENCES federation, round INTEGER NOT NULL, version INTEGER NOT NULL,
        wanted INTEGER NOT NULL, minimum INTEGER NOT NULL, opened INTEGER NOT NULL, deadline INTEGER,
        closing INTEGER NOT NULL, cohort BLOB NOT NULL
    ) STRICT;
    CREATE TABLE receipt (
        id INTEGER PRIMARY KEY, federation INTEGER NOT NULL, round INTEGER NOT NULL, device INTEGER NOT NULL,
        key TEXT NOT NULL, digest BLOB NOT NULL, bytes INTEGER NOT NULL,
        UNIQUE (federation, round, device)
    ) STRICT;
    CREATE TABLE body (receipt INTEGER PRIMARY KEY, bytes BLOB NOT NULL) STRICT;
    CREATE TABLE decline (
        federation INTEGER NOT NULL, round INTEGER NOT NULL, device INTEGER NOT NULL,
        PRIMARY KEY (federation, round, device)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE round_record (
        federation INTEGER NOT NULL REFERENCES federation, round INTEGER NOT NULL, version INTEGER,
        asked INTEGER NOT NULL, counted INTEGER NOT NULL, declined INTEGER NOT NULL, refused INTEGER NOT NULL,
        bytes_up INTEGER NOT NULL, bytes_down INTEGER NOT NULL, opened INTEGER NOT NULL, closed INTEGER NOT NULL,
        criteria TEXT NOT NULL, remark TEXT NOT NULL,
        PRIMARY KEY (federation, round)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE version (
        federation INTEGER NOT NULL REFERENCES federation, version INTEGER NOT NULL, digest BLOB NOT NULL,
        bytes INTEGER NOT NULL, created INTEGER NOT NULL,
        PRIMARY KEY (federation, version)
    ) STRICT, WITHOUT ROWID;
";

/// What a file is.
#[derive(Debug, PartialEq)]
pub(super) enum Found {
    /// Of the present layout, now at least.
    Present,
    /// Of a layout that is not known yet.
    Newer { found: u32, known: u32 },
    /// Not ours.
    Foreign,
}

/// Makes the tables of an empty database and brings an older one up to date, in one step.
pub(super) fn prepare(connection: &mut Connection) -> Result<Found, Fault> {
    migrate(connection, LAYOUTS, |work| {
        let secret = fresh_secret()?;
        work.execute("INSERT INTO server VALUES (1, ?1, 0, 0)", [secret]).map_err(fault)?;
        Ok(())
    })
}

fn migrate(
    connection: &mut Connection,
    layouts: &[&str],
    begin: impl FnOnce(&Transaction<'_>) -> Result<(), Fault>,
) -> Result<Found, Fault> {
    let work = Transaction::new(connection, TransactionBehavior::Immediate).map_err(fault)?;
    let number = |sql| work.query_row(sql, [], |row| row.get::<_, i32>(0)).map_err(fault);
    let (application, layout) = (number("PRAGMA application_id")?, number("PRAGMA user_version")?);
    let tables = number("SELECT count(*) FROM sqlite_schema")?;
    let done = match (application, tables) {
        (APPLICATION, _) => u32::try_from(layout).unwrap_or(u32::MAX),
        (0, 0) => 0,
        _ => return Ok(Found::Foreign),
    };
    let known = layouts.len() as u32;
    if done > known {
        return Ok(Found::Newer { found: done, known });
    }
    for layout in &layouts[done as usize..] {
        work.execute_batch(layout).map_err(fault)?;
    }
    if done == 0 {
        begin(&work)?;
    }
    if done < known {
        work.pragma_update(None, "application_id", APPLICATION).map_err(fault)?;
        work.pragma_update(None, "user_version", known).map_err(fault)?;
    }
    work.commit().map_err(fault)?;
    Ok(Found::Present)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn migrate(connection: &mut Connection, layouts: &[&str]) -> Result<Found, Fault> {
        super::migrate(connection, layouts, |_| Ok(()))
    }

    fn count(connection: &Connection, sql: &str) -> i32 {
        connection.query_row(sql, [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn an_older_layout_is_brought_up_to_date_with_what_is_in_it() {
        let mut connection = Connection::open_in_memory().unwrap();
        let first = "CREATE TABLE a (x INTEGER); INSERT INTO a VALUES (7);";
        assert_eq!(migrate(&mut connection, &[first]), Ok(Found::Present));
        let second = "ALTER TABLE a ADD COLUMN y INTEGER NOT NULL DEFAULT 8;";
        assert_eq!(migrate(&mut connection, &[first, second]), Ok(Found::Present));
        assert_eq!(migrate(&mut connection, &[first, second]), Ok(Found::Present));
        assert_eq!(count(&connection, "SELECT x + y FROM a"), 15);
        assert_eq!(migrate(&mut connection, &[first]), Ok(Found::Newer { found: 2, known: 1 }));
    }

    #[test]
    fn a_migration_that_fails_changes_nothing() {
        let mut connection = Connection::open_in_memory().unwrap();
        let first = "CREATE TABLE a (x INTEGER);";
        migrate(&mut connection, &[first]).unwrap();
        let broken = "CREATE TABLE b (x INTEGER); INSERT INTO nowhere VALUES (1);";
        assert!(matches!(migrate(&mut connection, &[first, broken]), Err(Fault::Failed(_))));
        assert_eq!(count(&connection, "PRAGMA user_version"), 1);
        assert_eq!(count(&connection, "SELECT count(*) FROM sqlite_schema"), 1);
    }
}
