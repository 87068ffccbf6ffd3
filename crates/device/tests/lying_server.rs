//! A lying server learns nothing: the device declines, and its private model and its ledger stay as they are.

mod common;

use common::{Server, SharedStore, World, device, enrolment, options};
use sottovoce_device::{Device, History, NextStep, Request, Response, Transport, TransportError, WaitReason};
use sottovoce_privacy::quantize::RowLayout;
use sottovoce_privacy::tokens::{Issuer, Scope};
use sottovoce_privacy::{
    ENCRYPTION, Noise, Placement, PrivacyConfig, Quantization, Scheme, Seal, anonymous_layer, commitment, key_digest,
};
use sottovoce_protocol::{
    FederationId, ModelVersion, Policy, PrivacyTerms, Refusal, RoundId, RoundTerms, SealedDisclosure, SharedModel,
};
use std::sync::Arc;
use std::time::Duration;

const NOW: Duration = Duration::from_secs(1_000_000);

/// Takes part in an honest round first, so that there is a private model and a ledger entry.
fn trained_device(server: &Server) -> Device {
    let (mut device, _) = device(0);
    let accepted = NextStep::Wait(Duration::ZERO, WaitReason::UpdateAccepted { round: 0 });
    assert_eq!(device.step(server, NOW).unwrap(), accepted);
    server.close_round();
    server.paths();
    device
}

type Header = (&'static str, &'static str);

/// Runs the round of a lying server, which may add a header to its responses. Checks that nothing left and nothing
/// changed, and returns what the device reports.
fn lied_to(lie: impl FnOnce(&mut World), header: Option<Header>) -> WaitReason {
    let server = Server::new();
    let mut device = trained_device(&server);
    let private = device.private().unwrap().to_vec();
    let mut ledger = Vec::new();
    device.ledger().encode(&mut ledger);
    let updates = server.with(|world| {
        lie(world);
        world.updates.len()
    });
    let NextStep::Wait(_, reason) = device.step(&Adding { server: &server, header }, NOW).unwrap() else {
        panic!("a lie must not stop the device for good");
    };
    let mut after = Vec::new();
    device.ledger().encode(&mut after);
    assert_eq!(after, ledger);
    assert_eq!(device.private().unwrap(), private);
    assert!(!device.has_pending());
    assert_eq!(server.with(|world| world.updates.len()), updates);
    let paths = server.paths();
    assert!(!paths.iter().any(|path| path.ends_with("updates") || path.ends_with("seal")), "{paths:?}");
    reason
}

/// Adds a header to every response.
struct Adding<'a> {
    server: &'a Server,
    header: Option<Header>,
}

impl Transport for Adding<'_> {
    fn send(&self, request: &Request) -> Result<Response, TransportError> {
        let mut response = self.server.send(request)?;
        response.headers.extend(self.header.map(|(name, value)| (name.to_owned(), value.to_owned())));
        Ok(response)
    }
}

fn set(world: &mut World, setting: &str, value: &str) {
    world.terms.model.settings.insert(setting.to_owned(), value.to_owned());
}

#[test]
fn declines_settings_out_of_range_unknown_missing_or_not_finite() {
    type Lie = fn(&mut World);
    let cases: [(&str, Lie); 11] = [
        ("triples", |world| set(world, "triples", "100000001")),
        ("triples", |world| set(world, "triples", "-1")),
        ("factors", |world| set(world, "factors", "1000000")),
        ("learning_rate", |world| set(world, "learning_rate", "NaN")),
        ("learning_rate", |world| set(world, "learning_rate", "inf")),
        ("learning_rate", |world| set(world, "learning_rate", "1e300")),
        ("user_regularisation", |world| set(world, "user_regularisation", "-nan")),
        ("init_deviation", |world| set(world, "init_deviation", "0x1")),
        ("negatives", |world| set(world, "negatives", "history")),
        ("send_history", |world| set(world, "send_history", "true")),
        ("factors", |world| drop(world.terms.model.settings.remove("factors"))),
    ];
    for (setting, lie) in cases {
        let reason = lied_to(lie, None);
        let WaitReason::Declined { round: 1, why } = reason else { panic!("{setting}: {reason:?}") };
        assert!(why.contains(setting), "{setting}: {why}");
    }
}

#[test]
fn declines_a_model_of_another_layout() {
    let other: [fn(&mut World); 2] = [
        // More factors than the shared model has.
        |world| set(world, "factors", "5"),
        |world| {
            // A shared model with fewer rows than the catalog has items.
            let model = SharedModel::clone(world.versions.last().unwrap());
            let small = sottovoce_models::federated::fpl::Server { factors: 4, init_deviation: 0.1 };
            let rng = &mut sottovoce_core::Rng::new(1);
            let parameters = sottovoce_models::federated::ServerModel::init(&small, 3, rng).unwrap();
            *world.versions.last_mut().unwrap() = Arc::new(SharedModel { parameters, ..model });
            world.differences = false;
        },
    ];
    for lie in other {
        let reason = lied_to(lie, None);
        assert!(matches!(reason, WaitReason::Declined { round: 1, .. }), "{reason:?}");
    }
}

/// The codec carries finite values only; training must not turn the largest of them into a private model that is not
/// finite.
#[test]
fn declines_a_shared_model_that_makes_training_overflow() {
    let poison = |world: &mut World| {
        let mut model = SharedModel::clone(world.versions.last().unwrap());
        model.parameters.tables_mut()[0].values_mut().fill(f32::MAX);
        *world.versions.last_mut().unwrap() = Arc::new(model);
        world.differences = false;
    };
    let reason = lied_to(poison, None);
    let WaitReason::Declined { round: 1, why } = reason else { panic!("{reason:?}") };
    assert!(why.contains("not finite"), "{why}");
}

#[test]
fn ignores_terms_of_another_federation() {
    let reason = lied_to(|world| world.terms.federation = FederationId(10), None);
    let WaitReason::Failed { what, .. } = reason else { panic!("{reason:?}") };
    assert!(what.contains("another federation"), "{what}");
}

#[test]
fn declines_rounds_that_it_has_answered() {
    // The same round again, with other terms, would give a second update from the same random numbers.
    let reason = lied_to(
        |world| {
            world.updates.clear();
            world.terms.round = RoundId(0);
            set(world, "triples", "500");
        },
        None,
    );
    let WaitReason::Declined { round: 0, why } = reason else { panic!("{reason:?}") };
    assert!(why.contains("already"), "{why}");
}

#[test]
fn rejects_a_model_of_another_version_or_federation_under_the_promised_digest() {
    let cases: [fn(&mut SharedModel); 2] =
        [|model| model.version = ModelVersion(7), |model| model.federation = FederationId(10)];
    for change in cases {
        let reason = lied_to(
            |world| {
                let mut model = SharedModel::clone(world.versions.last().unwrap());
                change(&mut model);
                *world.versions.last_mut().unwrap() = Arc::new(model);
                world.differences = false;
            },
            None,
        );
        let WaitReason::Failed { what, .. } = reason else { panic!("{reason:?}") };
        assert!(what.contains("not the one that the round terms are for"), "{what}");
    }
}

fn seal(world: &mut World) {
    let quantization = Quantization { range: 8.0, clip: None, devices: 10, rows: RowLayout::Dense };
    let seal = Seal::SecureAggregation { dropout: 0.3, colluding: 0.1, identities: false };
    let privacy = PrivacyConfig { quantization: Some(quantization), noise: None, seal: Some(seal) };
    (world.terms.privacy, world.terms.cohort_size) = (privacy.terms(), 5);
}

#[test]
fn declines_a_client_index_outside_the_cohort() {
    for index in [None, Some("5"), Some("4294967295"), Some("-1"), Some("first")] {
        let reason = lied_to(seal, index.map(|index| ("sottovoce-seat", index)));
        assert!(matches!(reason, WaitReason::Declined { round: 1, .. }), "{index:?}: {reason:?}");
    }
}

#[test]
fn a_refusal_says_no_more_than_its_reason() {
    let server = Server::new();
    let mut device = trained_device(&server);
    server.with(|world| set(world, "learning_rate", "NaN"));
    device.step(&*server, NOW).unwrap();
    assert_eq!(server.with(|world| world.refusals.clone()), [(0, Refusal::UnknownModel("fpl".to_owned()))]);
}

/// What the device says to a round with these layers.
fn asked(device: &mut Device, server: &Server, privacy: PrivacyTerms, cohort: u32) -> WaitReason {
    server.with(|world| {
        (world.terms.privacy, world.terms.cohort_size) = (privacy, cohort);
        world.terms.round.0 += 1;
    });
    let sealed = Adding { server, header: Some(("sottovoce-seat", "0")) };
    let NextStep::Wait(_, reason) = device.step(&sealed, NOW).unwrap() else { panic!("stopped for good") };
    reason
}

fn declined(reason: &WaitReason) -> &str {
    let WaitReason::Declined { why, .. } = reason else { panic!("{reason:?}") };
    why
}

fn layers(noise: Option<Noise>, seal: Option<Seal>) -> PrivacyTerms {
    let quantization = Quantization { range: 8.0, clip: Some(1.0), devices: 100, rows: RowLayout::Dense };
    PrivacyConfig { quantization: Some(quantization), noise, seal }.terms()
}

fn masks(dropout: f64) -> Option<Seal> {
    Some(Seal::SecureAggregation { dropout, colluding: 0.1, identities: false })
}

/// A server that strikes the layers out of the terms gets nothing in the open, until the owner says so; and then
/// nothing less than what the owner agreed to.
#[test]
fn declines_terms_with_layers_struck_out() {
    let server = Server::new();
    let (mut device, store) = device(0);
    let noise = |multiplier| Some(Noise { shares: 20, ..Noise::new(Placement::Distributed, multiplier) });
    // This server cannot hold a sealed round, so the device leaves it; but it took part.
    let reason = asked(&mut device, &server, layers(noise(0.5), masks(0.3)), 30);
    assert!(matches!(reason, WaitReason::UpdateRejected { .. }), "{reason:?}");
    let mut device = Device::open(Box::new(store), options()).unwrap();
    server.paths();
    for (weaker, what) in [
        (PrivacyTerms::default(), "the seal is gone"),
        (layers(None, masks(0.3)), "the noise is gone"),
        (layers(noise(0.4), masks(0.3)), "a noise multiplier of 0.4 instead of 0.5"),
        (layers(noise(0.5), masks(0.35)), "may drop out"),
    ] {
        let reason = asked(&mut device, &server, weaker, 30);
        let why = declined(&reason);
        assert!(why.contains(what) && why.contains("--accept-weaker"), "{why}");
    }
    let paths = server.paths();
    assert!(!paths.iter().any(|path| path.ends_with("updates") || path.ends_with("seal")), "{paths:?}");
    // The owner agrees to the last of them: not to all.
    assert!(device.accept_weaker().unwrap() && !device.accept_weaker().unwrap());
    let reason = asked(&mut device, &server, PrivacyTerms::default(), 30);
    assert!(declined(&reason).contains("the seal is gone"));
    let reason = asked(&mut device, &server, layers(noise(0.5), masks(0.35)), 30);
    assert!(matches!(reason, WaitReason::UpdateRejected { .. }), "{reason:?}");
    // Open rounds, if the owner agrees to them.
    asked(&mut device, &server, PrivacyTerms::default(), 30);
    assert!(device.accept_weaker().unwrap());
    let reason = asked(&mut device, &server, PrivacyTerms::default(), 30);
    assert!(matches!(reason, WaitReason::UpdateAccepted { .. }), "{reason:?}");
}

#[test]
fn declines_thresholds_noise_and_shares_below_its_floors() {
    let noise = |multiplier, shares| Some(Noise { shares, ..Noise::new(Placement::Distributed, multiplier) });
    let cases = [
        (layers(None, masks(0.9)), "could open a single mask"),
        (layers(noise(1e-9, 20), masks(0.3)), "a noise multiplier of 0.000000001 hides nothing"),
        (layers(noise(1.0, 4_000_000_000), masks(0.3)), "noise in 4000000000 shares"),
        (layers(Some(Noise::new(Placement::Local, 1e-3)), None), "hides nothing"),
    ];
    for (privacy, what) in cases {
        let (server, (mut device, _)) = (Server::new(), device(0));
        let reason = asked(&mut device, &server, privacy, 30);
        assert!(declined(&reason).contains(what), "{reason:?}");
        assert!(!server.paths().iter().any(|path| path.contains("models") || path.ends_with("seal")));
    }
}

/// An owner who demands 40 does not take part in a round of 1,000 whose masks reach fewer: a part of it could be
/// opened.
#[test]
fn declines_graphs_smaller_than_the_owners_least_cohort() {
    let (server, (mut device, _)) = (Server::new(), device(0));
    let demand = |device: &mut Device, least| {
        device
            .set_policy(|policy| {
                policy.least_cohort = least;
                Ok(())
            })
            .unwrap();
    };
    demand(&mut device, 100);
    let reason = asked(&mut device, &server, layers(None, masks(0.3)), 100);
    assert!(declined(&reason).contains("fewer than the 100 devices that the owner demands"), "{reason:?}");
    demand(&mut device, 60);
    let reason = asked(&mut device, &server, layers(None, masks(0.3)), 100);
    assert!(matches!(reason, WaitReason::UpdateRejected { .. }), "{reason:?}");
}

/// Who opens an encrypted sum cannot see what it opens: another's ciphertext, or a crafted one that gives the key away.
/// So no device takes part, let alone opens anything, unless its owner has accepted that by name.
#[test]
fn declines_encryption_that_its_owner_has_not_accepted_by_name() {
    for scheme in [Scheme::Bfv, Scheme::Ckks] {
        let (server, key) = (Server::new(), [5; 32]);
        let mut new = enrolment(0);
        new.key = Some(key);
        let mut device = Device::enrol(Box::new(SharedStore::default()), new, options()).unwrap();
        let encrypted = || layers(None, Some(Seal::Encryption { scheme, key: key_digest(&key) }));
        let reason = asked(&mut device, &server, encrypted(), 30);
        assert!(declined(&reason).contains("--accept encryption"), "{reason:?}");
        assert!(!server.paths().iter().any(|path| path.contains("models") || path.ends_with("seal")));
        device.set_accepted(ENCRYPTION, true).unwrap();
        if cfg!(feature = "he") {
            let reason = asked(&mut device, &server, encrypted(), 30);
            assert!(!matches!(reason, WaitReason::Declined { .. }), "{reason:?}");
        }
    }
}

/// Whatever a server said when the device enrolled: in the first round it shows whether it seals, and nothing leaves in
/// the open before the owner has agreed to that.
#[test]
fn declines_open_rounds_that_its_owner_has_not_agreed_to() {
    let (server, store) = (Server::new(), SharedStore::default());
    let mut new = enrolment(0);
    new.accept.clear();
    let mut device = Device::enrol(Box::new(store.clone()), new, options()).unwrap();
    let local = || layers(Some(Noise::new(Placement::Local, 4.0)), None);
    for open in [PrivacyTerms::default(), local(), anonymous(1, 3)] {
        let reason = asked(&mut device, &server, open, 30);
        assert!(declined(&reason).contains("--accept open"), "{reason:?}");
        assert!(device.weaker_protection().is_none() && device.kept_protection().is_none());
    }
    let paths = server.paths();
    assert!(!paths.iter().any(|path| path.contains("models") || path.ends_with("updates")), "{paths:?}");
    // The word holds until it is taken back, over restarts too.
    device.set_accepted("open", true).unwrap();
    let mut device = Device::open(Box::new(store), options()).unwrap();
    let reason = asked(&mut device, &server, PrivacyTerms::default(), 30);
    assert!(matches!(reason, WaitReason::UpdateAccepted { .. }), "{reason:?}");
    device.set_accepted("open", false).unwrap();
    let reason = asked(&mut device, &server, PrivacyTerms::default(), 30);
    assert!(declined(&reason).contains("--accept open"), "{reason:?}");
}

/// A device with one pi for open rounds and a larger one for sealed ones, which has taken part in a sealed round, sends
/// in an open round what a device sends that has nothing but what open rounds disclose: a server that asks for rounds
/// of both kinds learns no more than it would from the sealed ones.
#[test]
fn an_open_round_after_a_sealed_one_says_nothing_of_what_sealed_rounds_alone_disclose() {
    let upload_of = |history: Option<History>, sealed_first: bool| {
        let (server, mut new) = (Server::new(), enrolment(0));
        new.policy = Policy::new(0.5).unwrap();
        new.policy.sealed = Some(SealedDisclosure::new(0.9, SealedDisclosure::DEFAULT_LEAST).unwrap());
        new.history = history.unwrap_or(new.history);
        let mut device = Device::enrol(Box::new(SharedStore::default()), new, options()).unwrap();
        if sealed_first {
            // This server cannot hold a sealed round; but the device trained for one, with 0.9 of its items.
            let reason = asked(&mut device, &server, layers(None, masks(0.3)), 100);
            assert!(matches!(reason, WaitReason::UpdateRejected { .. }), "{reason:?}");
            asked(&mut device, &server, PrivacyTerms::default(), 100);
            assert!(device.accept_weaker().unwrap());
        } else {
            server.with(|world| world.terms.round.0 += 2);
        }
        let reason = asked(&mut device, &server, PrivacyTerms::default(), 100);
        assert!(matches!(reason, WaitReason::UpdateAccepted { .. }), "{reason:?}");
        let upload = server.with(|world| world.updates.values().last().unwrap().1.clone());
        (upload, device)
    };
    let (upload, device) = upload_of(None, true);
    let [open, sealed] = [device.open_disclosure(), device.sealed_disclosure()].map(Option::unwrap);
    assert!(!open.is_empty() && open.len() < sealed.len(), "{open:?} {sealed:?}");
    assert!(open.iter().all(|row| sealed.contains(row)));
    let ids: Vec<String> = open.iter().map(|&row| device.items().unwrap().id(row as usize).to_owned()).collect();
    let disclosed_only = || Some(History::from_ids(ids.iter().map(String::as_str)));
    for (history, sealed_first) in [(disclosed_only(), true), (disclosed_only(), false), (None, false)] {
        assert_eq!(upload_of(history, sealed_first).0, upload, "{sealed_first}");
    }
}

/// What hides an item also forgets what was trained with it.
#[test]
fn an_upload_does_not_depend_on_an_item_hidden_since() {
    let upload_of = |without: Option<&str>| {
        let (server, mut new) = (Server::new(), enrolment(0));
        new.policy = Policy::new(1.0).unwrap();
        let ids: Vec<String> = new.history.iter().map(|(id, _)| id.to_owned()).collect();
        let (first, second) = (ids[0].clone(), ids[1].clone());
        new.history = History::from_ids(ids.iter().map(String::as_str).filter(|id| Some(*id) != without));
        let mut device = Device::enrol(Box::new(SharedStore::default()), new, options()).unwrap();
        device.hide(&first).unwrap();
        if without.is_none() {
            asked(&mut device, &server, PrivacyTerms::default(), 30);
        } else {
            server.with(|world| world.terms.round.0 += 1);
        }
        device.hide(&second).unwrap();
        asked(&mut device, &server, PrivacyTerms::default(), 30);
        (server.with(|world| world.updates.values().last().unwrap().1.clone()), second)
    };
    let (upload, second) = upload_of(None);
    assert_eq!(upload_of(Some(&second)).0, upload);
}

fn issuer(master: u8, round: u64) -> Issuer {
    Issuer::new([master; 32], Scope { federation: FederationId(9), round: RoundId(round) })
}

fn anonymous(master: u8, round: u64) -> PrivacyTerms {
    let quantization = Quantization { range: 8.0, clip: None, devices: 100, rows: RowLayout::Dense };
    let mut privacy = PrivacyConfig { quantization: Some(quantization), ..PrivacyConfig::default() }.terms();
    privacy.layers.push(anonymous_layer(&issuer(master, round)));
    privacy
}

/// A server that gives a device a key of its own could tell its tokens from those of others. Keys of all rounds follow
/// from one, which the device has kept.
#[test]
fn declines_a_token_key_that_is_not_the_federations() {
    let (server, (mut device, _)) = (Server::new(), device(0));
    server.with(|world| world.issuer = Some(issuer(1, 1)));
    let reason = asked(&mut device, &server, anonymous(1, 1), 30);
    assert!(!matches!(reason, WaitReason::Declined { .. }), "{reason:?}");
    let reason = asked(&mut device, &server, anonymous(2, 2), 30);
    assert!(declined(&reason).contains("key for tokens is another one"), "{reason:?}");
    // The key of another round, which others do not have in this one.
    let reason = asked(&mut device, &server, anonymous(1, 1), 30);
    assert!(declined(&reason).contains("derived from the federation's"), "{reason:?}");
}

/// What the federation was founded with comes with the enrolment token, from whoever gives it: a server that lies from
/// the beginning does not pass.
#[test]
fn declines_a_first_round_that_is_not_what_the_enrolment_token_says() {
    let founded = |master| {
        let draft = sottovoce_protocol::TermsDraft {
            federation: FederationId(9),
            round: RoundId(1),
            privacy: anonymous(master, 1),
            ..Default::default()
        };
        commitment(&RoundTerms::freeze(draft).unwrap()).unwrap()
    };
    for (offered, passes) in [(anonymous(1, 1), true), (anonymous(2, 1), false), (PrivacyTerms::default(), false)] {
        let server = Server::new();
        server.with(|world| world.issuer = Some(issuer(1, 1)));
        let mut new = enrolment(0);
        new.token = format!("{}.{}", new.token, founded(1));
        let mut device = Device::enrol(Box::new(SharedStore::default()), new, options()).unwrap();
        let reason = asked(&mut device, &server, offered, 30);
        assert_eq!(!matches!(reason, WaitReason::Declined { .. }), passes, "{reason:?}");
        if !passes {
            assert!(declined(&reason).contains("ask whoever gave you the token"), "{reason:?}");
        }
    }
}

/// Accounts of the server may say 1.8 where it is 9: the device counts by itself, without amplification and with the
/// noise that must be there, and stops at its owner's budget, also after a restart and in another federation.
#[test]
fn declines_rounds_past_its_owners_budget() {
    let (server, (mut device, store)) = (Server::new(), device(0));
    let local = || layers(Some(Noise::new(Placement::Local, 4.0)), None);
    device.set_epsilon_budget(Some(2.0)).unwrap();
    let mut rounds = 0;
    let reason = loop {
        let reason = asked(&mut device, &server, local(), 30);
        if matches!(reason, WaitReason::Declined { .. }) {
            break reason;
        }
        rounds += 1;
        assert!(rounds < 100);
        device = Device::open(Box::new(store.clone()), options()).unwrap();
    };
    let (spent, unbounded) = device.account();
    assert!(spent > 1.5 && spent <= 2.0 && unbounded == 0 && rounds > 1, "{spent} after {rounds} rounds");
    assert!(declined(&reason).contains("its owner's budget (--epsilon-budget) is 2"), "{reason:?}");
    // Noise that the server says it adds bounds nothing.
    let reason = asked(&mut device, &server, layers(Some(Noise::new(Placement::Central, 4.0)), None), 30);
    assert!(declined(&reason).contains("no noise of the devices"), "{reason:?}");
    // The account goes with the store, not with the federation.
    device.withdraw().unwrap();
    let mut clock = NOW * 2;
    common::go(&mut device, &server, &mut clock);
    let again = Device::enrol(Box::new(store), enrolment(0), options()).unwrap();
    assert_eq!((again.account(), again.epsilon_budget()), ((spent, 0), Some(2.0)));
}
