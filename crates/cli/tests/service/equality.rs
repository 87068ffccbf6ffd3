//! Simulated equals deployed.

use crate::common::program;
use crate::harness::{Database, Place, printed, simulate};
use serde_json::Value;

/// People, all of whom have something to learn from; `SOTTOVOCE_DEVICES` says how many.
fn devices() -> u64 {
    std::env::var("SOTTOVOCE_DEVICES").ok().and_then(|devices| devices.parse().ok()).unwrap_or(200)
}

fn town() -> String {
    format!("synth:town:users={}", devices())
}

fn as_arguments(settings: &[&'static str]) -> Vec<&'static str> {
    settings.iter().flat_map(|&setting| ["--set", setting]).collect()
}

/// Trains in the simulator and over HTTP, and compares every bit.
fn compare(model: &str, settings: &[&'static str]) {
    compare_knowing(model, &[], settings);
}

/// The same with what is known of the items: `--graph` and the like.
fn compare_knowing(model: &str, knowing: &[&str], settings: &[&'static str]) {
    let (place, town, devices) = (Place::new(Database::Sqlite), town(), devices().to_string());
    let data: Vec<&str> = [town.as_str()].iter().chain(knowing).copied().collect();
    let simulated = simulate(place.folder.path(), model, &data, settings);
    assert!(simulated.rounds > 2, "{} rounds", simulated.rounds);
    let _serving = place.serve();
    // How long it goes on is the operator's to say, not the model's.
    let rounds = simulated.rounds.to_string();
    let mut create =
        vec!["--model", model, "--catalog-of", &town, "--devices", &devices, "--check-in-seconds", "0"];
    create.extend(["--rounds", &rounds, "--simulated-noise"]);
    let (of_owners, of_operator): (Vec<_>, Vec<_>) =
        settings.iter().partition(|setting| setting.starts_with("pi"));
    create.extend(as_arguments(&of_operator));
    create.extend(knowing);
    let key = place.path("town.key");
    let key = ["--federation-key", key.to_str().unwrap()];
    let mut fleet = vec!["--data", &town, "--report", "all"];
    for setting in of_owners {
        let (key, value) = setting.split_once('=').unwrap();
        fleet.extend([if key == "pi" { "--pi" } else { "--pi-draw" }, value]);
    }
    if settings.iter().any(|setting| ["seal=bfv", "seal=ckks"].contains(setting)) {
        printed(program().args(["federation", "key", "--out", key[1]]));
        create.extend(key);
        fleet.extend(key);
    }
    place.found("town", &create);
    let told: Value = serde_json::from_str(&printed(&mut place.fleet("town", &fleet))).unwrap();
    assert_eq!(
        (told["devices"].as_u64(), told["version"].as_u64()),
        (devices.parse().ok(), Some(simulated.rounds))
    );
    let deployed = place.model();
    assert_eq!(deployed.len(), simulated.model.len());
    let differ = deployed.iter().zip(&simulated.model).filter(|(a, b)| a.to_bits() != b.to_bits()).count();
    assert_eq!(differ, 0, "{differ} of {} values differ: {model} {settings:?}", deployed.len());
    assert_eq!(place.operate(&["show", "town"])["privacy"]["epsilon"], simulated.epsilon, "{settings:?}");
    let held = place.operate(&["rounds", "town", "--limit", "1000"]);
    let honest = |round: &Value| round["counted"].as_u64() <= round["asked"].as_u64();
    assert!(held["rounds"].as_array().unwrap().iter().all(honest), "{held:#?}");
    let (rounds, values) = (simulated.rounds, deployed.len());
    eprintln!(
        "{devices} devices over HTTP, {rounds} rounds of {model}: all {values} values have the simulator's bits"
    );
}

#[test]
fn two_hundred_devices_over_http_come_to_the_simulators_bytes() {
    compare("fpl", &["factors=8", "triples=8", "cohort=90", "epochs=1"]);
}

#[test]
fn so_they_do_where_a_share_of_the_items_leaves() {
    let size = ["factors=4", "triples=8", "cohort=40", "epochs=1"];
    for owners in [["pi=0.4", "pi_draw=kept"], ["pi=0.4", "pi_draw=each-round"]] {
        compare("fpl", &[&size[..], &owners].concat());
    }
    // What devices say of themselves is about what they show.
    let weighing = ["weighing=prioritised", "criteria=diversity,closeness,size", "pi=0.4"];
    compare("fed-gmf", &[&["factors=6", "cohort=50", "epochs=1"][..], &weighing].concat());
    let noise = ["clip=0.5", "noise=sgd", "interactions=0.5", "pi=0.4"];
    compare("fpl", &[&size[..], &noise].concat());
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
    compare("fpl", &settings);
}

#[test]
fn so_they_do_with_whole_tables() {
    compare("fcf", &["factors=4", "epochs=4", "cohort=90"]);
}

#[test]
fn so_they_do_where_updates_count_by_what_devices_say() {
    let settings = [
        "factors=6",
        "cohort=50",
        "epochs=1",
        "local_epochs=2",
        "weighing=prioritised",
        "criteria=diversity,closeness,size",
    ];
    compare("fed-gmf", &settings);
}

#[test]
fn so_they_do_with_a_network_and_adaptive_steps_along_means() {
    let settings = ["hidden=8", "latent=4", "cohort=40", "epochs=1", "strategy=fedyogi", "weighing=samples"];
    compare("fed-vae", &settings);
}

#[test]
fn so_they_do_with_rows_that_are_features() {
    let settings = ["factors=4", "triples=8", "cohort=90", "epochs=1", "one_hop=20", "more_hops=20"];
    compare_knowing("kgflex", &["--graph", "town"], &settings);
}

#[test]
fn so_they_do_where_only_sums_can_be_opened() {
    let masks = "seal=secagg";
    compare("fpl", &["factors=4", "triples=8", "cohort=30", "epochs=1", masks]);
    compare("fcf", &["factors=4", "epochs=3", "cohort=60", masks, "buckets=3000"]);
}

#[test]
fn so_they_do_where_devices_show_who_they_are() {
    compare(
        "fpl",
        &["factors=4", "triples=8", "cohort=30", "epochs=1", "seal=secagg", "seal_identities=true"],
    );
}

#[test]
fn so_they_do_where_only_sums_of_features_can_be_opened() {
    let settings =
        ["factors=4", "triples=8", "cohort=60", "epochs=1", "one_hop=20", "more_hops=20", "seal=secagg"];
    compare_knowing("kgflex", &["--graph", "town"], &settings);
}

#[test]
fn so_they_do_with_noise_wherever_it_is_added() {
    let common = ["factors=4", "triples=8", "cohort=40", "epochs=1", "clip=0.5"];
    for noise in [&["noise=central"][..], &["noise=local"], &["noise=distributed", "seal=secagg"]] {
        compare("fpl", &[&common[..], noise].concat());
    }
    compare("fcf", &["factors=4", "epochs=3", "cohort=60", "clip=2", "noise=central", "sampling=fixed"]);
}

#[test]
fn so_they_do_with_laplace_noise() {
    let common = ["factors=4", "triples=8", "cohort=40", "epochs=1", "clip=2", "noise_shape=laplace"];
    for noise in [&["noise=central", "seal=bfv"][..], &["noise=local"]] {
        compare("fpl", &[&common[..], noise].concat());
    }
}

#[test]
fn so_they_do_with_a_clip_that_follows_the_updates() {
    let common = ["factors=4", "triples=8", "cohort=40", "epochs=1", "clip=0.5", "clip_quantile=0.5"];
    for noise in [&["noise=central"][..], &["noise=local"], &["noise=distributed", "seal=secagg"]] {
        compare("fpl", &[&common[..], noise].concat());
    }
    compare(
        "fcf",
        &[
            "factors=4",
            "epochs=3",
            "cohort=60",
            "clip=2",
            "clip_quantile=0.7",
            "noise=distributed",
            "seal=bfv",
        ],
    );
}

#[test]
fn so_they_do_with_noise_on_single_interactions() {
    let common = ["factors=4", "cohort=40", "epochs=1", "clip=0.5", "noise=sgd", "interactions=0.5"];
    compare("fpl", &[&common[..], &["triples=8"]].concat());
    compare("fpl", &[&common[..], &["triples=8", "seal=secagg"]].concat());
    compare("fed-gmf", &common);
}

#[test]
fn so_they_do_with_noise_on_features() {
    let settings = [
        "factors=4",
        "triples=8",
        "cohort=60",
        "epochs=1",
        "one_hop=20",
        "more_hops=20",
        "clip=0.5",
        "noise=distributed",
        "seal=secagg",
    ];
    compare_knowing("kgflex", &["--graph", "town"], &settings);
}

#[test]
fn so_they_do_with_sums_that_devices_open() {
    compare("fpl", &["factors=4", "triples=8", "cohort=40", "epochs=1", "seal=bfv"]);
    compare("fcf", &["factors=4", "epochs=3", "cohort=60", "seal=ckks"]);
}

#[test]
fn so_they_do_with_sums_of_features_that_devices_open() {
    let settings =
        ["factors=4", "triples=8", "cohort=60", "epochs=1", "one_hop=20", "more_hops=20", "seal=ckks"];
    compare_knowing("kgflex", &["--graph", "town"], &settings);
}

#[test]
fn so_they_do_where_uploads_do_not_say_whose_they_are() {
    let common = ["factors=4", "triples=8", "cohort=40", "epochs=1", "anonymous=true"];
    for noise in [&[][..], &["noise=central", "clip=0.5"], &["noise=local", "clip=0.5"]] {
        compare("fpl", &[&common[..], noise].concat());
    }
    compare("fcf", &["factors=4", "epochs=3", "cohort=60", "anonymous=true"]);
}

#[test]
fn so_they_do_with_features_of_nobody() {
    let settings =
        ["factors=4", "triples=8", "cohort=60", "epochs=1", "one_hop=20", "more_hops=20", "anonymous=true"];
    compare_knowing("kgflex", &["--graph", "town"], &settings);
}
