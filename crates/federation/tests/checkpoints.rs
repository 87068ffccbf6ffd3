//! A federation that is put down after any round and taken up again gives the same bytes.

mod common;

use common::{World, people};
use proptest::prelude::{ProptestConfig, any, prop_assert, prop_assert_eq, proptest};
use sottovoce_federation::*;
use sottovoce_models::federated::fpl::Client;
use sottovoce_protocol::{Parameters, Policy, ValueEncoding};
use std::io::{self, Read, Write};

type Town = Federation<InProcess<Client>>;

/// A strategy that remembers: steps get smaller as rounds go by.
#[derive(Default)]
struct Tiring {
    rounds: u32,
}

impl Strategy for Tiring {
    fn apply(&mut self, shared: &mut Parameters, round: &Aggregate) {
        self.rounds += 1;
        Sum { rate: 0.05 / self.rounds as f32 }.apply(shared, round);
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

/// A world in which everything that a federation remembers matters.
fn town(cohort: usize, downloads: Downloads, seed: u64) -> Town {
    let world = World {
        histories: people(90, 30),
        schedule: Box::new(move |_| Schedule { cohort: Cohort::Count(cohort), triples: 3, rounds: 4 }),
        strategy: Box::<Tiring>::default(),
        policy: Policy::new(0.6).unwrap(),
        spread: PiSpread::Uniform,
        values: ValueEncoding::F16,
        delivery: Delivery::Direct,
        downloads,
        rate: 0.05,
    };
    let profile = DeviceProfile {
        availability: Availability::Diurnal(Diurnal { hours: 10.0, spread: 6.0 }),
        dropout: 0.1,
        device_seconds: 1200.0,
        straggler_spread: 0.8,
        ..DeviceProfile::default()
    };
    world.found_with(seed, profile).with_rules(RoundRules { over_selection: 1.5, deadline: Some(2000.0) })
}

const CHANGES: Downloads = Downloads { values: ValueEncoding::I8Row, differences: true, least_change: 0.05 };

fn downloads() -> impl proptest::strategy::Strategy<Value = Downloads> {
    let rounded = Downloads { differences: false, ..CHANGES };
    proptest::sample::select(vec![Downloads::default(), rounded, CHANGES])
}

fn bits(town: &Town) -> (Vec<u32>, Vec<u32>, Vec<u64>, u64, u64) {
    let of = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect();
    let counts = town.row_updates().tables()[0].clone();
    let shared = of(town.shared().tables()[0].values());
    (shared, of(town.fleet().private()), counts, town.rounds(), town.clock().to_bits())
}

fn saved(town: &Town) -> Vec<u8> {
    let mut state = Vec::new();
    town.save(&mut state).unwrap();
    state
}

/// So many more rounds, and the epochs that ended among them.
fn go_on(town: &mut Town, rounds: usize) -> Vec<EpochReport> {
    (0..rounds).filter_map(|_| town.step(&mut ()).unwrap()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn taken_up_equals_never_put_down(
        cohort in 1usize..70,
        before in 0usize..14,
        after in 1usize..14,
        downloads in downloads(),
        seed in any::<u64>(),
    ) {
        let mut whole = town(cohort, downloads, seed);
        go_on(&mut whole, before);
        let state = saved(&whole);
        let mut resumed = town(cohort, downloads, seed);
        let mut from = &state[..];
        resumed.restore(&mut from).unwrap();
        prop_assert!(from.is_empty());
        prop_assert_eq!(go_on(&mut whole, after), go_on(&mut resumed, after));
        prop_assert!(bits(&whole) == bits(&resumed));
        prop_assert_eq!(saved(&whole), saved(&resumed));
    }

    #[test]
    fn damage_gives_an_error_or_other_numbers_but_never_a_panic(at in any::<usize>(), to in any::<u8>(), partition in any::<usize>()) {
        let mut once = town(20, CHANGES, 1);
        go_on(&mut once, 3);
        let mut state = saved(&once);
        let (place, partition) = (at % state.len(), partition % state.len());
        prop_assert!(town(20, CHANGES, 1).restore(&mut &state[..partition]).is_err());
        state[place] = to;
        drop(town(20, CHANGES, 1).restore(&mut &state[..]));
    }
}

#[test]
fn the_state_of_another_federation_is_refused() {
    let state = saved(&town(5, Downloads::default(), 1));
    let other = World {
        histories: people(90, 31),
        schedule: Box::new(|_| Schedule { cohort: Cohort::All, triples: 3, rounds: 4 }),
        strategy: Box::<Tiring>::default(),
        policy: Policy::new(0.6).unwrap(),
        spread: PiSpread::Fixed,
        values: ValueEncoding::F16,
        delivery: Delivery::Direct,
        downloads: Downloads::default(),
        rate: 0.05,
    };
    let error = other.found(1).restore(&mut &state[..]).unwrap_err().to_string();
    assert_eq!(error, "the shared model has other tables");
    let mut newer = state;
    newer[0] = 77;
    let error = town(5, Downloads::default(), 1).restore(&mut &newer[..]).unwrap_err().to_string();
    assert!(error.contains("format 77"), "{error}");
}
