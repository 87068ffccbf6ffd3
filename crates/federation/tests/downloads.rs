//! How the shared model is distributed.

mod common;

use common::{World, after, fixed};
use sottovoce_federation::*;
use sottovoce_protocol::{Policy, ValueEncoding};

fn world(cohort: Cohort) -> World {
    World {
        schedule: fixed(Schedule { cohort, triples: 3, rounds: 5, mean_history: 20, devices: 100 }),
        policy: Policy::new(0.4).unwrap(),
        values: ValueEncoding::I8Row,
        ..World::default()
    }
}

fn all_downloads() -> impl Iterator<Item = Downloads> {
    ValueEncoding::ALL.into_iter().flat_map(|values| {
        [(false, 0.0), (true, 0.0), (true, 0.1)].map(|(differences, min_change)| Downloads {
            values,
            differences,
            min_change,
        })
    })
}

/// By bytes every message is encoded, decoded and applied to what devices hold, and its length compared with the one
/// counted.
#[test]
fn delivery_by_bytes_gives_the_same_bits() {
    for cohort in [Cohort::All, Cohort::Fraction(0.2)] {
        for downloads in all_downloads() {
            let by = |delivery| after(World { delivery, downloads, ..world(cohort) }.federation(2), 3);
            assert!(by(Delivery::Direct) == by(Delivery::Bytes), "{downloads:?}");
        }
    }
}

#[test]
fn differences_without_rounding_give_the_same_model_for_fewer_bytes() {
    let by = |differences, cohort| {
        let downloads = Downloads { differences, ..Downloads::default() };
        after(World { downloads, ..world(cohort) }.federation(3), 2)
    };
    let ((whole, whole_reports), (rows, reports)) = (by(false, Cohort::Count(2)), by(true, Cohort::Count(2)));
    assert!(whole == rows);
    // In the second epoch some devices come again, and have missed a few rounds of two devices that change few rows.
    assert_eq!(whole_reports[0].participation.rows, reports[0].participation.rows);
    assert!(reports[1].down < whole_reports[1].down, "{reports:?}");
    assert!(by(true, Cohort::All).0 == by(false, Cohort::All).0);
}

/// Largest distance of a row that devices hold from the shared model's, in that row's largest value.
fn farthest(federation: &Federation) -> f32 {
    let (held, shared) = (&federation.distributed().tables()[0], &federation.shared().tables()[0]);
    let most = |values: Vec<f32>| values.into_iter().fold(0.0f32, |most, value| most.max(value.abs()));
    let distance = |row: usize| {
        let apart = held.row(row).iter().zip(shared.row(row)).map(|(held, shared)| held - shared);
        most(apart.collect()) / most(shared.row(row).to_vec())
    };
    (0..shared.shape().rows as usize).map(distance).fold(0.0, f32::max)
}

#[test]
fn the_distributed_model_stays_near_the_shared_one() {
    for (min_change, expected) in [(0.0, 1.0 / 253.0), (0.1, 0.1)] {
        let downloads = Downloads { values: ValueEncoding::I8Row, differences: true, min_change };
        let mut federation = World { downloads, ..world(Cohort::Fraction(0.3)) }.federation(1);
        for epoch in 0..20 {
            federation.epoch().unwrap();
            let found = farthest(&federation);
            assert!(found <= expected * 1.001, "epoch {epoch}: {found} with {min_change}");
            assert!(found > expected / 3.0, "epoch {epoch}: {found} with {min_change}");
        }
    }
}

#[test]
fn rows_that_wait_make_downloads_smaller_and_training_continues() {
    let of = |min_change| {
        let downloads = Downloads { values: ValueEncoding::I8Row, differences: true, min_change };
        after(World { downloads, ..world(Cohort::All) }.federation(6), 12).1
    };
    let (all, some) = (of(0.0), of(0.1));
    assert!(some[11].down * 2 < all[11].down, "{} {}", some[11].down, all[11].down);
    let gain = |reports: &[EpochReport]| reports[0].loss().unwrap() - reports[11].loss().unwrap();
    assert!(gain(&some) > 0.9 * gain(&all), "{} {}", gain(&some), gain(&all));
}
