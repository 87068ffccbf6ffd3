//! The experiment file: what is asked, of which data, which models, and how the answer is judged.
//!
//! docs/experiments.md describes the format. Reading checks everything that can be known without the data: keys,
//! model names, settings and their values; a mistake is reported with its line and column and the nearest right word.

mod data;
mod models;
pub(crate) mod reader;
pub(crate) mod sections;

use crate::metric::MetricAt;
use crate::search::{Method, Space};
pub use reader::FileError;
use serde::{Serialize, Serializer};
use sottovoce_data::{Cleaning, GraphConfig, Repeats, Split};
use sottovoce_evaluate::Protocol;
use sottovoce_federation::registry;
use sottovoce_models::registry::Model;
use sottovoce_models::settings::Value;
use std::path::Path;
use thiserror::Error;

/// The seed if a file names none; further seeds count on from it.
pub const FIRST_SEED: u64 = 42;

/// An experiment, read and checked.
#[derive(Clone)]
pub struct Experiment {
    /// The file, as the caller named it.
    pub file: String,
    /// The headline of the report.
    pub title: String,
    /// What the experiment is to find out.
    pub question: Option<String>,
    /// Whatever a reader should know.
    pub notes: Option<String>,
    /// Every final training is done once with each.
    pub seeds: Vec<u64>,
    /// The data sets, in the order of the file.
    pub data: Vec<DataSet>,
    /// How models are judged; the first cutoff is the main one.
    pub protocol: Protocol,
    /// How settings are chosen.
    pub choice: Choice,
    /// The label of the row that others are tested against; otherwise the best row of each table.
    pub compare: Option<String>,
    /// The rows of the tables, in the order of the file.
    pub contenders: Vec<Contender>,
    /// Plots beside those every report has.
    pub plots: Vec<Plot>,
}

/// A data set and what is done to it before a model sees it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DataSet {
    /// A bare name or `synth:...`.
    pub source: String,
    /// The name in tables.
    #[serde(skip)]
    pub label: String,
    /// Users with fewer interactions are left out.
    pub min_interactions: Option<usize>,
    /// Users and items with fewer are left out until none is left.
    pub k_core: Option<usize>,
    /// Ratings below it are left out.
    pub threshold: Option<f32>,
    /// Whether a repeated pair stays repeated.
    pub keep_repeats: bool,
    /// How the test part is held out.
    #[serde(serialize_with = "as_text")]
    pub split: Split,
    /// How the validation part is held out of the training part.
    #[serde(serialize_with = "as_text")]
    pub validation: Split,
    /// Held-out ratings below it do not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relevant: Option<f32>,
    /// The seed of random splits: one split for all models and seeds, so that users can be compared.
    pub split_seed: u64,
    /// A knowledge graph about the items.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graph: Option<GraphConfig>,
}

impl DataSet {
    /// How the data set is cleaned.
    pub fn cleaning(&self) -> Cleaning {
        Cleaning {
            threshold: self.threshold,
            repeats: if self.keep_repeats { Repeats::Keep } else { Repeats::Once },
            k_core: self.k_core,
            min_interactions: self.min_interactions,
        }
    }
}

fn as_text<S: Serializer>(split: &Split, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(split)
}

/// How settings are chosen on the validation part.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The best by this metric wins; the earlier of equals.
    pub metric: MetricAt,
    /// Each candidate is trained with the first so many seeds.
    pub seeds: usize,
    /// Whether the chosen setting learns from training and validation part together before it meets the test part.
    pub refit: bool,
    /// Judge on the validation part every so many epochs, and train the chosen setting for its best number of epochs.
    pub every: Option<usize>,
    /// End a training after so many judgements without a new best.
    pub patience: Option<usize>,
    /// Judge on the test part every so many epochs, for learning curves only: nothing is chosen by it.
    pub test_curve: Option<usize>,
    /// Whether the next best setting is taken if the final training of the best fails (diverges, say).
    pub next_if_failed: bool,
}

/// A row of the tables: a model, with what is fixed and what is to be chosen.
#[derive(Clone)]
pub struct Contender {
    /// The name of the row.
    pub label: String,
    /// The name of the rows that differ in swept settings only.
    pub family: String,
    /// The model.
    pub model: &'static Model,
    /// Fixed settings, with those of the sweep.
    pub fixed: Vec<(String, Value)>,
    /// The settings of the sweep that make this row.
    pub swept: Vec<(String, Value)>,
    /// What is chosen on the validation part.
    pub alternatives: Alternatives,
    /// The fixed and swept settings of the row of the same sweep whose choice this row follows, if it follows one.
    pub guide: Option<Vec<(String, Value)>>,
    /// The labels of the data sets it takes part in; all if absent.
    pub only: Option<Vec<String>>,
}

/// The settings among which a contender's are chosen.
#[derive(Clone, Debug, PartialEq)]
pub enum Alternatives {
    /// Nothing is chosen.
    None,
    /// Every combination is tried; the last setting varies fastest.
    Grid(Vec<(String, Vec<Value>)>),
    /// A search with a budget.
    Search(Search),
}

/// A search with a budget.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// How points are proposed.
    pub method: Method,
    /// How many points are tried.
    pub trials: usize,
    /// How many of them at random before the estimator is trusted.
    pub startup: usize,
    /// How many are proposed at a time, to run side by side.
    pub at_once: usize,
    /// Where to look.
    pub space: Space,
}

/// A plot of one figure of the rows against another.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// The headline; made from the axes if absent.
    pub title: Option<String>,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// Whether to mark the rows that no other beats in both.
    pub front: bool,
}

/// What an axis shows.
#[derive(Clone, Debug, PartialEq)]
pub enum Axis {
    /// A setting of the models.
    Setting(String),
    /// A metric of the test part.
    Metric(MetricAt),
    /// Another figure of the final trials: `epochs`, `triples`, `train_seconds`, `bytes_up`, ...
    Figure(String),
}

/// Why an experiment could not be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The file could not be opened.
    #[error("{file}: {reason}")]
    Open {
        /// The file.
        file: String,
        /// The system's words.
        reason: std::io::Error,
    },
    /// The file has a mistake.
    #[error(transparent)]
    File(#[from] FileError),
}

impl Experiment {
    /// Reads an experiment file.
    ///
    /// # Errors
    /// If the file cannot be opened or has a mistake.
    pub fn read(path: &Path) -> Result<Self, ReadError> {
        let file = path.display().to_string();
        let text =
            std::fs::read_to_string(path).map_err(|reason| ReadError::Open { file: file.clone(), reason })?;
        Ok(Self::parse(&file, &text, registry::all())?)
    }

    /// Reads an experiment from text; `file` is the name used in messages, `models` those that may be named.
    ///
    /// # Errors
    /// If the text has a mistake.
    pub fn parse(file: &str, text: &str, models: &'static [Model]) -> Result<Self, FileError> {
        sections::experiment(reader::Source { file, text }, models)
    }

    /// The cutoff of the main table.
    pub fn main_cutoff(&self) -> usize {
        self.protocol.cutoffs[0]
    }

    /// The contenders that take part in a data set.
    pub fn contenders_on<'a>(&'a self, data: &'a DataSet) -> impl Iterator<Item = &'a Contender> {
        self.contenders
            .iter()
            .filter(|contender| contender.only.as_ref().is_none_or(|only| only.contains(&data.label)))
    }
}
