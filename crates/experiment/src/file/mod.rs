//! The experiment file: the question, the data sets, the models and how they are evaluated.
//!
//! docs/experiments.md describes the format. Reading checks everything that can be checked without the data: keys,
//! model names, settings and their values. An error gives line and column and suggests the nearest valid word.

mod classifier;
mod data;
mod reader;
mod rows;
mod sections;

use crate::classifier::{Classification, ImageData};
use crate::metric::MetricAt;
use crate::search::{Method, Space};
pub use reader::FileError;
pub(crate) use reader::did_you_mean;
pub use rows::combinations;
use serde::{Serialize, Serializer};
use sottovoce_data::{CatalogRule, Cleaning, Columns, GraphConfig, Split};
use sottovoce_evaluate::Protocol;
use sottovoce_federation::registry;
use sottovoce_models::registry::Model;
use sottovoce_models::settings::Value;
use std::path::Path;
use std::sync::Arc;
use thiserror::Error;

/// The seed if a file names none; further seeds count on from it.
pub const FIRST_SEED: u64 = 42;

/// An experiment, read and checked.
#[derive(Clone)]
pub struct Experiment {
    /// The file, as the caller named it.
    pub file: String,
    /// What it is about.
    pub about: About,
    /// Every final training is done once with each.
    pub seeds: Vec<u64>,
    /// The data sets, in the order of the file.
    pub data: Vec<DataSet>,
    /// How recommenders are evaluated; the first cutoff is the main one.
    pub protocol: Protocol,
    /// How the settings of recommenders are selected.
    pub selection: Selection,
    /// The label of the row that others are tested against; otherwise the best row of each table.
    pub compare: Option<String>,
    /// The rows of the tables, in the order of the file.
    pub rows: Vec<RowSpec>,
    /// Plots in addition to those every report has.
    pub plots: Vec<Plot>,
    /// Old names in the file, and what they are called now.
    pub warnings: Vec<String>,
}

/// What an experiment is about, for the reader of the report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct About {
    /// The headline.
    pub title: String,
    /// What the experiment is to find out.
    pub question: Option<String>,
    /// Remarks.
    pub notes: Option<String>,
}

/// A data set.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[allow(clippy::large_enum_variant, reason = "an experiment has a handful of them")]
pub enum DataSet {
    /// Interactions of users with items, for recommenders.
    Interactions(InteractionData),
    /// Images and the clients that hold them, for classifiers.
    Images(ImageData),
}

impl DataSet {
    /// The name in tables.
    pub fn label(&self) -> String {
        match self {
            Self::Interactions(data) => data.label.clone(),
            Self::Images(images) => images.source.to_string(),
        }
    }
}

/// Interactions and their cleaning and splitting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct InteractionData {
    /// A bare name or `synth:...`.
    pub source: String,
    /// The name in tables.
    #[serde(skip)]
    pub label: String,
    /// Which interactions are kept.
    #[serde(flatten)]
    pub cleaning: Cleaning,
    /// Which columns hold what; `None`: as the header says, or by their order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub columns: Option<Columns>,
    /// How the test part is held out; `None`: by time where there are timestamps, at random where there are none.
    #[serde(serialize_with = "as_text")]
    pub split: Option<Split>,
    /// How the validation part is held out of the training part; `None`: like the test part.
    #[serde(serialize_with = "as_text")]
    pub validation: Option<Split>,
    /// Held-out ratings below it do not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relevant: Option<f32>,
    /// Which items are in the catalog.
    #[serde(skip_serializing_if = "is_default")]
    pub catalog: CatalogRule,
    /// The seed of random splits: one split for all models and seeds, so that users can be compared.
    pub split_seed: u64,
    /// A knowledge graph about the items.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graph: Option<GraphConfig>,
    /// Clicks of an earlier period, which models of interests may go on from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
}

/// Keys that older files cannot have are left out, so that their experiments keep their fingerprints.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn as_text<S: Serializer>(split: &Option<Split>, serializer: S) -> Result<S::Ok, S::Error> {
    match split {
        Some(split) => serializer.collect_str(split),
        None => serializer.serialize_str("default"),
    }
}

/// How settings are selected on the validation part.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Selection {
    /// The best by this metric wins; the earlier of equals.
    pub metric: MetricAt,
    /// Each candidate is trained with the first so many seeds.
    pub seeds: usize,
    /// Whether the selected setting is trained on training and validation part together before it is tested.
    pub refit: bool,
    /// Evaluate on the validation part every so many epochs, and train the selected setting for its best number of
    /// epochs.
    pub every: Option<usize>,
    /// End a training after so many evaluations without a new best.
    pub patience: Option<usize>,
    /// Evaluate on the test part every so many epochs, for learning curves only: nothing is selected by it.
    pub test_curve: Option<usize>,
    /// Whether the next best setting is taken if the final training of the best fails (diverges, say).
    pub next_if_failed: bool,
}

/// A row of the tables: what is trained, with fixed settings and settings to be tuned.
#[derive(Clone)]
pub struct RowSpec {
    /// The name of the row.
    pub label: String,
    /// The name of the rows that differ in swept settings only.
    pub family: String,
    /// What is trained.
    pub learner: Learner,
    /// Fixed settings, with those of the sweep.
    pub fixed: Vec<(String, Value)>,
    /// The settings of the sweep that make this row.
    pub swept: Vec<(String, Value)>,
    /// What is tuned on the validation part.
    pub tuning: Tuning,
    /// Candidates that people's devices choose between before the final training, by setting.
    pub select: Vec<(String, Vec<Value>)>,
    /// The fixed settings of another row, whose tuned settings this row takes over.
    pub tuned_at: Option<Vec<(String, Value)>>,
    /// The labels of the data sets it takes part in; all if absent.
    pub only: Option<Vec<String>>,
}

/// What a row trains.
#[derive(Clone)]
pub enum Learner {
    /// A recommender, evaluated by ranking metrics.
    Recommender(&'static Model),
    /// An image classifier, evaluated by its clients' accuracy after each round. Its settings are `aggregation` and
    /// `learning_rate`.
    Classifier(Arc<Classification>),
}

impl Learner {
    /// The model's name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Recommender(model) => model.name,
            Self::Classifier(_) => "classifier",
        }
    }

    /// The recommender, if it is one.
    pub fn recommender(&self) -> Option<&'static Model> {
        match self {
            Self::Recommender(model) => Some(model),
            Self::Classifier(_) => None,
        }
    }
}

/// The settings of a row that are tuned.
#[derive(Clone, Debug, PartialEq)]
pub enum Tuning {
    /// None.
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
    /// How many are proposed at a time, to run in parallel.
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
    /// Whether to mark the Pareto front.
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
        /// The system's message.
        reason: std::io::Error,
    },
    /// The file has an error.
    #[error(transparent)]
    File(#[from] FileError),
}

impl Experiment {
    /// Reads an experiment file, and returns its text with it.
    ///
    /// # Errors
    /// If the file cannot be opened or has an error.
    pub fn read(path: &Path) -> Result<(Self, String), ReadError> {
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|reason| ReadError::Open { file: file.clone(), reason })?;
        Ok((Self::parse(&file, &text, &registry::all())?, text))
    }

    /// Reads an experiment from text; `file` is its name in messages, `models` are those that may be named.
    ///
    /// # Errors
    /// If the text has an error.
    pub fn parse(file: &str, text: &str, models: &[&'static Model]) -> Result<Self, FileError> {
        sections::experiment(reader::Source { file, text }, models)
    }

    /// The cutoff of the main table.
    pub fn main_cutoff(&self) -> usize {
        self.protocol.cutoffs[0]
    }

    /// The rows of a data set's table.
    pub fn rows_on<'a>(&'a self, data: &'a DataSet) -> impl Iterator<Item = &'a RowSpec> {
        let label = data.label();
        self.rows.iter().filter(move |row| row.only.as_ref().is_none_or(|only| only.contains(&label)))
    }

    /// What its classifiers are trained for, if it is about classifiers.
    pub fn classification(&self) -> Option<&Classification> {
        match &self.rows.first()?.learner {
            Learner::Recommender(_) => None,
            Learner::Classifier(task) => Some(task),
        }
    }
}
