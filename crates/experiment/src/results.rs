//! The results of an experiment: one plain structure, the source of report, tables and JSON.

use crate::classifier::{AccuracyCurve, Classification};
use crate::engine::{self, RowProgress, RunError};
use crate::feature_retention::FeatureWeight;
use crate::file::{About, DataSet, Experiment, Selection};
use crate::journal::{Journal, Recorded};
use crate::outcome::{Cost, CurvePoint, DataCard, Suggestions, Summary, Values};
use crate::plan::Trial;
use serde::Serialize;
use sottovoce_evaluate::Metric;
use sottovoce_models::settings::Value;
use std::collections::BTreeMap;

/// The results of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Results {
    /// What the experiment is about.
    #[serde(flatten)]
    pub about: About,
    /// Hash of what bears on the results in the experiment file.
    pub fingerprint: String,
    /// Version of the program that collected the results.
    pub version: &'static str,
    /// The seeds of the final trials.
    pub seeds: Vec<u64>,
    /// Lengths of lists, the main one first.
    pub cutoffs: Vec<usize>,
    /// Which items were ranked.
    pub candidates: String,
    /// The metric by which settings were selected on the validation part.
    pub chosen_by: String,
    /// How settings were selected.
    pub selection: Selection,
    /// Rounds, targets and training of the classifiers, in experiments on classifiers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub classifier: Option<Classification>,
    /// One a data set.
    pub data: Vec<DataResults>,
}

/// The table of one data set.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DataResults {
    /// The data set's name in tables.
    pub label: String,
    /// The data set, its cleaning and splitting.
    pub data: DataSet,
    /// Its description.
    pub card: DataCard,
    /// In the order of the file.
    pub rows: Vec<Row>,
}

/// One row of the table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The name of the row.
    pub label: String,
    /// The name of the rows that differ in swept settings only.
    pub family: String,
    /// The model.
    pub model: String,
    /// The settings it was evaluated with, complete; empty if every candidate failed.
    pub settings: BTreeMap<String, Value>,
    /// The swept settings.
    pub swept: BTreeMap<String, Value>,
    /// Metrics over the seeds, at each cutoff; empty if every final trial failed.
    pub metrics: BTreeMap<usize, BTreeMap<Metric, Spread>>,
    /// Bias disparity of each category at the main cutoff, mean over the seeds where it is defined.
    pub bias_disparity: BTreeMap<String, f64>,
    /// Other figures over the seeds: epochs, triples, ...
    pub figures: BTreeMap<String, Spread>,
    /// The most informative item features, in histories and in recommendations, with the first seed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cloud: Vec<FeatureWeight>,
    /// What people with one interest are suggested, of the first seed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suggestions: Vec<Suggestions>,
    /// One a seed.
    pub finals: Vec<Final>,
    /// The candidates on the validation part, in order.
    pub tried: Vec<Tried>,
    /// The index of the selected one in `tried`, if anything was tuned.
    pub chosen: Option<usize>,
    /// The best number of epochs on the validation part, if it was evaluated during training.
    pub best_epochs: Option<usize>,
    /// Settings that were better on the validation part, but whose final training failed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub passed_over: Vec<Rejected>,
    /// Columns of the final trials that succeeded, in the order of the seeds.
    #[serde(skip)]
    pub values: Vec<Values>,
}

/// Mean and standard deviation over seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The sample standard deviation; 0 for a single value.
    pub sd: f64,
    /// How many values.
    pub n: usize,
}

/// A final trial.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Final {
    /// Its seed.
    pub seed: u64,
    /// How it went.
    #[serde(flatten)]
    pub run: TrialRun,
}

/// How a trial went.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TrialRun {
    /// Why it failed, if it did.
    pub failed: Option<String>,
    /// Evaluations during training.
    pub curve: Vec<CurvePoint>,
    /// Clusterings of devices: the round that took each up, its number of clusters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clusterings: Vec<(u64, usize)>,
    /// The training curve of a classifier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy_curve: Option<AccuracyCurve>,
    /// Time and memory.
    pub cost: Cost,
}

/// A candidate on the validation part.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tried {
    /// The settings that were tuned.
    pub settings: BTreeMap<String, Value>,
    /// The metric of selection, mean over the seeds used; absent if a trial failed.
    pub value: Option<f64>,
    /// How it went, with the first seed.
    #[serde(flatten)]
    pub run: TrialRun,
}

/// A candidate that was rejected because its final training failed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rejected {
    /// The settings that were tuned.
    pub settings: BTreeMap<String, Value>,
    /// Why its final training failed.
    pub reason: String,
}

impl Spread {
    /// Of some values; `None` of none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let n = values.len();
        if let Some(&mean) = values.first().filter(|first| values.iter().all(|value| value == *first)) {
            // Exactly: rounding in the mean must not look like a difference between seeds.
            return Some(Self { mean, sd: 0.0, n });
        }
        let mean = values.iter().sum::<f64>() / n as f64;
        let squares: f64 = values.iter().map(|x| (x - mean) * (x - mean)).sum();
        (n > 0).then(|| Self { mean, sd: if n > 1 { (squares / (n - 1) as f64).sqrt() } else { 0.0 }, n })
    }
}

impl Results {
    pub(crate) fn collect(
        experiment: &Experiment,
        fingerprint: &str,
        cards: Vec<DataCard>,
        rows: &[RowProgress],
        journal: &Journal,
    ) -> Result<Self, RunError> {
        let mut data = Vec::new();
        for (set, card) in experiment.data.iter().zip(cards) {
            let label = set.label();
            let rows = rows.iter().filter(|row| row.plan.data.label() == label);
            let rows = rows.map(|row| Row::collect(row, journal)).collect::<Result<_, _>>()?;
            data.push(DataResults { label, data: set.clone(), card, rows });
        }
        Ok(Self {
            about: experiment.about.clone(),
            fingerprint: fingerprint.to_owned(),
            version: env!("CARGO_PKG_VERSION"),
            seeds: experiment.seeds.clone(),
            cutoffs: experiment.protocol.cutoffs.clone(),
            candidates: experiment.protocol.candidates.to_string(),
            chosen_by: experiment.selection.metric.to_string(),
            selection: experiment.selection.clone(),
            classifier: experiment.classification().cloned(),
            data,
        })
    }
}

impl Row {
    fn collect(row: &RowProgress, journal: &Journal) -> Result<Self, RunError> {
        let recorded: Vec<(&Trial, &Recorded)> =
            row.finals.iter().filter_map(|trial| Some((trial, journal.trial(&trial.key)?))).collect();
        let succeeded = || row.finals.iter().filter_map(|trial| Some((trial, journal.done(&trial.key)?)));
        let done: Vec<&Summary> = succeeded().map(|(_, summary)| summary).collect();
        let values = succeeded().map(|(trial, _)| journal.values(&trial.key)).collect::<Result<_, _>>()?;
        let spec = &row.plan.spec;
        Ok(Self {
            label: spec.label.clone(),
            family: spec.family.clone(),
            model: spec.learner.name().to_owned(),
            settings: row.finals.first().map(Trial::settings).into_iter().flatten().collect(),
            swept: spec.swept.iter().cloned().collect(),
            metrics: metrics(&done),
            bias_disparity: bias_disparity(&done, row.plan.protocol.cutoffs[0]),
            figures: figures(&done),
            cloud: done.first().map(|summary| summary.cloud.clone()).unwrap_or_default(),
            suggestions: done.first().map(|summary| summary.suggestions.clone()).unwrap_or_default(),
            finals: recorded
                .iter()
                .map(|(trial, recorded)| Final { seed: trial.seed, run: TrialRun::of(recorded) })
                .collect(),
            tried: row.candidates.iter().map(|candidate| Tried::of(row, candidate, journal)).collect(),
            chosen: row.selected.as_ref().and_then(|selected| selected.candidate),
            best_epochs: row.selected.as_ref().and_then(|selected| selected.epochs),
            passed_over: row
                .rejected
                .iter()
                .map(|(at, reason)| Rejected {
                    settings: row.candidates[*at].point.iter().cloned().collect(),
                    reason: reason.clone(),
                })
                .collect(),
            values,
        })
    }

    /// A metric at a cutoff.
    pub fn metric(&self, key: Metric, cutoff: usize) -> Option<Spread> {
        self.metrics.get(&cutoff)?.get(&key).copied()
    }

    /// A metric of each user, mean over the seeds, with the users it belongs to.
    pub fn per_user(&self, key: Metric, cutoff: usize) -> Option<(&[u32], Vec<f64>)> {
        let first = self.values.first()?;
        let mut sums = vec![0.0; first.users.len()];
        for values in &self.values {
            let column = values.per_user.get(&cutoff)?.get(&key)?;
            if values.users != first.users || column.len() != sums.len() {
                return None;
            }
            sums.iter_mut().zip(column).for_each(|(sum, value)| *sum += value);
        }
        let seeds = self.values.len() as f64;
        Some((&first.users, sums.into_iter().map(|sum| sum / seeds).collect()))
    }

    /// Why the row has no result, if it has none.
    pub fn failed(&self) -> Option<&str> {
        if self.finals.iter().any(|each| each.run.failed.is_none()) {
            return None;
        }
        let finals = self.finals.iter().filter_map(|each| each.run.failed.as_deref());
        let tried = self.tried.iter().filter_map(|each| each.run.failed.as_deref());
        finals.chain(tried).next().or(Some("no trial gave a value to select by"))
    }
}

/// Spreads of the metrics that every seed has.
fn metrics(done: &[&Summary]) -> BTreeMap<usize, BTreeMap<Metric, Spread>> {
    let Some(first) = done.first() else { return BTreeMap::new() };
    let spread = |cutoff: usize, key: Metric| {
        let value = |summary: &&Summary| summary.metrics.get(&cutoff)?.get(key);
        Spread::of(&done.iter().map(value).collect::<Option<Vec<f64>>>()?)
    };
    let at = |&cutoff: &usize| {
        (cutoff, Metric::ALL.into_iter().filter_map(|key| Some((key, spread(cutoff, key)?))).collect())
    };
    first.metrics.keys().map(at).collect()
}

fn bias_disparity(done: &[&Summary], cutoff: usize) -> BTreeMap<String, f64> {
    let mut columns: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let at_cutoff = done.iter().filter_map(|summary| summary.metrics.get(&cutoff));
    for (category, value) in at_cutoff.flat_map(|metrics| &metrics.bias_disparity) {
        columns.entry(category).or_default().extend(value);
    }
    let mean = |(category, values): (&str, Vec<f64>)| Some((category.to_owned(), Spread::of(&values)?.mean));
    columns.into_iter().filter_map(mean).collect()
}

fn figures(done: &[&Summary]) -> BTreeMap<String, Spread> {
    let mut columns: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let mut add = |name: &str, value: f64| columns.entry(name.to_owned()).or_default().push(value);
    for summary in done {
        add("epochs", summary.epochs as f64);
        add("triples", summary.triples as f64);
        add("train_seconds", summary.cost.train_seconds);
        add("evaluate_seconds", summary.cost.evaluate_seconds);
        let Cost { device_round_seconds, device_session_seconds, .. } = summary.cost;
        device_round_seconds.into_iter().for_each(|seconds| add("device_round_seconds", seconds));
        device_session_seconds.into_iter().for_each(|seconds| add("device_session_seconds", seconds));
        summary.figures.iter().for_each(|(name, value)| add(name, *value));
    }
    columns.into_iter().filter_map(|(name, values)| Some((name, Spread::of(&values)?))).collect()
}

impl TrialRun {
    fn of(recorded: &Recorded) -> Self {
        match recorded {
            Recorded::Done(summary) => Self {
                failed: None,
                curve: summary.curve.clone(),
                clusterings: summary.clusterings.clone(),
                accuracy_curve: summary.accuracy_curve.clone(),
                cost: summary.cost,
            },
            Recorded::Failed(reason) => Self { failed: Some(reason.clone()), ..Self::default() },
        }
    }
}

impl Tried {
    fn of(row: &RowProgress, candidate: &engine::Candidate, journal: &Journal) -> Self {
        let recorded = || candidate.trials.iter().filter_map(|trial| journal.trial(&trial.key));
        let failed = recorded().find(|recorded| matches!(recorded, Recorded::Failed(_)));
        let first = recorded().next().map(TrialRun::of).unwrap_or_default();
        Self {
            settings: candidate.point.iter().cloned().collect(),
            value: row.score(candidate, journal).map(|score| score.value),
            run: TrialRun { failed: failed.and_then(|failed| TrialRun::of(failed).failed), ..first },
        }
    }
}
