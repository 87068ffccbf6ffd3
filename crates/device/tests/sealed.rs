//! Rounds in which only sums can be opened, against servers that are honest and servers that are not.

mod common;

use common::{Kept, Server, enrolment, options, problem};
use sottovoce_device::{Device, Method, Next, Request, Response, Rest, Roster, Transport, TransportError};
use sottovoce_privacy::quantize::RowLayout;
use sottovoce_privacy::secagg::{
    self, ClientIndex, Confirm, Confirmations, EncryptedShares, Header, Identity, Message as _, Neighbours,
    RevealedShare, Step, Sum, Survivors, Unmask,
};
use sottovoce_privacy::{IDENTITIES, PrivacyConfig, PrivacyMechanism, Quantization, Seal};
use sottovoce_protocol::{Refusal, RoundTerms};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const DEVICES: u32 = 5;

/// A server that seals, with what it makes of the protocol's last steps.
struct Choir {
    server: Arc<Server>,
    masks: Mutex<secagg::Server>,
    /// What a liar tells each device of the survivors, and what devices said to it then.
    lie: Option<fn(Survivors) -> Survivors>,
    said: Mutex<BTreeMap<ClientIndex, Vec<Vec<u8>>>>,
}

fn protection(identities: bool) -> PrivacyConfig {
    let integers = Quantization { range: 8.0, clip: None, devices: 10, rows: RowLayout::Dense };
    let seal = Seal::SecureAggregation { dropout: 0.3, colluding: 0.1, identities };
    PrivacyConfig { quantization: Some(integers), noise: None, seal: Some(seal) }
}

impl Choir {
    fn new(identities: bool) -> Self {
        let (server, protection) = (Server::new(), protection(identities));
        let terms = server.with(|world| {
            world.terms.privacy = protection.terms();
            world.terms.cohort_size = DEVICES;
            world.terms.clone()
        });
        let layout = server.with(|world| world.versions[0].parameters.layout());
        let length =
            PrivacyMechanism::new(&protection, &layout, DEVICES).unwrap().unwrap().quantizer().length();
        let terms = protection.secagg_config(&RoundTerms::freeze(terms).unwrap(), length).unwrap();
        let masks = Mutex::new(secagg::Server::new(terms, [3; 32]).unwrap());
        Self { server, masks, lie: None, said: Mutex::default() }
    }

    fn masks<T>(&self, work: impl FnOnce(&mut secagg::Server) -> T) -> T {
        work(&mut self.masks.lock().unwrap())
    }

    fn hear(&self, client_index: ClientIndex) -> Response {
        let answer = |body: Vec<u8>| Response { status: 200, headers: Vec::new(), body };
        let (step, message, waits) =
            self.masks(|masks| (masks.step(), masks.message_for(client_index), masks.has(client_index)));
        match (self.lie, step) {
            (Some(lie), Step::Confirm) => self.lie(client_index, lie).map_or(wait(), answer),
            _ if waits => wait(),
            _ => message.map_or_else(|| problem(409, "round-closed"), answer),
        }
    }

    /// First the list of survivors, then, when all who are left have said something, what they signed about this device.
    fn lie(&self, client_index: ClientIndex, lie: fn(Survivors) -> Survivors) -> Option<Vec<u8>> {
        let said = self.said.lock().unwrap();
        match said.get(&client_index).map_or(0, Vec::len) {
            0 => {
                let told = self.masks(|masks| masks.message_for(client_index)).unwrap();
                Some(lie(Survivors::decode(&told).unwrap()).encode())
            }
            1 if said.len() == DEVICES as usize => {
                let header = Header {
                    client: client_index,
                    ..Confirm::decode(&said[&client_index][0]).unwrap().header
                };
                let by = |(by, said): (&ClientIndex, &Vec<Vec<u8>>)| {
                    let confirm = Confirm::decode(&said[0]).unwrap();
                    confirm
                        .signatures
                        .into_iter()
                        .find(|(about, _)| *about == client_index)
                        .map(|(_, s)| (*by, s))
                };
                Some(Confirmations { header, signatures: said.iter().filter_map(by).collect() }.encode())
            }
            _ => None,
        }
    }

    fn say(&self, client_index: ClientIndex, body: &[u8]) -> Response {
        if self.lie.is_some() && self.masks(|masks| masks.step()) == Step::Confirm {
            self.said.lock().unwrap().entry(client_index).or_default().push(body.to_vec());
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

impl Transport for Choir {
    fn send(&self, request: &Request) -> Result<Response, TransportError> {
        let bearer = request.bearer.clone().unwrap_or_default();
        let client_index =
            self.server.with(|world| world.devices.get(&bearer).copied()).unwrap_or(0) as ClientIndex;
        if request.path.ends_with("/seal") || request.path.ends_with("/updates") {
            let hears = request.method == Method::Get;
            return Ok(if hears { self.hear(client_index) } else { self.say(client_index, &request.body) });
        }
        let mut response = self.server.send(request)?;
        response.headers.push(("sottovoce-seat".to_owned(), client_index.to_string()));
        Ok(response)
    }
}

/// A device and the last it said of the round.
struct Member {
    device: Device,
    store: Kept,
    ends: Option<Rest>,
}

/// Devices that know each other, enrolled in order of their seats.
fn members(choir: &Choir, count: u32) -> Vec<Member> {
    let new = |user: u32| {
        let store = Kept::default();
        let device =
            Device::enrol(Box::new(store.clone()), enrolment(user.into()), options()).expect("it enrols");
        Member { device, store, ends: None }
    };
    let mut all: Vec<Member> = (0..count).map(new).collect();
    let roster: Roster = all.iter().map(|each| each.device.identity()).collect();
    for member in &mut all {
        member.device.set_roster(Some(roster.clone())).unwrap();
        assert_eq!(member.device.join(choir, Duration::ZERO).unwrap(), None);
    }
    all
}

/// Lets every device but the silent do what it can, each from what it has kept, until all rest.
fn sweep(choir: &Choir, members: &mut [Member], silent: &[usize], hour: u64) {
    for (place, member) in members.iter_mut().enumerate().filter(|(place, _)| !silent.contains(place)) {
        if member.ends.is_some() {
            continue;
        }
        member.device = Device::open(Box::new(member.store.clone()), options()).unwrap();
        match member.device.step(choir, Duration::from_secs(3600 * hour)).unwrap() {
            Next::After(_, Rest::Idle { .. }) => (),
            Next::After(_, rest) => member.ends = Some(rest),
            Next::Never(end) => panic!("device {place}: {end}"),
        }
    }
}

/// A whole round; `silent` from the step of this number on.
fn run(choir: &Choir, members: &mut [Member], silent: &[usize], from: u64) -> Sum {
    for step in 0..5 {
        sweep(choir, members, if step >= from { silent } else { &[] }, step);
        choir.close_step();
    }
    choir.sum().expect("all steps were gone through")
}

fn without_roster(members: &mut [Member]) {
    members.iter_mut().for_each(|member| member.device.set_roster(None).unwrap());
}

#[test]
fn a_signed_round_gives_the_sum_that_an_unsigned_one_gives() {
    let signed = Choir::new(true);
    let mut members_known = members(&signed, DEVICES);
    let sum = run(&signed, &mut members_known, &[], 0);
    for member in &members_known {
        assert_eq!(member.ends, Some(Rest::Done { round: 0 }));
    }
    let plain = Choir::new(false);
    let mut members_plain = members(&plain, DEVICES);
    without_roster(&mut members_plain);
    for step in 0..4 {
        sweep(&plain, &mut members_plain, &[], step);
        plain.close_step();
    }
    assert_eq!(plain.sum(), Some(sum));
}

#[test]
fn who_drops_out_at_the_confirmation_is_still_counted_and_the_round_goes_on() {
    let choir = Choir::new(true);
    let mut all = members(&choir, DEVICES);
    let sum = run(&choir, &mut all, &[2], 3);
    assert_eq!(sum.counted, [0, 1, 2, 3, 4]);
    // Back again, it hears that the round went on without it.
    sweep(&choir, &mut all, &[], 9);
    assert!(matches!(&all[2].ends, Some(Rest::Dropped { round: 0, why }) if why.contains("round-closed")));
}

/// Plays a device that the server made up, in the client_index after the real ones.
fn invented(choir: &Choir, identity: Option<Identity>) -> secagg::Device {
    let terms = choir.masks(|masks| masks.config().clone());
    match identity {
        Some(identity) => secagg::Device::with_identity(terms, DEVICES - 1, [66; 32], identity),
        None => secagg::Device::new(terms, DEVICES - 1, [66; 32]),
    }
    .unwrap()
}

/// What the made-up device says in a step.
fn play(choir: &Choir, device: &mut secagg::Device) {
    let (step, client_index) = (choir.masks(|masks| masks.step()), DEVICES - 1);
    let down = choir.masks(|masks| masks.message_for(client_index)).unwrap_or_default();
    let up = match step {
        Step::Advertise => device.advertise().encode(),
        Step::Share => device.share(&Neighbours::decode(&down).unwrap()).unwrap().encode(),
        Step::Mask => {
            let nothing = vec![0; device.config().length as usize];
            device.mask(&EncryptedShares::decode(&down).unwrap(), &nothing).unwrap().encode()
        }
        _ => device.unmask(&Survivors::decode(&down).unwrap()).unwrap().encode(),
    };
    choir.masks(|masks| masks.receive(client_index, &up)).unwrap();
}

#[test]
fn a_device_that_the_server_made_up_is_refused_and_the_owner_can_read_why() {
    let choir = Choir::new(true);
    let mut all = members(&choir, DEVICES - 1);
    let known = all[0].device.roster().unwrap().clone();
    let own = Identity::new(&[77; 32], known);
    let key: String = own.public().iter().map(|byte| format!("{byte:02x}")).collect();
    play(&choir, &mut invented(&choir, Some(own)));
    sweep(&choir, &mut all, &[], 0);
    choir.close_step();
    sweep(&choir, &mut all, &[], 1);
    for member in &all {
        let Some(Rest::Dropped { round: 0, why }) = &member.ends else { panic!("{:?}", member.ends) };
        assert!(
            why.contains(&format!("client 4 has the identity {key}, which is not in this device's roster"))
        );
    }
    // They have said their keys, and nothing under them.
    assert!(choir.masks(|masks| masks.step() == Step::Share && masks.waiting_for().len() == 5));
}

#[test]
fn without_identities_nobody_notices() {
    let choir = Choir::new(false);
    let mut all = members(&choir, DEVICES - 1);
    without_roster(&mut all);
    let mut nobody = invented(&choir, None);
    for step in 0..4 {
        sweep(&choir, &mut all, &[], step);
        play(&choir, &mut nobody);
        choir.close_step();
    }
    assert_eq!(choir.sum().unwrap().counted.len(), DEVICES as usize);
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
fn lied_to(lie: fn(Survivors) -> Survivors, about: ClientIndex) -> ([usize; 2], Vec<Rest>) {
    let mut choir = Choir::new(true);
    let mut all = members(&choir, DEVICES);
    for step in 0..3 {
        sweep(&choir, &mut all, &[], step);
        choir.close_step();
    }
    choir.lie = Some(lie);
    (3..8).for_each(|hour| sweep(&choir, &mut all, &[], hour));
    let mut held = [0, 0];
    for said in choir.said.lock().unwrap().values().filter(|said| said.len() == 2) {
        for (of, share) in Unmask::decode(&said[1]).unwrap().shares {
            let which = usize::from(matches!(share, RevealedShare::MaskKey(_)));
            held[which] += usize::from(of == about);
        }
    }
    (held, all.into_iter().map(|member| member.ends.unwrap()).collect())
}

#[test]
fn a_server_that_tells_two_stories_of_the_survivors_opens_nothing_of_those_it_is_about() {
    let threshold = 3;
    // Half of the others hear that client_index 4 is in, half that it is not: neither of its secrets can be had, so no sum.
    let (held, ends) = lied_to(|told| count_out(told, 4, |client_index| client_index < 2), 4);
    assert!(held.iter().all(|&shares| shares < threshold), "{held:?}");
    let said = "2 neighbours confirmed that they count this device in, but 3 are needed";
    assert_eq!(ends[4], Rest::Dropped { round: 0, why: said.to_owned() });
    // All others hear that it is not, and only itself that it is: its own mask stays on, and it gives nothing away of others.
    let (held, ends) = lied_to(|told| count_out(told, 4, |_| true), 4);
    assert_eq!(held, [0, 4]);
    let said = "0 neighbours confirmed that they count this device in, but 3 are needed";
    assert_eq!(ends[4], Rest::Dropped { round: 0, why: said.to_owned() });
    // The truth, for comparison.
    let (held, ends) = lied_to(|told| told, 4);
    assert_eq!((held, &ends[4]), ([4, 0], &Rest::Done { round: 0 }));
}

#[test]
fn rounds_with_identities_go_without_devices_that_know_none_and_the_other_way_round() {
    let declined = |choir: &Choir, device: &mut Device| {
        let Next::After(_, Rest::Declined { round: 0, why }) = device.step(choir, Duration::ZERO).unwrap()
        else {
            panic!("not declined");
        };
        (why, choir.server.with(|world| world.refusals.pop().unwrap().1))
    };
    let (choir, store) = (Choir::new(true), Kept::default());
    let mut device = Device::enrol(Box::new(store.clone()), enrolment(0), options()).unwrap();
    let (why, told) = declined(&choir, &mut device);
    assert!(why.contains("this device has no roster"), "{why}");
    assert_eq!(told, Refusal::NoReason);

    let choir = Choir::new(false);
    let mut new = enrolment(0);
    new.roster = Some([device.identity()].into());
    let mut device = Device::enrol(Box::new(Kept::default()), new, options()).unwrap();
    let (why, told) = declined(&choir, &mut device);
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
fn an_identity_and_a_roster_outlast_the_process_and_are_bounded() {
    let store = Kept::default();
    let mut device = Device::enrol(Box::new(store.clone()), enrolment(3), options()).unwrap();
    let other = Device::enrol(Box::new(Kept::default()), enrolment(4), options()).unwrap();
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
    assert_eq!(error, "2 identities, this device keeps at most 1");
}
