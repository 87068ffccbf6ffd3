//! One file a command.

#[cfg(feature = "serve")]
mod audience;
mod audit;
#[cfg(feature = "bench")]
mod bench;
mod data;
mod demo;
#[cfg(feature = "serve")]
mod device;
mod evaluate;
#[cfg(feature = "serve")]
mod federation;
#[cfg(feature = "serve")]
mod fleet;
mod models;
mod pipeline;
mod recommend;
mod run;
#[cfg(feature = "serve")]
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
        rayon::ThreadPoolBuilder::new().num_threads(usize::from(threads)).build_global().context("starting threads")?;
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
        #[cfg(feature = "serve")]
        Command::Device(args) => device::run(&args, &common),
        Command::Models(args) => models::run(&args, &common),
        #[cfg(feature = "serve")]
        Command::Serve(args) => serve::run(&args, &common),
        #[cfg(feature = "serve")]
        Command::Federation(args) => federation::run(&args, &common),
        #[cfg(feature = "serve")]
        Command::Audience(args) => audience::run(&args, &common),
        #[cfg(feature = "serve")]
        Command::Fleet(args) => fleet::run(&args, &common),
        #[cfg(not(feature = "serve"))]
        Command::Device(_) | Command::Serve(_) | Command::Federation(_) | Command::Audience(_) | Command::Fleet(_) => {
            left_out("serve")
        }
        #[cfg(not(feature = "bench"))]
        Command::Bench(_) => left_out("bench"),
        #[cfg(feature = "bench")]
        Command::Bench(args) => bench::run(&args, &common),
        Command::Pipeline(args) => pipeline::run(&args),
        Command::Completions(args) => shell::completions(&args),
        Command::Man(args) => shell::man(&args),
    }
}

/// The answer of a command that is not in this build.
#[cfg(not(all(feature = "bench", feature = "serve")))]
fn left_out(feature: &str) -> Result<()> {
    anyhow::bail!("this command needs the cargo feature `{feature}`, which this build leaves out")
}
