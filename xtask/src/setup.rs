//! `cargo xtask setup`: installs what the other commands need and is missing.

use crate::arguments::Choice;
use crate::process::{self, cargo, program, show_and_run, succeeds};
use crate::{postgres, wasm};
use anyhow::{Result, bail};

/// Something the workshop needs.
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    is_there: fn() -> bool,
    install: fn() -> Result<()>,
}

/// Everything the workshop needs, in the order in which it is used.
pub(crate) const PARTS: &[Part] = &[
    Part {
        name: "rustfmt",
        what: "formats the code",
        is_there: || succeeds(&mut cargo(["fmt", "--version"])),
        install: || show_and_run(program("rustup").args(["component", "add", "rustfmt"])),
    },
    Part {
        name: "clippy",
        what: "lints the code",
        is_there: || succeeds(&mut cargo(["clippy", "--version"])),
        install: || show_and_run(program("rustup").args(["component", "add", "clippy"])),
    },
    Part {
        name: "nextest",
        what: "runs the tests",
        is_there: || has_nextest(),
        install: || show_and_run(&mut cargo(["install", "--locked", "cargo-nextest"])),
    },
    Part {
        name: "wasm32",
        what: "builds for the browser",
        is_there: || wasm::Toolchain::find().is_some(),
        install: wasm::install,
    },
    Part {
        name: "postgres",
        what: "the other database that the server is tested with",
        is_there: postgres::is_there,
        install: postgres::install,
    },
    Part {
        name: "deny",
        what: "checks the dependencies' licences and sources",
        is_there: || has_deny(),
        // Unoptimised: it runs for a second, and compiling it takes minutes.
        install: || show_and_run(&mut cargo(["install", "--locked", "--debug", "cargo-deny"])),
    },
];

/// Whether cargo-nextest is installed.
pub(crate) fn has_nextest() -> bool {
    succeeds(&mut cargo(["nextest", "--version"]))
}

/// Whether cargo-deny is installed.
pub(crate) fn has_deny() -> bool {
    succeeds(&mut cargo(["deny", "--version"]))
}

/// Installs the chosen parts that are missing. One that cannot be had is named at the end; in an automatic run it is a
/// failure.
pub(crate) fn run(choice: &Choice) -> Result<()> {
    let mut missing = Vec::new();
    for part in PARTS.iter().filter(|part| choice.takes(part.name)) {
        if let Err(error) = provide(part) {
            missing.push(format!("{}: {error:#}", part.name));
        }
    }
    conclude(&missing, process::is_ci())
}

fn provide(part: &Part) -> Result<()> {
    if (part.is_there)() {
        println!("{:<8} is there", part.name);
        return Ok(());
    }
    println!("{:<8} is missing ({}); installing", part.name, part.what);
    (part.install)()?;
    anyhow::ensure!((part.is_there)(), "installed, but it still does not answer");
    println!("{:<8} is there now", part.name);
    Ok(())
}

fn conclude(missing: &[String], ci: bool) -> Result<()> {
    for part in missing {
        println!("COULD NOT BE HAD  {part}");
    }
    match (missing.is_empty(), ci) {
        (true, _) => println!("set-up complete"),
        (false, false) => {
            println!("set-up incomplete: the steps that need these parts will say that they are skipped");
        }
        (false, true) => bail!("{} of {} parts are missing", missing.len(), PARTS.len()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABSENT: Part =
        Part { name: "absent", what: "is never there", is_there: || false, install: || Ok(()) };

    #[test]
    fn a_part_that_does_not_answer_after_installing_is_missing() {
        assert!(provide(&ABSENT).is_err());
        assert!(
            provide(&Part { is_there: || true, install: || bail!("not to be called"), ..ABSENT }).is_ok()
        );
        let error = provide(&Part { install: || bail!("no network"), ..ABSENT }).unwrap_err();
        assert_eq!(error.to_string(), "no network");
    }

    #[test]
    fn nothing_may_be_missing_in_an_automatic_run() {
        let missing = ["wasm32: no".to_owned()];
        assert!(conclude(&missing, false).is_ok());
        assert!(conclude(&missing, true).is_err());
        assert!(conclude(&[], true).is_ok());
    }
}
