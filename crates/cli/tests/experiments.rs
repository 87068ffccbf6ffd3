//! `run` and `demo`: reports, and resuming after a kill.

mod common;

use common::{failure, json, printed, program};
use serde_json::Value;
use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

const EXPERIMENT: &str = r#"
title = "A small comparison"
data = ["synth:town:users=120"]
seeds = 2
[protocol]
at = [10, 5]
[[model]]
name = "mostpop"
[[model]]
name = "item-knn"
grid = { k = [10, 40] }
[[model]]
name = "bpr-mf"
set = { epochs = 40 }
[model.search]
trials = 6
[model.search.over]
learning_rate = { low = 0.005, high = 0.2 }
"#;

/// Results without times and memory.
fn comparable(mut results: Value) -> String {
    strip(&mut results);
    results.to_string()
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| name != "cost" && !name.ends_with("_seconds") && name != "peak_rss_bytes");
            fields.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

#[test]
fn a_killed_and_resumed_experiment_gives_the_same_results() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("small.toml");
    fs::write(&file, EXPERIMENT).unwrap();
    let file = file.to_str().unwrap();
    let folder = |name: &str| temp.path().join(name).to_str().unwrap().to_owned();
    let whole = json(&["run", file, "--out", &folder("whole"), "--jobs", "1"]);

    let journal = temp.path().join("killed/journal.jsonl");
    let mut kills = 0;
    for lines in [3, 6, 9] {
        let mut child = program()
            .args(["run", file, "--out", &folder("killed"), "--quiet"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let started = Instant::now();
        let recorded = || fs::read_to_string(&journal).map_or(0, |text| text.lines().count());
        while recorded() < lines && child.try_wait().unwrap().is_none() && started.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(2));
        }
        kills += usize::from(child.try_wait().unwrap().is_none());
        // SIGKILL: the program gets no chance to tidy up.
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!(kills > 0, "no run was killed before it ended");
    let resumed = json(&["run", file, "--out", &folder("killed"), "--jobs", "2"]);
    assert!(comparable(resumed) == comparable(whole), "a resumed run gave other results");

    let page = fs::read_to_string(temp.path().join("killed/report.html")).unwrap();
    assert!(page.contains("A small comparison") && page.contains("BPR-MF"));

    fs::write(file, EXPERIMENT.replace("seeds = 2", "seeds = 3")).unwrap();
    let message = failure(1, &["run", file, "--out", &folder("killed")]);
    assert!(message.contains("--fresh") || message.contains("--amend"), "{message}");
    printed(&["run", file, "--out", &folder("killed"), "--amend"]);
}

#[test]
fn errors_in_the_file_name_their_line() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("wrong.toml");
    fs::write(&file, EXPERIMENT.replace("\"mostpop\"", "\"mostpopp\"")).unwrap();
    let message = failure(2, &["run", file.to_str().unwrap()]);
    assert!(message.contains("wrong.toml:8") && message.contains("did you mean `mostpop`?"), "{message}");
}

#[test]
fn shows_the_plan_without_running_it() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("small.toml");
    fs::write(&file, EXPERIMENT).unwrap();
    let plan = json(&["run", file.to_str().unwrap(), "--plan"]);
    // MostPop 2 seeds; Item-kNN 2 points and 2 seeds; BPR-MF 6 points and 2 seeds.
    assert_eq!(plan["trials"], 2 + 4 + 8);
}

#[test]
fn the_demo_writes_a_report() {
    let temp = tempfile::tempdir().unwrap();
    let folder = temp.path().join("demo");
    let text = printed(&["demo", "--users", "60", "--no-open", "--out", folder.to_str().unwrap()]);
    assert!(text.contains("report.html") && text.contains("EASE"), "{text}");
    let lead = "and updates sealed, so that the server sees sums only, FedSpectral, sealed";
    assert!(text.contains(lead), "{text}");
    assert!(text.contains("With differential privacy, ") && text.contains("FedEASE-Top, sealed, ε 8"), "{text}");
    assert!(text.contains("With open updates, FPL, open, π 1"), "{text}");
    assert!(text.contains("the whole history") && text.contains("nothing"), "{text}");
    assert!(text.contains("updates from 100 % of the history"), "{text}");
    let table = text.find("What leaves a device").unwrap();
    let at = |words: &str| table + text[table..].find(words).unwrap_or_else(|| panic!("{words}: {text}"));
    assert!(at("FPL, sealed, π 1") < at("FPL, open, π 0") && at("FPL, open, π 1") < at("MostPop"), "{text}");
    for name in ["report.html", "report.json", "results.json"] {
        assert!(fs::metadata(folder.join(name)).unwrap().len() > 1000, "{name}");
    }
}
