//! Devices that are unavailable, slow or lost.

mod common;

use common::{World, bits, fixed, people, per_round};
use proptest::prelude::{ProptestConfig, any, prop, prop_assert, prop_assert_eq, proptest};
use sottovoce_core::Rng;
use sottovoce_federation::*;

fn world(cohort: Cohort) -> World {
    World {
        histories: people(140, 50),
        schedule: fixed(Schedule { cohort, triples: 4, rounds: 5, mean_history: 20, devices: 100 }),
        policy: per_round(0.6),
        spread: PiSpread::Uniform,
        ..World::default()
    }
}

fn diurnal() -> Availability {
    Availability::Diurnal(Diurnal { hours: 9.0, spread: 5.0 })
}

fn unreliable() -> DeviceProfile {
    DeviceProfile {
        availability: diurnal(),
        dropout: 0.1,
        never_return: 0.05,
        device_seconds: 900.0,
        straggler_spread: 0.6,
    }
}

const RULES: RoundRules = RoundRules { over_selection: 1.4, deadline: Some(1500.0) };

#[test]
fn unreliable_devices_give_the_same_bits_on_any_number_of_threads() {
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let mut federation =
                World { profile: unreliable(), rules: RULES, ..world(Cohort::Fraction(0.6)) }.federation(3);
            let reports: Vec<EpochReport> = (0..4).map(|_| federation.epoch().unwrap()).collect();
            (bits(&federation), reports, federation.clock())
        })
    };
    let (bits, reports, clock) = on(1);
    assert!(on(3) == (bits, reports.clone(), clock));
    let mut all = reports.iter().map(|report| report.participation);
    assert!(all.clone().all(|round| round.late > 0 && round.dropped > 0 && round.unavailable > 0));
    assert!((all.clone().map(|round| round.seconds).sum::<f64>() - clock).abs() < 1e-6);
    assert!(all.all(|round| round.trained == round.asked && round.sent + round.dropped == round.trained));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn every_device_is_counted_once_and_the_clock_never_runs_back(
        cohort in 1usize..100,
        over_selection in 1.0f64..3.0,
        deadline in prop::option::of(30.0f64..400.0),
        dropout in 0.0f64..0.5,
        straggler_spread in prop::option::of(0.1f64..1.5),
        away in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let profile = DeviceProfile {
            availability: if away { diurnal() } else { Availability::Always },
            dropout,
            straggler_spread: straggler_spread.unwrap_or(0.0),
            ..DeviceProfile::default()
        };
        let rules = RoundRules { over_selection, deadline };
        let mut federation = World { profile, rules, ..world(Cohort::Count(cohort)) }.federation(seed);
        let wanted = cohort.min(120) as u64;
        for _ in 0..12 {
            let before = federation.clock();
            let (round, _) = federation.round().unwrap();
            prop_assert_eq!(round.trained, round.asked);
            prop_assert_eq!(round.trained, round.dropped + round.late + round.received());
            prop_assert!(round.received() <= wanted && round.asked <= rules.ask(wanted as usize) as u64);
            prop_assert!(federation.clock() >= before);
            // Where nobody is available, the wait is added.
            if round.unavailable == 0 {
                prop_assert!(deadline.is_none_or(|deadline| round.seconds <= deadline));
            }
        }
    }
}

#[test]
fn a_lost_update_changes_the_private_model_but_not_the_shared_one() {
    let start = bits(&world(Cohort::All).federation(1));
    let lost = DeviceProfile { dropout: 1.0, ..DeviceProfile::default() };
    let mut federation = World { profile: lost, ..world(Cohort::All) }.federation(1);
    let (round, down) = federation.round().unwrap();
    let after = bits(&federation);
    assert_eq!((round.asked, round.dropped, round.sent, round.bytes, round.rows), (120, 120, 0, 0, 0));
    assert!(after[0] == start[0] && after[2] != start[2]);
    assert!(down > 120 * 4 * 50, "they downloaded the model: {down}");
    let mut whole = world(Cohort::All).federation(1);
    whole.round().unwrap();
    assert!(bits(&whole)[2] == after[2], "private models are those of devices whose updates arrived");
    // All too late: the same, but the bytes are sent.
    let rules = RoundRules { over_selection: 1.0, deadline: Some(10.0) };
    let mut federation = World { rules, ..world(Cohort::All) }.federation(1);
    let (round, _) = federation.round().unwrap();
    assert_eq!((round.late, round.received(), round.seconds), (120, 0, 10.0));
    assert!(round.bytes > 0 && bits(&federation) == after);
    let counted: u64 = federation.row_updates().tables()[0].iter().sum();
    assert_eq!(counted, 0, "rows that came too late do not count as updates of the item");
}

#[test]
fn devices_that_still_train_are_not_asked_again() {
    let profile = DeviceProfile { straggler_spread: 1.0, ..DeviceProfile::default() };
    let rules = RoundRules { over_selection: 1.0, deadline: Some(60.0) };
    let mut federation = World { profile, rules, ..world(Cohort::All) }.federation(2);
    let (first, _) = federation.round().unwrap();
    let (second, _) = federation.round().unwrap();
    assert!(first.asked == 120 && first.late > 30);
    assert!(second.asked < 120 && second.asked + second.unavailable == 120, "{second:?}");
    assert!(second.unavailable <= first.late);
}

#[test]
fn the_server_waits_until_a_device_is_available() {
    let trace = |text| DeviceProfile {
        availability: Availability::Traced(Trace::parse(text).unwrap()),
        ..DeviceProfile::default()
    };
    let profile = trace("a 1000 5000\nb 2000 3000");
    let mut federation = World { profile, ..world(Cohort::Count(10)) }.federation(2);
    let (first, _) = federation.round().unwrap();
    assert_eq!((first.seconds, federation.clock()), (1060.0, 1060.0));
    assert!(first.asked == 10 && first.unavailable > 120, "{first:?}");
    while federation.clock() < 4900.0 {
        assert_eq!(federation.round().unwrap().0.asked, 10);
    }
    // The trace ends at 5000 and starts again.
    let wait = (0..10).map(|_| federation.round().unwrap().0.seconds).fold(0.0, f64::max);
    assert!((1000.0..1200.0).contains(&wait), "{wait}");
}

#[test]
fn cohorts_are_drawn_by_weight() {
    let histories = people(140, 50);
    let devices = Population::of(&histories).devices;
    let weights: Vec<f64> = devices.iter().map(|&device| histories.of(device as usize).len() as f64).collect();
    let mut uniform = world(Cohort::Count(12)).federation(7);
    let mut weighted = World { weights: Some(weights.clone()), ..world(Cohort::Count(12)) }.federation(7);
    let rows = |federation: &mut Federation| (0..20).map(|_| federation.round().unwrap().0.rows).sum::<u64>();
    // Longer histories, more different rows in four triples.
    assert!(rows(&mut weighted) > rows(&mut uniform));
    let few = World { weights: Some(weights[1..].to_vec()), ..world(Cohort::One) };
    let wrong = few.weighted_federation(7).err().unwrap().to_string();
    assert_eq!(wrong, "119 weights for 120 devices");
    let mut rng = Rng::new(1);
    let mut selector = CohortSelector::new(devices.clone()).weighted(&weights).unwrap();
    assert_eq!(selector.draw(500, &mut rng), devices);
}
