//! Retained uploads: complete or not at all, and none of devices that withdrew.

use crate::host::{Host, config, database, runtime, wait_until};
use sottovoce_federation::{Aggregate, Recorder, StoredUploads};
use sottovoce_protocol::{Parameters, Update};
use sottovoce_server::federation::{FederationConfig, Unlearn};
use sottovoce_server::storage::{ActRecord, Change, Hash, RoundRecord, Storage, StorageError, Stored, Visit};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

fn retaining(rounds: u64, unlearn: Unlearn) -> FederationConfig {
    FederationConfig { devices: 3, record_uploads: true, ..config(rounds, unlearn) }
}

/// Collects rounds and devices.
#[derive(Default)]
struct Collector(Mutex<Vec<(u64, Vec<u32>)>>);

impl Recorder for Collector {
    fn begin(&self, round: u64, _: &Parameters, devices: &[u32]) {
        self.0.lock().unwrap().push((round, devices.to_vec()));
    }

    fn upload(&self, _: u64, _: u32, update: &Update) {
        assert_eq!(update.tables()[0].iter().count(), 2);
    }

    fn sealed(&self, _: u64, _: u32) {}

    fn sum(&self, _: u64, _: &Aggregate) {}
}

/// The devices whose uploads are retained, by round.
fn retained(folder: &Path) -> Vec<(u64, Vec<u32>)> {
    let collector = Collector::default();
    match StoredUploads::open(&folder.join("uploads/town")) {
        Ok(uploads) => uploads.replay(&collector).unwrap(),
        Err(error) => assert!(error.to_string().contains("no uploads are stored here"), "{error}"),
    }
    collector.0.into_inner().unwrap()
}

fn is_retained(folder: &Path) -> bool {
    folder.join("uploads/town/round-0000000000").exists()
}

/// A database that rejects the closing of rounds while it is stuck.
struct Stuck(Arc<dyn Storage>, AtomicBool);

impl Storage for Stuck {
    fn load(&self) -> Result<Stored, StorageError> {
        self.0.load()
    }

    fn secret(&self) -> Result<Hash, StorageError> {
        self.0.secret()
    }

    fn commit(&self, changes: &[Change]) -> Result<(), StorageError> {
        let closes = changes.iter().any(|change| matches!(change, Change::CloseRound(..)));
        if closes && self.1.load(Ordering::SeqCst) {
            let (what, reason) = ("closing a round".to_owned(), "stuck".to_owned());
            return Err(StorageError::Database { what, reason });
        }
        self.0.commit(changes)
    }

    fn updates(&self, federation: u64, round: u64, visit: &mut Visit<'_>) -> Result<(), StorageError> {
        self.0.updates(federation, round, visit)
    }

    fn rounds(&self, federation: u64, before: Option<u64>, limit: usize) -> Result<Vec<RoundRecord>, StorageError> {
        self.0.rounds(federation, before, limit)
    }

    fn acts(&self, before: Option<u64>, limit: usize) -> Result<Vec<ActRecord>, StorageError> {
        self.0.acts(before, limit)
    }
}

#[test]
fn withdrawal_deletes_retained_uploads() {
    let folder = tempfile::tempdir().unwrap();
    let host = Host::open(folder.path());
    host.create(retaining(9, Unlearn::None));
    let public = serde_json::to_value(host.federation().public()).unwrap();
    assert_eq!(public["record_uploads"], true);
    let people = [(host.enrol("0"), 0), (host.enrol("1"), 1), (host.enrol("2"), 2)];
    host.round(&people);
    host.round(&people);
    assert_eq!(retained(folder.path()), [(0, vec![0, 1, 2]), (1, vec![0, 1, 2])]);
    host.withdraw(1);
    assert_eq!(retained(folder.path()), [(0, vec![0, 2]), (1, vec![0, 2])]);
    // The open round continues without the device, which stays deleted.
    host.kill();
    let host = Host::open(folder.path());
    host.round(&[people[0], people[2]]);
    assert_eq!(retained(folder.path()), [(0, vec![0, 2]), (1, vec![0, 2]), (2, vec![0, 2])]);
    host.kill();
}

/// The file of a round is written, the closing of the round is not stored: killed at that moment, or rejected by the
/// database; and a device withdraws.
#[test]
fn interrupted_round_is_retained_again() {
    let folder = tempfile::tempdir().unwrap();
    let stuck = Arc::new(Stuck(database(folder.path()), AtomicBool::new(false)));
    let host = Host::open_on(folder.path(), Arc::clone(&stuck) as Arc<_>, runtime());
    host.create(retaining(9, Unlearn::None));
    let people = [(host.enrol("0"), 0), (host.enrol("1"), 1), (host.enrol("2"), 2)];
    stuck.1.store(true, Ordering::SeqCst);
    host.answer(&people);
    wait_until("the uploads are retained", || is_retained(folder.path()));
    assert_eq!(retained(folder.path()), [(0, vec![0, 1, 2])]);
    host.withdraw(1);
    assert_eq!(retained(folder.path()), [(0, vec![0, 2])]);
    host.kill();
    drop(stuck);
    let host = Host::open(folder.path());
    wait_until("the round is closed", || host.federation().public().version == 1);
    assert_eq!(retained(folder.path()), [(0, vec![0, 2])]);
    let records = closed_rounds(host, folder.path());
    assert_eq!((records[0].counted, records.len()), (2, 1));
}

/// Too few devices are left after a restart, or training is rolled back: either way the round is abandoned.
#[test]
fn abandoned_round_retains_nothing() {
    for unlearn in [Unlearn::None, Unlearn::Retrain] {
        let folder = tempfile::tempdir().unwrap();
        let stuck = Arc::new(Stuck(database(folder.path()), AtomicBool::new(false)));
        let mut host = Host::open_on(folder.path(), Arc::clone(&stuck) as Arc<_>, runtime());
        host.create(retaining(9, unlearn));
        let people = [(host.enrol("0"), 0), (host.enrol("1"), 1), (host.enrol("2"), 2)];
        stuck.1.store(true, Ordering::SeqCst);
        host.answer(&people);
        wait_until("the uploads are retained", || is_retained(folder.path()));
        host.withdraw(1);
        host.withdraw(2);
        if unlearn == Unlearn::None {
            host.kill();
            drop(stuck);
            host = Host::open(folder.path());
        } else {
            stuck.1.store(false, Ordering::SeqCst);
            drop(stuck);
        }
        wait_until("the round is closed", || host.federation().view(0).round == 1);
        assert_eq!(retained(folder.path()), []);
        let records = closed_rounds(host, folder.path());
        assert_eq!((records[0].version, records.len()), (None, 1));
    }
}

fn closed_rounds(host: Host, folder: &Path) -> Vec<RoundRecord> {
    host.kill();
    database(folder).rounds(0, None, 99).unwrap()
}
