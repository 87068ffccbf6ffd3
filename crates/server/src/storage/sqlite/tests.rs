//! Tests of private functions.

use super::*;
use crate::storage::{
    DeviceRecord, FederationRecord, Receipt, RoundOpening, Sender, Storage, TokenPurpose, TokenRecord, VersionRecord,
};

/// A federation, a device and an open round.
fn with_open_round() -> Vec<Change> {
    let federation = FederationRecord::new(0, "town", String::new(), Vec::new(), 1);
    let version = VersionRecord { federation: 0, version: 0, digest: [1; 32], bytes: 1, created: 1, rounds: 0 };
    let purpose = TokenPurpose::Enrolment { federation: 0, uses: None };
    let token = TokenRecord { id: 0, purpose, hash: [2; 32], label: String::new(), created: 1, expires: None };
    let (credential, quarantine) = ([3; 32], None);
    let device =
        DeviceRecord { federation: 0, number: 0, credential, enrolled: 1, seen: 1, revoked: false, quarantine };
    let (cohort, deadline) = (vec![0], None);
    let opening =
        RoundOpening { federation: 0, round: 0, version: 0, cohort, wanted: 1, minimum: 1, opened: 1, deadline };
    vec![
        Change::CreateFederation(Box::new(federation), version),
        Change::AddToken(token),
        Change::Enrol { device, token: 0 },
        Change::OpenRound(opening),
    ]
}

fn upload(bytes: Vec<u8>) -> Change {
    let (sender, bytes_sent) = (Sender::Device(0), bytes.len() as u64);
    let receipt = Receipt { sender, key: "k".into(), digest: [4; 32], bytes: bytes_sent };
    Change::Upload { federation: 0, round: 0, receipt, bytes: bytes.into() }
}

#[test]
fn full_disk_is_an_error_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Sqlite::open(&folder.path().join("server.db")).unwrap();
    storage.commit(&with_open_round()).unwrap();
    let before = storage.load().unwrap();
    crate::lock(&storage.writer).execute_batch("PRAGMA max_page_count = 40").unwrap();
    let error = storage.commit(&[upload(vec![7; 4 << 20])]).unwrap_err();
    assert!(matches!(error, StorageError::Database { .. }), "{error:?}");
    assert!(error.to_string().ends_with("database or disk is full"), "{error}");
    assert_eq!(storage.load().unwrap(), before);
    storage.commit(&[upload(vec![7; 1000])]).unwrap();
    assert_eq!(storage.load().unwrap().rounds[0].received.len(), 1);
}

#[test]
fn durability_pragmas_are_set() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Sqlite::open(&folder.path().join("server.db")).unwrap();
    for connection in [&storage.writer, &storage.reader] {
        let connection = crate::lock(connection);
        let text = |name| connection.pragma_query_value(None, name, |row| row.get::<_, String>(0)).unwrap();
        let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(text("journal_mode"), "wal");
        assert_eq!(number("synchronous"), 2);
        assert_eq!(number("secure_delete"), 1);
        assert_eq!(number("foreign_keys"), 1);
        assert_eq!(number("page_size"), i64::from(PAGE_BYTES));
    }
}

fn migrate_only(connection: &mut Connection, migrations: &[&str]) -> Result<(), MigrationError> {
    migrate(connection, migrations, |_| Ok(()))
}

fn count(connection: &Connection, sql: &str) -> i32 {
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

#[test]
fn older_layout_is_migrated_with_its_rows() {
    let mut connection = Connection::open_in_memory().unwrap();
    let first = "CREATE TABLE a (x INTEGER); INSERT INTO a VALUES (7);";
    assert_eq!(migrate_only(&mut connection, &[first]), Ok(()));
    let second = "ALTER TABLE a ADD COLUMN y INTEGER NOT NULL DEFAULT 8;";
    assert_eq!(migrate_only(&mut connection, &[first, second]), Ok(()));
    assert_eq!(migrate_only(&mut connection, &[first, second]), Ok(()));
    assert_eq!(count(&connection, "SELECT x + y FROM a"), 15);
    let newer = MigrationError::Newer { found: 2, known: 1 };
    assert_eq!(migrate_only(&mut connection, &[first]), Err(newer));
}

#[test]
fn failed_migration_changes_nothing() {
    let mut connection = Connection::open_in_memory().unwrap();
    let first = "CREATE TABLE a (x INTEGER);";
    migrate_only(&mut connection, &[first]).unwrap();
    let broken = "CREATE TABLE b (x INTEGER); INSERT INTO nowhere VALUES (1);";
    let error = migrate_only(&mut connection, &[first, broken]);
    assert!(matches!(error, Err(MigrationError::Sql(SqlError::Failed(_)))));
    assert_eq!(count(&connection, "PRAGMA user_version"), 1);
    assert_eq!(count(&connection, "SELECT count(*) FROM sqlite_schema"), 1);
}

/// The tables of databases that are in use: a migration that was released never changes.
#[test]
fn tables_are_those_of_released_databases() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Sqlite::open(&folder.path().join("server.db")).unwrap();
    let connection = crate::lock(&storage.reader);
    let sql = "SELECT group_concat(sql, ';') FROM (SELECT sql FROM sqlite_schema ORDER BY name)";
    let tables: String = connection.query_row(sql, [], |row| row.get(0)).unwrap();
    let words: Vec<&str> = tables.split_whitespace().collect();
    let digest = blake3::hash(words.join(" ").as_bytes()).to_hex();
    assert_eq!(&digest[..16], "1040fb2f21bb7403", "{tables}");
}
