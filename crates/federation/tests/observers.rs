//! What observers are told, and what is counted for them.

mod common;

use common::{World, papers, people};
use sottovoce_federation::*;
use sottovoce_protocol::ValueEncoding;

fn world(pi: f64) -> World {
    World {
        histories: people(90, 40),
        schedule: Box::new(|_| Schedule { cohort: Cohort::Fraction(0.5), triples: 6, rounds: 4 }),
        strategy: Box::new(Sum { rate: 0.02 }),
        policy: papers(pi),
        spread: PiSpread::Fixed,
        values: ValueEncoding::F32,
        delivery: Delivery::Direct,
        downloads: Downloads::default(),
        rate: 0.02,
    }
}

#[derive(Default)]
struct Told {
    rounds: Vec<u64>,
    rows: Vec<u64>,
    down: u64,
    epochs: Vec<EpochReport>,
}

impl Observer for Told {
    fn after_round(&mut self, round: &RoundReport<'_>) {
        self.rounds.push(round.round);
        let sent: u64 = round.aggregate.tables()[0].rows().map(|(_, updates, _)| u64::from(updates)).sum();
        assert_eq!(sent, round.participation.rows);
        self.rows.push(sent);
        self.down += round.down;
    }

    fn after_epoch(&mut self, epoch: &EpochReport) {
        self.epochs.push(*epoch);
    }
}

#[test]
fn observers_hear_of_each_round_and_epoch_and_change_nothing() {
    let (mut seen, mut unseen) = (world(0.5).found(3), world(0.5).found(3));
    let mut told = Told::default();
    for _ in 0..3 {
        assert_eq!(seen.epoch_before(&mut told).unwrap(), unseen.epoch().unwrap());
    }
    assert_eq!(seen.shared(), unseen.shared());
    assert_eq!(told.rounds, (0..12).collect::<Vec<u64>>());
    assert_eq!(told.epochs.len(), 3);
    assert_eq!(told.down, told.epochs.iter().map(|epoch| epoch.down).sum::<u64>());
    let counted: u64 = seen.row_updates().tables()[0].iter().sum();
    assert_eq!(counted, told.rows.iter().sum::<u64>());
}

#[test]
fn items_that_many_have_are_sent_less_when_owners_disclose_less() {
    let histories = people(90, 40);
    let popularity = histories.popularity();
    let of_popular = |pi: f64| {
        let mut federation = world(pi).found(1);
        for _ in 0..5 {
            federation.epoch().unwrap();
        }
        let counts = &federation.row_updates().tables()[0];
        let popular: u64 = (0..40).filter(|&item| popularity[item] > 15).map(|item| counts[item]).sum();
        popular as f64 / counts.iter().sum::<u64>() as f64
    };
    assert!(of_popular(0.0) < 0.8 * of_popular(1.0), "{} {}", of_popular(0.0), of_popular(1.0));
}
