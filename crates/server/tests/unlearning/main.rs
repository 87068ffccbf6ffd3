//! Somebody withdraws, and training goes back to before they enrolled.

mod host;
mod kept;

use host::{Host, config, objects, record, soon, versions};
use sottovoce_server::federation::{FederationConfig, Unlearn};
use sottovoce_server::storage::Change;

/// What a federation comes to that persons 0 and 1 were in from the start, and nobody else: a version a round.
fn without(rounds: usize) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let host = Host::open(folder.path());
    host.found(config(rounds as u64, Unlearn::None));
    let start = host.digest();
    let people = [(host.enrol("0"), 0), (host.enrol("1"), 1)];
    let mut all = vec![start];
    all.extend((0..rounds).map(|_| host.round(&people)));
    host.kill();
    all
}

/// Persons 0 and 1 hold a round, person 2 joins for two more, and a fourth is under way.
fn with_a_third(host: &Host, rounds: u64) -> [u32; 3] {
    host.found(config(rounds, Unlearn::Retrain));
    let (first, second) = (host.enrol("0"), host.enrol("1"));
    host.round(&[(first, 0), (second, 1)]);
    under_way(host);
    // Into the round that is under way already the third is not asked.
    let third = host.enrol("2");
    host.round(&[(first, 0), (second, 1)]);
    host.round(&[(first, 0), (second, 1), (third, 2)]);
    under_way(host);
    [first, second, third]
}

fn under_way(host: &Host) {
    soon("a round is under way", || host.federation().view(0).under_way.is_some());
}

#[test]
fn what_follows_is_what_a_federation_without_them_comes_to() {
    let without = without(5);
    let folder = tempfile::tempdir().unwrap();
    let host = Host::open(folder.path());
    let [first, second, third] = with_a_third(&host, 5);
    assert_eq!(host.federation().public().version, 3);
    host.withdraw(third);
    soon("training goes back", || host.federation().public().version == 4);
    // Version 1 is the last from before the third enrolled, though version 2 was made without them.
    assert_eq!(host.digest(), without[1]);
    let view = host.federation().view(0);
    // Two rounds are in versions 2 and 3, and one was under way.
    assert_eq!((view.undone, view.rounds), (3, 8));
    soon("what was undone is removed", || objects(folder.path()) == [0, 1, 4]);
    let people = [(first, 0), (second, 1)];
    let after: Vec<String> = (0..4).map(|_| host.round(&people)).collect();
    assert_eq!(after, without[2..]);
    soon("it is finished", || host.federation().public().state == "finished");
    assert_eq!(host.federation().view(0).round, 8);
    host.kill();
    let storage = record(folder.path());
    let rounds = storage.rounds(0, None, 99).unwrap();
    let abandoned: Vec<_> = rounds.iter().filter(|round| round.version.is_none()).collect();
    assert_eq!((rounds.len(), abandoned.len(), abandoned[0].round), (8, 1, 3));
    assert!(abandoned[0].remark.contains("goes back to version 1, now version 4"), "{}", abandoned[0].remark);
}

#[test]
fn a_finished_federation_trains_again_without_them() {
    let folder = tempfile::tempdir().unwrap();
    let host = Host::open(folder.path());
    host.found(config(5, Unlearn::Retrain));
    let start = host.digest();
    let (first, second) = (host.enrol("0"), host.enrol("1"));
    under_way(&host);
    // The first round asks whoever was there when it began.
    let people = [(first, 0), (second, 1), (host.enrol("2"), 2)];
    host.round(&people[..2]);
    (0..4).for_each(|_| drop(host.round(&people)));
    soon("it is finished", || host.federation().public().state == "finished");
    host.withdraw(first);
    soon("training goes back", || host.federation().public().version == 6);
    // Only three versions are kept, but the first one beside them.
    assert_eq!(host.digest(), start);
    let view = host.federation().view(0);
    assert_eq!((view.public.state, view.undone, view.rounds, view.round >= 5), ("running", 5, 10, true));
    soon("what was undone is removed", || objects(folder.path()) == [0, 6]);
    host.round(&people[1..]);
    host.kill();
    let host = Host::open(folder.path());
    let view = host.federation().view(0);
    assert_eq!((view.public.version, view.undone, view.rounds), (7, 5, 10));
    host.kill();
}

/// The withdrawal is written down and the server killed before anything came of it.
#[test]
fn a_server_that_was_killed_goes_back_when_it_starts() {
    let expected = without(2);
    let folder = tempfile::tempdir().unwrap();
    let host = Host::open(folder.path());
    let [first, second, third] = with_a_third(&host, 5);
    host.kill();
    let storage = record(folder.path());
    let withdraw = |device| Change::Withdraw { federation: 0, device, unlearn: true };
    // The later one to withdraw enrolled earlier: that counts.
    storage.commit(&[withdraw(third)]).unwrap();
    storage.commit(&[withdraw(second)]).unwrap();
    let pending = storage.load().unwrap().federations[0].unlearn;
    assert!(pending.is_some());
    drop(storage);
    let host = Host::open(folder.path());
    soon("training goes back", || host.federation().public().version == 4);
    assert_eq!(host.digest(), expected[0]);
    let fourth = host.enrol("again");
    assert_eq!(host.round(&[(first, 0), (fourth, 1)]), expected[1]);
    host.kill();
    let storage = record(folder.path());
    let stored = storage.load().unwrap();
    let federation = &stored.federations[0];
    assert_eq!((federation.unlearn, federation.went_back, federation.undone), (None, Some(4), 4));
    assert_eq!(versions(&stored), [0, 4, 5]);
    assert_eq!(objects(folder.path()), [0, 4, 5]);
}

#[test]
fn nothing_goes_back_unless_the_configuration_says_so_or_for_who_was_in_no_round() {
    let folder = tempfile::tempdir().unwrap();
    let host = Host::open(folder.path());
    host.found(FederationConfig { unlearn: Unlearn::Retrain, ..config(9, Unlearn::None) });
    let people = [(host.enrol("0"), 0), (host.enrol("1"), 1)];
    let after = host.round(&people);
    under_way(&host);
    let newcomer = host.enrol("2");
    host.withdraw(newcomer);
    soon("it is seen to", || !host.federation().view(0).unlearning);
    let view = host.federation().view(0);
    assert_eq!((view.public.version, view.undone, view.rounds), (1, 0, 9));
    assert_eq!(host.digest(), after);
    assert_ne!(host.round(&people), after, "the round under way went on");
    host.kill();

    let folder = tempfile::tempdir().unwrap();
    let host = Host::open(folder.path());
    host.found(config(9, Unlearn::None));
    let people = [(host.enrol("0"), 0), (host.enrol("1"), 1)];
    let after = host.round(&people);
    host.withdraw(people[0].0);
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert_eq!((host.digest(), host.federation().view(0).undone), (after, 0));
    host.kill();
}
