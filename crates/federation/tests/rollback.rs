//! A coordinator that returns to an earlier version.

mod common;

use common::{Given, builder, word};
use sottovoce_federation::{Coordinator, DownloadMessage};
use sottovoce_models::settings::Value;
use sottovoce_protocol::ModelVersion;

fn coordinator(more: &[Given]) -> Coordinator {
    let mut settings =
        vec![("factors", Value::Integer(2)), ("triples", Value::Integer(2)), ("cohort", Value::Integer(2))];
    settings.extend_from_slice(more);
    let mut coordinator = builder(4, 6, 3).build("fpl", settings).unwrap().coordinator;
    coordinator.ask_among(vec![0, 1, 2, 3]);
    coordinator
}

/// A round without updates; noise alone moves the model, where there is any.
fn round(coordinator: &mut Coordinator) {
    let (round, mut aggregate) = (coordinator.round(), coordinator.empty_aggregate());
    coordinator.apply(round, &mut aggregate).unwrap();
    coordinator.skip();
}

fn memory(coordinator: &Coordinator) -> Vec<u8> {
    let mut memory = Vec::new();
    coordinator.save_memory(&mut memory).unwrap();
    memory
}

#[test]
fn rollback_restores_the_model_and_not_the_privacy_budget() {
    let mut coordinator =
        coordinator(&[("noise", word("central")), ("clip", Value::Real(1.0)), ("sampling", word("fixed"))]);
    round(&mut coordinator);
    let (first, saved) = (coordinator.shared().parameters.clone(), memory(&coordinator));
    let before = coordinator.privacy_spent().unwrap();
    round(&mut coordinator);
    round(&mut coordinator);
    assert_ne!(coordinator.shared().parameters, first, "noise moved it");
    let spent = coordinator.privacy_spent().unwrap();
    assert!(spent.epsilon > before.epsilon && spent.rounds == 3);
    let next = coordinator.round();
    coordinator.go_back(ModelVersion(4), first.clone(), &mut &saved[..]).unwrap();
    assert_eq!((coordinator.shared().version, &coordinator.shared().parameters), (ModelVersion(4), &first));
    assert_eq!(coordinator.privacy_spent().unwrap(), spent);
    assert_eq!(coordinator.round(), next, "round numbers continue, so that noise and cohorts are new");
    round(&mut coordinator);
    assert_eq!(
        (coordinator.shared().version, coordinator.privacy_spent().unwrap().rounds),
        (ModelVersion(5), 4)
    );
}

#[test]
fn after_a_rollback_devices_download_the_whole_model() {
    let mut coordinator = coordinator(&[("differences", Value::Switch(true))]);
    let (start, saved) = (coordinator.shared().parameters.clone(), memory(&coordinator));
    round(&mut coordinator);
    round(&mut coordinator);
    coordinator.go_back(ModelVersion(3), start, &mut &saved[..]).unwrap();
    for held in 0..3 {
        let message = coordinator.offer().message(Some(ModelVersion(held))).unwrap();
        assert!(matches!(message, DownloadMessage::Whole), "from version {held}");
    }
    round(&mut coordinator);
    let message = coordinator.offer().message(Some(ModelVersion(3))).unwrap();
    assert!(matches!(message, DownloadMessage::Difference(_)));
}
