//! The tables of a PostgreSQL schema, and how an older one becomes a present one.

use super::super::sql::{Fault, fresh_secret};
use super::connection::fault;
use ::postgres::Client;

/// Each makes the next layout of the one before; the first one starts from nothing. Never changed, only added to.
const LAYOUTS: &[&str] = &[FIRST, SEALS, ANONYMOUS, GOING_BACK];

/// Training that goes back when somebody withdraws. Before there was that, a version had as many rounds as its number says.
const GOING_BACK: &str = "
    ALTER TABLE federation ADD COLUMN undone BIGINT NOT NULL DEFAULT 0;
    ALTER TABLE federation ADD COLUMN went_back BIGINT;
    ALTER TABLE federation ADD COLUMN unlearn BIGINT;
    ALTER TABLE version ADD COLUMN rounds BIGINT NOT NULL DEFAULT 0;
    UPDATE version SET rounds = version;
";

/// What is said between devices and server beside the updates, where those are sealed.
const SEALS: &str = "
    CREATE TABLE seal_note (
        id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, federation BIGINT NOT NULL, round BIGINT NOT NULL,
        device BIGINT, bytes BYTEA NOT NULL
    );
    CREATE INDEX seal_note_of ON seal_note (federation, round);
";

/// Tokens that devices were given, and what came with tokens. No row of the one says which of the other is its: neither by a
/// number nor a time. (The order of rows in the files of the database is that in which they were written.)
const ANONYMOUS: &str = "
    CREATE TABLE issued (
        federation BIGINT NOT NULL, round BIGINT NOT NULL, device BIGINT NOT NULL, blinded BYTEA NOT NULL,
        PRIMARY KEY (federation, round, device)
    );
    CREATE TABLE anonymous_receipt (
        federation BIGINT NOT NULL, round BIGINT NOT NULL, nullifier BYTEA NOT NULL, key TEXT NOT NULL,
        digest BYTEA NOT NULL, bytes BIGINT NOT NULL,
        PRIMARY KEY (federation, round, nullifier)
    );
    CREATE TABLE anonymous_body (
        federation BIGINT NOT NULL, round BIGINT NOT NULL, nullifier BYTEA NOT NULL, bytes BYTEA NOT NULL,
        PRIMARY KEY (federation, round, nullifier)
    );
    ALTER TABLE anonymous_body ALTER COLUMN bytes SET STORAGE EXTERNAL;
";

// Updates hardly compress, so the server does not try; they go beside the table (TOAST) as they are.
const FIRST: &str = "
    CREATE TABLE sottovoce_layout (layout BIGINT NOT NULL);
    INSERT INTO sottovoce_layout VALUES (0);
    CREATE TABLE server (
        only_row BIGINT PRIMARY KEY CHECK (only_row = 1), secret BYTEA NOT NULL, next_federation BIGINT NOT NULL,
        next_token BIGINT NOT NULL, commits BIGINT NOT NULL
    );
    CREATE TABLE federation (
        id BIGINT PRIMARY KEY, name TEXT NOT NULL UNIQUE, config TEXT NOT NULL, catalog BYTEA NOT NULL,
        created BIGINT NOT NULL, standing TEXT NOT NULL, next_device BIGINT NOT NULL, next_round BIGINT NOT NULL,
        version BIGINT NOT NULL
    );
    CREATE TABLE device (
        federation BIGINT NOT NULL REFERENCES federation, number BIGINT NOT NULL, credential BYTEA NOT NULL,
        enrolled BIGINT NOT NULL, seen BIGINT NOT NULL, revoked BIGINT NOT NULL,
        PRIMARY KEY (federation, number)
    );
    CREATE TABLE token (
        id BIGINT PRIMARY KEY, federation BIGINT REFERENCES federation, uses BIGINT, role TEXT, hash BYTEA NOT NULL,
        label TEXT NOT NULL, created BIGINT NOT NULL, expires BIGINT
    );
    CREATE TABLE open_round (
        federation BIGINT PRIMARY KEY REFERENCES federation, round BIGINT NOT NULL, version BIGINT NOT NULL,
        wanted BIGINT NOT NULL, minimum BIGINT NOT NULL, opened BIGINT NOT NULL, deadline BIGINT,
        closing BIGINT NOT NULL, cohort BYTEA NOT NULL
    );
    CREATE TABLE receipt (
        id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, federation BIGINT NOT NULL, round BIGINT NOT NULL,
        device BIGINT NOT NULL, key TEXT NOT NULL, digest BYTEA NOT NULL, bytes BIGINT NOT NULL,
        UNIQUE (federation, round, device)
    );
    CREATE TABLE body (receipt BIGINT PRIMARY KEY, bytes BYTEA NOT NULL);
    ALTER TABLE body ALTER COLUMN bytes SET STORAGE EXTERNAL;
    CREATE TABLE decline (
        federation BIGINT NOT NULL, round BIGINT NOT NULL, device BIGINT NOT NULL,
        PRIMARY KEY (federation, round, device)
    );
    CREATE TABLE round_record (
        federation BIGINT NOT NULL REFERENCES federation, round BIGINT NOT NULL, version BIGINT,
        asked BIGINT NOT NULL, counted BIGINT NOT NULL, declined BIGINT NOT NULL, refused BIGINT NOT NULL,
        bytes_up BIGINT NOT NULL, bytes_down BIGINT NOT NULL, opened BIGINT NOT NULL, closed BIGINT NOT NULL,
        criteria TEXT NOT NULL, remark TEXT NOT NULL,
        PRIMARY KEY (federation, round)
    );
    CREATE TABLE version (
        federation BIGINT NOT NULL REFERENCES federation, version BIGINT NOT NULL, digest BYTEA NOT NULL,
        bytes BIGINT NOT NULL, created BIGINT NOT NULL,
        PRIMARY KEY (federation, version)
    );
";

/// What a schema is.
#[derive(Debug, PartialEq)]
pub(super) enum Found {
    /// Of the present layout, now at least.
    Present,
    /// Of a layout that is not known yet.
    Newer { found: u32, known: u32 },
}

/// Makes the tables of an empty schema and brings an older one up to date, in one step.
pub(super) fn prepare(client: &mut Client) -> Result<Found, Fault> {
    let mut work = client.transaction().map_err(fault)?;
    let there = work.query_one("SELECT to_regclass('sottovoce_layout') IS NOT NULL", &[]).map_err(fault)?;
    let done = match there.try_get(0).map_err(fault)? {
        true => {
            let row = work.query_one("SELECT layout FROM sottovoce_layout", &[]).map_err(fault)?;
            let layout: i64 = row.try_get(0).map_err(fault)?;
            u32::try_from(layout).unwrap_or(u32::MAX)
        }
        false => 0,
    };
    let known = LAYOUTS.len() as u32;
    if done > known {
        return Ok(Found::Newer { found: done, known });
    }
    for layout in &LAYOUTS[done as usize..] {
        work.batch_execute(layout).map_err(fault)?;
    }
    if done == 0 {
        let secret = fresh_secret()?;
        work.execute("INSERT INTO server VALUES (1, $1, 0, 0, 0)", &[&&secret[..]]).map_err(fault)?;
    }
    if done < known {
        work.execute("UPDATE sottovoce_layout SET layout = $1", &[&i64::from(known)]).map_err(fault)?;
    }
    work.commit().map_err(fault)?;
    Ok(Found::Present)
}
