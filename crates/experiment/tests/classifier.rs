//! Experiments on classifiers, with a few synthetic faces and a few digits.

mod common;

use common::without_cost;
use sottovoce_experiment::Experiment;
use sottovoce_experiment::classifier::{AccuracyCurve, Classifiers, StopReason};
use sottovoce_experiment::engine::{self, Event, Options, RunError};
use sottovoce_experiment::journal::Existing;
use sottovoce_experiment::report::{compose, headline};
use sottovoce_experiment::results::{Results, Row};
use sottovoce_models::settings::Value;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const FACES: &str = r#"
title = "Faces"
seeds = [1, 2]
[classifier]
aggregations = ["ds", "cb > is > ds"]
rounds = 5
targets = [0.6, 0.99]
devices = [0.3, 0.9]
checkpoint_every = 2
[images]
kind = "faces"
people = 12
side = 12
colour = false
[training]
network = "mlp"
share = 0.4
epochs = 2
learning_rate = 0.2
"#;

fn parse(text: &str) -> Experiment {
    Experiment::parse("faces.toml", text, &[]).unwrap_or_else(|error| panic!("{error}"))
}

fn run_in(folder: &Path, experiment: &Experiment, existing: Existing) -> Result<Results, RunError> {
    let trials = Classifiers::new(Some(folder.to_owned()));
    engine::run(experiment, &trials, &Options { existing, ..Options::new(folder) })
}

fn curves(row: &Row) -> Vec<&AccuracyCurve> {
    row.finals.iter().filter_map(|each| each.run.accuracy_curve.as_ref()).collect()
}

#[test]
fn parallel_and_resumed_runs_give_the_same_results() {
    let experiment = parse(FACES);
    let [one, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let results = run_in(one.path(), &experiment, Existing::Resume).unwrap();
    let rows = &results.data[0].rows;
    assert_eq!((rows.len(), rows[1].label.as_str()), (2, "CB > IS > DS"));
    for curve in rows.iter().flat_map(curves) {
        assert_eq!((curve.rounds(), &curve.ending), (5, &StopReason::Rounds));
        assert!(curve.loss[1..].iter().any(|&later| later < curve.loss[0]), "{:?}", curve.loss);
    }
    let [first, second] = [0, 1].map(|seed| &curves(&rows[0])[seed].accuracy);
    assert_ne!(first, second);
    assert_ne!(first, &curves(&rows[1])[0].accuracy);

    // Stopped in the third round of the second training, one round after its checkpoint.
    let (stop, rounds) = (AtomicBool::new(false), AtomicUsize::new(0));
    let report = |event: Event<'_>| {
        let round = matches!(event, Event::Progress { .. });
        if round && rounds.fetch_add(1, Ordering::Relaxed) == 7 {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let trials = Classifiers::new(None);
    let options = Options { stop: &stop, report: &report, ..Options::new(other.path()) };
    assert!(matches!(engine::run(&experiment, &trials, &options), Err(RunError::Interrupted)));
    let done = AtomicUsize::new(0);
    let report = |event: Event<'_>| match event {
        Event::Begun { recorded, .. } => assert_eq!(recorded, 1),
        Event::Progress { .. } => drop(done.fetch_add(1, Ordering::Relaxed)),
        _ => {}
    };
    let options = Options { jobs: 3, report: &report, ..Options::new(other.path()) };
    let resumed = engine::run(&experiment, &trials, &options).unwrap();
    assert_eq!(without_cost(&resumed), without_cost(&results));
    assert_eq!(done.into_inner(), 3 + 5 + 5, "two rounds were restored from the checkpoint");
    assert!(fs::read_dir(other.path().join("checkpoints")).unwrap().next().is_none());
}

#[test]
fn rejects_a_changed_file_unless_it_is_amended() {
    let folder = tempfile::tempdir().unwrap();
    let first = parse(&FACES.replace("rounds = 5", "rounds = 1").replace("[1, 2]", "[1]"));
    run_in(folder.path(), &first, Existing::Resume).unwrap();
    let more = parse(&FACES.replace("rounds = 5", "rounds = 1"));
    let error = run_in(folder.path(), &more, Existing::Resume).unwrap_err().to_string();
    assert!(error.contains("another version of the experiment file"), "{error}");
    let results = run_in(folder.path(), &more, Existing::Amend).unwrap();
    assert_eq!(curves(&results.data[0].rows[0]).len(), 2);
}

fn idx(sides: &[u32], values: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, sides.len() as u8];
    sides.iter().for_each(|side| bytes.extend(side.to_be_bytes()));
    bytes.extend(values);
    bytes
}

/// Digits that are recognised by which row is bright.
fn digits(folder: &Path) {
    for (name, count) in [("train", 200u32), ("t10k", 100)] {
        let labels: Vec<u8> = (0..count).map(|n| (n * 7 % 10) as u8).collect();
        let image = |label: u8| (0..100u32).map(move |n| if n / 10 == u32::from(label) { 250 } else { 10 });
        let pixels: Vec<u8> = labels.iter().flat_map(|&label| image(label)).collect();
        fs::write(folder.join(format!("{name}-images-idx3-ubyte")), idx(&[count, 10, 10], &pixels)).unwrap();
        fs::write(folder.join(format!("{name}-labels-idx1-ubyte")), idx(&[count], &labels)).unwrap();
    }
}

fn digits_file(partition: &str) -> String {
    format!(
        "title = \"Digits\"\nseeds = [3]\n[classifier]\naggregations = [\"ds\", \"ld\", \"mw > ld > ds\"]\nrounds = 40\n\
         targets = [0.5, 0.9]\ndevices = [0.2, 0.8]\n[images]\nkind = \"mnist\"\nfolder = \"digits\"\nclients = 10\n\
         partition = \"{partition}\"\n[training]\nnetwork = \"mlp\"\nshare = 0.5\nbatch = 5\nepochs = 2\n\
         learning_rate = [0.0001, 0.2]\n"
    )
}

#[test]
fn learns_digits_with_the_faster_learning_rate() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("digits")).unwrap();
    digits(&folder.path().join("digits"));
    for partition in ["iid", "shards"] {
        let text = digits_file(partition);
        let experiment = parse(&text);
        let runs = folder.path().join(partition);
        let trials = Classifiers::new(Some(folder.path().to_owned()));
        let results = engine::run(&experiment, &trials, &Options { jobs: 2, ..Options::new(&runs) }).unwrap();
        let data = &results.data[0];
        assert_eq!((data.rows[0].tried.len(), data.card.card.users), (2, 10));
        for row in &data.rows {
            assert_eq!(row.settings["learning_rate"], Value::Real(0.2), "{partition}");
            assert!(curves(row).iter().all(|curve| curve.ending == StopReason::Targets), "{partition}");
        }
        let report = compose(&experiment, &text, &results, &[]);
        let captions: Vec<&str> = report.tables().map(|table| table.caption.as_str()).collect();
        assert_eq!(captions.len(), 5, "{captions:?}");
        assert_eq!(headline(&report).unwrap().caption, "Rounds until devices reach 90 %");
        let table = report.tables().next().unwrap();
        let round = |row: &Row| curves(row)[0].round_of(0, 0.8, 10).unwrap() as f64;
        let rounds = round(&data.rows[0]);
        assert!(rounds >= 1.0);
        assert_eq!(table.rows[0].cells[1].value, Some(rounds));
        assert_eq!(table.rows[2].cells[1].value, Some(rounds - round(&data.rows[2])));
        let confusion = report.tables().find(|table| table.caption.starts_with("Test images")).unwrap();
        let images: f64 = confusion.rows[0].cells.iter().filter_map(|cell| cell.value).sum();
        assert_eq!(images, 100.0);
        assert!(report.to_html().contains("Accuracy by round"));
    }
}

#[test]
fn errors_name_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let error = |text: &str| run_in(folder.path(), &parse(text), Existing::Fresh).expect_err("an error").to_string();
    let found = error(&digits_file("iid"));
    assert!(found.contains("digits: a folder of this name (looked for here and under "), "{found}");
    fs::create_dir(folder.path().join("digits")).unwrap();
    let found = error(&digits_file("iid"));
    assert!(found.contains("train-images-idx3-ubyte") && found.contains("is missing"), "{found}");
    digits(&folder.path().join("digits"));
    let found = error(&digits_file("shards").replace("clients = 10", "clients = 90"));
    assert!(found.contains("cannot be cut into 180 parts"), "{found}");
    let found = error(&FACES.replace("\"mlp\"", "\"cnn\"").replace("side = 12", "side = 4"));
    assert!(found.contains("8 to 256 pixels"), "{found}");
}
