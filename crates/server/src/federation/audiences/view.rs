//! What devices, advertisers and operators see of audiences.

use super::{AudienceError, Audiences, Result, definition, reports};
use crate::federation::Federation;
use crate::storage::{AudienceRecord, MeasurementRecord, Millis};
use serde::{Deserialize, Serialize};
use sottovoce_privacy::tokens::to_hex;
use sottovoce_protocol::Settings;

/// The size of an audience at a threshold: a noisy count, or that it is below k and nothing else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Size {
    /// The score from which on people count.
    pub threshold: f64,
    /// How many there are, with noise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Instead: fewer than this many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub below: Option<u32>,
}

/// What is stored of a measurement that is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Outcome {
    Sizes(Vec<Size>),
    Failed(String),
}

impl Outcome {
    /// The noisy counts of cells as sizes at their thresholds, without anything about sizes below k.
    pub(super) fn of_cells(thresholds: &[f32], cells: &[f32], k: u32) -> Self {
        let mut total = 0.0;
        let mut sizes = Vec::with_capacity(cells.len());
        for (&threshold, &cell) in thresholds.iter().zip(cells).rev() {
            total += f64::from(cell);
            let size = Some(total.round()).filter(|&size| size >= f64::from(k)).map(|size| size as u64);
            // As it is written, not as binary fractions have it: 0.6, not 0.6000000238.
            let threshold = threshold.to_string().parse().unwrap_or_default();
            sizes.push(Size { threshold, size, below: size.is_none().then_some(k) });
        }
        sizes.reverse();
        Self::Sizes(sizes)
    }

    pub(super) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    fn read(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_else(|_| Self::Failed("the stored result cannot be read".to_owned()))
    }
}

/// Whether a measurement opened no sum.
pub(super) fn has_failed(result: &str) -> bool {
    matches!(Outcome::read(result), Outcome::Failed(_))
}

/// The size of an audience, if it may be published.
pub(super) fn published_size(result: &str) -> Option<u64> {
    match Outcome::read(result) {
        Outcome::Sizes(sizes) => sizes.first().and_then(|size| size.size),
        Outcome::Failed(_) => None,
    }
}

/// A measurement, as its advertiser and operators see it.
#[derive(Clone, Debug, Serialize)]
pub struct MeasurementView {
    /// Its number.
    pub measurement: u64,
    /// The audience; missing for thresholds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audience: Option<u64>,
    /// `waiting`, `measuring`, `done` or `failed`.
    pub state: &'static str,
    /// When it was asked for, in milliseconds since 1970.
    pub requested: Millis,
    /// The round of the answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round: Option<u64>,
    /// Sizes, by threshold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sizes: Option<Vec<Size>>,
    /// Why it failed. A measurement that failed spends no budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Standard deviation of the noise on each cell's count, in people.
    pub noise: f64,
}

/// An audience, as its advertiser and operators see it.
#[derive(Clone, Debug, Serialize)]
pub struct AudienceView {
    /// Its number.
    pub audience: u64,
    /// The number of the advertiser.
    pub advertiser: u64,
    /// Its name.
    pub name: String,
    /// What it takes to be in it.
    #[serde(flatten)]
    pub definition: super::Definition,
    /// `measuring`, `open`, `closed`, `expired`, or `below k`: then it is not served.
    pub state: &'static str,
    /// When it was created, in milliseconds since 1970.
    pub created: Millis,
    /// When it ends.
    pub expires: Millis,
    /// Its last size; missing until it is measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Size>,
    /// The last measurement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measurement: Option<MeasurementView>,
}

/// An advertiser's audiences and what it may still do.
#[derive(Clone, Debug, Serialize)]
pub struct AdvertiserView {
    /// Its audiences.
    pub audiences: Vec<AudienceView>,
    /// Measurements that have spent budget.
    pub measurements: u64,
    /// Epsilon spent on them.
    pub epsilon: f64,
    /// Epsilon that it may spend.
    pub budget: f64,
    /// Epsilon of one measurement.
    pub measurement_epsilon: f64,
    /// Sizes below this are not published.
    pub k: u32,
}

/// All audiences of a federation, for operators.
#[derive(Clone, Debug, Serialize)]
pub struct AudiencesView {
    /// The audiences.
    pub audiences: Vec<AudienceView>,
    /// Questions about thresholds.
    pub thresholds: Vec<MeasurementView>,
    /// Devices that take part and have checked in since the server started.
    pub devices: usize,
    /// Measurements that have spent budget.
    pub measurements: u64,
    /// Epsilon spent on them.
    pub epsilon: f64,
    /// At this delta.
    pub delta: f64,
    /// Epsilon that the federation may spend.
    pub budget: f64,
    /// Sizes below this are not published.
    pub k: u32,
}

/// The list of audiences that devices fetch, without saying who they are.
#[derive(Clone, Debug, Serialize)]
pub struct AudienceList {
    /// The federation's number.
    pub federation: u64,
    /// Sizes below this are not published.
    pub k: u32,
    /// The current rotation of segment ids: seconds since 1970 divided by their length.
    pub rotation: u64,
    /// Its length.
    pub rotation_seconds: u32,
    /// Epsilon of an answer whether a device is in an audience.
    pub report_epsilon: f64,
    /// The model whose scores decide, and its settings.
    pub model: String,
    /// Its settings.
    pub settings: Settings,
    /// The audiences that are served.
    pub audiences: Vec<ListedAudience>,
}

/// An audience in that list.
#[derive(Clone, Debug, Serialize)]
pub struct ListedAudience {
    /// Its number.
    pub audience: u64,
    /// Its name.
    pub name: String,
    /// What it takes to be in it.
    #[serde(flatten)]
    pub definition: super::Definition,
    /// When it ends, in seconds since 1970.
    pub expires: u64,
    /// The public key of this rotation's tokens, in hexadecimal.
    pub key: String,
}

impl Federation {
    pub(super) fn measurement_view(&self, record: &MeasurementRecord) -> MeasurementView {
        let outcome = record.result.as_deref().map(Outcome::read);
        let state = match (&outcome, record.round) {
            (Some(Outcome::Sizes(_)), _) => "done",
            (Some(Outcome::Failed(_)), _) => "failed",
            (None, Some(_)) => "measuring",
            (None, None) => "waiting",
        };
        let (sizes, failure) = match outcome {
            Some(Outcome::Sizes(sizes)) => (Some(sizes), None),
            Some(Outcome::Failed(why)) => (None, Some(why)),
            None => (None, None),
        };
        let &MeasurementRecord { id: measurement, audience, requested, round, .. } = record;
        let computed = || self.audience_config().ok().and_then(|config| config.noise().ok()).unwrap_or(0.0);
        let noise = *self.audience_noise.get_or_init(computed);
        MeasurementView { measurement, audience, state, requested, round, sizes, failure, noise }
    }

    fn audience_view(&self, all: &Audiences, record: &AudienceRecord, now: Millis) -> AudienceView {
        let last = all.measurements.values().rev().find(|each| each.audience == Some(record.id));
        let size = all.last_size(record.id).map(Outcome::read).and_then(|outcome| match outcome {
            Outcome::Sizes(sizes) => sizes.into_iter().next(),
            Outcome::Failed(_) => None,
        });
        let is_below = size.as_ref().is_some_and(|size| size.below.is_some());
        let state = match record.closed {
            Some(_) if is_below => "below k",
            Some(_) => "closed",
            None if now >= record.expires => "expired",
            None if size.is_none() => "measuring",
            None => "open",
        };
        let AudienceRecord { id, advertiser, name, created, expires, .. } = record.clone();
        let measurement = last.map(|last| self.measurement_view(last));
        let definition = definition(record);
        AudienceView { audience: id, advertiser, name, definition, state, created, expires, size, measurement }
    }

    /// An audience of an advertiser, or any for an operator.
    ///
    /// # Errors
    /// If there is no such audience.
    pub fn audience(&self, by: Option<u64>, id: u64, now: Millis) -> Result<AudienceView> {
        let record = self.record_of(by, id)?;
        Ok(self.audience_view(&self.state().audiences, &record, now))
    }

    /// A measurement of an advertiser.
    ///
    /// # Errors
    /// If there is no such measurement.
    pub fn measurement(&self, by: u64, id: u64) -> Result<MeasurementView> {
        let state = self.state();
        let found = state.audiences.measurements.get(&id).filter(|each| each.advertiser == by);
        found.map(|record| self.measurement_view(record)).ok_or(AudienceError::Unknown("measurement"))
    }

    /// The audiences of an advertiser.
    ///
    /// # Errors
    /// If the federation serves none.
    pub fn advertiser(&self, by: u64, now: Millis) -> Result<AdvertiserView> {
        let config = self.audience_config()?;
        let state = self.state();
        let all = &state.audiences;
        let mine = all.audiences.values().filter(|each| each.advertiser == by);
        let measurements = all.spending(Some(by));
        Ok(AdvertiserView {
            audiences: mine.map(|each| self.audience_view(all, each, now)).collect(),
            measurements,
            epsilon: config.spent(measurements),
            budget: config.advertiser_budget,
            measurement_epsilon: config.epsilon,
            k: config.k,
        })
    }

    /// All audiences, for operators; `None` if the federation serves none.
    pub fn audiences(&self, now: Millis) -> Option<AudiencesView> {
        let config = self.config.audiences.as_ref()?;
        let state = self.state();
        let all = &state.audiences;
        let measurements = all.spending(None);
        let thresholds = all.measurements.values().filter(|each| each.audience.is_none());
        Some(AudiencesView {
            audiences: all.audiences.values().map(|each| self.audience_view(all, each, now)).collect(),
            thresholds: thresholds.map(|each| self.measurement_view(each)).collect(),
            devices: state.members.in_audiences().count(),
            measurements,
            epsilon: config.spent(measurements),
            delta: config.delta,
            budget: config.budget,
            k: config.k,
        })
    }

    /// The list that devices fetch.
    ///
    /// # Errors
    /// If the federation serves no audiences.
    pub fn audience_list(&self, now: Millis) -> Result<AudienceList> {
        let config = self.audience_config()?;
        let rotation = config.rotation(now);
        let listed = |record: &AudienceRecord| ListedAudience {
            audience: record.id,
            name: record.name.clone(),
            definition: definition(record),
            expires: record.expires / 1000,
            key: to_hex(&reports::issuer(&self.secret, self.id, record.id, rotation).key().to_bytes()),
        };
        let model = self.scoring_model();
        let state = self.state();
        Ok(AudienceList {
            federation: self.id,
            k: config.k,
            rotation,
            rotation_seconds: config.rotation_seconds,
            report_epsilon: config.report_epsilon,
            model: model.name,
            settings: model.settings,
            audiences: state.audiences.served(now).map(listed).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_add_up_from_above_and_small_ones_leave_no_trace() {
        let outcome = Outcome::of_cells(&[0.25, 0.5, 0.75], &[1000.4, 600.0, 999.4], 1000);
        let text = outcome.text();
        assert_eq!(
            text,
            r#"{"sizes":[{"threshold":0.25,"size":2600},{"threshold":0.5,"size":1599},{"threshold":0.75,"below":1000}]}"#
        );
        assert_eq!(Outcome::read(&text), outcome);
        assert_eq!(published_size(&text), Some(2600));
        let negative = Outcome::of_cells(&[0.5], &[-40.0], 1000).text();
        assert_eq!(negative, r#"{"sizes":[{"threshold":0.5,"below":1000}]}"#);
        assert!(published_size(&negative).is_none() && !has_failed(&negative));
        assert!(has_failed(&Outcome::Failed("too few".to_owned()).text()) && has_failed("nonsense"));
    }
}
