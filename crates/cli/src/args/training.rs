//! `train`, `recommend`, `evaluate` and `unlearn`.

use super::{Preparing, TOP_K, cutoff, key_value, key_values};
use clap::{ArgAction, Args, ValueEnum};
use sottovoce_evaluate::{Candidates, Sampling};
use sottovoce_experiment::checkpoint::Every;
use sottovoce_models::settings::Value;
use std::path::PathBuf;

/// The settings of a model.
#[derive(Clone, Debug, Args)]
pub(crate) struct ModelSettings {
    /// Set a setting of the model; repeatable
    #[arg(long = "set", alias = "setting", value_name = "KEY=VALUE", value_parser = key_value, action = ArgAction::Append)]
    pub(crate) settings: Vec<(String, Value)>,
}

impl ModelSettings {
    /// Keys and values.
    pub(crate) fn given(&self) -> impl Iterator<Item = (&str, Value)> {
        self.settings.iter().map(|(key, value)| (key.as_str(), value.clone()))
    }
}

/// `train`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sottovoce train --model item-knn --data ml-1m --min-interactions 21 --set k=200
  sottovoce train --model bpr-mf --data synth:town --validation temporal:0.8 --patience 5 \\
      --out runs/bpr
  sottovoce train --model fpl --data ml-1m --set pi=0.5 \\
      --checkpoint runs/fpl/checkpoint --out runs/fpl/model
  sottovoce train --model sasrec --data ml-1m --split last --validation last \\
      --candidates uniform:99 --at 1,5,10
  sottovoce train --model fpl --data town.histories --stream --set epochs=1
  sottovoce train --model fed-spectral --data ml-100k --select regularisation=10,3,30
  sottovoce train --model kgflex --data synth:town --graph town --out runs/kgflex
  sottovoce train --model fed-spectral --data ml-1m --out runs/spectral
  sottovoce train --model fed-spectral --data ml-1m --from runs/spectral --set epochs=1
  sottovoce models bpr-mf                                list the settings that --set takes")]
pub(crate) struct Train {
    /// Name of the model; `sottovoce models` lists them
    #[arg(long, value_name = "NAME")]
    pub(crate) model: String,
    /// A file, a folder, a bare name, synth:town[:users=N], or clicks: synth:clicks[:users=N][:period=1|2],
    /// clicks:DATA
    #[arg(long, value_name = "DATA")]
    pub(crate) data: String,
    #[command(flatten)]
    pub(crate) settings: ModelSettings,
    /// Let people's devices choose between values of a setting before the training, by their newest items and under a
    /// seal; repeatable, for all combinations. With noise the first is taken unless another is clearly better
    #[arg(long, value_name = "KEY=V,V..", value_parser = key_values, action = ArgAction::Append)]
    pub(crate) select: Vec<(String, Vec<Value>)>,
    #[command(flatten)]
    pub(crate) clicks: ClickArgs,
    /// Cutoffs of the metrics
    #[arg(long, aliases = TOP_K, alias = "top-k", value_name = "K,K..", value_delimiter = ',', default_values_t = [5, 10, 20],
        value_parser = cutoff)]
    pub(crate) at: Vec<usize>,
    /// Items that compete: full (all unseen items), or the test items and N random others, uniform:N or popular:N (by
    /// popularity), which every output labels as sampled; several, separated by commas, give a table each
    #[arg(long, value_name = "WHICH", value_delimiter = ',', default_value = "full", hide_default_value = true)]
    pub(crate) candidates: Vec<Candidates>,
    /// The same as --candidates uniform:N
    #[arg(long, value_name = "N", conflicts_with = "candidates", hide = true,
        value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) sampled_negatives: Option<u32>,
    /// Stop when nDCG@10 on the validation part has not improved for N epochs, and keep the best epoch
    #[arg(long, value_name = "N", requires = "validation", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) patience: Option<u32>,
    /// Read histories from a history file (see `data convert`) as they are needed, for populations larger than memory
    #[arg(long)]
    pub(crate) stream: bool,
    /// Go on from a federated model that `train --out` wrote, with the people and items of this data: one epoch is
    /// often enough to keep it current. New items begin as in any training
    #[arg(long, value_name = "DIR", conflicts_with_all = ["stream"])]
    pub(crate) from: Option<PathBuf>,
    /// Write checkpoints of a federated training into this folder; the same command resumes from the last one
    #[arg(long, value_name = "DIR", help_heading = "Checkpoints")]
    pub(crate) checkpoint: Option<PathBuf>,
    /// Epochs between checkpoints, or rounds as in 200rounds
    #[arg(long, value_name = "N", default_value = "1", requires = "checkpoint", help_heading = "Checkpoints")]
    pub(crate) checkpoint_every: Every,
    /// Resume from a checkpoint; fail if there is none
    #[arg(long, requires = "checkpoint", help_heading = "Checkpoints")]
    pub(crate) resume: bool,
    /// Ignore an existing checkpoint and start again
    #[arg(long, requires = "checkpoint", conflicts_with = "resume", help_heading = "Checkpoints")]
    pub(crate) fresh: bool,
    /// Folder for the trained model and its metrics
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) preparing: Preparing,
}

impl Train {
    /// The candidates that were asked for, drawn with this seed.
    pub(crate) fn candidates(&self, seed: u64) -> Vec<Candidates> {
        match self.sampled_negatives {
            Some(n) => vec![Candidates::Sampled { negatives: n as usize, sampling: Sampling::Uniform, seed }],
            None => self.candidates.iter().map(|candidates| candidates.with_seed(seed)).collect(),
        }
    }

    /// Whether all unseen items compete.
    pub(crate) fn ranks_all(&self) -> bool {
        self.candidates(0) == [Candidates::AllUnrated]
    }
}

/// How a click log is understood: people learn and are recommended categories.
#[derive(Debug, Args)]
#[command(next_help_heading = "Clicks")]
pub(crate) struct ClickArgs {
    /// DATA is a click log or a folder of Microsoft News (MIND), with categories of this taxonomy (`own`: MIND's)
    #[arg(long, value_name = "FILE")]
    pub(crate) taxonomy: Option<String>,
    /// Clicks of an earlier period, which the setting `continual` goes on from; a fifth of those evaluated are from it
    #[arg(long, value_name = "DATA")]
    pub(crate) before: Option<String>,
    /// Evaluate on the people of this part
    #[arg(long, value_name = "PART", value_enum, default_value_t = PeoplePart::Test)]
    pub(crate) people: PeoplePart,
}

/// Parts of the people of a click log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PeoplePart {
    /// For the choice of settings
    Validation,
    /// For results
    Test,
}

/// `recommend`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  sottovoce train --model item-knn --data synth:town --out runs/knn\n  \
    sottovoce recommend --model-dir runs/knn --user 17 -k 5 --explain")]
pub(crate) struct Recommend {
    /// Folder written by `train --out`
    #[arg(long, value_name = "DIR")]
    pub(crate) model_dir: PathBuf,
    /// The user's id in the data set
    #[arg(long, value_name = "USER")]
    pub(crate) user: String,
    /// Number of items
    #[arg(short, long = "top-k", aliases = TOP_K, value_name = "K", default_value_t = 10, value_parser = cutoff)]
    pub(crate) k: usize,
    /// Explain each item, for models that can
    #[arg(long)]
    pub(crate) explain: bool,
}

/// `evaluate`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  sottovoce evaluate --train train.tsv --test test.tsv \\\n      \
    --recommendations elliot.tsv --items items.tsv --at 1,5,10 --json\n\n\
    Files are delimited text or Parquet with a user and an item column. RankedLists are ranked by a `score` column \
    (descending), by a `rank` column (ascending), or by their order in the file. The items file (item, categories \
    separated by |) defines the catalog and enables bias disparity; without it the catalog is every item in the other files.")]
pub(crate) struct Evaluate {
    /// Training interactions of the system
    #[arg(long, value_name = "FILE")]
    pub(crate) train: PathBuf,
    /// Held-out interactions
    #[arg(long, value_name = "FILE")]
    pub(crate) test: PathBuf,
    /// Recommendation lists: user, item and score or rank
    #[arg(long, value_name = "FILE")]
    pub(crate) recommendations: PathBuf,
    /// The catalog, with categories
    #[arg(long, value_name = "FILE")]
    pub(crate) items: Option<PathBuf>,
    /// Cutoffs of the metrics
    #[arg(long, aliases = TOP_K, alias = "top-k", value_name = "K,K..", value_delimiter = ',', default_values_t = [1, 5, 10],
        value_parser = cutoff)]
    pub(crate) at: Vec<usize>,
    /// Also write the metrics of every user, as TSV
    #[arg(long, value_name = "FILE")]
    pub(crate) per_user: Option<PathBuf>,
}

/// `unlearn`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  sottovoce unlearn --model fpl --data ml-100k --min-interactions 21 --share 0.2 \\
      --set epochs=20 --set factors=20

A fraction of the users takes part and withdraws, as many never take part. For doing nothing, for retraining from before they \
joined, and for fine-tuning (a few epochs without them, which certifies nothing), the table gives the AUC of a membership \
attack on the shared model that separates the two groups (with 95 % interval; 0.5: no better than chance), the accuracy for \
those who stayed, and the cost. docs/federation.md explains the attack.")]
pub(crate) struct Unlearn {
    /// Name of a federated model
    #[arg(long, value_name = "NAME")]
    pub(crate) model: String,
    /// A file, a folder, a bare name, or synth:town[:users=N]
    #[arg(long, value_name = "DATA")]
    pub(crate) data: String,
    #[command(flatten)]
    pub(crate) settings: ModelSettings,
    /// Fraction of users who withdraw; as many never take part
    #[arg(long, value_name = "FRACTION", default_value_t = 0.05)]
    pub(crate) share: f64,
    /// Epochs before those who withdraw joined; 0: they took part from the start
    #[arg(long, value_name = "EPOCHS", default_value_t = 0)]
    pub(crate) joined: usize,
    /// Epochs of fine-tuning
    #[arg(long, value_name = "EPOCHS", default_value_t = 3)]
    pub(crate) fine_tune: usize,
    /// Local training steps with which the attack fits a private model to a history
    #[arg(long, value_name = "N", default_value_t = 20, alias = "lessons")]
    pub(crate) attack_steps: usize,
    #[command(flatten)]
    pub(crate) preparing: Preparing,
}
