//! `cargo xtask prove`: what is too long for the test run.

use crate::process::{cargo, show_and_run};
use anyhow::{Context, Result};

/// A claim of the project and the run that proves it.
pub(crate) struct Proof {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    run: fn(long: bool) -> Result<()>,
}

/// All proofs. A proof exits with success only if its claim held, and its figure is the last line it prints.
pub(crate) const PROOFS: &[Proof] = &[
    Proof { name: "crash", what: "a training killed again and again ends in the same bytes", run: crash },
    Proof { name: "fuzz", what: "no mutated file or message makes a reader panic", run: fuzz },
];

/// The proof of this name.
pub(crate) fn find(name: &str) -> Option<&'static Proof> {
    PROOFS.iter().find(|proof| proof.name == name)
}

pub(crate) fn run(name: &str, long: bool) -> Result<()> {
    let proof = find(name).with_context(|| format!("there is no proof `{name}`"))?;
    (proof.run)(long).with_context(|| format!("proof `{name}` failed"))
}

fn crash(long: bool) -> Result<()> {
    let kills = if long { "1000" } else { "100" };
    let name = "a_training_killed_at_any_moment_ends_in_the_same_bytes";
    let test =
        ["test", "--release", "--package", "sottovoce", "--test", "checkpoints", name, "--", "--nocapture"];
    show_and_run(cargo(test).env("SOTTOVOCE_KILLS", kills))?;
    println!("{kills} kills, the same bytes");
    Ok(())
}

fn fuzz(long: bool) -> Result<()> {
    let inputs = if long { "2000000" } else { "100000" };
    for (package, example) in [("sottovoce-protocol", "mutate_messages"), ("sottovoce-data", "mutate")] {
        let mutate = ["run", "--release", "--package", package, "--example", example, "--", inputs];
        show_and_run(&mut cargo(mutate))?;
    }
    Ok(())
}
