//! The cost of a round of secure aggregation: all devices and the server in one process, every message encoded.

use sottovoce_privacy::SecureRng;
use sottovoce_privacy::secagg::{
    AbortReason, ClientIndex, Config, ConfigError, Confirmations, Device, DeviceError, EncryptedShares, Identity,
    Message, Neighbours, Parameters, RejectedMessage, Roster, Server, Survivors,
};
use sottovoce_protocol::{FederationId, RoundId};
use std::sync::Arc;

/// Bytes of one step for one device, averaged over those who sent or received.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepBytes {
    /// From the device.
    pub up: f64,
    /// To the device, at the step's beginning.
    pub down: f64,
}

/// What a round cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// Neighbours, threshold and what they are safe against.
    pub parameters: Parameters,
    /// Inputs in the sum.
    pub counted: usize,
    /// Seconds of the caller's clock, of the device that took longest and on average of those that did all steps.
    pub device_seconds: (f64, f64),
    /// Seconds at the server, all steps.
    pub server_seconds: f64,
    /// Seconds of those at the server for taking off the masks.
    pub unmask_seconds: f64,
    /// Bytes of the steps advertise, share, mask, confirm, unmask.
    pub steps: [StepBytes; 5],
    /// Bytes of a plain input: 4 a value.
    pub plain_bytes: usize,
}

impl Figures {
    /// All bytes of a device that did all steps, up and down together, by plain bytes.
    pub fn expansion(&self) -> f64 {
        self.steps.iter().map(|step| step.up + step.down).sum::<f64>() / self.plain_bytes as f64
    }
}

/// Why a round could not be measured.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CostError {
    /// No such round.
    #[error(transparent)]
    Terms(#[from] ConfigError),
    /// A device would not.
    #[error("a device: {0}")]
    Device(#[from] DeviceError),
    /// The server would not have a message.
    #[error("the server: {0}")]
    RejectedMessage(#[from] RejectedMessage),
    /// The round ended early.
    #[error("the round: {0}")]
    AbortReason(#[from] AbortReason),
    /// The sum is not that of the inputs.
    #[error("the sum is wrong at value {0}")]
    Wrong(usize),
}

/// One round of `n` devices with inputs of `length` random values, of which the share `dropout` falls silent after
/// sharing (the most expensive moment), timed by the caller's clock in seconds; `signed`: with identities. The sum is
/// checked.
///
/// # Errors
/// If the round cannot be set up, a party refuses a message, or the sum is wrong.
pub fn measure(
    (n, length): (u32, u32),
    dropout: f64,
    signed: bool,
    seed: [u8; 32],
    clock: &dyn Fn() -> f64,
) -> Result<Figures, CostError> {
    let source = SecureRng::new(seed);
    let terms = Config { dropout, ..Config::new(FederationId(0), RoundId(0), n, length) };
    let terms = if signed { terms.signed() } else { terms };
    let server = Server::new(terms.clone(), source.stream("server", 0).seed())?;
    let devices = parties(&terms, &source)?;
    let round = Round {
        server,
        devices,
        // The small term keeps 0.3 of 10 at 3 although 0.3 is a little less than three tenths.
        silent: (dropout * f64::from(n) + 1e-9).floor() as u32,
        source: &source,
        clock,
        spent: vec![0.0; n as usize],
        server_seconds: 0.0,
        steps: Default::default(),
    };
    round.run()
}

fn parties(terms: &Config, source: &SecureRng) -> Result<Vec<Device>, DeviceError> {
    let secret = |label, client: ClientIndex| source.stream(label, client.into()).seed();
    if !terms.signed {
        let party = |client| Device::new(terms.clone(), client, secret("device", client), None);
        return (0..terms.devices).map(party).collect();
    }
    let public = |client| Identity::new(&secret("identity", client), Roster::new()).public();
    let roster = Arc::new((0..terms.devices).map(public).collect::<Roster>());
    let party = |client| {
        let identity = Identity::new(&secret("identity", client), Arc::clone(&roster));
        Device::new(terms.clone(), client, secret("device", client), Some(identity))
    };
    (0..terms.devices).map(party).collect()
}

struct Round<'a> {
    server: Server,
    devices: Vec<Device>,
    /// Who falls silent: the first so many clients. The ring's order is random, so it may be any.
    silent: u32,
    source: &'a SecureRng,
    clock: &'a dyn Fn() -> f64,
    spent: Vec<f64>,
    server_seconds: f64,
    steps: [StepBytes; 5],
}

impl Round<'_> {
    fn run(mut self) -> Result<Figures, CostError> {
        let (n, length) = (self.devices.len() as u32, self.server.config().length as usize);
        self.step(0, 0..n, |device, _, _| Ok(device.advertise().encode()))?;
        self.close()?;
        self.step(1, 0..n, |device, bytes, _| Ok(device.share(&Neighbours::decode(bytes)?)?.encode()))?;
        self.close()?;
        let mut expected = vec![0u32; length];
        self.step(2, self.silent..n, |device, bytes, input| {
            expected.iter_mut().zip(input).for_each(|(sum, value)| *sum = sum.wrapping_add(*value));
            Ok(device.mask_message(&EncryptedShares::decode(bytes)?, input)?.to_vec())
        })?;
        self.close()?;
        self.unmask(self.silent..n)?;
        let before = self.server_seconds;
        self.close()?;
        self.figures(&expected, before)
    }

    fn unmask(&mut self, clients: std::ops::Range<ClientIndex>) -> Result<(), CostError> {
        if !self.server.config().signed {
            return self.step(4, clients, |device, bytes, _| Ok(device.unmask(&Survivors::decode(bytes)?)?.encode()));
        }
        self.step(3, clients.clone(), |device, bytes, _| Ok(device.confirm(&Survivors::decode(bytes)?)?.encode()))?;
        self.close()?;
        self.step(4, clients, |device, bytes, _| Ok(device.unmask_confirmed(&Confirmations::decode(bytes)?)?.encode()))
    }

    fn input(&self, client: ClientIndex) -> Vec<u32> {
        let mut source = self.source.stream("input", client.into());
        (0..self.server.config().length).map(|_| source.next_u32()).collect()
    }

    /// One message down and one up for each device of a step.
    fn step(
        &mut self,
        which: usize,
        clients: std::ops::Range<ClientIndex>,
        mut answer: impl FnMut(&mut Device, &[u8], &[u32]) -> Result<Vec<u8>, DeviceError>,
    ) -> Result<(), CostError> {
        let count = f64::from(clients.end - clients.start);
        for client in clients {
            let input = if which == 2 { self.input(client) } else { Vec::new() };
            let start = (self.clock)();
            let down = self.server.message_for(client).unwrap_or_default();
            let told = (self.clock)();
            let up = answer(&mut self.devices[client as usize], &down, &input)?;
            let answered = (self.clock)();
            self.server.receive(client, &up)?;
            self.server_seconds += (self.clock)() - answered + told - start;
            self.spent[client as usize] += answered - told;
            self.steps[which].up += up.len() as f64 / count;
            self.steps[which].down += down.len() as f64 / count;
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), CostError> {
        let start = (self.clock)();
        self.server.close_step()?;
        self.server_seconds += (self.clock)() - start;
        Ok(())
    }

    fn figures(self, expected: &[u32], before: f64) -> Result<Figures, CostError> {
        let over = || CostError::AbortReason(AbortReason::Over);
        let (sum, parameters) = (self.server.sum().ok_or_else(over)?, *self.server.parameters().ok_or_else(over)?);
        if let Some(at) = sum.words.iter().zip(expected).position(|(found, expected)| found != expected) {
            return Err(CostError::Wrong(at));
        }
        let whole = &self.spent[self.silent as usize..];
        let longest = whole.iter().copied().fold(0.0, f64::max);
        Ok(Figures {
            parameters,
            counted: sum.counted.len(),
            device_seconds: (longest, whole.iter().sum::<f64>() / whole.len() as f64),
            server_seconds: self.server_seconds,
            unmask_seconds: self.server_seconds - before,
            steps: self.steps,
            plain_bytes: 4 * expected.len(),
        })
    }
}
