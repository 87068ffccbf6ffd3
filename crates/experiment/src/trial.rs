//! One trial: prepare the data, train a model, judge it. `train`, `run` and `demo` all go through here.

use crate::checkpoint::Store;
use crate::metric::MetricAt;
use crate::outcome::CurvePoint;
use crate::watching::{Best, Watcher};
use sottovoce_core::{Catalog, Histories, Names};
use sottovoce_data::{
    Cleaning, CleaningNotes, DataError, Dataset, Description, GraphPlan, Interactions, LoadOptions, Notes,
    Parts, Split, Splitting, clean, describe, load, read_graph, split_as,
};
use sottovoce_evaluate::{EvaluateError, Evaluation, Protocol, Question, judge};
use sottovoce_federation::{Recorder, registry};
use sottovoce_models::registry::Model;
use sottovoce_models::settings::Settings;
use sottovoce_models::{Fit, Flow, ModelError, Recommender, Summary};
use std::sync::Arc;
use std::time::Instant;
use thiserror::Error;

/// Where data comes from and what is done to it before training.
#[derive(Clone, Debug)]
pub struct DataPlan {
    /// A file, a folder, a bare name or a synthetic town.
    pub source: String,
    /// How it is read.
    pub load: LoadOptions,
    /// Which interactions count.
    pub cleaning: Cleaning,
    /// How histories are divided; `None` chooses by whether there are timestamps.
    pub split: Option<Split>,
    /// How a validation part is taken off the training part.
    pub validation: Option<Split>,
    /// Held-out interactions rated below it do not count.
    pub relevant: Option<f32>,
    /// For random splits.
    pub seed: u64,
}

/// Data ready for training.
#[derive(Debug)]
pub struct Prepared {
    /// The data set's name.
    pub name: String,
    /// Train, validation and test.
    pub parts: Parts,
    /// The split that was used.
    pub split: Split,
    /// The cleaned data, described; its fingerprint is in there.
    pub description: Description,
    /// What was seen while reading.
    pub notes: Notes,
    /// What cleaning left out.
    pub cleaned: CleaningNotes,
    /// Wall-clock seconds that loading, cleaning and splitting took.
    pub seconds: f64,
}

/// Loads, cleans and splits.
///
/// # Errors
/// If the data cannot be read, or nothing is left of it.
pub fn prepare(plan: &DataPlan) -> Result<Prepared, PrepareError> {
    let started = Instant::now();
    let (dataset, cleaned) = load_clean(&plan.source, &plan.load, &plan.cleaning)?;
    let description = describe(&dataset);
    let how = plan.split.unwrap_or(default_split(!dataset.interactions.time.is_empty()));
    let DataPlan { validation, relevant, seed, .. } = *plan;
    let parts = split_as(&dataset.interactions, Splitting { test: how, validation, relevant, seed });
    Ok(Prepared {
        name: dataset.name,
        parts,
        split: how,
        description,
        notes: dataset.notes,
        cleaned,
        seconds: started.elapsed().as_secs_f64(),
    })
}

/// Why there are no data to train on.
#[derive(Debug, Error)]
pub enum PrepareError {
    /// They cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// Cleaning was too thorough.
    #[error("{source_name}: nothing is left after cleaning: {}", lines.join("; "))]
    NothingLeft {
        /// The data set.
        source_name: String,
        /// What was left out, and why.
        lines: Vec<String>,
    },
}

/// Loads and cleans, and reads what a graph knows of the items that are left, if one is named.
///
/// # Errors
/// If the data or the graph cannot be read, or nothing is left of the data.
pub fn load_clean(
    source: &str,
    options: &LoadOptions,
    cleaning: &Cleaning,
) -> Result<(Dataset, CleaningNotes), PrepareError> {
    let mut dataset = load(source, options)?;
    let first = options.graph.as_ref().filter(|plan| plan.first);
    if let Some(plan) = first {
        learn_of_items(&mut dataset, plan, options)?;
        dataset.interactions = only_known(dataset.interactions);
    }
    let (kept, notes) = clean(dataset.interactions, cleaning);
    dataset.interactions = kept;
    if dataset.interactions.is_empty() {
        return Err(PrepareError::NothingLeft { source_name: dataset.name, lines: notes.lines() });
    }
    match (&options.graph, first) {
        (Some(plan), None) => learn_of_items(&mut dataset, plan, options)?,
        (_, Some(_)) => {
            let facts = &mut dataset.interactions.catalog.facts;
            *facts = facts.take().map(|facts| Arc::new(facts.without_unused_features()));
        }
        (None, None) => (),
    }
    Ok((dataset, notes))
}

/// Puts what a graph knows of the items into the catalog.
fn learn_of_items(dataset: &mut Dataset, plan: &GraphPlan, options: &LoadOptions) -> Result<(), DataError> {
    let catalog = &dataset.interactions.catalog;
    let (facts, met) = read_graph(plan, &dataset.name, catalog, options)?;
    dataset.notes.remarks.extend(met.lines(&facts));
    dataset.interactions.catalog.facts = Some(Arc::new(facts));
    Ok(())
}

/// The interactions with items of which something is known.
fn only_known(all: Interactions) -> Interactions {
    let Some(facts) = all.catalog.facts.clone() else { return all };
    let known = |row: &u32| !facts.of(all.item[*row as usize] as usize).is_empty();
    let rows: Vec<u32> = (0..all.len() as u32).filter(known).collect();
    all.select(&rows)
}

/// Time order where there is time, chance where there is none.
pub fn default_split(timestamps: bool) -> Split {
    if timestamps { Split::Temporal(0.8) } else { Split::Random(0.8) }
}

/// A model and how it is trained.
pub struct ModelPlan<'a> {
    /// Which model.
    pub model: &'static Model,
    /// Its settings.
    pub settings: &'a Settings,
    /// Determines all randomness.
    pub seed: u64,
    /// Judgements while it learns.
    pub checks: Option<Checks<'a>>,
}

/// Judges a model on held-out interactions while it learns.
#[derive(Clone, Copy)]
pub struct Checks<'a> {
    /// What it is asked.
    pub question: Question<'a>,
    /// By what it is judged.
    pub metric: MetricAt,
    /// After every so many epochs, and after the last.
    pub every: usize,
    /// End the training after so many judgements without a new best.
    pub patience: Option<usize>,
    /// Give back the model as it was at its best, instead of as it was in the end.
    pub keep_best: bool,
}

/// A trained model and how it got there.
pub struct Trained {
    /// The model.
    pub recommender: Box<dyn Recommender>,
    /// Epochs and triples.
    pub summary: Summary,
    /// One point an epoch; judged ones have a value.
    pub curve: Vec<CurvePoint>,
    /// The epoch that was judged best.
    pub best_epoch: Option<usize>,
    /// Wall-clock seconds of training, judgements on the way included.
    pub seconds: f64,
}

/// Trains a model; `on_epoch` hears (done, planned) after each epoch and may end the training.
///
/// # Errors
/// If the model cannot learn from the data, or diverges.
pub fn train(
    plan: &ModelPlan<'_>,
    histories: &Histories,
    on_epoch: &mut dyn FnMut(usize, usize) -> Flow,
) -> Result<Trained, ModelError> {
    train_keeping(plan, histories, on_epoch, Keeping::default())
}

/// What a training has around it.
#[derive(Default)]
pub struct Keeping<'a> {
    /// Where its state is kept on the way, and taken from to begin with.
    pub store: Option<&'a mut Store>,
    /// Names of the users, for settings that name files which speak of them.
    pub users: Option<&'a Names>,
    /// What is known of the items, for models and criteria that go by it.
    pub catalog: Option<&'a Catalog>,
    /// Who is shown what the server of a federated model sees; models that are trained in one place have nothing to show.
    pub recorder: Option<Arc<dyn Recorder>>,
}

/// Trains a model as [`train`] does, and keeps its state on the way. Interrupted and begun again with the same store,
/// it gives the same bytes as one that was not interrupted.
///
/// # Errors
/// As [`train`], and if a state cannot be kept or taken back.
pub fn train_keeping<'a>(
    plan: &ModelPlan<'a>,
    histories: &Histories,
    on_epoch: &'a mut dyn FnMut(usize, usize) -> Flow,
    keeping: Keeping<'a>,
) -> Result<Trained, ModelError> {
    let started = Instant::now();
    let Keeping { store, users, catalog, recorder } = keeping;
    let recorded = recorder.and_then(|recorder| registry::recorded(plan.model.name, plan.settings, recorder));
    let mut recommender = recorded.unwrap_or_else(|| (plan.model.build)(plan.settings));
    let (curve, best, cost) = (Vec::new(), None, None);
    let mut watch = Watcher { checks: plan.checks, curve, best, on_epoch, store, users, cost };
    let summary = recommender.fit(histories, &mut Fit::new(plan.seed, &mut watch).knowing(catalog))?;
    let Watcher { curve, best, .. } = watch;
    let best_epoch = best.as_ref().map(|best| best.epoch);
    if let Some(Best { tensors: Some(tensors), .. }) = best {
        recommender.restore(&tensors, histories)?;
    }
    Ok(Trained { recommender, summary, curve, best_epoch, seconds: started.elapsed().as_secs_f64() })
}

/// Judges a model.
///
/// # Errors
/// If the parts of the question do not fit together.
pub fn evaluate(
    question: &Question<'_>,
    protocol: &Protocol,
    model: &dyn Recommender,
) -> Result<Evaluation, EvaluateError> {
    judge(question, protocol, |user, into: &mut [f32]| model.score(user, into))
}

impl Checks<'_> {
    /// Parts of one data set fit together, so that judging does not fail.
    pub(crate) fn value(&self, model: &dyn Recommender) -> Option<f64> {
        let protocol = Protocol::all_unrated([self.metric.cutoff]);
        self.metric.of(&evaluate(&self.question, &protocol, model).ok()?.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sottovoce_evaluate::Key;
    use sottovoce_models::settings::Value;

    fn town() -> Prepared {
        let plan = DataPlan {
            source: "synth:town:users=60".to_owned(),
            load: LoadOptions::default(),
            cleaning: Cleaning::default(),
            split: None,
            validation: Some(Split::Temporal(0.8)),
            relevant: None,
            seed: 1,
        };
        prepare(&plan).unwrap()
    }

    #[test]
    fn patience_ends_the_training_and_the_best_epoch_comes_back() {
        let data = town();
        let held_out = data.parts.validation.as_ref().unwrap();
        let question = Question::new(&data.parts.train, held_out);
        let metric = MetricAt { key: Key::Ndcg, cutoff: 10 };
        let model = registry::find("bpr-mf").unwrap();
        let settings =
            model.settings([("epochs", Value::Integer(200)), ("learning_rate", Value::Real(0.1))]).unwrap();
        let checks = Checks { question, metric, every: 2, patience: Some(3), keep_best: true };
        let plan = ModelPlan { model, settings: &settings, seed: 3, checks: Some(checks) };
        let trained = train(&plan, &data.parts.train, &mut |_, _| Flow::Continue).unwrap();
        let best = trained.best_epoch.unwrap();
        assert!(trained.summary.epochs < 200, "never stopped");
        assert_eq!(trained.summary.epochs, best + 2 * 3);
        assert!(trained.curve.iter().all(|point| point.value.is_some() == (point.epoch % 2 == 0)));
        let told = trained.curve[best - 1].value;
        let again = evaluate(&question, &Protocol::all_unrated([10]), trained.recommender.as_ref()).unwrap();
        assert_eq!(told, Some(again.at[&10].ndcg));
    }

    #[test]
    fn what_is_left_empty_by_cleaning_is_an_error() {
        let plan = DataPlan {
            source: "synth:town:users=60".to_owned(),
            load: LoadOptions::default(),
            cleaning: Cleaning { min_interactions: Some(1_000_000), ..Cleaning::default() },
            split: None,
            validation: None,
            relevant: None,
            seed: 1,
        };
        let message = prepare(&plan).unwrap_err().to_string();
        assert!(message.contains("nothing is left after cleaning"), "{message}");
    }
}
