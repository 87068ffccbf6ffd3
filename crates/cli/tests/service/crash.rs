//! No update is lost or counted twice when the server or the devices are killed.

use crate::harness::{Database, Simulated, TestServer, printed, simulate};
use serde_json::Value;
use sottovoce_core::Rng;
use std::process::Stdio;
use std::time::Duration;

const TOWN: &str = "synth:town:users=60";

/// A model and its settings.
struct Training {
    model: &'static str,
    settings: Vec<String>,
}

/// FPL with enough epochs to outlast the kills.
fn fpl(kills: usize) -> Training {
    lasting((kills / 4).max(10), &[])
}

/// FPL with this many epochs.
fn lasting(epochs: usize, more: &[&str]) -> Training {
    Training::new("fpl", epochs, &[&["factors=4", "triples=4"], more].concat())
}

impl Training {
    fn new(model: &'static str, epochs: usize, more: &[&str]) -> Self {
        let common = ["cohort=40".to_owned(), format!("epochs={epochs}")];
        Self { model, settings: common.into_iter().chain(more.iter().map(|&setting| setting.to_owned())).collect() }
    }
}

/// The number of kills: `SOTTOVOCE_KILLS`, or a default that suits a test run.
fn kills(default: usize) -> usize {
    std::env::var("SOTTOVOCE_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(default)
}

fn simulated(server: &TestServer, training: &Training) -> Simulated {
    let settings: Vec<&str> = training.settings.iter().map(String::as_str).collect();
    simulate(server.folder.path(), training.model, &[TOWN], &settings)
}

fn create(server: &TestServer, training: &Training, rounds: u64) {
    let rounds = rounds.to_string();
    let mut create =
        vec!["--model", training.model, "--catalog-of", TOWN, "--devices", "60", "--check-in-seconds", "0"];
    // A device that was killed and comes back has not dropped out.
    create.extend(["--seal-step-seconds", "600", "--rounds", &rounds, "--simulated-noise"]);
    create.extend(training.settings.iter().flat_map(|setting| ["--set", setting.as_str()]));
    server.create("town", &create);
}

/// Every round aggregated all selected devices, and the model equals the uninterrupted one.
fn check(server: &TestServer, told: &Value, simulated: &Simulated) {
    let rounds = server.operate(&["rounds", "town", "--limit", "1000"]);
    let rounds = rounds["rounds"].as_array().unwrap();
    assert_eq!(rounds.len() as u64, simulated.rounds);
    assert!(rounds.iter().all(|round| round["counted"] == 40 && round["asked"] == 40), "{rounds:#?}");
    let updates = told["updates"].as_u64().unwrap();
    assert!(updates <= 40 * simulated.rounds, "{updates} updates were acknowledged");
    let deployed = server.model();
    assert!(deployed.iter().zip(&simulated.model).all(|(a, b)| a.to_bits() == b.to_bits()));
}

fn server_is_killed(database: Database, kills: usize, training: &Training) {
    let server = TestServer::new(database);
    let simulated = simulated(&server, training);
    let mut serving = server.serve();
    create(&server, training, simulated.rounds);
    let mut fleet = server.fleet("town", &["--data", TOWN]);
    let fleet = fleet.stdout(Stdio::piped()).spawn().unwrap();
    let mut rng = Rng::new(4);
    let mut killed = 0;
    for _ in 0..kills {
        // From before the first request to some rounds later.
        std::thread::sleep(Duration::from_millis(rng.below(160).into()));
        serving.kill();
        killed += 1;
        serving = server.serve();
        let state = server.operate(&["show", "town"]);
        if state["state"] == "finished" {
            break;
        }
    }
    let output = fleet.wait_with_output().unwrap();
    assert!(output.status.success(), "the fleet failed");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    // A lost acknowledgement is repeated: each update was acknowledged once.
    assert_eq!(told["updates"].as_u64(), Some(40 * simulated.rounds));
    check(&server, &told, &simulated);
    assert!(killed >= kills.min(30), "the federation was finished after {killed} kills of {kills}");
    eprintln!("{killed} kills of the server in {} rounds: the same bytes", simulated.rounds);
}

#[test]
fn crash_of_the_server() {
    for database in Database::all("server-killed") {
        server_is_killed(database, kills(30), &fpl(kills(30)));
    }
}

/// Also between a token and its upload: a device gets the same token again, and spends it once.
#[test]
fn crash_of_the_server_with_anonymous_uploads() {
    let training = lasting(5, &["anonymous=true"]);
    for database in Database::all("server-killed-anonymous") {
        server_is_killed(database, 12, &training);
    }
}

#[test]
fn crash_of_the_server_with_secure_aggregation() {
    let training = lasting(4, &["seal=secagg"]);
    for database in Database::all("server-killed-sealed") {
        server_is_killed(database, 12, &training);
    }
}

#[test]
fn crash_of_the_server_with_signed_identities() {
    server_is_killed(Database::Sqlite, 6, &lasting(3, &["seal=secagg", "seal_identities=true"]));
}

/// Also while the server learns clusters from the latest uploads: nothing of them is lost, and none is learnt twice.
#[test]
fn crash_of_the_server_with_clusters() {
    let small = ["dim=4", "codes=4", "decoder_units=4", "recommender_units=4"];
    let short = ["local_epochs=1", "recommender_epochs=0", "assignment=sampler", "late_clustering=wait"];
    for database in Database::all("server-killed-clusters") {
        server_is_killed(database, 12, &Training::new("refrs", 6, &[&small[..], &short[..]].concat()));
    }
}

/// Kills the devices at random intervals, in milliseconds.
fn devices_are_killed(kills: usize, apart: std::ops::Range<u32>, training: &Training) {
    let server = TestServer::new(Database::Sqlite);
    let simulated = simulated(&server, training);
    let _serving = server.serve();
    create(&server, training, simulated.rounds);
    let store = server.path("devices");
    let arguments = ["--data", TOWN, "--store", store.to_str().unwrap()];
    let mut rng = Rng::new(9);
    for _ in 0..kills {
        let mut fleet = server.fleet("town", &arguments).stdout(Stdio::null()).spawn().unwrap();
        let pause = apart.start + rng.below(apart.end - apart.start);
        std::thread::sleep(Duration::from_millis(pause.into()));
        fleet.kill().unwrap();
        fleet.wait().unwrap();
    }
    let told: Value = serde_json::from_str(&printed(&mut server.fleet("town", &arguments))).unwrap();
    check(&server, &told, &simulated);
    eprintln!("{kills} kills of the devices in {} rounds: the same bytes", simulated.rounds);
}

#[test]
fn crash_of_devices() {
    let kills = kills(15);
    devices_are_killed(kills, 150..500, &fpl(kills));
}

/// Also between the steps of secure aggregation: a device repeats its messages.
#[test]
fn crash_of_devices_with_secure_aggregation() {
    devices_are_killed(8, 300..1500, &lasting(4, &["seal=secagg"]));
}
