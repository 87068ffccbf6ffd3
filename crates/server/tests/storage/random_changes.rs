//! Random lists of changes, compared with the reference.

use crate::conformance::check;
use crate::database::TestDatabase;
use crate::fixtures::{
    act, advertiser, close, create, enrol, enrolment, gone, hash, opening, operator, upload, upload_with_token,
};
use crate::reference::Reference;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use sottovoce_server::storage::{Change, SealMessage, Status};

/// A change relative to what is stored, so that most are valid and some are not.
#[derive(Clone, Debug)]
struct Move {
    kind: u8,
    federation: u64,
    device: u32,
    /// 0: the change probably contradicts what is stored.
    luck: u8,
}

fn moves() -> impl Strategy<Value = Vec<Vec<Move>>> {
    let one = (0u8..26, 0u64..2, 0u32..4, 0u8..20);
    let one = one.prop_map(|(kind, federation, device, luck)| Move { kind, federation, device, luck });
    proptest::collection::vec(proptest::collection::vec(one, 1..8), 1..14)
}

fn change(reference: &Reference, step: &Move) -> Change {
    let Move { kind, federation, device, luck } = *step;
    let known = reference.stored.federations.iter().find(|known| known.id == federation);
    let (next_device, next_round, version) =
        known.map_or((0, 0, 0), |known| (known.next_device, known.next_round, known.version));
    let next_token = reference.stored.next_token;
    let round = next_round.saturating_sub(u64::from(luck == 0));
    let token =
        reference.stored.tokens.iter().find(|token| token.label.starts_with("poster")).map_or(0, |token| token.id);
    match kind {
        0 => create(reference.stored.next_federation.saturating_sub(u64::from(luck == 0))),
        1 => Change::AddToken(enrolment(next_token, federation, (luck > 10).then_some(2))),
        2 if luck > 15 => Change::AddToken(advertiser(next_token, federation)),
        2 => Change::AddToken(operator(next_token.saturating_sub(u64::from(luck == 0)))),
        3 | 4 => enrol(federation, next_device.saturating_sub(u32::from(luck == 0)), token),
        5 | 6 => Change::OpenRound(opening(federation, round)),
        7..=9 => upload(federation, round, device),
        10 => Change::Decline { federation, round, device },
        11 => Change::StopUploads { federation, round },
        12 => close(federation, round, (luck > 5).then_some(version + u64::from(luck > 6))),
        13 if luck < 10 => Change::Revoke { federation, device },
        13 if luck < 15 => {
            let reason = (luck > 11).then(|| format!("three times, {luck}"));
            Change::Quarantine { federation, device, reason }
        }
        13 => Change::RemoveToken { id: token },
        14 => Change::Withdraw { federation, device, unlearn: luck > 5 },
        15 if luck < 10 => Change::Seen { federation, devices: vec![(device, luck.into()), (1, 99)] },
        17 => Change::IssueToken { federation, round, device, blinded: hash(luck.into()) },
        18 | 19 => upload_with_token(federation, round, device),
        16 => {
            let device = (luck > 4).then_some(device);
            let message = SealMessage { device, bytes: vec![luck; usize::from(luck)].into() };
            Change::Seal { federation, round, message }
        }
        20 => {
            let made = crate::fixtures::version(federation, version + u64::from(luck > 2));
            let to = (luck < 12).then_some((made, luck.into()));
            Change::RollBack { federation, from: (luck % 5 > 0).then_some(80 + u64::from(luck)), to }
        }
        21..=24 => crate::fixtures::about_audiences(kind - 21, federation, device, luck),
        25 if luck < 6 => Change::SetPlan { federation, plan: format!("{luck}") },
        25 if luck < 9 => Change::Archive { federation },
        25 if luck < 12 => Change::Delete(gone(federation)),
        25 if luck < 15 => Change::CleanUp { federation },
        25 => Change::AddAct(act(luck.into())),
        _ => Change::SetStatus { federation, status: Status::Failed(format!("{luck}")) },
    }
}

pub(crate) fn stores_what_the_reference_stores(database: impl Fn() -> TestDatabase, cases: u32) {
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    runner
        .run(&moves(), |batches| {
            let database = database();
            let (mut storage, mut reference) = (database.open(), Reference::default());
            for start in [create(0), Change::AddToken(enrolment(0, 0, None)), enrol(0, 0, 0), enrol(0, 1, 0)] {
                storage.commit(std::slice::from_ref(&start)).unwrap();
                reference.commit(&[start]).unwrap();
            }
            for (at, batch) in batches.iter().enumerate() {
                let mut ahead = reference.clone();
                let mut changes = Vec::new();
                for step in batch {
                    let change = change(&ahead, step);
                    // An invalid change stays in every third batch, which must then fail as a whole.
                    if ahead.commit(std::slice::from_ref(&change)).is_ok() || at % 3 == 0 {
                        changes.push(change);
                    }
                }
                let verdict = storage.commit(&changes);
                prop_assert_eq!(verdict.is_ok(), reference.commit(&changes).is_ok(), "{:?}: {:?}", changes, verdict);
                if at % 4 == 3 {
                    storage = check(&database, storage, &reference);
                }
            }
            check(&database, storage, &reference);
            Ok(())
        })
        .unwrap();
}

#[test]
fn postgres_stores_what_the_reference_stores() {
    TestDatabase::with_postgres(|_| {
        stores_what_the_reference_stores(|| TestDatabase::postgres().unwrap(), 24);
    });
}

#[test]
fn sqlite_stores_what_the_reference_stores() {
    stores_what_the_reference_stores(TestDatabase::sqlite, 48);
}
