//! `cargo xtask prove`: what is too long for the test run.

use crate::process::{cargo, show_and_run};
use crate::{hostile, scale};
use anyhow::{Context, Result};

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
    Proof { name: "crash", what: "a training killed again and again ends in the same bytes", run: crash },
    Proof { name: "fuzz", what: "no mutated file or message makes a reader panic", run: fuzz },
    Proof {
        name: "hostile",
        what: "the server tells hostile callers no, and nothing changes",
        run: |extent| hostile::prove(extent.long),
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

fn crash(Extent { long, .. }: Extent) -> Result<()> {
    let kills = if long { "1000" } else { "100" };
    let name = "a_training_killed_at_any_moment_ends_in_the_same_bytes";
    let test =
        ["test", "--release", "--package", "sottovoce", "--test", "checkpoints", name, "--", "--nocapture"];
    show_and_run(cargo(test).env("SOTTOVOCE_KILLS", kills))?;
    println!("{kills} kills, the same bytes");
    Ok(())
}

fn fuzz(Extent { long, .. }: Extent) -> Result<()> {
    let inputs = if long { "2000000" } else { "100000" };
    for (package, example) in [("sottovoce-protocol", "mutate_messages"), ("sottovoce-data", "mutate")] {
        let mutate = ["run", "--release", "--package", package, "--example", example, "--", inputs];
        show_and_run(&mut cargo(mutate))?;
    }
    Ok(())
}
