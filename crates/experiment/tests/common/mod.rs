//! Toy models and fake trials, for tests of everything around them.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]

use sottovoce_core::Rng;
use sottovoce_evaluate::{Metric, Metrics, report};
use sottovoce_experiment::Experiment;
use sottovoce_experiment::engine::{self, Options, Progress, RunError, Trials};
use sottovoce_experiment::file::DataSet;
use sottovoce_experiment::journal::Existing;
use sottovoce_experiment::outcome::{Cost, CurvePoint, DataCard, Outcome, Summary, TrialError, Values};
use sottovoce_experiment::plan::{RecommenderTraining, Training, Trial};
use sottovoce_experiment::results::Results;
use sottovoce_models::Recommender;
use sottovoce_models::registry::{Model, ModelInfo};
use sottovoce_models::settings::{Config, Settings};
use sottovoce_models::{choices, config};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex};

choices! {
    /// For the toy model.
    #[derive(Default)]
    pub enum Similarity {
        /// One.
        #[default]
        Cosine => "cosine",
        /// Another.
        Jaccard => "jaccard",
    }
}

config! {
    /// Settings of every kind.
    pub struct FactorsConfig {
        /// Length of vectors
        factors: usize = 20, in 1..=512 => [log];
        /// Learning rate
        learning_rate: f64 = 0.05, in 1e-4..=1.0 => [log was("rate")];
        /// Which similarity
        similarity: Similarity = Similarity::Cosine;
        /// Whether there are biases
        bias: bool = true;
        /// Fraction disclosed
        pi: f64 = 1.0, in 0.0..=1.0;
        /// Epochs
        epochs: usize = 10, in 1..=1000 => [log];
    }
}

fn never_built(_: &Settings) -> Box<dyn Recommender> {
    panic!("the fake builds no models")
}

/// A model with settings of every kind, and one with none.
static TOYS: LazyLock<Vec<Model>> = LazyLock::new(|| {
    vec![
        Model::new(ModelInfo::new("mostpop", "MostPop"), Vec::new(), never_built),
        Model::new(ModelInfo::new("factors", "Factors"), FactorsConfig::default().schema(), never_built),
    ]
});

pub fn models() -> Vec<&'static Model> {
    TOYS.iter().collect()
}

pub fn parse(text: &str) -> Experiment {
    match Experiment::parse("x.toml", text, &models()) {
        Ok(experiment) => experiment,
        Err(error) => panic!("{error}"),
    }
}

/// The error of a text.
pub fn parse_error(text: &str) -> String {
    Experiment::parse("x.toml", text, &models()).err().expect("the text has an error").to_string()
}

/// Trials whose result is a smooth function of the settings with noise from the seed.
#[derive(Default)]
pub struct Fake {
    pub started: AtomicUsize,
    /// Descriptions of the trials run, in the order in which they ended.
    pub ran: Mutex<Vec<String>>,
    /// Panic in the trial after so many.
    pub panic_after: Option<usize>,
    /// Report a broken disk in the trial after so many.
    pub break_after: Option<usize>,
    /// Changes the data.
    pub fingerprint: String,
}

const USERS: u32 = 30;

impl Trials for Fake {
    fn describe(&self, data: &DataSet) -> Result<DataCard, TrialError> {
        let DataSet::Interactions(data) = data else { panic!("no images") };
        if data.source == "missing" {
            return Err(TrialError::Broken("there is no such data set".into()));
        }
        Ok(DataCard {
            card: report::DataCard {
                name: data.label.clone(),
                users: u64::from(USERS),
                items: 12,
                interactions: 120,
                fingerprint: format!("{}{}", self.fingerprint, data.source),
                ..report::DataCard::default()
            },
            popularity: (0..12).map(|item| 40 / (item + 1)).collect(),
            activity: (0..USERS).map(|user| 3 + user / 4).collect(),
            categories: BTreeMap::from([
                ("bars".to_owned(), 0.7),
                ("parks".to_owned(), 0.29),
                ("zoos".to_owned(), 0.01),
            ]),
            source_bias: [("bars", 1.4), ("parks", 0.9), ("zoos", 0.1)]
                .map(|(name, bias)| (name.to_owned(), bias))
                .into(),
            notes: Vec::new(),
        })
    }

    fn run(&self, trial: &Trial, progress: &Progress<'_>) -> Result<Outcome, TrialError> {
        let number = self.started.fetch_add(1, Ordering::SeqCst);
        assert!(self.panic_after != Some(number), "the fake panics");
        if self.break_after == Some(number) {
            return Err(TrialError::Broken("the disk is full".into()));
        }
        let _ = (progress.report)(1, 2, None);
        let outcome = outcome(trial, number);
        self.ran.lock().unwrap().push(trial.describe());
        outcome
    }
}

fn recommender(trial: &Trial) -> &RecommenderTraining {
    match &trial.training {
        Training::Recommender(training) => training,
        Training::Classifier(_) => panic!("a classifier"),
    }
}

fn outcome(trial: &Trial, number: usize) -> Result<Outcome, TrialError> {
    let RecommenderTraining { model, settings, .. } = recommender(trial);
    if model.name == "mostpop" {
        return Ok(evaluated(trial, 0.1, 0, number));
    }
    let config = FactorsConfig::read(settings);
    let rate = config.learning_rate;
    if rate > 0.5 {
        return Err(TrialError::Failed("training diverged in epoch 1: lower the learning rate".into()));
    }
    if rate > 0.3 && trial.is_final() {
        return Err(TrialError::Failed("training diverged in epoch 9: lower the learning rate".into()));
    }
    let (epochs, factors) = (config.epochs, config.factors as f64);
    let value = 0.4 - (rate.log10() + 1.5).powi(2) / 20.0 - (factors.ln() - 3.0).powi(2) / 40.0 + 0.05 * config.pi;
    Ok(evaluated(trial, value, epochs, number))
}

fn evaluated(trial: &Trial, value: f64, epochs: usize, number: usize) -> Outcome {
    let mut rng = Rng::new(trial.seed).stream(&trial.key, 0);
    let column: Vec<f64> = (0..USERS).map(|_| value + 0.02 * rng.normal()).collect();
    let mean = column.iter().sum::<f64>() / f64::from(USERS);
    let metrics = |cutoff: &usize| {
        let scale = 1.0 + *cutoff as f64 / 100.0;
        let categories = BTreeMap::from([
            ("bars".to_owned(), Some(value)),
            ("parks".to_owned(), Some(-0.2)),
            ("zoos".to_owned(), Some(9.0 * value)),
        ]);
        let metrics = Metrics {
            precision: mean * 0.7,
            recall: mean * 0.5,
            ndcg: mean * scale,
            hit_rate: 0.5,
            map: mean * 0.3,
            mrr: mean * 0.8,
            f1: mean * 0.58,
            auc: None,
            correctness: mean * 0.7,
            user_coverage: 1.0,
            users_with_hit: 20,
            item_coverage: 5 + epochs,
            item_coverage_share: 0.4,
            gini: 0.1,
            shannon_entropy: 2.0,
            aclt: 1.5,
            pop_reo: Some(0.6),
            pop_rsp: None,
            bias_disparity: categories,
        };
        (*cutoff, metrics)
    };
    // The best epoch is 6, whatever the number of epochs.
    let curve = recommender(trial).curve.as_ref().map(|curve| {
        let at = |epoch: usize| CurvePoint {
            epoch,
            loss: Some(1.0 / epoch as f64),
            value: Some(mean - (epoch as f64 - 6.0).powi(2) / 1000.0),
            ..CurvePoint::default()
        };
        (1..=epochs).filter(|epoch| epoch % curve.every == 0).map(at).collect()
    });
    Outcome {
        summary: Summary {
            metrics: recommender(trial).protocol.cutoffs.iter().map(metrics).collect(),
            epochs,
            triples: epochs as u64 * 1000,
            figures: sent(epochs),
            cloud: Vec::new(),
            curve: curve.unwrap_or_default(),
            clusterings: Vec::new(),
            suggestions: Vec::new(),
            accuracy_curve: None,
            cost: Cost { train_seconds: number as f64 * 0.1, peak_rss_bytes: 1 << 20, ..Cost::default() },
        },
        values: match trial.is_final() {
            false => Values::default(),
            true => Values {
                users: (0..USERS).collect(),
                per_user: BTreeMap::from([(
                    recommender(trial).protocol.cutoffs[0],
                    BTreeMap::from([
                        (Metric::Ndcg, column.clone()),
                        (Metric::Precision, column.iter().map(|x| x * 0.7).collect()),
                    ]),
                )]),
                recommended: (0..12).map(|item| rng.below(30) / (item + 1)).collect(),
                updates: if epochs > 0 { (0..12).map(|item| 90 / (item + 1)).collect() } else { Vec::new() },
            },
        },
    }
}

/// Models with epochs send something, others nothing.
fn sent(epochs: usize) -> BTreeMap<String, f64> {
    let figures = [("bytes_up", 640.0), ("bytes_down", 12_800.0), ("tcc", 55.0)];
    let some = figures.into_iter().filter(|_| epochs > 0);
    some.map(|(name, each)| (name.to_owned(), each * epochs as f64)).collect()
}

pub fn run_with(
    experiment: &Experiment,
    fake: &Fake,
    folder: &Path,
    jobs: usize,
    existing: Existing,
) -> Result<Results, RunError> {
    engine::run(experiment, fake, &Options { existing, jobs, ..Options::new(folder) })
}

pub fn run(experiment: &Experiment, fake: &Fake, folder: &Path, jobs: usize) -> Result<Results, RunError> {
    run_with(experiment, fake, folder, jobs, Existing::Resume)
}

/// The results without time and memory, which differ from run to run: equal for equal experiments.
pub fn without_cost(results: &Results) -> Results {
    let mut plain = results.clone();
    for row in plain.data.iter_mut().flat_map(|data| &mut data.rows) {
        row.figures.retain(|name, _| !name.ends_with("_seconds"));
        let finals = row.finals.iter_mut().map(|each| &mut each.run);
        let tried = row.tried.iter_mut().map(|each| &mut each.run);
        finals.chain(tried).for_each(|run| run.cost = Cost::default());
    }
    plain
}

/// The bytes that must not depend on anything but the experiment.
pub fn bytes(results: &Results) -> String {
    serde_json::to_string_pretty(&without_cost(results)).unwrap()
}
