//! Audiences: advertisers describe them, devices decide alone whether they belong, and the server learns how many do.
//!
//! A size is never counted from reports. It comes from a measuring round, an ordinary sealed round of the model
//! `audience-size` (`measuring`), whose noisy sum is published from k people on and otherwise not even stored. For
//! delivery, devices report segment ids of their own with one-time tokens (`reports`).

mod config;
mod measuring;
mod reports;
mod view;

pub use config::AudienceConfig;
pub(super) use measuring::{Measuring, resume};
pub(crate) use reports::{MAX_REPORT, MAX_REQUEST};
pub use view::{AdvertiserView, AudienceList, AudienceView, AudiencesView, ListedAudience, MeasurementView, Size};

use super::Federation;
use crate::commit_queue::CommitError;
use crate::storage::{AudienceRecord, Change, Hash, MeasurementRecord, Millis, Stored};
use serde::{Deserialize, Serialize};
use sottovoce_models::federated::audience_size::{MOST_CATEGORIES, Match, Question};
use sottovoce_models::settings::Choice as _;
use std::collections::{BTreeMap, HashMap};

/// A day, in milliseconds.
const DAY: Millis = 86_400_000;
/// Where the cells of a question about thresholds begin.
const THRESHOLDS: [f32; 9] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];
/// Bytes of an audience's name.
const MAX_NAME: usize = 64;

/// Why a request about audiences is refused.
#[derive(Debug, thiserror::Error)]
pub enum AudienceError {
    /// The federation serves none.
    #[error("this federation serves no audiences")]
    Disabled,
    /// There is no such audience or measurement, or it is another advertiser's.
    #[error("there is no {0} of this number")]
    Unknown(&'static str),
    /// The request is wrong. Fields: the field; what it is; what it should be.
    #[error("{0} is {1}, expected {2}")]
    Invalid(&'static str, String, String),
    /// There is an open audience of this name.
    #[error("there is an open audience named {0:?} already")]
    NameTaken(String),
    /// It is not open any more.
    #[error("audience {0} is closed")]
    Closed(String),
    /// The advertiser's quota.
    #[error("{0}")]
    Quota(String),
    /// The privacy budget.
    #[error("{0}")]
    Budget(String),
    /// Too few segment ids.
    #[error("{0}")]
    Few(String),
    /// A token for another audience or rotation, or a forged one.
    #[error("{0}")]
    Token(String),
    /// Something else was sent with the same token, or another request for tokens.
    #[error("{0}")]
    Repeated(&'static str),
    /// It could not be stored.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

type Result<T, E = AudienceError> = std::result::Result<T, E>;

/// An advertiser, as its token says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advertiser {
    /// The number of the token.
    pub id: u64,
    /// New audiences and questions about thresholds within a day.
    pub per_day: Option<u64>,
}

/// What it takes to be in an audience.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// Ids of categories in the catalog.
    pub categories: Vec<String>,
    /// `any` of them or `all`.
    #[serde(rename = "match", default = "any")]
    pub matching: String,
    /// The score, after calibration, from which on a device is in it.
    pub threshold: f64,
}

/// A new audience, as advertisers describe it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewAudience {
    /// Its name, which owners of devices read.
    pub name: String,
    /// Ids of categories in the catalog.
    pub categories: Vec<String>,
    /// `any` of them or `all`.
    #[serde(rename = "match", default = "any")]
    pub matching: String,
    /// The score, after calibration, from which on a device is in it.
    pub threshold: f64,
    /// After how many days it ends.
    pub days: u32,
}

/// A question about sizes at several thresholds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewQuestion {
    /// Ids of categories in the catalog.
    pub categories: Vec<String>,
    /// `any` of them or `all`.
    #[serde(rename = "match", default = "any")]
    pub matching: String,
}

fn any() -> String {
    Match::Any.name().to_owned()
}

/// A question as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct StoredQuestion {
    categories: Vec<u32>,
    #[serde(rename = "match")]
    matching: String,
    thresholds: Vec<f32>,
}

impl From<&Question> for StoredQuestion {
    fn from(question: &Question) -> Self {
        let Question { categories, matching, thresholds } = question.clone();
        Self { categories, matching: matching.name().to_owned(), thresholds }
    }
}

impl StoredQuestion {
    fn read(text: &str) -> Option<Question> {
        let Self { categories, matching, thresholds } = serde_json::from_str(text).ok()?;
        Some(Question { categories, matching: Match::named(&matching)?, thresholds })
    }
}

/// Tokens that a device was issued: a hash of its request, and whether that is stored.
type Issued = BTreeMap<u32, (Hash, bool)>;
/// Segment ids by the nullifiers of their tokens, and whether each is stored.
type Segments = BTreeMap<Hash, ([u8; 16], bool)>;

/// The audiences of a federation, in memory.
#[derive(Debug, Default)]
pub(crate) struct Audiences {
    audiences: BTreeMap<u64, AudienceRecord>,
    measurements: BTreeMap<u64, MeasurementRecord>,
    /// By rotation.
    issued: BTreeMap<u64, Issued>,
    /// By audience and rotation.
    segments: BTreeMap<(u64, u64), Segments>,
}

impl Audiences {
    /// Takes what belongs to a federation out of what is stored.
    pub(crate) fn split_off(stored: &mut Stored, federation: u64) -> Self {
        let mut all = Self::default();
        let audiences = stored.audiences.extract_if(.., |record| record.federation == federation);
        all.audiences.extend(audiences.map(|record| (record.id, record)));
        let measurements = stored.measurements.extract_if(.., |record| record.federation == federation);
        all.measurements.extend(measurements.map(|record| (record.id, record)));
        for issued in stored.audience_tokens.extract_if(.., |issued| issued.federation == federation) {
            all.issued.entry(issued.rotation).or_default().insert(issued.device, (issued.digest, true));
        }
        for record in stored.segments.extract_if(.., |record| record.federation == federation) {
            let segments = all.segments.entry((record.audience, record.rotation)).or_default();
            segments.insert(record.nullifier, (record.segment, true));
        }
        all
    }

    /// A device has withdrawn.
    pub(super) fn forget(&mut self, device: u32) {
        for issued in self.issued.values_mut() {
            issued.remove(&device);
        }
    }

    /// Rounds that were measurements.
    pub(super) fn measuring_rounds(&self) -> u64 {
        self.measurements.values().filter(|measurement| measurement.round.is_some()).count() as u64
    }

    /// Measurements that have spent privacy budget or are about to: those that failed opened no sum.
    fn spending(&self, advertiser: Option<u64>) -> u64 {
        let of = |measurement: &&MeasurementRecord| advertiser.is_none_or(|id| measurement.advertiser == id);
        let spends = |measurement: &&MeasurementRecord| {
            measurement.result.as_deref().is_none_or(|result| !view::has_failed(result))
        };
        self.measurements.values().filter(of).filter(spends).count() as u64
    }

    fn is_open(audience: &AudienceRecord, now: Millis) -> bool {
        audience.closed.is_none() && now < audience.expires
    }

    /// The last measurement of an audience that is over.
    fn last_size(&self, audience: u64) -> Option<&str> {
        let mut of = self.measurements.values().rev().filter(|each| each.audience == Some(audience));
        of.find_map(|each| each.result.as_deref().filter(|result| !view::has_failed(result)))
    }

    /// Open audiences of which a size was published: those that devices are told of.
    fn served(&self, now: Millis) -> impl Iterator<Item = &AudienceRecord> {
        let is_published = |audience: &&AudienceRecord| {
            self.last_size(audience.id).is_some_and(|result| view::published_size(result).is_some())
        };
        self.audiences.values().filter(move |audience| Self::is_open(audience, now)).filter(is_published)
    }
}

impl Federation {
    /// The rules for audiences.
    pub(crate) fn audience_config(&self) -> Result<&AudienceConfig> {
        self.config.audiences.as_ref().ok_or(AudienceError::Disabled)
    }

    /// The rows of categories.
    fn categories(&self) -> &HashMap<String, u32> {
        self.category_rows.get_or_init(|| {
            let text = std::str::from_utf8(&self.catalog.plain).unwrap_or_default();
            let ids = text.lines().skip(1).take(self.items).map(|line| line.split('\t').next().unwrap_or_default());
            ids.zip(0..).map(|(id, row)| (id.to_owned(), row)).collect()
        })
    }

    fn question(&self, categories: &[String], matching: &str, thresholds: &[f32]) -> Result<Question> {
        let wrong = |field, found: String, expected: &str| AudienceError::Invalid(field, found, expected.to_owned());
        let row = |id: &String| {
            self.categories()
                .get(id)
                .copied()
                .ok_or_else(|| wrong("categories", format!("{id:?}"), "ids of the catalog"))
        };
        let mut rows = categories.iter().map(row).collect::<Result<Vec<u32>>>()?;
        rows.sort_unstable();
        rows.dedup();
        if rows.is_empty() || rows.len() > MOST_CATEGORIES || rows.len() < categories.len() {
            let found = format!("a list of {}", categories.len());
            return Err(wrong("categories", found, &format!("1 to {MOST_CATEGORIES} categories, each once")));
        }
        let matching = Match::named(matching).ok_or_else(|| wrong("match", format!("{matching:?}"), "any or all"))?;
        Ok(Question { categories: rows, matching, thresholds: thresholds.to_vec() })
    }

    /// Creates an audience and has it measured. It is served once a size from k on is published.
    ///
    /// # Errors
    /// If the description is wrong, or quota or privacy budget are spent; then nothing has changed.
    pub async fn create_audience(&self, by: Advertiser, new: NewAudience, now: Millis) -> Result<AudienceView> {
        let config = self.audience_config()?;
        let NewAudience { name, categories, matching, threshold, days } = new;
        let wrong = |field, found: String, expected: String| Err(AudienceError::Invalid(field, found, expected));
        let fits = (1..=MAX_NAME).contains(&name.len()) && !name.chars().any(char::is_control) && name.trim() == name;
        if !fits {
            let found = format!("{:?}", name.chars().take(80).collect::<String>());
            return wrong("name", found, format!("1 to {MAX_NAME} bytes without control characters"));
        }
        if !(threshold as f32 > 0.0 && threshold <= 1.0) {
            return wrong("threshold", threshold.to_string(), "a score above 0, up to 1".to_owned());
        }
        if !(1..=config.days).contains(&days) {
            return wrong("days", days.to_string(), format!("1 to {}", config.days));
        }
        let question = self.question(&categories, &matching, &[threshold as f32])?;
        let definition = serde_json::to_string(&Definition { categories, matching, threshold }).unwrap_or_default();
        let (id, enqueued) = {
            let mut state = self.state();
            let all = &mut state.audiences;
            if all.audiences.values().any(|each| each.name == name && Audiences::is_open(each, now)) {
                return Err(AudienceError::NameTaken(name));
            }
            self.check_quota(all, by, now)?;
            let mine = all.audiences.values().filter(|each| each.advertiser == by.id && Audiences::is_open(each, now));
            if mine.count() >= config.open as usize {
                let text = format!("{} audiences are open, which is the limit; close one first", config.open);
                return Err(AudienceError::Quota(text));
            }
            self.check_budget(all, by)?;
            let id = all.audiences.last_key_value().map_or(0, |(last, _)| last + 1);
            let audience = AudienceRecord {
                federation: self.id,
                id,
                advertiser: by.id,
                name,
                definition,
                created: now,
                expires: now + u64::from(days) * DAY,
                closed: None,
            };
            let measurement = self.new_measurement(all, by, Some(id), &question, now);
            let changes = vec![Change::AddAudience(audience.clone()), Change::AddMeasurement(measurement.clone())];
            let enqueued = self.services.queue.enqueue(changes)?;
            all.audiences.insert(id, audience);
            all.measurements.insert(measurement.id, measurement);
            (id, enqueued)
        };
        self.stored(enqueued.done().await, |all| {
            all.audiences.remove(&id);
            all.measurements.retain(|_, each| each.audience != Some(id));
        })?;
        self.audience(Some(by.id), id, now)
    }

    /// Has an audience measured again.
    ///
    /// # Errors
    /// If it is not open, not the advertiser's, or the privacy budget is spent.
    pub async fn measure_audience(&self, by: Advertiser, id: u64, now: Millis) -> Result<MeasurementView> {
        self.audience_config()?;
        let record = self.record_of(Some(by.id), id)?;
        if !Audiences::is_open(&record, now) {
            return Err(AudienceError::Closed(record.name));
        }
        let Definition { categories, matching, threshold } = definition(&record);
        let question = self.question(&categories, &matching, &[threshold as f32])?;
        self.ask(by, Some(id), &question, now).await
    }

    /// Asks for sizes at several thresholds.
    ///
    /// # Errors
    /// If the question is wrong, or quota or privacy budget are spent.
    pub async fn ask_thresholds(&self, by: Advertiser, new: NewQuestion, now: Millis) -> Result<MeasurementView> {
        self.audience_config()?;
        let question = self.question(&new.categories, &new.matching, &THRESHOLDS)?;
        self.ask(by, None, &question, now).await
    }

    async fn ask(&self, by: Advertiser, of: Option<u64>, question: &Question, now: Millis) -> Result<MeasurementView> {
        let (id, enqueued) = {
            let mut state = self.state();
            let all = &mut state.audiences;
            // The same question that is still waiting is not asked, and not paid for, twice.
            let text = stored_question(question);
            let same = |each: &&MeasurementRecord| {
                each.result.is_none() && (each.advertiser, each.audience, &each.question) == (by.id, of, &text)
            };
            if let Some(waiting) = all.measurements.values().find(same) {
                return Ok(self.measurement_view(waiting));
            }
            if of.is_none() {
                self.check_quota(all, by, now)?;
            }
            self.check_budget(all, by)?;
            let measurement = self.new_measurement(all, by, of, question, now);
            let enqueued = self.services.queue.enqueue(vec![Change::AddMeasurement(measurement.clone())])?;
            let id = measurement.id;
            all.measurements.insert(id, measurement);
            (id, enqueued)
        };
        self.stored(enqueued.done().await, |all| drop(all.measurements.remove(&id)))?;
        self.measurement(by.id, id)
    }

    /// Takes what could not be stored back out of memory; otherwise wakes the task that opens rounds.
    fn stored(&self, committed: Result<(), CommitError>, undo: impl FnOnce(&mut Audiences)) -> Result<()> {
        if committed.is_err() {
            undo(&mut self.state().audiences);
        }
        self.wake.notify_one();
        Ok(committed?)
    }

    fn new_measurement(
        &self,
        all: &Audiences,
        by: Advertiser,
        audience: Option<u64>,
        question: &Question,
        requested: Millis,
    ) -> MeasurementRecord {
        MeasurementRecord {
            federation: self.id,
            id: all.measurements.last_key_value().map_or(0, |(last, _)| last + 1),
            advertiser: by.id,
            audience,
            question: stored_question(question),
            requested,
            round: None,
            result: None,
        }
    }

    /// That the advertiser may ask for something new today.
    fn check_quota(&self, all: &Audiences, by: Advertiser, now: Millis) -> Result<()> {
        let Some(most) = by.per_day else { return Ok(()) };
        let since = now.saturating_sub(DAY);
        let audiences = all.audiences.values().filter(|each| each.advertiser == by.id && each.created > since);
        let questions = all
            .measurements
            .values()
            .filter(|each| each.advertiser == by.id && each.audience.is_none() && each.requested > since);
        if ((audiences.count() + questions.count()) as u64) < most {
            return Ok(());
        }
        let text = format!("{most} new audiences and questions about thresholds a day are the limit; try again later");
        Err(AudienceError::Quota(text))
    }

    /// That another measurement is within the budgets of the advertiser and of the federation.
    fn check_budget(&self, all: &Audiences, by: Advertiser) -> Result<()> {
        let config = self.audience_config()?;
        let budgets =
            [("this advertiser", Some(by.id), config.advertiser_budget), ("this federation", None, config.budget)];
        for (whose, advertiser, budget) in budgets {
            let made = all.spending(advertiser);
            if config.spent(made + 1) > budget {
                let spent = config.spent(made);
                return Err(AudienceError::Budget(format!(
                    "the privacy budget of {whose} is spent: {made} measurements came to epsilon {spent:.3} of {budget}, \
                     and another would exceed it. It does not grow back, because what was measured stays known"
                )));
            }
        }
        Ok(())
    }

    /// Closes an audience; `by` is the advertiser's number, or `None` for an operator.
    ///
    /// # Errors
    /// If there is no such audience, it is closed already, or that cannot be stored.
    pub async fn close_audience(&self, by: Option<u64>, id: u64, now: Millis) -> Result<AudienceView> {
        let record = self.record_of(by, id)?;
        if record.closed.is_some() {
            return Err(AudienceError::Closed(record.name));
        }
        self.commit(Change::CloseAudience { federation: self.id, id, closed: now }).await?;
        if let Some(record) = self.state().audiences.audiences.get_mut(&id) {
            record.closed = Some(now);
        }
        self.audience(by, id, now)
    }

    /// An audience of an advertiser, or any for an operator.
    fn record_of(&self, by: Option<u64>, id: u64) -> Result<AudienceRecord> {
        let state = self.state();
        let found = state.audiences.audiences.get(&id).filter(|each| by.is_none_or(|by| each.advertiser == by));
        found.cloned().ok_or(AudienceError::Unknown("audience"))
    }
}

fn stored_question(question: &Question) -> String {
    serde_json::to_string(&StoredQuestion::from(question)).unwrap_or_default()
}

/// What was checked when the audience was created.
fn definition(record: &AudienceRecord) -> Definition {
    let none = || Definition { categories: Vec::new(), matching: any(), threshold: 1.0 };
    serde_json::from_str(&record.definition).unwrap_or_else(|_| none())
}
