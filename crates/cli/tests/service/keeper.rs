//! Rounds with a keeper as a process of its own: it is killed, it is away, and devices come once or not at all.

use crate::harness::{Database, RunningProcess, TestServer, error_of, printed, program, simulate};
use serde_json::Value;
use sottovoce_core::Rng;
use sottovoce_device::{
    Device, Enrolment, History, HttpOptions, HttpTransport, MemoryStore, Method, NextStep, Options, Request, Response,
    Secret, Seeds, Timing, Transport, TransportError, WaitReason,
};
use sottovoce_protocol::Policy;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A keeper's folder and port, without its process.
struct TestKeeper {
    folder: tempfile::TempDir,
    port: u16,
}

impl TestKeeper {
    fn new() -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Self { folder: tempfile::tempdir().unwrap(), port }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Starts the keeper; its public key.
    fn keep(&self) -> (RunningProcess, String) {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.folder.path().join("log")).unwrap();
        let mut command = program();
        command.args(["keep", "--json", "--listen", &format!("127.0.0.1:{}", self.port)]);
        command.arg("--data").arg(self.folder.path().join("keeper"));
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{}", self.log()));
        (child.into(), told["key"].as_str().unwrap().to_owned())
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }
}

const TOWN: &str = "synth:town:users=60";
const KILLS: u32 = 12;

/// Server and keeper are killed in turns while devices train; the sums are those of the simulator.
#[test]
fn equality_with_a_keeper_and_a_server_that_are_killed() {
    let (server, keeper) = (TestServer::new(Database::Sqlite), TestKeeper::new());
    let settings = ["factors=4", "triples=4", "cohort=40", "epochs=8", "seal=keeper", "keeper_least=20"];
    let simulated = simulate(server.folder.path(), "fpl", &[TOWN], &settings);
    let mut serving = server.serve();
    let (mut keeping, key) = keeper.keep();
    let (rounds, url) = (simulated.rounds.to_string(), keeper.url());
    let mut create = vec!["--model", "fpl", "--catalog-of", TOWN, "--devices", "60", "--check-in-seconds", "0"];
    create.extend(["--rounds", &rounds, "--simulated-noise", "--keeper", &url, "--keeper-key", &key]);
    settings.iter().for_each(|setting| create.extend(["--set", setting]));
    server.create("town", &create);
    let mut fleet = server.fleet("town", &["--data", TOWN]).stdout(Stdio::piped()).spawn().unwrap();
    let (mut rng, mut kills) = (Rng::new(4), 0u32);
    while fleet.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(u64::from(100 + rng.below(200))));
        // Whoever is killed for ever gets nothing done.
        if kills == KILLS {
            continue;
        }
        if kills % 3 == 2 {
            serving.kill();
            serving = server.serve();
        } else {
            keeping.kill();
            let (again, same) = keeper.keep();
            assert_eq!(same, key);
            keeping = again;
        }
        kills += 1;
        std::thread::sleep(Duration::from_millis(400));
    }
    let told: Value = serde_json::from_reader(fleet.stdout.take().unwrap()).unwrap();
    assert_eq!((told["version"].as_u64(), fleet.wait().unwrap().success()), (Some(simulated.rounds), true), "{told}");
    let differ = server.model().iter().zip(&simulated.model).filter(|(a, b)| a.to_bits() != b.to_bits()).count();
    assert!(differ == 0 && kills > 0, "{differ} values differ after {kills} kills");
    let held = server.operate(&["rounds", "town", "--limit", "1000"]);
    let all = |round: &Value| round["counted"] == round["asked"];
    assert!(held["rounds"].as_array().unwrap().iter().all(all), "{held:#?}");
    // Each round was opened once, and the journal says so to whoever starts the keeper.
    keeping.kill();
    let (_keeping, _) = keeper.keep();
    assert!(keeper.log().contains(&format!("rounds={rounds}")), "{}", keeper.log());
    eprintln!("{kills} kills of keeper and server in {rounds} rounds: the same bytes");
}

const DEVICES: u8 = 20;
const ITEMS: usize = 30;

/// What becomes of a device's upload on its way.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Open,
    /// The device is never heard of again.
    Cut,
    /// Its seed is junk.
    Junk,
    /// Its mask is not its seed's.
    OtherMask,
}

struct Wire<'a> {
    http: &'a HttpTransport,
    way: Way,
}

impl Transport for Wire<'_> {
    fn send(&self, request: &Request) -> Result<Response, TransportError> {
        if self.way == Way::Cut {
            return Err(TransportError("cut".to_owned()));
        }
        if !(request.path.ends_with("/updates") && request.method == Method::Post) {
            return self.http.send(request);
        }
        let mut body = request.body.to_vec();
        // Version, kind, federation, round and seat; then the one-time key and what is sealed; the words are last.
        match self.way {
            Way::Junk => body[22 + 32 + 5] ^= 1,
            Way::OtherMask => body[22 + 32 + 52 + 1 + 4..].iter_mut().for_each(|byte| *byte ^= 0x55),
            _ => (),
        }
        self.http.send(&Request { body: Arc::from(body), ..request.clone() })
    }
}

struct Village<'a> {
    server: &'a TestServer,
    devices: Vec<(Device, Wire<'a>)>,
    start: Instant,
}

impl<'a> Village<'a> {
    /// A federation whose first round has opened, and its devices.
    fn new(server: &'a TestServer, http: &'a HttpTransport, keeper: (&str, &str), more: &[&str]) -> Self {
        let items = (0..ITEMS).fold("item\ttitle\tcategories\n".to_owned(), |mut text, item| {
            let _ = writeln!(text, "i{item}\t\t");
            text
        });
        fs::write(server.path("catalog.tsv"), items).unwrap();
        let catalog = server.path("catalog.tsv");
        let create = ["--model", "fcf", "--catalog", catalog.to_str().unwrap(), "--rounds", "9", "--minimum", "5"];
        let settings = ["factors=2", "cohort=20", "seal=keeper", "keeper_least=5"];
        let mut all = [&create[..], &["--devices", "20", "--check-in-seconds", "0"], more].concat();
        settings.iter().for_each(|setting| all.extend(["--set", setting]));
        all.extend(["--keeper", keeper.0, "--keeper-key", keeper.1]);
        let token = server.create("village", &all);
        server.operate(&["pause", "village"]);
        let mut village = Self { server, devices: Vec::new(), start: Instant::now() };
        let token = fs::read_to_string(token).unwrap();
        village
            .devices
            .extend((0..DEVICES).map(|number| (joined(server, &token, http, number), Wire { http, way: Way::Open })));
        village
    }

    fn ways(&mut self, numbers: std::ops::Range<usize>, way: Way) {
        self.devices[numbers].iter_mut().for_each(|(_, wire)| wire.way = way);
    }

    /// Opens one round, and no more.
    fn open(&self) {
        self.server.operate(&["resume", "village"]);
        self.until(|shown| shown["under_way"].is_object());
        self.server.operate(&["pause", "village"]);
    }

    /// What is shown of the federation once this holds.
    fn until(&self, holds: impl Fn(&Value) -> bool) -> Value {
        loop {
            let shown = self.server.operate(&["show", "village"]);
            if holds(&shown) {
                return shown;
            }
            assert!(self.start.elapsed() < Duration::from_secs(120), "{shown:#?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Each device does what it can, once, and is not needed any more.
    fn visit(&mut self) {
        for (device, wire) in self.devices.iter_mut().filter(|(_, wire)| wire.way != Way::Cut) {
            loop {
                let next = device.step(wire, self.start.elapsed()).unwrap();
                let NextStep::Wait(_, reason) = next else { panic!("{next:?}") };
                if matches!(reason, WaitReason::UpdateAccepted { .. }) {
                    break;
                }
                assert!(self.start.elapsed() < Duration::from_secs(120), "{reason:?}");
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    fn closed(&self, round: u64) -> Value {
        self.until(|shown| shown["round"].as_u64() > Some(round) && !shown["under_way"].is_object());
        self.server.operate(&["rounds", "village"])["rounds"][0].clone()
    }
}

fn joined(server: &TestServer, token: &str, http: &HttpTransport, number: u8) -> Device {
    let (secret, policy) = (Secret::new([number; 32]), Policy::new(1.0).unwrap());
    let mut enrolment = Enrolment::new(&server.url(), "village", token, secret, policy);
    enrolment.seeds = Seeds::Simulated { seed: 3, user: number.into() };
    let items = (0..4).map(|item| format!("i{}", (usize::from(number) * 7 + item * 3) % ITEMS));
    enrolment.history = History::from_ids(items.collect::<Vec<_>>().iter().map(String::as_str));
    let soon = Duration::from_millis(20);
    let timing =
        Timing { initial_backoff: soon, max_backoff: soon, check_in_interval: soon, conditions_interval: soon };
    let options = Options { timing, ..Options::default() };
    let mut device = Device::enrol(Box::new(MemoryStore::new()), enrolment, options).unwrap();
    assert_eq!(device.join(http, Duration::ZERO).unwrap(), None);
    device
}

/// The enrolment token has the keeper's key in its digest. The keeper is away when the round closes: the round waits,
/// says so, and goes on when the keeper is back, although all devices have vanished after their upload.
#[test]
fn a_keeper_that_is_down_delays_the_round_and_liars_are_left_out() {
    let (server, keeper) = (TestServer::new(Database::Sqlite), TestKeeper::new());
    let _serving = server.serve();
    let http = HttpTransport::new(&server.url(), &HttpOptions::default()).unwrap();
    let (keeping, key) = keeper.keep();
    keeping.kill();
    let mut village = Village::new(&server, &http, (&keeper.url(), &key), &[]);
    village.ways(3..4, Way::Junk);
    village.ways(8..9, Way::OtherMask);
    village.open();
    village.visit();
    let waits = village.until(|shown| shown["under_way"]["keeper"].is_string());
    let why = waits["under_way"]["keeper"].as_str().unwrap();
    assert!(why.contains("does not answer, and is asked again"), "{why}");
    village.devices.iter_mut().for_each(|(_, wire)| wire.way = Way::Cut);
    let (_keeping, same) = keeper.keep();
    assert_eq!(same, key);
    let round = village.closed(0);
    assert_eq!(
        (&round["version"], &round["counted"], &round["asked"]),
        (&1.into(), &18.into(), &20.into()),
        "{round:#?}"
    );
    assert!(round["remark"].as_str().unwrap().contains("2 updates left out"), "{round:#?}");
    assert!(server.log().contains("the keeper does not answer"), "{}", server.log());
}

/// Twelve of twenty vanish before their upload: they are missing, and nothing else is.
#[test]
fn sixty_percent_may_vanish() {
    let (server, keeper) = (TestServer::new(Database::Sqlite), TestKeeper::new());
    let _serving = server.serve();
    let http = HttpTransport::new(&server.url(), &HttpOptions::default()).unwrap();
    let (_keeping, key) = keeper.keep();
    let url = keeper.url();
    // Long enough for eight devices on a machine that does other things.
    let mut village = Village::new(&server, &http, (&url, &key), &["--set", "deadline=10"]);
    village.ways(0..12, Way::Cut);
    village.open();
    village.visit();
    let round = village.closed(0);
    assert_eq!(
        (&round["version"], &round["counted"], &round["asked"]),
        (&1.into(), &8.into(), &20.into()),
        "{round:#?}"
    );
}

#[test]
fn a_keeper_refuses_what_it_cannot_keep_to() {
    let keeper = TestKeeper::new();
    let (keeping, _) = keeper.keep();
    // Two on one journal would not see what the other spends.
    let place = keeper.folder.path().join("keeper");
    let second = |listen: &str| {
        let mut command = program();
        command.args(["keep", "--listen", listen]).arg("--data").arg(&place);
        error_of(&mut command)
    };
    assert!(second("127.0.0.1:0").contains("locked"));
    keeping.kill();
    fs::remove_file(place.join("journal.db")).unwrap();
    let lost = second("127.0.0.1:0");
    assert!(lost.contains("could be opened a second time"), "{lost}");
    let help = printed(program().args(["keep", "--help"]));
    assert!(help.contains("never put back an older copy"), "{help}");
}
