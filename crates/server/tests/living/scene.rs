//! A server in this process, and people with devices that reach it over HTTP.

use serde_json::{Value, json};
use sottovoce_device::{
    Device, Enrolment, History, HttpOptions, HttpTransport, MemoryStore, Method, NextStep, Options, Request, Response,
    Secret, Seeds, Timing, Transport, WaitReason,
};
use sottovoce_privacy::ACCEPTABLE;
use sottovoce_protocol::Policy;
use sottovoce_server::federation::{Clock, Federation, FederationConfig};
use sottovoce_server::storage::TokenPurpose;
use sottovoce_server::{Config, RunningServer, now};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

pub(crate) const NAME: &str = "town";
/// Items of each of the two kinds.
const KIND: u32 = 12;

pub(crate) struct Town {
    pub(crate) running: RunningServer,
    pub(crate) runtime: Runtime,
}

/// A federation without end of check-ins.
pub(crate) fn config(model: &str, settings: &Value, devices: u32, rounds: u64) -> FederationConfig {
    FederationConfig {
        settings: serde_json::from_value(settings.clone()).unwrap(),
        devices,
        rounds: Some(rounds),
        check_in_seconds: 0,
        ..FederationConfig::new(model)
    }
}

/// FPL, which has a private vector.
pub(crate) fn fpl(devices: u32, rounds: u64) -> FederationConfig {
    config("fpl", &json!({"factors": 4, "triples": 30, "learning_rate": 0.1}), devices, rounds)
}

/// What somebody who likes one of the two kinds has: some of its items, others for everybody.
pub(crate) fn history(kind: u32, person: u32) -> Vec<String> {
    (0..8).map(|turn| format!("{kind}-{}", (person * 5 + turn * 7) % KIND)).collect()
}

pub(crate) fn seconds() -> Duration {
    Duration::from_millis(now())
}

/// Waits until a condition holds.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The real time.
pub(crate) fn wall_clock() -> Clock {
    Arc::new(now)
}

impl Town {
    pub(crate) fn open(folder: &Path) -> Self {
        Self::open_at(folder, &wall_clock())
    }

    /// A server whose rounds are held by this clock.
    pub(crate) fn open_at(folder: &Path, clock: &Clock) -> Self {
        let config = Config { listen: "127.0.0.1:0".to_owned(), data: folder.join("server"), ..Config::default() };
        Self::open_with(&config, clock)
    }

    pub(crate) fn open_with(config: &Config, clock: &Clock) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let start = Instant::now();
        loop {
            // A server that used the folder before may still be ending.
            match runtime.block_on(RunningServer::start_at(config, Arc::clone(clock))) {
                Ok(running) => return Self { running, runtime },
                Err(error) => assert!(start.elapsed() < Duration::from_secs(60), "{error}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends the server, and starts it again.
    pub(crate) fn restart(self, folder: &Path, clock: &Clock) -> Self {
        self.running.server.stop();
        self.stop();
        Self::open_at(folder, clock)
    }

    pub(crate) fn create(&self, config: FederationConfig) -> Arc<Federation> {
        let lines = (0..2 * KIND).map(|row| format!("{}-{}\tItem {row}\tkind {}\n", row % 2, row / 2, row % 2));
        let catalog = std::iter::once("item\ttitle\tcategories\n".to_owned()).chain(lines).collect();
        self.runtime.block_on(self.running.server.create_federation(NAME, config, catalog)).unwrap()
    }

    pub(crate) fn federation(&self) -> Arc<Federation> {
        self.running.server.federation(NAME).unwrap()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.running.address)
    }

    pub(crate) fn transport(&self) -> HttpTransport {
        HttpTransport::new(&self.url(), &HttpOptions::default()).unwrap()
    }

    pub(crate) fn token(&self, purpose: TokenPurpose) -> String {
        self.runtime.block_on(self.running.server.add_token(purpose, "", None)).unwrap().0
    }

    /// An enrolled device, with the random numbers of a simulated person.
    pub(crate) fn device(&self, person: u32, history: &[String], options: Options) -> Device {
        let token = self.token(TokenPurpose::Enrolment { federation: self.federation().id, uses: None });
        let secret = Secret::new([person as u8; 32]);
        let mut enrolment = Enrolment::new(&self.url(), NAME, &token, secret, Policy::new(1.0).unwrap());
        enrolment.seeds = Seeds::Simulated { seed: 1, user: u64::from(person) };
        // Rounds of so few are not sealed.
        enrolment.accept = ACCEPTABLE.map(str::to_owned).into();
        enrolment.history = History::from_ids(history.iter().map(String::as_str));
        let mut device = Device::enrol(Box::new(MemoryStore::new()), enrolment, options).unwrap();
        assert_eq!(device.join(&self.transport(), seconds()).unwrap(), None);
        device
    }

    /// Devices of so many people, half of whom like each kind.
    pub(crate) fn people(&self, count: u32) -> Vec<Device> {
        (0..count).map(|person| self.device(person, &history(person % 2, person), options(false))).collect()
    }

    /// Lets devices work until something holds.
    pub(crate) fn until(&self, what: &str, devices: &mut [Device], mut holds: impl FnMut(&Federation) -> bool) {
        let (transport, federation) = (self.transport(), self.federation());
        let start = Instant::now();
        loop {
            let step = |device: &mut Device| device.step(&transport, seconds()).unwrap();
            let last: Vec<NextStep> = devices.iter_mut().map(step).collect();
            let refused = |next: &NextStep| match next {
                NextStep::Wait(_, WaitReason::Declined { why, .. } | WaitReason::UpdateRejected { why, .. }) => {
                    Some(why.clone())
                }
                _ => None,
            };
            assert_eq!(last.iter().find_map(refused), None, "{what}");
            if holds(&federation) {
                return;
            }
            assert!(start.elapsed() < Duration::from_secs(60), "{what}: {last:?}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Holds so many rounds with these devices, and waits until the next one is open.
    pub(crate) fn hold(&self, devices: &mut [Device], rounds: usize) {
        let federation = self.federation();
        let is_open = || federation.view(now()).under_way.is_some();
        for _ in 0..rounds {
            let version = federation.public().version;
            wait_until("a round is open", is_open);
            for device in &mut *devices {
                wait_until("the device's update is accepted", || {
                    matches!(self.step(device), NextStep::Wait(_, WaitReason::UpdateAccepted { .. }))
                });
            }
            wait_until("the round produces a version", || federation.public().version > version);
        }
        wait_until("the next round is open", is_open);
    }

    pub(crate) fn step(&self, device: &mut Device) -> NextStep {
        device.step(&self.transport(), seconds()).unwrap()
    }

    pub(crate) fn admin(&self) -> String {
        let token = std::fs::read_to_string(self.running.admin_token.as_ref().unwrap()).unwrap();
        token.trim().to_owned()
    }

    /// The status and the document of an answer to an operator.
    pub(crate) fn operate(&self, token: &str, method: Method, path: &str, body: Option<&Value>) -> (u16, Value) {
        let request = Request {
            method,
            path: format!("/v1/operator{path}"),
            bearer: Some(token.to_owned()),
            body: body.map(ToString::to_string).unwrap_or_default().into_bytes().into(),
            max_response_bytes: 1 << 24,
            ..Request::default()
        };
        let Response { status, body, .. } = self.transport().send(&request).unwrap();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    pub(crate) fn stop(self) {
        let Self { running, runtime } = self;
        runtime.block_on(running.stop()).unwrap();
        runtime.shutdown_timeout(Duration::from_secs(10));
    }
}

pub(crate) fn options(recommends: bool) -> Options {
    let timing = Timing { initial_backoff: Duration::from_millis(5), ..Timing::default() };
    // This build has no source of random numbers.
    Options { timing, recommends, entropy: || Ok([7; 32]), ..Options::default() }
}

/// Which of the best items of a list are of a kind.
pub(crate) fn of_kind(device: &Device, kind: u32, k: usize) -> usize {
    let list = device.recommend(k).unwrap().items;
    list.iter().filter(|item| item.item.starts_with(&format!("{kind}-"))).count()
}
