//! `cargo xtask test`: the full test run, step by step.

use crate::arguments::Choice;
use crate::postgres::{self, Cluster};
use crate::process::{self, cargo, show_and_run};
use crate::{lint, setup, wasm};
use anyhow::{Context, Result, bail, ensure};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// One step of the test run.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    /// The parts of the set-up that it uses; all but PostgreSQL it cannot do without.
    needs: &'static [&'static str],
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

/// The steps: quick ones first. Steps that follow each other share what they compile: clippy and the documentation what
/// was checked, tests and examples what was built.
pub(crate) const STEPS: &[Step] = &[
    Step { name: "fmt", what: "the code is formatted", needs: &["rustfmt"], run: fmt },
    Step { name: "lint", what: "the rules of the workspace hold", needs: &[], run: || passed(lint::check()) },
    Step { name: "clippy", what: "no lint warns, with all features and with few", needs: &["clippy"], run: clippy },
    Step { name: "doc", what: "the documentation builds without warnings", needs: &[], run: doc },
    Step { name: "test", what: "all tests pass", needs: &["nextest", POSTGRES], run: test },
    Step { name: "doctest", what: "the examples in the documentation work", needs: &[], run: doctest },
    Step { name: "pipeline", what: "the batch pipeline, a workspace of its own", needs: &[], run: pipeline },
    Step { name: "wasm", what: "the crates that promise it build for wasm32", needs: &["wasm32"], run: wasm32 },
    Step { name: "deny", what: "the dependencies' licences and sources are allowed", needs: &["deny"], run: deny },
];

/// The other workspace.
pub(crate) const PIPELINE: &str = "crates/pipeline/Cargo.toml";

/// What the tests can do without, leaving some of them out.
const POSTGRES: &str = "postgres";

/// All files by name: `cargo fmt` does not find modules that a macro declares.
fn fmt() -> Result<Outcome> {
    let listed = Command::new("git").args(["ls-files", "*.rs"]).output().context("`git ls-files` did not start")?;
    let files = String::from_utf8(listed.stdout).context("a file name is not UTF-8")?;
    println!("$ rustfmt --edition 2024 --check (all files that git knows)");
    let status = Command::new("rustfmt").args(["--edition", "2024", "--check"]).args(files.lines()).status();
    ensure!(status.context("`rustfmt` did not start")?.success(), "some files are not formatted: see above");
    Ok(Outcome::Passed)
}

/// The small program leaves out what other lines stand in for; those are looked at too.
fn clippy() -> Result<Outcome> {
    for packages in [&["--workspace", "--all-targets"][..], &["--package", "sottovoce-lite"]] {
        show_and_run(cargo(["clippy"]).args(packages).args(["--", "-D", "warnings"]))?;
    }
    Ok(Outcome::Passed)
}

fn doctest() -> Result<Outcome> {
    passed(show_and_run(&mut cargo(["test", "--workspace", "--doc"])))
}

/// Encryption is off by default; its schemes are tested all the same.
fn encryption() -> Result<()> {
    let packages = ["--package", "sottovoce-privacy", "--package", "sottovoce-device"];
    let tests = ["--features", "he", "-E", "binary(he) or test(encryption)"];
    show_and_run(cargo(["nextest", "run"]).args(packages).args(tests))
}

fn test() -> Result<Outcome> {
    encryption()?;
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

/// Tests only: to lint it, DataFusion and Ballista would have to be compiled a second time.
fn pipeline() -> Result<Outcome> {
    passed(show_and_run(
        cargo(["test", "--manifest-path", PIPELINE, "--locked"]).args(["--target-dir", "target/pipeline"]),
    ))
}

fn wasm32() -> Result<Outcome> {
    let toolchain = wasm::Toolchain::find().context("no compiler for wasm32")?;
    passed(show_and_run(&mut toolchain.build()))
}

/// Advisories change without the repository changing and need a database from the network: they are looked at where
/// that is there, and are otherwise named as not looked at.
fn deny() -> Result<Outcome> {
    show_and_run(&mut cargo(["deny", "--locked", "check", "licenses", "bans", "sources"]))?;
    if !has_advisories() {
        return Ok(Outcome::Noted("advisories not checked: no database (`cargo deny fetch db` gets it)".into()));
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

impl Step {
    /// Why it cannot be done without these parts.
    fn lacks(&self, missing: &[&str]) -> Option<String> {
        let part = self.needs.iter().find(|need| **need != POSTGRES && missing.contains(need))?;
        Some(format!("{part} could not be installed"))
    }
}

/// Installs what the chosen steps need and is missing, runs them up to the first that fails, and sums up. A step whose
/// needs cannot be had is skipped by name; in an automatic run that is a failure.
pub(crate) fn run(choice: &Choice) -> Result<()> {
    let chosen: Vec<_> = STEPS.iter().filter(|step| choice.takes(step.name)).collect();
    if chosen.is_empty() {
        bail!("no step is left to run");
    }
    println!("== setup: what these steps need");
    let start = Instant::now();
    let needs: Vec<&str> = chosen.iter().flat_map(|step| step.needs).copied().collect();
    let missing = setup::provide(&needs, process::is_ci())?;
    let mut lines = vec![summary_line("setup", &Ok(Outcome::Passed), start.elapsed())];
    let failure = chosen.iter().find_map(|step| {
        println!("\n== {}: {}", step.name, step.what);
        let start = Instant::now();
        let outcome = match step.lacks(&missing) {
            Some(why) => Ok(Outcome::Skipped(why)),
            None => (step.run)(),
        };
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
    fn a_step_is_skipped_if_what_it_needs_is_missing() {
        let step = |name: &str| STEPS.iter().find(|step| step.name == name).unwrap();
        assert_eq!(step("wasm").lacks(&["wasm32"]).unwrap(), "wasm32 could not be installed");
        assert_eq!(step("test").lacks(&["nextest", "postgres"]).unwrap(), "nextest could not be installed");
        assert_eq!(step("test").lacks(&["postgres", "wasm32"]), None);
        assert_eq!(step("lint").lacks(&["nextest"]), None);
    }

    #[test]
    fn every_need_is_a_part_of_the_setup() {
        for need in STEPS.iter().flat_map(|step| step.needs) {
            assert!(setup::PARTS.iter().any(|part| part.name == *need), "{need}");
        }
    }
}
