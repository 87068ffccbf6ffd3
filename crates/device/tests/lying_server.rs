//! A lying server learns nothing: the device declines, and its private model and its ledger stay as they are.

mod common;

use common::{Server, World, device};
use sottovoce_device::{Device, NextStep, Request, Response, Transport, TransportError, WaitReason};
use sottovoce_privacy::quantize::RowLayout;
use sottovoce_privacy::{PrivacyConfig, Quantization, Seal};
use sottovoce_protocol::{FederationId, ModelVersion, Refusal, RoundId, SharedModel};
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
