//! Trainings that are killed and resumed, and checkpoints that cannot be used.

mod common;

use common::{failure, printed, program, without_cost};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const TRAIN: &[&str] = &[
    "train",
    "--model",
    "fpl",
    "--data",
    "synth:town:users=300",
    "--validation",
    "temporal:0.8",
    "--patience",
    "100",
    "--set",
    "epochs=120",
    "--set",
    "cohort=100",
    "--set",
    "dropout=0.1",
    "--set",
    "straggler_spread=0.5",
    "--set",
    "deadline=90",
    "--quiet",
];

fn arguments<'a>(more: &[&'a str]) -> Vec<&'a str> {
    TRAIN.iter().copied().chain(more.iter().copied()).collect()
}

/// The files of a trained model; the report without its costs.
fn model(folder: &Path) -> (Vec<u8>, Vec<u8>, Value) {
    let read = |name: &str| fs::read(folder.join(name)).unwrap();
    let report = without_cost(serde_json::from_slice(&read("run.json")).unwrap());
    (read("model.safetensors"), read("updates.tsv"), report)
}

/// Starts a training and kills it some time after it has written a checkpoint; says whether it was still running then.
fn killed_after_a_checkpoint(command: &[&str], file: &Path, pause: Duration) -> bool {
    let before = fs::read(file).ok();
    let mut child = program().args(command).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while child.try_wait().unwrap().is_none() && fs::read(file).ok() == before {
        std::thread::sleep(Duration::from_micros(300));
    }
    std::thread::sleep(pause);
    let running = child.try_wait().unwrap().is_none();
    child.kill().unwrap();
    child.wait().unwrap();
    running
}

/// `SOTTOVOCE_KILLS` says how often; by default a few times.
#[test]
fn a_killed_and_resumed_training_gives_the_same_bytes() {
    let temp = tempfile::tempdir().unwrap();
    let path = |name: &str| temp.path().join(name).to_str().unwrap().to_owned();
    printed(&arguments(&["--out", &path("whole")]));
    let (checkpoints, out) = (path("checkpoints"), path("killed"));
    let command = arguments(&["--out", &out, "--checkpoint", &checkpoints, "--checkpoint-every", "3rounds"]);
    let file = temp.path().join("checkpoints/train.checkpoint");
    let wanted = std::env::var("SOTTOVOCE_KILLS").map_or(5, |number| number.parse().unwrap());
    let (mut kills, started) = (0, Instant::now());
    while kills < wanted {
        assert!(started.elapsed() < Duration::from_secs(60 + wanted), "only {kills} of {wanted} trainings were killed");
        // SIGKILL: the program gets no chance to tidy up.
        if killed_after_a_checkpoint(&command, &file, Duration::from_micros(kills * 1700 % 13_000)) {
            kills += 1;
        } else {
            fs::remove_dir_all(&checkpoints).unwrap();
        }
    }
    let loud: Vec<&str> = command.iter().copied().filter(|word| *word != "--quiet").chain(["--resume"]).collect();
    let resumed = program().args(&loud).output().unwrap();
    let notes = String::from_utf8_lossy(&resumed.stderr).into_owned();
    assert!(resumed.status.success() && notes.contains("resuming after epoch"), "{notes}");
    assert!(model(&temp.path().join("killed")) == model(&temp.path().join("whole")), "other bytes");
    // Once more, from a checkpoint of the finished training: the same again.
    printed(&command);
    assert!(model(&temp.path().join("killed")) == model(&temp.path().join("whole")));
}

#[test]
fn rejects_checkpoints_that_cannot_be_used() {
    let temp = tempfile::tempdir().unwrap();
    let checkpoints = temp.path().join("checkpoints");
    let folder = checkpoints.to_str().unwrap();
    let short =
        ["train", "--model", "fpl", "--data", "synth:town:users=60", "--set", "epochs=3", "--checkpoint", folder];
    let with = |more: &[&'static str]| -> Vec<&str> { short.iter().copied().chain(more.iter().copied()).collect() };
    let missing = failure(1, &with(&["--resume"]));
    assert!(missing.contains("there is no checkpoint"), "{missing}");
    printed(&short);
    let other = failure(1, &with(&["--set", "pi=0.5", "--seed", "9"]));
    assert!(other.contains("pi was 1 and is 0.5") && other.contains("seed was "), "{other}");
    let data = failure(1, &with(&["--min-interactions", "30"]));
    assert!(data.contains("data fingerprint was"), "{data}");
    printed(&with(&["--set", "pi=0.5", "--fresh"]));

    let weights = temp.path().join("weights");
    fs::write(&weights, "0 2\n16 1\n").unwrap();
    let named = format!("weights_file={}", weights.display());
    let weighed: Vec<&str> = short.iter().copied().chain(["--set", "selection=weights", "--set", &named]).collect();
    let fresh: Vec<&str> = weighed.iter().copied().chain(["--fresh"]).collect();
    printed(&fresh);
    fs::write(&weights, "0 2\n16 3\n").unwrap();
    let changed = failure(1, &weighed);
    assert!(changed.contains("contents of weights_file was"), "{changed}");
    printed(&with(&["--set", "pi=0.5", "--fresh"]));

    let file = checkpoints.join("train.checkpoint");
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    let cut = failure(1, &with(&["--set", "pi=0.5"]));
    assert!(cut.contains("train.checkpoint is damaged or cut short; --fresh starts again"), "{cut}");
    fs::write(&file, "not mine").unwrap();
    assert!(failure(1, &short).contains("is not a checkpoint"));
    let central = failure(2, &["train", "--model", "bpr-mf", "--data", "synth:town:users=60", "--checkpoint", folder]);
    assert!(central.contains("bpr-mf has no checkpoints"), "{central}");
    let often = failure(2, &with(&["--checkpoint-every", "0"]));
    assert!(often.contains("is not a number of epochs"), "{often}");
}

/// A limit on the size of files stands in for a full disk.
#[cfg(unix)]
#[test]
fn a_full_disk_keeps_the_last_checkpoint() {
    let temp = tempfile::tempdir().unwrap();
    let checkpoints = temp.path().join("checkpoints");
    let train = |limit: &str, epochs: &str, fresh: &str| {
        let script = format!(
            "trap '' XFSZ; {limit} exec \"$0\" train --model fpl --data synth:town:users=200 --set epochs={epochs} \
             --checkpoint \"$1\" {fresh} --quiet"
        );
        let arguments = ["-c", &script, env!("CARGO_BIN_EXE_sottovoce"), checkpoints.to_str().unwrap()];
        Command::new("sh").args(arguments).output().unwrap()
    };
    assert!(train("", "2", "").status.success());
    let before = fs::read(checkpoints.join("train.checkpoint")).unwrap();
    let full = train("ulimit -f 8;", "3", "--fresh");
    let text = String::from_utf8_lossy(&full.stderr).into_owned();
    assert_eq!(full.status.code(), Some(1), "{text}");
    assert!(text.contains("train.checkpoint") && text.contains("too large"), "{text}");
    assert_eq!(fs::read(checkpoints.join("train.checkpoint")).unwrap(), before);
    assert!(!checkpoints.join("train.part").exists());
}
