//! A federation that is saved after any round and restored gives the same bytes.

mod common;

use common::{World, bits as model_bits, fixed, people};
use proptest::prelude::{ProptestConfig, any, prop_assert, prop_assert_eq, proptest};
use sottovoce_federation::*;
use sottovoce_models::federated::Sum;
use sottovoce_protocol::{Parameters, Policy, ValueEncoding};
use std::io::{self, Read, Write};

/// A strategy with state: steps get smaller from round to round.
#[derive(Default)]
struct DecayingSum {
    rounds: u32,
}

impl Strategy for DecayingSum {
    fn apply(&mut self, shared: &mut Parameters, round: &Aggregate) {
        self.rounds += 1;
        Sum { learning_rate: 0.05 / self.rounds as f32 }.apply(shared, round);
    }

    fn advice(&self) -> String {
        String::new()
    }

    fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&self.rounds.to_le_bytes())
    }

    fn restore(&mut self, _: &Parameters, from: &mut dyn Read) -> io::Result<()> {
        let mut rounds = [0; 4];
        from.read_exact(&mut rounds)?;
        self.rounds = u32::from_le_bytes(rounds);
        Ok(())
    }
}

/// A federation in which all of the state matters.
fn federation(cohort: usize, downloads: Downloads, seed: u64) -> Federation {
    let profile = DeviceProfile {
        availability: Availability::Diurnal(Diurnal { hours: 10.0, spread: 6.0 }),
        dropout: 0.1,
        device_seconds: 1200.0,
        straggler_spread: 0.8,
        ..DeviceProfile::default()
    };
    let world = World {
        histories: people(90, 30),
        schedule: fixed(Schedule {
            cohort: Cohort::Count(cohort),
            triples: 3,
            rounds: 4,
            mean_history: 20,
            devices: 90,
        }),
        strategy: Box::<DecayingSum>::default(),
        policy: Policy::new(0.6).unwrap(),
        spread: PiSpread::Uniform,
        values: ValueEncoding::F16,
        downloads,
        learning_rate: 0.05,
        profile,
        rules: RoundRules { over_selection: 1.5, deadline: Some(2000.0) },
        ..World::default()
    };
    world.federation(seed)
}

const CHANGES: Downloads = Downloads { values: ValueEncoding::I8Row, differences: true, min_change: 0.05 };

fn downloads() -> impl proptest::strategy::Strategy<Value = Downloads> {
    let rounded = Downloads { differences: false, ..CHANGES };
    proptest::sample::select(vec![Downloads::default(), rounded, CHANGES])
}

fn bits(federation: &Federation) -> ([Vec<u32>; 3], Vec<u64>, u64, u64) {
    let counts = federation.row_updates().tables()[0].clone();
    (model_bits(federation), counts, federation.rounds(), federation.clock().to_bits())
}

fn saved(federation: &Federation) -> Vec<u8> {
    let mut state = Vec::new();
    federation.save(&mut state).unwrap();
    state
}

/// Runs so many rounds; returns the reports of the epochs that ended in them.
fn go_on(federation: &mut Federation, rounds: usize) -> Vec<EpochReport> {
    (0..rounds).filter_map(|_| federation.step().unwrap()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn restored_equals_never_interrupted(
        cohort in 1usize..70,
        before in 0usize..14,
        after in 1usize..14,
        downloads in downloads(),
        seed in any::<u64>(),
    ) {
        let mut whole = federation(cohort, downloads, seed);
        go_on(&mut whole, before);
        let state = saved(&whole);
        let mut resumed = federation(cohort, downloads, seed);
        let mut from = &state[..];
        resumed.restore(&mut from).unwrap();
        prop_assert!(from.is_empty());
        prop_assert_eq!(go_on(&mut whole, after), go_on(&mut resumed, after));
        prop_assert!(bits(&whole) == bits(&resumed));
        prop_assert_eq!(saved(&whole), saved(&resumed));
    }

    #[test]
    fn damaged_state_never_panics(at in any::<usize>(), to in any::<u8>(), cut in any::<usize>()) {
        let mut once = federation(20, CHANGES, 1);
        go_on(&mut once, 3);
        let mut state = saved(&once);
        let (index, cut) = (at % state.len(), cut % state.len());
        prop_assert!(federation(20, CHANGES, 1).restore(&mut &state[..cut]).is_err());
        state[index] = to;
        drop(federation(20, CHANGES, 1).restore(&mut &state[..]));
    }
}

#[test]
fn rejects_the_state_of_another_federation() {
    let state = saved(&federation(5, Downloads::default(), 1));
    let other = World {
        histories: people(90, 31),
        schedule: fixed(Schedule { cohort: Cohort::All, triples: 3, rounds: 4, mean_history: 20, devices: 90 }),
        strategy: Box::<DecayingSum>::default(),
        ..World::default()
    };
    let error = other.federation(1).restore(&mut &state[..]).unwrap_err().to_string();
    assert_eq!(error, "the shared model has other tables");
    let mut newer = state;
    newer[0] = 77;
    let error = federation(5, Downloads::default(), 1).restore(&mut &newer[..]).unwrap_err().to_string();
    assert!(error.contains("format 77"), "{error}");
}
