//! Nothing is lost and nothing counts twice, whenever the server or the devices are killed.

use crate::harness::{Database, Place, Simulated, printed, simulate};
use serde_json::Value;
use sottovoce_core::Rng;
use std::process::Stdio;
use std::time::Duration;

const TOWN: &str = "synth:town:users=60";

/// Long enough not to be finished before the last kill.
fn settings(kills: usize) -> Vec<String> {
    lasting((kills / 4).max(10), &[])
}

/// So many epochs, with these settings besides.
fn lasting(epochs: usize, more: &[&str]) -> Vec<String> {
    let epochs = format!("epochs={epochs}");
    let common = ["factors=4", "triples=4", "cohort=40", &epochs];
    common.iter().chain(more).map(|&setting| setting.to_owned()).collect()
}

/// `SOTTOVOCE_KILLS` says how often; by default as often as the test run can bear.
fn kills(default: usize) -> usize {
    std::env::var("SOTTOVOCE_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(default)
}

fn simulated(place: &Place, settings: &[String]) -> Simulated {
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    simulate(place.folder.path(), "fpl", &[TOWN], &settings)
}

fn found(place: &Place, settings: &[String], rounds: u64) {
    let rounds = rounds.to_string();
    let mut create =
        vec!["--model", "fpl", "--catalog-of", TOWN, "--devices", "60", "--check-in-seconds", "0"];
    // Who was killed and comes back has not dropped out.
    create.extend(["--seal-step-seconds", "600", "--rounds", &rounds]);
    create.extend(settings.iter().flat_map(|setting| ["--set", setting.as_str()]));
    place.found("town", &create);
}

/// Every round has counted all it asked, as often as the fleet was told so, and the model is the uninterrupted one.
fn check(place: &Place, told: &Value, simulated: &Simulated) {
    let rounds = place.operate(&["rounds", "town", "--limit", "1000"]);
    let rounds = rounds["rounds"].as_array().unwrap();
    assert_eq!(rounds.len() as u64, simulated.rounds);
    assert!(rounds.iter().all(|round| round["counted"] == 40 && round["asked"] == 40), "{rounds:#?}");
    let updates = told["updates"].as_u64().unwrap();
    assert!(updates <= 40 * simulated.rounds, "{updates} updates were acknowledged");
    let deployed = place.model();
    assert!(deployed.iter().zip(&simulated.model).all(|(a, b)| a.to_bits() == b.to_bits()));
}

fn server_is_killed(database: Database, kills: usize, settings: &[String]) {
    let place = Place::new(database);
    let simulated = simulated(&place, settings);
    let mut serving = place.serve();
    found(&place, settings, simulated.rounds);
    let mut fleet = place.fleet("town", &["--data", TOWN]);
    let fleet = fleet.stdout(Stdio::piped()).spawn().unwrap();
    let mut rng = Rng::new(4);
    let mut killed = 0;
    for _ in 0..kills {
        // From before the first request to some rounds later.
        std::thread::sleep(Duration::from_millis(rng.below(160).into()));
        serving.kill();
        killed += 1;
        serving = place.serve();
        let state = place.operate(&["show", "town"]);
        if state["state"] == "finished" {
            break;
        }
    }
    let output = fleet.wait_with_output().unwrap();
    assert!(output.status.success(), "the fleet failed");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    // An acknowledgement that got lost is given again: each update was told of once.
    assert_eq!(told["updates"].as_u64(), Some(40 * simulated.rounds));
    check(&place, &told, &simulated);
    assert!(killed >= kills.min(50), "the federation was finished after {killed} kills of {kills}");
    eprintln!("{killed} kills of the server in {} rounds: the same bytes", simulated.rounds);
}

#[test]
fn a_server_killed_at_any_moment_loses_nothing_and_counts_nothing_twice() {
    for database in Database::all("server-killed") {
        server_is_killed(database, kills(50), &settings(kills(50)));
    }
}

/// Among others between a token and the upload that it is for: a device gets the same one again, and spends it once.
#[test]
fn so_it_is_with_updates_that_do_not_say_whose_they_are() {
    let settings = lasting(5, &["anonymous=true"]);
    for database in Database::all("server-killed-anonymous") {
        server_is_killed(database, 12, &settings);
    }
}

#[test]
fn so_it_is_where_only_sums_can_be_opened() {
    let settings = lasting(4, &["seal=secagg"]);
    for database in Database::all("server-killed-sealed") {
        server_is_killed(database, 12, &settings);
    }
}

#[test]
fn so_it_is_where_devices_show_who_they_are() {
    server_is_killed(Database::Sqlite, 6, &lasting(3, &["seal=secagg", "seal_identities=true"]));
}

/// Kills come so many milliseconds apart.
fn devices_are_killed(kills: usize, apart: std::ops::Range<u32>, settings: &[String]) {
    let place = Place::new(Database::Sqlite);
    let simulated = simulated(&place, settings);
    let _serving = place.serve();
    found(&place, settings, simulated.rounds);
    let store = place.path("devices");
    let arguments = ["--data", TOWN, "--store", store.to_str().unwrap()];
    let mut rng = Rng::new(9);
    for _ in 0..kills {
        let mut fleet = place.fleet("town", &arguments).stdout(Stdio::null()).spawn().unwrap();
        let pause = apart.start + rng.below(apart.end - apart.start);
        std::thread::sleep(Duration::from_millis(pause.into()));
        fleet.kill().unwrap();
        fleet.wait().unwrap();
    }
    let told: Value = serde_json::from_str(&printed(&mut place.fleet("town", &arguments))).unwrap();
    check(&place, &told, &simulated);
    eprintln!("{kills} kills of the devices in {} rounds: the same bytes", simulated.rounds);
}

#[test]
fn devices_killed_at_any_moment_count_once() {
    let kills = kills(15);
    devices_are_killed(kills, 150..500, &settings(kills));
}

/// Between the steps of a seal as well: who comes back says the very same again.
#[test]
fn so_do_devices_killed_between_the_steps_of_a_seal() {
    devices_are_killed(8, 300..1500, &lasting(4, &["seal=secagg"]));
}
