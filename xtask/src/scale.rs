//! `cargo xtask prove scale`: time and memory against the number of devices.
//!
//! Each size is a town written to a file of histories, and a process of its own that trains one epoch of pFPL+ on it:
//! with all histories in memory, and with histories left in the file.

use crate::process::{cargo, output, program, show_and_run};
use crate::workspace;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Devices whose histories fit memory; how often each size is measured, the median counts.
const IN_MEMORY: [(u64, usize); 3] = [(10_000, 5), (100_000, 3), (1_000_000, 1)];
/// Devices of the streamed town, and of the long proof's.
const STREAMED: u64 = 1_000_000;
const STREAMED_LONG: u64 = 10_000_000;

const GIB: f64 = (1u64 << 30) as f64;
/// Memory that the largest town in memory may take.
const MOST_IN_MEMORY: f64 = 4.0 * GIB;
/// Memory that a streamed town may take.
const MOST_STREAMED: f64 = 8.0 * GIB;
/// How many times as long a triple may take in the largest town in memory as in the smallest.
const MOST_SLOWER: f64 = 2.0;

/// What one training came to.
#[derive(Clone, Debug, PartialEq)]
struct Run {
    users: u64,
    streamed: bool,
    triples: f64,
    wall: f64,
    cpu: f64,
    bytes: f64,
}

impl Run {
    /// CPU nanoseconds a triple.
    fn each(&self) -> f64 {
        self.cpu / self.triples * 1e9
    }

    /// Reads what `train --json` prints.
    fn read(text: &str) -> Result<Self> {
        let told: Value = serde_json::from_str(text).context("reading what the training printed")?;
        let number = |pointer: &str| {
            let found = told.pointer(pointer).and_then(Value::as_f64);
            found.with_context(|| format!("the training did not print {pointer}"))
        };
        Ok(Self {
            users: number("/data/users")? as u64,
            streamed: told["streamed"] == Value::Bool(true),
            triples: number("/triples")?,
            wall: number("/seconds/train")?,
            cpu: number("/seconds/train_cpu")?,
            bytes: number("/peak_rss_bytes")?,
        })
    }
}

pub(crate) fn prove(long: bool, users: Option<u64>) -> Result<()> {
    show_and_run(&mut cargo(["build", "--release", "--package", "sottovoce"]))?;
    let folder = workspace::root().join("target/prove-scale");
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let streamed = users.unwrap_or(if long { STREAMED_LONG } else { STREAMED });
    let mut runs = Vec::new();
    for (users, repeats) in IN_MEMORY {
        let town = Town::write(users, &folder)?;
        runs.push(median((0..repeats).map(|_| town.train(false)).collect::<Result<_>>()?)?);
        runs.push(median((0..repeats).map(|_| town.train(true)).collect::<Result<_>>()?)?);
    }
    if !runs.iter().any(|run| run.streamed && run.users == streamed) {
        runs.push(Town::write(streamed, &folder)?.train(true)?);
    }
    let table = table(&runs);
    print!("{table}");
    let path = folder.join("scale.tsv");
    fs::write(&path, table).with_context(|| format!("writing {}", path.display()))?;
    println!("{}", verdict(&runs)?);
    Ok(())
}

/// A town's file of histories; goes when this does.
struct Town {
    file: PathBuf,
}

impl Drop for Town {
    fn drop(&mut self) {
        // Gigabytes that are of no use any more; the folder's name says what they were if they cannot be removed.
        let _ = fs::remove_file(&self.file);
    }
}

impl Town {
    fn write(users: u64, folder: &Path) -> Result<Self> {
        let file = folder.join(format!("town-{users}.histories"));
        show_and_run(sottovoce().args(["data", "convert", &format!("synth:town:users={users}")]).arg(&file))?;
        Ok(Self { file })
    }

    fn train(&self, stream: bool) -> Result<Run> {
        let mut command = sottovoce();
        command.args([
            "train",
            "--model",
            "fpl",
            "--set",
            "epochs=1",
            "--set",
            "strategy=adaptive",
            "--json",
        ]);
        command.arg("--data").arg(&self.file).args(stream.then_some("--stream"));
        Run::read(&output(&mut command)?)
    }
}

fn sottovoce() -> std::process::Command {
    program(&workspace::root().join("target/release/sottovoce").display().to_string())
}

/// The run of the median time.
fn median(mut runs: Vec<Run>) -> Result<Run> {
    runs.sort_by(|one, other| one.cpu.total_cmp(&other.cpu));
    runs.get(runs.len() / 2).cloned().context("nothing was measured")
}

fn table(runs: &[Run]) -> String {
    let mut text = "users\thistories\ttriples\tseconds\tcpu_seconds\tcpu_ns_a_triple\tpeak_mib\n".to_owned();
    for run in runs {
        let place = if run.streamed { "file" } else { "memory" };
        let (each, mib) = (run.each(), run.bytes / 1_048_576.0);
        let _ = writeln!(
            text,
            "{}\t{place}\t{}\t{:.2}\t{:.2}\t{each:.0}\t{mib:.0}",
            run.users, run.triples, run.wall, run.cpu
        );
    }
    text
}

/// Holds the runs against the bounds; the figures in words.
fn verdict(runs: &[Run]) -> Result<String> {
    let in_memory = || runs.iter().filter(|run| !run.streamed);
    let smallest = in_memory().min_by_key(|run| run.users).context("nothing was measured in memory")?;
    let largest = in_memory().max_by_key(|run| run.users).context("nothing was measured in memory")?;
    let streamed = runs.iter().filter(|run| run.streamed).max_by_key(|run| run.users);
    let streamed = streamed.context("nothing was streamed")?;
    let slower = largest.each() / smallest.each();
    let gib = |run: &Run| run.bytes / GIB;
    let figures = format!(
        "{} users in memory: {:.2} GiB, {slower:.2} times the time a triple of {} users; {} users streamed: {:.2} GiB",
        largest.users,
        gib(largest),
        smallest.users,
        streamed.users,
        gib(streamed)
    );
    let holds = largest.bytes < MOST_IN_MEMORY && streamed.bytes < MOST_STREAMED && slower <= MOST_SLOWER;
    ensure!(holds, "{figures}; the bounds are 4 GiB, 2 times and 8 GiB");
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(users: u64, streamed: bool, cpu: f64, gib: f64) -> Run {
        Run { users, streamed, triples: 30.0 * users as f64, wall: cpu, cpu, bytes: gib * GIB }
    }

    #[test]
    fn bounds_are_held_against_the_right_runs() {
        let runs = |slow: f64, memory: f64, streamed: f64| {
            vec![
                run(10, false, 1.0, 0.1),
                run(10, true, 9.0, 0.1),
                run(1000, false, 100.0 * slow, memory),
                run(5000, true, 1000.0, streamed),
            ]
        };
        let told = verdict(&runs(1.9, 3.9, 7.9)).unwrap();
        assert_eq!(
            told,
            "1000 users in memory: 3.90 GiB, 1.90 times the time a triple of 10 users; 5000 users streamed: 7.90 GiB"
        );
        for wrong in [runs(2.1, 1.0, 1.0), runs(1.0, 4.0, 1.0), runs(1.0, 1.0, 8.1), Vec::new()] {
            assert!(verdict(&wrong).is_err());
        }
    }

    #[test]
    fn what_a_training_prints_is_read() {
        let text = r#"{"data": {"users": 7}, "streamed": true, "triples": 210, "peak_rss_bytes": 1048576,
            "seconds": {"train": 0.5, "train_cpu": 0.75}}"#;
        let run = Run::read(text).unwrap();
        assert_eq!(
            run,
            Run { users: 7, streamed: true, triples: 210.0, wall: 0.5, cpu: 0.75, bytes: 1048576.0 }
        );
        assert_eq!(table(&[run]).lines().nth(1), Some("7\tfile\t210\t0.50\t0.75\t3571429\t1"));
        assert!(Run::read("{}").unwrap_err().to_string().contains("/data/users"));
    }
}
