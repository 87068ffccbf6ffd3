//! A device through its rounds, against a server in memory.

mod common;

use common::{Fault, ITEMS, Server, device, enrolment, go, history, options, sharing, spec};
use sottovoce_core::Rng;
use sottovoce_device::{
    Conditions, Device, DeviceError, End, Items, Membership, MemoryStore, Next, Options, Rest, Together,
};
use sottovoce_models::{DevicePart, Task, fpl};
use sottovoce_privacy::tokens::{Issuer, Scope};
use sottovoce_protocol::{
    Draws, FederationId, Ledger, Policy, PolicyError, PrivacyLayer, Received, Refusal, Reportable, RoundId,
    RoundTerms, Trained, codec,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const NOW: Duration = Duration::from_secs(1_000_000);

fn done(round: u64) -> Next {
    Next::After(Duration::ZERO, Rest::Done { round })
}

#[test]
fn a_round_is_check_in_download_training_and_upload() {
    let server = Server::new();
    let (mut device, _) = device(0);
    assert_eq!(device.step(&*server, NOW).unwrap(), done(0));
    let expected =
        ["GET /catalog", "POST /devices", "POST /check-in", "GET /models/0", "POST /rounds/0/updates"];
    assert_eq!(server.paths(), expected);
    let idle = Next::After(Duration::from_secs(7), Rest::Idle { state: "done".to_owned() });
    assert_eq!(device.step(&*server, NOW).unwrap(), idle);
    // It does not come back before it was asked to.
    assert!(
        matches!(device.step(&*server, NOW + Duration::from_secs(6)).unwrap(), Next::After(rest, _) if rest == Duration::from_secs(1))
    );
    server.close_round();
    assert_eq!(device.step(&*server, NOW + Duration::from_secs(7)).unwrap(), done(1));
    let expected = ["POST /check-in", "POST /check-in", "GET /models/1/from/0", "POST /rounds/1/updates"];
    assert_eq!(server.paths(), expected);
    assert_eq!(device.ledger().totals().updates, 2);
    assert_eq!((device.number(), device.last_round(), device.has_pending()), (Some(0), Some(1), false));
}

/// What the simulator does for this user in this round, written out.
fn simulated(
    user: u64,
    rounds: &[(u64, Arc<sottovoce_protocol::SharedModel>)],
    terms: &RoundTerms,
) -> (Vec<Vec<u8>>, Vec<f32>) {
    let items = Items::parse(common::catalog().into_bytes()).unwrap();
    let mut rows: Vec<u32> = history(user).iter().map(|(id, _)| items.find(id).unwrap()).collect();
    rows.sort_unstable();
    let part = fpl::Device::from_spec(&spec()).unwrap();
    let root = Rng::new(3).stream("fpl", 0);
    let mut private = vec![0.0; part.private_values()];
    part.start(&mut private, &mut root.stream("private", user));
    let mut shown_private = vec![0.0; part.private_values()];
    part.start(&mut shown_private, &mut root.stream("shown", user));
    let (policy, kept) = (Policy::new(0.6).unwrap(), root.stream("kept", user).next_u64());
    let shown: Vec<u32> = policy.shown(&rows, kept).collect();
    assert!(!shown.is_empty() && shown.len() < rows.len(), "{shown:?}");
    let mut all = Vec::new();
    for (round, model) in rounds {
        let mut rng = root.stream("rounds", 0).stream("round", *round).stream("device", user);
        let learn = |private: &mut [f32], history: &[u32], rng: &mut Rng| {
            let mut trained = Trained::new(&model.parameters.layout());
            trained.expect_shown(&policy);
            let task = Task { shared: &model.parameters, prepared: &(), private, history, hidden: &[] };
            part.train(task, &mut part.scratch(ITEMS), rng, &mut trained).unwrap();
            trained
        };
        learn(&mut private, &rows, &mut rng.stream("own", 0));
        let trained = learn(&mut shown_private, &shown, &mut rng);
        let terms = terms.clone().for_round(sottovoce_protocol::RoundId(*round), model.version, 3);
        let draws = Draws { round: rng.next_u64(), kept };
        let disclosed = trained.disclose(&policy, &terms, 0, &mut Ledger::new(), draws).unwrap();
        let mut bytes = Vec::new();
        codec::encode_update(&disclosed, &mut bytes);
        all.push(bytes);
    }
    (all, private)
}

/// The private model has learnt with versions that somebody who withdrew was in: it begins anew, once.
#[test]
fn when_training_goes_back_the_private_model_begins_anew() {
    let server = Server::new();
    let (mut device, _) = device(0);
    let mut clock = NOW;
    for _ in 0..2 {
        go(&mut device, &server, &mut clock);
        server.close_round();
    }
    let back = server.with(|world| {
        let mut model = sottovoce_protocol::SharedModel::clone(&world.versions[0]);
        model.version = sottovoce_protocol::ModelVersion(2);
        world.versions[2] = Arc::new(model);
        world.went_back = Some(2);
        Arc::clone(&world.versions[2])
    });
    while device.last_round() != Some(2) {
        go(&mut device, &server, &mut clock);
    }
    let terms = server.with(|world| RoundTerms::freeze(world.terms.clone()).unwrap());
    let (_, private) = simulated(0, &[(2, Arc::clone(&back))], &terms);
    assert_eq!(device.private().unwrap(), private);
    server.close_round();
    let next = server.with(|world| Arc::clone(world.versions.last().unwrap()));
    while device.last_round() != Some(3) {
        go(&mut device, &server, &mut clock);
    }
    let (_, private) = simulated(0, &[(2, back), (3, next)], &terms);
    assert_eq!(device.private().unwrap(), private);
}

#[test]
fn updates_and_private_models_are_the_simulators_to_the_byte() {
    let server = Server::new();
    let together = Arc::new(Together::new());
    let mut devices: Vec<Device> = (0..3)
        .map(|user| Device::enrol(Box::new(MemoryStore::new()), enrolment(user), sharing(&together)).unwrap())
        .collect();
    let mut clock = NOW;
    for _ in 0..3 {
        for device in &mut devices {
            while !matches!(go(device, &server, &mut clock), Next::After(_, Rest::Done { .. })) {}
        }
        server.close_round();
    }
    let terms = server.with(|world| RoundTerms::freeze(world.terms.clone()).unwrap());
    let rounds: Vec<_> =
        server.with(|world| (0..3).map(|round| (round, world.versions[round as usize].clone())).collect());
    for (user, device) in (0..).zip(&devices) {
        let (bytes, private) = simulated(user, &rounds, &terms);
        for (round, bytes) in (0..).zip(bytes) {
            assert_eq!(
                server.with(|world| world.updates[&(user, round)].1.clone()),
                bytes,
                "user {user} round {round}"
            );
        }
        assert_eq!(device.private().unwrap(), private);
    }
    // One of them downloads, the others take what it has.
    let downloads = server.paths().iter().filter(|path| path.starts_with("GET /models")).count();
    assert_eq!(downloads, 3);
}

/// What is strange about the server, what its owner tells the device, and what the device says.
type Case = (fn(&mut common::World), fn(&mut Device), Refusal);

#[test]
fn what_the_owner_does_not_want_is_refused_with_its_reason() {
    let cases: [Case; 7] = [
        (
            |_| (),
            |device| {
                let large = |policy: &mut Policy| {
                    policy.least_cohort = 50;
                    Ok(())
                };
                device.set_policy(large).unwrap();
            },
            Refusal::CohortTooSmall { least: 50 },
        ),
        (|world| world.terms.model.name = "gmf".into(), |_| (), Refusal::UnknownModel { name: "gmf".into() }),
        (
            |world| drop(world.terms.model.settings.insert("triples".into(), "1000000000".into())),
            |_| (),
            Refusal::UnknownModel { name: "fpl".into() },
        ),
        (
            |world| {
                world
                    .terms
                    .privacy
                    .layers
                    .push(PrivacyLayer { name: "new".into(), ..PrivacyLayer::default() });
            },
            |_| (),
            Refusal::Unstated,
        ),
        (
            |_| (),
            |device| {
                let require = |policy: &mut Policy| {
                    policy.required_layers.insert("dp".into());
                    Ok(())
                };
                device.set_policy(require).unwrap();
            },
            Refusal::PrivacyMissing { layer: "dp".into() },
        ),
        (
            keeps_uploads,
            |device| {
                let refuse = |policy: &mut Policy| {
                    policy.refused_layers.insert("kept-uploads".into());
                    Ok(())
                };
                device.set_policy(refuse).unwrap();
            },
            Refusal::Unwanted { layer: "kept-uploads".into() },
        ),
        // More factors than the table has: the model does not fit what the terms say.
        (
            |world| drop(world.terms.model.settings.insert("factors".into(), "5".into())),
            |_| (),
            Refusal::Unstated,
        ),
    ];
    for (number, (prepare, choose, expected)) in cases.into_iter().enumerate() {
        let server = Server::new();
        server.with(prepare);
        let (mut device, _) = device(0);
        choose(&mut device);
        let next = device.step(&*server, NOW).unwrap();
        assert!(matches!(next, Next::After(_, Rest::Declined { round: 0, .. })), "{number}: {next:?}");
        assert_eq!(server.with(|world| world.refusals.clone()), [(0, expected)], "{number}");
        // Asked again, it does not say so again, and rests.
        assert!(
            matches!(device.step(&*server, NOW).unwrap(), Next::After(_, Rest::Failed { .. })),
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
fn who_puts_up_with_kept_uploads_takes_part_and_remembers_what_the_server_said() {
    let server = Server::new();
    let (mut device, _) = device(0);
    assert!(!device.uploads_are_kept());
    server.with(keeps_uploads);
    assert_eq!(device.step(&*server, NOW).unwrap(), done(0));
    assert!(device.uploads_are_kept());
    server.close_round();
    server.with(|world| drop(world.terms.privacy.layers.pop()));
    assert_eq!(device.step(&*server, NOW).unwrap(), done(1));
    assert!(!device.uploads_are_kept());
}

#[test]
fn nobody_without_a_history_takes_part_and_a_later_import_changes_that() {
    let server = Server::new();
    let enrolment = sottovoce_device::Enrolment { history: sottovoce_device::History::new(), ..enrolment(0) };
    let mut device = Device::enrol(Box::new(MemoryStore::new()), enrolment, options()).unwrap();
    assert!(matches!(device.step(&*server, NOW).unwrap(), Next::After(_, Rest::Declined { .. })));
    assert_eq!(server.with(|world| world.refusals.clone()), [(0, Refusal::NoHistory)]);
    assert!(matches!(device.recommend(5), Err(DeviceError::NoModel)));
    let imported = device.import([("i3", Some(1)), ("i4", None), ("i3", None), ("other", None)]).unwrap();
    assert_eq!((imported.added, imported.repeated, imported.unknown), (3, 1, 1));
    assert_eq!((device.unknown_items(), device.history().len()), (1, 3));
    device.set_policy(|policy| policy.set_pi(1.0)).unwrap();
    server.close_round();
    assert_eq!(device.step(&*server, NOW).unwrap(), done(1));
}

#[test]
fn a_device_rests_while_conditions_or_its_owner_say_so() {
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
    assert!(matches!(device.step(&*server, NOW).unwrap(), Next::After(_, Rest::Conditions)));
    assert_eq!(server.paths(), ["GET /catalog", "POST /devices"]);
    charging.store(true, Ordering::Relaxed);
    // The update is ready when charging ends; it still goes out.
    server.with(|world| world.faults = vec![None, None, Some(Fault::Before)]);
    assert!(matches!(device.step(&*server, NOW).unwrap(), Next::After(_, Rest::Failed { .. })));
    charging.store(false, Ordering::Relaxed);
    assert_eq!(device.step(&*server, NOW + Duration::from_secs(9)).unwrap(), done(0));

    device.set_policy(Policy::pause).unwrap();
    server.close_round();
    charging.store(true, Ordering::Relaxed);
    server.paths();
    assert!(matches!(device.step(&*server, NOW).unwrap(), Next::After(_, Rest::Paused)));
    assert_eq!(server.paths(), [""; 0]);
    device.set_policy(Policy::resume).unwrap();
    assert_eq!(device.step(&*server, NOW).unwrap(), done(1));
}

#[test]
fn a_pause_keeps_a_ready_update_at_home() {
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
fn hidden_items_never_leave_and_what_was_ready_is_given_up() {
    let server = Server::new();
    let (mut device, store) = device(0);
    device.set_policy(|policy| policy.set_pi(1.0)).unwrap();
    server.with(|world| world.faults = vec![None, None, None, None, Some(Fault::Before)]);
    device.step(&*server, NOW).unwrap();
    let in_it = device.told().next().unwrap().tables[0].listed.clone().unwrap();
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
        codec::decode_update(&server.with(|world| world.updates[&(0, round)].1.clone()), &mut received)
            .unwrap();
        let hidden = device.policy().hidden();
        assert!(received.update().tables()[0].iter().all(|(row, _)| !hidden.contains(&(row as u32))));
        assert!(received.update().rows() > 0);
    }
    // Nothing is left to show: it learns for its owner, and says no.
    let before = device.private().unwrap().to_vec();
    device.hide(&ids[1]).unwrap();
    server.close_round();
    let next = device.step(&*server, NOW + Duration::from_secs(300)).unwrap();
    assert!(matches!(next, Next::After(_, Rest::Declined { round: 4, .. })), "{next:?}");
    assert_eq!(server.with(|world| world.refusals.last().cloned()), Some((0, Refusal::NoHistory)));
    assert_ne!(device.private().unwrap(), before);
    assert!(device.unhide(&ids[0]).unwrap() && !device.unhide(&ids[0]).unwrap());
}

#[test]
fn criteria_leave_only_if_asked_for_and_allowed() {
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
        let told = device.told().next().unwrap();
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
fn a_device_recommends_what_its_owner_does_not_have_without_the_network() {
    let server = Server::new();
    let (mut device, store) = device(0);
    device.step(&*server, NOW).unwrap();
    let list = device.recommend(5).unwrap();
    assert_eq!((list.items.len(), list.version, list.model.as_str()), (5, 0, "fpl"));
    assert!(
        list.items.is_sorted_by(
            |one, next| one.score > next.score || (one.score == next.score && one.row < next.row)
        )
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
fn the_ledger_tells_rounds_and_items() {
    let server = Server::new();
    let (mut device, _) = device(0);
    for round in 0..3 {
        device.step(&*server, NOW + Duration::from_secs(60 * round)).unwrap();
        server.close_round();
    }
    let told: Vec<_> = device.told().collect();
    assert_eq!(told.len(), 3);
    assert_eq!(told[1].when, NOW.as_secs() + 60);
    let items = device.items_left().unwrap();
    let times: u64 = items.iter().map(|item| item.left.times).sum();
    assert_eq!(times, device.ledger().totals().rows);
    assert!(items.iter().any(|item| item.had) && items.iter().any(|item| !item.had));
    let shown = device.shown().unwrap();
    assert!(items.iter().all(|item| item.shown == shown.contains(&item.row)));
    for item in &items {
        assert_eq!(device.item_left_of(&item.item).unwrap(), *item);
    }
    assert!(matches!(device.item_left_of("x"), Err(DeviceError::UnknownItem(_))));
}

#[test]
fn withdrawing_is_told_until_it_is_heard_and_lasts() {
    let server = Server::new();
    let (mut device, store) = device(0);
    device.step(&*server, NOW).unwrap();
    device.withdraw().unwrap();
    server.with(|world| world.faults = vec![Some(Fault::Before), Some(Fault::Busy), Some(Fault::After)]);
    let mut clock = NOW;
    for _ in 0..3 {
        assert!(matches!(device.step(&*server, clock).unwrap(), Next::After(_, Rest::Failed { .. })));
        clock += Duration::from_secs(60);
    }
    // The server has forgotten the device and says that it does not know it: that is what was wanted.
    assert_eq!(device.step(&*server, clock).unwrap(), Next::Never(End::Withdrawn));
    assert_eq!(server.with(|world| world.withdrawn.clone()), [0]);
    drop(device);
    let mut device = Device::open(Box::new(store.clone()), options()).unwrap();
    assert_eq!(*device.membership(), Membership::Withdrawn);
    assert_eq!(device.step(&*server, clock).unwrap(), Next::Never(End::Withdrawn));
    assert!(device.recommend(3).is_ok(), "what is held can still be used");
    assert!(matches!(device.set_policy(Policy::resume), Err(DeviceError::Policy(PolicyError::Withdrawn))));
    // The store can be used for a new enrolment now, and only now.
    drop(device);
    let mut anew = Device::enrol(Box::new(store.clone()), enrolment(4), options()).unwrap();
    assert_eq!(anew.step(&*server, clock).unwrap(), done(0));
    let error = Device::enrol(Box::new(store), enrolment(5), options()).err().unwrap();
    assert!(matches!(error, DeviceError::Enrolled(name) if name == "films"));
}

#[test]
fn a_server_that_turns_a_device_away_ends_it() {
    let cases: [(common::Says, u16); 4] = [
        (|request| request.path.ends_with("devices").then_some((401, "bad-token")), 401),
        (|request| request.path.ends_with("catalog").then_some((404, "no-federation")), 404),
        (|request| request.path.ends_with("check-in").then_some((403, "revoked")), 403),
        (|request| request.path.ends_with("updates").then_some((403, "revoked")), 403),
    ];
    for (says, status) in cases {
        let server = Server::new();
        server.with(|world| world.says = says);
        let next = device(0).0.step(&*server, NOW).unwrap();
        assert!(
            matches!(&next, Next::Never(End::TurnedAway { status: found, .. }) if *found == status),
            "{next:?}"
        );
    }
}

#[test]
fn an_update_that_is_refused_for_good_is_dropped_and_stays_in_the_ledger() {
    let cases: [common::Says; 4] = [
        |request| request.path.ends_with("updates").then_some((409, "round-closed")),
        |request| request.path.ends_with("updates").then_some((403, "not-asked")),
        |request| request.path.ends_with("updates").then_some((413, "too-large")),
        |request| request.path.ends_with("updates").then_some((422, "row-too-large")),
    ];
    for says in cases {
        let server = Server::new();
        server.with(|world| world.says = says);
        let (mut device, _) = device(0);
        let next = device.step(&*server, NOW).unwrap();
        assert!(
            matches!(&next, Next::After(_, Rest::Dropped { round: 0, why }) if why.contains("because")),
            "{next:?}"
        );
        assert!(!device.has_pending());
        assert_eq!(device.ledger().totals().updates, 1);
        // Asked for the same round again, it does not learn twice.
        server.with(|world| world.says = |_| None);
        let private = device.private().unwrap().to_vec();
        assert!(matches!(
            device.step(&*server, NOW).unwrap(),
            Next::After(_, Rest::Declined { round: 0, .. })
        ));
        assert_eq!(device.private().unwrap(), private);
    }
}

#[test]
fn models_that_are_not_the_promised_ones_are_not_learnt_with() {
    // Another version of the same shape under the asked name: the digest tells.
    let server = Server::new();
    let (mut first, _) = device(0);
    first.step(&*server, NOW).unwrap();
    server.close_round();
    server.with(|world| world.versions.swap(0, 1));
    let (mut second, _) = device(1);
    let next = second.step(&*server, NOW).unwrap();
    assert!(
        matches!(&next, Next::After(_, Rest::Failed { what, .. }) if what.contains("not the one")),
        "{next:?}"
    );
    assert!(second.private().is_none() && second.model().is_none());
    // A difference that does not fit is no harm where the whole model can be had.
    server.with(|world| world.versions.swap(0, 1));
    server.with(|world| world.differences = false);
    server.paths();
    assert_eq!(first.step(&*server, NOW + Duration::from_secs(60)).unwrap(), done(1));
    assert_eq!(server.paths()[1..3], ["GET /models/1/from/0", "GET /models/1"]);
}

#[test]
fn credentials_go_with_models_only_where_they_are_asked_for() {
    let server = Server::new();
    let (mut device, _) = device(0);
    device.step(&*server, NOW).unwrap();
    let shown = |server: &Server| {
        let models = |request: &sottovoce_device::Request| request.path.contains("/models/");
        server.with(|world| {
            world
                .requests
                .drain(..)
                .filter(models)
                .map(|request| request.bearer.is_some())
                .collect::<Vec<_>>()
        })
    };
    assert_eq!(shown(&server), [false]);
    server.close_round();
    server.with(|world| world.private_models = true);
    assert_eq!(device.step(&*server, NOW).unwrap(), done(1));
    assert_eq!(shown(&server), [false, true]);
}

#[test]
fn a_model_past_the_bound_is_refused_before_it_is_downloaded() {
    let server = Server::new();
    let bounds = sottovoce_device::Bounds { model_bytes: 100, ..sottovoce_device::Bounds::default() };
    let options = Options { bounds, ..options() };
    let mut device = Device::enrol(Box::new(MemoryStore::new()), enrolment(0), options).unwrap();
    let next = device.step(&*server, NOW).unwrap();
    assert!(
        matches!(&next, Next::After(_, Rest::Declined { why, .. }) if why.contains("at most 100")),
        "{next:?}"
    );
    assert!(server.paths().iter().all(|path| !path.contains("models")));
}

#[test]
fn names_that_would_change_a_path_are_refused() {
    for name in ["", "../x", "a/b", "a b", "é", ".hidden", "a?b"] {
        let enrolment = sottovoce_device::Enrolment { federation: name.to_owned(), ..enrolment(0) };
        let made = Device::enrol(Box::new(MemoryStore::new()), enrolment, options());
        assert!(matches!(made, Err(DeviceError::Name(_))), "{name}");
    }
}

fn issuer(round: u64, master: u8) -> Issuer {
    let scope = Scope { federation: FederationId(9), round: RoundId(round) };
    Issuer::new([master; 32], scope)
}

#[test]
fn an_update_without_a_name_goes_with_a_token_and_without_the_credential() {
    let server = Server::new();
    server.without_names(&issuer(0, 1).key(), issuer(0, 1));
    let (mut device, store) = device(0);
    let mut clock = NOW;
    // The answer to the request for the token is lost, then the device is killed, then the answer to the upload is lost.
    let lost = Some(Fault::After);
    server.with(|world| world.faults = vec![None, None, None, None, lost]);
    let failed = device.step(&*server, clock).unwrap();
    assert!(matches!(failed, Next::After(_, Rest::Failed { .. })), "{failed:?}");
    assert!(device.has_pending());
    drop(device);
    let mut device = Device::open(Box::new(store.clone()), options()).unwrap();
    server.with(|world| world.faults = vec![None, lost]);
    assert_eq!(go(&mut device, &server, &mut clock), done(0));
    let asked: Vec<_> = server.with(|world| {
        world.requests.iter().filter(|request| request.path.ends_with("/token")).cloned().collect()
    });
    assert_eq!(asked.len(), 2);
    assert!(asked.iter().all(|request| request.bearer.is_some() && request.body.len() == 32));
    assert_eq!(asked[0].body, asked[1].body, "a killed device asks for the same token");
    let spent: Vec<usize> = server.with(|world| world.anonymous.values().map(|(_, times)| *times).collect());
    assert_eq!(spent, [2], "one token, the same bytes twice");
    assert!(server.with(|world| world.updates.is_empty()));
    assert!(!device.has_pending() && device.ledger().totals().updates == 1);
}

#[test]
fn a_token_of_another_key_than_the_terms_is_not_used() {
    let server = Server::new();
    server.without_names(&issuer(0, 1).key(), issuer(0, 2));
    let (mut device, _) = device(0);
    let mut clock = NOW;
    let next = go(&mut device, &server, &mut clock);
    let Next::After(_, Rest::Dropped { round: 0, why }) = next else { panic!("{next:?}") };
    assert!(why.contains("not made with the key"), "{why}");
    assert!(server.with(|world| world.anonymous.is_empty() && world.updates.is_empty()));
    assert!(!server.paths().iter().any(|path| path.ends_with("updates")));
}
