//! Which rows are sent how often.

mod common;

use common::{World, fixed, people, per_round};
use sottovoce_federation::*;
use sottovoce_protocol::{Parameters, Update};
use std::sync::{Arc, Mutex};

fn world(pi: f64) -> World {
    World {
        histories: people(90, 40),
        schedule: fixed(Schedule {
            cohort: Cohort::Fraction(0.5),
            triples: 6,
            rounds: 4,
            mean_history: 20,
            devices: 90,
        }),
        policy: per_round(pi),
        ..World::default()
    }
}

/// Counts the rows of each round's aggregate.
#[derive(Default)]
struct RowCounter(Mutex<Vec<(u64, u64)>>);

impl Recorder for RowCounter {
    fn begin(&self, _: u64, _: &Parameters, _: &[u32]) {}

    fn upload(&self, _: u64, _: u32, _: &Update) {}

    fn sealed(&self, _: u64, _: u32) {}

    fn sum(&self, round: u64, aggregate: &Aggregate) {
        let rows = aggregate.tables()[0].rows().map(|(_, updates, _)| u64::from(updates)).sum();
        self.0.lock().unwrap().push((round, rows));
    }
}

#[test]
fn row_updates_count_the_rows_of_every_round_and_a_recorder_changes_nothing() {
    let counter = Arc::new(RowCounter::default());
    let mut recorded = World { recorder: Some(counter.clone()), ..world(0.5) }.federation(3);
    let mut plain = world(0.5).federation(3);
    let mut sent = 0;
    for _ in 0..3 {
        let report = recorded.epoch().unwrap();
        assert_eq!(report, plain.epoch().unwrap());
        sent += report.participation.rows;
    }
    assert_eq!(recorded.shared(), plain.shared());
    let rounds = counter.0.lock().unwrap().clone();
    assert_eq!(rounds.iter().map(|(round, _)| *round).collect::<Vec<_>>(), (0..12).collect::<Vec<u64>>());
    assert_eq!(rounds.iter().map(|(_, rows)| rows).sum::<u64>(), sent);
    assert_eq!(recorded.row_updates().tables()[0].iter().sum::<u64>(), sent);
}

#[test]
fn popular_items_are_sent_less_when_users_disclose_less() {
    let popularity = people(90, 40).popularity();
    let of_popular = |pi: f64| {
        let mut federation = world(pi).federation(1);
        for _ in 0..5 {
            federation.epoch().unwrap();
        }
        let counts = &federation.row_updates().tables()[0];
        let popular: u64 = (0..40).filter(|&item| popularity[item] > 15).map(|item| counts[item]).sum();
        popular as f64 / counts.iter().sum::<u64>() as f64
    };
    assert!(of_popular(0.0) < 0.8 * of_popular(1.0), "{} {}", of_popular(0.0), of_popular(1.0));
}
