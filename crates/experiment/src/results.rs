//! What came out of an experiment: one plain structure, the source of report, tables and JSON.

use crate::engine::{Line, RunError};
use crate::file::{DataSet, Experiment};
use crate::journal::{Journal, Recorded};
use crate::kept::Weighed;
use crate::outcome::{Cost, CurvePoint, DataCard, Summary, Values};
use crate::plan::Trial;
use serde::Serialize;
use sottovoce_evaluate::{Metric, Metrics};
use sottovoce_models::settings::Value;
use std::collections::BTreeMap;

/// What came out of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Results {
    /// The headline.
    pub title: String,
    /// What was to be found out.
    pub question: Option<String>,
    /// What a reader should know.
    pub notes: Option<String>,
    /// Hash of what bears on the results in the experiment file.
    pub fingerprint: String,
    /// The seeds of the final trials.
    pub seeds: Vec<u64>,
    /// Lengths of lists, the main one first.
    pub cutoffs: Vec<usize>,
    /// What was ranked, in words.
    pub candidates: String,
    /// The metric settings were chosen by, on the validation part.
    pub chosen_by: String,
    /// One a data set.
    pub data: Vec<DataResults>,
}

/// The table of one data set.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DataResults {
    /// The data set's name in tables.
    pub label: String,
    /// The data set and what was done to it.
    pub data: DataSet,
    /// What it is.
    pub card: DataCard,
    /// One a contender.
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
    /// The setting it was judged with, complete; empty if every candidate failed.
    pub settings: BTreeMap<String, Value>,
    /// The swept settings.
    pub swept: BTreeMap<String, Value>,
    /// Metrics over the seeds, at each cutoff; empty if every final trial failed.
    pub metrics: BTreeMap<usize, BTreeMap<Metric, Spread>>,
    /// Bias disparity of each category at the main cutoff, mean over the seeds where it is defined.
    pub bias_disparity: BTreeMap<String, f64>,
    /// Other figures over the seeds: epochs, triples, ...
    pub figures: BTreeMap<String, Spread>,
    /// What people decide by, in their histories and in their lists, with the first seed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cloud: Vec<Weighed>,
    /// One a seed.
    pub finals: Vec<Final>,
    /// What was tried on the validation part, in order.
    pub tried: Vec<Tried>,
    /// The place of the chosen one in `tried`, if there was a choice.
    pub chosen: Option<usize>,
    /// The number of epochs found best on the validation part, if it was asked.
    pub best_epochs: Option<usize>,
    /// Settings that were better on the validation part, but whose final training failed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub passed_over: Vec<PassedOver>,
    /// Columns of the final trials that succeeded, in the order of the seeds.
    #[serde(skip)]
    pub values: Vec<Values>,
}

/// A mean over seeds and how far they lie apart.
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
    /// Why it failed, if it did.
    pub failed: Option<String>,
    /// How good it was on the way, if it was asked.
    pub curve: Vec<CurvePoint>,
    /// Time and memory.
    pub cost: Cost,
}

/// A setting tried on the validation part.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tried {
    /// The settings that were varied.
    pub settings: BTreeMap<String, Value>,
    /// The metric of choice, mean over the seeds used; absent if a trial failed.
    pub value: Option<f64>,
    /// Why it failed, if it did.
    pub failed: Option<String>,
    /// How good it was on the way, with the first seed.
    pub curve: Vec<CurvePoint>,
    /// Time and memory with the first seed.
    pub cost: Cost,
}

/// A setting that was given up because its final training failed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PassedOver {
    /// The settings that were varied.
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
    pub(crate) fn gather(
        experiment: &Experiment,
        fingerprint: &str,
        cards: Vec<DataCard>,
        lines: &[Line],
        journal: &Journal,
    ) -> Result<Self, RunError> {
        let mut data = Vec::new();
        for (set, card) in experiment.data.iter().zip(cards) {
            let rows = lines.iter().filter(|line| line.place.data.label == set.label);
            let rows = rows.map(|line| Row::gather(line, journal)).collect::<Result<_, _>>()?;
            data.push(DataResults { label: set.label.clone(), data: set.clone(), card, rows });
        }
        Ok(Self {
            title: experiment.title.clone(),
            question: experiment.question.clone(),
            notes: experiment.notes.clone(),
            fingerprint: fingerprint.to_owned(),
            seeds: experiment.seeds.clone(),
            cutoffs: experiment.protocol.cutoffs.clone(),
            candidates: experiment.protocol.candidates.to_string(),
            chosen_by: experiment.choice.metric.to_string(),
            data,
        })
    }

    /// The same without time and memory, which differ from run to run: equal for equal experiments.
    pub fn without_cost(&self) -> Self {
        let mut plain = self.clone();
        for row in plain.data.iter_mut().flat_map(|data| &mut data.rows) {
            row.figures.retain(|name, _| !name.ends_with("_seconds"));
            row.finals.iter_mut().for_each(|each| each.cost = Cost::default());
            row.tried.iter_mut().for_each(|each| each.cost = Cost::default());
        }
        plain
    }
}

impl Row {
    fn gather(line: &Line, journal: &Journal) -> Result<Self, RunError> {
        let recorded: Vec<(&Trial, &Recorded)> =
            line.finals.iter().filter_map(|trial| Some((trial, journal.trial(&trial.key)?))).collect();
        let done: Vec<&Summary> = recorded.iter().filter_map(|(_, outcome)| summary(outcome)).collect();
        let values = recorded
            .iter()
            .filter(|(_, outcome)| summary(outcome).is_some())
            .map(|(trial, _)| journal.values(&trial.key))
            .collect::<Result<_, _>>()?;
        let contender = &line.place.contender;
        let settings = line.finals.first().map(|trial| trial.settings.iter().map(owned).collect());
        Ok(Self {
            label: contender.label.clone(),
            family: contender.family.clone(),
            model: contender.model.name.to_owned(),
            settings: settings.unwrap_or_default(),
            swept: contender.swept.iter().cloned().collect(),
            metrics: metrics(&done),
            bias_disparity: bias_disparity(&done, line.place.protocol.cutoffs[0]),
            figures: figures(&done),
            cloud: done.first().map(|summary| summary.cloud.clone()).unwrap_or_default(),
            finals: recorded.iter().map(|(trial, outcome)| Final::of(trial.seed, outcome)).collect(),
            tried: line.candidates.iter().map(|candidate| Tried::of(line, candidate, journal)).collect(),
            chosen: line.chosen.as_ref().and_then(|chosen| chosen.candidate),
            best_epochs: line.chosen.as_ref().and_then(|chosen| chosen.epochs),
            passed_over: line.passed_over.iter().map(|one| PassedOver::of(line, one)).collect(),
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

    /// Why the row has no figures, if it has none.
    pub fn failed(&self) -> Option<&str> {
        if !self.metrics.is_empty() {
            return None;
        }
        let finals = self.finals.iter().filter_map(|each| each.failed.as_deref());
        let tried = self.tried.iter().filter_map(|each| each.failed.as_deref());
        finals.chain(tried).next().or(Some("no trial gave a value to choose by"))
    }
}

fn owned((key, value): (&'static str, &Value)) -> (String, Value) {
    (key.to_owned(), value.clone())
}

fn summary(outcome: &Recorded) -> Option<&Summary> {
    match outcome {
        Recorded::Done(summary) => Some(summary),
        Recorded::Failed(_) => None,
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
    for metrics in done.iter().filter_map(|summary| summary.metrics.get(&cutoff)) {
        let Metrics { bias_disparity, .. } = metrics;
        for (category, value) in bias_disparity {
            columns.entry(category).or_default().extend(value);
        }
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
        summary.figures.iter().for_each(|(name, value)| add(name, *value));
    }
    columns.into_iter().filter_map(|(name, values)| Some((name, Spread::of(&values)?))).collect()
}

impl Final {
    fn of(seed: u64, outcome: &Recorded) -> Self {
        match outcome {
            Recorded::Done(summary) => {
                Self { seed, failed: None, curve: summary.curve.clone(), cost: summary.cost }
            }
            Recorded::Failed(reason) => {
                Self { seed, failed: Some(reason.clone()), curve: Vec::new(), cost: Cost::default() }
            }
        }
    }
}

impl PassedOver {
    fn of(line: &Line, one: &crate::engine::PassedOver) -> Self {
        let point = &line.candidates[one.candidate].point;
        Self { settings: point.iter().cloned().collect(), reason: one.reason.clone() }
    }
}

impl Tried {
    fn of(line: &Line, candidate: &crate::engine::Candidate, journal: &Journal) -> Self {
        let outcomes: Vec<&Recorded> =
            candidate.trials.iter().filter_map(|trial| journal.trial(&trial.key)).collect();
        let failed = outcomes.iter().find_map(|outcome| match outcome {
            Recorded::Failed(reason) => Some(reason.clone()),
            Recorded::Done(_) => None,
        });
        let first = outcomes.first().and_then(|outcome| summary(outcome));
        Self {
            settings: candidate.point.iter().cloned().collect(),
            value: line.judged(candidate, journal).map(|(value, _)| value),
            failed,
            curve: first.map(|summary| summary.curve.clone()).unwrap_or_default(),
            cost: first.map(|summary| summary.cost).unwrap_or_default(),
        }
    }
}
