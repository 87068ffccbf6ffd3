//! Carries out an experiment's trials on real data.

use crate::engine::{Observer, Trials};
use crate::file::DataSet;
use crate::kept::{Kept, kept};
use crate::outcome::{Cost, DataCard, Outcome, Summary, TrialError, Values};
use crate::plan::{Stage, Trial, hash};
use crate::trial::{Checks, Keeping, ModelPlan, PrepareError, evaluate, load_clean, train_keeping};
use crate::witness;
use sottovoce_core::Histories;
use sottovoce_data::{
    CleaningReport, DataSplit, Description, LoadOptions, SplitConfig, describe, split_with,
};
use sottovoce_evaluate::{EvaluationInput, report};
use sottovoce_federation::Recorder;
use sottovoce_models::{Flow, ModelError};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Trains and judges models on data sets that are loaded once and kept.
pub struct Runner {
    load: LoadOptions,
    peak_rss_bytes: fn() -> Option<u64>,
    sets: Mutex<HashMap<String, Arc<Prepared>>>,
}

/// A data set, split for each stage.
struct Prepared {
    /// Training and test part.
    whole: DataSplit,
    /// The training part split again, for stages that need a validation part.
    held: DataSplit,
    description: Description,
    cleaned: CleaningReport,
    seconds: f64,
}

impl Runner {
    /// Reads data as `load` says; `peak_rss_bytes` measures this process.
    pub fn new(load: LoadOptions, peak_rss_bytes: fn() -> Option<u64>) -> Self {
        Self { load, peak_rss_bytes, sets: Mutex::default() }
    }

    /// The data set; loaded by the first trial that asks while others wait.
    fn prepared(&self, data: &DataSet) -> Result<Arc<Prepared>, TrialError> {
        let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        let key = hash(data);
        if let Some(known) = sets.get(&key) {
            return Ok(known.clone());
        }
        let prepared = Arc::new(self.prepare(data).map_err(|error| TrialError::Broken(error.to_string()))?);
        sets.insert(key, prepared.clone());
        Ok(prepared)
    }

    fn prepare(&self, data: &DataSet) -> Result<Prepared, PrepareError> {
        let started = Instant::now();
        let load = LoadOptions { graph: data.graph.clone(), ..self.load.clone() };
        let (dataset, cleaned) = load_clean(&data.source, &load, &data.cleaning())?;
        let DataSet { split: test, relevant, split_seed: seed, .. } = *data;
        let parts =
            |validation| split_with(&dataset.interactions, SplitConfig { test, validation, relevant, seed });
        Ok(Prepared {
            whole: parts(None),
            held: parts(Some(data.validation)),
            description: describe(&dataset),
            cleaned,
            seconds: started.elapsed().as_secs_f64(),
        })
    }
}

impl Prepared {
    /// What a stage learns from, and what it is asked.
    fn stage(&self, stage: Stage) -> (&Histories, EvaluationInput<'_>) {
        let parts = if stage == Stage::Test { &self.whole } else { &self.held };
        let validation = self.held.validation.as_ref().unwrap_or(&self.held.test);
        let (test, also_seen) = match stage {
            Stage::Validation => (validation, None),
            Stage::Test => (&parts.test, None),
            Stage::TestWithoutRefit => (&parts.test, Some(validation)),
        };
        let categories = parts.catalog.categories.as_ref();
        (&parts.train, EvaluationInput { train: &parts.train, also_seen, test, categories })
    }

    fn card(&self, data: &DataSet) -> DataCard {
        let about = &self.description;
        let sizes = [
            ("train", Some(&self.held.train)),
            ("validation", self.held.validation.as_ref()),
            ("test", Some(&self.held.test)),
        ];
        let card = report::DataCard {
            name: data.label.clone(),
            source: if data.label == about.name {
                about.format.about().to_owned()
            } else {
                about.name.clone()
            },
            users: about.users as u64,
            items: about.items as u64,
            interactions: about.interactions as u64,
            span: about.first_time.zip(about.last_time),
            fingerprint: about.fingerprint.clone(),
            filters: self.cleaned.messages(),
            split: split_in_words(data),
            parts: sizes
                .into_iter()
                .filter_map(|(name, part)| Some((name.to_owned(), part?.interactions() as u64)))
                .collect(),
            facts: vec![
                ("history, median".to_owned(), about.history.median.to_string()),
                ("history, longest".to_owned(), about.history.max.to_string()),
                (
                    "held by the top 1 % of items".to_owned(),
                    format!("{:.1} %", about.popularity.top_1_percent * 100.0),
                ),
                ("Gini of popularity".to_owned(), format!("{:.3}", about.popularity.gini)),
                ("users without a test part".to_owned(), self.whole.without_test.to_string()),
            ],
        };
        let train = &self.whole.train;
        let activity = train.iter().map(|history| history.len() as u32).collect();
        DataCard { card, popularity: train.popularity(), activity, categories: self.category_shares() }
    }

    fn category_shares(&self) -> BTreeMap<String, f64> {
        let Some(categories) = &self.whole.catalog.categories else { return BTreeMap::new() };
        let train = &self.whole.train;
        let mut counts = vec![0u64; categories.names().len()];
        for (item, count) in train.popularity().into_iter().enumerate() {
            for &category in categories.of(item) {
                counts[category as usize] += u64::from(count);
            }
        }
        let all = train.interactions().max(1) as f64;
        categories
            .names()
            .iter()
            .zip(counts)
            .map(|(name, count)| (name.to_owned(), count as f64 / all))
            .collect()
    }
}

impl Trials for Runner {
    fn describe(&self, data: &DataSet) -> Result<DataCard, TrialError> {
        Ok(self.prepared(data)?.card(data))
    }

    fn run(&self, trial: &Trial, observer: &Observer<'_>) -> Result<Outcome, TrialError> {
        let data = self.prepared(&trial.data)?;
        let (histories, question) = data.stage(trial.stage);
        let checks = trial.curve.as_ref().map(|curve| Checks {
            question,
            metric: curve.metric,
            every: curve.every,
            patience: curve.patience,
            keep_best: false,
        });
        let plan = ModelPlan { model: trial.model, settings: &trial.settings, seed: trial.seed, checks };
        let mut interrupted = false;
        let mut on_epoch = |epoch, epochs| {
            let flow = observer.epoch(epoch, epochs);
            interrupted |= flow == Flow::Stop;
            flow
        };
        let witness = witness::of(trial, histories, &data.whole.catalog);
        let keeping = Keeping {
            users: Some(&data.whole.users),
            catalog: Some(&data.whole.catalog),
            recorder: witness.clone().map(|witness| witness as Arc<dyn Recorder>),
            ..Keeping::default()
        };
        let trained = train_keeping(&plan, histories, &mut on_epoch, keeping);
        let trained = trained.map_err(failure)?;
        if interrupted {
            return Err(TrialError::Interrupted);
        }
        let started = Instant::now();
        let evaluation = evaluate(&question, &trial.protocol, trained.recommender.as_ref())
            .map_err(|error| TrialError::Broken(error.to_string()))?;
        let cost = Cost {
            load_seconds: data.seconds,
            train_seconds: trained.seconds,
            evaluate_seconds: started.elapsed().as_secs_f64(),
            peak_rss_bytes: (self.peak_rss_bytes)().unwrap_or(0),
        };
        let main_cutoff = trial.protocol.cutoffs.first().copied().unwrap_or(10);
        let mut figures = figures(&trained.summary);
        figures.extend(witness.into_iter().flat_map(|witness| witness::figures(&witness)));
        let Kept { figures: of_lists, cloud } = match &data.whole.catalog.facts {
            Some(facts) if trial.stage.is_final() && !evaluation.is_sampled() => {
                kept(facts, histories, &evaluation.lists, main_cutoff, trial.data.split_seed)
            }
            _ => Kept::default(),
        };
        figures.extend(of_lists);
        let values = Values::of(&evaluation, main_cutoff, trained.summary.updates_by_item);
        Ok(Outcome {
            summary: Summary {
                metrics: evaluation.at,
                epochs: trained.summary.epochs,
                triples: trained.summary.triples,
                figures,
                cloud,
                curve: trained.curve,
                cost,
            },
            values,
        })
    }
}

fn split_in_words(data: &DataSet) -> String {
    let relevant =
        data.relevant.map_or_else(String::new, |least| format!(", held out: rated {least} or more"));
    format!("{}, validation {}{relevant}", data.split, data.validation)
}

/// What a federated training sent, and who took part; nothing for others.
fn figures(summary: &sottovoce_models::Summary) -> BTreeMap<String, f64> {
    let traffic = &summary.traffic;
    let sent = [
        ("bytes_down", traffic.down as f64),
        ("bytes_up", traffic.up as f64),
        ("tcc", traffic.vectors),
        ("cce", traffic.vectors / summary.epochs.max(1) as f64),
    ];
    let turnout = &summary.turnout;
    let came = [
        ("rounds", turnout.rounds),
        ("unavailable", turnout.unavailable),
        ("dropped", turnout.dropped),
        ("late", turnout.late),
        ("received", turnout.received),
    ];
    let came = came.map(|(name, devices)| (name, devices as f64));
    let time = [("virtual_time", turnout.seconds)];
    let spent = summary.privacy.iter().flat_map(|spent| [("epsilon", spent.epsilon), ("delta", spent.delta)]);
    sent.into_iter()
        .chain(came)
        .chain(time)
        .chain(spent)
        .filter(|(_, value)| *value > 0.0)
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// A setting that does not work is a result; a model that is misused is a mistake of ours.
fn failure(error: ModelError) -> TrialError {
    match error {
        ModelError::Diverged { .. } | ModelError::Data(_) => TrialError::Failed(error.to_string()),
        other => TrialError::Broken(other.to_string()),
    }
}
