//! An operator rolls training back to an earlier version.

use crate::host::{Host, config, database, objects, versions, wait_until};
use crate::wait_for_round;
use sottovoce_server::federation::{FederationConfig, RollbackError, Unlearn};
use sottovoce_server::storage::{Change, Status};

/// Four rounds of two people, with a fifth that is open.
fn trained(host: &Host) -> ([(u32, u32); 2], Vec<String>) {
    host.create(FederationConfig { keep_versions: 4, ..config(6, Unlearn::None) });
    let people = [(host.enrol("0"), 0), (host.enrol("1"), 1)];
    let mut digests = vec![host.digest()];
    digests.extend((0..4).map(|_| host.round(&people)));
    wait_for_round(host);
    (people, digests)
}

#[test]
fn training_goes_on_from_the_version_that_the_operator_names() {
    let folder = tempfile::tempdir().unwrap();
    let host = Host::open(folder.path());
    let (people, digests) = trained(&host);
    host.answer(&people[..1]);
    host.roll_back(2).unwrap();
    assert_eq!((host.federation().public().version, host.digest()), (5, digests[2].clone()));
    let view = host.federation().view(0);
    // Versions 3 and 4 had a round each, and one was open.
    assert_eq!((view.undone, view.rounds), (3, 9));
    wait_until("old versions are removed", || host.federation().view(0).versions == [2, 3, 4, 5]);
    // The same people come to the same versions, under other numbers.
    assert_eq!([host.round(&people), host.round(&people)], digests[3..5]);
    let records = database_rounds(&host);
    assert!(records[2].contains("an operator rolled training back: it is rolled back to version 2"), "{records:?}");
}

fn database_rounds(host: &Host) -> Vec<String> {
    host.rounds().into_iter().map(|record| record.remark).collect()
}

#[test]
fn versions_that_cannot_be_restored_are_refused_and_nothing_changes() {
    let folder = tempfile::tempdir().unwrap();
    let host = Host::open(folder.path());
    let (_, digests) = trained(&host);
    wait_until("old versions are removed", || objects(folder.path()) == [1, 2, 3, 4]);
    assert_eq!(host.roll_back(4), Err(RollbackError::Current(4)));
    assert_eq!(host.roll_back(5), Err(RollbackError::Unknown(5)));
    assert_eq!(host.roll_back(0), Err(RollbackError::Gone(0, "1, 2, 3, 4".to_owned())));
    assert_eq!((host.digest(), host.federation().view(0).undone), (digests[4].clone(), 0));
}

/// What an operator was told is done survives a kill at once; what was not stored has not happened.
#[test]
fn a_rollback_survives_a_kill_or_has_not_happened() {
    let folder = tempfile::tempdir().unwrap();
    let host = Host::open(folder.path());
    let (_, digests) = trained(&host);
    host.roll_back(3).unwrap();
    host.kill();
    let host = Host::open(folder.path());
    assert_eq!((host.federation().public().version, host.digest()), (5, digests[3].clone()));
    host.kill();
    // The object of a version that was written before the kill, and not the change: it is written again.
    let model = |version: u64| folder.path().join(format!("models/federations/0/{version:010}.safetensors"));
    std::fs::copy(model(4), model(6)).unwrap();
    let host = Host::open(folder.path());
    assert_eq!(host.digest(), digests[3]);
    host.roll_back(2).unwrap();
    host.kill();
    let host = Host::open(folder.path());
    assert_eq!((host.federation().public().version, host.digest()), (6, digests[2].clone()));
    host.kill();
    assert_eq!(versions(&database(folder.path()).load().unwrap()).last(), Some(&6));
}

#[test]
fn a_federation_that_failed_resumes_from_the_version_before() {
    let folder = tempfile::tempdir().unwrap();
    let host = Host::open(folder.path());
    let (people, digests) = trained(&host);
    host.kill();
    let failed = Change::SetStatus { federation: 0, status: Status::Failed("it diverged".to_owned()) };
    database(folder.path()).commit(&[failed]).unwrap();
    let host = Host::open(folder.path());
    assert_eq!(host.federation().public().state, "failed");
    host.roll_back(3).unwrap();
    assert_eq!((host.federation().public().state, host.digest()), ("running", digests[3].clone()));
    assert_eq!(host.round(&people), digests[4]);
}
