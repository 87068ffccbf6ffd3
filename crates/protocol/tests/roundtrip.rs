//! Whatever can be built comes back from the bytes as it was, and both sides agree where values are rounded.

mod common;

use common::{decode_as_everything, layout, mend, messages, open_policy, terms};
use proptest::prelude::*;
use sottovoce_core::Rng;
use sottovoce_protocol::*;

fn shapes() -> impl Strategy<Value = Vec<Shape>> {
    let keyed = prop_oneof![Just(Keyed::Dense), Just(Keyed::Items), Just(Keyed::Others)];
    prop::collection::vec((1u32..60, 1u32..7, keyed), 0..5).prop_map(|shapes| {
        let named = |(index, (rows, cols, keyed))| Shape::new(&format!("t{index}"), rows, cols, keyed);
        shapes.into_iter().enumerate().map(named).collect()
    })
}

/// Random rows of every table, some full, some empty.
fn fill(layout: &Layout, rng: &mut Rng) -> Trained {
    let mut trained = Trained::new(layout);
    for (table, shape) in layout.shapes().iter().enumerate() {
        if shape.keyed == Keyed::Dense {
            if rng.chance(0.7) {
                let values = trained.whole(table).unwrap();
                rng.fill_normal(1.0, values);
            }
            continue;
        }
        let density = [0.0, 0.3, 1.0][rng.index(3)];
        for row in 0..shape.rows {
            if rng.chance(density) {
                let mark = if rng.chance(0.5) { RowOrigin::Consumed } else { RowOrigin::Other };
                rng.fill_normal(0.1, trained.push_row(table, row, mark).unwrap());
            }
        }
    }
    trained.set_samples(rng.next_u64() >> rng.index(64));
    if rng.chance(0.5) {
        trained.report(1, rng.normal()).unwrap();
    }
    trained
}

fn random_model(layout: &Layout, version: u64, rng: &mut Rng) -> SharedModel {
    let mut parameters = Parameters::zeros(layout);
    for table in parameters.tables_mut() {
        rng.fill_normal(0.3, table.values_mut());
    }
    SharedModel { federation: FederationId(1), version: ModelVersion(version), parameters }
}

/// The next version: some rows moved a little.
fn moved(model: &SharedModel, rng: &mut Rng) -> SharedModel {
    let mut next = model.clone();
    next.version.0 += 1;
    for table in next.parameters.tables_mut() {
        for row in 0..table.shape().rows as usize {
            if rng.chance(0.4) {
                table.row_mut(row).iter_mut().for_each(|value| *value += 0.01 * rng.normal() as f32);
            }
        }
    }
    next
}

fn bits(parameters: &Parameters) -> Vec<u32> {
    parameters.tables().iter().flat_map(|table| table.values().iter().map(|value| value.to_bits())).collect()
}

proptest! {
    #[test]
    fn updates_round_trip_and_into_received_equals_the_codec(
        shapes in shapes(), seed in any::<u64>(), encoding in 0usize..4, pi in 0.0..=1.0f64,
    ) {
        let layout = Layout::new(shapes).unwrap();
        let terms = terms(ValueEncoding::ALL[encoding]);
        let mut rng = Rng::new(seed);
        let mut policy = open_policy();
        policy.set_pi(pi).unwrap();
        let trained = fill(&layout, &mut rng);
        let sent = trained.disclose(&policy, &terms, 5, &mut Ledger::new(), DisclosureSeeds::once(&mut rng)).unwrap();
        let mut bytes = vec![9; 3];
        codec::encode_update(&sent, &mut bytes);
        prop_assert_eq!(bytes.len() as u64 - 3, codec::update_bytes(&sent));
        let mut received = Received::new(&layout);
        codec::decode_update(&bytes[3..], &mut received).unwrap();
        received.check(&terms).unwrap();
        let passed = sent.into_received();
        prop_assert_eq!(received.update(), passed.update());
        for (a, b) in received.update().tables().iter().zip(passed.update().tables()) {
            prop_assert!(a.values().iter().zip(b.values()).all(|(a, b)| a.to_bits() == b.to_bits()));
        }
        prop_assert_eq!((received.round(), received.encoding()), (terms.round, terms.values));
    }

    #[test]
    fn models_come_back(shapes in shapes(), seed in any::<u64>()) {
        let layout = Layout::new(shapes).unwrap();
        let model = random_model(&layout, seed, &mut Rng::new(seed));
        for encoding in ValueEncoding::ALL {
            let mut bytes = Vec::new();
            codec::encode_model(&model, encoding, &mut bytes).unwrap();
            prop_assert_eq!(bytes.len() as u64, codec::model_bytes(&layout, &model, encoding));
            let held = codec::decode_model(&bytes).unwrap();
            if encoding == ValueEncoding::F32 {
                prop_assert_eq!(bits(&held.parameters), bits(&model.parameters));
            }
            let mut again = Vec::new();
            codec::encode_model(&held, encoding, &mut again).unwrap();
            prop_assert_eq!(again, bytes, "what is held is sent as it was");
        }
    }

    #[test]
    fn catching_up_over_versions_gives_the_same_bits(
        shapes in shapes(), seed in any::<u64>(), encoding in 0usize..3, missed in 1usize..5,
    ) {
        let layout = Layout::new(shapes).unwrap();
        let mut rng = Rng::new(seed);
        let encoding = ValueEncoding::ALL[encoding];
        let rounded = |mut model: SharedModel| {
            for table in model.parameters.tables_mut() {
                let cols = table.shape().cols as usize;
                encoding.round(table.values_mut(), cols);
            }
            model
        };
        let mut server = random_model(&layout, 7, &mut rng);
        let mut device = rounded(server.clone());
        for _ in 0..missed {
            server = moved(&server, &mut rng);
        }
        let (old, held) = (device.clone(), rounded(server));
        let row = |model: &SharedModel, table: usize, row: usize| model.parameters.tables()[table].row(row).to_vec();
        let changed = |table, place| row(&old, table, place) != row(&held, table, place);
        let base = (old.version, old.parameters.checksum());
        let difference = Difference::since_version(&held, base, encoding, changed).unwrap();
        let mut bytes = Vec::new();
        codec::encode_difference(&difference, &mut bytes).unwrap();
        prop_assert_eq!(bytes.len() as u64, codec::difference_bytes(&difference));
        codec::apply_difference(&bytes, &mut device).unwrap();
        prop_assert_eq!(bits(&device.parameters), bits(&held.parameters));
        prop_assert_eq!(device.version, held.version);
    }

    #[test]
    fn random_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(bytes.is_empty() || !decode_as_everything(&bytes, &mut Received::new(&layout())));
    }

    #[test]
    fn a_changed_byte_is_seen(which in 0usize..16, place in any::<prop::sample::Index>(), change in 1u8..) {
        let mut bytes = messages().swap_remove(which);
        *place.get_mut(&mut bytes) ^= change;
        prop_assert!(!decode_as_everything(&bytes, &mut Received::new(&layout())));
    }

    #[test]
    fn mutated_payloads_never_panic_and_decode_to_finite_values(
        which in 0usize..16,
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
        mend_it in any::<bool>(),
    ) {
        let mut bytes = messages().swap_remove(which);
        for (place, value) in &edits {
            *place.get_mut(&mut bytes) = *value;
        }
        if edits.len() == 5 {
            bytes.truncate(cut.index(bytes.len()));
        }
        if mend_it {
            mend(&mut bytes);
        }
        let mut received = Received::new(&layout());
        decode_as_everything(&bytes, &mut received);
        if codec::decode_update(&bytes, &mut received).is_ok() {
            for rows in received.update().tables() {
                prop_assert!(rows.values().iter().all(|value| value.is_finite()));
                prop_assert!(rows.iter().map(|(row, _)| row).is_sorted_by(|a, b| a < b));
            }
        }
    }
}

#[test]
fn all_sample_messages_decode() {
    let all = messages();
    assert_eq!(all.len(), 17);
    let mut received = Received::new(&layout());
    assert!(all.iter().all(|bytes| decode_as_everything(bytes, &mut received)));
}

#[test]
fn check_names_what_differs_from_the_terms() {
    let mut bytes = Vec::new();
    codec::encode_update(&common::disclosed(ValueEncoding::F32, &mut Ledger::new()), &mut bytes);
    let mut received = Received::new(&layout());
    codec::decode_update(&bytes, &mut received).unwrap();
    let against = |change: fn(&mut TermsDraft)| {
        let mut terms = terms(ValueEncoding::F32).into_draft();
        change(&mut terms);
        received.check(&RoundTerms::freeze(terms).unwrap()).unwrap_err().to_string()
    };
    assert_eq!(against(|terms| terms.federation.0 = 8), "for federation 7, expected federation 8");
    assert_eq!(against(|terms| terms.round.0 = 299), "for round 300, expected round 299");
    assert_eq!(against(|terms| terms.values = ValueEncoding::F16), "values as f32, expected f16");
    assert_eq!(against(|terms| terms.samples = false), "a sample count that was not asked for");
    assert_eq!(against(|terms| terms.criteria.truncate(1)), "a criterion that was not asked for");
}
