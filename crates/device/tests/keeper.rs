//! Rounds with a keeper: real devices, a real keeper, and servers that are honest and servers that are not.

mod common;

use common::{ITEMS, Server, SharedStore, World, enrolment, options};
use sottovoce_device::{Device, Digest, NextStep, Request, Response, Transport, TransportError, WaitReason};
use sottovoce_privacy::keeper::{
    Answer, Config, Entry, Fault, Keeper, KeeperSeal, MemoryRecord, OpenError, Opening, Refused, Upload, opener, unmask,
};
use sottovoce_privacy::quantize::{Packing, RowLayout, to_signed};
use sottovoce_privacy::secagg::Message as _;
use sottovoce_privacy::{PrivacyConfig, PrivacyMechanism, Quantization, Seal, commitment};
use sottovoce_protocol::{PrivacyTerms, RoundId, RoundTerms, SharedModel};
use std::sync::Arc;
use std::time::Duration;

const DEVICES: u32 = 6;
const NOW: Duration = Duration::from_secs(1_000_000);
/// What the server shows the keeper.
const SECRET: [u8; 32] = [8; 32];

fn keeper() -> Keeper {
    Keeper::new([7; 32], 0, None)
}

fn kept() -> KeeperSeal {
    KeeperSeal { key: keeper().public(), opener: opener(&SECRET), least: 4, colluding: 0.1, identities: false }
}

fn protection(seal: KeeperSeal) -> PrivacyConfig {
    let integers =
        Quantization { range: 8.0, clip: None, devices: 10, rows: RowLayout::Dense, packing: Packing::Words };
    PrivacyConfig { quantization: Some(integers), noise: None, seal: Some(Seal::Keeper(seal)) }
}

fn layers(seal: KeeperSeal) -> PrivacyTerms {
    protection(seal).terms()
}

/// What is changed for one device.
type Change = fn(&mut World);

/// A server that says which seat a device has.
struct Seats {
    server: Arc<Server>,
    /// What one device is told instead of the truth.
    other: Option<(u64, Change)>,
}

impl Seats {
    fn new(seal: KeeperSeal) -> Self {
        let server = Server::new();
        server.with(|world| (world.terms.privacy, world.terms.cohort_size) = (layers(seal), DEVICES));
        Self { server, other: None }
    }

    fn config(&self, seal: KeeperSeal) -> Config {
        let terms = self.server.with(|world| RoundTerms::freeze(world.terms.clone()).unwrap());
        let model = self.server.with(|world| Arc::clone(world.versions.last().unwrap()));
        let length = self.mechanism().quantizer().length();
        let digest = Digest::of(&model.parameters);
        protection(seal).keeper_config(&terms, digest.bytes(), length).unwrap().0
    }

    fn mechanism(&self) -> PrivacyMechanism {
        let layout = self.server.with(|world| world.versions[0].parameters.layout());
        PrivacyMechanism::new(&protection(kept()), &layout, DEVICES).unwrap().unwrap()
    }

    /// What devices sent, by seat.
    fn uploads(&self) -> Vec<Upload> {
        let bytes: Vec<Vec<u8>> =
            self.server.with(|world| world.updates.values().map(|(_, all, _)| all.clone()).collect());
        bytes.iter().map(|bytes| Upload::decode(bytes).unwrap()).collect()
    }
}

impl Transport for Seats {
    fn send(&self, request: &Request) -> Result<Response, TransportError> {
        let bearer = request.bearer.clone().unwrap_or_default();
        let seat = self.server.with(|world| world.devices.get(&bearer).copied()).unwrap_or(0);
        // What it told a device is no longer so when that one answers.
        let is_told = |to: u64| to == seat && !request.path.ends_with("/updates");
        let lie = self.other.filter(|(to, _)| is_told(*to)).map(|(_, lie)| lie);
        let truth = self.server.with(|world| {
            let truth = (world.terms.clone(), world.versions.clone());
            lie.into_iter().for_each(|lie| lie(world));
            truth
        });
        let response = self.server.send(request);
        self.server.with(|world| (world.terms, world.versions) = truth);
        let mut response = response?;
        response.headers.push(("sottovoce-seat".to_owned(), seat.to_string()));
        Ok(response)
    }
}

fn joined(server: &Seats, users: u32) -> Vec<Device> {
    let new = |user: u32| {
        let mut device = Device::enrol(Box::new(SharedStore::default()), enrolment(user.into()), options()).unwrap();
        assert_eq!(device.join(server, Duration::ZERO).unwrap(), None);
        device
    };
    (0..users).map(new).collect()
}

fn accepted(device: &mut Device, server: &dyn Transport) -> bool {
    matches!(device.step(server, NOW).unwrap(), NextStep::Wait(_, WaitReason::UpdateAccepted { .. }))
}

fn opening(config: &Config, uploads: &[Upload]) -> Opening {
    let entries = uploads.iter().cloned().map(Entry::from).collect();
    Opening { config: config.clone(), secret: SECRET.into(), entries }
}

fn opened(opening: &Opening, uploads: &[Upload], record: &mut MemoryRecord) -> Option<Vec<u32>> {
    let masks = keeper().admit(opening, record).unwrap().sum();
    let mut sum = vec![0u32; opening.config.words()];
    uploads.iter().for_each(|upload| sum.iter_mut().zip(&upload.words).for_each(|(a, b)| *a = a.wrapping_add(*b)));
    unmask(sum, &masks, uploads.len() as u32)
}

fn faults(error: &OpenError) -> Vec<(u32, Fault)> {
    let Answer::Refused(refused) = Answer::decode(&Answer::Refused(Refused::from(error)).encode()).unwrap() else {
        panic!("{error}")
    };
    refused.faults
}

#[test]
fn one_request_after_check_in_and_download_and_nobody_needs_to_stay() {
    let server = Seats::new(kept());
    let mut devices = joined(&server, DEVICES);
    server.server.paths();
    assert!(accepted(&mut devices[0], &server));
    let paths = server.server.paths();
    assert_eq!(paths, ["POST /check-in", "GET /models/0", "POST /rounds/0/updates"]);
    assert!(devices[1..].iter_mut().all(|device| accepted(device, &server)));
    drop(devices);
    let (config, uploads) = (server.config(kept()), server.uploads());
    let sum = opened(&opening(&config, &uploads), &uploads, &mut MemoryRecord::default()).expect("masks cancel");
    // Each update counts its rows: the sum is one of people's updates, and no single masked update looks like one.
    let (mut rows, mechanism) = (0, server.mechanism());
    mechanism
        .quantizer()
        .dequantize(&to_signed(&sum), DEVICES, |_, _, count, values| {
            assert!(count <= DEVICES && values.iter().all(|value| value.abs() < 8.0), "{count} {values:?}");
            rows += 1;
        })
        .unwrap();
    assert!(rows > 0 && rows <= ITEMS);
    let plain = 4 * (config.words() - 1) as u64;
    let bytes = uploads[0].encode().len() as u64;
    assert_eq!(bytes, plain + Upload::overhead_bytes(false));
}

/// What a device is told goes into its seed's seal: a server that singles it out gets nothing of it, and can see why.
#[test]
fn a_device_told_other_terms_or_another_model_does_not_open() {
    let lies: [fn(&mut World); 3] = [
        |world| drop(world.terms.model.settings.insert("learning_rate".to_owned(), "0.000001".to_owned())),
        |world| {
            let mut model = SharedModel::clone(world.versions.last().unwrap());
            model.parameters.tables_mut()[0].values_mut()[0] += 0.5;
            *world.versions.last_mut().unwrap() = Arc::new(model);
            world.differences = false;
        },
        |world| world.terms.round = RoundId(5),
    ];
    for (which, lie) in lies.into_iter().enumerate() {
        let mut server = Seats::new(kept());
        server.other = Some((2, lie));
        // So that the server knows whom it tells what.
        server.server.with(|world| world.private_models = true);
        let mut devices = joined(&server, DEVICES);
        let came: Vec<bool> = devices.iter_mut().map(|device| accepted(device, &server)).collect();
        let config = server.config(kept());
        let uploads = server.uploads();
        let mut record = MemoryRecord::default();
        if which == 2 {
            // The upload is for a round that is not open.
            assert!(!came[2] && uploads.len() == 5);
            continue;
        }
        assert!(came.iter().all(|came| *came));
        let error = keeper().admit(&opening(&config, &uploads), &mut record).err().unwrap();
        assert_eq!(faults(&error), [(2, Fault::Unopened)]);
        // Nor can the others be left out instead.
        let alone = keeper().admit(&opening(&config, &uploads[2..3]), &mut record).err().unwrap();
        assert_eq!(alone, OpenError::TooFew(1, 4));
        let honest: Vec<Upload> = uploads.into_iter().filter(|upload| upload.header.client != 2).collect();
        assert!(opened(&opening(&config, &honest), &honest, &mut record).is_some());
    }
}

/// The keeper holds each owner's least cohort, whatever the terms say.
#[test]
fn a_sum_smaller_than_an_owner_demands_is_not_opened() {
    let server = Seats::new(kept());
    let mut devices = joined(&server, DEVICES);
    let demand = |policy: &mut sottovoce_protocol::Policy| {
        policy.least_cohort = DEVICES;
        Ok(())
    };
    devices[0].set_policy(demand).unwrap();
    // One never comes.
    assert!(devices[..5].iter_mut().all(|device| accepted(device, &server)));
    let (config, uploads) = (server.config(kept()), server.uploads());
    let error = keeper().admit(&opening(&config, &uploads), &mut MemoryRecord::default()).err().unwrap();
    assert_eq!(faults(&error), [(0, Fault::LeastCohort)]);
}

fn declined(device: &mut Device, server: &Seats, layers: PrivacyTerms) -> String {
    server.server.with(|world| {
        world.terms.privacy = layers;
        world.terms.round.0 += 1;
    });
    match device.step(server, NOW).unwrap() {
        NextStep::Wait(_, WaitReason::Declined { why, .. }) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_swapped_keeper_is_declined() {
    let server = Seats::new(kept());
    let mut device = joined(&server, 1).remove(0);
    assert!(accepted(&mut device, &server));
    let swapped = KeeperSeal { key: Keeper::new([66; 32], 0, None).public(), ..kept() };
    for (weaker, what) in [
        (layers(swapped), "another keeper: the key"),
        (layers(KeeperSeal { opener: opener(&[9; 32]), ..kept() }), "another server that may ask the keeper"),
        (layers(KeeperSeal { least: 3, ..kept() }), "sums of 3 instead of 4"),
        (PrivacyTerms::default(), "the seal is gone"),
    ] {
        let why = declined(&mut device, &server, weaker);
        assert!(why.contains(what) && why.contains("--accept-weaker"), "{what}: {why}");
    }
    assert!(declined(&mut device, &server, layers(KeeperSeal { key: [0; 32], ..kept() })).contains("another keeper"));
    assert_eq!(server.uploads().len(), 1);
}

/// From the first round on: by the enrolment token, or by the owner's own word.
#[test]
fn a_keeper_is_pinned_by_the_token_or_by_the_owner() {
    let server = Seats::new(kept());
    let founding = server.server.with(|world| commitment(&RoundTerms::freeze(world.terms.clone()).unwrap()).unwrap());
    let mut new = enrolment(0);
    new.token = format!("{}.{founding}", new.token);
    let mut device = Device::enrol(Box::new(SharedStore::default()), new, options()).unwrap();
    assert_eq!(device.join(&server, Duration::ZERO).unwrap(), None);
    let swapped = KeeperSeal { key: Keeper::new([66; 32], 0, None).public(), ..kept() };
    assert!(declined(&mut device, &server, layers(swapped)).contains("ask whoever gave you the token"));

    let mut device = joined(&server, 1).remove(0);
    let key: String = keeper().public().iter().map(|byte| format!("{byte:02x}")).collect();
    device
        .set_policy(|policy| {
            policy.required_layers.insert(format!("keeper.key={key}"));
            Ok(())
        })
        .unwrap();
    let why = declined(&mut device, &server, layers(swapped));
    assert!(why.contains("keeper.key"), "{why}");
    server.server.with(|world| {
        world.terms.privacy = layers(kept());
        world.terms.round.0 += 1;
    });
    assert!(accepted(&mut device, &server));
}

/// A device restored from a back-up that replays the round hides its update under another mask.
#[test]
fn a_restored_device_uses_another_mask() {
    // The same secret, history and round, twice.
    let attempt = || {
        let server = Seats::new(kept());
        let mut device = joined(&server, 1).remove(0);
        assert!(accepted(&mut device, &server));
        server.uploads().remove(0)
    };
    let (one, two) = (attempt(), attempt());
    assert!(one.words != two.words && one.sealed.ephemeral != two.sealed.ephemeral);
}

#[test]
fn an_index_outside_the_cohort_is_declined() {
    let server = Seats::new(kept());
    let mut devices = joined(&server, DEVICES);
    server.server.with(|world| world.terms.cohort_size = 4);
    let why = declined(&mut devices[5], &server, layers(kept()));
    assert!(why.contains("index"), "{why}");
}
