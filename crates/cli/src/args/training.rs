//! What commands that train a model on a data set take alike.

use super::{CleaningArgs, GraphArgs, Reading, SplitArgs, key_value};
use clap::{ArgAction, Args};
use sottovoce_models::settings::Value;

/// The settings of a model.
#[derive(Clone, Debug, Args)]
pub(crate) struct ModelSettings {
    /// A setting of the model; may be given several times
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value, action = ArgAction::Append)]
    pub(crate) settings: Vec<(String, Value)>,
}

impl ModelSettings {
    /// As a model takes them.
    pub(crate) fn given(&self) -> impl Iterator<Item = (&str, Value)> {
        self.settings.iter().map(|(key, value)| (key.as_str(), value.clone()))
    }
}

/// How a data set is read, cleaned and split.
#[derive(Clone, Debug, Args)]
pub(crate) struct Preparing {
    #[command(flatten)]
    pub(crate) reading: Reading,
    #[command(flatten)]
    pub(crate) graph: GraphArgs,
    #[command(flatten)]
    pub(crate) cleaning: CleaningArgs,
    #[command(flatten)]
    pub(crate) split: SplitArgs,
}
