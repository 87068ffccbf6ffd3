//! The `sottovoce` program as a function, so that `crates/lite` can build it with fewer features.

mod args;
mod commands;
mod folder;
#[cfg(feature = "serve")]
mod key_file;
mod lists_file;
mod measure;
mod metrics_table;
mod model_dir;
mod output;
mod people;
mod prepared;
mod progress;

use clap::Parser;
use std::process::ExitCode;

/// Parses the command line, runs the command and returns the exit code: 0 done, 1 failed, 2 called wrongly.
pub fn main() -> ExitCode {
    let program = args::Program::parse();
    match commands::run(program) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if output::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let message = format!("{error:#}");
            eprintln!("{}: {message}", output::red("error"));
            // What a small build leaves out says which feature it needs.
            if message.contains("cargo feature") {
                eprintln!("`cargo install --path crates/cli` installs the program with all features");
            }
            ExitCode::from(if output::is_usage(&error) { 2 } else { 1 })
        }
    }
}
