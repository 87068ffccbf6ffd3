//! The workshop of Sottovoce: `cargo xtask test` and what belongs to it.
//!
//! A program instead of scripts, so that a newcomer needs cargo and nothing else, and the same steps run on every
//! machine. Each step is an ordinary command that is shown before it runs and can be repeated by hand.

#![allow(clippy::print_stdout, reason = "a program that reports to people")]

mod arguments;
mod hostile;
mod lint;
mod postgres;
mod process;
mod prove;
mod scale;
mod setup;
mod steps;
mod wasm;
mod workspace;

use arguments::Task;
use std::process::ExitCode;

const HELP: &str = "\
The workshop of Sottovoce.

Usage: cargo xtask COMMAND

  setup [--only PART]... [--skip PART]...
                               install what the other commands need and is missing
  test [--only STEP]... [--skip STEP]...
                               the full test run, which installs first what it needs and is missing;
                               stops at the first step that fails
  lint                         the rules of the workspace alone: layers, Markdown, words, paths
  prove NAME [--long]          a proof too long for the test run; its figure is the last line
  prove scale [--users N]      the same with another number of devices whose histories stay in a file
  bench [-- ARGUMENTS]         the criterion benchmarks
  list                         the steps, parts and proofs by name

Example: cargo xtask test --only clippy --only test
";

fn main() -> ExitCode {
    let task = match arguments::parse(lexopt::Parser::from_env()) {
        Ok(task) => task,
        Err(error) => {
            eprintln!("error: {error}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match perform(task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn perform(task: Task) -> anyhow::Result<()> {
    match task {
        Task::Help => print!("{HELP}"),
        Task::List => list(),
        Task::Setup(choice) => setup::run(&choice)?,
        Task::Test(choice) => steps::run(&choice)?,
        Task::Lint => lint::check()?,
        Task::Prove { name, extent } => prove::run(&name, extent)?,
        Task::Bench(rest) => bench(rest)?,
    }
    Ok(())
}

fn list() {
    println!("steps of `cargo xtask test`:");
    for step in steps::STEPS {
        println!("  {:<10} {}", step.name, step.what);
    }
    println!("parts of `cargo xtask setup`:");
    for part in setup::PARTS {
        println!("  {:<10} {}", part.name, part.what);
    }
    println!("proofs of `cargo xtask prove`:");
    for proof in prove::PROOFS {
        println!("  {:<10} {}", proof.name, proof.what);
    }
}

fn bench(rest: Vec<std::ffi::OsString>) -> anyhow::Result<()> {
    anyhow::ensure!(workspace::Members::read()?.has_benches(), "no crate has a benchmark");
    // Only bench targets: a library's own test harness does not know criterion's arguments.
    process::show_and_run(process::cargo(["bench", "--workspace", "--bench", "*", "--"]).args(rest))
}
