//! Measuring rounds: the noisy sum of devices' answers to one question.
//!
//! Such a round is opened, sealed, stored, resumed and closed like a round of training. What differs is the model that
//! its terms name, a coordinator of its own, and what becomes of the sum.

use super::view::Outcome;
use super::{Audiences, DAY, StoredQuestion};
use crate::error::ServerError;
use crate::federation::config::FederationConfig;
use crate::federation::round::Round;
use crate::federation::{Federation, ResumeError, decline_departed};
use crate::storage::{Change, MeasurementRecord, Millis, OpenRound, RoundOpening, RoundRecord, Status};
use sottovoce_federation::{Coordinator, FederationBuilder};
use sottovoce_protocol::{FederationId, ModelSpec, ModelVersion, RoundId, RoundTerms};
use tracing::{info, warn};

/// A measurement under way.
pub(crate) struct Measuring {
    /// Its number.
    id: u64,
    pub(crate) coordinator: Coordinator,
    thresholds: Vec<f32>,
}

/// What a measuring round is built from.
struct Plan<'a> {
    config: &'a FederationConfig,
    federation: u64,
    /// The model whose scores decide.
    scored_by: &'a ModelSpec,
    /// The name of the audience, or empty.
    name: &'a str,
    deadline: Option<f64>,
}

impl Plan<'_> {
    /// The coordinator and the terms of a round for so many devices.
    fn build(
        &self,
        record: &MeasurementRecord,
        (round, version, devices): (u64, u64, usize),
    ) -> Result<(Measuring, RoundTerms), String> {
        let audiences = self.config.audiences.as_ref().ok_or("this federation serves no audiences")?;
        let question = StoredQuestion::read(&record.question).ok_or("its stored question cannot be read")?;
        let builder = FederationBuilder {
            federation: FederationId(self.federation),
            items: question.thresholds.len(),
            facts: None,
            devices,
            seed: self.config.seed,
            samples: false,
            criteria: Vec::new(),
            rounds: Some(1),
            // Devices add all of the noise.
            secret: None,
            key_digest: None,
            keeper: None,
        };
        let mut asked = question.settings(self.scored_by);
        asked.least_published = audiences.k as usize;
        asked.audience = self.name.to_owned();
        let mut settings = audiences.round_settings(self.deadline).map_err(|error| error.to_string())?;
        let identities = self.config.settings.get("seal_identities").cloned();
        settings.extend(identities.map(|value| ("seal_identities", value)));
        let hosted = builder.build_measurement(&asked, settings).map_err(|error| error.to_string())?;
        let mut coordinator = hosted.coordinator;
        coordinator.set_round(RoundId(round));
        // The version of the model that scores, which devices may have to download.
        let terms = coordinator.terms(devices).map_err(|error| error.to_string())?;
        let terms = terms.for_round(RoundId(round), ModelVersion(version), devices as u32);
        Ok((Measuring { id: record.id, coordinator, thresholds: question.thresholds }, terms))
    }
}

/// Restores an open measuring round; `None` if the open round is one of training.
pub(crate) fn resume(
    audiences: &Audiences,
    stored: &OpenRound,
    config: &FederationConfig,
    coordinator: &mut Coordinator,
) -> Result<Option<(Measuring, Round)>, String> {
    let number = stored.opening.round;
    let is_open = |each: &&MeasurementRecord| each.round == Some(number) && each.result.is_none();
    let Some(record) = audiences.measurements.values().find(is_open) else { return Ok(None) };
    let name = record.audience.and_then(|id| audiences.audiences.get(&id)).map_or("", |audience| &audience.name);
    let terms = coordinator.terms(1).map_err(|error| error.to_string())?;
    let (scored_by, deadline) = (terms.model.clone(), coordinator.rules().deadline);
    let plan = Plan { config, federation: stored.opening.federation, scored_by: &scored_by, name, deadline };
    let opening = stored.opening.clone();
    let (measuring, terms) = plan.build(record, (number, opening.version, opening.cohort.len()))?;
    let mut round = Round::new(opening, terms, 1.0, None);
    round.measurement = Some(record.id);
    round.restore(stored.clone());
    Ok(Some((measuring, round)))
}

impl Federation {
    /// The model that is trained, as devices know it.
    pub(super) fn scoring_model(&self) -> ModelSpec {
        self.coordinator().terms(1).map(|terms| terms.model.clone()).unwrap_or_default()
    }

    /// The measurement that is next, if one can be made: enough devices that take part must be there to hide in.
    pub(in crate::federation) fn next_measurement(&self, now: Millis) -> Option<u64> {
        let config = self.config.audiences.as_ref()?;
        let next = {
            let state = self.state();
            let may = matches!(state.status, Status::Running | Status::Finished) && state.round.is_none();
            let is_waiting = |each: &&MeasurementRecord| may && each.round.is_none() && each.result.is_none();
            state.audiences.measurements.values().find(is_waiting)?.id
        };
        (self.measurable(now).len() >= config.k as usize).then_some(next)
    }

    /// Devices that can be asked.
    fn measurable(&self, now: Millis) -> Vec<u32> {
        let state = self.state();
        // Without another rule, those heard of within a day.
        let within = self.config.present_within.map_or(DAY, |seconds| u64::from(seconds) * 1000);
        let since = now.saturating_sub(within);
        let seen = |device: &u32| state.members.get(*device).is_some_and(|member| member.seen >= since);
        state.members.in_audiences().filter(seen).collect()
    }

    /// Opens the round of a measurement.
    pub(in crate::federation) async fn open_measurement(&self, id: u64) -> Result<bool, ServerError> {
        let opened = crate::now();
        let cohort = self.measurable(opened);
        let (record, audience, round) = {
            let state = self.state();
            let all = &state.audiences;
            let Some(record) = all.measurements.get(&id).cloned() else { return Ok(false) };
            let audience = record.audience.and_then(|id| all.audiences.get(&id)).cloned();
            (record, audience, state.next_round)
        };
        if audience.as_ref().is_some_and(|audience| !Audiences::is_open(audience, opened)) {
            self.finish_measurement(id, &Outcome::Failed("the audience was closed before".to_owned())).await?;
            return Ok(true);
        }
        let name = audience.map_or_else(String::new, |audience| audience.name);
        let (scored_by, deadline) = (self.scoring_model(), self.coordinator().rules().deadline);
        let version = self.current().version.0;
        let plan = Plan { config: &self.config, federation: self.id, scored_by: &scored_by, name: &name, deadline };
        let (measuring, terms) = match plan.build(&record, (round, version, cohort.len())) {
            Ok(built) => built,
            Err(why) => {
                warn!(federation = %self.name, measurement = id, %why, "a measurement cannot be made");
                self.finish_measurement(id, &Outcome::Failed(why)).await?;
                return Ok(true);
            }
        };
        let wanted = cohort.len() as u32;
        let opening = RoundOpening {
            federation: self.id,
            round,
            version,
            wanted,
            minimum: wanted.div_ceil(2),
            cohort,
            opened,
            deadline: deadline.map(|seconds| opened + (seconds * 1000.0) as u64),
        };
        let start = Change::StartMeasurement { federation: self.id, id, round };
        self.services.queue.commit(vec![Change::OpenRound(opening.clone()), start]).await?;
        let mut round = Round::new(opening, terms, 1.0, None);
        round.measurement = Some(id);
        *crate::lock(&self.measuring) = Some(measuring);
        round.seal = self.new_seal(&round, &self.current().digest);
        let mut state = self.state();
        decline_departed(&mut round, &state.members);
        if let Some(record) = state.audiences.measurements.get_mut(&id) {
            record.round = Some(round.opening.round);
        }
        info!(federation = %self.name, round = round.opening.round, asked = wanted, measurement = id, "measuring round opened");
        state.round = Some(round);
        Ok(true)
    }

    /// Ends a measurement without a round.
    async fn finish_measurement(&self, id: u64, outcome: &Outcome) -> Result<(), ServerError> {
        let result = outcome.text();
        self.commit(Change::FinishMeasurement { federation: self.id, id, result: result.clone() }).await?;
        if let Some(record) = self.state().audiences.measurements.get_mut(&id) {
            record.result = Some(result);
        }
        Ok(())
    }

    /// Whether the open round is a measurement.
    pub(in crate::federation) fn is_measuring(&self) -> bool {
        self.state().round.as_ref().is_some_and(|round| round.measurement.is_some())
    }

    /// Works with the coordinator of a round: of training, or of the measurement under way.
    pub(in crate::federation) fn with_coordinator<T>(
        &self,
        measures: bool,
        work: impl FnOnce(&mut Coordinator) -> T,
    ) -> T {
        if measures && let Some(measuring) = &mut *crate::lock(&self.measuring) {
            return work(&mut measuring.coordinator);
        }
        work(&mut self.coordinator())
    }

    /// Closes a measuring round: opens the sum and keeps what may be published.
    pub(in crate::federation) async fn close_measurement(
        self: &std::sync::Arc<Self>,
        mut record: RoundRecord,
    ) -> Result<(), ServerError> {
        let federation = std::sync::Arc::clone(self);
        let aggregated = tokio::task::spawn_blocking(move || federation.aggregate()).await??;
        let outcome = aggregated.and_then(|aggregation| {
            let mut sum = aggregation.sum;
            record.counted = sum.updates as u32;
            let mut measuring = crate::lock(&self.measuring);
            let measuring = measuring.as_mut().ok_or_else(|| "its question is lost".to_owned())?;
            let round = measuring.coordinator.round();
            measuring.coordinator.apply(round, &mut sum).map_err(|error| error.to_string())?;
            let cells = measuring.coordinator.shared().parameters.tables()[0].values();
            let k = self.config.audiences.as_ref().map_or(u32::MAX, |config| config.k);
            Ok(Outcome::of_cells(&measuring.thresholds, cells, k))
        });
        let outcome = outcome.unwrap_or_else(Outcome::Failed);
        record.remark = match &outcome {
            Outcome::Sizes(_) => "a measurement of audiences".to_owned(),
            Outcome::Failed(why) => format!("a measurement of audiences failed: {why}"),
        };
        record.closed = crate::now();
        let mut changes = vec![Change::CloseRound(Box::new(record.clone()), None)];
        changes.extend(self.measurement_changes(&outcome, record.closed));
        self.services.queue.commit(changes.clone()).await?;
        self.measurement_closed(&changes);
        self.closed(None, record.round);
        self.report(&record);
        Ok(())
    }

    /// What ends the measurement of the open round. An audience below k is not served.
    fn measurement_changes(&self, outcome: &Outcome, closed: Millis) -> Vec<Change> {
        let Some(id) = crate::lock(&self.measuring).as_ref().map(|measuring| measuring.id) else { return Vec::new() };
        let federation = self.id;
        let result = outcome.text();
        let state = self.state();
        let audience = state.audiences.measurements.get(&id).and_then(|record| record.audience);
        let audience = audience.and_then(|id| state.audiences.audiences.get(&id));
        let is_below = matches!(outcome, Outcome::Sizes(_)) && super::view::published_size(&result).is_none();
        let closes = audience.filter(|audience| is_below && audience.closed.is_none());
        let close = closes.map(|audience| Change::CloseAudience { federation, id: audience.id, closed });
        std::iter::once(Change::FinishMeasurement { federation, id, result }).chain(close).collect()
    }

    /// What ends a measurement whose round is abandoned, for a reason outside of it.
    pub(in crate::federation) fn abandon_measurement(&self, why: &str) -> Vec<Change> {
        if !self.is_measuring() {
            return Vec::new();
        }
        self.measurement_changes(&Outcome::Failed(why.to_owned()), crate::now())
    }

    /// Follows changes that are stored.
    pub(in crate::federation) fn measurement_closed(&self, changes: &[Change]) {
        let mut state = self.state();
        for change in changes {
            match change {
                Change::FinishMeasurement { id, result, .. } => {
                    if let Some(record) = state.audiences.measurements.get_mut(id) {
                        record.result = Some(result.clone());
                    }
                }
                Change::CloseAudience { id, closed, .. } => {
                    if let Some(record) = state.audiences.audiences.get_mut(id) {
                        record.closed = Some(*closed);
                    }
                }
                _ => (),
            }
        }
        drop(state);
        *crate::lock(&self.measuring) = None;
    }
}

impl Audiences {
    /// Why stored audiences cannot be resumed, if they cannot.
    pub(crate) fn check(&self, name: &str, config: &FederationConfig) -> Result<(), ResumeError> {
        if config.audiences.is_some() || self.audiences.is_empty() && self.measurements.is_empty() {
            return Ok(());
        }
        Err(ResumeError { name: name.to_owned(), reason: "it has audiences, but its configuration has not".to_owned() })
    }
}
