//! Rounds of a whole federation.

mod common;

use common::{FACTORS, Planner, World, after as all_after, bits, fixed, people, per_round, spec};
use proptest::prelude::{any, prop, prop_assert_eq, proptest};
use sottovoce_core::Histories;
use sottovoce_federation::*;
use sottovoce_models::federated::{AdaptiveSum, AggregationSpec, DampedSum, LastColumn, Sum};
use sottovoce_models::settings::Choice as _;
use sottovoce_protocol::{Parameters, Policy, RoundTerms, SharedModel, TermsDraft, ValueEncoding, codec};
use std::sync::{Arc, Mutex};

fn configured(configuration: Configuration) -> Planner {
    Box::new(move |population| Schedule::of(configuration, population))
}

type Bits = [Vec<u32>; 3];

/// The bits after some epochs, and the last epoch's report.
fn after(federation: Federation, epochs: usize) -> (Bits, EpochReport) {
    let (bits, reports) = all_after(federation, epochs);
    (bits, reports[epochs - 1])
}

#[test]
fn gives_the_same_bits_on_one_and_on_three_threads() {
    let schedules: [fn() -> Planner; 3] = [
        || configured(Configuration::ParallelPlus),
        || configured(Configuration::Parallel),
        || fixed(Schedule { cohort: Cohort::Fraction(0.6), triples: 3, rounds: 14, mean_history: 20, devices: 100 }),
    ];
    for schedule in schedules {
        let on = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                after(World { schedule: schedule(), spread: PiSpread::Uniform, ..World::default() }.federation(5), 3)
            })
        };
        assert!(on(1) == on(3));
    }
}

#[test]
fn delivery_by_bytes_gives_the_same_bits() {
    for values in ValueEncoding::ALL {
        let by = |delivery| after(World { delivery, values, ..World::default() }.federation(2), 4);
        let (direct, bytes) = (by(Delivery::Direct), by(Delivery::Bytes));
        assert!(direct == bytes, "{values}");
    }
}

/// A list that a strategy writes and a test reads.
type Recorded<T> = Arc<Mutex<Vec<T>>>;

/// Records the rows that the server receives.
struct RecordingSum(Recorded<(usize, u32)>);

impl Strategy for RecordingSum {
    fn apply(&mut self, shared: &mut Parameters, round: &Aggregate) {
        let rows = round.tables()[0].rows().map(|(row, count, _)| (row, count));
        self.0.lock().unwrap().extend(rows);
        Sum { learning_rate: 0.05 }.apply(shared, round);
    }

    fn advice(&self) -> String {
        String::new()
    }
}

proptest! {
    /// One device at a time, so that all rows are from one user.
    #[test]
    fn with_pi_0_no_row_of_a_consumed_item_leaves(
        history in prop::collection::btree_set(0u32..20, 1..19),
        triples in 1usize..200,
        seed in any::<u64>(),
    ) {
        let history: Vec<u32> = history.into_iter().collect();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let world = World {
            histories: Histories::from_lists(std::slice::from_ref(&history), 20).unwrap(),
            schedule: fixed(Schedule { cohort: Cohort::All, triples, rounds: 3, mean_history: 20, devices: 100 }),
            strategy: Box::new(RecordingSum(seen.clone())),
            policy: per_round(0.0),
            ..World::default()
        };
        world.federation(seed).epoch().unwrap();
        let left = seen.lock().unwrap().clone();
        prop_assert_eq!(left.iter().filter(|(row, _)| history.contains(&(*row as u32))).count(), 0);
        prop_assert_eq!(left.is_empty(), false);
    }
}

#[test]
fn hidden_items_and_paused_devices_send_nothing() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let mut policy = Policy::new(1.0).unwrap();
    policy.hide(5);
    World { policy, strategy: Box::new(RecordingSum(seen.clone())), ..World::default() }.federation(1).epoch().unwrap();
    assert!(seen.lock().unwrap().iter().all(|(row, _)| *row != 5));
    let mut paused = Policy::new(1.0).unwrap();
    paused.pause().unwrap();
    let (before, (after, report)) =
        (bits(&World::default().federation(1)), after(World { policy: paused, ..World::default() }.federation(1), 2));
    assert_eq!((report.participation.asked, report.participation.sent), (129, 0));
    assert!(before == after);
}

#[test]
fn the_server_adds_the_learning_rate_times_the_sum() {
    let all = || World { policy: Policy::new(1.0).unwrap(), ..World::default() };
    let mut federation = all().federation(3);
    let start = federation.shared().clone();
    let seen = Arc::new(Mutex::new(Vec::new()));
    struct Sums(Recorded<(usize, Vec<f32>)>);
    impl Strategy for Sums {
        fn apply(&mut self, _: &mut Parameters, round: &Aggregate) {
            self.0.lock().unwrap().extend(round.tables()[0].rows().map(|(row, _, sum)| (row, sum.to_vec())));
        }
        fn advice(&self) -> String {
            String::new()
        }
    }
    World { strategy: Box::new(Sums(seen.clone())), ..all() }.federation(3).epoch().unwrap();
    federation.epoch().unwrap();
    let mut expected = start;
    for (row, sum) in seen.lock().unwrap().iter() {
        let values = expected.tables_mut()[0].row_mut(*row);
        values.iter_mut().zip(sum).for_each(|(value, sum)| *value += 0.02 * sum);
    }
    assert_eq!(federation.shared(), &expected);
}

#[test]
fn counts_the_bytes_of_the_wire_format() {
    let mut federation = World::default().federation(1);
    let shared = SharedModel {
        federation: Default::default(),
        version: Default::default(),
        parameters: federation.shared().clone(),
    };
    let mut model = Vec::new();
    codec::encode_model(&shared, ValueEncoding::F32, &mut model).unwrap();
    let (first, down) = federation.round().unwrap();
    assert_eq!(first.asked, 129);
    let terms = TermsDraft { model: spec(), cohort_size: 129, ..TermsDraft::default() };
    let mut asked = Vec::new();
    codec::encode_terms(&RoundTerms::freeze(terms).unwrap(), &mut asked);
    assert_eq!(down, first.asked * asked.len() as u64 + first.sent * model.len() as u64);
    // Rows of F + 1 floats, an index each, and little around them.
    let least = first.rows * 4 * (FACTORS as u64 + 1);
    assert!(first.bytes > least && first.bytes < least + 2 * first.rows + 40 * first.sent, "{first:?}");
    let half = World { values: ValueEncoding::F16, ..World::default() }.federation(1).round().unwrap().0;
    assert_eq!(first.bytes - half.bytes, first.rows * 2 * (FACTORS as u64 + 1));
}

#[test]
fn every_configuration_reduces_the_loss() {
    for name in Configuration::NAMES {
        let schedule = configured(Configuration::named(name).unwrap());
        let mut federation = World { schedule, ..World::default() }.federation(4);
        let first = federation.epoch().unwrap();
        let last = (0..10).map(|_| federation.epoch().unwrap()).last().unwrap();
        let interactions = Population::of(&World::default().histories).interactions as u64;
        assert!(interactions - first.participation.samples < 129, "{first:?}");
        assert!(last.loss().unwrap() < 0.95 * first.loss().unwrap(), "{first:?} {last:?}");
    }
}

/// Many users who share one popular item.
fn crowd(strategy: Box<dyn Strategy>) -> World {
    World {
        histories: people(4000, 40),
        strategy,
        policy: Policy::new(1.0).unwrap(),
        learning_rate: 0.5,
        ..World::default()
    }
}

#[test]
fn the_sum_diverges_in_large_cohorts_and_damped_strategies_do_not() {
    let mut federation = crowd(Box::new(Sum { learning_rate: 0.5 })).federation(1);
    let error = (0..30).find_map(|_| federation.epoch().err()).expect("divergence is seen");
    assert!(matches!(error, FederationError::Diverged { .. }), "{error}");
    assert!(federation.coordinator().advice().contains("learning_rate below 0.5 or strategy = adaptive"));
    let stable: [Box<dyn Strategy>; 2] = [
        Box::new(DampedSum { learning_rate: 0.5, devices: 10.0 }),
        strategy::build(AggregationSpec::AdaptiveSum(AdaptiveSum {
            max_step: 0.2,
            last_column: LastColumn::Times(3.0),
        })),
    ];
    for strategy in stable {
        let mut federation = crowd(strategy).federation(1);
        let losses: Vec<f64> = (0..30).map(|_| federation.epoch().unwrap().loss().unwrap()).collect();
        assert!(losses[29] < 0.68, "{losses:?}");
    }
}

#[test]
fn sum_and_damped_sum_are_equal_for_one_device() {
    let one = |strategy| World { schedule: configured(Configuration::SequentialPlus), strategy, ..World::default() };
    let sum = after(one(Box::new(Sum { learning_rate: 0.03 })).federation(6), 2);
    assert!(sum == after(one(Box::new(DampedSum { learning_rate: 0.03, devices: 5.0 })).federation(6), 2));
}
