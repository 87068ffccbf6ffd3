//! Simulated equals deployed.

use crate::harness::{Database, Place, printed, simulate};
use serde_json::Value;

/// Two hundred people, all of whom have something to learn from.
const TOWN: &str = "synth:town:users=200";

fn as_arguments(settings: &[&'static str]) -> Vec<&'static str> {
    settings.iter().flat_map(|&setting| ["--set", setting]).collect()
}

/// Trains in the simulator and over HTTP, and compares every bit.
fn compare(model: &str, settings: &[&'static str], a_round: u64) {
    let place = Place::new(Database::Sqlite);
    let simulated = simulate(place.folder.path(), model, TOWN, settings, a_round);
    assert!(simulated.rounds > 2, "{} rounds", simulated.rounds);
    let _serving = place.serve();
    // How long it goes on is the operator's to say, not the model's.
    let rounds = simulated.rounds.to_string();
    let mut create =
        vec!["--model", model, "--catalog-of", TOWN, "--devices", "200", "--check-in-seconds", "0"];
    create.extend(["--rounds", &rounds]);
    create.extend(as_arguments(settings));
    place.found("town", &create);
    let told: Value = serde_json::from_str(&printed(&mut place.fleet("town", &["--data", TOWN]))).unwrap();
    assert_eq!((told["devices"].as_u64(), told["version"].as_u64()), (Some(200), Some(simulated.rounds)));
    let deployed = place.model();
    assert_eq!(deployed.len(), simulated.model.len());
    let differ = deployed.iter().zip(&simulated.model).filter(|(a, b)| a.to_bits() != b.to_bits()).count();
    assert_eq!(differ, 0, "{differ} of {} values differ: {model} {settings:?}", deployed.len());
}

#[test]
fn two_hundred_devices_over_http_come_to_the_simulators_bytes() {
    compare("fpl", &["factors=8", "triples=8", "cohort=90", "epochs=1"], 90 * 8);
}

#[test]
fn so_they_do_with_small_messages_and_a_strategy_that_remembers() {
    let settings = [
        "factors=8",
        "triples=8",
        "cohort=40",
        "epochs=1",
        "strategy=adaptive",
        "values=i8-row",
        "download=i8-row",
        "differences=true",
        "least_change=0.1",
    ];
    compare("fpl", &settings, 40 * 8);
}

#[test]
fn so_they_do_with_whole_tables() {
    // Triples are interactions here: an epoch of all devices has as many rounds as one.
    let place = tempfile::tempdir().unwrap();
    let all = simulate(place.path(), "fcf", TOWN, &["factors=4", "epochs=1"], 1).rounds;
    compare("fcf", &["factors=4", "epochs=4"], all);
}
