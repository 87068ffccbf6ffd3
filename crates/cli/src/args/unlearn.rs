//! The command line of measuring what is left of people who withdraw.

use super::{ModelSettings, Preparing};
use clap::Args;

/// `unlearn`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  sottovoce unlearn --model fpl --data ml-100k --min-interactions 21 --share 0.2 --set epochs=20 --set factors=20

A share of people takes part and withdraws, as many never take part. For doing nothing, for retraining from before they \
joined, and for an approximate step (a few epochs without them, which nothing certifies), the table says how well the two \
groups are told apart by the shared model alone (AUC with 95 % interval; 0.5: not at all), how accurate the model is for \
those who stayed, and what it cost. docs/federation.md explains how that is tried.")]
pub(crate) struct Unlearn {
    /// The model: one that is trained in a federation
    #[arg(long, value_name = "NAME")]
    pub(crate) model: String,
    /// A file, a folder, a bare name, or synth:town[:users=N]
    #[arg(long, value_name = "DATA")]
    pub(crate) data: String,
    #[command(flatten)]
    pub(crate) settings: ModelSettings,
    /// The share of people who withdraw; as many never take part
    #[arg(long, value_name = "SHARE", default_value_t = 0.05)]
    pub(crate) share: f64,
    /// Epochs done before those joined who withdraw; 0: they were there from the start
    #[arg(long, value_name = "EPOCHS", default_value_t = 0)]
    pub(crate) joined: usize,
    /// Epochs of the approximate step
    #[arg(long, value_name = "EPOCHS", default_value_t = 3)]
    pub(crate) fine_tune: usize,
    /// Lessons by which the one who tries fits a private model to a history
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) lessons: usize,
    #[command(flatten)]
    pub(crate) preparing: Preparing,
}
