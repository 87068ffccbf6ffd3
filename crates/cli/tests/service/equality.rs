//! Training over HTTP equals the simulator, bit for bit. A few models here; all of them in process (crates/federation).

use crate::harness::{Database, TestServer, printed, program, simulate};
use serde_json::Value;

/// The number of devices: `SOTTOVOCE_DEVICES`, or a default that suits a test run.
fn devices() -> u64 {
    std::env::var("SOTTOVOCE_DEVICES").ok().and_then(|devices| devices.parse().ok()).unwrap_or(100)
}

fn town() -> String {
    format!("synth:town:users={}", devices())
}

fn as_arguments(settings: &[&'static str]) -> Vec<&'static str> {
    settings.iter().flat_map(|&setting| ["--set", setting]).collect()
}

/// Trains in the simulator and over HTTP, and compares every bit; `facts`: arguments such as `--graph`.
fn compare(model: &str, facts: &[&str], settings: &[&'static str]) {
    compare_on(&town(), model, facts, settings);
}

fn compare_on(town: &str, model: &str, facts: &[&str], settings: &[&'static str]) {
    let server = TestServer::new(Database::Sqlite);
    let data: Vec<&str> = [town].iter().chain(facts).copied().collect();
    let simulated = simulate(server.folder.path(), model, &data, settings);
    // Of a click log half of the people take part.
    let devices = simulated.people.unwrap_or_else(devices).to_string();
    assert!(simulated.rounds > 2, "{} rounds", simulated.rounds);
    let _serving = server.serve();
    let rounds = simulated.rounds.to_string();
    let mut create = vec!["--model", model, "--catalog-of", town, "--devices", &devices, "--check-in-seconds", "0"];
    create.extend(["--rounds", &rounds, "--simulated-noise"]);
    let (of_owners, of_operator): (Vec<_>, Vec<_>) = settings.iter().partition(|setting| setting.starts_with("pi"));
    create.extend(as_arguments(&of_operator));
    create.extend(facts);
    let key = server.path("town.key");
    let key = ["--federation-key", key.to_str().unwrap()];
    let mut fleet = vec!["--data", town, "--report", "all"];
    let sealed = settings.contains(&"seal=secagg");
    for setting in of_owners {
        let (key, value) = setting.split_once('=').unwrap();
        match key {
            // What open rounds would use does not matter then; the simulator's pi is that of the rounds it holds.
            "pi" if sealed => fleet.extend(["--pi", "0.2", "--sealed-pi", value]),
            "pi" => fleet.extend(["--pi", value]),
            _ => fleet.extend(["--pi-draw", value]),
        }
    }
    if settings.iter().any(|setting| ["seal=bfv", "seal=ckks"].contains(setting)) {
        printed(program().args(["federation", "key", "--out", key[1]]));
        create.extend(key);
        fleet.extend(key);
    }
    server.create("town", &create);
    let told: Value = serde_json::from_str(&printed(&mut server.fleet("town", &fleet))).unwrap();
    assert_eq!((told["devices"].as_u64(), told["version"].as_u64()), (devices.parse().ok(), Some(simulated.rounds)));
    let deployed = server.model();
    assert_eq!(deployed.len(), simulated.model.len());
    let differ = deployed.iter().zip(&simulated.model).filter(|(a, b)| a.to_bits() != b.to_bits()).count();
    assert_eq!(differ, 0, "{differ} of {} values differ: {model} {settings:?}", deployed.len());
    assert_eq!(server.operate(&["show", "town"])["privacy"]["epsilon"], simulated.epsilon, "{settings:?}");
    let held = server.operate(&["rounds", "town", "--limit", "1000"]);
    let honest = |round: &Value| round["counted"].as_u64() <= round["asked"].as_u64();
    assert!(held["rounds"].as_array().unwrap().iter().all(honest), "{held:#?}");
    let (rounds, values) = (simulated.rounds, deployed.len());
    eprintln!("{devices} devices over HTTP, {rounds} rounds of {model}: all {values} values equal the simulator's");
}

#[test]
fn equality_fpl() {
    compare("fpl", &[], &["factors=8", "triples=8", "cohort=45", "epochs=1", "pi=0.4"]);
}

#[test]
fn equality_fpl_with_secure_aggregation() {
    compare("fpl", &[], &["factors=4", "triples=8", "cohort=20", "epochs=1", "seal=secagg"]);
}

/// Rounds of 60 count as sealed for devices that have a pi of their own for such.
#[test]
fn equality_fpl_with_a_pi_of_sealed_rounds() {
    compare("fpl", &[], &["factors=2", "triples=8", "cohort=60", "epochs=1", "seal=secagg", "pi=0.7"]);
}

#[cfg(feature = "he")]
#[test]
fn equality_fcf_with_encryption() {
    compare("fcf", &[], &["factors=4", "epochs=3", "cohort=60", "seal=bfv"]);
}

#[test]
fn equality_kgflex_with_facts() {
    let settings = ["factors=4", "triples=8", "cohort=45", "epochs=1", "one_hop=20", "more_hops=20"];
    compare("kgflex", &["--graph", "town"], &settings);
}

#[test]
fn equality_lookalike_with_titles() {
    let settings = ["code=6", "units=4", "dim=16", "cohort=20", "epochs=1", "pi=0.6", "page_dropout=0.2"];
    compare_on("synth:clicks:users=200", "lookalike", &[], &settings);
}

#[test]
fn equality_refrs_with_clusters() {
    let small = ["dim=4", "codes=4", "decoder_units=4", "recommender_units=4"];
    let short = ["local_epochs=1", "recommender_epochs=1", "cohort=25", "epochs=3"];
    let clusters = ["assignment=sampler", "late_clustering=wait"];
    compare("refrs", &[], &[&small[..], &short[..], &clusters[..]].concat());
}
