//! The raw command line, one module a group of commands; `commands` gives it meaning.

mod audience;
mod audit;
mod data;
mod device;
mod experiment;
mod service;
mod training;

pub(crate) use audience::Audience;
#[cfg(feature = "serve")]
pub(crate) use audience::{AdvertiserArgs, Categories, Waiting};
pub(crate) use audit::{Audit, Sweep};
pub(crate) use data::{
    CleaningArgs, Data, FileKind, GraphArgs, InterestsArgs, Loading, Preparing, Reading, Source, SplitArgs,
};
pub(crate) use device::Device;
#[cfg(feature = "serve")]
pub(crate) use device::{Audiences, ChangePolicy, ClickLog, Enrol, JoinAudiences, Location, RunDevice};
pub(crate) use experiment::{Bench, Demo, Models, Run};
#[cfg(feature = "serve")]
pub(crate) use service::{Create, End, FederationArgs, Schedule, ServerArgs};
pub(crate) use service::{Federation, Fleet, Keep, Serve};
pub(crate) use training::{ClickArgs, Evaluate, ModelSettings, PeoplePart, Recommend, Train, Unlearn};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use sottovoce_models::settings::Value;
use sottovoce_privacy::tokens::from_hex;
use sottovoce_protocol::DisclosureMode;
use std::path::PathBuf;

const ABOUT: &str = "A federated recommender: it learns from many people's devices what to recommend, \
    while what each person liked stays on their device";

const EXAMPLES: &str = "Examples:
  sottovoce demo                                         a guided tour on a synthetic town
  sottovoce data describe ml-1m --data-dir ~/data        statistics of a data set
  sottovoce train --model bpr-mf --data ml-1m --data-dir ~/data --min-interactions 21
  sottovoce run experiments/baselines-ml-100k.toml --data-dir ~/data

A data set is a file or folder, `synth:town[:users=N:seed=N]`, or a bare name under --data-dir or $SOTTOVOCE_DATA.
Exit codes: 0 success, 1 failure, 2 usage error.";

/// The program and what all commands share.
#[derive(Debug, Parser)]
#[command(name = "sottovoce", version, about = ABOUT, after_help = EXAMPLES, propagate_version = true)]
pub(crate) struct Program {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Options that every command takes.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Common options")]
pub(crate) struct Common {
    /// Print a JSON document instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Seed of all randomness: the same seed gives the same result
    #[arg(long, global = true, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    /// Number of threads [default: all cores]; does not change the result
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// Folder in which bare names of data sets are looked up
    #[arg(long, global = true, value_name = "DIR", env = "SOTTOVOCE_DATA")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Suppress progress bars and notes
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Take a guided tour on a synthetic town: train, compare, audit, report
    Demo(Demo),
    /// Describe, convert, generate and split data sets
    #[command(subcommand)]
    Data(Data),
    /// Train one model on one data set and evaluate it
    Train(Train),
    /// Recommend items to a user with a trained model
    Recommend(Recommend),
    /// Evaluate the recommendation lists of any system
    Evaluate(Evaluate),
    /// Measure what a model retains of users who withdraw
    Unlearn(Unlearn),
    /// Run an experiment file (data sets x models x settings) and write one report; resumes after an interruption
    Run(Run),
    /// Measure what an honest-but-curious server could reconstruct of users' histories
    Audit(Audit),
    /// Be a device of a federation: enrol, take part, see and decide what leaves
    #[command(subcommand)]
    Device(Device),
    /// List the models and their settings
    Models(Models),
    /// Run the coordinator of federations: the server that devices talk to
    Serve(Serve),
    /// Run the keeper of federations with seal = keeper: the second party that opens their sums
    Keep(Keep),
    /// Create, watch and steer federations on a server
    #[command(subcommand)]
    Federation(Federation),
    /// Describe audiences as an advertiser, and see how large they are
    #[command(subcommand)]
    Audience(Audience),
    /// Drive many devices in one process against a server, for tests and for load
    Fleet(Fleet),
    /// Turn consented click logs into interests and look-alikes, day by day
    Pipeline(Pipeline),
    /// Measure speed and memory, next to peer programs where available
    Bench(Bench),
    /// Print a shell completion script
    Completions(Completions),
    /// Print the manual page, or write one for each command into a folder
    Man(Man),
}

/// `pipeline`.
#[derive(Debug, Args)]
#[command(disable_help_flag = true, after_help = "Example:\n  sottovoce pipeline --help")]
pub(crate) struct Pipeline {
    /// What is handed on to sottovoce-pipeline
    #[arg(value_name = "ARGUMENTS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<std::ffi::OsString>,
}

/// `completions`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  sottovoce completions bash > /etc/bash_completion.d/sottovoce")]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// `man`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  sottovoce man | man -l -")]
pub(crate) struct Man {
    /// Write a page for each command into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

fn key_value(text: &str) -> Result<(String, Value), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() && !value.trim().is_empty() => {
            Ok((key.trim().to_owned(), Value::parse(value)))
        }
        _ => Err(format!("`{text}` is not KEY=VALUE")),
    }
}

/// A key or digest of 32 bytes.
fn digest(text: &str) -> Result<[u8; 32], String> {
    let bytes = from_hex(&text.trim().to_ascii_lowercase()).and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| "expected 64 hexadecimal digits".to_owned())
}

fn key_values(text: &str) -> Result<(String, Vec<Value>), String> {
    let (key, values) = text.split_once('=').unwrap_or((text, ""));
    let values: Vec<&str> = values.split(',').map(str::trim).collect();
    match key.trim() {
        key if !key.is_empty() && values.iter().all(|value| !value.is_empty()) => {
            Ok((key.to_owned(), values.into_iter().map(Value::parse).collect()))
        }
        _ => Err(format!("`{text}` is not KEY=VALUE,VALUE..")),
    }
}

/// When the disclosed subset of a history is drawn.
fn disclosure_mode() -> impl TypedValueParser<Value = DisclosureMode> {
    let values = DisclosureMode::NAMES.iter().zip(["kept", "each-round"]);
    let values = values.map(|(name, old)| PossibleValue::new(*name).alias(old));
    PossibleValuesParser::new(values).map(|name| DisclosureMode::named(&name).unwrap_or_default())
}

/// Other words for the length of lists.
const TOP_K: [&str; 5] = ["top_k", "topk", "k", "cutoff", "cutoffs"];

fn cutoff(text: &str) -> Result<usize, String> {
    match text.trim().parse() {
        Ok(k) if (1..=10_000).contains(&k) => Ok(k),
        _ => Err("a list length is a whole number from 1 to 10000".to_owned()),
    }
}

/// A time that somebody waits.
fn seconds(text: &str) -> Result<f64, String> {
    match text.trim().parse() {
        Ok(seconds) if (0.001..=1e9).contains(&seconds) => Ok(seconds),
        _ => Err("a number of seconds above 0, and at most 1e9".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn command_line_is_well_formed() {
        Program::command().debug_assert();
    }

    /// The command lines of the examples in a help text, as words.
    fn examples(help: &str) -> Vec<Vec<String>> {
        let joined = help.replace(" \\\n      ", " ");
        let commands = joined.lines().filter_map(|line| line.strip_prefix("  sottovoce "));
        // Up to a remark, a pipe or a redirection.
        let ends = ["   ", " > ", " | "];
        commands
            .map(|line| words(ends.iter().fold(line, |line, end| line.split(end).next().unwrap_or_default())))
            .collect()
    }

    fn words(line: &str) -> Vec<String> {
        let parts = line.split('\'').enumerate();
        let split = |(at, part): (usize, &str)| match at % 2 {
            0 => part.split_whitespace().map(str::to_owned).collect::<Vec<_>>(),
            _ => vec![part.to_owned()],
        };
        parts.flat_map(split).collect()
    }

    /// Those that need no server are run by `tests/examples.rs`.
    #[test]
    fn every_example_in_every_help_text_is_a_valid_command_line() {
        fn visit(command: &clap::Command, seen: &mut usize) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for example in examples(&help) {
                let words = std::iter::once("sottovoce".to_owned()).chain(example.clone());
                match Program::try_parse_from(words) {
                    Ok(_) => *seen += 1,
                    Err(error) => panic!("{}: {error}", example.join(" ")),
                }
            }
            command.get_subcommands().for_each(|child| visit(child, seen));
        }
        let mut seen = 0;
        visit(&Program::command(), &mut seen);
        assert!(seen > 60, "{seen}");
    }

    #[test]
    fn settings_keep_an_equals_sign_in_the_value() {
        assert_eq!(key_value("a=b=c"), Ok(("a".to_owned(), Value::Word("b=c".to_owned()))));
        assert!(key_value("a=").is_err() && key_value("=1").is_err() && key_value("a").is_err());
    }
}
