//! The tables, and the migrations from older versions of them.
//!
//! Both databases have the same tables. A migration is written once; placeholders stand for the types of the database.

use super::StorageError;
use super::sql::{Result, Sql, SqlError};

/// How a database spells what the other spells differently.
pub(super) struct Dialect {
    /// Placeholders and what they stand for: `{int}` and `{bytes}` are types, `{auto}` is a key that the database
    /// assigns, `{rows}` and `{keyed}` end a table in order of insertion or of its primary key.
    pub(super) words: [(&'static str, &'static str); 5],
    /// Statements of this database alone, added to each migration.
    pub(super) extra: [&'static str; MIGRATIONS.len()],
}

impl Dialect {
    /// All migrations. Never changed, only added to.
    pub(super) fn migrations(&self) -> Vec<String> {
        let spelled = |text: &str| self.words.iter().fold(text.to_owned(), |text, (a, b)| text.replace(a, b));
        MIGRATIONS.iter().zip(self.extra).map(|(common, extra)| spelled(common) + extra).collect()
    }
}

/// Each starts from the result of the one before, the first from nothing.
const MIGRATIONS: [&str; 7] = [FIRST, SEALS, ANONYMOUS, ROLLBACK, AUDIENCES, QUARANTINE, LIVING];

// Receipts and bodies are stored in order of insertion, whatever the device, so that pages fill up and few others
// change: a changed page is written whole. Only the index of receipts is ordered by device. A cohort, which can be
// large, is last in its row, so that the columns read at every upload come before it.
const FIRST: &str = "
    CREATE TABLE server (
        only_row {int} PRIMARY KEY CHECK (only_row = 1), secret {bytes} NOT NULL,
        next_federation {int} NOT NULL, next_token {int} NOT NULL
    ){rows};
    CREATE TABLE federation (
        id {int} PRIMARY KEY, name TEXT NOT NULL UNIQUE, config TEXT NOT NULL, catalog {bytes} NOT NULL,
        created {int} NOT NULL, standing TEXT NOT NULL, next_device {int} NOT NULL, next_round {int} NOT NULL,
        version {int} NOT NULL
    ){rows};
    CREATE TABLE device (
        federation {int} NOT NULL REFERENCES federation, number {int} NOT NULL, credential {bytes} NOT NULL,
        enrolled {int} NOT NULL, seen {int} NOT NULL, revoked {int} NOT NULL,
        PRIMARY KEY (federation, number)
    ){keyed};
    CREATE TABLE token (
        id {int} PRIMARY KEY, federation {int} REFERENCES federation, uses {int}, role TEXT, hash {bytes} NOT NULL,
        label TEXT NOT NULL, created {int} NOT NULL, expires {int}
    ){rows};
    CREATE TABLE open_round (
        federation {int} PRIMARY KEY REFERENCES federation, round {int} NOT NULL, version {int} NOT NULL,
        wanted {int} NOT NULL, minimum {int} NOT NULL, opened {int} NOT NULL, deadline {int},
        closing {int} NOT NULL, cohort {bytes} NOT NULL
    ){rows};
    CREATE TABLE receipt (
        id {auto}, federation {int} NOT NULL, round {int} NOT NULL, device {int} NOT NULL,
        key TEXT NOT NULL, digest {bytes} NOT NULL, bytes {int} NOT NULL,
        UNIQUE (federation, round, device)
    ){rows};
    CREATE TABLE body (receipt {int} PRIMARY KEY, bytes {bytes} NOT NULL){rows};
    CREATE TABLE decline (
        federation {int} NOT NULL, round {int} NOT NULL, device {int} NOT NULL,
        PRIMARY KEY (federation, round, device)
    ){keyed};
    CREATE TABLE round_record (
        federation {int} NOT NULL REFERENCES federation, round {int} NOT NULL, version {int},
        asked {int} NOT NULL, counted {int} NOT NULL, declined {int} NOT NULL, refused {int} NOT NULL,
        bytes_up {int} NOT NULL, bytes_down {int} NOT NULL, opened {int} NOT NULL, closed {int} NOT NULL,
        criteria TEXT NOT NULL, remark TEXT NOT NULL,
        PRIMARY KEY (federation, round)
    ){keyed};
    CREATE TABLE version (
        federation {int} NOT NULL REFERENCES federation, version {int} NOT NULL, digest {bytes} NOT NULL,
        bytes {int} NOT NULL, created {int} NOT NULL,
        PRIMARY KEY (federation, version)
    ){keyed};
";

/// Messages of secure aggregation.
const SEALS: &str = "
    CREATE TABLE seal_note (
        id {auto}, federation {int} NOT NULL, round {int} NOT NULL, device {int}, bytes {bytes} NOT NULL
    ){rows};
    CREATE INDEX seal_note_of ON seal_note (federation, round);
";

/// One-time tokens issued to devices, and updates sent with tokens. Nothing links a row of one table to a row of the
/// other: neither a number, nor a time, nor in SQLite the order of insertion, since rows are ordered by the tokens'
/// random bytes.
const ANONYMOUS: &str = "
    CREATE TABLE issued (
        federation {int} NOT NULL, round {int} NOT NULL, device {int} NOT NULL, blinded {bytes} NOT NULL,
        PRIMARY KEY (federation, round, device)
    ){keyed};
    CREATE TABLE anonymous_receipt (
        federation {int} NOT NULL, round {int} NOT NULL, nullifier {bytes} NOT NULL, key TEXT NOT NULL,
        digest {bytes} NOT NULL, bytes {int} NOT NULL,
        PRIMARY KEY (federation, round, nullifier)
    ){keyed};
    CREATE TABLE anonymous_body (
        federation {int} NOT NULL, round {int} NOT NULL, nullifier {bytes} NOT NULL, bytes {bytes} NOT NULL,
        PRIMARY KEY (federation, round, nullifier)
    ){keyed};
";

/// Rollbacks when a device withdraws. Before there were any, a version's number was the number of its rounds.
const ROLLBACK: &str = "
    ALTER TABLE federation ADD COLUMN undone {int} NOT NULL DEFAULT 0;
    ALTER TABLE federation ADD COLUMN went_back {int};
    ALTER TABLE federation ADD COLUMN unlearn {int};
    ALTER TABLE version ADD COLUMN rounds {int} NOT NULL DEFAULT 0;
    UPDATE version SET rounds = version;
";

/// Audiences. As with anonymous uploads, nothing links the devices that had tokens to the segment ids that were
/// reported with tokens: no column is common to both but the rotation, which is everybody's.
const AUDIENCES: &str = "
    CREATE TABLE audience (
        federation {int} NOT NULL REFERENCES federation, id {int} NOT NULL, advertiser {int} NOT NULL,
        name TEXT NOT NULL, definition TEXT NOT NULL, created {int} NOT NULL, expires {int} NOT NULL, closed {int},
        PRIMARY KEY (federation, id)
    ){keyed};
    CREATE TABLE measurement (
        federation {int} NOT NULL REFERENCES federation, id {int} NOT NULL, advertiser {int} NOT NULL,
        audience {int}, question TEXT NOT NULL, requested {int} NOT NULL, round {int}, result TEXT,
        PRIMARY KEY (federation, id)
    ){keyed};
    CREATE TABLE audience_issued (
        federation {int} NOT NULL, rotation {int} NOT NULL, device {int} NOT NULL, digest {bytes} NOT NULL,
        PRIMARY KEY (federation, rotation, device)
    ){keyed};
    CREATE TABLE segment (
        federation {int} NOT NULL, audience {int} NOT NULL, rotation {int} NOT NULL, nullifier {bytes} NOT NULL,
        segment {bytes} NOT NULL,
        PRIMARY KEY (federation, audience, rotation, nullifier)
    ){keyed};
";

/// Devices that are not asked any more, and why.
const QUARANTINE: &str = "
    ALTER TABLE device ADD COLUMN quarantine TEXT;
";

/// How training goes on; federations that were deleted; and what operators did.
const LIVING: &str = "
    ALTER TABLE federation ADD COLUMN plan TEXT NOT NULL DEFAULT '';
    CREATE TABLE gone (
        federation {int} PRIMARY KEY, name TEXT NOT NULL, deleted {int} NOT NULL, versions TEXT NOT NULL
    ){rows};
    CREATE TABLE act (
        id {auto}, happened {int} NOT NULL, token {int}, label TEXT NOT NULL, role TEXT NOT NULL, act TEXT NOT NULL,
        federation TEXT, detail TEXT NOT NULL, status {int} NOT NULL
    ){rows};
";

/// Why a database was not migrated.
#[derive(Debug, PartialEq)]
pub(super) enum MigrationError {
    /// Its layout is newer than this program.
    Newer {
        found: u32,
        known: u32,
    },
    /// It belongs to another program.
    Foreign,
    Sql(SqlError),
}

impl From<SqlError> for MigrationError {
    fn from(error: SqlError) -> Self {
        Self::Sql(error)
    }
}

impl MigrationError {
    pub(super) fn of(self, what: &str) -> StorageError {
        let what = what.to_owned();
        match self {
            Self::Newer { found, known } => StorageError::Newer { what, found, known },
            Self::Foreign => StorageError::Corrupt { what, reason: "is another program's database".to_owned() },
            Self::Sql(error) => StorageError::from_sql(format!("{what}: opening"), error),
        }
    }
}

/// Runs the migrations that a database of this layout lacks; returns the newest layout.
pub(super) fn migrate<S: AsRef<str>>(
    found: u32,
    migrations: &[S],
    mut run: impl FnMut(&str) -> Result<()>,
) -> Result<u32, MigrationError> {
    let known = migrations.len() as u32;
    let missing = migrations.get(found as usize..).ok_or(MigrationError::Newer { found, known })?;
    missing.iter().try_for_each(|migration| run(migration.as_ref()))?;
    Ok(known)
}

/// Fills in a new database.
pub(super) fn initialise(sql: &mut dyn Sql) -> Result<()> {
    let secret = crate::secret::random().map_err(|error| SqlError::Failed(error.to_string()))?;
    let insert = "INSERT INTO server (only_row, secret, next_federation, next_token) VALUES (1, $1, 0, 0)";
    sql.execute(insert, &[(&secret).into()]).map(drop)
}
