//! A federation under attack: one device in twenty lies, each in a way of its own, and somebody hoards connections.
//!
//! Real devices over real sockets; a liar is a real device whose messages are changed on their way. The test run has a
//! few devices and rounds, `cargo xtask prove trust` 500 and 50.

#![allow(clippy::print_stdout, reason = "the figures of a proof")]

use crate::harness::{RunningProcess, printed, program};
use serde_json::Value;
use sottovoce_core::Rng;
use sottovoce_device::{
    Device, Enrolment, History, HttpOptions, HttpTransport, MemoryStore, Method, NextStep, Options, Request, Response,
    Secret, Seeds, SharedCache, Timing, Transport, TransportError, WaitReason,
};
use sottovoce_privacy::secagg::{Advertise, Message as _, RevealedShare, Shares, Unmask};
use sottovoce_protocol::{DisclosureSeeds, Layout, Ledger, Policy, RoundTerms, RowOrigin, Trained, codec};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// One device in so many lies.
const ONE_IN: usize = 20;
/// Threads that the devices share.
const THREADS: usize = 6;
/// Of all connections the server accepts, and of one address.
const CONNECTIONS: (usize, usize) = (300, 200);
const TOWN: &str = "town:users=500:seed=1";
/// Values that stand for others until the message is encoded.
const MARK: f32 = 0.123_456_79;

/// What a device does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lie {
    None,
    /// Rows of 3e38.
    LargeRows,
    NotANumber,
    /// Bytes that are no message.
    Junk,
    LowOrderKeys,
    FalseShares,
    /// A few boxes that do not open.
    SomeBoxes,
    /// No box that opens.
    NoBox,
}

const OPEN: [Lie; 3] = [Lie::LargeRows, Lie::NotANumber, Lie::Junk];
const SEALED: [Lie; 5] = [Lie::LowOrderKeys, Lie::FalseShares, Lie::FalseShares, Lie::SomeBoxes, Lie::Junk];

/// A connection that changes what a liar sends.
struct Wire<'a> {
    http: &'a HttpTransport,
    lie: Lie,
    /// What the server last asked of this device.
    terms: Mutex<Option<RoundTerms>>,
    /// The tables of the model, which one device downloads for all.
    layout: &'a Mutex<Option<Layout>>,
}

impl Transport for Wire<'_> {
    fn send(&self, request: &Request) -> Result<Response, TransportError> {
        let changed = if self.lie == Lie::None { None } else { self.changed(request) };
        let response = self.http.send(&changed.unwrap_or_else(|| request.clone()))?;
        if response.status == 200 && request.path.ends_with("/check-in") {
            *self.terms.lock().unwrap() = codec::decode_terms(&response.body).ok();
        } else if response.status == 200 && request.path.contains("/models/") && self.layout.lock().unwrap().is_none() {
            let model = codec::decode_model(&response.body).ok();
            *self.layout.lock().unwrap() = model.map(|model| model.parameters.layout());
        }
        Ok(response)
    }
}

impl Wire<'_> {
    /// The request that the liar sends instead.
    fn changed(&self, request: &Request) -> Option<Request> {
        let is_update = request.path.ends_with("/updates");
        let is_seal = request.path.ends_with("/seal") && request.method == Method::Post;
        let body = match self.lie {
            Lie::LargeRows if is_update => self.update(3e38),
            Lie::NotANumber if is_update => self.update(f32::NAN),
            Lie::Junk if is_update || is_seal => Some(vec![0xa5; 300]),
            _ if is_seal => falsified(self.lie, &request.body),
            _ => None,
        }?;
        Some(Request { body: body.into(), ..request.clone() })
    }

    /// An update of twenty rows with this value everywhere.
    fn update(&self, value: f32) -> Option<Vec<u8>> {
        let (terms, layout) = (self.terms.lock().unwrap(), self.layout.lock().unwrap());
        let (Some(terms), Some(layout)) = (&*terms, &*layout) else { return None };
        let mut trained = Trained::new(layout);
        let finite = if value.is_finite() { value } else { MARK };
        for row in 0..20 {
            trained.push_row(0, row, RowOrigin::Other).ok()?.fill(finite);
        }
        let seeds = DisclosureSeeds::once(&mut Rng::new(1));
        let disclosed = trained.disclose(&policy(), terms, 0, &mut Ledger::new(), seeds).ok()?;
        let mut bytes = Vec::new();
        codec::encode_update(&disclosed, &mut bytes);
        if !value.is_finite() {
            let at = bytes.windows(4).position(|four| four == MARK.to_le_bytes())?;
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
            let end = bytes.len() - 4;
            let checksum = crc32(&bytes[..end]);
            bytes[end..].copy_from_slice(&checksum.to_le_bytes());
        }
        Some(bytes)
    }
}

/// A message of a sealed round, made false.
fn falsified(lie: Lie, bytes: &[u8]) -> Option<Vec<u8>> {
    match (lie, *bytes.get(1)?) {
        (Lie::LowOrderKeys, Advertise::KIND) => {
            let mut message = Advertise::decode(bytes).ok()?;
            message.keys.masks = [0; 32];
            Some(message.encode())
        }
        (Lie::SomeBoxes | Lie::NoBox, Shares::KIND) => {
            let mut message = Shares::decode(bytes).ok()?;
            let count = if lie == Lie::NoBox { usize::MAX } else { 3 };
            message.encrypted.iter_mut().take(count).for_each(|(_, sent)| sent[5] ^= 1);
            Some(message.encode())
        }
        (Lie::FalseShares, Unmask::KIND) => {
            let mut message = Unmask::decode(bytes).ok()?;
            for (_, RevealedShare::SelfMask(share) | RevealedShare::MaskKey(share)) in &mut message.shares {
                share[0] ^= 0xff;
            }
            Some(message.encode())
        }
        _ => None,
    }
}

/// The checksum of the wire format (CRC-32 of IEEE 802.3).
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
    !bytes.iter().fold(!0, |crc: u32, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

fn policy() -> Policy {
    let mut policy = Policy::new(1.0).unwrap();
    policy.least_cohort = 0;
    policy
}

/// Devices, rounds, and seconds of a round: a few for a test run, what is to be proved if `SOTTOVOCE_ATTACK` is set.
fn scale() -> (usize, u64, u64) {
    if std::env::var_os("SOTTOVOCE_ATTACK").is_some() { (500, 50, 4) } else { (40, 3, 1) }
}

/// People of the town: what their devices have, and what they did later.
struct Town {
    catalog: PathBuf,
    people: Vec<(Vec<String>, BTreeSet<String>)>,
}

impl Town {
    fn new(folder: &Path) -> Self {
        let out = folder.join("town");
        printed(program().args(["data", "synth", TOWN, "--quiet", "--out"]).arg(&out));
        let mut visits: BTreeMap<u32, Vec<(u64, String)>> = BTreeMap::new();
        for line in fs::read_to_string(out.join("checkins.tsv")).unwrap().lines().skip(1) {
            let cells: Vec<&str> = line.split('\t').collect();
            visits.entry(cells[0].parse().unwrap()).or_default().push((cells[2].parse().unwrap(), cells[1].to_owned()));
        }
        let split = |mut visits: Vec<(u64, String)>| {
            visits.sort();
            let known = visits.len() * 8 / 10;
            let train: Vec<String> = visits[..known].iter().map(|(_, item)| item.clone()).collect();
            let test =
                visits[known..].iter().map(|(_, item)| item.clone()).filter(|item| !train.contains(item)).collect();
            (train, test)
        };
        let places = fs::read_to_string(out.join("places.tsv")).unwrap();
        let lines = places.lines().skip(1).map(|line| line.split('\t').take(3).collect::<Vec<_>>().join("\t"));
        let text: Vec<String> = std::iter::once("item\ttitle\tcategories".to_owned()).chain(lines).collect();
        let catalog = folder.join("catalog.tsv");
        fs::write(&catalog, text.join("\n") + "\n").unwrap();
        Self { catalog, people: visits.into_values().map(split).take(scale().0).collect() }
    }
}

/// A server with few connections, and operators on a listener of their own.
struct Server {
    _process: RunningProcess,
    devices: String,
    hoarders: String,
    operators: String,
    folder: PathBuf,
}

impl Server {
    fn start(folder: &Path) -> Self {
        let port = || TcpListener::bind("[::]:0").unwrap().local_addr().unwrap().port();
        let (devices, operators) = (port(), port());
        let config = folder.join("server.toml");
        let (all, each) = CONNECTIONS;
        fs::write(&config, format!("connections = {all}\nconnections_per_address = {each}\n")).unwrap();
        let log = fs::File::create(folder.join("server.log")).unwrap();
        let mut command = program();
        command.args(["serve", "--json", "--listen", &format!("[::]:{devices}")]);
        command.args(["--operator-listen", &format!("127.0.0.1:{operators}"), "--config"]).arg(&config);
        command.arg("--data").arg(folder.join("server"));
        let mut process: Child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("operators"), "{line}");
        Self {
            _process: RunningProcess::from(process),
            // Two addresses of this machine, as if two households.
            devices: format!("http://[::1]:{devices}"),
            hoarders: format!("127.0.0.1:{devices}"),
            operators: format!("http://127.0.0.1:{operators}"),
            folder: folder.to_owned(),
        }
    }

    fn operate(&self, arguments: &[&str]) -> Value {
        let mut command: Command = program();
        command.arg("federation").args(arguments).args(["--json", "--server", &self.operators]);
        command.arg("--token-file").arg(self.folder.join("server/admin.token"));
        serde_json::from_str(&printed(&mut command)).unwrap()
    }
}

/// Opens connections and keeps them, until told to stop.
fn hoard(at: &str, stop: &AtomicBool) -> usize {
    let (mut held, mut opened): (Vec<TcpStream>, usize) = (Vec::new(), 0);
    while !stop.load(Ordering::Relaxed) {
        held.retain(|stream| stream.peer_addr().is_ok());
        for _ in 0..20 {
            if let Ok(mut stream) = TcpStream::connect(at) {
                // HTTP/2 with settings, half of HTTP/1.1, or nothing.
                let greeting: &[u8] = match opened % 3 {
                    0 => b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
                    1 => b"GET /v1/federations/town HTTP/1.1\r\nhost: x\r\n",
                    _ => b"",
                };
                let _sent = stream.write_all(greeting);
                held.push(stream);
                opened += 1;
            }
        }
        if held.len() > 900 {
            held.drain(..300);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    opened
}

/// What came of a training.
struct Outcome {
    /// The mean over honest devices.
    ndcg: f64,
    rounds: Vec<Value>,
    quarantined: Vec<Value>,
    hoarded: usize,
    seconds: f64,
}

/// Trains with these liars among the devices; without, all are honest.
fn train(town: &Town, settings: &[&str], lies: &[Lie], extra: &[Lie]) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let lie_of = |number: usize| match (number.is_multiple_of(ONE_IN), lies.is_empty()) {
        (true, false) => {
            let liar = number / ONE_IN;
            *extra.get(liar).unwrap_or(&lies[liar % lies.len()])
        }
        _ => Lie::None,
    };
    let count = town.people.len().to_string();
    let (devices, rounds, seconds) = scale();
    let rounds = rounds.to_string();
    let mut create = vec!["create", "town", "--model", "fpl", "--catalog", town.catalog.to_str().unwrap()];
    create.extend(["--devices", &count, "--rounds", &rounds, "--check-in-seconds", "0", "--seal-step-seconds", "3"]);
    let (cohort, deadline) = (format!("cohort={}", devices / 5), format!("deadline={seconds}"));
    create.extend(["--set", &cohort, "--set", &deadline]);
    settings.iter().for_each(|setting| create.extend(["--set", setting]));
    server.operate(&create);
    let token = server.operate(&["token", "town"])["token"].as_str().unwrap().to_owned();
    let http =
        HttpTransport::new(&server.devices, &HttpOptions { idle_connections: THREADS, ..HttpOptions::default() });
    let http = http.unwrap();
    let start = Instant::now();
    let (models, layout) = (Arc::new(SharedCache::new()), Mutex::new(None));
    let enrol = |number: usize| {
        let lie = lie_of(number);
        let mut secret = [7; 32];
        secret[..8].copy_from_slice(&(number as u64).to_le_bytes());
        let mut enrolment = Enrolment::new(&server.devices, "town", &token, Secret::new(secret), policy());
        enrolment.accept = ["open".to_owned()].into();
        enrolment.seeds = Seeds::Simulated { seed: 3, user: number as u64 };
        enrolment.history = History::from_ids(town.people[number].0.iter().map(String::as_str));
        let soon = Duration::from_millis(100);
        let timing = Timing {
            initial_backoff: soon,
            max_backoff: Duration::from_secs(1),
            check_in_interval: Duration::from_millis(500),
            conditions_interval: soon,
        };
        let options = Options { timing, models: Arc::clone(&models) as Arc<_>, ..Options::default() };
        let mut device = Device::enrol(Box::new(MemoryStore::new()), enrolment, options).unwrap();
        assert_eq!(device.join(&http, Duration::ZERO).unwrap(), None);
        (number, device, Wire { http: &http, lie, terms: Mutex::default(), layout: &layout })
    };
    let mut people: Vec<_> = (0..town.people.len()).map(enrol).collect();
    let stop = AtomicBool::new(false);
    let hoarded = std::thread::scope(|scope| {
        let hoarding = (!lies.is_empty()).then(|| scope.spawn(|| hoard(&server.hoarders, &stop)));
        let share = people.len().div_ceil(THREADS);
        let workers: Vec<_> = people.chunks_mut(share).map(|part| scope.spawn(move || work(part, start))).collect();
        // Operators get in all the while.
        while workers.iter().any(|worker| !worker.is_finished()) {
            let asked = Instant::now();
            let seen = server.operate(&["show", "town"]);
            assert!(asked.elapsed() < Duration::from_secs(20), "an operator waits");
            if seen["state"] == "failed" {
                panic!("{seen}");
            }
            std::thread::sleep(Duration::from_secs(2));
        }
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        stop.store(true, Ordering::Relaxed);
        hoarding.map_or(0, |hoarding| hoarding.join().unwrap())
    });
    // Whom both trainings have in common.
    let honest = people.iter().filter(|(number, ..)| number % ONE_IN != 0);
    let scores: Vec<f64> = honest.filter_map(|(number, device, _)| ndcg(device, &town.people[*number].1)).collect();
    let told = server.operate(&["rounds", "town", "--limit", "1000"]);
    Outcome {
        ndcg: scores.iter().sum::<f64>() / scores.len() as f64,
        rounds: told["rounds"].as_array().unwrap().clone(),
        quarantined: server.operate(&["show", "town"])["quarantined"].as_array().unwrap().clone(),
        hoarded,
        seconds: start.elapsed().as_secs_f64(),
    }
}

/// Steps devices when they are due, until the federation is finished.
fn work(devices: &mut [(usize, Device, Wire<'_>)], start: Instant) {
    let mut due = vec![Duration::ZERO; devices.len()];
    let mut over = vec![false; devices.len()];
    while !over.iter().all(|over| *over) {
        for (place, (_, device, wire)) in devices.iter_mut().enumerate() {
            let now = start.elapsed();
            if over[place] || due[place] > now {
                continue;
            }
            match device.step(&*wire, now) {
                Ok(NextStep::Wait(_, WaitReason::NoRound { state })) if state == "finished" => over[place] = true,
                Ok(NextStep::Wait(wait, _)) => {
                    due[place] = start.elapsed() + wait.clamp(Duration::from_millis(50), Duration::from_secs(1));
                }
                Ok(NextStep::Stop(_)) | Err(_) => over[place] = wire.lie != Lie::None,
            }
        }
        // A liar that is asked no more hears of nothing: the honest ones decide when it is over.
        let honest = |place: &usize| devices[*place].2.lie == Lie::None;
        if (0..devices.len()).filter(honest).all(|place| over[place]) {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// nDCG@20 of a device's list; `None` where there is nothing to find, or no model.
fn ndcg(device: &Device, later: &BTreeSet<String>) -> Option<f64> {
    let list = device.recommend(20).ok()?.items;
    let gain = |rank: usize| 1.0 / ((rank + 2) as f64).log2();
    let best: f64 = (0..later.len().min(20)).map(gain).sum();
    let found = list.iter().enumerate().filter(|(_, item)| later.contains(&item.item));
    (!later.is_empty()).then(|| found.map(|(rank, _)| gain(rank)).sum::<f64>() / best)
}

/// Compares a training under attack with one without the liars.
fn compare(name: &str, settings: &[&str], lies: &[Lie], extra: &[Lie]) {
    let (devices, rounds, _) = scale();
    let folder = tempfile::tempdir().unwrap();
    let town = Town::new(folder.path());
    let (calm, attacked) = (train(&town, settings, &[], &[]), train(&town, settings, lies, extra));
    let made = |outcome: &Outcome| outcome.rounds.iter().filter(|round| round["version"].is_number()).count();
    let ratio = attacked.ndcg / calm.ndcg;
    println!(
        "{name}: {devices} devices, {rounds} rounds, {} liars, {} connections hoarded: {} rounds made versions ({} \
         without liars), nDCG@20 {:.4} ({:.4} without), ratio {ratio:.3}; {:.0} s ({:.0} s without)",
        devices / ONE_IN,
        attacked.hoarded,
        made(&attacked),
        made(&calm),
        attacked.ndcg,
        calm.ndcg,
        attacked.seconds,
        calm.seconds,
    );
    for each in &attacked.quarantined {
        println!("  device {} quarantined: {}", each["device"], each["reason"].as_str().unwrap_or_default());
    }
    for lost in attacked.rounds.iter().filter(|round| !round["version"].is_number()) {
        println!("  round {} lost: {}", lost["round"], lost["remark"].as_str().unwrap_or_default());
    }
    // Who sends no box that opens costs one round, and is asked no more.
    assert!(made(&attacked) >= rounds as usize - extra.len(), "rounds were lost");
    assert!(attacked.quarantined.iter().all(|each| (each["device"].as_u64().unwrap() as usize).is_multiple_of(ONE_IN)));
    // Few rounds teach nothing, so that nothing can be compared.
    assert!(ratio >= 0.98 || devices < 500, "nDCG@20 fell to {ratio:.3} of that without liars");
}

#[test]
fn attack_on_open_rounds() {
    let settings = ["factors=8", "triples=40", "seal=none"];
    compare("open rounds", &settings, &OPEN, &[]);
}

#[test]
fn attack_on_sealed_rounds() {
    let settings = ["factors=8", "triples=40", "seal=secagg"];
    compare("sealed rounds", &settings, &SEALED, &[Lie::NoBox, Lie::NoBox]);
}
