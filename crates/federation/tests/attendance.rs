//! Devices that are away, slow, or lost.

mod common;

use common::{World, papers, people};
use proptest::prelude::{ProptestConfig, any, prop, prop_assert, prop_assert_eq, proptest};
use sottovoce_core::Rng;
use sottovoce_federation::*;
use sottovoce_models::federated::fpl::Client;
use sottovoce_protocol::ValueEncoding;

type Town = Federation<InProcess<Client>>;

fn world(cohort: Cohort) -> World {
    World {
        histories: people(140, 50),
        schedule: Box::new(move |_| Schedule { cohort, triples: 4, rounds: 5 }),
        strategy: Box::new(Sum { rate: 0.02 }),
        policy: papers(0.6),
        spread: PiSpread::Uniform,
        values: ValueEncoding::F32,
        delivery: Delivery::Direct,
        downloads: Downloads::default(),
        rate: 0.02,
    }
}

fn bits(town: &Town) -> (Vec<u32>, Vec<u32>) {
    let of = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect();
    (of(town.shared().tables()[0].values()), of(town.fleet().private()))
}

fn diurnal() -> Availability {
    Availability::Diurnal(Diurnal { hours: 9.0, spread: 5.0 })
}

fn troubled() -> DeviceProfile {
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
fn troubles_are_the_same_on_any_number_of_threads() {
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let mut town = world(Cohort::Fraction(0.6)).found_with(3, troubled()).with_rules(RULES);
            let reports: Vec<EpochReport> = (0..4).map(|_| town.epoch().unwrap()).collect();
            (bits(&town), reports, town.clock())
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
    fn everybody_is_accounted_for_and_time_goes_on(
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
        let mut town = world(Cohort::Count(cohort)).found_with(seed, profile).with_rules(rules);
        let wanted = cohort.min(120) as u64;
        for _ in 0..12 {
            let before = town.clock();
            let (round, _) = town.round().unwrap();
            prop_assert_eq!(round.trained, round.asked);
            prop_assert_eq!(round.trained, round.dropped + round.late + round.received());
            prop_assert!(round.received() <= wanted && round.asked <= rules.ask(wanted as usize) as u64);
            prop_assert!(town.clock() >= before);
            // With everybody away, or busy with an earlier round, waiting comes on top.
            if round.unavailable == 0 {
                prop_assert!(deadline.is_none_or(|deadline| round.seconds <= deadline));
            }
        }
    }
}

#[test]
fn a_device_whose_update_is_lost_has_learnt_and_the_server_has_not() {
    let start = bits(&world(Cohort::All).found(1));
    let lost = DeviceProfile { dropout: 1.0, ..DeviceProfile::default() };
    let mut town = world(Cohort::All).found_with(1, lost);
    let (round, down) = town.round().unwrap();
    let after = bits(&town);
    assert_eq!((round.asked, round.dropped, round.sent, round.bytes, round.rows), (120, 120, 0, 0, 0));
    assert!(after.0 == start.0 && after.1 != start.1);
    assert!(down > 120 * 4 * 50, "they fetched the model: {down}");
    let mut whole = world(Cohort::All).found(1);
    whole.round().unwrap();
    assert!(bits(&whole).1 == after.1, "private models are those of devices that got through");
    // All too late: the same, but the bytes were sent.
    let rules = RoundRules { over_selection: 1.0, deadline: Some(10.0) };
    let mut town = world(Cohort::All).found(1).with_rules(rules);
    let (round, _) = town.round().unwrap();
    assert_eq!((round.late, round.received(), round.seconds), (120, 0, 10.0));
    assert!(round.bytes > 0 && bits(&town) == after);
    let counted: u64 = town.row_updates().tables()[0].iter().sum();
    assert_eq!(counted, 0, "rows that came too late do not count as updates of the item");
}

#[test]
fn who_is_still_at_work_is_not_asked_again() {
    let profile = DeviceProfile { straggler_spread: 1.0, ..DeviceProfile::default() };
    let rules = RoundRules { over_selection: 1.0, deadline: Some(60.0) };
    let mut town = world(Cohort::All).found_with(2, profile).with_rules(rules);
    let (first, _) = town.round().unwrap();
    let (second, _) = town.round().unwrap();
    assert!(first.asked == 120 && first.late > 30);
    assert!(second.asked < 120 && second.asked + second.unavailable == 120, "{second:?}");
    assert!(second.unavailable <= first.late);
}

#[test]
fn the_server_waits_for_somebody_to_be_there() {
    let trace = |text| DeviceProfile {
        availability: Availability::Traced(Trace::parse(text).unwrap()),
        ..DeviceProfile::default()
    };
    let mut town = world(Cohort::Count(10)).found_with(2, trace("a 1000 5000\nb 2000 3000"));
    let (first, _) = town.round().unwrap();
    assert_eq!((first.seconds, town.clock()), (1060.0, 1060.0));
    assert!(first.asked == 10 && first.unavailable > 120, "{first:?}");
    while town.clock() < 4900.0 {
        assert_eq!(town.round().unwrap().0.asked, 10);
    }
    // The trace is over at 5000 and begins again.
    let wait = (0..10).map(|_| town.round().unwrap().0.seconds).fold(0.0, f64::max);
    assert!((1000.0..1200.0).contains(&wait), "{wait}");
}

#[test]
fn weights_decide_who_takes_part() {
    let histories = people(140, 50);
    let devices = Population::of(&histories).devices;
    let weights: Vec<f64> =
        devices.iter().map(|&device| histories.of(device as usize).len() as f64).collect();
    let mut even = world(Cohort::Count(12)).found(7);
    let mut weighed = world(Cohort::Count(12)).found(7).weighting(&weights).unwrap();
    let rows = |town: &mut Town| (0..20).map(|_| town.round().unwrap().0.rows).sum::<u64>();
    // Longer histories, more different rows in four triples.
    assert!(rows(&mut weighed) > rows(&mut even));
    let wrong = world(Cohort::One).found(7).weighting(&weights[1..]).err().unwrap().to_string();
    assert_eq!(wrong, "119 weights for 120 devices");
    let mut rng = Rng::new(1);
    let mut selector = CohortSelector::new(devices.clone()).weighted(&weights).unwrap();
    assert_eq!(selector.draw(500, &mut rng), devices);
}
