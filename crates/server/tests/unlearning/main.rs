//! A device withdraws, and training is rolled back to before it enrolled.

mod host;
mod operator;
mod retention;

use host::{Host, config, database, objects, versions, wait_until};
use sottovoce_server::federation::{FederationConfig, Unlearn};
use sottovoce_server::storage::Change;

/// The version of each round of a federation that only persons 0 and 1 were in.
fn without(rounds: usize) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let host = Host::open(folder.path());
    host.create(config(rounds as u64, Unlearn::None));
    let start = host.digest();
    let people = [(host.enrol("0"), 0), (host.enrol("1"), 1)];
    let mut all = vec![start];
    all.extend((0..rounds).map(|_| host.round(&people)));
    host.kill();
    all
}

/// Persons 0 and 1 hold a round, person 2 joins for two more, and a fourth is open.
fn with_a_third(host: &Host, rounds: u64) -> [u32; 3] {
    host.create(config(rounds, Unlearn::Retrain));
    let (first, second) = (host.enrol("0"), host.enrol("1"));
    host.round(&[(first, 0), (second, 1)]);
    wait_for_round(host);
    // The third is not selected for the round that is open already.
    let third = host.enrol("2");
    host.round(&[(first, 0), (second, 1)]);
    host.round(&[(first, 0), (second, 1), (third, 2)]);
    wait_for_round(host);
    [first, second, third]
}

pub(crate) fn wait_for_round(host: &Host) {
    wait_until("a round is open", || host.federation().view(0).under_way.is_some());
}

#[test]
fn rollback_equals_training_without_the_device() {
    let without = without(5);
    let folder = tempfile::tempdir().unwrap();
    let host = Host::open(folder.path());
    let [first, second, third] = with_a_third(&host, 5);
    assert_eq!(host.federation().public().version, 3);
    host.withdraw(third);
    wait_until("training is rolled back", || host.federation().public().version == 4);
    // Version 1 is the last from before the third enrolled, though version 2 was trained without it.
    assert_eq!(host.digest(), without[1]);
    let view = host.federation().view(0);
    // Two rounds are in versions 2 and 3, and one was open.
    assert_eq!((view.undone, view.rounds), (3, 8));
    wait_until("undone versions are removed", || objects(folder.path()) == [0, 1, 4]);
    let people = [(first, 0), (second, 1)];
    let after: Vec<String> = (0..4).map(|_| host.round(&people)).collect();
    assert_eq!(after, without[2..]);
    wait_until("it is finished", || host.federation().public().state == "finished");
    assert_eq!(host.federation().view(0).round, 8);
    host.kill();
    let storage = database(folder.path());
    let rounds = storage.rounds(0, None, 99).unwrap();
    let abandoned: Vec<_> = rounds.iter().filter(|round| round.version.is_none()).collect();
    assert_eq!((rounds.len(), abandoned.len(), abandoned[0].round), (8, 1, 3));
    assert!(abandoned[0].remark.contains("rolled back to version 1, now version 4"), "{}", abandoned[0].remark);
}

#[test]
fn finished_federation_resumes_after_a_withdrawal() {
    let folder = tempfile::tempdir().unwrap();
    let host = Host::open(folder.path());
    host.create(config(5, Unlearn::Retrain));
    let start = host.digest();
    let (first, second) = (host.enrol("0"), host.enrol("1"));
    wait_for_round(&host);
    // The first round selects the devices that had enrolled when it opened.
    let people = [(first, 0), (second, 1), (host.enrol("2"), 2)];
    host.round(&people[..2]);
    (0..4).for_each(|_| drop(host.round(&people)));
    wait_until("it is finished", || host.federation().public().state == "finished");
    host.withdraw(first);
    wait_until("training is rolled back", || host.federation().public().version == 6);
    // Only three versions are kept, and the first one.
    assert_eq!(host.digest(), start);
    let view = host.federation().view(0);
    assert_eq!((view.public.state, view.undone, view.rounds, view.round >= 5), ("running", 5, 10, true));
    wait_until("undone versions are removed", || objects(folder.path()) == [0, 6]);
    host.round(&people[1..]);
    host.kill();
    let host = Host::open(folder.path());
    let view = host.federation().view(0);
    assert_eq!((view.public.version, view.undone, view.rounds), (7, 5, 10));
    host.kill();
}

/// The withdrawal is stored, and the server killed before the rollback.
#[test]
fn restart_rolls_back() {
    let expected = without(2);
    let folder = tempfile::tempdir().unwrap();
    let host = Host::open(folder.path());
    let [first, second, third] = with_a_third(&host, 5);
    host.kill();
    let storage = database(folder.path());
    let withdraw = |device| Change::Withdraw { federation: 0, device, unlearn: true };
    // The device that withdrew later enrolled earlier: that time counts.
    storage.commit(&[withdraw(third)]).unwrap();
    storage.commit(&[withdraw(second)]).unwrap();
    let pending = storage.load().unwrap().federations[0].unlearn;
    assert!(pending.is_some());
    drop(storage);
    let host = Host::open(folder.path());
    wait_until("training is rolled back", || host.federation().public().version == 4);
    assert_eq!(host.digest(), expected[0]);
    let fourth = host.enrol("again");
    assert_eq!(host.round(&[(first, 0), (fourth, 1)]), expected[1]);
    host.kill();
    let storage = database(folder.path());
    let stored = storage.load().unwrap();
    let federation = &stored.federations[0];
    assert_eq!((federation.unlearn, federation.rolled_back, federation.undone), (None, Some(4), 4));
    assert_eq!(versions(&stored), [0, 4, 5]);
    assert_eq!(objects(folder.path()), [0, 4, 5]);
}

#[test]
fn no_rollback_without_configuration_or_participation() {
    let folder = tempfile::tempdir().unwrap();
    let host = Host::open(folder.path());
    host.create(FederationConfig { unlearn: Unlearn::Retrain, ..config(9, Unlearn::None) });
    let people = [(host.enrol("0"), 0), (host.enrol("1"), 1)];
    let after = host.round(&people);
    wait_for_round(&host);
    let newcomer = host.enrol("2");
    host.withdraw(newcomer);
    wait_until("the withdrawal is handled", || !host.federation().view(0).unlearning);
    let view = host.federation().view(0);
    assert_eq!((view.public.version, view.undone, view.rounds), (1, 0, 9));
    assert_eq!(host.digest(), after);
    assert_ne!(host.round(&people), after, "the open round continued");
    host.kill();

    let folder = tempfile::tempdir().unwrap();
    let host = Host::open(folder.path());
    host.create(config(9, Unlearn::None));
    let people = [(host.enrol("0"), 0), (host.enrol("1"), 1)];
    let after = host.round(&people);
    host.withdraw(people[0].0);
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert_eq!((host.digest(), host.federation().view(0).undone), (after, 0));
    host.kill();
}
