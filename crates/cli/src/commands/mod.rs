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
#[cfg(feature = "serve")]
mod keep;
mod models;
mod pipeline;
mod recommend;
mod run;
#[cfg(feature = "serve")]
mod serve;
mod shell;
mod train;
mod unlearn;

use crate::args::{Command, Data, Program};
use crate::folder::{Target, check_writable};
use anyhow::{Context, Result};
use std::path::PathBuf;

/// Does what was asked.
pub(crate) fn run(program: Program) -> Result<()> {
    let Program { command, common } = program;
    if let Some(threads) = common.threads {
        rayon::ThreadPoolBuilder::new().num_threads(usize::from(threads)).build_global().context("starting threads")?;
    }
    outputs(&command).into_iter().try_for_each(check_writable)?;
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
        Command::Keep(args) => keep::run(&args, &common),
        #[cfg(feature = "serve")]
        Command::Federation(args) => federation::run(&args, &common),
        #[cfg(feature = "serve")]
        Command::Audience(args) => audience::run(&args, &common),
        #[cfg(feature = "serve")]
        Command::Fleet(args) => fleet::run(&args, &common),
        #[cfg(not(feature = "serve"))]
        Command::Device(_)
        | Command::Serve(_)
        | Command::Keep(_)
        | Command::Federation(_)
        | Command::Audience(_)
        | Command::Fleet(_) => left_out("serve"),
        #[cfg(not(feature = "bench"))]
        Command::Bench(_) => left_out("bench"),
        #[cfg(feature = "bench")]
        Command::Bench(args) => bench::run(&args, &common),
        Command::Pipeline(args) => pipeline::run(&args),
        Command::Completions(args) => shell::completions(&args),
        Command::Man(args) => shell::man(&args),
    }
}

/// Everything that a command will write at its end, which is checked before it starts.
fn outputs(command: &Command) -> Vec<Target<'_>> {
    let (mut wholes, mut intos, mut files): (Vec<&PathBuf>, Vec<&PathBuf>, Vec<&PathBuf>) = Default::default();
    match command {
        Command::Demo(args) => intos.push(&args.out),
        Command::Data(Data::Convert { out, .. }) => files.push(out),
        Command::Data(Data::Synth { out, .. } | Data::Split { out, .. }) => wholes.push(out),
        Command::Data(Data::History { out, .. }) => files.extend(out),
        Command::Data(Data::Interests(args)) => files.extend(&args.out),
        Command::Train(args) => {
            wholes.extend(&args.out);
            intos.extend(&args.checkpoint);
        }
        Command::Evaluate(args) => files.extend(&args.per_user),
        Command::Run(args) if !args.plan => intos.extend(&args.out),
        Command::Audit(args) => wholes.extend(&args.out),
        Command::Fleet(args) => {
            files.extend(args.devices_out.iter().chain(&args.model_out));
            intos.extend(&args.store);
        }
        Command::Man(args) => intos.extend(&args.out),
        _ => {}
    }
    let wholes = wholes.into_iter().map(|path| Target::Whole(path));
    let intos = intos.into_iter().map(|path| Target::Into(path));
    wholes.chain(intos).chain(files.into_iter().map(|path| Target::File(path))).collect()
}

/// The answer of a command that is not in this build.
#[cfg(not(all(feature = "bench", feature = "serve")))]
fn left_out(feature: &str) -> Result<()> {
    anyhow::bail!("this command needs the cargo feature `{feature}`, which this build leaves out")
}
