//! Whoever enrols late gets the current model, fits its private part, and recommends; nothing leaves.

use crate::scene::{Town, config, fpl, history, of_kind, options};
use serde_json::json;
use sottovoce_device::{Device, DeviceError, NextStep, WaitReason};
use sottovoce_server::federation::FederationConfig;

fn finished(next: &NextStep) -> bool {
    matches!(next, NextStep::Wait(_, WaitReason::NoRound { state }) if state == "finished")
}

/// Trains to the end with some people, and has two more enrol after that.
fn trained(config: FederationConfig) -> (Town, Vec<Device>, [Device; 2], tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let town = Town::open(folder.path());
    let count = config.devices;
    town.create(config);
    let mut people = town.people(count);
    town.until("training ends", &mut people, |federation| federation.public().state == "finished");
    let late = [0, 1].map(|kind| town.device(90 + kind, &history(kind, 90 + kind)[..5], options(true)));
    (town, people, late, folder)
}

#[test]
fn after_the_last_round_of_fpl_a_device_fits_its_vector_and_recommends() {
    let (town, mut people, mut late, _folder) = trained(fpl(8, 25));
    for (kind, device) in (0..).zip(&mut late) {
        assert!(matches!(device.recommend(5), Err(DeviceError::NoModel)));
        assert!(finished(&town.step(device)));
        assert_eq!((device.fitted_version(), device.private()), (Some(25), None));
        let (found, ledger) = (of_kind(device, kind, 6), device.ledger().totals());
        assert_eq!(ledger.updates, 0, "nothing left");
        assert!(found >= 5, "{found} of the 6 best are of the owner's kind");
        // The same again, and no request more than the check-in.
        let before = device.recommend(6).unwrap();
        assert!(finished(&town.step(device)));
        assert_eq!(device.recommend(6).unwrap(), before);
    }
    // A change of history counts at once.
    let other: Vec<String> = (0..12).map(|item| format!("1-{item}")).collect();
    assert!(late[0].import(other.iter().take(9).map(|id| (id.as_str(), None))).unwrap().adapted);
    // Whoever was there all the time goes on as before: the last model, and the vector of the rounds.
    assert!(finished(&town.step(&mut people[0])));
    assert_eq!(people[0].fitted_version(), None);
    town.stop();
}

#[test]
fn a_model_without_a_private_part_recommends_at_once() {
    let settings = json!({"network": "gru4rec", "hidden": 4, "layers": 1, "max_length": 8, "cohort": 4});
    let (town, mut people, mut late, _folder) = trained(config("fed-sequential", &settings, 4, 3));
    for device in &mut late {
        assert!(finished(&town.step(device)));
        assert_eq!((device.fitted_version(), device.ledger().totals().updates), (Some(3), 0));
    }
    // Somebody with the same history who took part in each round has the same list.
    assert!(finished(&town.step(&mut people[0])));
    let mut same = town.device(50, &history(0, 0), options(true));
    assert!(finished(&town.step(&mut same)));
    let mut other = town.device(51, &history(0, 0), options(true));
    assert!(finished(&town.step(&mut other)));
    assert_eq!(same.recommend(9).unwrap(), other.recommend(9).unwrap());
    town.stop();
}

#[test]
fn a_private_network_is_fitted() {
    let settings = json!({"dim": 4, "window": 8, "codes": 4, "decoder_units": 8, "local_epochs": 1,
        "recommender_epochs": 2, "recommender_units": 4, "cohort": 4});
    let (town, _people, mut late, _folder) = trained(config("refrs", &settings, 4, 2));
    for device in &mut late {
        assert!(finished(&town.step(device)));
        assert_eq!((device.fitted_version(), device.ledger().totals().updates), (Some(2), 0));
        let list = device.recommend(4).unwrap().items;
        assert!(list.len() == 4 && list.iter().any(|item| item.score != list[0].score), "{list:?}");
    }
    town.stop();
}

/// In the middle of training a device recommends before it is asked, and takes part when it is. What it sends is what
/// it would have sent without: the shared model comes out the same.
#[test]
fn in_mid_training_a_device_recommends_and_then_takes_part() {
    let digests = [true, false].map(|recommends| {
        let folder = tempfile::tempdir().unwrap();
        let town = Town::open(folder.path());
        town.create(fpl(4, 6));
        let mut people = town.people(4);
        town.hold(&mut people, 2);
        let mut late = town.device(90, &history(1, 90), options(recommends));
        let next = town.step(&mut late);
        assert!(matches!(&next, NextStep::Wait(_, WaitReason::NoRound { state }) if state == "waiting"), "{next:?}");
        assert_eq!(late.fitted_version(), recommends.then_some(2));
        assert_eq!(late.recommend(3).is_ok(), recommends);
        assert_eq!((late.last_round(), late.ledger().totals().updates), (None, 0));
        people.push(late);
        town.until("training ends", &mut people, |federation| federation.public().state == "finished");
        let late = people.last().unwrap();
        assert_eq!((late.last_round(), late.ledger().totals().updates), (Some(5), 3));
        assert!(late.private().is_some());
        let digest = town.federation().public().digest;
        town.stop();
        digest
    });
    assert_eq!(digests[0], digests[1]);
}
