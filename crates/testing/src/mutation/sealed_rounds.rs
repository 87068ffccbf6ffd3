//! Rounds of secure aggregation into which any bytes are thrown, at every step and in both directions.
//!
//! What must hold: a message has one encoding; a device that refuses is as it was; a server never panics, whatever it
//! has accepted; and a sum, if there is one, is of as many inputs as it names.

use sottovoce_core::Rng;
use sottovoce_privacy::SecureRng;
use sottovoce_privacy::secagg::{
    Advertise, ClientIndex, Config, Confirm, Confirmations, Device, DeviceError, EncryptedShares, Identity, Masked,
    Message, Neighbours, Receipt, Roster, Server, Shares, Step, Survivors, Unmask,
};
use sottovoce_protocol::{FederationId, RoundId};

const DEVICES: u32 = 4;
const LENGTH: u32 = 3;
/// What a message has before its body.
const HEADER_BYTES: usize = 22;

/// A round that stands at the beginning of a step.
struct Scene {
    signed: bool,
    /// Messages of the steps before, in order: each client's, and then the step is closed.
    before: Vec<Vec<(ClientIndex, Vec<u8>)>>,
    server: Server,
    /// The devices as they are stored, and the message that is theirs to answer.
    devices: Vec<(Vec<u8>, Vec<u8>)>,
    /// What they answer.
    answers: Vec<(ClientIndex, Vec<u8>)>,
}

/// Rounds with and without identities, at each of their steps.
pub struct SealedRounds {
    scenes: Vec<Scene>,
    /// Honest messages of all kinds.
    messages: Vec<Vec<u8>>,
}

fn secret(label: &str, client: ClientIndex) -> [u8; 32] {
    SecureRng::new([9; 32]).stream(label, client.into()).seed()
}

fn identity(client: ClientIndex) -> Identity {
    let key = |client| Identity::new(&secret("identity", client), Roster::new()).public();
    Identity::new(&secret("identity", client), (0..DEVICES).map(key).collect::<Roster>())
}

fn config(signed: bool) -> Config {
    let config = Config::new(FederationId(5), RoundId(6), DEVICES, LENGTH);
    if signed { Config { dropout: 0.0, ..config }.signed() } else { config }
}

fn new_server(signed: bool) -> Server {
    Server::new(config(signed), [3; 32]).expect("a round of four is possible")
}

/// A device's answer to a message.
fn answer(device: &mut Device, step: Step, down: &[u8]) -> Result<Vec<u8>, DeviceError> {
    Ok(match step {
        Step::Advertise => device.advertise().encode(),
        Step::Share => device.share(&Neighbours::decode(down)?)?.encode(),
        Step::Mask => device.mask(&EncryptedShares::decode(down)?, &[1, 2, u32::MAX])?.encode(),
        Step::Confirm => device.confirm(&Survivors::decode(down)?)?.encode(),
        Step::Unmask if device.config().signed => device.unmask_confirmed(&Confirmations::decode(down)?)?.encode(),
        Step::Unmask | Step::Done => device.unmask(&Survivors::decode(down)?)?.encode(),
    })
}

fn restore(bytes: &[u8], signed: bool, client: ClientIndex) -> Device {
    Device::restore(bytes, signed.then(|| identity(client))).expect("a device that was saved can be restored")
}

/// Decodes as one kind; what decodes has one encoding.
fn decodes<M: Message>(bytes: &[u8]) -> bool {
    M::decode(bytes).map(|message| assert_eq!(message.encode(), bytes)).is_ok()
}

impl Scene {
    /// The server once more, in the same state.
    fn replayed(&self) -> Server {
        let mut server = new_server(self.signed);
        for step in &self.before {
            step.iter().for_each(|(client, bytes)| drop(server.receive(*client, bytes)));
            drop(server.close_step());
        }
        server
    }

    /// All scenes of a round.
    fn of(signed: bool) -> Vec<Self> {
        let (mut scenes, mut before): (Vec<Self>, Vec<Vec<_>>) = (Vec::new(), Vec::new());
        let new =
            |client| Device::new(config(signed), client, secret("device", client), signed.then(|| identity(client)));
        let mut devices: Vec<Device> = (0..DEVICES).map(|client| new(client).expect("a device of the round")).collect();
        loop {
            let mut server = new_server(signed);
            for step in &before {
                let step: &Vec<(ClientIndex, Vec<u8>)> = step;
                step.iter().for_each(|(client, bytes)| assert_eq!(server.receive(*client, bytes), Ok(Receipt::New)));
                server.close_step().expect("honest steps close");
            }
            if server.step() == Step::Done {
                return scenes;
            }
            // One device is gone before inputs are sent, so that shares of both kinds are revealed.
            let there = server.waiting_for().into_iter().filter(|&client| signed || client != 2 || before.len() < 2);
            let (mut stored, mut answers) = (Vec::new(), Vec::new());
            for client in there {
                let down = server.message_for(client).unwrap_or_default();
                let device = &mut devices[client as usize];
                stored.push((device.save(), down.clone()));
                answers.push((client, answer(device, server.step(), &down).expect("an honest answer")));
            }
            scenes.push(Self { signed, before: before.clone(), server, devices: stored, answers: answers.clone() });
            before.push(answers);
        }
    }

    /// Gives the bytes to the server in each client's name, and to each device in the server's. Whether anybody took
    /// them.
    fn receive(&self, bytes: &[u8]) -> bool {
        let mut taken = false;
        for client in 0..DEVICES + 1 {
            if self.server.check(client, bytes).is_ok() {
                taken = true;
                if !self.answers.iter().any(|(of, honest)| *of == client && honest == bytes) {
                    self.finish(client, bytes);
                }
            }
        }
        for (device, (client, _)) in self.devices.iter().zip(&self.answers) {
            let (stored, step) = (&device.0, self.server.step());
            let mut device = restore(stored, self.signed, *client);
            match answer(&mut device, step, bytes) {
                Ok(_) => taken = true,
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    assert_eq!(&device.save(), stored, "a device that refuses has changed");
                }
            }
        }
        taken
    }

    /// Goes on with what one client sent instead of what it would have.
    fn finish(&self, liar: ClientIndex, bytes: &[u8]) {
        let mut server = self.replayed();
        assert_eq!(server.receive(liar, bytes), Ok(Receipt::New));
        let mut devices: Vec<(ClientIndex, Device)> = self
            .devices
            .iter()
            .zip(&self.answers)
            .map(|((stored, _), (client, _))| (*client, restore(stored, self.signed, *client)))
            .filter(|(client, _)| *client != liar)
            .collect();
        while server.step() != Step::Done && server.aborted().is_none() {
            for (client, device) in &mut devices {
                let down = server.message_for(*client).unwrap_or_default();
                if let Ok(up) = answer(device, server.step(), &down) {
                    drop(server.receive(*client, &up));
                }
            }
            drop(server.close_step());
        }
        if let Some(sum) = server.sum() {
            assert_eq!(sum.words.len(), LENGTH as usize);
            assert!(sum.counted.len() <= DEVICES as usize);
        }
    }
}

impl Default for SealedRounds {
    fn default() -> Self {
        Self::new()
    }
}

impl SealedRounds {
    /// Holds the rounds.
    pub fn new() -> Self {
        let scenes: Vec<Scene> = [false, true].into_iter().flat_map(Scene::of).collect();
        let down = scenes.iter().flat_map(|scene| scene.devices.iter().map(|(_, down)| down.clone()));
        let up = scenes.iter().flat_map(|scene| scene.answers.iter().map(|(_, up)| up.clone()));
        let messages = down.chain(up).filter(|message| !message.is_empty()).collect();
        Self { scenes, messages }
    }

    /// Honest messages of all kinds.
    pub fn messages(&self) -> &[Vec<u8>] {
        &self.messages
    }

    /// Throws bytes into every round, at every step. Whether anybody took them.
    ///
    /// # Panics
    /// If something that must hold does not.
    pub fn check(&self, bytes: &[u8]) -> bool {
        let decoders: [fn(&[u8]) -> bool; 9] = [
            decodes::<Advertise>,
            decodes::<Neighbours>,
            decodes::<Shares>,
            decodes::<EncryptedShares>,
            decodes::<Masked>,
            decodes::<Survivors>,
            decodes::<Confirm>,
            decodes::<Confirmations>,
            decodes::<Unmask>,
        ];
        let kinds = decoders.iter().filter(|decoder| decoder(bytes)).count();
        assert!(kinds <= 1, "bytes of {kinds} kinds");
        let stored = bytes.strip_prefix(&[0xff]).unwrap_or(bytes);
        drop(Device::restore(stored, None));
        // What no decoder takes nobody answers; the rounds are for what decodes.
        kinds == 1 && self.scenes.iter().fold(false, |taken, scene| scene.receive(bytes) | taken)
    }

    /// An honest message with the rest from these bytes; the first of them chooses which.
    pub fn message_from(&self, data: &[u8]) -> Option<Vec<u8>> {
        let [choice, rest @ ..] = data else { return None };
        let message = &self.messages[usize::from(*choice) % self.messages.len()];
        Some([&message[..HEADER_BYTES.min(message.len())], rest].concat())
    }

    /// Damages so many messages and checks each; returns how many somebody took.
    pub fn run(&self, count: u64, seed: u64) -> u64 {
        let one = |number: u64| {
            let mut rng = Rng::new(seed).stream("sealed rounds", number);
            let mut bytes = self.messages[rng.index(self.messages.len())].clone();
            for _ in 0..rng.below(4) {
                let other = &self.messages[rng.index(self.messages.len())];
                damage(&mut bytes, other, &mut rng);
            }
            u64::from(self.check(&bytes))
        };
        (0..count).map(one).sum()
    }
}

fn damage(bytes: &mut Vec<u8>, other: &[u8], rng: &mut Rng) {
    let place = rng.index(bytes.len() + 1);
    let end = (place + rng.index(40)).min(bytes.len());
    match rng.below(8) {
        0 | 1 if place < bytes.len() => bytes[place] ^= 1 << rng.below(8),
        2 if place < bytes.len() => bytes[place] = [0, 1, 4, 0x7f, 0xff][rng.index(5)],
        // The same place of another message: keys, shares and signatures of somebody else.
        3..=5 if end <= other.len() => bytes[place..end].copy_from_slice(&other[place..end]),
        6 => drop(bytes.drain(place..end)),
        7 => bytes.truncate(place),
        _ => bytes.insert(place, rng.next_u32() as u8),
    }
}
