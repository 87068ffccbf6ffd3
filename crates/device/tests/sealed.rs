//! Rounds in which only sums can be opened, against servers that are honest and servers that are not.

mod common;

use common::{Server, SharedStore, World, enrolment, options, problem};
use sottovoce_device::{
    Device, Digest, Method, NextStep, Request, Response, Roster, Store as _, Transport, TransportError, WaitReason,
};
use sottovoce_privacy::quantize::RowLayout;
use sottovoce_privacy::secagg::{
    self, Advertise, ClientIndex, Confirm, Confirmations, EncryptedShares, Header, Identity, Message as _, Neighbours,
    RevealedShare, Step, Sum, Survivors, Unmask,
};
use sottovoce_privacy::{IDENTITIES, PrivacyConfig, PrivacyMechanism, Quantization, Seal};
use sottovoce_protocol::{Refusal, RoundTerms, SharedModel};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const DEVICES: u32 = 5;

/// What is changed for one device.
type Change = fn(&mut World);

/// A server that seals, with what it makes of the protocol's last steps.
struct SealingServer {
    server: Arc<Server>,
    masks: Mutex<secagg::Server>,
    /// What a liar tells each device of the survivors, and what devices said to it then.
    lie: Option<fn(Survivors) -> Survivors>,
    /// What one device is told instead of the truth: the terms, or the model.
    other: Option<(ClientIndex, Change)>,
    /// All that devices posted for the seal.
    said: Mutex<Vec<Vec<u8>>>,
    received: Mutex<BTreeMap<ClientIndex, Vec<Vec<u8>>>>,
}

fn protection(identities: bool) -> PrivacyConfig {
    let integers = Quantization { range: 8.0, clip: None, devices: 10, rows: RowLayout::Dense };
    let seal = Seal::SecureAggregation { dropout: 0.3, colluding: 0.1, identities };
    PrivacyConfig { quantization: Some(integers), noise: None, seal: Some(seal) }
}

impl SealingServer {
    fn new(identities: bool) -> Self {
        let (server, protection) = (Server::new(), protection(identities));
        let terms = server.with(|world| {
            world.terms.privacy = protection.terms();
            world.terms.cohort_size = DEVICES;
            world.terms.clone()
        });
        let layout = server.with(|world| world.versions[0].parameters.layout());
        let length = PrivacyMechanism::new(&protection, &layout, DEVICES).unwrap().unwrap().quantizer().length();
        let model = server.with(|world| Digest::of(&world.versions[0].parameters));
        let terms = protection.secagg_config(&RoundTerms::freeze(terms).unwrap(), model.bytes(), length).unwrap();
        let masks = Mutex::new(secagg::Server::new(terms, [3; 32]).unwrap());
        Self { server, masks, lie: None, other: None, said: Mutex::default(), received: Mutex::default() }
    }

    fn masks<T>(&self, work: impl FnOnce(&mut secagg::Server) -> T) -> T {
        work(&mut self.masks.lock().unwrap())
    }

    fn message_for(&self, client_index: ClientIndex) -> Response {
        let answer = |body: Vec<u8>| Response { status: 200, headers: Vec::new(), body };
        let (step, message, waits) =
            self.masks(|masks| (masks.step(), masks.message_for(client_index), masks.has(client_index)));
        match (self.lie, step) {
            (Some(lie), Step::Confirm) => self.lie(client_index, lie).map_or(wait(), answer),
            _ if waits => wait(),
            _ => message.map_or_else(|| problem(409, "round-closed"), answer),
        }
    }

    /// First the list of survivors, then, when all who are left have said something, what they signed about this
    /// device.
    fn lie(&self, client_index: ClientIndex, lie: fn(Survivors) -> Survivors) -> Option<Vec<u8>> {
        let received = self.received.lock().unwrap();
        match received.get(&client_index).map_or(0, Vec::len) {
            0 => {
                let told = self.masks(|masks| masks.message_for(client_index)).unwrap();
                Some(lie(Survivors::decode(&told).unwrap()).encode())
            }
            1 if received.len() == DEVICES as usize => {
                let header =
                    Header { client: client_index, ..Confirm::decode(&received[&client_index][0]).unwrap().header };
                let by = |(by, messages): (&ClientIndex, &Vec<Vec<u8>>)| {
                    let confirm = Confirm::decode(&messages[0]).unwrap();
                    confirm.signatures.into_iter().find(|(about, _)| *about == client_index).map(|(_, s)| (*by, s))
                };
                Some(Confirmations { header, signatures: received.iter().filter_map(by).collect() }.encode())
            }
            _ => None,
        }
    }

    fn receive(&self, client_index: ClientIndex, body: &[u8]) -> Response {
        if self.lie.is_some() && self.masks(|masks| masks.step()) == Step::Confirm {
            self.received.lock().unwrap().entry(client_index).or_default().push(body.to_vec());
            return Response { status: 204, ..Response::default() };
        }
        match self.masks(|masks| masks.receive(client_index, body)) {
            Ok(_) => Response { status: 204, ..Response::default() },
            Err(_) => problem(400, "malformed"),
        }
    }

    fn close_step(&self) {
        self.masks(|masks| masks.close_step().map(|_| ()).unwrap());
    }

    fn sum(&self) -> Option<Sum> {
        self.masks(|masks| masks.sum())
    }
}

fn wait() -> Response {
    Response { status: 204, ..Response::default() }
}

impl Transport for SealingServer {
    fn send(&self, request: &Request) -> Result<Response, TransportError> {
        let bearer = request.bearer.clone().unwrap_or_default();
        let client_index = self.server.with(|world| world.devices.get(&bearer).copied()).unwrap_or(0) as ClientIndex;
        if request.path.ends_with("/seal") || request.path.ends_with("/updates") {
            let receives = request.method == Method::Get;
            if !receives {
                self.said.lock().unwrap().push(request.body.to_vec());
            }
            return Ok(if receives {
                self.message_for(client_index)
            } else {
                self.receive(client_index, &request.body)
            });
        }
        let lie = self.other.filter(|(to, _)| *to == client_index).map(|(_, lie)| lie);
        let truth = self.server.with(|world| {
            let truth = (world.terms.clone(), world.versions.clone());
            lie.into_iter().for_each(|lie| lie(world));
            truth
        });
        let response = self.server.send(request);
        self.server.with(|world| (world.terms, world.versions) = truth);
        let mut response = response?;
        response.headers.push(("sottovoce-seat".to_owned(), client_index.to_string()));
        Ok(response)
    }
}

/// A device and the last it said of the round.
struct Member {
    device: Device,
    store: SharedStore,
    last: Option<WaitReason>,
}

/// Devices that know each other, enrolled in order of their seats.
fn members(server: &SealingServer, count: u32) -> Vec<Member> {
    let new = |user: u32| {
        let store = SharedStore::default();
        let device = Device::enrol(Box::new(store.clone()), enrolment(user.into()), options()).expect("it enrols");
        Member { device, store, last: None }
    };
    let mut all: Vec<Member> = (0..count).map(new).collect();
    let roster: Roster = all.iter().map(|each| each.device.identity()).collect();
    for member in &mut all {
        member.device.set_roster(Some(roster.clone())).unwrap();
        assert_eq!(member.device.join(server, Duration::ZERO).unwrap(), None);
    }
    all
}

/// Lets every device but the silent do what it can, each from what it has kept, until all rest.
fn sweep(server: &SealingServer, members: &mut [Member], silent: &[usize], hour: u64) {
    for (place, member) in members.iter_mut().enumerate().filter(|(place, _)| !silent.contains(place)) {
        if member.last.is_some() {
            continue;
        }
        member.device = Device::open(Box::new(member.store.clone()), options()).unwrap();
        match member.device.step(server, Duration::from_secs(3600 * hour)).unwrap() {
            NextStep::Wait(_, WaitReason::NoRound { .. }) => (),
            NextStep::Wait(_, rest) => member.last = Some(rest),
            NextStep::Stop(end) => panic!("device {place}: {end}"),
        }
    }
}

/// A whole round; `silent` from the step of this number on.
fn run(server: &SealingServer, members: &mut [Member], silent: &[usize], from: u64) -> Sum {
    for step in 0..5 {
        sweep(server, members, if step >= from { silent } else { &[] }, step);
        server.close_step();
    }
    server.sum().expect("all steps were gone through")
}

fn without_roster(members: &mut [Member]) {
    members.iter_mut().for_each(|member| member.device.set_roster(None).unwrap());
}

#[test]
fn signed_and_unsigned_rounds_give_the_same_sum() {
    let signed = SealingServer::new(true);
    let mut signed_members = members(&signed, DEVICES);
    let sum = run(&signed, &mut signed_members, &[], 0);
    for member in &signed_members {
        assert_eq!(member.last, Some(WaitReason::UpdateAccepted { round: 0 }));
    }
    let plain = SealingServer::new(false);
    let mut plain_members = members(&plain, DEVICES);
    without_roster(&mut plain_members);
    for step in 0..4 {
        sweep(&plain, &mut plain_members, &[], step);
        plain.close_step();
    }
    assert_eq!(plain.sum(), Some(sum));
}

#[test]
fn a_device_that_drops_out_at_the_confirmation_is_counted() {
    let server = SealingServer::new(true);
    let mut all = members(&server, DEVICES);
    let sum = run(&server, &mut all, &[2], 3);
    assert_eq!(sum.counted, [0, 1, 2, 3, 4]);
    // Back again, it hears that the round went on without it.
    sweep(&server, &mut all, &[], 9);
    assert!(matches!(&all[2].last, Some(WaitReason::UpdateRejected { round: 0, why }) if why.contains("round-closed")));
}

/// Plays a device that the server made up, in the client_index after the real ones.
fn fake_device(server: &SealingServer, identity: Option<Identity>) -> secagg::Device {
    let terms = server.masks(|masks| masks.config().clone());
    secagg::Device::new(terms, DEVICES - 1, [66; 32], identity).unwrap()
}

/// What the made-up device says in a step.
fn play(server: &SealingServer, device: &mut secagg::Device) {
    let (step, client_index) = (server.masks(|masks| masks.step()), DEVICES - 1);
    let down = server.masks(|masks| masks.message_for(client_index)).unwrap_or_default();
    let up = match step {
        Step::Advertise => device.advertise().encode(),
        Step::Share => device.share(&Neighbours::decode(&down).unwrap()).unwrap().encode(),
        Step::Mask => {
            let nothing = vec![0; device.config().length as usize];
            device.mask(&EncryptedShares::decode(&down).unwrap(), &nothing).unwrap().encode()
        }
        _ => device.unmask(&Survivors::decode(&down).unwrap()).unwrap().encode(),
    };
    server.masks(|masks| masks.receive(client_index, &up)).unwrap();
}

#[test]
fn refuses_a_fake_device_and_names_its_key() {
    let server = SealingServer::new(true);
    let mut all = members(&server, DEVICES - 1);
    let known = all[0].device.roster().unwrap().clone();
    let own = Identity::new(&[77; 32], known);
    let key: String = own.public().iter().map(|byte| format!("{byte:02x}")).collect();
    play(&server, &mut fake_device(&server, Some(own)));
    sweep(&server, &mut all, &[], 0);
    server.close_step();
    sweep(&server, &mut all, &[], 1);
    for member in &all {
        let Some(WaitReason::UpdateRejected { round: 0, why }) = &member.last else { panic!("{:?}", member.last) };
        assert!(why.contains(&format!("client 4 has the identity {key}, which is not in this device's roster")));
    }
    // They have said their keys, and nothing under them.
    assert!(server.masks(|masks| masks.step() == Step::Share && masks.waiting_for().len() == 5));
}

#[test]
fn a_fake_device_passes_without_identities() {
    let server = SealingServer::new(false);
    let mut all = members(&server, DEVICES - 1);
    without_roster(&mut all);
    let mut fake = fake_device(&server, None);
    for step in 0..4 {
        sweep(&server, &mut all, &[], step);
        play(&server, &mut fake);
        server.close_step();
    }
    assert_eq!(server.sum().unwrap().counted.len(), DEVICES as usize);
}

/// Counts a client_index out for those for whom `of` says so.
fn count_out(told: Survivors, client_index: ClientIndex, of: impl Fn(ClientIndex) -> bool) -> Survivors {
    if told.header.client == client_index || !of(told.header.client) {
        return told;
    }
    let (dropped, survived) = told.survived.iter().partition(|other| **other == client_index);
    Survivors { survived, dropped, ..told }
}

/// How many shares of each of a device's two secrets a lying server holds at the end, and how devices ended.
fn lied_to(lie: fn(Survivors) -> Survivors, about: ClientIndex) -> ([usize; 2], Vec<WaitReason>) {
    let mut server = SealingServer::new(true);
    let mut all = members(&server, DEVICES);
    for step in 0..3 {
        sweep(&server, &mut all, &[], step);
        server.close_step();
    }
    server.lie = Some(lie);
    (3..8).for_each(|hour| sweep(&server, &mut all, &[], hour));
    let mut held = [0, 0];
    for messages in server.received.lock().unwrap().values().filter(|messages| messages.len() == 2) {
        for (of, share) in Unmask::decode(&messages[1]).unwrap().shares {
            let which = usize::from(matches!(share, RevealedShare::MaskKey(_)));
            held[which] += usize::from(of == about);
        }
    }
    (held, all.into_iter().map(|member| member.last.unwrap()).collect())
}

#[test]
fn inconsistent_survivor_lists_open_no_update() {
    let threshold = 3;
    // Half of the others hear that client_index 4 is in, half that it is not: neither of its secrets can be had, so no
    // sum.
    let (held, ends) = lied_to(|told| count_out(told, 4, |client_index| client_index < 2), 4);
    assert!(held.iter().all(|&shares| shares < threshold), "{held:?}");
    let why = "2 neighbours confirmed that they count this device in, but 3 are needed";
    assert_eq!(ends[4], WaitReason::UpdateRejected { round: 0, why: why.to_owned() });
    // All others hear that it is not, and only itself that it is: its own mask stays on, and it gives nothing away of
    // others.
    let (held, ends) = lied_to(|told| count_out(told, 4, |_| true), 4);
    assert_eq!(held, [0, 4]);
    let why = "0 neighbours confirmed that they count this device in, but 3 are needed";
    assert_eq!(ends[4], WaitReason::UpdateRejected { round: 0, why: why.to_owned() });
    // The truth, for comparison.
    let (held, ends) = lied_to(|told| told, 4);
    assert_eq!((held, &ends[4]), ([4, 0], &WaitReason::UpdateAccepted { round: 0 }));
}

#[test]
fn a_roster_is_needed_for_identities_and_requires_them() {
    let declined = |server: &SealingServer, device: &mut Device| {
        let NextStep::Wait(_, WaitReason::Declined { round: 0, why }) = device.step(server, Duration::ZERO).unwrap()
        else {
            panic!("not declined");
        };
        (why, server.server.with(|world| world.refusals.pop().unwrap().1))
    };
    let (server, store) = (SealingServer::new(true), SharedStore::default());
    let mut device = Device::enrol(Box::new(store.clone()), enrolment(0), options()).unwrap();
    let (why, told) = declined(&server, &mut device);
    assert!(why.contains("this device has no roster"), "{why}");
    assert_eq!(told, Refusal::NoReason);

    let server = SealingServer::new(false);
    let mut new = enrolment(0);
    new.roster = Some([device.identity()].into());
    let mut device = Device::enrol(Box::new(SharedStore::default()), new, options()).unwrap();
    let (why, told) = declined(&server, &mut device);
    assert!(why.contains(IDENTITIES), "{why}");
    assert_eq!(told, Refusal::LayerMissing(IDENTITIES.to_owned()));
    device
        .set_policy(|policy| {
            policy.required_layers.clear();
            Ok(())
        })
        .unwrap();
    assert!(device.roster().is_some());
}

#[test]
fn identity_and_roster_are_stored_and_limited() {
    let store = SharedStore::default();
    let mut device = Device::enrol(Box::new(store.clone()), enrolment(3), options()).unwrap();
    let other = Device::enrol(Box::new(SharedStore::default()), enrolment(4), options()).unwrap();
    assert_ne!(device.identity(), other.identity());
    assert_eq!(device.roster(), None);
    let roster: Roster = [device.identity(), other.identity()].into();
    device.set_roster(Some(roster.clone())).unwrap();
    let identity = device.identity();
    drop(device);
    let mut device = Device::open(Box::new(store.clone()), options()).unwrap();
    assert_eq!((device.identity(), device.roster()), (identity, Some(&roster)));
    assert_eq!(device.policy().required_layers, BTreeSet::from([IDENTITIES.to_owned()]));
    device.set_roster(None).unwrap();
    assert!(device.policy().required_layers.is_empty() && device.roster().is_none());

    let mut few = options();
    few.bounds.roster = 1;
    let mut device = Device::open(Box::new(store), few).unwrap();
    let error = device.set_roster(Some(roster)).unwrap_err().to_string();
    assert_eq!(error, "2 identities, this device stores at most 1");
}

/// A server that lets all devices but one train on nothing, or on another model, to read that one's update off the sum.
#[test]
fn a_device_told_other_terms_or_another_model_sends_no_update() {
    let terms = |world: &mut World| {
        world.terms.model.settings.insert("learning_rate".to_owned(), "0.000001".to_owned());
    };
    let model = |world: &mut World| {
        let mut model = SharedModel::clone(world.versions.last().unwrap());
        model.parameters.tables_mut()[0].values_mut()[0] += 0.5;
        *world.versions.last_mut().unwrap() = Arc::new(model);
        world.differences = false;
    };
    for lie in [terms as fn(&mut World), model] {
        let mut server = SealingServer::new(false);
        server.other = Some((2, lie));
        server.server.with(|world| world.private_models = true);
        let mut all = members(&server, DEVICES);
        without_roster(&mut all);
        for step in 0..2 {
            sweep(&server, &mut all, &[], step);
            server.close_step();
        }
        sweep(&server, &mut all, &[], 2);
        // The one cannot read the others' shares: it sends no update.
        assert_eq!(server.masks(|masks| masks.waiting_for().to_vec()), [2]);
        let Some(WaitReason::UpdateRejected { round: 0, why }) = &all[2].last else { panic!("{:?}", all[2].last) };
        assert!(why.contains("decrypt"), "{why}");
        // Nobody could read its shares: the masks that the others have in common with it stay on their sum.
        (2..6).for_each(|step| {
            server.masks(|masks| _ = masks.close_step());
            sweep(&server, &mut all, &[2], step + 1);
        });
        assert!(server.sum().is_none());
    }
}

/// With identities the device says already of the keys that they are not signed for its round.
#[test]
fn identities_do_not_sign_for_other_terms() {
    let mut server = SealingServer::new(true);
    server.other = Some((2, |world: &mut World| {
        world.terms.model.settings.insert("learning_rate".to_owned(), "0.000001".to_owned());
    }));
    let mut all = members(&server, DEVICES);
    sweep(&server, &mut all, &[], 0);
    let Some(WaitReason::UpdateRejected { round: 0, why }) = &all[2].last else { panic!("{:?}", all[2].last) };
    assert!(why.contains("malformed"), "{why}");
    assert_eq!(server.masks(|masks| masks.waiting_for()), [2]);
}

/// The owner's least cohort holds for the sum that is opened, not for the devices that the server said it asked.
#[test]
fn opens_no_sum_of_fewer_than_the_owners_least_cohort() {
    for (least, opens) in [(DEVICES - 1, true), (DEVICES, false)] {
        let server = SealingServer::new(false);
        let mut all = members(&server, DEVICES);
        without_roster(&mut all);
        for member in &mut all {
            let demand = |policy: &mut sottovoce_protocol::Policy| {
                policy.least_cohort = least;
                Ok(())
            };
            member.device.set_policy(demand).unwrap();
        }
        for step in 0..4 {
            sweep(&server, &mut all, if step >= 2 { &[4] } else { &[] }, step);
            if step < 3 {
                server.close_step();
            }
        }
        let waiting = server.masks(|masks| masks.waiting_for().len());
        assert_eq!(waiting == 0, opens, "{waiting}");
        if !opens {
            let Some(WaitReason::UpdateRejected { why, .. }) = &all[0].last else { panic!("{:?}", all[0].last) };
            assert!(why.contains("only 4 updates are certain"), "{why}");
        }
    }
}

/// Two copies of one device, as from a back-up, in one round.
#[test]
fn a_restored_device_hides_its_update_under_other_masks() {
    let server = SealingServer::new(false);
    let mut all = members(&server, DEVICES);
    without_roster(&mut all);
    let backup = all[0].store.lock().load().unwrap().unwrap();
    let items = all[0].device.items().unwrap().clone();
    let mut keys = Vec::new();
    for _ in 0..2 {
        let mut store = SharedStore::default();
        store.commit(&backup).unwrap();
        store.save_catalog(&items).unwrap();
        let mut device = Device::open(Box::new(store), options()).unwrap();
        let said = server.said.lock().unwrap().len();
        device.step(&server, Duration::ZERO).unwrap();
        let sent = server.said.lock().unwrap()[said].clone();
        keys.push(Advertise::decode(&sent).unwrap().keys);
    }
    assert_ne!(keys[0].masks, keys[1].masks);
    assert_ne!(keys[0].encryption, keys[1].encryption);
}
