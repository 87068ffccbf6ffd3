//! Random lists of changes against the model.

use crate::conformance::check;
use crate::model::Model;
use crate::place::Place;
use crate::scene::{close, enrol, enrolment, found, hash, opening, operator, upload, upload_anonymous};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use sottovoce_server::storage::{Change, SealNote, Standing};

/// A change in terms of what is there, so that most are possible and some are not.
#[derive(Clone, Debug)]
struct Move {
    kind: u8,
    federation: u64,
    device: u32,
    /// 0: a contradiction is likely.
    luck: u8,
}

fn moves() -> impl Strategy<Value = Vec<Vec<Move>>> {
    let one = (0u8..21, 0u64..2, 0u32..4, 0u8..20);
    let one = one.prop_map(|(kind, federation, device, luck)| Move { kind, federation, device, luck });
    proptest::collection::vec(proptest::collection::vec(one, 1..8), 1..14)
}

fn change(model: &Model, step: &Move) -> Change {
    let Move { kind, federation, device, luck } = *step;
    let known = model.stored.federations.iter().find(|known| known.id == federation);
    let (next_device, next_round, version) =
        known.map_or((0, 0, 0), |known| (known.next_device, known.next_round, known.version));
    let next_token = model.stored.next_token;
    let round = next_round.saturating_sub(u64::from(luck == 0));
    let token = model
        .stored
        .tokens
        .iter()
        .find(|token| token.label.starts_with("poster"))
        .map_or(0, |token| token.id);
    match kind {
        0 => found(model.stored.next_federation.saturating_sub(u64::from(luck == 0))),
        1 => Change::AddToken(enrolment(next_token, federation, (luck > 10).then_some(2))),
        2 => Change::AddToken(operator(next_token.saturating_sub(u64::from(luck == 0)))),
        3 | 4 => enrol(federation, next_device.saturating_sub(u32::from(luck == 0)), token),
        5 | 6 => Change::Open(opening(federation, round)),
        7..=9 => upload(federation, round, device),
        10 => Change::Decline { federation, round, device },
        11 => Change::Closing { federation, round },
        12 => close(federation, round, (luck > 5).then_some(version + u64::from(luck > 6))),
        13 if luck < 10 => Change::Revoke { federation, device },
        13 => Change::RemoveToken { id: token },
        14 => Change::Withdraw { federation, device, unlearn: luck > 5 },
        15 if luck < 10 => Change::Seen { federation, devices: vec![(device, luck.into()), (1, 99)] },
        17 => Change::Issue { federation, round, device, blinded: hash(luck.into()) },
        18 | 19 => upload_anonymous(federation, round, device),
        16 => {
            let device = (luck > 4).then_some(device);
            let note = SealNote { device, bytes: vec![luck; usize::from(luck)].into() };
            Change::Seal { federation, round, note }
        }
        20 => {
            let made = crate::scene::version(federation, version + u64::from(luck > 2));
            let back = (luck < 12).then_some((made, luck.into()));
            Change::Unlearnt { federation, from: 80 + u64::from(luck), back }
        }
        _ => Change::Stand { federation, standing: Standing::Failed(format!("{luck}")) },
    }
}

pub(crate) fn any_list_of_changes_leaves_what_the_model_holds(place: impl Fn() -> Place, cases: u32) {
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    runner
        .run(&moves(), |batches| {
            let place = place();
            let (mut storage, mut model) = (place.open(), Model::default());
            for start in [found(0), Change::AddToken(enrolment(0, 0, None)), enrol(0, 0, 0), enrol(0, 1, 0)] {
                storage.commit(std::slice::from_ref(&start)).unwrap();
                model.commit(&[start]).unwrap();
            }
            for (at, batch) in batches.iter().enumerate() {
                let mut ahead = model.clone();
                let mut changes = Vec::new();
                for step in batch {
                    let change = change(&ahead, step);
                    // A step that cannot be made stays in one batch of three, which must then fail whole.
                    if ahead.commit(std::slice::from_ref(&change)).is_ok() || at % 3 == 0 {
                        changes.push(change);
                    }
                }
                let verdict = storage.commit(&changes);
                prop_assert_eq!(
                    verdict.is_ok(),
                    model.commit(&changes).is_ok(),
                    "{:?}: {:?}",
                    changes,
                    verdict
                );
                if at % 4 == 3 {
                    storage = check(&place, storage, &model);
                }
            }
            check(&place, storage, &model);
            Ok(())
        })
        .unwrap();
}

#[test]
fn postgres_holds_what_the_model_holds() {
    Place::with_postgres(|_| {
        any_list_of_changes_leaves_what_the_model_holds(|| Place::postgres().unwrap(), 24);
    });
}

#[test]
fn sqlite_holds_what_the_model_holds() {
    any_list_of_changes_leaves_what_the_model_holds(Place::sqlite, 48);
}
