//! Installs what the other commands need and is missing: `cargo xtask setup`, and `cargo xtask test` before its first
//! step.

use crate::arguments::Choice;
use crate::process::{self, cargo, output, program, show_and_run, succeeds};
use crate::{postgres, wasm};
use anyhow::{Context, Result, bail, ensure};
use std::process::Command;
use std::sync::OnceLock;

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
        is_there: || succeeds(&mut cargo(["nextest", "--version"])),
        // Without its own updates, which bring an HTTP client.
        install: || {
            let features = ["--no-default-features", "--features", "default-no-update"];
            show_and_run(cargo_install("cargo-nextest").args(features))
        },
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
        install: || apt_install(&["postgresql"]),
    },
    Part {
        name: "deny",
        what: "checks the dependencies' licences and sources",
        is_there: || succeeds(&mut cargo(["deny", "--version"])),
        install: || show_and_run(&mut cargo_install("cargo-deny")),
    },
];

/// Installs a tool of cargo's. Unoptimised: they run for seconds, and compiling them takes minutes. What two of them
/// need is compiled once.
fn cargo_install(name: &str) -> Command {
    let mut command = cargo(["install", "--locked", "--debug", "--target-dir", "target/tools", name]);
    command.env("CARGO_PROFILE_DEV_DEBUG", "0");
    command
}

/// Installs packages of Debian's, which only the superuser can.
pub(crate) fn apt_install(packages: &[&str]) -> Result<()> {
    static UPDATED: OnceLock<bool> = OnceLock::new();
    let line = format!("apt-get install {}", packages.join(" "));
    ensure!(output(program("id").arg("-u"))?.trim() == "0", "only the superuser can: sudo {line}");
    let updated = UPDATED.get_or_init(|| show_and_run(program("apt-get").args(["update", "-qq"])).is_ok());
    ensure!(updated, "`apt-get update` failed");
    let install = ["install", "--yes", "-qq", "-o", "Dpkg::Use-Pty=0", "--no-install-recommends"];
    let mut command = program("apt-get");
    show_and_run(command.args(install).args(packages).env("DEBIAN_FRONTEND", "noninteractive")).context(line)
}

/// `cargo xtask setup`. A part that cannot be had is named at the end; in an automatic run it is a failure.
pub(crate) fn run(choice: &Choice) -> Result<()> {
    let chosen: Vec<&str> = PARTS.iter().map(|part| part.name).filter(|name| choice.takes(name)).collect();
    let missing = provide(&chosen, process::is_ci())?;
    println!("{}", if missing.is_empty() { "set-up complete" } else { "set-up incomplete" });
    Ok(())
}

/// Installs what is missing of the parts of these names, saying so. Returns the names of those that cannot be had.
///
/// # Errors
/// In an automatic run, which leaves nothing out, if any cannot be had.
pub(crate) fn provide(names: &[&str], ci: bool) -> Result<Vec<&'static str>> {
    let wanted = PARTS.iter().filter(|part| names.contains(&part.name));
    let (mut missing, mut reasons) = (Vec::new(), Vec::new());
    for part in wanted {
        if let Err(error) = provide_part(part) {
            missing.push(part.name);
            reasons.push(format!("{}: {error:#}", part.name));
        }
    }
    conclude(&reasons, ci)?;
    Ok(missing)
}

fn provide_part(part: &Part) -> Result<()> {
    if (part.is_there)() {
        println!("{:<8} is there", part.name);
        return Ok(());
    }
    println!("{:<8} is missing ({}); installing", part.name, part.what);
    (part.install)()?;
    ensure!((part.is_there)(), "installed, but it still does not answer");
    println!("{:<8} is there now", part.name);
    Ok(())
}

fn conclude(missing: &[String], ci: bool) -> Result<()> {
    for part in missing {
        println!("COULD NOT BE INSTALLED  {part}");
    }
    if ci && !missing.is_empty() {
        bail!(
            "{} of {} parts are missing, and an automatic run leaves nothing out",
            missing.len(),
            PARTS.len()
        );
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
        assert!(provide_part(&ABSENT).is_err());
        assert!(
            provide_part(&Part { is_there: || true, install: || bail!("not to be called"), ..ABSENT })
                .is_ok()
        );
        let error = provide_part(&Part { install: || bail!("no network"), ..ABSENT }).unwrap_err();
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
