//! What its owner says, and what the device makes of it, against a server in memory.

mod common;

use common::{Fault, ITEMS, Server, SharedStore, device, enrolment, options};
use sottovoce_device::{
    Conditions, Device, DeviceError, Enrolment, History, Membership, MemoryStore, NextStep, Options, Secret, Seeds,
    StopReason, WaitReason,
};
use sottovoce_privacy::{SecureRng, secagg};
use sottovoce_protocol::{
    DisclosureSeeds, FederationId, Policy, PolicyError, PrivacyLayer, Received, Refusal, Reportable, RoundId, codec,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const NOW: Duration = Duration::from_secs(1_000_000);

fn done(round: u64) -> NextStep {
    NextStep::Wait(Duration::ZERO, WaitReason::UpdateAccepted { round })
}

fn change_policy(device: &mut Device, change: impl Fn(&mut Policy)) {
    let change = |policy: &mut Policy| {
        change(policy);
        Ok(())
    };
    device.set_policy(change).unwrap();
}

/// What is strange about the server, what its owner tells the device, and what the device says.
type Case = (fn(&mut common::World), fn(&mut Device), Refusal);

#[test]
fn declines_terms_that_the_policy_or_the_device_rejects() {
    let cases: [Case; 7] = [
        (|_| (), |device| change_policy(device, |policy| policy.least_cohort = 50), Refusal::CohortTooSmall(50)),
        (|world| world.terms.model.name = "gmf".into(), |_| (), Refusal::UnknownModel("gmf".into())),
        (
            |world| drop(world.terms.model.settings.insert("triples".into(), "1000000000".into())),
            |_| (),
            Refusal::UnknownModel("fpl".into()),
        ),
        (
            |world| {
                world.terms.privacy.layers.push(PrivacyLayer { name: "new".into(), ..PrivacyLayer::default() });
            },
            |_| (),
            Refusal::NoReason,
        ),
        (
            |_| (),
            |device| change_policy(device, |policy| drop(policy.required_layers.replace("dp".into()))),
            Refusal::LayerMissing("dp".into()),
        ),
        (
            keeps_uploads,
            |device| change_policy(device, |policy| drop(policy.refused_layers.replace("kept-uploads".into()))),
            Refusal::LayerRefused("kept-uploads".into()),
        ),
        // More factors than the table has: the model does not fit what the terms say.
        (|world| drop(world.terms.model.settings.insert("factors".into(), "5".into())), |_| (), Refusal::NoReason),
    ];
    for (number, (prepare, choose, expected)) in cases.into_iter().enumerate() {
        let server = Server::new();
        server.with(prepare);
        let (mut device, _) = device(0);
        choose(&mut device);
        let next = device.step(&*server, NOW).unwrap();
        assert!(matches!(next, NextStep::Wait(_, WaitReason::Declined { round: 0, .. })), "{number}: {next:?}");
        assert_eq!(server.with(|world| world.refusals.clone()), [(0, expected)], "{number}");
        // Invited again, it does not decline again, and waits.
        assert!(
            matches!(device.step(&*server, NOW).unwrap(), NextStep::Wait(_, WaitReason::Failed { .. })),
            "{number}"
        );
        assert_eq!(server.with(|world| world.refusals.len()), 1);
        assert_eq!((device.ledger().totals().updates, device.private()), (0, None), "{number}");
    }
}

fn keeps_uploads(world: &mut common::World) {
    let layer = PrivacyLayer { name: "kept-uploads".into(), ..PrivacyLayer::default() };
    world.terms.privacy.layers.push(layer);
}

#[test]
fn records_whether_the_server_retains_uploads() {
    let server = Server::new();
    let (mut device, _) = device(0);
    assert!(!device.uploads_are_retained());
    server.with(keeps_uploads);
    assert_eq!(device.step(&*server, NOW).unwrap(), done(0));
    assert!(device.uploads_are_retained());
    server.close_round();
    server.with(|world| drop(world.terms.privacy.layers.pop()));
    assert_eq!(device.step(&*server, NOW).unwrap(), done(1));
    assert!(!device.uploads_are_retained());
}

#[test]
fn declines_without_a_history_until_one_is_imported() {
    let server = Server::new();
    let enrolment = sottovoce_device::Enrolment { history: sottovoce_device::History::new(), ..enrolment(0) };
    let mut device = Device::enrol(Box::new(MemoryStore::new()), enrolment, options()).unwrap();
    assert!(matches!(device.step(&*server, NOW).unwrap(), NextStep::Wait(_, WaitReason::Declined { .. })));
    assert_eq!(server.with(|world| world.refusals.clone()), [(0, Refusal::NoHistory)]);
    assert!(matches!(device.recommend(5), Err(DeviceError::NoModel)));
    let imported = device.import([("i3", Some(1)), ("i4", None), ("i3", Some(1)), ("other", None)]).unwrap();
    assert_eq!((imported.added, imported.repeated, imported.unknown), (3, 1, 1));
    assert_eq!((device.unknown_items(), device.history().len()), (1, 3));
    device.set_policy(|policy| policy.set_pi(1.0)).unwrap();
    server.close_round();
    assert_eq!(device.step(&*server, NOW).unwrap(), done(1));
}

#[test]
fn waits_for_conditions_and_while_paused() {
    struct Charging(Arc<AtomicBool>);
    impl Conditions for Charging {
        fn may_train(&self) -> bool {
            self.0.load(Ordering::Relaxed)
        }
    }
    let server = Server::new();
    let charging = Arc::new(AtomicBool::new(false));
    let options = Options { conditions: Box::new(Charging(charging.clone())), ..options() };
    let mut device = Device::enrol(Box::new(MemoryStore::new()), enrolment(0), options).unwrap();
    assert!(matches!(device.step(&*server, NOW).unwrap(), NextStep::Wait(_, WaitReason::Conditions)));
    assert_eq!(server.paths(), ["GET /catalog", "POST /devices"]);
    charging.store(true, Ordering::Relaxed);
    // The update is ready when charging ends; it still goes out.
    server.with(|world| world.faults = vec![None, None, Some(Fault::Before)]);
    assert!(matches!(device.step(&*server, NOW).unwrap(), NextStep::Wait(_, WaitReason::Failed { .. })));
    charging.store(false, Ordering::Relaxed);
    assert_eq!(device.step(&*server, NOW + Duration::from_secs(9)).unwrap(), done(0));

    device.set_policy(Policy::pause).unwrap();
    server.close_round();
    charging.store(true, Ordering::Relaxed);
    server.paths();
    assert!(matches!(device.step(&*server, NOW).unwrap(), NextStep::Wait(_, WaitReason::Paused)));
    assert_eq!(server.paths(), [""; 0]);
    device.set_policy(Policy::resume).unwrap();
    assert_eq!(device.step(&*server, NOW).unwrap(), done(1));
}

#[test]
fn a_pause_discards_the_pending_update() {
    let server = Server::new();
    let (mut device, _) = device(0);
    server.with(|world| world.faults = vec![None, None, None, None, Some(Fault::Before)]);
    device.step(&*server, NOW).unwrap();
    assert!(device.has_pending());
    device.set_policy(Policy::pause).unwrap();
    device.set_policy(Policy::resume).unwrap();
    server.close_round();
    assert_eq!(device.step(&*server, NOW).unwrap(), done(1));
    assert!(!server.with(|world| world.updates.contains_key(&(0, 0))));
}

#[test]
fn hidden_items_never_leave_and_discard_the_pending_update() {
    let server = Server::new();
    let (mut device, store) = device(0);
    device.set_policy(|policy| policy.set_pi(1.0)).unwrap();
    server.with(|world| world.faults = vec![None, None, None, None, Some(Fault::Before)]);
    device.step(&*server, NOW).unwrap();
    let in_it = device.ledger().entries().next().unwrap().tables[0].listed.clone().unwrap();
    device.hide("no such item").unwrap();
    assert!(device.has_pending());
    device.hide(&format!("i{}", in_it[0])).unwrap();
    assert!(!device.has_pending());
    // All but one of what the owner has is hidden; it holds after a restart.
    let ids: Vec<String> = device.history().iter().map(|(id, _)| id.to_owned()).collect();
    ids.iter().for_each(|id| device.hide(id).unwrap());
    assert!(device.unhide(&ids[1]).unwrap());
    drop(device);
    let mut device = Device::open(Box::new(store), options()).unwrap();
    for round in 1..4 {
        server.close_round();
        assert_eq!(device.step(&*server, NOW + Duration::from_secs(60 * round)).unwrap(), done(round));
        let layout = server.with(|world| world.versions[0].parameters.layout());
        let mut received = Received::new(&layout);
        codec::decode_update(&server.with(|world| world.updates[&(0, round)].1.clone()), &mut received).unwrap();
        let hidden = device.policy().hidden();
        assert!(received.update().tables()[0].iter().all(|(row, _)| !hidden.contains(&(row as u32))));
        assert!(received.update().rows() > 0);
    }
    // Nothing is left to show: it learns for its owner, and says no.
    let before = device.private().unwrap().to_vec();
    device.hide(&ids[1]).unwrap();
    server.close_round();
    let next = device.step(&*server, NOW + Duration::from_secs(300)).unwrap();
    assert!(matches!(next, NextStep::Wait(_, WaitReason::Declined { round: 4, .. })), "{next:?}");
    assert_eq!(server.with(|world| world.refusals.last().cloned()), Some((0, Refusal::NoHistory)));
    assert_ne!(device.private().unwrap(), before);
    assert!(device.unhide(&ids[0]).unwrap() && !device.unhide(&ids[0]).unwrap());
}

#[test]
fn criteria_leave_only_if_requested_and_allowed() {
    let reported = |asked: &[&str], allowed: &[&str]| {
        let server = Server::new();
        asked.iter().for_each(|name| server.ask_for(name));
        let (mut device, _) = device(0);
        let allow = |policy: &mut Policy| {
            policy.criteria = Reportable::Only(allowed.iter().map(|&name| name.to_owned()).collect());
            Ok(())
        };
        device.set_policy(allow).unwrap();
        assert_eq!(device.step(&*server, NOW).unwrap(), done(0));
        let mut received = Received::new(&server.with(|world| world.versions[0].parameters.layout()));
        codec::decode_update(&server.with(|world| world.updates[&(0, 0)].1.clone()), &mut received).unwrap();
        let told = device.ledger().entries().next().unwrap();
        assert_eq!(told.criteria.len(), received.update().criteria().len());
        // With auc, the latest interaction was not learnt from as one.
        (received.update().criteria().to_vec(), received)
    };
    let (both, _) = reported(&["new", "auc", "loss"], &["auc", "loss"]);
    assert_eq!(both.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [1, 2]);
    assert!((0.0..=1.0).contains(&both[0].1) && (0.1..3.0).contains(&both[1].1), "{both:?}");
    assert_eq!(reported(&["auc", "loss"], &["loss"]).0.len(), 1);
    let (nothing, with) = reported(&["auc"], &[]);
    assert!(nothing.is_empty());
    let (_, without) = reported(&[], &["auc"]);
    assert_eq!(with.update(), without.update(), "asking alone changes nothing");
    let (_, left_out) = reported(&["auc"], &["auc"]);
    assert_ne!(left_out.update().tables(), without.update().tables());
}

#[test]
fn recommends_new_items_without_the_network() {
    let server = Server::new();
    let (mut device, store) = device(0);
    device.step(&*server, NOW).unwrap();
    let list = device.recommend(5).unwrap();
    assert_eq!((list.items.len(), list.version, list.model.as_str()), (5, 0, "fpl"));
    assert!(
        list.items.is_sorted_by(|one, next| one.score > next.score || (one.score == next.score && one.row < next.row))
    );
    assert_eq!(list.items[0].title, Some(format!("Item {}", list.items[0].row)));
    let all = device.recommend(1000).unwrap();
    assert_eq!(all.items[..5], list.items[..]);
    assert_eq!(all.items.len(), ITEMS - device.history().len());
    assert!(all.items.iter().all(|item| device.history().iter().all(|(id, _)| id != item.item)));
    drop(device);
    assert_eq!(Device::open(Box::new(store), options()).unwrap().recommend(5).unwrap(), list);
}

#[test]
fn the_ledger_lists_rounds_and_items() {
    let server = Server::new();
    let (mut device, _) = device(0);
    for round in 0..3 {
        device.step(&*server, NOW + Duration::from_secs(60 * round)).unwrap();
        server.close_round();
    }
    let told: Vec<_> = device.ledger().entries().collect();
    assert_eq!(told.len(), 3);
    assert_eq!(told[1].when, NOW.as_secs() + 60);
    let items = device.disclosed_items().unwrap();
    let times: u64 = items.iter().map(|item| item.disclosures.times).sum();
    assert_eq!(times, device.ledger().totals().rows);
    assert!(items.iter().any(|item| item.in_history) && items.iter().any(|item| !item.in_history));
    let disclosed = device.fixed_disclosure().unwrap();
    assert!(items.iter().all(|item| item.disclosed == disclosed.contains(&item.row)));
    for item in &items {
        assert_eq!(device.disclosures_of(&item.item).unwrap(), *item);
    }
    assert!(matches!(device.disclosures_of("x"), Err(DeviceError::UnknownItem(_))));
}

#[test]
fn withdrawal_is_repeated_until_confirmed_and_lasts() {
    let server = Server::new();
    let (mut device, store) = device(0);
    device.step(&*server, NOW).unwrap();
    device.withdraw().unwrap();
    server.with(|world| world.faults = vec![Some(Fault::Before), Some(Fault::Busy), Some(Fault::After)]);
    let mut clock = NOW;
    for _ in 0..3 {
        assert!(matches!(device.step(&*server, clock).unwrap(), NextStep::Wait(_, WaitReason::Failed { .. })));
        clock += Duration::from_secs(60);
    }
    // The server has forgotten the device and says that it does not know it: that is what was wanted.
    assert_eq!(device.step(&*server, clock).unwrap(), NextStep::Stop(StopReason::Withdrawn));
    assert_eq!(server.with(|world| world.withdrawn.clone()), [0]);
    drop(device);
    let mut device = Device::open(Box::new(store.clone()), options()).unwrap();
    assert_eq!(*device.membership(), Membership::Withdrawn);
    assert_eq!(device.step(&*server, clock).unwrap(), NextStep::Stop(StopReason::Withdrawn));
    assert!(device.recommend(3).is_ok(), "what is held can still be used");
    assert!(matches!(device.set_policy(Policy::resume), Err(DeviceError::Policy(PolicyError::Withdrawn))));
    // The store can be used for a new enrolment now, and only now.
    drop(device);
    let mut anew = Device::enrol(Box::new(store.clone()), enrolment(4), options()).unwrap();
    assert_eq!(anew.step(&*server, clock).unwrap(), done(0));
    let error = Device::enrol(Box::new(store), enrolment(5), options()).err().unwrap();
    assert!(matches!(error, DeviceError::Enrolled(name) if name == "films"));
}

/// What a device shows that enrols into this store with this secret, takes part and leaves.
fn disclosed_by(server: &Server, store: &SharedStore, secret: u8) -> Vec<u32> {
    let ids: Vec<String> = (0..ITEMS / 2).map(|item| format!("i{item}")).collect();
    let (secret, history) = (Secret::new([secret; 32]), History::from_ids(ids.iter().map(String::as_str)));
    let new = Enrolment { seeds: Seeds::Own, secret, history, ..enrolment(0) };
    let mut device = Device::enrol(Box::new(store.clone()), new, options()).unwrap();
    assert_eq!(device.join(server, NOW).unwrap(), None);
    let disclosed = device.fixed_disclosure().unwrap();
    device.withdraw().unwrap();
    assert_eq!(device.step(server, NOW).unwrap(), NextStep::Stop(StopReason::Withdrawn));
    disclosed
}

/// A server that shuts people out does not get to see more of them when they come back.
#[test]
fn enrolling_again_discloses_the_same_items() {
    let (server, store) = (Server::new(), SharedStore::default());
    let first = disclosed_by(&server, &store, 1);
    assert!(!first.is_empty() && first.len() < ITEMS / 2);
    for secret in 2..6 {
        assert_eq!(disclosed_by(&server, &store, secret), first);
    }
    assert_ne!(disclosed_by(&server, &SharedStore::default(), 2), first, "a new store parts anew");
}

/// What a program prints of its state ends in logs and crash reports.
#[test]
fn debug_shows_no_secret() {
    let secret = [0xab; 32];
    let config = secagg::Config::new(FederationId(1), RoundId(2), 5, 3);
    let credential = "svd_secret".to_owned();
    let shown = [
        format!("{:?}", Secret::new(secret)),
        format!("{:?}", sottovoce_device::Key::new(secret)),
        format!("{:?}", SecureRng::new(secret)),
        format!("{:?}", secagg::Identity::new(&secret, secagg::Roster::new())),
        format!("{:?}", secagg::Device::new(config, 0, secret, None).unwrap()),
        format!("{:?}", DisclosureSeeds { per_round: u64::from_le_bytes([0xab; 8]), fixed: 0 }),
        format!("{:?}", Membership::Enrolled { device: 1, credential: credential.clone() }),
        format!("{:?}", Membership::Withdrawing { credential: credential.clone() }),
        format!("{:?}", Membership::Enrolling { token: credential.clone() }),
        format!("{:?}", sottovoce_device::Request { bearer: Some(credential.clone()), ..Default::default() }),
    ];
    let number = u64::from_le_bytes([0xab; 8]).to_string();
    for text in shown {
        for secret in ["171, 171", "abab", &number, &credential] {
            assert!(!text.contains(secret), "{text}");
        }
    }
}
