//! The command line as written; `commands` gives it meaning.

mod audit;
mod device;
mod service;
mod training;
mod unlearn;

pub(crate) use audit::{Audit, Sweep};
pub(crate) use device::{ChangePolicy, Device, Enrol, Location, RunDevice};
pub(crate) use service::{Create, Federation, FederationArgs, Fleet, Serve, ServerArgs};
pub(crate) use training::{ModelSettings, Preparing};
pub(crate) use unlearn::Unlearn;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use sottovoce_data::{Cleaning, Columns, Format, GraphPlan, LoadOptions, Repeats, Split};
use sottovoce_experiment::checkpoint::Every;
use sottovoce_models::settings::Value;
use sottovoce_protocol::DisclosureMode;
use std::path::PathBuf;

const ABOUT: &str = "A federated recommender: it learns from many people's devices what to recommend, \
    while what each person liked stays on their device";

const EXAMPLES: &str = "Examples:
  sottovoce demo                                         the whole story on a made-up town
  sottovoce data describe ml-1m --data-dir ~/data        what is in a data set
  sottovoce train --model bpr-mf --data ml-1m --data-dir ~/data --min-interactions 21
  sottovoce run experiments/baselines-ml-100k.toml --data-dir ~/data

A data set is a file or folder, `synth:town[:users=N:seed=N]`, or a bare name under --data-dir or $SOTTOVOCE_DATA.
Exit codes: 0 done, 1 failed, 2 called wrongly.";

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
    /// Print one JSON document instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Determines all randomness: the same seed gives the same result
    #[arg(long, global = true, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    /// Threads to use [default: all cores]; the result does not depend on it
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// Where data sets with bare names lie
    #[arg(long, global = true, value_name = "DIR", env = "SOTTOVOCE_DATA")]
    pub(crate) data_dir: Option<PathBuf>,
    /// No progress bars, no notes
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// The whole story on a made-up town: train, compare, open the report
    Demo(Demo),
    /// Look at, convert, invent and split data sets
    #[command(subcommand)]
    Data(Data),
    /// Train one model on one data set and judge it
    Train(Train),
    /// The best items for a person, by a trained model
    Recommend(Recommend),
    /// Score anybody's recommendation lists
    Evaluate(Evaluate),
    /// Measure what is left in a model of people who withdraw
    Unlearn(Unlearn),
    /// Run an experiment file: data sets x models x settings, one report; resumes after an interruption
    Run(Run),
    /// Play the curious server: what could it rebuild of people's histories?
    Audit(Audit),
    /// Be a device of a federation: enrol, take part, see and decide what leaves
    #[command(subcommand)]
    Device(Device),
    /// List the models and their settings
    Models(Models),
    /// Run the coordinator of federations: the server that devices talk to
    Serve(Serve),
    /// Create, watch and steer federations on a server
    #[command(subcommand)]
    Federation(Federation),
    /// Drive many devices in one process against a server, for tests and for load
    Fleet(Fleet),
    /// Measure speed and memory, beside peers where they are at hand
    Bench(Bench),
    /// Print a completion script for a shell
    Completions(Completions),
    /// Print the manual page, or write one a command into a folder
    Man(Man),
}

/// `demo`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  sottovoce demo --out runs/demo --no-open")]
pub(crate) struct Demo {
    /// Where the report goes
    #[arg(long, default_value = "runs/demo", value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Residents of the made-up town
    #[arg(long, default_value_t = 1500, value_name = "N", value_parser = clap::value_parser!(u32).range(50..=1_000_000))]
    pub(crate) users: u32,
    /// Do not open the report in a browser
    #[arg(long)]
    pub(crate) no_open: bool,
}

/// `data`.
#[derive(Debug, Subcommand)]
pub(crate) enum Data {
    /// What is in a data set: sizes, density, popularity, history lengths, fingerprint
    #[command(after_help = "Examples:\n  sottovoce data describe ml-1m --data-dir ~/data\n  \
        sottovoce data describe ratings.csv.gz --columns user=0,item=1,rating=2 --json\n  \
        sottovoce data describe synth:town --graph town")]
    Describe {
        #[command(flatten)]
        source: Source,
        #[command(flatten)]
        graph: GraphArgs,
        #[command(flatten)]
        cleaning: CleaningArgs,
    },
    /// Convert a data set to TSV, Parquet or a file of histories (by the ending of the output; .gz and .zst compress)
    #[command(after_help = "Examples:\n  sottovoce data convert ml-1m ml-1m.parquet\n  \
        sottovoce data convert ml-latest/ratings.csv out.tsv.gz --threshold 3 --k-core 10\n  \
        sottovoce data convert synth:town:users=10000000 town.histories\n\n\
        A file of histories holds each person's items and nothing else; `train --stream` learns from it without having it \
        in memory.")]
    Convert {
        #[command(flatten)]
        source: Source,
        /// The file to write
        #[arg(value_name = "OUT")]
        out: PathBuf,
        #[command(flatten)]
        cleaning: CleaningArgs,
    },
    /// Write a made-up town: check-ins, places, graph, pages, reading, residents
    #[command(after_help = "Example:\n  sottovoce data synth town:users=100000:seed=3 --out town")]
    Synth {
        /// The town, with parameters: town:users=N:seed=N
        #[arg(value_name = "TOWN", default_value = "town")]
        town: String,
        /// The folder to write
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
    /// One person's history, as `device enrol` takes it: item and, where it is known, time
    #[command(after_help = "Example:\n  sottovoce data history ml-100k --user 196 --out 196.tsv")]
    History {
        #[command(flatten)]
        source: Source,
        /// Whose; the id as the data set writes it
        #[arg(long, value_name = "USER")]
        user: String,
        /// The file to write [default: standard output]
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        #[command(flatten)]
        cleaning: CleaningArgs,
    },
    /// Split a data set and write train, validation and test parts
    #[command(
        after_help = "Example:\n  sottovoce data split ml-100k --min-interactions 21 --split temporal:0.8 \
        --validation temporal:0.8 --out parts"
    )]
    Split {
        #[command(flatten)]
        source: Source,
        #[command(flatten)]
        cleaning: CleaningArgs,
        #[command(flatten)]
        split: SplitArgs,
        /// The folder to write
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// How to write the parts
        #[arg(long, value_enum, default_value_t = FileKind::Tsv)]
        to: FileKind,
    },
}

/// Kinds of files that can be written.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum FileKind {
    /// Tab-separated text with a header
    Tsv,
    /// Parquet
    Parquet,
}

/// Where interactions come from, for commands that take DATA first.
#[derive(Clone, Debug, Args)]
pub(crate) struct Source {
    /// A file, a folder, a bare name, or synth:town[:users=N]
    #[arg(value_name = "DATA")]
    pub(crate) data: String,
    #[command(flatten)]
    pub(crate) reading: Reading,
}

/// How a file is read.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Reading")]
pub(crate) struct Reading {
    /// The format, where it should not be found out from the content
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<Format>,
    /// Which column is what, by number from 0 or by name: user=0,item=2,rating=stars,timestamp=when
    #[arg(long, value_name = "MAP")]
    pub(crate) columns: Option<Columns>,
    /// Leave out lines that cannot be read, and say how many, instead of stopping at the first
    #[arg(long)]
    pub(crate) skip_bad: bool,
}

/// A knowledge graph about the items.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Knowledge graph")]
pub(crate) struct GraphArgs {
    /// The graph's files (.nt, .ttl, or tables of triples, features, predicates or a mapping from items to entities), or
    /// `categories`, or `town`; mapping=FILE, triples=FILE, features=FILE or predicates=FILE where a file does not say what it is
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub(crate) graph: Vec<String>,
    /// How many statements away from an item is looked
    #[arg(long, value_name = "N", default_value_t = 2, requires = "graph", value_parser = clap::value_parser!(u8).range(1..=4))]
    pub(crate) graph_hops: u8,
    /// Leave out features of fewer items
    #[arg(long, value_name = "N", default_value_t = 10, requires = "graph")]
    pub(crate) graph_least_items: usize,
    /// Leave out features with this predicate, instead of the usual ones; may be given several times
    #[arg(long, value_name = "PREDICATE", action = ArgAction::Append, requires = "graph")]
    pub(crate) graph_drop: Vec<String>,
    /// Follow statements from object to subject as well
    #[arg(long, requires = "graph")]
    pub(crate) graph_inverse: bool,
    /// What stands before an item's id in its entity's name, where no mapping does
    #[arg(long, value_name = "IRI", default_value = "", hide_default_value = true, requires = "graph")]
    pub(crate) graph_base: String,
    /// Read the graph before cleaning: items with a feature are counted over the whole set, and items it does not know are
    /// left out
    #[arg(long, requires = "graph")]
    pub(crate) graph_first: bool,
}

impl GraphArgs {
    /// The same for the loader; `None` if no graph is asked for.
    pub(crate) fn plan(&self) -> Option<GraphPlan> {
        let usual = GraphPlan::default();
        (!self.graph.is_empty()).then(|| GraphPlan {
            sources: self.graph.clone(),
            hops: self.graph_hops,
            least_items: self.graph_least_items,
            drop: if self.graph_drop.is_empty() { usual.drop } else { self.graph_drop.clone() },
            inverse: self.graph_inverse,
            base: self.graph_base.clone(),
            first: self.graph_first,
        })
    }
}

impl Reading {
    /// The same with a knowledge graph.
    pub(crate) fn with_graph(&self, graph: &GraphArgs, common: &Common) -> LoadOptions {
        LoadOptions { graph: graph.plan(), ..self.options(common) }
    }

    /// What the loader needs.
    pub(crate) fn options(&self, common: &Common) -> LoadOptions {
        LoadOptions {
            format: self.format,
            columns: self.columns.clone(),
            skip_bad: self.skip_bad,
            data_dir: common.data_dir.clone(),
            graph: None,
        }
    }
}

/// Which interactions count.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Cleaning")]
pub(crate) struct CleaningArgs {
    /// Keep users with at least N interactions ("more than 20" is 21)
    #[arg(long, value_name = "N")]
    pub(crate) min_interactions: Option<usize>,
    /// Keep users and items with at least N interactions each, repeated until nothing changes
    #[arg(long, value_name = "N")]
    pub(crate) k_core: Option<usize>,
    /// Count only ratings of at least R
    #[arg(long, value_name = "R", allow_negative_numbers = true)]
    pub(crate) threshold: Option<f32>,
    /// Keep repeated (user, item) pairs instead of the earliest only
    #[arg(long)]
    pub(crate) keep_repeats: bool,
}

impl CleaningArgs {
    /// Whether no cleaning was asked for.
    pub(crate) fn is_default(&self) -> bool {
        self.min_interactions.is_none()
            && self.k_core.is_none()
            && self.threshold.is_none()
            && !self.keep_repeats
    }

    /// As the data crate says it.
    pub(crate) fn cleaning(&self) -> Cleaning {
        Cleaning {
            threshold: self.threshold,
            repeats: if self.keep_repeats { Repeats::Keep } else { Repeats::Once },
            k_core: self.k_core,
            min_interactions: self.min_interactions,
        }
    }
}

/// How each history is divided.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Splitting")]
pub(crate) struct SplitArgs {
    /// temporal:SHARE, random:SHARE or last [default: temporal:0.8, or random:0.8 without timestamps]
    #[arg(long, value_name = "HOW")]
    pub(crate) split: Option<Split>,
    /// Take a validation part off the training part in the same way
    #[arg(long, value_name = "HOW")]
    pub(crate) validation: Option<Split>,
    /// Count held-out ratings below R neither for nor against
    #[arg(long, value_name = "R", allow_negative_numbers = true)]
    pub(crate) relevant: Option<f32>,
}

/// `train`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sottovoce train --model item-knn --data ml-1m --min-interactions 21 --set k=200
  sottovoce train --model bpr-mf --data synth:town --validation temporal:0.8 --patience 5 --out runs/bpr
  sottovoce train --model fpl --data ml-1m --set pi=0.5 --checkpoint runs/fpl/kept --out runs/fpl/model
  sottovoce train --model fpl --data town.histories --stream --set epochs=1
  sottovoce train --model kgflex --data synth:town --graph town --out runs/kgflex
  sottovoce models bpr-mf                                the settings that --set takes")]
pub(crate) struct Train {
    /// The model; `sottovoce models` lists them
    #[arg(long, value_name = "NAME")]
    pub(crate) model: String,
    /// A file, a folder, a bare name, or synth:town[:users=N]
    #[arg(long, value_name = "DATA")]
    pub(crate) data: String,
    #[command(flatten)]
    pub(crate) settings: ModelSettings,
    /// Lengths of the lists to judge
    #[arg(long, value_name = "K,K..", value_delimiter = ',', default_values_t = [5, 10, 20], value_parser = cutoff)]
    pub(crate) at: Vec<usize>,
    /// Judge against N sampled unseen items instead of all (labelled so in every output)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) sampled_negatives: Option<u32>,
    /// Stop when nDCG@10 on the validation part has not risen for N epochs, and keep the best epoch
    #[arg(long, value_name = "N", requires = "validation", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) patience: Option<u32>,
    /// Leave histories in their file (one that `data convert` wrote with the ending .histories) and read them as they
    /// are needed, for populations that do not fit memory
    #[arg(long)]
    pub(crate) stream: bool,
    /// A folder to keep the state of a federated training in; stopped at any moment, the same command goes on from there
    #[arg(long, value_name = "DIR", help_heading = "Checkpoints")]
    pub(crate) checkpoint: Option<PathBuf>,
    /// How often: after so many epochs, or with 200rounds after so many rounds
    #[arg(
        long,
        value_name = "N",
        default_value = "1",
        requires = "checkpoint",
        help_heading = "Checkpoints"
    )]
    pub(crate) checkpoint_every: Every,
    /// Go on from a checkpoint, and fail if there is none
    #[arg(long, requires = "checkpoint", help_heading = "Checkpoints")]
    pub(crate) resume: bool,
    /// Begin anew although there is a checkpoint
    #[arg(long, requires = "checkpoint", conflicts_with = "resume", help_heading = "Checkpoints")]
    pub(crate) fresh: bool,
    /// A folder for the trained model and its report
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) preparing: Preparing,
}

/// `recommend`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  sottovoce train --model item-knn --data synth:town --out runs/knn\n  \
    sottovoce recommend --model-dir runs/knn --user r17 -k 5 --explain")]
pub(crate) struct Recommend {
    /// The folder that `train --out` wrote
    #[arg(long, value_name = "DIR")]
    pub(crate) model_dir: PathBuf,
    /// Whose list; the id as the data set writes it
    #[arg(long, value_name = "USER")]
    pub(crate) user: String,
    /// How many items
    #[arg(short, value_name = "K", default_value_t = 10, value_parser = cutoff)]
    pub(crate) k: usize,
    /// Say why each item is there, where the model can tell
    #[arg(long)]
    pub(crate) explain: bool,
}

/// `evaluate`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  sottovoce evaluate --train train.tsv --test test.tsv \
    --recommendations elliot.tsv --items items.tsv --at 1,5,10 --json\n\n\
    Files are delimited text or Parquet with a user and an item column. Lists are ranked by a `score` column \
    (descending), by a `rank` column (ascending), or by their order in the file. The items file (item, categories \
    separated by |) makes the catalog and gives bias disparity; without it the catalog is every item in the other files.")]
pub(crate) struct Evaluate {
    /// Interactions the system had seen
    #[arg(long, value_name = "FILE")]
    pub(crate) train: PathBuf,
    /// Interactions it should have found
    #[arg(long, value_name = "FILE")]
    pub(crate) test: PathBuf,
    /// Its lists: user, item and score or rank
    #[arg(long, value_name = "FILE")]
    pub(crate) recommendations: PathBuf,
    /// The catalog, with categories
    #[arg(long, value_name = "FILE")]
    pub(crate) items: Option<PathBuf>,
    /// Lengths of the lists to judge
    #[arg(long, value_name = "K,K..", value_delimiter = ',', default_values_t = [1, 5, 10], value_parser = cutoff)]
    pub(crate) at: Vec<usize>,
    /// Also write the values of every user, as TSV
    #[arg(long, value_name = "FILE")]
    pub(crate) per_user: Option<PathBuf>,
}

/// `run`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  sottovoce run experiments/baselines-ml-100k.toml --data-dir ~/data\n\n\
    Stopped at any moment, the same command goes on where it was. docs/experiments.md describes the file.")]
pub(crate) struct Run {
    /// The experiment file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Where results go [default: runs/NAME-OF-THE-FILE]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Throw away what an earlier run left and begin anew
    #[arg(long, conflicts_with = "amend")]
    pub(crate) fresh: bool,
    /// Go on although the file has changed, keeping the trials that it still asks for
    #[arg(long)]
    pub(crate) amend: bool,
    /// Trials at a time [default: number of threads]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) jobs: Option<u16>,
    /// Say what would be run, and stop
    #[arg(long)]
    pub(crate) plan: bool,
}

/// `models`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  sottovoce models\n  sottovoce models bpr-mf --json")]
pub(crate) struct Models {
    /// One model, with its settings
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
}

/// `bench`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sottovoce bench                                        everything, on a made-up set of ml-1m's size
  sottovoce bench bpr ials fpl --data ml-1m --peers 'python3 peers.py'

The peer command is called as CMD implicit-bpr|implicit-als FILE --factors N --epochs N --threads 1 and prints one line \
of JSON with cpu_s_per_epoch, triples_per_cpu_s and ndcg; as CMD torch-multivae FILE --epochs N --threads N with \
cpu_s_per_epoch and wall_s_per_epoch; and as CMD torch-step --batch N --threads 1 with cpu_us_per_step. Ratios are then \
printed beside our figures.")]
pub(crate) struct Bench {
    /// Which benchmarks: load, bpr, ials, fpl, fleet, dense-fleet, kgflex, neural-step, multivae, secagg, he, noise, evaluate,
    /// memory [default: all]
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// The data to measure on
    #[arg(long, value_name = "DATA")]
    pub(crate) data: Option<String>,
    /// A program that runs a peer on the same work
    #[arg(long, value_name = "CMD")]
    pub(crate) peers: Option<String>,
    /// How often each is measured; the median counts
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=99))]
    pub(crate) repeats: u16,
    #[command(flatten)]
    pub(crate) graph: GraphArgs,
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

/// How often it is drawn what leaves by pi.
fn pi_draw() -> impl TypedValueParser<Value = DisclosureMode> {
    PossibleValuesParser::new(DisclosureMode::NAMES).map(|name| DisclosureMode::named(&name).unwrap_or_default())
}

fn cutoff(text: &str) -> Result<usize, String> {
    match text.trim().parse() {
        Ok(k) if (1..=10_000).contains(&k) => Ok(k),
        _ => Err("a list length is a whole number from 1 to 10000".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Program::command().debug_assert();
    }

    #[test]
    fn settings_keep_an_equals_sign_in_the_value() {
        assert_eq!(key_value("a=b=c"), Ok(("a".to_owned(), Value::Word("b=c".to_owned()))));
        assert!(key_value("a=").is_err() && key_value("=1").is_err() && key_value("a").is_err());
    }
}
