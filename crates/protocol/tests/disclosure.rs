//! What leaves under which policy, and what the ledger says of it.

mod common;

use common::{disclosed, open_policy, terms, trained};
use proptest::prelude::*;
use sottovoce_core::Rng;
use sottovoce_protocol::*;
use std::collections::BTreeSet;

/// Two tables by item and one by feature.
fn layout() -> Layout {
    Layout::new(vec![
        Shape::new("q", 40, 3, Keyed::Items),
        Shape::new("b", 40, 1, Keyed::Items),
        Shape::new("features", 40, 2, Keyed::Others),
    ])
    .unwrap()
}

/// Every row's values say which row it is, so that a wrong move in place is seen.
fn trained_on(rows: &BTreeSet<u32>, consumed: &BTreeSet<u32>) -> Trained {
    let mut trained = Trained::new(&layout());
    for table in 0..3 {
        for &row in rows {
            let mark = if consumed.contains(&row) { RowOrigin::Consumed } else { RowOrigin::Other };
            let values = trained.push_row(table, row, mark).unwrap();
            values.iter_mut().enumerate().for_each(|(col, value)| *value = (row * 10 + col as u32) as f32);
        }
    }
    trained
}

fn disclose(trained: Trained, policy: &Policy, seed: u64) -> Disclosed {
    trained
        .disclose(policy, &terms(ValueEncoding::F32), 0, &mut Ledger::new(), DisclosureSeeds::once(&mut Rng::new(seed)))
        .unwrap()
}

fn rows_of(disclosed: &Disclosed, table: usize) -> BTreeSet<u32> {
    disclosed.update().tables()[table].iter().map(|(row, _)| row as u32).collect()
}

proptest! {
    #[test]
    fn pi_0_withholds_exactly_the_consumed_rows(
        rows in prop::collection::btree_set(0u32..40, 0..40),
        consumed in prop::collection::btree_set(0u32..40, 0..40),
        seed in any::<u64>(),
    ) {
        let left = disclose(trained_on(&rows, &consumed), &Policy::new(0.0).unwrap(), seed);
        for table in 0..3 {
            prop_assert_eq!(rows_of(&left, table), &rows - &consumed);
        }
        let mut bytes = Vec::new();
        codec::encode_update(&left, &mut bytes);
        let mut received = Received::new(&layout());
        codec::decode_update(&bytes, &mut received).unwrap();
        for rows in received.update().tables() {
            prop_assert!(rows.iter().all(|(row, _)| !consumed.contains(&(row as u32))));
        }
    }

    #[test]
    fn hidden_items_never_leave(
        rows in prop::collection::btree_set(0u32..40, 0..40),
        consumed in prop::collection::btree_set(0u32..40, 0..40),
        hidden in prop::collection::btree_set(0u32..40, 0..10),
        pi in 0.0..=1.0f64,
        seed in any::<u64>(),
    ) {
        let mut policy = Policy::new(pi).unwrap();
        hidden.iter().for_each(|&item| policy.hide(item));
        let left = disclose(trained_on(&rows, &consumed), &policy, seed);
        let items = rows_of(&left, 0);
        prop_assert!(items.is_disjoint(&hidden));
        prop_assert!((&(&rows - &consumed) - &hidden).is_subset(&items));
        prop_assert_eq!(&items, &rows_of(&left, 1), "one decision per item, for all tables by item");
        for rows in left.update().tables() {
            for (row, values) in rows.iter() {
                for (col, &value) in values.iter().enumerate() {
                    prop_assert_eq!(value, (row * 10 + col) as f32);
                }
            }
        }
    }
}

#[test]
fn rows_of_hidden_origin_never_leave() {
    for pi in [0.0, 0.5, 1.0] {
        let mut trained = Trained::new(&layout());
        let marks = [RowOrigin::Other, RowOrigin::Hidden, RowOrigin::Other, RowOrigin::Hidden];
        trained.push_rows(2, &[3, 4, 7, 9], &marks).unwrap().fill(1.0);
        let left = disclose(trained, &Policy::new(pi).unwrap(), 1);
        assert_eq!(rows_of(&left, 2), BTreeSet::from([3, 7]), "pi {pi}");
    }
}

#[test]
fn consumed_rows_leave_with_probability_pi() {
    let all: BTreeSet<u32> = (0..40).collect();
    let policy = Policy::new(0.3).unwrap();
    let mut times = [0u32; 40];
    let rounds = 4000;
    let mut together = 0;
    for seed in 0..rounds {
        let left = rows_of(&disclose(trained_on(&all, &all), &policy, seed), 0);
        left.iter().for_each(|&row| times[row as usize] += 1);
        together += u32::from(left.contains(&0) && left.contains(&1));
    }
    // Five standard deviations are 145 for one item; neighbours are independent.
    assert!(times.iter().all(|&count| count.abs_diff(1200) < 145), "{times:?}");
    assert!(together.abs_diff(360) < 92, "{together}");
}

#[test]
fn fixed_disclosure_is_the_same_in_all_rounds_and_grows_with_pi() {
    let all: BTreeSet<u32> = (0..40).collect();
    let left = |policy: &Policy, draws| {
        let (trained, mut ledger) = (trained_on(&all, &all), Ledger::new());
        let left = trained.disclose(policy, &terms(ValueEncoding::F32), 0, &mut ledger, draws).unwrap();
        rows_of(&left, 0)
    };
    let of_rounds = |policy: &Policy, kept| -> Vec<BTreeSet<u32>> {
        (0..200).map(|round| left(policy, DisclosureSeeds { per_round: round, fixed: kept })).collect()
    };
    let mut policy = Policy::new(0.3).unwrap();
    let rounds = of_rounds(&policy, 7);
    assert!(rounds.iter().all(|rows| *rows == rounds[0]) && (4..24).contains(&rounds[0].len()), "{rounds:?}");
    let said: BTreeSet<u32> = (0..40).filter(|&item| policy.disclosure_probability(item, 7) == 1.0).collect();
    assert_eq!(said, rounds[0], "a device can tell beforehand");
    assert_ne!(left(&policy, DisclosureSeeds { per_round: 0, fixed: 8 }), rounds[0], "another device draws others");
    policy.set_pi(0.5).unwrap();
    assert!(left(&policy, DisclosureSeeds { per_round: 0, fixed: 7 }).is_superset(&rounds[0]));

    policy.set_pi(0.3).unwrap();
    policy.disclosure = DisclosureMode::PerRound;
    let rounds = of_rounds(&policy, 7);
    assert_ne!(rounds[0], rounds[1]);
    assert_eq!(rounds.iter().flatten().copied().collect::<BTreeSet<u32>>(), all, "in the end everything");
    assert_eq!(policy.disclosure_probability(3, 7), 0.3);
    policy.hide(3);
    assert_eq!(policy.disclosure_probability(3, 7), 0.0);
}

#[test]
fn policy_changes_apply_from_the_next_round() {
    let all: BTreeSet<u32> = (0..40).collect();
    let mut policy = Policy::new(1.0).unwrap();
    assert_eq!(rows_of(&disclose(trained_on(&all, &all), &policy, 1), 0).len(), 40);
    policy.set_pi(0.0).unwrap();
    assert_eq!(rows_of(&disclose(trained_on(&all, &all), &policy, 2), 0).len(), 0);
    policy.set_pi(1.0).unwrap();
    policy.hide(9);
    assert_eq!(rows_of(&disclose(trained_on(&all, &all), &policy, 3), 0).len(), 39);
}

#[test]
fn refused_rounds_disclose_nothing() {
    let mut paused = open_policy();
    paused.pause().unwrap();
    let mut gone = open_policy();
    gone.withdraw();
    let mut shy = open_policy();
    shy.least_cohort = 1001;
    let mut careful = open_policy();
    careful.required_layers = BTreeSet::from(["noise".to_owned(), "secagg".to_owned()]);
    let mut wary = open_policy();
    wary.refused_layers = BTreeSet::from(["noise".to_owned(), "kept-uploads".to_owned()]);
    let cases = [
        (wary, Refusal::LayerRefused("noise".to_owned())),
        (paused, Refusal::Paused),
        (gone, Refusal::Withdrawn),
        (shy, Refusal::CohortTooSmall(1001)),
        (careful, Refusal::LayerMissing("secagg".to_owned())),
    ];
    for (policy, refusal) in cases {
        let mut ledger = Ledger::new();
        let terms = terms(ValueEncoding::F32);
        let refused = trained().disclose(&policy, &terms, 0, &mut ledger, DisclosureSeeds::once(&mut Rng::new(1)));
        assert_eq!(refused.unwrap_err(), DisclosureError::Refused(refusal));
        assert_eq!(ledger, Ledger::new());
    }
}

#[test]
fn samples_and_criteria_leave_only_if_asked_for_and_allowed() {
    let said = |policy: &Policy, terms: &RoundTerms| {
        let left =
            trained().disclose(policy, terms, 0, &mut Ledger::new(), DisclosureSeeds::once(&mut Rng::new(1))).unwrap();
        (left.update().samples(), left.update().criteria().to_vec())
    };
    let asking = terms(ValueEncoding::F32);
    assert_eq!(said(&open_policy(), &asking), (12, vec![(1, 0.5)]));
    assert_eq!(said(&Policy::new(1.0).unwrap(), &asking), (12, vec![]));
    let mut policy = open_policy();
    policy.samples = false;
    policy.criteria = Reportable::Only(BTreeSet::from(["labels".to_owned()]));
    assert_eq!(said(&policy, &asking), (0, vec![(1, 0.5)]));
    policy.criteria = Reportable::Only(BTreeSet::from(["size".to_owned()]));
    assert_eq!(said(&policy, &asking), (0, vec![]));
    let mut incurious = asking.into_draft();
    incurious.samples = false;
    let incurious = RoundTerms::freeze(incurious).unwrap();
    assert_eq!(said(&open_policy(), &incurious), (0, vec![(1, 0.5)]));
}

#[test]
fn rejects_values_that_cannot_be_encoded() {
    let mut wrong = trained();
    wrong.values_mut(1)[2] = 70_000.0;
    let terms = terms(ValueEncoding::F16);
    let error = wrong
        .disclose(&open_policy(), &terms, 0, &mut Ledger::new(), DisclosureSeeds::once(&mut Rng::new(1)))
        .unwrap_err();
    assert_eq!(error.to_string(), "table 1: a value is not finite or too large for f16");
}

#[test]
fn ledger_records_what_left() {
    let mut ledger = Ledger::new();
    disclosed(ValueEncoding::F32, &mut ledger);
    disclosed(ValueEncoding::F16, &mut ledger);
    let federation = FederationId(7);
    assert_eq!(ledger.totals(), Totals { updates: 2, rows: 6, bytes: 70 + 56 });
    let left = ledger.row(federation, "items", 200);
    assert_eq!(left, RowDisclosures { times: 2, last: Some((RoundId(300), 1_700_000_000)) });
    assert_eq!(ledger.row(federation, "items", 4).times, 0);
    assert_eq!(ledger.row(FederationId(8), "items", 200).times, 0);
    assert_eq!(ledger.row(federation, "net", 0).times, 2);
    let entries: Vec<LedgerEntry> = ledger.entries().collect();
    assert_eq!(entries[1].criteria, [("labels".to_owned(), 0.5)]);
    assert_eq!(entries[0].tables[0].listed, Some(vec![3, 200]));
    assert_eq!(entries[0].tables[1], DisclosedTable { name: "net".to_owned(), rows: 1, listed: None });
    // What leaves in another form is told of in its bytes.
    let (terms, mut rng) = (terms(ValueEncoding::F32), Rng::new(1));
    trained()
        .disclose_wrapped(&open_policy(), &terms, (5, Some(9000)), &mut ledger, DisclosureSeeds::once(&mut rng))
        .unwrap();
    assert_eq!(ledger.totals().bytes, 70 + 56 + 9000);
    assert_eq!(ledger.entries().last().map(|entry| (entry.bytes, entry.when)), Some((9000, 5)));
}

#[test]
fn bounded_ledger_keeps_counts_of_old_entries() {
    let (mut full, mut bounded) = (Ledger::new(), Ledger::bounded(400));
    let mut totals = Ledger::totals_only();
    for _ in 0..50 {
        for ledger in [&mut full, &mut bounded, &mut totals] {
            disclosed(ValueEncoding::F32, ledger);
        }
    }
    assert!((3..8).contains(&bounded.entries().count()), "{}", bounded.entries().count());
    assert_eq!(full.entries().count(), 50);
    assert_eq!((bounded.totals(), totals.totals()), (full.totals(), full.totals()));
    for row in [3, 4, 200] {
        assert_eq!(bounded.row(FederationId(7), "items", row), full.row(FederationId(7), "items", row));
    }
    assert_eq!(bounded.row(FederationId(7), "net", 0).times, 50);
    for (ledger, table) in [(&full, "items"), (&bounded, "items"), (&bounded, "net")] {
        let all = ledger.by_row(FederationId(7), table, 250);
        for (row, left) in (0..).zip(all) {
            assert_eq!(left, ledger.row(FederationId(7), table, row), "{table} {row}");
        }
    }
    let mut bytes = Vec::new();
    bounded.encode(&mut bytes);
    assert!(bytes.len() < 500, "{} bytes", bytes.len());
    assert_eq!(Ledger::decode(&bytes).unwrap().bound_to(400), bounded);
    assert_eq!(full.bound_to(400).row(FederationId(7), "items", 3).times, 50);
}

proptest! {
    #[test]
    fn withheld_rows_leave_with_their_decoy(
        rows in prop::collection::btree_set(0u32..40, 1..40),
        consumed in prop::collection::btree_set(0u32..40, 0..40),
        hidden in prop::collection::btree_set(0u32..40, 0..10),
        covered in prop::collection::btree_set(0u32..40, 0..40),
        pi in prop::sample::select(vec![0.0, 0.4, 1.0]),
        seed in any::<u64>(),
    ) {
        let covered = &covered & &rows;
        let mut trained = trained_on(&rows, &consumed);
        let list: Vec<u32> = covered.iter().copied().collect();
        for (value, &row) in trained.push_decoys(0, &list).unwrap().chunks_exact_mut(3).zip(&list) {
            value.fill(-(row as f32));
        }
        let mut policy = Policy::new(pi).unwrap();
        hidden.iter().for_each(|&item| policy.hide(item));
        let plain = rows_of(&disclose(trained_on(&rows, &consumed), &policy, seed), 0);
        let left = disclose(trained, &policy, seed);
        prop_assert_eq!(rows_of(&left, 0), &plain | &covered);
        for (row, values) in left.update().tables()[0].iter() {
            let own = plain.contains(&(row as u32));
            prop_assert_eq!(values[2], if own { (row * 10 + 2) as f32 } else { -(row as f32) });
        }
        // Buffers that are used again remember nothing of it.
        prop_assert!(left.recycle().push_decoys(0, &list).is_err() || list.is_empty());
    }
}
