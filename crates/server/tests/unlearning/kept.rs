//! Uploads that are kept for an audit: whole or not at all, and nobody's who withdrew.

use crate::host::{Host, config, record, runtime, soon};
use sottovoce_federation::{Collected, Recorder, StoredUploads};
use sottovoce_protocol::{Parameters, Update};
use sottovoce_server::federation::{FederationConfig, Unlearn};
use sottovoce_server::storage::{
    Change, Hash, RoundRecord, Storage, StorageError, Stored, Visit, VisitAnonymous,
};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

fn keeping(rounds: u64, unlearn: Unlearn) -> FederationConfig {
    FederationConfig { devices: 3, record_uploads: true, ..config(rounds, unlearn) }
}

/// Notes round and devices.
#[derive(Default)]
struct Heard(Mutex<Vec<(u64, Vec<u32>)>>);

impl Recorder for Heard {
    fn begin(&self, round: u64, _: &Parameters, devices: &[u32]) {
        self.0.lock().unwrap().push((round, devices.to_vec()));
    }

    fn upload(&self, _: u64, _: u32, update: &Update) {
        assert_eq!(update.tables()[0].iter().count(), 2);
    }

    fn sealed(&self, _: u64, _: u32) {}

    fn sum(&self, _: u64, _: &Collected) {}
}

/// Whose uploads are kept, by round.
fn kept(folder: &Path) -> Vec<(u64, Vec<u32>)> {
    let heard = Heard::default();
    match StoredUploads::open(&folder.join("uploads/town")) {
        Ok(uploads) => uploads.replay(&heard).unwrap(),
        Err(error) => assert!(error.to_string().contains("no uploads are kept here"), "{error}"),
    }
    heard.0.into_inner().unwrap()
}

fn is_kept(folder: &Path) -> bool {
    folder.join("uploads/town/round-0000000000").exists()
}

/// A database that, while it is stuck, takes everything but the end of rounds.
struct Stuck(Arc<dyn Storage>, AtomicBool);

impl Storage for Stuck {
    fn load(&self) -> Result<Stored, StorageError> {
        self.0.load()
    }

    fn secret(&self) -> Result<Hash, StorageError> {
        self.0.secret()
    }

    fn commit(&self, changes: &[Change]) -> Result<(), StorageError> {
        let closes = changes.iter().any(|change| matches!(change, Change::Close(..)));
        if closes && self.1.load(Ordering::SeqCst) {
            let (what, reason) = ("the end of a round".to_owned(), "stuck".to_owned());
            return Err(StorageError::Database { what, reason });
        }
        self.0.commit(changes)
    }

    fn updates(&self, federation: u64, round: u64, visit: &mut Visit<'_>) -> Result<(), StorageError> {
        self.0.updates(federation, round, visit)
    }

    fn anonymous_updates(
        &self,
        federation: u64,
        round: u64,
        visit: &mut VisitAnonymous<'_>,
    ) -> Result<(), StorageError> {
        self.0.anonymous_updates(federation, round, visit)
    }

    fn rounds(
        &self,
        federation: u64,
        before: Option<u64>,
        most: usize,
    ) -> Result<Vec<RoundRecord>, StorageError> {
        self.0.rounds(federation, before, most)
    }

    fn ping(&self) -> Result<(), StorageError> {
        self.0.ping()
    }
}

#[test]
fn what_somebody_sent_is_deleted_when_they_withdraw() {
    let folder = tempfile::tempdir().unwrap();
    let host = Host::open(folder.path());
    host.found(keeping(9, Unlearn::None));
    let public = serde_json::to_value(host.federation().public()).unwrap();
    assert_eq!(public["record_uploads"], true);
    let people = [(host.enrol("0"), 0), (host.enrol("1"), 1), (host.enrol("2"), 2)];
    host.round(&people);
    host.round(&people);
    assert_eq!(kept(folder.path()), [(0, vec![0, 1, 2]), (1, vec![0, 1, 2])]);
    host.withdraw(1);
    assert_eq!(kept(folder.path()), [(0, vec![0, 2]), (1, vec![0, 2])]);
    // The round that was under way goes on without them, and they stay forgotten.
    host.kill();
    let host = Host::open(folder.path());
    host.round(&[people[0], people[2]]);
    assert_eq!(kept(folder.path()), [(0, vec![0, 2]), (1, vec![0, 2]), (2, vec![0, 2])]);
    host.kill();
}

/// The file of a round is there, the change that ends the round is not written: killed at that moment, or refused by the
/// database; and somebody withdraws.
#[test]
fn a_round_that_was_not_ended_is_kept_again_as_it_is_then() {
    let folder = tempfile::tempdir().unwrap();
    let stuck = Arc::new(Stuck(record(folder.path()), AtomicBool::new(false)));
    let host = Host::open_on(folder.path(), Arc::clone(&stuck) as Arc<_>, runtime());
    host.found(keeping(9, Unlearn::None));
    let people = [(host.enrol("0"), 0), (host.enrol("1"), 1), (host.enrol("2"), 2)];
    stuck.1.store(true, Ordering::SeqCst);
    host.answer(&people);
    soon("the uploads are kept", || is_kept(folder.path()));
    assert_eq!(kept(folder.path()), [(0, vec![0, 1, 2])]);
    host.withdraw(1);
    assert_eq!(kept(folder.path()), [(0, vec![0, 2])]);
    host.kill();
    drop(stuck);
    let host = Host::open(folder.path());
    soon("the round is ended", || host.federation().public().version == 1);
    assert_eq!(kept(folder.path()), [(0, vec![0, 2])]);
    let records = record_of_rounds(host, folder.path());
    assert_eq!((records[0].counted, records.len()), (2, 1));
}

/// Too few are left when the server comes back, or training goes back: either way the round comes to nothing.
#[test]
fn of_a_round_that_comes_to_nothing_nothing_is_kept() {
    for unlearn in [Unlearn::None, Unlearn::Retrain] {
        let folder = tempfile::tempdir().unwrap();
        let stuck = Arc::new(Stuck(record(folder.path()), AtomicBool::new(false)));
        let mut host = Host::open_on(folder.path(), Arc::clone(&stuck) as Arc<_>, runtime());
        host.found(keeping(9, unlearn));
        let people = [(host.enrol("0"), 0), (host.enrol("1"), 1), (host.enrol("2"), 2)];
        stuck.1.store(true, Ordering::SeqCst);
        host.answer(&people);
        soon("the uploads are kept", || is_kept(folder.path()));
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
        soon("the round is ended", || host.federation().view(0).round == 1);
        assert_eq!(kept(folder.path()), []);
        let records = record_of_rounds(host, folder.path());
        assert_eq!((records[0].version, records.len()), (None, 1));
    }
}

fn record_of_rounds(host: Host, folder: &Path) -> Vec<RoundRecord> {
    host.kill();
    record(folder).rounds(0, None, 99).unwrap()
}
