//! The result of a trial.

use crate::classifier::AccuracyCurve;
pub use crate::feature_retention::FeatureWeight;
use serde::{Deserialize, Serialize};
use sottovoce_evaluate::{Evaluation, Metric, Metrics, report};
use std::collections::BTreeMap;
use thiserror::Error;

/// The result of one trial.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The part that is written to the journal.
    pub summary: Summary,
    /// The part that has a file of its own.
    pub values: Values,
}

/// The small part of a result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Metrics at each cutoff.
    pub metrics: BTreeMap<usize, Metrics>,
    /// Epochs trained; rounds, for a classifier.
    pub epochs: usize,
    /// Training triples (or interactions) processed.
    pub triples: u64,
    /// Other figures by name: `bytes_up`, `bytes_down`, ...
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<String, f64>,
    /// The most informative item features, in histories and in recommendations, where items have features.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cloud: Vec<FeatureWeight>,
    /// What people with one interest are suggested, for models of interests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suggestions: Vec<Suggestions>,
    /// Evaluations during training.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curve: Vec<CurvePoint>,
    /// Clusterings of devices, where the server finds clusters: the round that took each up, its number of clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusterings: Vec<(u64, usize)>,
    /// The training curve of a classifier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy_curve: Option<AccuracyCurve>,
    /// Time and memory.
    pub cost: Cost,
}

/// What somebody with a single interest is suggested.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Suggestions {
    /// The interest.
    pub interest: String,
    /// Categories and scores, best first.
    pub suggested: Vec<(String, f32)>,
}

/// The model after some epochs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Epochs trained.
    pub epoch: usize,
    /// Mean training loss, if the model has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// The metric of selection on the part the trial is evaluated on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Bytes sent so far in both directions, for models trained in a federation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Rounds so far, for models trained in a federation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u64>,
    /// Virtual seconds so far, for models trained in a federation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtual_time: Option<f64>,
}

/// Time and memory: the only part of a result that is not determined by the seed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Seconds to load, clean and split.
    pub load_seconds: f64,
    /// Seconds of training.
    pub train_seconds: f64,
    /// Seconds of scoring and evaluating.
    pub evaluate_seconds: f64,
    /// Peak memory of the process when the trial ended.
    pub peak_rss_bytes: u64,
    /// CPU seconds of a device in a round, for models trained in a federation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_round_seconds: Option<f64>,
    /// CPU seconds of an epoch over a session of interactions, for models that hold a session at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_session_seconds: Option<f64>,
}

/// The large part of a result: columns for significance tests and plots.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Values {
    /// The users evaluated, as indices of the data set, in the order of the columns.
    pub users: Vec<u32>,
    /// Per-user metrics, at each cutoff, by name.
    pub per_user: BTreeMap<usize, BTreeMap<Metric, Vec<f64>>>,
    /// How often each item was recommended at the main cutoff, by item index.
    pub recommended: Vec<u32>,
    /// How often each item's row was sent in a federated training, by item index; empty for other models.
    pub updates: Vec<u64>,
}

impl Values {
    /// The columns of an evaluation, and how often each item's row was sent in training.
    pub fn of(evaluation: &Evaluation, main_cutoff: usize, updates: Vec<u64>) -> Self {
        let per_user = &evaluation.per_user;
        let columns = |cutoff: usize| {
            let column = |key: Metric| Some((key, per_user.column(key, cutoff)?.to_vec()));
            (cutoff, Metric::PER_USER.into_iter().filter_map(column).collect())
        };
        Self {
            users: per_user.users.clone(),
            per_user: per_user.at.keys().map(|&cutoff| columns(cutoff)).collect(),
            recommended: evaluation.recommended.get(&main_cutoff).cloned().unwrap_or_default(),
            updates,
        }
    }
}

/// A data set as the trials use it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DataCard {
    /// What the report shows of it; its fingerprint changes with the data.
    pub card: report::DataCard,
    /// Interactions of each item in the training part, by item index, for popularity curves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub popularity: Vec<u32>,
    /// Length of each user's training history, by user index, for groups of users by activity.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub activity: Vec<u32>,
    /// Share of the training part that each category holds, by name; an interaction counts for all its item's
    /// categories.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub categories: BTreeMap<String, f64>,
    /// Source bias B_T of the training part by category: its share of the interactions / its share of the catalog.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub source_bias: BTreeMap<String, f64>,
    /// How it was read, to be shown: columns, conversions, what was left out.
    #[serde(skip)]
    pub notes: Vec<String>,
}

/// Why a trial has no result.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TrialError {
    /// The setting does not work on this data (training diverged, too little data). That is a result: it is recorded
    /// and shown.
    #[error("{0}")]
    Failed(String),
    /// Something that may not happen again (a missing file, a full disk): the run ends and nothing is recorded.
    #[error("{0}")]
    Broken(String),
    /// The trial was told to stop; nothing is recorded.
    #[error("interrupted")]
    Interrupted,
}
