//! A device through its rounds, against a server in memory.

mod common;

use common::{Fault, ITEMS, Server, device, enrolment, go, history, options, sharing, spec};
use sottovoce_client::LoadedModel;
use sottovoce_core::Rng;
use sottovoce_device::{
    Device, DeviceError, Items, MemoryStore, NextStep, Options, SharedCache, StopReason, WaitReason,
};
use sottovoce_models::federated::TrainInput;
use sottovoce_privacy::tokens::{Issuer, Scope};
use sottovoce_protocol::{DisclosureSeeds, FederationId, Ledger, Policy, RoundId, RoundTerms, Trained, codec};
use std::sync::Arc;
use std::time::Duration;

const NOW: Duration = Duration::from_secs(1_000_000);

fn done(round: u64) -> NextStep {
    NextStep::Wait(Duration::ZERO, WaitReason::UpdateAccepted { round })
}

#[test]
fn a_round_is_check_in_download_training_and_upload() {
    let server = Server::new();
    let (mut device, _) = device(0);
    assert_eq!(device.step(&*server, NOW).unwrap(), done(0));
    let expected = ["GET /catalog", "POST /devices", "POST /check-in", "GET /models/0", "POST /rounds/0/updates"];
    assert_eq!(server.paths(), expected);
    let idle = NextStep::Wait(Duration::from_secs(7), WaitReason::NoRound { state: "done".to_owned() });
    assert_eq!(device.step(&*server, NOW).unwrap(), idle);
    // It does not come back before it was asked to.
    assert!(
        matches!(device.step(&*server, NOW + Duration::from_secs(6)).unwrap(), NextStep::Wait(rest, _) if rest == Duration::from_secs(1))
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
    let client = LoadedModel::load(&spec(), None).unwrap().model().client(None);
    let root = Rng::new(3).stream("fpl", 0);
    let mut private = vec![0.0; client.private_values()];
    client.init_private(&mut private, &mut root.stream("private", user));
    let mut disclosed_private = vec![0.0; client.private_values()];
    client.init_private(&mut disclosed_private, &mut root.stream("shown", user));
    let (policy, kept) = (Policy::new(0.6).unwrap(), root.stream("kept", user).next_u64());
    let disclosed: Vec<u32> = policy.disclosed_items(&rows, kept).collect();
    assert!(!disclosed.is_empty() && disclosed.len() < rows.len(), "{disclosed:?}");
    let mut all = Vec::new();
    for (round, model) in rounds {
        let mut rng = root.stream("rounds", 0).stream("round", *round).stream("device", user);
        let learn = |private: &mut [f32], history: &[u32], rng: &mut Rng, discloses: bool| {
            let mut trained = Trained::new(&model.parameters.layout());
            match discloses {
                true => trained.expect_disclosed_items(&policy),
                false => trained.expect_no_disclosure(),
            }
            let prepared = client.prepare(&model.parameters);
            let input = TrainInput {
                shared: &model.parameters,
                prepared: &prepared,
                private,
                history: history.into(),
                hidden: &[],
            };
            client.train(input, &mut client.scratch(ITEMS), rng, &mut trained).unwrap();
            trained
        };
        learn(&mut private, &rows, &mut rng.stream("own", 0), false);
        let trained = learn(&mut disclosed_private, &disclosed, &mut rng, true);
        let terms = terms.clone().for_round(sottovoce_protocol::RoundId(*round), model.version, 3);
        let draws = DisclosureSeeds { per_round: rng.next_u64(), fixed: kept };
        let disclosed = trained.disclose(&policy, &terms, 0, &mut Ledger::new(), draws).unwrap();
        let mut bytes = Vec::new();
        codec::encode_update(&disclosed, &mut bytes);
        all.push(bytes);
    }
    (all, private)
}

/// The private model has learnt with versions that somebody who withdrew was in: it begins anew, once.
#[test]
fn a_rollback_resets_the_private_model_once() {
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
        world.rolled_back = Some(2);
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
fn updates_and_private_models_equal_the_simulators() {
    let server = Server::new();
    let cache = Arc::new(SharedCache::new());
    let mut devices: Vec<Device> = (0..3)
        .map(|user| Device::enrol(Box::new(MemoryStore::new()), enrolment(user), sharing(&cache)).unwrap())
        .collect();
    let mut clock = NOW;
    for _ in 0..3 {
        for device in &mut devices {
            while !matches!(go(device, &server, &mut clock), NextStep::Wait(_, WaitReason::UpdateAccepted { .. })) {}
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

#[test]
fn a_rejected_device_stops() {
    let cases: [(common::Override, u16); 4] = [
        (|request| request.path.ends_with("devices").then_some((401, "bad-token")), 401),
        (|request| request.path.ends_with("catalog").then_some((404, "no-federation")), 404),
        (|request| request.path.ends_with("check-in").then_some((403, "revoked")), 403),
        (|request| request.path.ends_with("updates").then_some((403, "revoked")), 403),
    ];
    for (says, status) in cases {
        let server = Server::new();
        server.with(|world| world.override_response = says);
        let next = device(0).0.step(&*server, NOW).unwrap();
        assert!(
            matches!(&next, NextStep::Stop(StopReason::Rejected { status: found, .. }) if *found == status),
            "{next:?}"
        );
    }
}

#[test]
fn a_rejected_update_is_dropped_and_stays_in_the_ledger() {
    let cases: [common::Override; 4] = [
        |request| request.path.ends_with("updates").then_some((409, "round-closed")),
        |request| request.path.ends_with("updates").then_some((403, "not-asked")),
        |request| request.path.ends_with("updates").then_some((413, "too-large")),
        |request| request.path.ends_with("updates").then_some((422, "row-too-large")),
    ];
    for says in cases {
        let server = Server::new();
        server.with(|world| world.override_response = says);
        let (mut device, _) = device(0);
        let next = device.step(&*server, NOW).unwrap();
        assert!(
            matches!(&next, NextStep::Wait(_, WaitReason::UpdateRejected { round: 0, why }) if why.contains("because")),
            "{next:?}"
        );
        assert!(!device.has_pending());
        assert_eq!(device.ledger().totals().updates, 1);
        // Invited to the same round again, it does not train twice.
        server.with(|world| world.override_response = |_| None);
        let private = device.private().unwrap().to_vec();
        assert!(matches!(
            device.step(&*server, NOW).unwrap(),
            NextStep::Wait(_, WaitReason::Declined { round: 0, .. })
        ));
        assert_eq!(device.private().unwrap(), private);
    }
}

#[test]
fn rejects_models_with_another_digest() {
    // Another version of the same shape under the asked name: the digest tells.
    let server = Server::new();
    let (mut first, _) = device(0);
    first.step(&*server, NOW).unwrap();
    server.close_round();
    server.with(|world| world.versions.swap(0, 1));
    let (mut second, _) = device(1);
    let next = second.step(&*server, NOW).unwrap();
    assert!(
        matches!(&next, NextStep::Wait(_, WaitReason::Failed { what, .. }) if what.contains("not the one")),
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
fn credentials_go_with_model_requests_only_on_demand() {
    let server = Server::new();
    let (mut device, _) = device(0);
    device.step(&*server, NOW).unwrap();
    let disclosed = |server: &Server| {
        let models = |request: &sottovoce_device::Request| request.path.contains("/models/");
        server.with(|world| {
            world.requests.drain(..).filter(models).map(|request| request.bearer.is_some()).collect::<Vec<_>>()
        })
    };
    assert_eq!(disclosed(&server), [false]);
    server.close_round();
    server.with(|world| world.private_models = true);
    assert_eq!(device.step(&*server, NOW).unwrap(), done(1));
    assert_eq!(disclosed(&server), [false, true]);
}

#[test]
fn declines_a_model_past_the_limit_before_downloading_it() {
    let server = Server::new();
    let bounds = sottovoce_device::Bounds { model_bytes: 100, ..sottovoce_device::Bounds::default() };
    let options = Options { bounds, ..options() };
    let mut device = Device::enrol(Box::new(MemoryStore::new()), enrolment(0), options).unwrap();
    let next = device.step(&*server, NOW).unwrap();
    assert!(
        matches!(&next, NextStep::Wait(_, WaitReason::Declined { why, .. }) if why.contains("at most 100")),
        "{next:?}"
    );
    assert!(server.paths().iter().all(|path| !path.contains("models")));
}

#[test]
fn rejects_federation_names_that_would_change_a_path() {
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
fn anonymous_uploads_use_a_token_instead_of_the_credential() {
    let server = Server::new();
    server.ask_for_anonymous_uploads(&issuer(0, 1), issuer(0, 1));
    let (mut device, store) = device(0);
    let mut clock = NOW;
    // The answer to the request for the token is lost, then the device is killed, then the answer to the upload is
    // lost.
    let lost = Some(Fault::After);
    server.with(|world| world.faults = vec![None, None, None, None, lost]);
    let failed = device.step(&*server, clock).unwrap();
    assert!(matches!(failed, NextStep::Wait(_, WaitReason::Failed { .. })), "{failed:?}");
    assert!(device.has_pending());
    drop(device);
    let mut device = Device::open(Box::new(store.clone()), options()).unwrap();
    server.with(|world| world.faults = vec![None, lost]);
    assert_eq!(go(&mut device, &server, &mut clock), done(0));
    let asked: Vec<_> = server
        .with(|world| world.requests.iter().filter(|request| request.path.ends_with("/token")).cloned().collect());
    assert_eq!(asked.len(), 2);
    assert!(asked.iter().all(|request| request.bearer.is_some() && request.body.len() == 32));
    assert_eq!(asked[0].body, asked[1].body, "a killed device asks for the same token");
    let spent: Vec<usize> = server.with(|world| world.anonymous.values().map(|(_, times)| *times).collect());
    assert_eq!(spent, [2], "one token, the same bytes twice");
    assert!(server.with(|world| world.updates.is_empty()));
    assert!(!device.has_pending() && device.ledger().totals().updates == 1);
}

#[test]
fn rejects_a_token_of_another_key_than_the_terms() {
    let server = Server::new();
    server.ask_for_anonymous_uploads(&issuer(0, 1), issuer(0, 2));
    let (mut device, _) = device(0);
    let mut clock = NOW;
    let next = go(&mut device, &server, &mut clock);
    let NextStep::Wait(_, WaitReason::UpdateRejected { round: 0, why }) = next else { panic!("{next:?}") };
    assert!(why.contains("not made with the key"), "{why}");
    assert!(server.with(|world| world.anonymous.is_empty() && world.updates.is_empty()));
    assert!(!server.paths().iter().any(|path| path.ends_with("updates")));
}
