//! What can only be seen from inside.

use super::*;
use crate::storage::{DeviceRecord, FederationRecord, Purpose, Receipt, RoundOpening, Standing};
use crate::storage::{TokenRecord, VersionRecord};

fn federation() -> Change {
    let (config, catalog) = (String::new(), Vec::new());
    let federation = FederationRecord {
        id: 0,
        name: "town".into(),
        config,
        catalog,
        created: 1,
        standing: Standing::Running,
        next_device: 0,
        next_round: 0,
        version: 0,
        undone: 0,
        went_back: None,
        unlearn: None,
    };
    let version =
        VersionRecord { federation: 0, version: 0, digest: [1; 32], bytes: 1, created: 1, rounds: 0 };
    Change::Found(Box::new(federation), version)
}

/// A federation, a device and an open round.
fn under_way() -> Vec<Change> {
    let purpose = Purpose::Enrolment { federation: 0, uses: None };
    let token =
        TokenRecord { id: 0, purpose, hash: [2; 32], label: String::new(), created: 1, expires: None };
    let device =
        DeviceRecord { federation: 0, number: 0, credential: [3; 32], enrolled: 1, seen: 1, revoked: false };
    let opening = RoundOpening {
        federation: 0,
        round: 0,
        version: 0,
        cohort: vec![0],
        wanted: 1,
        minimum: 1,
        opened: 1,
        deadline: None,
    };
    vec![federation(), Change::AddToken(token), Change::Enrol { device, token: 0 }, Change::Open(opening)]
}

fn upload(bytes: Vec<u8>) -> Change {
    let receipt = Receipt { device: 0, key: "k".into(), digest: [4; 32], bytes: bytes.len() as u64 };
    Change::Upload { federation: 0, round: 0, receipt, bytes: bytes.into() }
}

#[test]
fn a_full_disk_is_an_error_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Sqlite::open(&folder.path().join("server.db")).unwrap();
    storage.commit(&under_way()).unwrap();
    let before = storage.load().unwrap();
    held(&storage.writer).execute_batch("PRAGMA max_page_count = 40").unwrap();
    let error = storage.commit(&[upload(vec![7; 4 << 20])]).unwrap_err();
    assert!(matches!(error, StorageError::Database { .. }), "{error:?}");
    assert!(error.to_string().ends_with("database or disk is full"), "{error}");
    assert_eq!(storage.load().unwrap(), before);
    storage.commit(&[upload(vec![7; 1000])]).unwrap();
    assert_eq!(storage.load().unwrap().rounds[0].received.len(), 1);
}

#[test]
fn the_settings_that_durability_hangs_on_are_in_force() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Sqlite::open(&folder.path().join("server.db")).unwrap();
    for connection in [&storage.writer, &storage.reader] {
        let connection = held(connection);
        let text = |name| connection.pragma_query_value(None, name, |row| row.get::<_, String>(0)).unwrap();
        let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(text("journal_mode"), "wal");
        assert_eq!(number("synchronous"), 2);
        assert_eq!(number("secure_delete"), 1);
        assert_eq!(number("foreign_keys"), 1);
        assert_eq!(number("page_size"), i64::from(PAGE_BYTES));
    }
}
