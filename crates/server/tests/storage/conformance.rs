//! Cases that every database must pass.

use crate::model::Model;
use crate::place::Place;
use crate::scene::{
    close, device, enrol, enrolment, federation, found, hash, issue, opening, operator, receipt, record,
    under_way, upload, upload_anonymous, version,
};
use sottovoce_server::storage::{Change, RECEIPT_ROUNDS, Standing, Storage, StorageError};

/// Each case runs against each database.
macro_rules! cases {
    ($($case:ident,)*) => {
        mod sqlite {
            use crate::place::Place;
            $(#[test] fn $case() { super::$case(&Place::sqlite()); })*
        }
        mod postgres {
            use crate::place::Place;
            $(#[test] fn $case() { Place::with_postgres(super::$case); })*
        }
    };
}

cases! {
    a_new_database_is_empty_and_keeps_its_secret,
    every_change_is_there_at_once_and_after_reopening,
    what_is_taken_away_is_gone,
    changes_are_made_all_or_none,
    each_contradiction_is_refused_by_name,
    numbers_are_never_used_again,
    a_token_runs_out,
    updates_come_by_ascending_device,
    a_visitor_can_stop,
    uploads_go_on_while_updates_are_read,
    receipts_are_kept_for_a_few_rounds,
    what_came_with_tokens_is_nobodys,
    the_earliest_of_those_who_withdraw_is_unlearnt,
    rounds_are_listed_backwards,
    large_batches_and_large_updates_fit,
    a_second_server_is_turned_away_at_once,
}

/// What a database holds, in the model's terms.
pub(crate) fn held(storage: &dyn Storage) -> Model {
    let stored = storage.load().unwrap();
    let mut model = Model { stored, ..Model::default() };
    for federation in &model.stored.federations {
        for round in 0..=federation.next_round {
            let mut put = |device, bytes: &[u8]| {
                model.bodies.insert((federation.id, round, device), bytes.into());
                Ok(())
            };
            storage.updates(federation.id, round, &mut put).unwrap();
            let mut put = |nullifier: &[u8; 32], bytes: &[u8]| {
                model.anonymous.insert((federation.id, round, *nullifier), bytes.into());
                Ok(())
            };
            storage.anonymous_updates(federation.id, round, &mut put).unwrap();
        }
        let mut rounds = storage.rounds(federation.id, None, usize::MAX).unwrap();
        rounds.reverse();
        model.rounds.extend(rounds);
    }
    model
}

fn in_order(mut model: Model) -> Model {
    model.rounds.sort_by_key(|record| (record.federation, record.round));
    model
}

/// Compares at once and after reopening.
pub(crate) fn check(place: &Place, storage: Box<dyn Storage>, model: &Model) -> Box<dyn Storage> {
    assert_eq!(held(&*storage), in_order(model.clone()));
    drop(storage);
    let storage = place.open();
    assert_eq!(held(&*storage), in_order(model.clone()), "after reopening");
    storage
}

fn a_new_database_is_empty_and_keeps_its_secret(place: &Place) {
    let storage = place.open();
    assert_eq!(held(&*storage), Model::default());
    storage.ping().unwrap();
    storage.commit(&[]).unwrap();
    let secret = storage.secret().unwrap();
    assert!(secret.iter().any(|byte| *byte != 0));
    drop(storage);
    assert_eq!(place.open().secret().unwrap(), secret);
}

/// One of each, one after the other, compared after every step.
fn every_change_is_there_at_once_and_after_reopening(place: &Place) {
    let (mut storage, mut model) = (place.open(), Model::default());
    let mut paused = federation(1);
    paused.standing = Standing::Failed("no: items".into());
    let changes = [
        found(0),
        Change::Found(Box::new(paused), version(1, 3)),
        Change::Stand { federation: 0, standing: Standing::Paused },
        Change::Stand { federation: 0, standing: Standing::Failed(String::new()) },
        Change::AddToken(enrolment(0, 0, Some(3))),
        Change::AddToken(enrolment(1, 1, None)),
        Change::AddToken(operator(2)),
        enrol(0, 0, 0),
        enrol(0, 1, 0),
        enrol(1, 0, 1),
        enrol(0, 2, 0),
        Change::Seen { federation: 0, devices: vec![(1, 500), (9, 1), (1, 501), (0, 502)] },
        Change::Open(opening(0, 0)),
        Change::Open(opening(1, 0)),
        upload(0, 0, 2),
        upload(1, 0, 0),
        upload(0, 0, 0),
        Change::Decline { federation: 0, round: 0, device: 1 },
        Change::Decline { federation: 0, round: 0, device: 1 },
        issue(0, 0, 2),
        issue(0, 0, 0),
        upload_anonymous(0, 0, 7),
        upload_anonymous(0, 0, 5),
        Change::Closing { federation: 0, round: 0 },
        Change::Closing { federation: 0, round: 0 },
        close(0, 0, Some(4)),
        close(1, 0, None),
        Change::RemoveVersion { federation: 0, version: 3 },
        Change::Open(opening(0, 1)),
        upload(0, 1, 2),
        issue(0, 1, 0),
        issue(0, 1, 2),
        upload_anonymous(0, 1, 7),
        Change::Revoke { federation: 0, device: 2 },
        Change::Withdraw { federation: 0, device: 0, unlearn: true },
        Change::Unlearnt { federation: 0, from: 91, back: None },
        Change::Unlearnt { federation: 0, from: 90, back: Some((version(0, 5), 2)) },
        Change::Withdraw { federation: 0, device: 1, unlearn: true },
        Change::RemoveVersion { federation: 0, version: 4 },
        Change::RemoveToken { id: 0 },
        Change::Stand { federation: 1, standing: Standing::Finished },
    ];
    for change in changes {
        storage.commit(std::slice::from_ref(&change)).unwrap();
        model.commit(&[change]).unwrap();
        assert_eq!(held(&*storage), in_order(model.clone()));
    }
    storage = check(place, storage, &model);
    assert_eq!(storage.rounds(0, None, 9).unwrap(), [record(0, 0, Some(4))]);
}

fn what_is_taken_away_is_gone(place: &Place) {
    let storage = place.open();
    storage.commit(&under_way()).unwrap();
    storage.commit(&[upload(0, 0, 0), upload(0, 0, 1), close(0, 0, Some(4))]).unwrap();
    storage
        .commit(&[Change::Open(opening(0, 1)), upload(0, 1, 0), upload(0, 1, 1), upload(0, 1, 2)])
        .unwrap();
    storage.commit(&[Change::Decline { federation: 0, round: 1, device: 0 }]).unwrap();
    storage.commit(&[Change::Withdraw { federation: 0, device: 0, unlearn: false }]).unwrap();
    storage.commit(&[Change::Revoke { federation: 0, device: 1 }]).unwrap();
    let Model { stored, bodies, .. } = held(&*storage);
    assert_eq!(stored.devices.len(), 2);
    assert!(stored.devices[0].revoked && stored.devices[0].number == 1);
    assert_eq!(stored.receipts, [(0, 0, receipt(1))]);
    assert_eq!(stored.rounds[0].received, [receipt(2)]);
    assert_eq!(stored.rounds[0].declined, [0u32; 0]);
    assert_eq!(bodies.keys().copied().collect::<Vec<_>>(), [(0, 1, 2)]);
    // Once more, and what never was there: nothing to do.
    storage
        .commit(&[
            Change::Withdraw { federation: 0, device: 0, unlearn: false },
            Change::Withdraw { federation: 9, device: 0, unlearn: false },
            Change::Revoke { federation: 0, device: 0 },
            Change::RemoveToken { id: 77 },
            Change::RemoveVersion { federation: 0, version: 77 },
        ])
        .unwrap();
    assert_eq!(held(&*storage).stored, stored);
}

fn changes_are_made_all_or_none(place: &Place) {
    let (storage, mut model) = (place.open(), Model::default());
    storage.commit(&under_way()).unwrap();
    model.commit(&under_way()).unwrap();
    let broken = [
        enrol(0, 3, 0),
        upload(0, 0, 0),
        upload(0, 0, 3),
        Change::AddToken(operator(1)),
        upload(0, 0, 0),
        Change::Closing { federation: 0, round: 0 },
    ];
    let error = storage.commit(&broken).unwrap_err();
    assert!(matches!(error, StorageError::Refused { .. }), "{error}");
    let storage = check(place, storage, &model);
    storage.commit(&broken[..4]).unwrap();
    model.commit(&broken[..4]).unwrap();
    check(place, storage, &model);
}

fn each_contradiction_is_refused_by_name(place: &Place) {
    let (storage, mut model) = (place.open(), Model::default());
    let mut start = under_way();
    start.extend([upload(0, 0, 1), Change::AddToken(operator(1)), found(1)]);
    start.extend([issue(0, 0, 1), upload_anonymous(0, 0, 7), Change::Revoke { federation: 0, device: 2 }]);
    storage.commit(&start).unwrap();
    model.commit(&start).unwrap();
    let mut namesake = federation(2);
    namesake.name = "town-0".into();
    let mut above = device(0, 3);
    above.seen = u64::MAX;
    let refused = [
        (Change::Found(Box::new(namesake), version(2, 3)), "town-0"),
        (Change::Found(Box::new(federation(2)), version(1, 3)), "first version"),
        (Change::Unlearnt { federation: 0, from: 1, back: Some((version(0, 3), 1)) }, "current one"),
        (Change::Unlearnt { federation: 0, from: 1, back: Some((version(1, 9), 1)) }, "another federation"),
        (Change::Stand { federation: 7, standing: Standing::Paused }, "federation 7"),
        (enrol(0, 3, 9), "token 9"),
        (enrol(0, 3, 1), "token 1"),
        (enrol(1, 0, 0), "token 0"),
        (enrol(0, 2, 0), "used before"),
        (Change::Enrol { device: above, token: 0 }, "18446744073709551615"),
        (Change::AddToken(enrolment(2, 9, None)), "token 2"),
        (Change::Open(opening(0, 0)), "under way already"),
        (Change::Open(opening(1, 1)), "next round"),
        (Change::Open(opening(9, 0)), "federation 9"),
        (upload(0, 0, 1), "device 1"),
        (upload(0, 0, 8), "device 8"),
        (upload(0, 1, 0), "round 1"),
        (upload(1, 0, 0), "federation 1"),
        (Change::Decline { federation: 0, round: 1, device: 0 }, "round 1"),
        (issue(0, 0, 1), "has had its token"),
        (issue(0, 0, 8), "device 8"),
        (issue(0, 1, 0), "round 1"),
        (issue(0, 0, 2), "shut out"),
        (upload_anonymous(0, 0, 7), "the token is spent"),
        (upload_anonymous(0, 1, 8), "takes no updates"),
        (Change::Closing { federation: 1, round: 0 }, "not under way"),
        (close(0, 1, None), "not under way"),
        (close(0, 0, Some(3)), "version 3"),
        (Change::Close(Box::new(record(0, 0, Some(4))), None), "led to"),
        (Change::RemoveVersion { federation: 0, version: 3 }, "current"),
    ];
    for (change, words) in refused {
        let error = storage.commit(std::slice::from_ref(&change)).unwrap_err();
        assert!(matches!(error, StorageError::Refused { .. }), "{change:?}: {error:?}");
        assert!(error.to_string().contains(words), "{change:?}: {error}");
        model.commit(&[change]).unwrap_err();
    }
    storage.commit(&[Change::Closing { federation: 0, round: 0 }]).unwrap();
    model.commit(&[Change::Closing { federation: 0, round: 0 }]).unwrap();
    for late in [upload(0, 0, 0), issue(0, 0, 0), upload_anonymous(0, 0, 9)] {
        assert!(matches!(storage.commit(&[late]), Err(StorageError::Refused { .. })));
    }
    check(place, storage, &model);
}

fn the_earliest_of_those_who_withdraw_is_unlearnt(place: &Place) {
    let storage = place.open();
    let withdraw = |device, unlearn| Change::Withdraw { federation: 0, device, unlearn };
    let pending = |storage: &dyn Storage| storage.load().unwrap().federations[0].unlearn;
    storage.commit(&under_way()).unwrap();
    storage.commit(&[withdraw(0, false)]).unwrap();
    assert_eq!(pending(&*storage), None);
    storage.commit(&[withdraw(2, true), withdraw(1, true), withdraw(1, true)]).unwrap();
    assert_eq!(pending(&*storage), Some(88));
    // Going back for somebody who came later leaves the earlier one to be unlearnt.
    let unlearnt = |from| Change::Unlearnt { federation: 0, from, back: None };
    storage.commit(&[unlearnt(89)]).unwrap();
    assert_eq!(pending(&*storage), Some(88));
    drop(storage);
    let storage = place.open();
    assert_eq!(pending(&*storage), Some(88));
    storage.commit(&[unlearnt(88)]).unwrap();
    assert_eq!(pending(&*storage), None);
}

fn numbers_are_never_used_again(place: &Place) {
    let storage = place.open();
    storage.commit(&under_way()).unwrap();
    storage
        .commit(&[
            Change::Withdraw { federation: 0, device: 2, unlearn: false },
            Change::RemoveToken { id: 0 },
        ])
        .unwrap();
    storage.commit(&[Change::AddToken(enrolment(4, 0, None))]).unwrap();
    drop(storage);
    let storage = place.open();
    for again in [enrol(0, 2, 4), Change::AddToken(operator(0)), Change::AddToken(operator(4)), found(0)] {
        assert!(matches!(storage.commit(&[again]), Err(StorageError::Refused { .. })));
    }
    let stored = storage.load().unwrap();
    assert_eq!((stored.next_federation, stored.next_token, stored.federations[0].next_device), (1, 5, 3));
    storage.commit(&[enrol(0, 3, 4), Change::AddToken(operator(5)), found(6)]).unwrap();
    assert_eq!(storage.load().unwrap().next_federation, 7);
}

fn a_token_runs_out(place: &Place) {
    let storage = place.open();
    storage.commit(&[found(0), Change::AddToken(enrolment(0, 0, Some(2)))]).unwrap();
    storage.commit(&[enrol(0, 0, 0), enrol(0, 1, 0)]).unwrap();
    let error = storage.commit(&[enrol(0, 2, 0)]).unwrap_err();
    assert!(error.to_string().contains("token 0"), "{error}");
    assert_eq!(storage.load().unwrap().tokens, [enrolment(0, 0, Some(0))]);
}

fn updates_come_by_ascending_device(place: &Place) {
    let storage = place.open();
    storage
        .commit(&[found(0), Change::AddToken(enrolment(0, 0, None)), Change::Open(opening(0, 0))])
        .unwrap();
    let devices: Vec<u32> = (0..40).map(|k| k * 7).collect();
    storage.commit(&devices.iter().map(|device| enrol(0, *device, 0)).collect::<Vec<_>>()).unwrap();
    // 13 is prime to 40: every device once, in no order.
    let mixed: Vec<_> = (0..40).map(|k| upload(0, 0, devices[k * 13 % 40])).collect();
    for some in mixed.chunks(9) {
        storage.commit(some).unwrap();
    }
    let mut seen = Vec::new();
    let mut visit = |device, bytes: &[u8]| {
        assert_eq!(bytes, crate::scene::body(device));
        seen.push(device);
        Ok(())
    };
    storage.updates(0, 0, &mut visit).unwrap();
    assert_eq!(seen, devices);
    let received = &storage.load().unwrap().rounds[0].received;
    assert_eq!(received.iter().map(|receipt| receipt.device).collect::<Vec<_>>(), devices);
}

fn a_visitor_can_stop(place: &Place) {
    let storage = place.open();
    storage.commit(&under_way()).unwrap();
    storage.commit(&[upload(0, 0, 0), upload(0, 0, 1), upload(0, 0, 2)]).unwrap();
    let mut seen = Vec::new();
    let mut visit = |device, _: &[u8]| {
        seen.push(device);
        let stop = || StorageError::Damaged { what: "update".into(), reason: "does not decode".into() };
        if device == 1 { Err(stop()) } else { Ok(()) }
    };
    let error = storage.updates(0, 0, &mut visit).unwrap_err();
    assert_eq!(error.to_string(), "update: does not decode");
    assert_eq!(seen, [0, 1]);
    assert_eq!(held(&*storage).bodies.len(), 3);
}

/// A sum under way neither holds up the writer nor sees what is written beside it.
fn uploads_go_on_while_updates_are_read(place: &Place) {
    let storage = place.open();
    storage.commit(&under_way()).unwrap();
    storage.commit(&[upload(0, 0, 0), upload(0, 0, 1)]).unwrap();
    let mut seen = Vec::new();
    let mut visit = |device, _: &[u8]| {
        if seen.is_empty() {
            storage
                .commit(&[upload(0, 0, 2), Change::Withdraw { federation: 0, device: 1, unlearn: false }])
                .unwrap();
        }
        seen.push(device);
        Ok(())
    };
    storage.updates(0, 0, &mut visit).unwrap();
    assert_eq!(seen, [0, 1]);
    assert_eq!(held(&*storage).bodies.keys().map(|key| key.2).collect::<Vec<_>>(), [0, 2]);
}

fn receipts_are_kept_for_a_few_rounds(place: &Place) {
    let storage = place.open();
    storage.commit(&under_way()).unwrap();
    storage.commit(&[found(1), Change::AddToken(enrolment(1, 1, None)), enrol(1, 0, 1)]).unwrap();
    storage.commit(&[Change::Open(opening(1, 0)), upload(1, 0, 0), close(1, 0, Some(4))]).unwrap();
    for round in 0..RECEIPT_ROUNDS + 3 {
        if round > 0 {
            storage.commit(&[Change::Open(opening(0, round))]).unwrap();
        }
        storage.commit(&[upload(0, round, 1)]).unwrap();
        storage.commit(&[close(0, round, None)]).unwrap();
        let stored = storage.load().unwrap();
        let kept: Vec<_> =
            stored.receipts.iter().map(|(federation, round, _)| (*federation, *round)).collect();
        let first = (round + 1).saturating_sub(RECEIPT_ROUNDS);
        let expected: Vec<_> = (first..=round).map(|round| (0, round)).chain([(1, 0)]).collect();
        assert_eq!(kept, expected);
    }
}

/// Who withdraws takes along that there was a token, not what came with it; when the round is over, spent tokens are known
/// for a few rounds and who had one no longer is.
fn what_came_with_tokens_is_nobodys(place: &Place) {
    let storage = place.open();
    storage.commit(&under_way()).unwrap();
    let came = [issue(0, 0, 0), issue(0, 0, 1), upload_anonymous(0, 0, 4), upload_anonymous(0, 0, 2)];
    storage.commit(&came).unwrap();
    storage.commit(&[Change::Withdraw { federation: 0, device: 0, unlearn: false }]).unwrap();
    let open = &storage.load().unwrap().rounds[0];
    assert_eq!(open.issued, [(1, hash(81))]);
    assert_eq!(open.anonymous.iter().map(|each| each.nullifier).collect::<Vec<_>>(), [hash(92), hash(94)]);
    let mut seen = Vec::new();
    let mut visit = |nullifier: &[u8; 32], bytes: &[u8]| {
        seen.push((*nullifier, bytes.to_vec()));
        Ok(())
    };
    storage.anonymous_updates(0, 0, &mut visit).unwrap();
    assert_eq!(seen, [(hash(92), crate::scene::body(2)), (hash(94), crate::scene::body(4))]);
    for round in 0..RECEIPT_ROUNDS + 2 {
        if round > 0 {
            storage.commit(&[Change::Open(opening(0, round)), issue(0, round, 1)]).unwrap();
            storage.commit(&[upload_anonymous(0, round, 3)]).unwrap();
        }
        storage.commit(&[close(0, round, None)]).unwrap();
        let Model { stored, anonymous, .. } = held(&*storage);
        assert!(anonymous.is_empty() && stored.rounds.is_empty());
        let kept: std::collections::BTreeSet<u64> = stored.anonymous.iter().map(|each| each.1).collect();
        assert!(kept.into_iter().eq((round + 1).saturating_sub(RECEIPT_ROUNDS)..=round));
    }
}

fn rounds_are_listed_backwards(place: &Place) {
    let storage = place.open();
    storage.commit(&[found(0), found(1)]).unwrap();
    for round in 0..5 {
        storage
            .commit(&[Change::Open(opening(0, round)), close(0, round, (round != 2).then_some(4 + round))])
            .unwrap();
    }
    let listed = |before, most| {
        let rounds = storage.rounds(0, before, most).unwrap();
        rounds.iter().map(|record| record.round).collect::<Vec<_>>()
    };
    assert_eq!(listed(None, 2), [4, 3]);
    assert_eq!(listed(Some(3), 100), [2, 1, 0]);
    assert_eq!(listed(Some(u64::MAX), usize::MAX), [4, 3, 2, 1, 0]);
    assert_eq!(listed(Some(0), 9), [0u64; 0]);
    assert_eq!(storage.rounds(1, None, 9).unwrap(), []);
    assert_eq!(storage.rounds(0, Some(3), 1).unwrap(), [record(0, 2, None)]);
}

/// More uploads than go into one statement, and one that is larger than all others together.
fn large_batches_and_large_updates_fit(place: &Place) {
    let storage = place.open();
    let number = 1_100;
    storage
        .commit(&[found(0), Change::AddToken(enrolment(0, 0, None)), Change::Open(opening(0, 0))])
        .unwrap();
    storage.commit(&(0..number).map(|device| enrol(0, device, 0)).collect::<Vec<_>>()).unwrap();
    let bytes = |device: u32| vec![device as u8; if device == 5 { 20 << 20 } else { device as usize }];
    let changes = (0..number).map(|device| {
        let bytes = bytes(device).into();
        Change::Upload { federation: 0, round: 0, receipt: receipt(device), bytes }
    });
    storage.commit(&changes.collect::<Vec<_>>()).unwrap();
    let mut next = 0;
    let mut visit = |device, found: &[u8]| {
        assert_eq!((device, found), (next, &bytes(device)[..]));
        next += 1;
        Ok(())
    };
    storage.updates(0, 0, &mut visit).unwrap();
    assert_eq!(next, number);
}

fn a_second_server_is_turned_away_at_once(place: &Place) {
    let first = place.open();
    let began = std::time::Instant::now();
    let error = place.try_open().err().unwrap();
    assert!(matches!(error, StorageError::InUse { .. }), "{error}");
    assert!(began.elapsed().as_secs() < 20);
    first.commit(&[found(0)]).unwrap();
    drop(first);
    assert_eq!(place.open().load().unwrap().federations.len(), 1);
}
