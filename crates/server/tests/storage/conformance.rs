//! The contract of all databases.

use crate::database::TestDatabase;
use crate::fixtures::{
    act, close, create, device, enrol, enrolment, federation, gone, hash, issue, opening, operator, receipt, record,
    token_sender, upload, upload_with_token, version, with_open_round,
};
use crate::reference::Reference;
use sottovoce_server::storage::{Change, RECEIPT_ROUNDS, Sender, Status, Storage, StorageError};

/// Each case runs on each database.
macro_rules! cases {
    ($($case:ident,)*) => {
        mod sqlite {
            use crate::database::TestDatabase;
            $(#[test] fn $case() { super::$case(&TestDatabase::sqlite()); })*
        }
        mod postgres {
            use crate::database::TestDatabase;
            $(#[test] fn $case() { TestDatabase::with_postgres(super::$case); })*
        }
    };
}

cases! {
    new_database_is_empty_and_keeps_its_secret,
    changes_are_visible_at_once_and_after_reopening,
    deleted_data_are_gone,
    archives_and_deletions_forget_people,
    acts_are_listed_latest_first,
    commits_are_atomic,
    contradictions_are_rejected_by_name,
    numbers_are_never_reused,
    tokens_run_out,
    updates_are_ordered_by_device,
    visitors_can_stop,
    uploads_continue_while_updates_are_read,
    receipts_are_stored_for_a_few_rounds,
    token_uploads_survive_withdrawals,
    rollback_covers_the_earliest_withdrawn_device,
    rounds_are_listed_latest_first,
    large_batches_and_updates_are_stored,
    second_server_is_rejected,
}

/// The contents of a database.
pub(crate) fn contents(storage: &dyn Storage) -> Reference {
    let stored = storage.load().unwrap();
    let mut reference = Reference { stored, ..Reference::default() };
    for federation in &reference.stored.federations {
        for round in 0..=federation.next_round {
            let mut put = |sender, bytes: &[u8]| {
                reference.bodies.insert((federation.id, round, sender), bytes.into());
                Ok(())
            };
            storage.updates(federation.id, round, &mut put).unwrap();
        }
        let mut rounds = storage.rounds(federation.id, None, usize::MAX).unwrap();
        rounds.reverse();
        reference.rounds.extend(rounds);
    }
    reference
}

fn in_order(mut reference: Reference) -> Reference {
    reference.rounds.sort_by_key(|record| (record.federation, record.round));
    reference
}

/// Compares at once and after reopening.
pub(crate) fn check(database: &TestDatabase, storage: Box<dyn Storage>, reference: &Reference) -> Box<dyn Storage> {
    assert_eq!(contents(&*storage), in_order(reference.clone()));
    drop(storage);
    let storage = database.open();
    assert_eq!(contents(&*storage), in_order(reference.clone()), "after reopening");
    storage
}

fn new_database_is_empty_and_keeps_its_secret(database: &TestDatabase) {
    let storage = database.open();
    assert_eq!(contents(&*storage), Reference::default());
    storage.secret().unwrap();
    storage.commit(&[]).unwrap();
    let secret = storage.secret().unwrap();
    assert!(secret.iter().any(|byte| *byte != 0));
    drop(storage);
    assert_eq!(database.open().secret().unwrap(), secret);
}

/// One of each, one after the other, compared after every step.
fn changes_are_visible_at_once_and_after_reopening(database: &TestDatabase) {
    let (mut storage, mut reference) = (database.open(), Reference::default());
    let mut paused = federation(1);
    paused.status = Status::Failed("no: items".into());
    let changes = [
        create(0),
        Change::CreateFederation(Box::new(paused), version(1, 3)),
        Change::SetStatus { federation: 0, status: Status::Paused },
        Change::SetStatus { federation: 0, status: Status::Failed(String::new()) },
        Change::AddToken(enrolment(0, 0, Some(3))),
        Change::AddToken(enrolment(1, 1, None)),
        Change::AddToken(operator(2)),
        enrol(0, 0, 0),
        enrol(0, 1, 0),
        enrol(1, 0, 1),
        enrol(0, 2, 0),
        Change::Seen { federation: 0, devices: vec![(1, 500), (9, 1), (1, 501), (0, 502)] },
        Change::OpenRound(opening(0, 0)),
        Change::OpenRound(opening(1, 0)),
        upload(0, 0, 2),
        upload(1, 0, 0),
        upload(0, 0, 0),
        Change::Decline { federation: 0, round: 0, device: 1 },
        Change::Decline { federation: 0, round: 0, device: 1 },
        issue(0, 0, 2),
        issue(0, 0, 0),
        upload_with_token(0, 0, 7),
        upload_with_token(0, 0, 5),
        Change::StopUploads { federation: 0, round: 0 },
        Change::StopUploads { federation: 0, round: 0 },
        close(0, 0, Some(4)),
        close(1, 0, None),
        Change::RemoveVersion { federation: 0, version: 3 },
        Change::OpenRound(opening(0, 1)),
        upload(0, 1, 2),
        issue(0, 1, 0),
        issue(0, 1, 2),
        upload_with_token(0, 1, 7),
        Change::Revoke { federation: 0, device: 2 },
        Change::Quarantine { federation: 0, device: 1, reason: Some("rows 40 times the bound".into()) },
        Change::Withdraw { federation: 0, device: 0, unlearn: true },
        Change::RollBack { federation: 0, from: Some(91), to: None },
        Change::RollBack { federation: 0, from: Some(90), to: Some((version(0, 5), 2)) },
        Change::RollBack { federation: 0, from: None, to: Some((version(0, 6), 1)) },
        Change::Withdraw { federation: 0, device: 1, unlearn: true },
        Change::RemoveVersion { federation: 0, version: 4 },
        Change::RemoveToken { id: 0 },
        Change::SetStatus { federation: 1, status: Status::Finished },
    ];
    for change in changes {
        storage.commit(std::slice::from_ref(&change)).unwrap();
        reference.commit(&[change]).unwrap();
        assert_eq!(contents(&*storage), in_order(reference.clone()));
    }
    storage = check(database, storage, &reference);
    assert_eq!(storage.rounds(0, None, 9).unwrap(), [record(0, 0, Some(4))]);
}

fn deleted_data_are_gone(database: &TestDatabase) {
    let storage = database.open();
    storage.commit(&with_open_round()).unwrap();
    storage.commit(&[upload(0, 0, 0), upload(0, 0, 1), close(0, 0, Some(4))]).unwrap();
    storage.commit(&[Change::OpenRound(opening(0, 1)), upload(0, 1, 0), upload(0, 1, 1), upload(0, 1, 2)]).unwrap();
    storage.commit(&[Change::Decline { federation: 0, round: 1, device: 0 }]).unwrap();
    storage.commit(&[Change::Withdraw { federation: 0, device: 0, unlearn: false }]).unwrap();
    storage.commit(&[Change::Revoke { federation: 0, device: 1 }]).unwrap();
    let Reference { stored, bodies, .. } = contents(&*storage);
    assert_eq!(stored.devices.len(), 2);
    assert!(stored.devices[0].revoked && stored.devices[0].number == 1);
    assert_eq!(stored.receipts, [(0, 0, receipt(1))]);
    assert_eq!(stored.rounds[0].received, [receipt(2)]);
    assert_eq!(stored.rounds[0].declined, [0u32; 0]);
    assert_eq!(bodies.keys().copied().collect::<Vec<_>>(), [(0, 1, Sender::Device(2))]);
    // Once more, and what never existed: nothing to do.
    storage
        .commit(&[
            Change::Withdraw { federation: 0, device: 0, unlearn: false },
            Change::Withdraw { federation: 9, device: 0, unlearn: false },
            Change::Revoke { federation: 0, device: 0 },
            Change::RemoveToken { id: 77 },
            Change::RemoveVersion { federation: 0, version: 77 },
        ])
        .unwrap();
    assert_eq!(contents(&*storage).stored, stored);
}

/// Nothing of people stays in an archive, and nothing but the name of what is deleted.
fn archives_and_deletions_forget_people(database: &TestDatabase) {
    let mut storage = database.open();
    let mut reference = Reference::default();
    let mut more = vec![create(1), Change::AddToken(enrolment(1, 1, None)), enrol(1, 0, 1)];
    more.extend([upload(0, 0, 0), Change::AddToken(operator(2))]);
    let batches = [with_open_round(), more];
    for change in batches.into_iter().flatten() {
        storage.commit(std::slice::from_ref(&change)).unwrap();
        reference.commit(&[change]).unwrap();
    }
    for change in [
        Change::Archive { federation: 0 },
        Change::Delete(gone(1)),
        Change::SetPlan { federation: 0, plan: "{}".into() },
    ] {
        storage.commit(std::slice::from_ref(&change)).unwrap();
        reference.commit(&[change]).unwrap();
        storage = check(database, storage, &reference);
    }
    let stored = storage.load().unwrap();
    assert_eq!((stored.devices.len(), stored.tokens.len(), stored.federations.len()), (0, 1, 1));
    assert_eq!((stored.gone, stored.versions.len()), (vec![gone(1)], 1));
    // It is gone, and its number is not given again.
    assert!(storage.commit(&[Change::Delete(gone(1))]).is_err());
    assert!(storage.commit(&[create(1)]).is_err());
    storage.commit(&[Change::CleanUp { federation: 1 }]).unwrap();
    assert_eq!(storage.load().unwrap().gone[0].versions, "");
}

fn acts_are_listed_latest_first(database: &TestDatabase) {
    let storage = database.open();
    assert_eq!(storage.acts(None, 5).unwrap(), []);
    storage.commit(&[1, 2, 3, 4].map(|id| Change::AddAct(act(id)))).unwrap();
    assert_eq!(storage.acts(None, 2).unwrap(), [act(4), act(3)]);
    assert_eq!(storage.acts(Some(3), 9).unwrap(), [act(2), act(1)]);
    assert_eq!(storage.acts(None, usize::MAX).unwrap().len(), 4);
}

fn commits_are_atomic(database: &TestDatabase) {
    let (storage, mut reference) = (database.open(), Reference::default());
    storage.commit(&with_open_round()).unwrap();
    reference.commit(&with_open_round()).unwrap();
    let broken = [
        enrol(0, 3, 0),
        upload(0, 0, 0),
        upload(0, 0, 3),
        Change::AddToken(operator(1)),
        upload(0, 0, 0),
        Change::StopUploads { federation: 0, round: 0 },
    ];
    let error = storage.commit(&broken).unwrap_err();
    assert!(matches!(error, StorageError::Rejected { .. }), "{error}");
    let storage = check(database, storage, &reference);
    storage.commit(&broken[..4]).unwrap();
    reference.commit(&broken[..4]).unwrap();
    check(database, storage, &reference);
}

fn contradictions_are_rejected_by_name(database: &TestDatabase) {
    let (storage, mut reference) = (database.open(), Reference::default());
    let mut start = with_open_round();
    start.extend([upload(0, 0, 1), Change::AddToken(operator(1)), create(1)]);
    start.extend([issue(0, 0, 1), upload_with_token(0, 0, 7), Change::Revoke { federation: 0, device: 2 }]);
    storage.commit(&start).unwrap();
    reference.commit(&start).unwrap();
    let mut namesake = federation(2);
    namesake.name = "town-0".into();
    let mut above = device(0, 3);
    above.seen = u64::MAX;
    let refused = [
        (Change::CreateFederation(Box::new(namesake), version(2, 3)), "town-0"),
        (Change::CreateFederation(Box::new(federation(2)), version(1, 3)), "first version"),
        (Change::RollBack { federation: 0, from: Some(1), to: Some((version(0, 3), 1)) }, "current one"),
        (Change::RollBack { federation: 0, from: Some(1), to: Some((version(1, 9), 1)) }, "another federation"),
        (Change::SetStatus { federation: 7, status: Status::Paused }, "federation 7"),
        (enrol(0, 3, 9), "token 9"),
        (enrol(0, 3, 1), "token 1"),
        (enrol(1, 0, 0), "token 0"),
        (enrol(0, 2, 0), "used before"),
        (Change::Enrol { device: above, token: 0 }, "18446744073709551615"),
        (Change::AddToken(enrolment(2, 9, None)), "token 2"),
        (Change::OpenRound(opening(0, 0)), "open already"),
        (Change::OpenRound(opening(1, 1)), "next round"),
        (Change::OpenRound(opening(9, 0)), "federation 9"),
        (upload(0, 0, 1), "device 1"),
        (upload(0, 0, 8), "device 8"),
        (upload(0, 1, 0), "round 1"),
        (upload(1, 0, 0), "federation 1"),
        (Change::Decline { federation: 0, round: 1, device: 0 }, "round 1"),
        (issue(0, 0, 1), "has had its token"),
        (issue(0, 0, 8), "device 8"),
        (issue(0, 1, 0), "round 1"),
        (issue(0, 0, 2), "revoked"),
        (upload_with_token(0, 0, 7), "the token is spent"),
        (upload_with_token(0, 1, 8), "accepts no updates"),
        (Change::StopUploads { federation: 1, round: 0 }, "not open"),
        (close(0, 1, None), "not open"),
        (close(0, 0, Some(3)), "version 3"),
        (Change::CloseRound(Box::new(record(0, 0, Some(4))), None), "produced"),
        (Change::RemoveVersion { federation: 0, version: 3 }, "current"),
    ];
    for (change, words) in refused {
        let error = storage.commit(std::slice::from_ref(&change)).unwrap_err();
        assert!(matches!(error, StorageError::Rejected { .. }), "{change:?}: {error:?}");
        assert!(error.to_string().contains(words), "{change:?}: {error}");
        reference.commit(&[change]).unwrap_err();
    }
    storage.commit(&[Change::StopUploads { federation: 0, round: 0 }]).unwrap();
    reference.commit(&[Change::StopUploads { federation: 0, round: 0 }]).unwrap();
    for late in [upload(0, 0, 0), issue(0, 0, 0), upload_with_token(0, 0, 9)] {
        assert!(matches!(storage.commit(&[late]), Err(StorageError::Rejected { .. })));
    }
    check(database, storage, &reference);
}

fn rollback_covers_the_earliest_withdrawn_device(database: &TestDatabase) {
    let storage = database.open();
    let withdraw = |device, unlearn| Change::Withdraw { federation: 0, device, unlearn };
    let pending = |storage: &dyn Storage| storage.load().unwrap().federations[0].unlearn;
    storage.commit(&with_open_round()).unwrap();
    storage.commit(&[withdraw(0, false)]).unwrap();
    assert_eq!(pending(&*storage), None);
    storage.commit(&[withdraw(2, true), withdraw(1, true), withdraw(1, true)]).unwrap();
    assert_eq!(pending(&*storage), Some(88));
    // A rollback for a device that enrolled later leaves the earlier one to be unlearnt.
    let unlearnt = |from| Change::RollBack { federation: 0, from: Some(from), to: None };
    storage.commit(&[unlearnt(89)]).unwrap();
    assert_eq!(pending(&*storage), Some(88));
    drop(storage);
    let storage = database.open();
    assert_eq!(pending(&*storage), Some(88));
    storage.commit(&[unlearnt(88)]).unwrap();
    assert_eq!(pending(&*storage), None);
}

fn numbers_are_never_reused(database: &TestDatabase) {
    let storage = database.open();
    storage.commit(&with_open_round()).unwrap();
    storage
        .commit(&[Change::Withdraw { federation: 0, device: 2, unlearn: false }, Change::RemoveToken { id: 0 }])
        .unwrap();
    storage.commit(&[Change::AddToken(enrolment(4, 0, None))]).unwrap();
    drop(storage);
    let storage = database.open();
    for again in [enrol(0, 2, 4), Change::AddToken(operator(0)), Change::AddToken(operator(4)), create(0)] {
        assert!(matches!(storage.commit(&[again]), Err(StorageError::Rejected { .. })));
    }
    let stored = storage.load().unwrap();
    assert_eq!((stored.next_federation, stored.next_token, stored.federations[0].next_device), (1, 5, 3));
    storage.commit(&[enrol(0, 3, 4), Change::AddToken(operator(5)), create(6)]).unwrap();
    assert_eq!(storage.load().unwrap().next_federation, 7);
}

fn tokens_run_out(database: &TestDatabase) {
    let storage = database.open();
    storage.commit(&[create(0), Change::AddToken(enrolment(0, 0, Some(2)))]).unwrap();
    storage.commit(&[enrol(0, 0, 0), enrol(0, 1, 0)]).unwrap();
    let error = storage.commit(&[enrol(0, 2, 0)]).unwrap_err();
    assert!(error.to_string().contains("token 0"), "{error}");
    assert_eq!(storage.load().unwrap().tokens, [enrolment(0, 0, Some(0))]);
}

fn updates_are_ordered_by_device(database: &TestDatabase) {
    let storage = database.open();
    storage.commit(&[create(0), Change::AddToken(enrolment(0, 0, None)), Change::OpenRound(opening(0, 0))]).unwrap();
    let devices: Vec<u32> = (0..40).map(|k| k * 7).collect();
    storage.commit(&devices.iter().map(|device| enrol(0, *device, 0)).collect::<Vec<_>>()).unwrap();
    // 13 is prime to 40: every device once, in no order.
    let mixed: Vec<_> = (0..40).map(|k| upload(0, 0, devices[k * 13 % 40])).collect();
    for some in mixed.chunks(9) {
        storage.commit(some).unwrap();
    }
    let mut seen = Vec::new();
    let mut visit = |sender, bytes: &[u8]| {
        let Sender::Device(device) = sender else { panic!("{sender:?}") };
        assert_eq!(bytes, crate::fixtures::body(device));
        seen.push(device);
        Ok(())
    };
    storage.updates(0, 0, &mut visit).unwrap();
    assert_eq!(seen, devices);
    let received = &storage.load().unwrap().rounds[0].received;
    let senders = devices.into_iter().map(Sender::Device);
    assert!(received.iter().map(|receipt| receipt.sender).eq(senders));
}

fn visitors_can_stop(database: &TestDatabase) {
    let storage = database.open();
    storage.commit(&with_open_round()).unwrap();
    storage.commit(&[upload(0, 0, 0), upload(0, 0, 1), upload(0, 0, 2)]).unwrap();
    let mut seen = Vec::new();
    let mut visit = |sender, _: &[u8]| {
        seen.push(sender);
        let stop = || StorageError::Corrupt { what: "update".into(), reason: "does not decode".into() };
        if sender == Sender::Device(1) { Err(stop()) } else { Ok(()) }
    };
    let error = storage.updates(0, 0, &mut visit).unwrap_err();
    assert_eq!(error.to_string(), "update: does not decode");
    assert_eq!(seen, [0, 1].map(Sender::Device));
    assert_eq!(contents(&*storage).bodies.len(), 3);
}

/// An aggregation in progress neither blocks the writer nor sees its changes.
fn uploads_continue_while_updates_are_read(database: &TestDatabase) {
    let storage = database.open();
    storage.commit(&with_open_round()).unwrap();
    storage.commit(&[upload(0, 0, 0), upload(0, 0, 1)]).unwrap();
    let mut seen = Vec::new();
    let mut visit = |sender, _: &[u8]| {
        if seen.is_empty() {
            storage.commit(&[upload(0, 0, 2), Change::Withdraw { federation: 0, device: 1, unlearn: false }]).unwrap();
        }
        seen.push(sender);
        Ok(())
    };
    storage.updates(0, 0, &mut visit).unwrap();
    assert_eq!(seen, [0, 1].map(Sender::Device));
    let senders = contents(&*storage).bodies.into_keys().map(|(.., sender)| sender);
    assert!(senders.eq([0, 2].map(Sender::Device)));
}

fn receipts_are_stored_for_a_few_rounds(database: &TestDatabase) {
    let storage = database.open();
    storage.commit(&with_open_round()).unwrap();
    storage.commit(&[create(1), Change::AddToken(enrolment(1, 1, None)), enrol(1, 0, 1)]).unwrap();
    storage.commit(&[Change::OpenRound(opening(1, 0)), upload(1, 0, 0), close(1, 0, Some(4))]).unwrap();
    for round in 0..RECEIPT_ROUNDS + 3 {
        if round > 0 {
            storage.commit(&[Change::OpenRound(opening(0, round))]).unwrap();
        }
        storage.commit(&[upload(0, round, 1)]).unwrap();
        storage.commit(&[close(0, round, None)]).unwrap();
        let stored = storage.load().unwrap();
        let kept: Vec<_> = stored.receipts.iter().map(|(federation, round, _)| (*federation, *round)).collect();
        let first = (round + 1).saturating_sub(RECEIPT_ROUNDS);
        let expected: Vec<_> = (first..=round).map(|round| (0, round)).chain([(1, 0)]).collect();
        assert_eq!(kept, expected);
    }
}

/// A withdrawal deletes that a token was issued, not the update sent with it. When the round is closed, spent tokens
/// are remembered for a few rounds, and who had one is not.
fn token_uploads_survive_withdrawals(database: &TestDatabase) {
    let storage = database.open();
    storage.commit(&with_open_round()).unwrap();
    let came = [issue(0, 0, 0), issue(0, 0, 1), upload_with_token(0, 0, 4), upload_with_token(0, 0, 2)];
    storage.commit(&came).unwrap();
    storage.commit(&[Change::Withdraw { federation: 0, device: 0, unlearn: false }]).unwrap();
    let open = &storage.load().unwrap().rounds[0];
    assert_eq!(open.issued, [(1, hash(81))]);
    assert!(open.received.iter().map(|each| each.sender).eq([2, 4].map(token_sender)));
    let mut seen = Vec::new();
    let mut visit = |sender, bytes: &[u8]| {
        seen.push((sender, bytes.to_vec()));
        Ok(())
    };
    storage.updates(0, 0, &mut visit).unwrap();
    assert_eq!(seen, [2, 4].map(|token| (token_sender(token), crate::fixtures::body(token))));
    for round in 0..RECEIPT_ROUNDS + 2 {
        if round > 0 {
            storage.commit(&[Change::OpenRound(opening(0, round)), issue(0, round, 1)]).unwrap();
            storage.commit(&[upload_with_token(0, round, 3)]).unwrap();
        }
        storage.commit(&[close(0, round, None)]).unwrap();
        let Reference { stored, bodies, .. } = contents(&*storage);
        assert!(bodies.is_empty() && stored.rounds.is_empty());
        let kept: std::collections::BTreeSet<u64> = stored.receipts.iter().map(|each| each.1).collect();
        assert!(kept.into_iter().eq((round + 1).saturating_sub(RECEIPT_ROUNDS)..=round));
    }
}

fn rounds_are_listed_latest_first(database: &TestDatabase) {
    let storage = database.open();
    storage.commit(&[create(0), create(1)]).unwrap();
    for round in 0..5 {
        storage
            .commit(&[Change::OpenRound(opening(0, round)), close(0, round, (round != 2).then_some(4 + round))])
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

/// More uploads than one statement takes, and one that is larger than all others together.
fn large_batches_and_updates_are_stored(database: &TestDatabase) {
    let storage = database.open();
    let number = 1_100;
    storage.commit(&[create(0), Change::AddToken(enrolment(0, 0, None)), Change::OpenRound(opening(0, 0))]).unwrap();
    storage.commit(&(0..number).map(|device| enrol(0, device, 0)).collect::<Vec<_>>()).unwrap();
    let bytes = |device: u32| vec![device as u8; if device == 5 { 20 << 20 } else { device as usize }];
    let changes = (0..number).map(|device| {
        let bytes = bytes(device).into();
        Change::Upload { federation: 0, round: 0, receipt: receipt(device), bytes }
    });
    storage.commit(&changes.collect::<Vec<_>>()).unwrap();
    let mut next = 0;
    let mut visit = |sender, found: &[u8]| {
        assert_eq!((sender, found), (Sender::Device(next), &bytes(next)[..]));
        next += 1;
        Ok(())
    };
    storage.updates(0, 0, &mut visit).unwrap();
    assert_eq!(next, number);
}

fn second_server_is_rejected(database: &TestDatabase) {
    let first = database.open();
    let began = std::time::Instant::now();
    let error = database.try_open().err().unwrap();
    assert!(matches!(error, StorageError::InUse(_)), "{error}");
    assert!(began.elapsed().as_secs() < 20);
    first.commit(&[create(0)]).unwrap();
    drop(first);
    assert_eq!(database.open().load().unwrap().federations.len(), 1);
}
