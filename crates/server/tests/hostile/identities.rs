//! Sealed rounds with signed identities: with false signatures, and with a device that does not confirm.

use crate::client::Answer;
use crate::messages::Phone;
use crate::scene::Host;
use serde_json::json;
use sottovoce_privacy::secagg::{
    Config, Confirmations, Device, EncryptedShares, Identity, Message as _, Neighbours, Roster, Survivors,
};
use sottovoce_privacy::{PrivacyConfig, PrivacyMechanism};
use sottovoce_protocol::codec;
use std::time::{Duration, Instant};

const DEVICES: u8 = 5;

/// A federation whose devices know each other, all selected for its only round.
struct Choir {
    host: Host,
    singers: Vec<(Phone, Device)>,
}

fn identity(place: u8) -> Identity {
    let public = |place| Identity::new(&[100 + place; 32], Roster::new()).public();
    Identity::new(&[100 + place; 32], (0..DEVICES).map(public).collect::<Roster>())
}

impl Choir {
    fn new() -> Self {
        let host = Host::new();
        let settings = json!({ "factors": 2, "triples": 4, "cohort": DEVICES, "learning_rate": 0.1,
            "seal": "secagg", "seal_identities": true });
        let more = json!({ "devices": DEVICES, "rounds": 1, "seal_step_seconds": 4, "settings": settings });
        host.create("choir", &more);
        let token = host.enrolment("choir");
        let keys = ["a", "b", "c", "d", "e"];
        let phones: Vec<Phone> = keys.iter().map(|key| host.phone("choir", &token, key)).collect();
        let mut choir = Self { host, singers: Vec::new() };
        for (phone, place) in phones.into_iter().zip(0..) {
            let (terms, seat) = choir.asked(&phone);
            let device = Device::new(terms, seat, [place; 32], Some(identity(place))).unwrap();
            choir.singers.push((phone, device));
        }
        choir
    }

    /// The round's terms and the device's seat.
    fn asked(&self, phone: &Phone) -> (Config, u32) {
        let start = Instant::now();
        let answer = loop {
            let answer = self.host.call("POST", "/v1/federations/choir/check-in", &phone.credential, b"");
            if answer.status == 200 {
                break answer;
            }
            assert!(start.elapsed() < Duration::from_secs(60), "{answer:?}");
            std::thread::sleep(Duration::from_millis(20));
        };
        let terms = codec::decode_terms(&answer.body).unwrap();
        let protection = PrivacyConfig::read(&terms.privacy).unwrap();
        let protected = PrivacyMechanism::new(&protection, &self.host.layout(phone), terms.cohort_size).unwrap();
        let model = sottovoce_device::Digest::from_hex(answer.header("sottovoce-model-digest").unwrap()).unwrap();
        let masks = protection.secagg_config(&terms, model.bytes(), protected.unwrap().quantizer().length()).unwrap();
        assert!(masks.signed);
        (masks, answer.header("sottovoce-seat").unwrap().parse().unwrap())
    }

    fn say(&self, place: usize, body: &[u8]) -> Answer {
        let path = "/v1/federations/choir/rounds/0/seal";
        self.host.call("POST", path, &self.singers[place].0.credential, body)
    }

    /// The message of the next step for a device; waits for it.
    fn hear(&self, place: usize) -> Vec<u8> {
        let start = Instant::now();
        loop {
            let path = "/v1/federations/choir/rounds/0/seal";
            let answer = self.host.call("GET", path, &self.singers[place].0.credential, b"");
            if answer.status == 200 {
                return answer.body;
            }
            assert_eq!(answer.status, 204, "{answer:?}");
            assert!(start.elapsed() < Duration::from_secs(60), "nothing to hear");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// One step of these devices: each answers the message it receives.
    fn step(&mut self, who: &[usize], mut make: impl FnMut(&mut Device, &[u8]) -> Vec<u8>) {
        for &place in who {
            let down = self.hear(place);
            let up = make(&mut self.singers[place].1, &down);
            assert_eq!(self.say(place, &up).status, 204);
        }
    }

    fn refuses(&self, place: usize, body: &[u8], why: &str) {
        let answer = self.say(place, body);
        let detail = answer.json()["detail"].as_str().unwrap_or_default().to_owned();
        assert_eq!((answer.status, answer.code().as_str()), (422, "malformed"), "{detail}");
        assert!(detail.contains(why), "{detail}");
    }
}

#[test]
fn rejects_false_signatures_and_continues_without_confirmation() {
    let mut choir = Choir::new();
    let all: Vec<usize> = (0..usize::from(DEVICES)).collect();
    let mut forged = choir.singers[0].1.advertise();
    forged.keys.encryption[3] ^= 1;
    choir.refuses(0, &forged.encode(), "its identity did not sign its keys");
    forged.keys.signed = None;
    choir.refuses(0, &forged.encode(), "or the reverse");
    for &place in &all {
        assert_eq!(choir.say(place, &choir.singers[place].1.advertise().encode()).status, 204);
    }
    choir.step(&all, |device, down| device.share(&Neighbours::decode(down).unwrap()).unwrap().encode());
    for &place in &all {
        let down = EncryptedShares::decode(&choir.hear(place)).unwrap();
        let (phone, device) = &mut choir.singers[place];
        let zeros = vec![0; device.config().length as usize];
        let masked = device.mask(&down, &zeros).unwrap().encode();
        let path = "/v1/federations/choir/rounds/0/updates";
        assert_eq!(choir.host.call("POST", path, &phone.credential, &masked).status, 201);
    }
    let down = Survivors::decode(&choir.hear(1)).unwrap();
    let mut confirm = choir.singers[1].1.confirm(&down).unwrap();
    confirm.signatures[0].1[9] ^= 1;
    choir.refuses(1, &confirm.encode(), "its identity did not sign its confirmations");
    confirm.signatures.pop();
    choir.refuses(1, &confirm.encode(), "are not those of the expected devices");
    choir.step(&all[..4], |device, down| device.confirm(&Survivors::decode(down).unwrap()).unwrap().encode());
    choir.step(&all[..4], |device, down| {
        device.unmask_confirmed(&Confirmations::decode(down).unwrap()).unwrap().encode()
    });
    choir.host.wait_for("choir", "finished");
    let id = choir.host.server.federation("choir").unwrap().id;
    let rounds = choir.host.storage.rounds(id, None, 9).unwrap();
    // The update of the device that did not confirm is in the sum.
    assert_eq!((rounds.len(), rounds[0].counted, rounds[0].version), (1, 5, Some(1)));
}

#[test]
fn rejects_settings_that_cannot_be_met() {
    let host = Host::new();
    let cases = [
        (json!({ "seal_identities": true }), 10, "expected seal = secagg"),
        (json!({ "seal_identities": true, "seal": "secagg", "cohort": 1000 }), 1000, "against a malicious server"),
    ];
    for (settings, devices, why) in cases {
        let body = json!({ "name": "wrong", "catalog": crate::scene::catalog(3), "model": "fcf",
            "devices": devices, "settings": settings });
        let answer = host.call("POST", "/v1/operator/federations", &host.admin, body.to_string().as_bytes());
        let detail = answer.json()["detail"].as_str().unwrap_or_default().to_owned();
        assert_eq!((answer.status, answer.code().as_str()), (422, "wrong-config"), "{detail}");
        assert!(detail.contains(why), "{detail}");
    }
}
