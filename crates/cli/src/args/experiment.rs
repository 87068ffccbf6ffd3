//! `run`, `demo`, `models` and `bench`.

use super::GraphArgs;
use clap::Args;
use std::path::PathBuf;

/// `run`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  sottovoce run experiments/baselines-ml-100k.toml --data-dir ~/data\n\n\
    Interrupted at any moment, the same command resumes. docs/experiments.md describes the file.")]
pub(crate) struct Run {
    /// Experiment file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Run folder [default: runs/NAME-OF-THE-FILE]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Delete the results of an earlier run and start again
    #[arg(long, conflicts_with = "amend")]
    pub(crate) fresh: bool,
    /// Resume although the file has changed, keeping the trials that it still asks for
    #[arg(long)]
    pub(crate) amend: bool,
    /// Number of trials to run in parallel [default: number of threads]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) jobs: Option<u16>,
    /// Show what would be run, and exit
    #[arg(long)]
    pub(crate) plan: bool,
}

/// `demo`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  sottovoce demo --out runs/demo --no-open")]
pub(crate) struct Demo {
    /// Folder for the report
    #[arg(long, default_value = "runs/demo", value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Number of residents of the synthetic town
    #[arg(long, default_value_t = 1500, value_name = "N", value_parser = clap::value_parser!(u32).range(50..=1_000_000))]
    pub(crate) users: u32,
    /// Do not open the report in a browser
    #[arg(long)]
    pub(crate) no_open: bool,
}

/// `models`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  sottovoce models\n  sottovoce models bpr-mf --json")]
pub(crate) struct Models {
    /// Show the settings of this model
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
}

/// `bench`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sottovoce bench                                        all benchmarks, on synthetic data
  sottovoce bench bpr ials fpl --data ml-1m --peers 'python3 peers.py'

The peer command is called as CMD implicit-bpr|implicit-als FILE --factors N --epochs N --threads 1 and prints one line \
of JSON with cpu_s_per_epoch, triples_per_cpu_s and ndcg; as CMD torch-multivae FILE --epochs N --threads N with \
cpu_s_per_epoch and wall_s_per_epoch; as CMD gensim-word2vec FILE --window N --epochs N --threads 1 (a window of 0 is \
the whole sentence) with words_per_cpu_s; and as CMD torch-step --batch N --threads 1 with cpu_us_per_step. Ratios are then \
printed next to our figures.")]
pub(crate) struct Bench {
    /// Benchmarks to run: load, bpr, ials, fpl, fleet, dense-fleet, kgflex, neural-step, multivae, refrs, word2vec,
    /// lookalike, secagg, he, noise, evaluate, memory [default: all]
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// Data set to measure on
    #[arg(long, value_name = "DATA")]
    pub(crate) data: Option<String>,
    /// Program that runs a peer on the same work
    #[arg(long, value_name = "CMD")]
    pub(crate) peers: Option<String>,
    /// Repetitions of each benchmark; the median counts
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=99))]
    pub(crate) repeats: u16,
    #[command(flatten)]
    pub(crate) graph: GraphArgs,
}
