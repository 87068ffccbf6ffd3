//! Studies of aggregation, on a few made-up faces and a few digits.

use sottovoce_experiment::journal::Existing;
use sottovoce_experiment::study::{Course, Ending, Event, Options, Results, Study, StudyError, compose, run};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const FACES: &str = r#"
title = "Faces"
seeds = [1, 2]
[study]
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

fn study(text: &str) -> Study {
    Study::parse("study.toml", text).unwrap()
}

fn run_in(folder: &Path, study: &Study, jobs: usize, existing: Existing) -> Result<Results, StudyError> {
    let stop = &AtomicBool::new(false);
    run(study, &Options { folder, existing, jobs, data_dir: Some(folder), stop, report: &|_| {} })
}

/// All but times.
fn without_times(results: &Results) -> Results {
    let mut results = results.clone();
    let courses = results.rows.iter_mut().flat_map(|row| &mut row.courses);
    courses.for_each(|course| course.seconds = 0.0);
    results
}

#[test]
fn a_study_comes_to_the_same_side_by_side_and_when_it_was_killed() {
    let study = study(FACES);
    let [one, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let results = run_in(one.path(), &study, 1, Existing::Resume).unwrap();
    let expected = without_times(&results);
    assert_eq!((results.rows.len(), results.rows[1].label.as_str()), (2, "CB > IS > DS"));
    for course in results.rows.iter().flat_map(|row| &row.courses) {
        assert_eq!((course.rounds(), &course.ending), (5, &Ending::Rounds));
        assert!(course.loss[1..].iter().any(|&later| later < course.loss[0]), "{:?}", course.loss);
    }
    let [first, second] = [0, 1].map(|seed| &results.rows[0].courses[seed].accuracy);
    assert_ne!(first, second);
    assert_ne!(first, &results.rows[1].courses[0].accuracy);

    // Stopped in the third round of the second training, one round after its checkpoint.
    let (stop, rounds) = (AtomicBool::new(false), AtomicUsize::new(0));
    let report = |event: Event<'_>| {
        let round = matches!(event, Event::Round { .. });
        if round && rounds.fetch_add(1, Ordering::Relaxed) == 7 {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let folder = other.path();
    let existing = Existing::Resume;
    let options = Options { folder, existing, jobs: 1, data_dir: None, stop: &stop, report: &report };
    assert!(matches!(run(&study, &options), Err(StudyError::Interrupted)));
    let done = AtomicUsize::new(0);
    let report = |event: Event<'_>| match event {
        Event::Begun { recorded, .. } => assert_eq!(recorded, 1),
        Event::Round { .. } => drop(done.fetch_add(1, Ordering::Relaxed)),
        Event::Finished { .. } => {}
    };
    stop.store(false, Ordering::Relaxed);
    let resumed = run(&study, &Options { jobs: 3, report: &report, ..options }).unwrap();
    assert_eq!(without_times(&resumed), expected);
    assert_eq!(done.into_inner(), 3 + 5 + 5, "two rounds were kept by the checkpoint");
}

#[test]
fn another_file_is_not_taken_for_the_one_that_was_begun() {
    let folder = tempfile::tempdir().unwrap();
    let first = study(&FACES.replace("rounds = 5", "rounds = 1").replace("[1, 2]", "[1]"));
    run_in(folder.path(), &first, 1, Existing::Resume).unwrap();
    let more = study(&FACES.replace("rounds = 5", "rounds = 1"));
    let error = run_in(folder.path(), &more, 1, Existing::Resume).unwrap_err().to_string();
    assert!(error.contains("another version of the experiment file"), "{error}");
    let results = run_in(folder.path(), &more, 1, Existing::Amend).unwrap();
    assert_eq!(results.rows[0].courses.len(), 2);
}

fn idx(sides: &[u32], values: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, sides.len() as u8];
    sides.iter().for_each(|side| bytes.extend(side.to_be_bytes()));
    bytes.extend(values);
    bytes
}

/// Digits that can be told by which row is bright.
fn digits(folder: &Path) {
    for (name, count) in [("train", 200u32), ("t10k", 100)] {
        let labels: Vec<u8> = (0..count).map(|n| (n * 7 % 10) as u8).collect();
        let image = |label: u8| (0..100u32).map(move |n| if n / 10 == u32::from(label) { 250 } else { 10 });
        let pixels: Vec<u8> = labels.iter().flat_map(|&label| image(label)).collect();
        fs::write(folder.join(format!("{name}-images-idx3-ubyte")), idx(&[count, 10, 10], &pixels)).unwrap();
        fs::write(folder.join(format!("{name}-labels-idx1-ubyte")), idx(&[count], &labels)).unwrap();
    }
}

fn digits_study(partition: &str) -> String {
    format!(
        "title = \"Digits\"\nseeds = [3]\n[study]\naggregations = [\"ds\", \"ld\", \"mw > ld > ds\"]\nrounds = 40\n\
         targets = [0.5, 0.9]\ndevices = [0.2, 0.8]\n[images]\nkind = \"mnist\"\nfolder = \"digits\"\nclients = 10\n\
         partition = \"{partition}\"\n[training]\nnetwork = \"mlp\"\nshare = 0.5\nbatch = 5\nepochs = 2\n\
         learning_rate = [0.0001, 0.2]\n"
    )
}

#[test]
fn digits_are_learnt_and_the_faster_rate_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("digits")).unwrap();
    digits(&folder.path().join("digits"));
    for partition in ["iid", "shards"] {
        let text = digits_study(partition);
        let study = study(&text);
        let runs = folder.path().join(partition);
        let stop = &AtomicBool::new(false);
        let options = Options {
            folder: &runs,
            existing: Existing::Resume,
            jobs: 2,
            data_dir: Some(folder.path()),
            stop,
            report: &|_| {},
        };
        let results = run(&study, &options).unwrap();
        assert_eq!((results.rate, results.tried.len(), results.devices), (0.2, 2, 10));
        let endings = results.rows.iter().flat_map(|row| &row.courses).map(|course: &Course| &course.ending);
        assert!(endings.into_iter().all(|ending| *ending == Ending::Targets), "{partition}");
        let report = compose(&study, &text, &results, &[]);
        let captions: Vec<&str> = report.tables().map(|table| table.caption.as_str()).collect();
        assert_eq!(captions.len(), 5, "{captions:?}");
        let table = report.tables().next().unwrap();
        let (rounds, reached) = results.rows[0].round_of(0, 0.8, 10, 40);
        assert!(reached && rounds >= 1.0);
        assert_eq!(table.rows[0].cells[1].value, Some(rounds));
        let gained = rounds - results.rows[2].round_of(0, 0.8, 10, 40).0;
        assert_eq!(table.rows[2].cells[1].value, Some(gained));
        let confusion = report.tables().find(|table| table.caption.starts_with("Test images")).unwrap();
        let images: f64 = confusion.rows[0].cells.iter().filter_map(|cell| cell.value).sum();
        assert_eq!(images, 100.0);
        assert!(report.to_html().contains("Accuracy by round"));
    }
}

#[test]
fn what_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let error =
        run_in(folder.path(), &study(&digits_study("iid")), 1, Existing::Resume).unwrap_err().to_string();
    assert!(error.starts_with("digits: a folder of this name (looked for here and under "), "{error}");
    fs::create_dir(folder.path().join("digits")).unwrap();
    let error =
        run_in(folder.path(), &study(&digits_study("iid")), 1, Existing::Resume).unwrap_err().to_string();
    assert!(error.contains("train-images-idx3-ubyte") && error.contains("is missing"), "{error}");
    digits(&folder.path().join("digits"));
    let many = digits_study("shards").replace("clients = 10", "clients = 90");
    let error = run_in(folder.path(), &study(&many), 1, Existing::Resume).unwrap_err().to_string();
    assert!(error.contains("cannot be cut into 180 parts"), "{error}");
    let large = FACES.replace("\"mlp\"", "\"cnn\"").replace("side = 12", "side = 4");
    assert!(run_in(folder.path(), &study(&large), 1, Existing::Resume).is_err());
}
