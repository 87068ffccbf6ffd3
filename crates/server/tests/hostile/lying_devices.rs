//! Devices that lie or break, one named way each: the round goes on without what they sent, and who repeats it is asked
//! no more.

use crate::client::{Answer, send};
use crate::messages::{self, Phone};
use crate::scene::{Host, long_key};
use crate::sealed::{Lie, Sealed};
use crate::table::wire;
use serde_json::{Value, json};
use sottovoce_privacy::secagg::Message as _;
use std::time::{Duration, Instant};

/// A federation that five devices and more train, the first of which may lie.
fn open_round(settings: &Value, devices: usize) -> (Host, Vec<Phone>) {
    let host = Host::new();
    let mut all = json!({ "factors": 2, "triples": 4, "cohort": devices, "learning_rate": 0.1 });
    for (key, value) in settings.as_object().unwrap() {
        all[key] = value.clone();
    }
    host.create("films", &json!({ "devices": 4, "rounds": 20, "minimum": 1, "norm_bound": 10.0, "settings": all }));
    let token = host.enrolment("films");
    let phones = (0..devices).map(|place| host.phone("films", &token, &format!("{place}"))).collect();
    (host, phones)
}

/// Sends an update of a phone.
fn upload(host: &Host, phone: &Phone, round: u64, bytes: &[u8]) -> Answer {
    let path = format!("/v1/federations/films/rounds/{round}/updates");
    host.call("POST", &path, &phone.credential, bytes)
}

/// All that are asked into a round answer it: the first perhaps with a row of these values, the others with the truth.
/// Returns the round's record.
fn hold(host: &Host, phones: &[Phone], round: u64, lie: Option<f32>) -> Value {
    for (place, phone) in phones.iter().enumerate() {
        let Some(terms) = host.terms(phone).filter(|terms| terms.round.0 == round) else { continue };
        let layout = host.layout(phone);
        let bytes = match lie.filter(|_| place == 0) {
            Some(value) => messages::with_value(&layout, &terms, value),
            None => messages::honest(&layout, &terms),
        };
        let answer = upload(host, phone, round, &bytes);
        assert_eq!(answer.status, 201, "{answer:?}");
    }
    record(host, "films", round)
}

/// The record of a round; waits for its end.
fn record(host: &Host, federation: &str, round: u64) -> Value {
    let path = format!("/v1/operator/federations/{federation}/rounds?limit=1000");
    let start = Instant::now();
    loop {
        let rounds = host.call("GET", &path, &host.admin, b"").json();
        let found = rounds["rounds"].as_array().unwrap().iter().find(|record| record["round"] == round).cloned();
        if let Some(found) = found {
            return found;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "round {round} does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn view(host: &Host, federation: &str) -> Value {
    host.call("GET", &format!("/v1/operator/federations/{federation}"), &host.admin, b"").json()
}

/// The largest value of the current model.
fn largest_value(host: &Host) -> f32 {
    let version = view(host, "films")["version"].as_u64().unwrap();
    let model = host.call("GET", &format!("/v1/federations/films/models/{version}"), "", b"").body;
    let model = sottovoce_protocol::codec::decode_model(&model).unwrap();
    let values = model.parameters.tables().iter().flat_map(|table| table.values().to_vec());
    values.map(f32::abs).fold(0.0, f32::max)
}

#[test]
fn rows_of_3e38_do_not_reach_the_model_and_their_sender_is_quarantined() {
    let (host, phones) = open_round(&json!({ "deadline": 60.0 }), 4);
    for round in 0..3 {
        let closed = hold(&host, &phones, round, Some(3e38));
        assert_eq!((&closed["counted"], &closed["version"]), (&json!(3), &json!(round + 1)), "{closed}");
        assert_eq!(closed["remark"], "norm bound: 0 updates clipped, 1 left out");
    }
    assert!(largest_value(&host) < 10.0);
    let seen = view(&host, "films");
    assert_eq!(seen["state"], "running");
    let quarantined = seen["quarantined"][0].clone();
    assert_eq!(quarantined["device"], phones[0].number);
    let reason = quarantined["reason"].as_str().unwrap();
    assert_eq!(reason, "rows far beyond those of the other devices, in 3 rounds in a row");
    // Durable, said to the device, and an operator's to lift.
    let stored = host.storage.load().unwrap();
    assert_eq!(stored.devices[phones[0].number as usize].quarantine.as_deref(), Some(reason));
    let told = host.call("POST", "/v1/federations/films/check-in", &phones[0].credential, b"");
    assert_eq!((told.status, told.header("sottovoce-state")), (204, Some("quarantined")));
    let path = format!("/v1/operator/federations/films/quarantine/{}", phones[0].number);
    assert_eq!(host.call("DELETE", &path, &host.admin, b"").status, 204);
    assert_eq!(host.call("DELETE", &path, &host.admin, b"").status, 404);
    assert_eq!(view(&host, "films")["quarantined"], json!([]));
}

#[test]
fn rows_beyond_the_bound_are_clipped_and_do_no_more_than_the_bound_allows() {
    let (host, phones) = open_round(&json!({ "deadline": 60.0 }), 4);
    let closed = hold(&host, &phones, 0, Some(9.0));
    assert_eq!(
        (&closed["counted"], &closed["remark"]),
        (&json!(4), &json!("norm bound: 1 updates clipped, 0 left out"))
    );
    assert_eq!(view(&host, "films")["quarantined"], json!([]));
}

#[test]
fn a_federation_of_one_device_survives_what_its_model_cannot_hold() {
    let (host, phones) = open_round(&json!({}), 4);
    // Only the liar answers: what it sends is bounded by the model alone.
    let terms = host.terms(&phones[0]).unwrap();
    let far = messages::with_value(&host.layout(&phones[0]), &terms, 3e38);
    assert_eq!(upload(&host, &phones[0], 0, &far).status, 201);
    for phone in &phones[1..] {
        let no = messages::refusal(terms.federation.0, 0);
        let path = "/v1/federations/films/rounds/0/refusal";
        assert_eq!(host.call("POST", path, &phone.credential, &no).status, 204);
    }
    let closed = record(&host, "films", 0);
    assert_eq!((&closed["version"], &closed["counted"]), (&Value::Null, &json!(0)), "{closed}");
    assert!(closed["remark"].as_str().unwrap().starts_with("too few updates came within the bound"), "{closed}");
    assert_eq!(view(&host, "films")["state"], "running");
}

#[test]
fn a_device_that_sends_nan_again_and_again_is_quarantined_and_nobody_waits_for_it() {
    let (host, phones) = open_round(&json!({}), 4);
    for round in 0..3 {
        let terms = host.terms(&phones[0]).unwrap();
        assert_eq!(terms.round.0, round);
        let bytes = messages::with_bits(&host.layout(&phones[0]), &terms, f32::NAN.to_bits());
        assert_eq!(upload(&host, &phones[0], round, &bytes).code(), "not-finite");
        // Twice in a round is one offence; with the third nobody waits for it any more.
        let again = if round < 2 { "not-finite" } else { "duplicate" };
        assert_eq!(upload(&host, &phones[0], round, &bytes).code(), again);
        let path = format!("/v1/federations/films/rounds/{round}/refusal");
        let no = messages::refusal(terms.federation.0, round);
        assert_eq!(host.call("POST", &path, &phones[0].credential, &no).status, 204);
        let closed = hold(&host, &phones[1..], round, None);
        assert_eq!((&closed["counted"], &closed["version"]), (&json!(3), &json!(round + 1)), "{closed}");
    }
    let reason = view(&host, "films")["quarantined"][0]["reason"].clone();
    assert_eq!(reason, "its updates or messages are refused: not-finite, in 3 rounds in a row");
}

#[test]
fn keys_of_small_order_are_refused_at_the_door_and_the_round_goes_on() {
    let mut choir = Sealed::new(6, 2);
    for place in 0..6 {
        let mut low = choir.advertise(place);
        low.keys.encryption = [0; 32];
        if place == 2 {
            let answer = choir.say(place, &low.encode());
            assert_eq!((answer.status, answer.code().as_str()), (422, "malformed"));
            assert!(answer.json()["detail"].as_str().unwrap().contains("small order"), "{answer:?}");
        }
    }
    // The liar has nothing else to say and drops out.
    let closed = choir.hold(&[2], Lie::Silence);
    assert_eq!((&closed["counted"], &closed["version"]), (&json!(5), &json!(1)), "{closed}");
}

#[test]
fn a_bad_box_costs_its_sender_and_not_the_round() {
    let mut choir = Sealed::new(8, 2);
    let closed = choir.hold(&[3], Lie::Boxes(1));
    assert_eq!((&closed["counted"], &closed["version"]), (&json!(8), &json!(1)), "{closed}");
    assert_eq!(choir.view()["quarantined"], json!([]));
}

#[test]
fn a_sender_of_nothing_but_bad_boxes_is_excluded_and_the_next_round_succeeds() {
    let mut choir = Sealed::new(8, 2);
    let closed = choir.hold(&[3], Lie::Boxes(7));
    assert_eq!(closed["version"], Value::Null, "{closed}");
    assert!(closed["remark"].as_str().unwrap().contains("of client"), "{closed}");
    let quarantined = choir.view()["quarantined"].clone();
    assert_eq!(quarantined[0]["device"], choir.number(3));
    let reason = quarantined[0]["reason"].as_str().unwrap();
    assert_eq!(reason, "its shares do not reconstruct its secret, and the round was lost");
    choir.leave(3);
    let closed = choir.hold(&[], Lie::Silence);
    assert_eq!((&closed["counted"], &closed["version"]), (&json!(7), &json!(1)), "{closed}");
}

#[test]
fn who_complains_falsely_removes_nobody() {
    let mut choir = Sealed::new(8, 3);
    for round in 0..3 {
        let closed = choir.hold(&[0], Lie::Complaints);
        assert_eq!((&closed["counted"], &closed["version"]), (&json!(8), &json!(round + 1)), "{closed}");
    }
    let quarantined = choir.view()["quarantined"].clone();
    assert_eq!(quarantined.as_array().unwrap().len(), 1, "{quarantined}");
    assert_eq!(quarantined[0]["device"], choir.number(0));
}

#[test]
fn false_shares_are_corrected_and_the_sum_is_opened() {
    let mut choir = Sealed::new(12, 1);
    let closed = choir.hold(&[0], Lie::Shares);
    assert_eq!((&closed["counted"], &closed["version"]), (&json!(12), &json!(1)), "{closed}");
}

#[test]
fn junk_in_seal_messages_is_not_stored() {
    let choir = Sealed::new(6, 1);
    let stored = || choir.host.storage.load().unwrap().rounds[0].messages.len();
    let answer = choir.say(1, &[7; 900_000]);
    assert_eq!((answer.status, answer.code().as_str()), (413, "too-large"));
    for junk in [&b"junk"[..], &[0; 180], &choir.advertise(2).encode()] {
        assert_eq!(choir.say(1, junk).code(), "malformed");
    }
    assert_eq!(stored(), 0);
    assert_eq!(choir.say(1, &choir.advertise(1).encode()).status, 204);
    assert_eq!(stored(), 1);
}

#[test]
fn a_draw_that_is_too_small_is_skipped_recorded_and_the_next_is_another() {
    let host = Host::new();
    let settings = json!({ "factors": 2, "triples": 4, "cohort": 3, "learning_rate": 0.1, "deadline": 0.05,
        "noise": "central", "clip": 1.0 });
    host.create("few", &json!({ "devices": 20, "rounds": 500, "minimum": 3, "settings": settings }));
    let token = host.enrolment("few");
    (0..20).for_each(|place| drop(host.phone("few", &token, &format!("{place}"))));
    let start = Instant::now();
    let skipped = loop {
        let rounds = host.call("GET", "/v1/operator/federations/few/rounds?limit=1000", &host.admin, b"").json();
        let all = rounds["rounds"].as_array().unwrap().clone();
        let small = |record: &&Value| record["remark"].as_str().unwrap().contains("too small");
        // Another was drawn after it.
        let newest = all.first().map_or(0, |record| record["round"].as_u64().unwrap());
        let found = all.iter().find(small).filter(|record| record["round"].as_u64().unwrap() < newest);
        if let Some(found) = found {
            break found.clone();
        }
        assert!(start.elapsed() < Duration::from_secs(60), "no draw was too small: {all:?}");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(skipped["asked"] == 0 && skipped["version"] == Value::Null, "{skipped}");
}

#[test]
fn a_guessed_key_does_not_take_a_credential_over() {
    let host = Host::new();
    host.create("films", &json!({}));
    let token = host.enrolment("films");
    let path = "/v1/federations/films/devices";
    let enrol = |key: &str| send(host.at, &wire("POST", path, &token, key, b""));
    assert_eq!((enrol("1").status, enrol("device-0001").status), (400, 400));
    let key = long_key("guessed");
    let first = enrol(&key);
    // The answer was lost: the same again.
    assert_eq!((first.status, enrol(&key).body), (201, first.body.clone()));
    let credential = first.json()["credential"].as_str().unwrap().to_owned();
    assert!(host.call("POST", "/v1/federations/films/check-in", &credential, b"").status < 300);
    let other = enrol(&key);
    assert_eq!((other.status, other.code().as_str()), (409, "key-used"));
}

/// A revoked device is a new one with an enrolment token that is open: operators see which are, and can close them.
#[test]
fn a_revoked_device_comes_back_only_with_a_token_that_is_still_open() {
    let host = Host::new();
    host.create("films", &json!({}));
    let films = "/v1/operator/federations/films";
    let tokens = format!("{films}/enrolment-tokens");
    let once = host.call("POST", &tokens, &host.admin, br#"{"uses":1}"#).json()["token"].as_str().unwrap().to_owned();
    let open = host.enrolment("films");
    let liar = host.phone("films", &once, "a");
    let revoke = |number: u32| host.call("DELETE", &format!("{films}/devices/{number}"), &host.admin, b"").status;
    let check_in = |phone: &Phone| host.call("POST", "/v1/federations/films/check-in", &phone.credential, b"").status;
    let enrol = |token: &str, key: &str| {
        let path = "/v1/federations/films/devices";
        send(host.at, &wire("POST", path, token, &long_key(key), b"")).status
    };
    assert!(revoke(liar.number) < 300);
    assert_eq!((check_in(&liar), enrol(&once, "b")), (403, 403));
    // With the other it is somebody new, until that token is closed too.
    let again = host.phone("films", &open, "c");
    assert_ne!(again.number, liar.number);
    assert!(check_in(&again) < 300 && revoke(again.number) < 300);
    let listed = host.call("GET", &tokens, &host.admin, b"").json();
    let unlimited: Vec<u64> = listed["tokens"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|token| token["uses"].is_null())
        .map(|token| token["id"].as_u64().unwrap())
        .collect();
    assert_eq!(unlimited.len(), 1, "{listed}");
    assert!(host.call("DELETE", &format!("{tokens}/{}", unlimited[0]), &host.admin, b"").status < 300);
    assert_eq!(enrol(&open, "d"), 401);
}
