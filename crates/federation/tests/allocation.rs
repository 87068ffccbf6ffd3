//! The hot path does not allocate per triple or device.
//!
//! One test only: the counter is that of the whole process, the test harness's own thread included. The harness
//! allocates once, a round in every epoch: the epoch with the fewest allocations shows what rounds allocate.

mod common;

use common::{World, fixed, people};
use sottovoce_federation::*;
use sottovoce_models::federated::DampedSum;
use sottovoce_protocol::{Policy, ValueEncoding};
use sottovoce_testing::allocation::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new();

/// Allocations of 50 rounds, after 50 in which buffers have grown: the fewest of five times.
fn allocations(users: usize, cohort: Cohort, triples: usize, profile: DeviceProfile, rules: RoundRules) -> usize {
    let mut federation = World {
        histories: people(users, 60),
        schedule: fixed(Schedule { cohort, triples, rounds: 50, mean_history: 20, devices: 100 }),
        strategy: Box::new(DampedSum { learning_rate: 0.01, devices: 20.0 }),
        policy: Policy::new(0.5).unwrap(),
        spread: PiSpread::Uniform,
        values: ValueEncoding::F16,
        learning_rate: 0.01,
        profile,
        rules,
        ..World::default()
    }
    .federation(1);
    federation.epoch().unwrap();
    let mut epoch = || {
        let before = ALLOCATOR.count();
        federation.epoch().unwrap();
        ALLOCATOR.count() - before
    };
    (0..5).map(|_| epoch()).min().unwrap()
}

#[test]
fn rounds_do_not_allocate_per_triple_or_device() {
    let allocations_of =
        |users, cohort, triples| allocations(users, cohort, triples, DeviceProfile::default(), RoundRules::default());
    assert_eq!(allocations_of(100, Cohort::One, 1), 0);
    assert_eq!(allocations_of(100, Cohort::One, 40), 0);
    assert_eq!(allocations_of(100, Cohort::Count(30), 200), 0);
    let profile = DeviceProfile {
        availability: Availability::Diurnal(Diurnal { hours: 12.0, spread: 8.0 }),
        dropout: 0.2,
        straggler_spread: 0.5,
        ..DeviceProfile::default()
    };
    let rules = RoundRules { over_selection: 1.5, deadline: Some(90.0) };
    assert!(allocations(200, Cohort::Count(16), 20, profile, rules) < 5, "lists of lost devices grow a few times");
    // On several threads a round allocates a list of parts and what the thread pool needs, however many devices there
    // are.
    let parallel = allocations_of(3000, Cohort::All, 40);
    let allowed = 50 * (50 + 2 * rayon::current_num_threads());
    assert!(parallel < allowed, "{parallel} of {allowed}");
}
