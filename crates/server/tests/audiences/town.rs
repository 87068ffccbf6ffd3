//! A server in this process, and people with devices that reach it over HTTP.

use serde_json::{Value, json};
use sottovoce_device::{
    Device, Enrolment, History, HttpOptions, HttpTransport, Items, MemoryStore, Method, NextStep, Options, Request,
    Response, Secret, Seeds, SharedCache, Timing, Transport, WaitReason,
};
use sottovoce_protocol::{AudiencePolicy, Policy};
use sottovoce_server::federation::{AudienceConfig, Federation, FederationConfig};
use sottovoce_server::storage::{Status, TokenPurpose};
use sottovoce_server::{Config, RunningServer, now};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

pub(crate) const NAME: &str = "town";
pub(crate) const CATEGORIES: [&str; 8] =
    ["skiing", "hiking", "chess", "opera", "cooking", "cycling", "gardening", "astronomy"];

/// A server with one federation.
pub(crate) struct Town {
    pub(crate) running: RunningServer,
    pub(crate) runtime: Runtime,
}

/// A federation that trains for two rounds and serves audiences. Nobody drops out here, so that neighbourhoods are
/// small.
pub(crate) fn config(devices: u32, audiences: &AudienceConfig) -> FederationConfig {
    let settings = json!({"text": "none", "code": 4, "cohort": 50.min(devices)});
    FederationConfig {
        settings: serde_json::from_value(settings).unwrap(),
        devices,
        rounds: Some(2),
        check_in_seconds: 0,
        audiences: Some(AudienceConfig { dropout: 0.0, colluding: 0.0, ..audiences.clone() }),
        ..FederationConfig::new("lookalike")
    }
}

impl Town {
    pub(crate) fn open(folder: &Path) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let config = Config { listen: "127.0.0.1:0".to_owned(), data: folder.join("server"), ..Config::default() };
        let start = Instant::now();
        loop {
            // A server that used the folder before may still be ending.
            match runtime.block_on(RunningServer::start(&config)) {
                Ok(running) => return Self { running, runtime },
                Err(error) => assert!(start.elapsed() < Duration::from_secs(60), "{error}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn create(&self, config: FederationConfig) {
        let lines = CATEGORIES.iter().map(|id| format!("{id}\t{}{}\t\n", id[..1].to_uppercase(), &id[1..]));
        let catalog = std::iter::once("item\ttitle\tcategories\n".to_owned()).chain(lines).collect();
        self.runtime.block_on(self.running.server.create_federation(NAME, config, catalog)).unwrap();
    }

    pub(crate) fn federation(&self) -> Arc<Federation> {
        self.running.server.federation(NAME).unwrap()
    }

    pub(crate) fn transport(&self) -> HttpTransport {
        let options = HttpOptions { idle_connections: 16, ..HttpOptions::default() };
        HttpTransport::new(&format!("http://{}", self.running.address), &options).unwrap()
    }

    pub(crate) fn token(&self, purpose: TokenPurpose) -> String {
        self.runtime.block_on(self.running.server.add_token(purpose, "", None)).unwrap().0
    }

    /// An advertiser's token.
    pub(crate) fn advertiser(&self, per_day: Option<u64>) -> Advertiser<'_> {
        let federation = self.federation().id;
        Advertiser { town: self, token: self.token(TokenPurpose::Advertiser { federation, per_day }) }
    }

    pub(crate) fn with_token(&self, token: String) -> Advertiser<'_> {
        Advertiser { town: self, token }
    }

    /// Ends the server like a killed process, and starts it again.
    pub(crate) fn restart(self, folder: &Path) -> Self {
        self.running.server.stop();
        self.stop();
        Self::open(folder)
    }

    pub(crate) fn stop(self) {
        let Self { running, runtime } = self;
        runtime.block_on(running.stop()).unwrap();
        runtime.shutdown_timeout(Duration::from_secs(10));
    }
}

/// Requests over HTTP with an advertiser's token.
pub(crate) struct Advertiser<'a> {
    town: &'a Town,
    pub(crate) token: String,
}

impl Advertiser<'_> {
    /// The status and the document of an answer.
    pub(crate) fn call(&self, method: Method, path: &str, body: Option<&Value>) -> (u16, Value) {
        let request = Request {
            method,
            path: format!("/v1/advertiser/federations/{NAME}{path}"),
            bearer: Some(self.token.clone()),
            body: body.map(ToString::to_string).unwrap_or_default().into_bytes().into(),
            max_response_bytes: 1 << 24,
            ..Request::default()
        };
        let Response { status, body, .. } = self.town.transport().send(&request).unwrap();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        let (status, document) = self.call(Method::Get, path, None);
        assert_eq!(status, 200, "{document}");
        document
    }

    pub(crate) fn create(&self, name: &str, categories: &[&str], matching: &str, threshold: f32) -> (u16, Value) {
        let body =
            json!({"name": name, "categories": categories, "match": matching, "threshold": threshold, "days": 30});
        self.call(Method::Post, "/audiences", Some(&body))
    }
}

/// Seconds since 1970.
pub(crate) fn seconds() -> Duration {
    Duration::from_millis(now())
}

/// The devices of a town.
pub(crate) struct Fleet {
    pub(crate) devices: Vec<Mutex<Device>>,
    transport: HttpTransport,
}

/// Threads that step devices: commits of several are grouped.
const THREADS: usize = 24;

impl Fleet {
    /// A device for each history, all of which agree to audiences with this policy.
    pub(crate) fn new(town: &Town, histories: &[Vec<&str>], audiences: &AudiencePolicy) -> Self {
        let token = town.token(TokenPurpose::Enrolment { federation: town.federation().id, uses: None });
        let transport = town.transport();
        let path = format!("/v1/federations/{NAME}/catalog");
        let catalog = transport.send(&Request { path, max_response_bytes: 1 << 20, ..Request::default() }).unwrap();
        let items = Arc::new(Items::parse(catalog.body).unwrap());
        let models = Arc::new(SharedCache::new());
        let mut policy = Policy::new(1.0).unwrap();
        policy.audiences = audiences.clone();
        let device = |(user, history): (u64, &Vec<&str>)| {
            let mut secret = [7; 32];
            secret[..8].copy_from_slice(&user.to_le_bytes());
            let server = format!("http://{}", town.running.address);
            let mut enrolment = Enrolment::new(&server, NAME, &token, Secret::new(secret), policy.clone());
            enrolment.accept = ["open".to_owned()].into();
            enrolment.seeds = Seeds::Simulated { seed: 1, user };
            enrolment.history = History::from_ids(history.iter().copied());
            enrolment.items = Some(Arc::clone(&items));
            let timing = Timing { initial_backoff: Duration::from_millis(5), ..Timing::default() };
            let options = Options { models: Arc::clone(&models) as Arc<_>, timing, ..Options::default() };
            Mutex::new(Device::enrol(Box::new(MemoryStore::new()), enrolment, options).unwrap())
        };
        let fleet = Self { devices: (0..).zip(histories).map(device).collect(), transport };
        // In order of people, so that numbers do not depend on threads.
        for device in &fleet.devices {
            assert_eq!(device.lock().unwrap().join(&fleet.transport, seconds()).unwrap(), None);
        }
        fleet
    }

    /// Lets every device do what there is to do at a time.
    pub(crate) fn step_at(&self, now: Duration) {
        std::thread::scope(|scope| {
            for part in self.devices.chunks(self.devices.len().div_ceil(THREADS)) {
                scope.spawn(move || {
                    for device in part {
                        let next = device.lock().unwrap().step(&self.transport, now).unwrap();
                        assert!(matches!(next, NextStep::Wait(..)), "{next:?}");
                        if let NextStep::Wait(_, WaitReason::UpdateRejected { why, .. }) = next {
                            panic!("{why}");
                        }
                    }
                });
            }
        });
    }

    /// Lets devices work until something holds.
    pub(crate) fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let start = Instant::now();
        while !holds() {
            assert!(start.elapsed() < Duration::from_secs(200), "{what}");
            self.step_at(seconds());
        }
    }

    /// Goes on with a server that was restarted and has another address.
    pub(crate) fn follow(&mut self, town: &Town) {
        self.transport = town.transport();
    }

    /// Trains until the federation is finished.
    pub(crate) fn train(&self, town: &Town) {
        let federation = town.federation();
        self.until("training ends", || federation.status() == Status::Finished);
    }

    /// Works until a measurement of an advertiser is over; returns it.
    pub(crate) fn measure(&self, advertiser: &Advertiser<'_>, id: u64) -> Value {
        let path = format!("/measurements/{id}");
        let mut last = Value::Null;
        self.until("the measurement ends", || {
            last = advertiser.get(&path);
            matches!(last["state"].as_str(), Some("done" | "failed"))
        });
        last
    }
}

/// A policy of owners who take part, from so many people on and with so much epsilon a day.
pub(crate) fn agreed(least_published: u32, epsilon_per_day: f64) -> AudiencePolicy {
    AudiencePolicy { takes_part: true, least_published, epsilon_per_day, ..AudiencePolicy::default() }
}
