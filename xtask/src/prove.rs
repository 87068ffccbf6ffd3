//! `cargo xtask prove`: what is too long for the test run.

use crate::postgres::{self, Cluster};
use crate::process::{self, cargo, show_and_run};
use crate::steps::PIPELINE;
use crate::{hostile, scale};
use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// A claim of the project and the run that proves it.
pub(crate) struct Proof {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    run: fn(Extent) -> Result<()>,
}

/// How much is to be proved.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Extent {
    pub(crate) long: bool,
    /// Devices, for the one proof that is about them.
    pub(crate) users: Option<u64>,
}

/// All proofs. A proof exits with success only if its claim held, and its figure is the last line it prints.
pub(crate) const PROOFS: &[Proof] = &[
    Proof { name: "equality", what: "devices over HTTP come to the simulator's bytes", run: equality },
    Proof {
        name: "crash",
        what: "a training, a server and devices killed again and again end in the same bytes",
        run: crash,
    },
    Proof { name: "load", what: "uploads and check-ins at half the rate of bare SQLite and bare axum", run: load },
    Proof { name: "fuzz", what: "no mutated file or message makes a reader panic", run: fuzz },
    Proof {
        name: "hostile",
        what: "the server tells hostile callers no, and nothing changes",
        run: |extent| hostile::prove(extent.long),
    },
    Proof {
        name: "pipeline",
        what: "executors, schedulers and jobs of the pipeline killed again and again leave the same tables",
        run: pipeline,
    },
    Proof {
        name: "trust",
        what: "500 devices of which 25 lie, and connections hoarded: every round is held, as accurate as without",
        run: |_| trust(),
    },
    Proof {
        name: SCALE,
        what: "a million devices fit 4 GiB and train as fast as ten thousand; --long: ten million, streamed, fit 8",
        run: |extent| scale::prove(extent.long, extent.users),
    },
];

/// The proof that takes a number of devices.
pub(crate) const SCALE: &str = "scale";

/// The proof of this name.
pub(crate) fn find(name: &str) -> Option<&'static Proof> {
    PROOFS.iter().find(|proof| proof.name == name)
}

pub(crate) fn run(name: &str, extent: Extent) -> Result<()> {
    let proof = find(name).with_context(|| format!("there is no proof `{name}`"))?;
    (proof.run)(extent).with_context(|| format!("proof `{name}` failed"))
}

/// The tests of real processes whose names have this in them, with a setting from the environment; with PostgreSQL,
/// where that can be had.
fn service(filter: &str, (key, value): (&str, &str)) -> Result<()> {
    let test = ["test", "--release", "--package", "sottovoce", "--test", "service", filter, "--", "--nocapture"];
    let (mut test, cluster) = (cargo(test), Cluster::start()?);
    match &cluster {
        Some(cluster) => _ = test.env(postgres::VARIABLE, cluster.url()),
        None => println!("{}", postgres::LEFT_OUT),
    }
    show_and_run(test.env(key, value))
}

fn equality(Extent { long, .. }: Extent) -> Result<()> {
    let devices = if long { "2000" } else { "200" };
    service("equality", ("SOTTOVOCE_DEVICES", devices))?;
    println!("{devices} devices over HTTP, three configurations: the simulator's bytes");
    Ok(())
}

/// Each server with its lying devices, then a whole federation of them.
fn trust() -> Result<()> {
    let hostile = ["test", "--package", "sottovoce-server", "--test", "hostile", "lying_devices"];
    show_and_run(&mut cargo(hostile))?;
    let test = ["test", "--release", "--package", "sottovoce", "--test", "service", "attack", "--"];
    let mut test = cargo(test);
    let test = test.args(["--nocapture", "--test-threads", "1"]).env("SOTTOVOCE_ATTACK", "1");
    println!("$ {}", process::shown(test));
    let text = process::output(test)?;
    print!("{text}");
    let figures: Vec<&str> = text.lines().filter(|line| line.contains("liars, ") && line.contains("nDCG")).collect();
    ensure!(figures.len() == 2, "both attacks were to be tried");
    println!("{}", figures.join("; "));
    Ok(())
}

fn crash(Extent { long, .. }: Extent) -> Result<()> {
    let kills = if long { "1000" } else { "100" };
    let name = "a_training_killed_at_any_moment_ends_in_the_same_bytes";
    let test = ["test", "--release", "--package", "sottovoce", "--test", "checkpoints", name, "--", "--nocapture"];
    show_and_run(cargo(test).env("SOTTOVOCE_KILLS", kills))?;
    service("crash", ("SOTTOVOCE_KILLS", kills))?;
    println!("{kills} kills each of a training, of a server and of devices: the same bytes");
    Ok(())
}

fn pipeline(Extent { long, .. }: Extent) -> Result<()> {
    let kills = if long { "40" } else { "8" };
    let name = "executors_and_schedulers_that_are_killed_change_nothing";
    let test =
        ["test", "--manifest-path", PIPELINE, "--target-dir", "target/pipeline", "--locked", "--test", "cluster"];
    show_and_run(cargo(test).args([name, "--", "--nocapture"]).env("SOTTOVOCE_KILLS", kills))?;
    println!("{kills} kills of executors, schedulers and jobs: the same tables");
    Ok(())
}

/// The bounds on the server's rates.
const LEAST_RATIO: f64 = 0.5;
/// Megabytes that ten thousand devices may cost.
const MOST_IDLE: f64 = 200.0;

fn load(Extent { long, .. }: Extent) -> Result<()> {
    let mut run = cargo(["run", "--release", "--package", "sottovoce-server", "--example", "load", "--"]);
    if long {
        run.arg("--long");
    }
    println!("$ {}", process::shown(&run));
    let text = process::output(&mut run)?;
    print!("{text}");
    let told: Value = serde_json::from_str(text.lines().last().unwrap_or_default())?;
    let number = |at: &str| told.pointer(at).and_then(Value::as_f64).with_context(|| format!("no {at} in {told}"));
    let (uploads, check_ins) = (number("/uploads/ratio")?, number("/check_ins/ratio")?);
    let (p99, idle) = (number("/check_in_p99_ms_under_uploads")?, number("/idle_resident_mb")?);
    ensure!(uploads >= LEAST_RATIO, "uploads at {uploads:.2} of bare SQLite's rate, bound {LEAST_RATIO}");
    ensure!(check_ins >= LEAST_RATIO, "check-ins at {check_ins:.2} of a bare handler's rate, bound {LEAST_RATIO}");
    ensure!(idle < MOST_IDLE, "10,000 idle devices: {idle:.0} MB, bound {MOST_IDLE}");
    println!(
        "uploads {uploads:.2} of bare SQLite, check-ins {check_ins:.2} of bare axum, p99 of check-ins under load {p99:.1} ms, \
         10,000 idle devices {idle:.0} MB"
    );
    Ok(())
}

fn fuzz(Extent { long, .. }: Extent) -> Result<()> {
    let inputs = if long { "2000000" } else { "100000" };
    let messages = ["--package", "sottovoce-testing", "--example", "mutate_messages"];
    let files = ["--package", "sottovoce-testing", "--features", "mutation", "--example", "mutate"];
    let sealed = ["--package", "sottovoce-testing", "--features", "mutation", "--example", "mutate_sealed"];
    for example in [&messages[..], &files, &sealed] {
        show_and_run(cargo(["run", "--release"]).args(example).args(["--", inputs]))?;
    }
    Ok(())
}
