//! `data`, and the options of all commands that read a data set.

use super::Common;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args, Subcommand, ValueEnum};
use sottovoce_data::{CatalogRule, Cleaning, Columns, Format, GraphConfig, LoadOptions, Repeats, Split, UserSample};
use std::path::PathBuf;

/// `data`.
#[derive(Debug, Subcommand)]
pub(crate) enum Data {
    /// Show statistics of a data set: sizes, density, popularity, history lengths, fingerprint
    #[command(after_help = "Examples:\n  sottovoce data describe ml-1m --data-dir ~/data\n  \
        sottovoce data describe ratings.csv.gz --columns user=0,item=1,rating=2 --json\n  \
        sottovoce data describe synth:town --graph town")]
    Describe {
        /// A file, a folder, a bare name, or synth:town[:users=N]
        #[arg(value_name = "DATA")]
        data: String,
        #[command(flatten)]
        loading: Loading,
    },
    /// Convert a data set to TSV, Parquet or a history file (by the extension of OUT; .gz and .zst compress)
    #[command(after_help = "Examples:\n  sottovoce data convert ml-1m ml-1m.parquet\n  \
        sottovoce data convert ml-latest/ratings.csv out.tsv.gz --threshold 3 --k-core 10\n  \
        sottovoce data convert synth:town:users=10000000 town.histories\n\n\
        A history file has the items of each user and nothing else; `train --stream` trains on it without loading it into \
        memory.")]
    Convert {
        #[command(flatten)]
        source: Source,
        /// File to write
        #[arg(value_name = "OUT")]
        out: PathBuf,
        #[command(flatten)]
        cleaning: CleaningArgs,
    },
    /// Generate a synthetic town: check-ins, places, knowledge graph, pages, page views, residents
    #[command(after_help = "Example:\n  sottovoce data synth town:users=100000:seed=3 --out town")]
    Synth {
        /// The town and its parameters: town:users=N:seed=N
        #[arg(value_name = "TOWN", default_value = "town")]
        town: String,
        /// Folder to write
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
    /// Extract the history of one user, as `device enrol` reads it: items and, where known, timestamps
    #[command(after_help = "Example:\n  sottovoce data history ml-100k --user 196 --out 196.tsv")]
    History {
        #[command(flatten)]
        source: Source,
        /// The user's id in the data set
        #[arg(long, value_name = "USER")]
        user: String,
        /// File to write [default: standard output]
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        #[command(flatten)]
        cleaning: CleaningArgs,
    },
    /// Turn a click log into interests: how recent, frequent and long each person's visits to each category are
    #[command(after_help = "Examples:\n  sottovoce data interests synth:town:users=1000\n  \
        sottovoce data interests clicks.tsv --taxonomy Content_Taxonomy_3.1.tsv --out interests.tsv\n  \
        sottovoce data interests MINDsmall_train --sensitive newscrime\n\n\
        A click log is delimited text with a header, JSON lines, Parquet, or a folder of Microsoft News (MIND). It has \
        columns user, time, page and categories and, where known, title, entities and seconds.\n\
        A score is 0 to 10; from 3 on a person counts as interested. Pages in sensitive branches (health, alcohol, \
        smoking, politics, gambling, religion) are dropped before anything else, and counted.")]
    Interests(Box<InterestsArgs>),
    /// Split a data set into training, validation and test parts
    #[command(
        after_help = "Example:\n  sottovoce data split ml-100k --min-interactions 21 --split temporal:0.8 \\\n      \
        --validation temporal:0.8 --out parts"
    )]
    Split {
        #[command(flatten)]
        source: Source,
        #[command(flatten)]
        cleaning: CleaningArgs,
        #[command(flatten)]
        split: SplitArgs,
        /// Folder to write
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// Format of the parts
        #[arg(long, value_enum, default_value_t = FileKind::Tsv)]
        to: FileKind,
    },
}

/// `data interests`.
#[derive(Debug, Args)]
pub(crate) struct InterestsArgs {
    /// A click log, a folder of Microsoft News (MIND), synth:clicks[:users=N][:period=1|2], synth:town[:users=N], or
    /// clicks:DATA for the interactions of a data set
    #[arg(value_name = "CLICKS")]
    pub(crate) clicks: String,
    /// Taxonomy of the categories: an IAB Content Taxonomy 2.x or 3.x as published, or a table with columns id, parent
    /// and name [default: the town's or MIND's own]
    #[arg(long, value_name = "FILE")]
    pub(crate) taxonomy: Option<PathBuf>,
    /// Mapping of categories that the taxonomy does not have, such as the IAB's Content_1.0_to_Content_2.0.tsv
    #[arg(long, value_name = "FILE")]
    pub(crate) mapping: Option<PathBuf>,
    /// Another sensitive branch, by id or name; repeatable
    #[arg(long, value_name = "CATEGORY", action = ArgAction::Append)]
    pub(crate) sensitive: Vec<String>,
    /// A branch that is not sensitive after all, by id or name; repeatable
    #[arg(long, value_name = "CATEGORY", action = ArgAction::Append)]
    pub(crate) not_sensitive: Vec<String>,
    /// Replace categories below this tier by those above them in it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) tier: Option<u32>,
    /// Moment of the scores, as a date or in seconds since 1970 [default: the last click]
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<String>,
    /// Skip and count lines that cannot be read, instead of stopping at the first
    #[arg(long)]
    pub(crate) skip_bad: bool,
    /// File for the scores: user, category, name, score, recency, frequency, seconds, interested
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// Formats that can be written.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum FileKind {
    /// Tab-separated text with a header
    Tsv,
    /// Parquet
    Parquet,
}

/// A data set without a knowledge graph, for commands that take DATA first.
#[derive(Debug, Args)]
pub(crate) struct Source {
    /// A file, a folder, a bare name, or synth:town[:users=N]
    #[arg(value_name = "DATA")]
    pub(crate) data: String,
    #[command(flatten)]
    pub(crate) reading: Reading,
}

/// How a data set is read and cleaned.
#[derive(Clone, Debug, Args)]
pub(crate) struct Loading {
    #[command(flatten)]
    pub(crate) reading: Reading,
    #[command(flatten)]
    pub(crate) graph: GraphArgs,
    #[command(flatten)]
    pub(crate) cleaning: CleaningArgs,
}

impl Loading {
    /// Options for the loader, with the knowledge graph if one is given.
    pub(crate) fn options(&self, common: &Common) -> LoadOptions {
        LoadOptions { graph: self.graph.plan(), ..self.reading.options(common) }
    }
}

/// How a data set is read, cleaned and split.
#[derive(Clone, Debug, Args)]
pub(crate) struct Preparing {
    #[command(flatten)]
    pub(crate) loading: Loading,
    #[command(flatten)]
    pub(crate) split: SplitArgs,
    /// Items of the catalog: all, or those of the training part; test interactions with the others then count as missed
    /// [default: all]
    #[arg(long, value_name = "WHICH", value_parser = named(&CatalogRule::NAMES), default_value = "all",
        hide_default_value = true, hide_possible_values = true, help_heading = "Split")]
    pub(crate) catalog: CatalogRule,
}

/// How a file is read.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Reading")]
pub(crate) struct Reading {
    /// Input format [default: detected from the content]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<Format>,
    /// Columns by number from 0 or by name: user=0,item=2,rating=stars,time=when; time=line-order: lines are in the
    /// order of time
    #[arg(long, value_name = "MAP")]
    pub(crate) columns: Option<Columns>,
    /// Skip malformed lines and report their number, instead of stopping at the first
    #[arg(long)]
    pub(crate) skip_bad: bool,
}

impl Reading {
    /// Options for the loader, without a knowledge graph.
    pub(crate) fn options(&self, common: &Common) -> LoadOptions {
        let (columns, data_dir) = (self.columns.clone(), common.data_dir.clone());
        LoadOptions { format: self.format, columns, skip_bad: self.skip_bad, data_dir, graph: None }
    }
}

/// A knowledge graph about the items.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Knowledge graph")]
pub(crate) struct GraphArgs {
    /// Files of the knowledge graph (.nt, .ttl, or tables of triples, features, predicates or a mapping from items to
    /// entities), or `categories`, or `town`; prefix mapping=, triples=, features= or predicates= where the kind of a
    /// file is not detected
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub(crate) graph: Vec<String>,
    /// Maximum number of hops from an item
    #[arg(long, value_name = "N", default_value_t = 2, requires = "graph", value_parser = clap::value_parser!(u8).range(1..=4))]
    pub(crate) graph_hops: u8,
    /// Drop features of fewer items
    #[arg(long, value_name = "N", default_value_t = 10, requires = "graph")]
    pub(crate) graph_least_items: usize,
    /// Drop features with this predicate, instead of the default ones; repeatable
    #[arg(long, value_name = "PREDICATE", action = ArgAction::Append, requires = "graph")]
    pub(crate) graph_drop: Vec<String>,
    /// Follow triples from object to subject as well
    #[arg(long, requires = "graph")]
    pub(crate) graph_inverse: bool,
    /// IRI prefix that makes an item's id its entity, where there is no mapping
    #[arg(long, value_name = "IRI", default_value = "", hide_default_value = true, requires = "graph")]
    pub(crate) graph_base: String,
    /// Read the graph before cleaning: features are counted over all items, and items without features are dropped
    #[arg(long, requires = "graph")]
    pub(crate) graph_first: bool,
}

impl GraphArgs {
    /// Options for the loader; `None` if no graph is given.
    pub(crate) fn plan(&self) -> Option<GraphConfig> {
        let default = GraphConfig::default();
        (!self.graph.is_empty()).then(|| GraphConfig {
            sources: self.graph.clone(),
            hops: self.graph_hops,
            least_items: self.graph_least_items,
            drop: if self.graph_drop.is_empty() { default.drop } else { self.graph_drop.clone() },
            inverse: self.graph_inverse,
            base: self.graph_base.clone(),
            first: self.graph_first,
        })
    }
}

/// Which interactions are kept.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Cleaning")]
pub(crate) struct CleaningArgs {
    /// Keep users with at least N interactions ("more than 20" is 21)
    #[arg(long, value_name = "N")]
    pub(crate) min_interactions: Option<usize>,
    /// Keep users and items with at least N interactions each, repeated until nothing changes
    #[arg(long, value_name = "N")]
    pub(crate) k_core: Option<usize>,
    /// Keep ratings of at least R
    #[arg(long, value_name = "R", allow_negative_numbers = true)]
    pub(crate) threshold: Option<f32>,
    /// Which interactions of a repeated (user, item) pair stay: earliest, latest, or keep all of them [default:
    /// earliest]
    #[arg(long, value_name = "WHICH", value_parser = named(&Repeats::NAMES), hide_possible_values = true)]
    pub(crate) repeats: Option<Repeats>,
    /// The same as --repeats keep
    #[arg(long, hide = true, conflicts_with = "repeats")]
    pub(crate) keep_repeats: bool,
    /// Keep this share of the users who are left after cleaning, drawn by --seed; with the same seed a smaller sample
    /// is part of a larger one
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub(crate) user_share: Option<f64>,
}

impl CleaningArgs {
    /// Whether no option was given.
    pub(crate) fn is_default(&self) -> bool {
        self.cleaning(0) == Cleaning::default()
    }

    /// No cleaning unless it is asked for: a data set that is described or converted as it is, or a sample of its
    /// users, keeps its repeated pairs.
    pub(crate) fn as_is(&self, seed: u64) -> Cleaning {
        let how = self.cleaning(seed);
        let nothing = Cleaning { user_sample: None, ..how.clone() } == Cleaning::default() && self.repeats.is_none();
        Cleaning { repeats: if nothing { Repeats::Keep } else { how.repeats }, ..how }
    }

    /// Options for the data crate; the seed is that of the sample of users.
    pub(crate) fn cleaning(&self, seed: u64) -> Cleaning {
        let Self { min_interactions, k_core, threshold, repeats, keep_repeats, user_share } = *self;
        let repeats = if keep_repeats { Repeats::Keep } else { repeats.unwrap_or_default() };
        let user_sample = user_share.map(|share| UserSample { share, seed });
        Cleaning { min_interactions, k_core, threshold, repeats, user_sample }
    }
}

/// One of a few named values.
fn named<T: Copy + Send + Sync + 'static>(names: &'static [(&'static str, T)]) -> impl TypedValueParser<Value = T> {
    let values = PossibleValuesParser::new(names.iter().map(|(name, _)| *name));
    values.try_map(move |given| names.iter().find(|(name, _)| *name == given).map(|(_, value)| *value).ok_or(given))
}

fn share(text: &str) -> Result<f64, String> {
    match text.trim().parse() {
        Ok(share) if share > 0.0 && share <= 1.0 => Ok(share),
        _ => Err("a share is a number above 0 and up to 1".to_owned()),
    }
}

/// How each history is split.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Split")]
pub(crate) struct SplitArgs {
    /// temporal:FRACTION or random:FRACTION for training, newest:FRACTION for the test part, or last [default:
    /// temporal:0.8, or random:0.8 without timestamps]
    #[arg(long, value_name = "HOW")]
    pub(crate) split: Option<Split>,
    /// Hold a validation part out of the training part in the same way
    #[arg(long, value_name = "HOW")]
    pub(crate) validation: Option<Split>,
    /// Ignore held-out ratings below R
    #[arg(long, value_name = "R", allow_negative_numbers = true)]
    pub(crate) relevant: Option<f32>,
}
