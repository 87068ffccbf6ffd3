//! `cargo xtask test`: the full test run, step by step.

use crate::arguments::Choice;
use crate::postgres::{self, Cluster};
use crate::process::{self, cargo, show_and_run};
use crate::{house, setup, wasm};
use anyhow::{Context, Result, bail, ensure};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// One step of the test run.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    run: fn() -> Result<Outcome>,
}

/// How a step went that did not fail.
#[derive(Clone, Debug, PartialEq)]
enum Outcome {
    Passed,
    /// Passed, with something the reader should know.
    Noted(String),
    /// Not done, because something is missing.
    Skipped(String),
}

/// The steps: quick ones first, and the unit tests after the doc tests so that their count closes the tests.
pub(crate) const STEPS: &[Step] = &[
    Step { name: "fmt", what: "the code is formatted", run: fmt },
    Step { name: "house", what: "the house rules hold", run: house_rules },
    Step { name: "clippy", what: "no lint warns", run: clippy },
    Step { name: "doctest", what: "the examples in the documentation work", run: doctest },
    Step { name: "test", what: "all tests pass", run: test },
    Step { name: "doc", what: "the documentation builds without warnings", run: doc },
    Step { name: "wasm", what: "the crates that promise it build for wasm32", run: wasm32 },
    Step { name: "deny", what: "the dependencies' licences and sources are allowed", run: deny },
];

fn fmt() -> Result<Outcome> {
    passed(show_and_run(&mut cargo(["fmt", "--all", "--check"])))
}

fn house_rules() -> Result<Outcome> {
    passed(house::check())
}

fn clippy() -> Result<Outcome> {
    passed(show_and_run(&mut cargo(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])))
}

fn doctest() -> Result<Outcome> {
    passed(show_and_run(&mut cargo(["test", "--workspace", "--doc"])))
}

fn test() -> Result<Outcome> {
    ensure!(setup::has_nextest(), "cargo-nextest is not installed; `cargo xtask setup` installs it");
    let mut nextest = cargo(["nextest", "run", "--workspace"]);
    match Cluster::start()? {
        Some(cluster) => passed(show_and_run(nextest.env(postgres::VARIABLE, cluster.url()))),
        None => {
            ensure!(!process::is_ci(), "{}", postgres::LEFT_OUT);
            show_and_run(&mut nextest)?;
            Ok(Outcome::Noted(postgres::LEFT_OUT.into()))
        }
    }
}

fn doc() -> Result<Outcome> {
    passed(show_and_run(cargo(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings")))
}

fn wasm32() -> Result<Outcome> {
    match wasm::Toolchain::find() {
        Some(toolchain) => passed(show_and_run(&mut toolchain.build())),
        None => skipped("no compiler for wasm32; `cargo xtask setup` installs one", process::is_ci()),
    }
}

/// Advisories change without the repository changing and need a database from the network: they are looked at where
/// that is there, and are otherwise named as not looked at.
fn deny() -> Result<Outcome> {
    if !setup::has_deny() {
        return skipped("cargo-deny is not installed; `cargo xtask setup` installs it", process::is_ci());
    }
    show_and_run(&mut cargo(["deny", "--locked", "check", "licenses", "bans", "sources"]))?;
    if !has_advisories() {
        return Ok(Outcome::Noted(
            "advisories not checked: no database (`cargo deny fetch db` gets it)".into(),
        ));
    }
    passed(show_and_run(&mut cargo(["deny", "check", "--disable-fetch", "advisories"])))
}

fn has_advisories() -> bool {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo")));
    let stored = home.and_then(|home| std::fs::read_dir(home.join("advisory-dbs")).ok());
    stored.into_iter().flatten().flatten().any(|entry| entry.path().join(".git").exists())
}

fn passed(result: Result<()>) -> Result<Outcome> {
    result.map(|()| Outcome::Passed)
}

/// A step that cannot be done here is named; in an automatic run it is a failure.
fn skipped(why: &str, ci: bool) -> Result<Outcome> {
    ensure!(!ci, "{why}; an automatic run leaves nothing out");
    Ok(Outcome::Skipped(why.to_owned()))
}

/// Runs the chosen steps up to the first that fails, and sums up.
pub(crate) fn run(choice: &Choice) -> Result<()> {
    let chosen: Vec<_> = STEPS.iter().filter(|step| choice.takes(step.name)).collect();
    if chosen.is_empty() {
        bail!("no step is left to run");
    }
    let mut lines = Vec::new();
    let failure = chosen.iter().find_map(|step| {
        println!("\n== {}: {}", step.name, step.what);
        let start = Instant::now();
        let outcome = (step.run)();
        let line = summary_line(step.name, &outcome, start.elapsed());
        println!("{line}");
        lines.push(line);
        outcome.with_context(|| format!("step `{}` failed", step.name)).err()
    });
    println!("\n== summary");
    for line in &lines {
        println!("{line}");
    }
    failure.map_or(Ok(()), Err)
}

fn summary_line(name: &str, outcome: &Result<Outcome>, took: Duration) -> String {
    let (word, remark) = match outcome {
        Ok(Outcome::Passed) => ("passed", ""),
        Ok(Outcome::Noted(note)) => ("passed", note.as_str()),
        Ok(Outcome::Skipped(why)) => ("SKIPPED", why.as_str()),
        Err(_) => ("FAILED", ""),
    };
    format!("{name:<10} {word:<8} {:>7.1} s  {remark}", took.as_secs_f64()).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_has_its_own_word_in_the_summary() {
        let took = Duration::from_millis(61_250);
        let line = |outcome| summary_line("wasm", &outcome, took);
        assert_eq!(line(Ok(Outcome::Passed)), "wasm       passed      61.2 s");
        assert_eq!(line(Ok(Outcome::Noted("but".into()))), "wasm       passed      61.2 s  but");
        assert_eq!(line(Ok(Outcome::Skipped("none".into()))), "wasm       SKIPPED     61.2 s  none");
        assert_eq!(line(Err(anyhow::anyhow!("no"))), "wasm       FAILED      61.2 s");
    }

    #[test]
    fn an_automatic_run_skips_nothing() {
        assert_eq!(skipped("none", false).unwrap(), Outcome::Skipped("none".into()));
        assert!(skipped("none", true).unwrap_err().to_string().starts_with("none"));
    }
}
