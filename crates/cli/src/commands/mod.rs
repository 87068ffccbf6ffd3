//! One file a command.

mod audit;
mod bench;
mod data;
mod demo;
mod device;
mod evaluate;
mod federation;
mod fleet;
mod models;
mod recommend;
mod run;
mod serve;
mod shell;
mod train;
mod unlearn;

use crate::args::{Command, Program};
use anyhow::{Context, Result};

/// Does what was asked.
pub(crate) fn run(program: Program) -> Result<()> {
    let Program { command, common } = program;
    if let Some(threads) = common.threads {
        rayon::ThreadPoolBuilder::new()
            .num_threads(usize::from(threads))
            .build_global()
            .context("starting threads")?;
    }
    match command {
        Command::Demo(args) => demo::run(&args, &common),
        Command::Data(args) => data::run(&args, &common),
        Command::Train(args) => train::run(&args, &common),
        Command::Recommend(args) => recommend::run(&args, &common),
        Command::Evaluate(args) => evaluate::run(&args, &common),
        Command::Unlearn(args) => unlearn::run(&args, &common),
        Command::Run(args) => run::run(&args, &common),
        Command::Audit(args) => audit::run(&args, &common),
        Command::Device(args) => device::run(&args, &common),
        Command::Models(args) => models::run(&args, &common),
        Command::Serve(args) => serve::run(&args, &common),
        Command::Federation(args) => federation::run(&args, &common),
        Command::Fleet(args) => fleet::run(&args, &common),
        Command::Bench(args) => bench::run(&args, &common),
        Command::Completions(args) => shell::completions(&args),
        Command::Man(args) => shell::man(&args),
    }
}
