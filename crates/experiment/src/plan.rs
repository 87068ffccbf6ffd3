//! Trials, and the rows of the tables that ask for them.

use crate::classifier::{Aggregation, Classification};
use crate::file::{DataSet, Experiment, Learner, RowSpec, Selection, Tuning, combinations};
use crate::metric::MetricAt;
use serde::Serialize;
use sottovoce_evaluate::Protocol;
use sottovoce_federation::Changes;
use sottovoce_models::registry::Model;
use sottovoce_models::settings::{Settings, Value};
use std::sync::Arc;

/// Changes whenever the meaning of a trial changes, so that results in old journals are not used for new trials.
const VERSION: u32 = 1;

/// The part of the data that a recommender is evaluated on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Train on the training part without the validation part, evaluate on the validation part.
    Validation,
    /// Train on the training part with the validation part, evaluate on the test part.
    Test,
    /// Train on the training part without the validation part, evaluate on the test part; items of the validation part
    /// are not ranked.
    TestWithoutRefit,
}

/// Evaluations during training.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Curve {
    /// Evaluate every so many epochs, and after the last.
    pub every: usize,
    /// End the training after so many evaluations without a new best.
    pub patience: Option<usize>,
    /// Evaluate by this metric, on the part the stage is evaluated on.
    pub metric: MetricAt,
}

/// One training and evaluation.
#[derive(Clone)]
pub struct Trial {
    /// Identifies the trial in journals: a hash of all that determines its result.
    pub key: String,
    /// The data set.
    pub data: Arc<DataSet>,
    /// Determines all randomness of the training.
    pub seed: u64,
    /// What is trained, and how.
    pub training: Training,
}

/// What a trial trains, and how.
#[derive(Clone)]
pub enum Training {
    /// A recommender.
    Recommender(RecommenderTraining),
    /// An image classifier.
    Classifier(ClassifierTraining),
}

/// A recommender to be trained.
#[derive(Clone)]
pub struct RecommenderTraining {
    /// The model.
    pub model: &'static Model,
    /// Its settings, complete.
    pub settings: Settings,
    /// What it is trained and evaluated on.
    pub stage: Stage,
    /// How it is evaluated; the first cutoff is the main one.
    pub protocol: Arc<Protocol>,
    /// Evaluations during training.
    pub curve: Option<Curve>,
    /// What people's devices choose between before; nothing where it is empty.
    pub select: Vec<Changes>,
}

/// An image classifier to be trained.
#[derive(Clone)]
pub struct ClassifierTraining {
    /// Network, rounds and targets.
    pub task: Arc<Classification>,
    /// How updates are weighted.
    pub aggregation: Aggregation,
    /// The devices' learning rate.
    pub learning_rate: f64,
}

/// What the key of a recommender's trial is the hash of.
#[derive(Serialize)]
struct RecommenderKey<'a> {
    meaning: u32,
    data: &'a DataSet,
    model: &'a str,
    settings: &'a Settings,
    seed: u64,
    stage: Stage,
    protocol: &'a Protocol,
    curve: &'a Option<Curve>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    select: &'a [Changes],
}

impl Trial {
    fn new(data: Arc<DataSet>, training: Training, seed: u64) -> Self {
        let key = match &training {
            Training::Recommender(RecommenderTraining { model, settings, stage, protocol, curve, select }) => {
                hash(&RecommenderKey {
                    meaning: VERSION,
                    data: &data,
                    model: model.name,
                    settings,
                    seed,
                    stage: *stage,
                    protocol,
                    curve,
                    select,
                })
            }
            Training::Classifier(ClassifierTraining { task, aggregation, learning_rate }) => {
                hash(&(VERSION, &*data, &**task, aggregation.to_string(), learning_rate, seed))
            }
        };
        Self { key, data, seed, training }
    }

    /// Whether the trial is evaluated on the test part.
    pub fn is_final(&self) -> bool {
        !matches!(&self.training, Training::Recommender(training) if training.stage == Stage::Validation)
    }

    /// The settings of the training.
    pub fn settings(&self) -> Vec<(String, Value)> {
        match &self.training {
            Training::Recommender(training) => {
                training.settings.iter().map(|(key, value)| (key.to_owned(), value.clone())).collect()
            }
            Training::Classifier(ClassifierTraining { aggregation, learning_rate, .. }) => vec![
                ("aggregation".to_owned(), Value::Word(aggregation.to_string())),
                ("learning_rate".to_owned(), Value::Real(*learning_rate)),
            ],
        }
    }

    /// The trial in a line of progress or an error.
    pub fn describe(&self) -> String {
        let (data, seed) = (self.data.label(), self.seed);
        match &self.training {
            Training::Recommender(RecommenderTraining { model, settings, .. }) => {
                let defaults = model.settings([]).ok();
                let is_default = |key: &str, value: &Value| {
                    defaults.as_ref().is_some_and(|all| all.iter().any(|(k, v)| k == key && v == value))
                };
                let changed: Vec<_> = settings
                    .iter()
                    .filter(|(key, value)| !is_default(key, value))
                    .map(|(key, value)| format!(" {key}={value}"))
                    .collect();
                let part = if self.is_final() { "test" } else { "validation" };
                format!("{}{} on {data}, seed {seed}, {part}", model.name, changed.concat())
            }
            Training::Classifier(ClassifierTraining { aggregation, learning_rate, .. }) => {
                format!("{aggregation}, learning rate {learning_rate}, on {data}, seed {seed}")
            }
        }
    }
}

/// 128 bits of BLAKE3 of a canonical JSON text, as hexadecimal digits.
pub(crate) fn hash(what: &impl Serialize) -> String {
    // Serialising plain structures with text keys into memory does not fail; a failure would still give a key.
    let text = serde_json::to_vec(what).unwrap_or_default();
    blake3::hash(&text).to_hex()[..32].to_owned()
}

/// A row of one data set's table, and the trials it may ask for.
#[derive(Clone)]
pub struct RowPlan {
    /// The data set.
    pub data: Arc<DataSet>,
    /// What the row is about.
    pub spec: RowSpec,
    /// How recommenders are evaluated.
    pub protocol: Arc<Protocol>,
    seeds: Vec<u64>,
    pub(crate) selection: Selection,
}

impl RowPlan {
    /// The rows of all tables, in the order of the file: by data set, then by row.
    pub fn all(experiment: &Experiment) -> Vec<RowPlan> {
        let protocol = Arc::new(experiment.protocol.clone());
        let mut plans = Vec::new();
        for data in &experiment.data {
            let shared = Arc::new(data.clone());
            plans.extend(experiment.rows_on(data).map(|spec| RowPlan {
                data: shared.clone(),
                spec: spec.clone(),
                protocol: protocol.clone(),
                seeds: experiment.seeds.clone(),
                selection: experiment.selection.clone(),
            }));
        }
        plans
    }

    /// The points of the grid; none for a search or if nothing is tuned.
    pub(crate) fn grid(&self) -> Vec<Vec<(String, Value)>> {
        match &self.spec.tuning {
            Tuning::Grid(lists) => combinations(lists),
            _ => Vec::new(),
        }
    }

    /// The row whose tuned settings this row takes over, if there is one.
    pub(crate) fn leader(&self) -> Option<RowPlan> {
        let fixed = self.spec.tuned_at.clone()?;
        let spec = RowSpec { fixed, tuned_at: None, ..self.spec.clone() };
        Some(RowPlan { spec, ..self.clone() })
    }

    /// How many trials there will be, at most, unless a selected setting fails and the next is taken.
    pub fn trials(&self) -> usize {
        let points = match &self.spec.tuning {
            Tuning::None => 0,
            // The number of epochs is each recommender's own; a classifier has nothing left to tune.
            _ if self.spec.tuned_at.is_some() => usize::from(self.spec.learner.recommender().is_some()),
            Tuning::Grid(_) => self.grid().len(),
            Tuning::Search(search) => {
                let size = search.space.size().and_then(|n| usize::try_from(n).ok());
                search.trials.min(size.unwrap_or(usize::MAX))
            }
        };
        points * self.selection.seeds + self.seeds.len()
    }

    /// The seed of a search: the same for the same search, whatever else is in the file.
    pub(crate) fn search_seed(&self) -> u64 {
        let meaning = (&*self.data, self.spec.learner.name(), &self.spec.fixed, self.seeds[0]);
        u64::from_str_radix(&hash(&meaning)[..16], 16).unwrap_or(0)
    }

    /// The trials that evaluate a point on the validation part, one a seed.
    pub(crate) fn validation(&self, point: &[(String, Value)]) -> Result<Vec<Trial>, String> {
        let curve = self.selection.every.map(|every| self.curve(every, self.selection.patience));
        self.trials_of(point, &self.seeds[..self.selection.seeds], Stage::Validation, curve)
    }

    /// The trials that evaluate the selected point on the test part, one a seed.
    pub(crate) fn test(&self, point: &[(String, Value)]) -> Result<Vec<Trial>, String> {
        let stage = if self.selection.refit { Stage::Test } else { Stage::TestWithoutRefit };
        let curve = self.selection.test_curve.map(|every| self.curve(every, None));
        self.trials_of(point, &self.seeds, stage, curve)
    }

    fn curve(&self, every: usize, patience: Option<usize>) -> Curve {
        Curve { every, patience, metric: self.selection.metric }
    }

    fn trials_of(
        &self,
        point: &[(String, Value)],
        seeds: &[u64],
        stage: Stage,
        curve: Option<Curve>,
    ) -> Result<Vec<Trial>, String> {
        let given = || self.spec.fixed.iter().chain(point).map(|(key, value)| (key.as_str(), value.clone()));
        let training = match &self.spec.learner {
            Learner::Recommender(model) => {
                let settings = model.settings(given()).map_err(|error| error.to_string())?;
                let protocol = self.protocol.clone();
                let select = if self.spec.select.is_empty() { Vec::new() } else { combinations(&self.spec.select) };
                Training::Recommender(RecommenderTraining { model, settings, stage, protocol, curve, select })
            }
            // Classifiers have no validation part: a candidate that is selected has had its final training.
            Learner::Classifier(task) => {
                let (mut aggregation, mut learning_rate) = (None, None);
                for (key, value) in given() {
                    match value {
                        Value::Word(criteria) if key == "aggregation" => aggregation = Some(criteria.parse()?),
                        Value::Real(rate) if key == "learning_rate" => learning_rate = Some(rate),
                        other => return Err(format!("a classifier has no setting {key} = {other}")),
                    }
                }
                let missing = || "a classifier needs `aggregation` and `learning_rate`".to_owned();
                let (aggregation, learning_rate) = aggregation.zip(learning_rate).ok_or_else(missing)?;
                Training::Classifier(ClassifierTraining { task: task.clone(), aggregation, learning_rate })
            }
        };
        Ok(seeds.iter().map(|&seed| Trial::new(self.data.clone(), training.clone(), seed)).collect())
    }
}

/// The hash of everything in an experiment that bears on its results; titles, labels and plots do not.
pub(crate) fn fingerprint(experiment: &Experiment) -> String {
    let row = |row: &RowSpec| {
        let tuning = match &row.tuning {
            Tuning::None => serde_json::Value::Null,
            Tuning::Grid(lists) => serde_json::json!({ "grid": lists }),
            Tuning::Search(s) => serde_json::json!({
                "method": s.method, "trials": s.trials, "startup": s.startup, "at_once": s.at_once, "space": s.space,
            }),
        };
        let mut parts = serde_json::json!([row.learner.name(), row.fixed, row.tuned_at, row.only, tuning]);
        if let Some(parts) = parts.as_array_mut().filter(|_| !row.select.is_empty()) {
            parts.push(serde_json::json!({ "select": row.select }));
        }
        parts
    };
    let selection = &experiment.selection;
    let mut meaning = serde_json::json!({
        "meaning": VERSION,
        "data": experiment.data,
        "seeds": experiment.seeds,
        "protocol": experiment.protocol,
        "choice": [
            selection.metric, selection.seeds, selection.refit, selection.every, selection.patience,
            selection.test_curve, selection.next_if_failed
        ],
        "contenders": experiment.rows.iter().map(row).collect::<Vec<_>>(),
    });
    if let Some(task) = experiment.classification() {
        meaning["classifier"] = serde_json::json!(task);
    }
    hash(&meaning)
}
