//! Trains and evaluates models that complete people's interests.

use crate::monitor::Monitor;
use crate::outcome::{CurvePoint, Suggestions};
use crate::people::{HiddenPart, Part, People, PeopleError, joined};
use crate::training::Context;
use serde::Serialize;
use sottovoce_core::{Histories, PageTable, RecentPages, Rng};
use sottovoce_evaluate::{
    EvaluateError, Evaluation, EvaluationInput, HiddenInterestMetrics, HiddenInterests, Protocol,
};
use sottovoce_federation::registry;
use sottovoce_models::federated::lookalike::{Continual, NetworkConfig, PAGES, REPLAY_SHARE, Text, replayed};
use sottovoce_models::registry::Model;
use sottovoce_models::settings::{Choice, Config, Settings};
use sottovoce_models::{Fit, Flow, ModelError, Recommender, Summary, Tensor};
use sottovoce_text::HashedNgrams;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;
use thiserror::Error;

/// Interests for which suggestions are shown, and how many.
const EXAMPLES: usize = 3;
const SUGGESTED: usize = 6;

/// What is trained on whom.
pub struct LookalikePlan<'a> {
    /// Which model.
    pub model: &'static Model,
    /// Its settings.
    pub settings: &'a Settings,
    /// Determines all randomness of the training.
    pub seed: u64,
    /// The people.
    pub people: &'a People,
    /// People of an earlier period, on whom the model is trained first.
    pub before: Option<&'a People>,
    /// The part to evaluate on.
    pub part: Part,
}

/// A trained model.
pub struct TrainedLookalike {
    /// The model.
    pub recommender: Box<dyn Recommender>,
    /// Epochs, traffic, participation.
    pub summary: Summary,
    /// One point an epoch of the last training.
    pub curve: Vec<CurvePoint>,
    /// Seconds of training.
    pub seconds: f64,
    /// What it was trained on in the end.
    pub train: Histories,
    /// Whom it is evaluated on: with earlier data, one of the earlier people to four of the new.
    pub question: HiddenPart,
}

/// How well a model finds hidden interests.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LookalikeMetrics {
    /// Over all people.
    #[serde(flatten)]
    pub all: HiddenInterestMetrics,
    /// By tier of the hidden interest in the taxonomy.
    #[serde(skip)]
    pub by_tier: BTreeMap<u32, HiddenInterestMetrics>,
    /// Precision at thresholds chosen to give recalls of 0.05, 0.1 and so on; empty if scores are no probabilities.
    #[serde(skip)]
    pub precision_at_recall: Vec<(f64, f64)>,
}

/// Why nothing was learnt.
#[derive(Debug, Error)]
pub enum LookalikeError {
    /// The people.
    #[error(transparent)]
    People(#[from] PeopleError),
    /// The model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A model that knows people only by what it learnt of each of them.
    #[error("{0} cannot score people who were not in training, as look-alike modelling asks; models that can: {1}")]
    NoNewcomers(&'static str, String),
    /// Settings that do not go with the data.
    #[error("{0}")]
    Setting(String),
    /// The parts do not fit together, which is a mistake of this program.
    #[error(transparent)]
    Evaluate(#[from] EvaluateError),
}

/// What a model reads of pages, and the length of their vectors; nothing for models without such a setting.
pub fn text(settings: &Settings) -> (Text, usize) {
    match settings.get("text") {
        Some(_) => {
            let network = NetworkConfig::read(settings);
            (network.text, network.dim)
        }
        None => (Text::Nothing, 0),
    }
}

/// The encoder of titles that a model with these settings reads pages by; none if it does not read titles. Whoever
/// scores people with the model needs it too.
///
/// # Errors
/// If there can be none.
pub fn title_encoder(people: &People, settings: &Settings) -> Result<Option<HashedNgrams>, PeopleError> {
    match text(settings) {
        (Text::Titles, dim) => people.title_encoder(dim).map(Some),
        _ => Ok(None),
    }
}

/// How a model goes on from earlier data.
fn continual(settings: &Settings) -> Continual {
    settings.get("continual").and_then(|value| Continual::named(&value.to_string())).unwrap_or_default()
}

/// Trains a model; `on_epoch` is called with (done, planned) after each epoch and may end the training.
///
/// # Errors
/// If the settings do not go with the data, or training fails.
pub fn train(
    plan: &LookalikePlan<'_>,
    on_epoch: &mut dyn FnMut(usize, usize) -> Flow,
    context: Context<'_>,
) -> Result<TrainedLookalike, LookalikeError> {
    let LookalikePlan { settings, people, before, part, .. } = *plan;
    let started = Instant::now();
    let (text, dim) = text(settings);
    let pages = people.pages(text, dim)?;
    let mut train = people.all_interests(Part::Train, &pages)?;
    let mut question = people.one_hidden(part, &pages)?;
    let how = continual(settings);
    let mut start = None;
    match before {
        None if how != Continual::Nothing => {
            return Err(LookalikeError::Setting(format!(
                "continual = {} goes on from earlier data, and there is none: name it by --before, or `before` in an \
                 experiment file",
                settings.get("continual").map(ToString::to_string).unwrap_or_default()
            )));
        }
        None => {}
        Some(earlier) => {
            if earlier.catalog.ids != people.catalog.ids {
                return Err(LookalikeError::Setting("earlier and new data have different categories".to_owned()));
            }
            let pages = earlier.pages(text, dim)?;
            let old = earlier.all_interests(Part::Train, &pages)?;
            let asked = earlier.one_hidden(part, &pages)?;
            question = asked.mixed(question.shown.users() / REPLAY_SHARE, &question).map_err(PeopleError::from)?;
            if how != Continual::Nothing {
                let (model, ..) = fit(plan, &old, None, &mut |_, _| Flow::Continue, Context::default())?;
                train = with_old(how, (train, &old), model.as_ref(), plan.seed)?;
                start = Some(model.tensors());
            }
        }
    }
    let (recommender, summary, curve) = fit(plan, &train, start.as_deref(), on_epoch, context)?;
    let seconds = started.elapsed().as_secs_f64();
    Ok(TrainedLookalike { recommender, summary, curve, seconds, train, question })
}

/// New people, and those who keep the model from forgetting.
fn with_old(
    how: Continual,
    (train, old): (Histories, &Histories),
    model: &dyn Recommender,
    seed: u64,
) -> Result<Histories, LookalikeError> {
    let count = train.users() / REPLAY_SHARE;
    let joined = match how {
        Continual::Nothing | Continual::Refine => return Ok(train),
        Continual::Merge => joined(old, count, &train),
        Continual::Replay => {
            let score = |interests: &[u32], into: &mut [f32]| {
                model.score_newcomer(interests.into(), into);
            };
            let mut rng = Rng::new(seed).stream("replay", 0);
            let pairs = replayed(count, train.catalog_size(), score, &mut rng);
            let table: Arc<PageTable> = train.pages().map(|pages| Arc::clone(pages.table())).unwrap_or_default();
            let pages = RecentPages::from_lists(Arc::clone(&table), &pages_about(&pairs, &table, &mut rng));
            Histories::from_lists(&pairs, train.catalog_size())
                .and_then(|made_up| made_up.with_pages(Arc::new(pages?)))
                .and_then(|made_up| joined(&made_up, count, &train))
        }
    };
    Ok(joined.map_err(PeopleError::from)?)
}

/// Pages that made-up people read: for each of their interests some pages about it, drawn at random. Whoever publishes
/// the pages knows their titles; nobody's reading is needed.
fn pages_about(people: &[[u32; 2]], table: &PageTable, rng: &mut Rng) -> Vec<Vec<u32>> {
    let mut about: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for page in 0..table.len() as u32 {
        table.categories(page).iter().for_each(|&category| about.entry(category).or_default().push(page));
    }
    let draw = |interests: &[u32; 2]| {
        let mut pages: Vec<u32> = Vec::new();
        for pool in interests.iter().filter_map(|interest| about.get(interest)) {
            for _ in 0..PAGES {
                let page = pool[rng.index(pool.len())];
                if !pages.contains(&page) {
                    pages.push(page);
                }
            }
        }
        rng.shuffle(&mut pages);
        pages
    };
    people.iter().map(draw).collect()
}

type Fitted = (Box<dyn Recommender>, Summary, Vec<CurvePoint>);

fn fit(
    plan: &LookalikePlan<'_>,
    train: &Histories,
    start: Option<&[Tensor]>,
    on_epoch: &mut dyn FnMut(usize, usize) -> Flow,
    context: Context<'_>,
) -> Result<Fitted, LookalikeError> {
    let Context { store, users, catalog, recorder, .. } = context;
    let recorded = recorder.and_then(|recorder| registry::recorded(plan.model.name, plan.settings, recorder));
    let mut recommender = recorded.unwrap_or_else(|| plan.model.build(plan.settings));
    let (curve, best, cost) = (Vec::new(), None, CurvePoint::default());
    let mut monitor = Monitor { evaluations: None, curve, best, on_epoch, store, users, cost };
    let catalog = catalog.or(Some(&plan.people.catalog));
    let summary =
        recommender.fit(train, &mut Fit::new(plan.seed, &mut monitor).knowing(catalog).going_on_from(start))?;
    let curve = monitor.curve;
    if !recommender.score_newcomer(Default::default(), &mut vec![0.0; train.catalog_size()]) {
        let can = "mostpop, item-knn, ease, multivae, lookalike, lookalike-central".to_owned();
        return Err(LookalikeError::NoNewcomers(plan.model.name, can));
    }
    Ok((recommender, summary, curve))
}

impl TrainedLookalike {
    /// How well hidden interests are found.
    pub fn metrics(&self, people: &People) -> LookalikeMetrics {
        let HiddenPart { shown, hidden } = &self.question;
        let (mut all, mut by_tier) = (HiddenInterests::default(), BTreeMap::<u32, HiddenInterests>::new());
        let mut scores = vec![0.0; shown.catalog_size()];
        for person in 0..shown.users() {
            let (seen, secret) = (shown.history(person), hidden.of(person)[0]);
            self.recommender.score_newcomer(seen, &mut scores);
            let distance = |one, other| people.distance(one, other);
            all.add(&scores, &seen, secret, distance);
            by_tier.entry(people.tier(secret)).or_default().add(&scores, &seen, secret, distance);
        }
        let calibrated = self.recommender.is_calibrated();
        let by_tier = by_tier.into_iter().map(|(tier, people)| (tier, people.finish(calibrated))).collect();
        let recalls = (1..20).map(|step| f64::from(step) / 20.0).filter(|_| calibrated);
        let precision_at_recall = recalls.filter_map(|recall| Some((recall, all.precision_at_recall(recall)?)));
        LookalikeMetrics { precision_at_recall: precision_at_recall.collect(), all: all.finish(calibrated), by_tier }
    }

    /// The metrics of recommenders, with the hidden interest as the one item of the test part.
    ///
    /// # Errors
    /// If the parts do not fit together.
    pub fn evaluate(&self, protocol: &Protocol) -> Result<Evaluation, EvaluateError> {
        let HiddenPart { shown, hidden } = &self.question;
        let question = EvaluationInput::new(shown, hidden);
        sottovoce_evaluate::evaluate(&question, protocol, |user: usize, into: &mut [f32]| {
            self.recommender.score_newcomer(shown.history(user), into);
        })
    }

    /// The same in words, for a report.
    pub fn suggestions(&self, people: &People) -> Vec<Suggestions> {
        let name = |row: u32| people.catalog.title(row as usize).unwrap_or_default().to_owned();
        let examples = self.examples(EXAMPLES, SUGGESTED).into_iter().map(|(interest, best)| Suggestions {
            interest: name(interest),
            suggested: best.into_iter().map(|(row, score)| (name(row), score)).collect(),
        });
        examples.collect()
    }

    /// What somebody with a single interest would be suggested, for the most common interests: rows and scores.
    pub fn examples(&self, most: usize, suggestions: usize) -> Vec<(u32, Vec<(u32, f32)>)> {
        let popularity = self.train.popularity();
        let mut common: Vec<u32> = (0..popularity.len() as u32).collect();
        common.sort_by_key(|&row| (std::cmp::Reverse(popularity[row as usize]), row));
        let mut scores = vec![0.0; popularity.len()];
        common
            .into_iter()
            .take(most)
            .map(|interest| {
                self.recommender.score_newcomer((&[interest]).into(), &mut scores);
                let mut best: Vec<(u32, f32)> = (0..).zip(scores.iter().copied()).collect();
                best.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
                best.truncate(suggestions);
                (interest, best)
            })
            .collect()
    }
}
