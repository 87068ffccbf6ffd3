//! Sealed rounds over HTTP, in which some devices lie.

use crate::client::Answer;
use crate::messages::Phone;
use crate::scene::Host;
use serde_json::{Value, json};
use sottovoce_privacy::secagg::{
    Advertise, Device, EncryptedShares, Message as _, Neighbours, RevealedShare, Shares, Survivors,
};
use sottovoce_privacy::{PrivacyConfig, PrivacyMechanism};
use sottovoce_protocol::codec;
use std::time::{Duration, Instant};

const NAME: &str = "choir";

/// What liars do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lie {
    /// Nothing at all.
    Silence,
    /// So many boxes that do not open.
    Boxes(usize),
    /// A false share of every secret.
    Shares,
    /// That nobody's box opens.
    Complaints,
}

/// A federation with sealed rounds, all of whose devices are asked.
pub(crate) struct Sealed {
    pub(crate) host: Host,
    phones: Vec<Phone>,
    round: u64,
    /// Devices that are not asked any more.
    left: Vec<usize>,
    devices: Vec<Option<Device>>,
}

impl Sealed {
    pub(crate) fn new(devices: usize, rounds: u64) -> Self {
        let host = Host::new();
        let settings = json!({ "factors": 2, "triples": 4, "cohort": devices, "learning_rate": 0.1, "seal": "secagg",
            "deadline": 20.0 });
        host.create(
            NAME,
            &json!({ "devices": devices, "minimum": 1, "rounds": rounds, "seal_step_seconds": 3, "settings": settings }),
        );
        let token = host.enrolment(NAME);
        let phones: Vec<Phone> = (0..devices).map(|place| host.phone(NAME, &token, &format!("{place}"))).collect();
        let mut sealed = Self { host, phones, round: 0, left: Vec::new(), devices: Vec::new() };
        sealed.begin();
        sealed
    }

    fn active(&self) -> Vec<usize> {
        (0..self.phones.len()).filter(|place| !self.left.contains(place)).collect()
    }

    /// Every device takes its seat in the round.
    fn begin(&mut self) {
        let device = |place: usize| (!self.left.contains(&place)).then(|| self.seat(place));
        self.devices = (0..self.phones.len()).map(device).collect();
    }

    fn seat(&self, place: usize) -> Device {
        let (phone, start) = (&self.phones[place], Instant::now());
        loop {
            let path = format!("/v1/federations/{NAME}/check-in");
            let answer = self.host.call("POST", &path, &phone.credential, b"");
            let terms = (answer.status == 200).then(|| codec::decode_terms(&answer.body).unwrap());
            if let Some(terms) = terms.filter(|terms| terms.round.0 == self.round) {
                let protection = PrivacyConfig::read(&terms.privacy).unwrap();
                let layout = self.host.layout(phone);
                let protected = PrivacyMechanism::new(&protection, &layout, terms.cohort_size).unwrap().unwrap();
                let model =
                    answer.header("sottovoce-model-digest").and_then(sottovoce_device::Digest::from_hex).unwrap();
                let length = protected.quantizer().length();
                let config = protection.secagg_config(&terms, model.bytes(), length).unwrap();
                let seat = answer.header("sottovoce-seat").unwrap().parse().unwrap();
                return Device::new(config, seat, [place as u8 + 1; 32], None).unwrap();
            }
            assert!(start.elapsed() < Duration::from_secs(60), "device {place} is not asked: {answer:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn number(&self, place: usize) -> u32 {
        self.phones[place].number
    }

    /// A device is not asked any more.
    pub(crate) fn leave(&mut self, place: usize) {
        self.left.push(place);
    }

    pub(crate) fn advertise(&self, place: usize) -> Advertise {
        self.devices[place].as_ref().unwrap().advertise()
    }

    pub(crate) fn say(&self, place: usize, body: &[u8]) -> Answer {
        let path = format!("/v1/federations/{NAME}/rounds/{}/seal", self.round);
        self.host.call("POST", &path, &self.phones[place].credential, body)
    }

    /// The message of the next step for a device; waits for it.
    fn hear(&self, place: usize) -> Vec<u8> {
        let (start, path) = (Instant::now(), format!("/v1/federations/{NAME}/rounds/{}/seal", self.round));
        loop {
            let answer = self.host.call("GET", &path, &self.phones[place].credential, b"");
            if answer.status == 200 {
                return answer.body;
            }
            assert_eq!(answer.status, 204, "{answer:?}");
            assert!(start.elapsed() < Duration::from_secs(60), "nothing to hear");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn view(&self) -> Value {
        self.host.call("GET", &format!("/v1/operator/federations/{NAME}"), &self.host.admin, b"").json()
    }

    /// Holds the round, in which some lie, and takes seats in the next if there is one; returns the record.
    pub(crate) fn hold(&mut self, liars: &[usize], lie: Lie) -> Value {
        if self.devices.is_empty() {
            self.begin();
        }
        let silent = |place: &usize| matches!(lie, Lie::Silence) && liars.contains(place);
        let speaking: Vec<usize> = self.active().into_iter().filter(|place| !silent(place)).collect();
        if speaking.len() < self.active().len() {
            // Others are not kept waiting until the deadline.
            self.active().iter().filter(|place| silent(place)).for_each(|place| self.decline(*place));
        }
        for &place in &speaking {
            assert_eq!(self.say(place, &self.advertise(place).encode()).status, 204);
        }
        for &place in &speaking {
            let down = Neighbours::decode(&self.hear(place)).unwrap();
            let mut shares = self.device(place).share(&down).unwrap();
            if let (true, Lie::Boxes(count)) = (liars.contains(&place), lie) {
                shares.encrypted.iter_mut().take(count).for_each(|(_, sent)| sent[9] ^= 1);
            }
            assert_eq!(self.say(place, &Shares::encode(&shares)).status, 204);
        }
        for &place in &speaking {
            let down = EncryptedShares::decode(&self.hear(place)).unwrap();
            let device = self.device(place);
            let zeros = vec![0; device.config().length as usize];
            let masked = device.mask(&down, &zeros).unwrap().encode();
            let path = format!("/v1/federations/{NAME}/rounds/{}/updates", self.round);
            assert_eq!(self.host.call("POST", &path, &self.phones[place].credential, &masked).status, 201);
        }
        for &place in &speaking {
            let down = Survivors::decode(&self.hear(place)).unwrap();
            let mut unmask = self.device(place).unmask(&down).unwrap();
            match lie {
                Lie::Shares if liars.contains(&place) => unmask.shares.iter_mut().for_each(|(_, revealed)| {
                    let (RevealedShare::SelfMask(share) | RevealedShare::MaskKey(share)) = revealed;
                    share[0] ^= 1;
                }),
                Lie::Complaints if liars.contains(&place) => unmask.shares.clear(),
                _ => (),
            }
            assert_eq!(self.say(place, &unmask.encode()).status, 204);
        }
        self.end()
    }

    fn device(&mut self, place: usize) -> &mut Device {
        self.devices[place].as_mut().unwrap()
    }

    fn decline(&self, place: usize) {
        let federation = self.host.server.federation(NAME).unwrap().id;
        let no = crate::messages::refusal(federation, self.round);
        let path = format!("/v1/federations/{NAME}/rounds/{}/refusal", self.round);
        assert_eq!(self.host.call("POST", &path, &self.phones[place].credential, &no).status, 204);
    }

    fn end(&mut self) -> Value {
        let start = Instant::now();
        let path = format!("/v1/operator/federations/{NAME}/rounds");
        let record = loop {
            let rounds = self.host.call("GET", &path, &self.host.admin, b"").json();
            let found = rounds["rounds"].as_array().unwrap().iter().find(|record| record["round"] == self.round);
            if let Some(found) = found {
                break found.clone();
            }
            assert!(start.elapsed() < Duration::from_secs(60), "round {} does not end", self.round);
            std::thread::sleep(Duration::from_millis(10));
        };
        self.round += 1;
        self.devices.clear();
        record
    }
}
