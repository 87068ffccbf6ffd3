//! The `sottovoce` program.

mod args;
mod commands;
mod folder;
mod key_file;
mod lists_file;
mod measure;
mod metrics_table;
mod model_dir;
mod output;
mod prepared;
mod progress;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let program = args::Program::parse();
    match commands::run(program) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if output::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error:#}", output::red("error"));
            ExitCode::from(if output::is_usage(&error) { 2 } else { 1 })
        }
    }
}
