//! A coordinator that goes back to an earlier version.

use sottovoce_federation::{Coordinator, HostedFederation, FederationBuilder, Message, registry};
use sottovoce_models::settings::Value;
use sottovoce_protocol::{FederationId, ModelVersion};

fn coordinator(more: &[(&'static str, Value)]) -> Coordinator {
    let mut settings =
        vec![("factors", Value::Integer(2)), ("triples", Value::Integer(2)), ("cohort", Value::Integer(2))];
    settings.extend_from_slice(more);
    let hosting = FederationBuilder {
        federation: FederationId(5),
        items: 6,
        facts: None,
        devices: 4,
        seed: 3,
        samples: false,
        criteria: Vec::new(),
        rounds: None,
        noise: None,
        key_digest: None,
    };
    let HostedFederation { mut coordinator, .. } = registry::host("fpl", settings, &hosting).unwrap();
    coordinator.ask_among(vec![0, 1, 2, 3]);
    coordinator
}

/// A round in which devices propose nothing; noise alone moves the model, where there is any.
fn round(coordinator: &mut Coordinator) {
    let (round, mut aggregate) = (coordinator.round(), coordinator.aggregate());
    coordinator.apply(round, &mut aggregate).unwrap();
    coordinator.skip();
}

fn memory(coordinator: &Coordinator) -> Vec<u8> {
    let mut memory = Vec::new();
    coordinator.save_memory(&mut memory).unwrap();
    memory
}

#[test]
fn the_model_goes_back_and_what_was_spent_stays_spent() {
    let word = |text: &str| Value::Word(text.to_owned());
    let mut coordinator =
        coordinator(&[("noise", word("central")), ("clip", Value::Real(1.0)), ("sampling", word("fixed"))]);
    round(&mut coordinator);
    let (first, kept) = (coordinator.shared().parameters.clone(), memory(&coordinator));
    let before = coordinator.spent().unwrap();
    round(&mut coordinator);
    round(&mut coordinator);
    assert_ne!(coordinator.shared().parameters, first, "noise moved it");
    let spent = coordinator.spent().unwrap();
    assert!(spent.epsilon > before.epsilon && spent.rounds == 3);
    let next = coordinator.round();
    coordinator.go_back(ModelVersion(4), first.clone(), &mut &kept[..]).unwrap();
    assert_eq!((coordinator.shared().version, &coordinator.shared().parameters), (ModelVersion(4), &first));
    assert_eq!(coordinator.spent().unwrap(), spent);
    assert_eq!(coordinator.round(), next, "rounds go on counting, so that noise and cohorts are new");
    round(&mut coordinator);
    assert_eq!((coordinator.shared().version, coordinator.spent().unwrap().rounds), (ModelVersion(5), 4));
}

#[test]
fn devices_get_the_whole_model_whatever_they_hold() {
    let mut coordinator = coordinator(&[("differences", Value::Switch(true))]);
    let (start, kept) = (coordinator.shared().parameters.clone(), memory(&coordinator));
    round(&mut coordinator);
    round(&mut coordinator);
    coordinator.go_back(ModelVersion(3), start, &mut &kept[..]).unwrap();
    for held in 0..3 {
        let message = coordinator.offer().message(Some(ModelVersion(held))).unwrap();
        assert!(matches!(message, Message::Whole), "from version {held}");
    }
    round(&mut coordinator);
    let message = coordinator.offer().message(Some(ModelVersion(3))).unwrap();
    assert!(matches!(message, Message::Difference(_)));
}
