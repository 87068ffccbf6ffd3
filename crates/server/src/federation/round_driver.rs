//! Opening and closing rounds.

use super::aggregation::Aggregation;
use super::anonymous::{self, OneTimeTokens};
use super::plan::{Due, Plan};
use super::quarantine::Offences;
use super::round::Round;
use super::unlearning::{self, Rollback};
use super::waiting::TooFew;
use super::{Federation, Published, decline_departed, retention};
use crate::error::ServerError;
use crate::now;
use crate::storage::{Change, Millis, RoundOpening, RoundRecord, Status, VersionRecord};
use crate::versions::VersionState;
use sottovoce_federation::{Aggregate, Coordinator, FederationError};
use sottovoce_protocol::RoundTerms;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tracing::{error, info, warn};

/// How often a federation checks for its next step, unless it is woken.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// How long it waits after a failure.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// How often the last check-ins of devices are stored.
const SEEN_INTERVAL: Millis = 60_000;

/// The next step of a federation.
enum NextStep {
    Open,
    Measure(u64),
    CloseSealStep,
    AskKeeper,
    Close,
    Finish,
    Unlearn,
    RollBack,
    /// An operator archives or deletes the federation.
    End,
    Wait,
}

/// Who is to be asked into a round.
enum Selected {
    Cohort(RoundOpening, Box<RoundTerms>),
    /// Chance drew too few for a round.
    TooSmall(RoundOpening),
    /// Too few devices can be reached now.
    TooFew(TooFew),
}

/// The result of a round.
enum Outcome {
    /// No version, and why.
    Abandoned(String),
    Diverged(FederationError),
    Next {
        version: VersionRecord,
        counted: u32,
        criteria: String,
        model: Arc<Published>,
        remark: String,
    },
}

/// Drives a federation until the task is dropped.
pub(crate) async fn drive(federation: Arc<Federation>) {
    let mut seen_stored = now();
    // What a server that was killed had left to do.
    if let Err(error) = federation.delete_obsolete_versions().await {
        warn!(federation = %federation.name, %error, "old versions are not removed");
    }
    loop {
        let stepped = federation.step().await;
        if federation.is_deleted() {
            return;
        }
        if now() - seen_stored > SEEN_INTERVAL {
            seen_stored = now();
            federation.store_seen().await;
            if let Err(error) = federation.end_rotations(now()).await {
                warn!(federation = %federation.name, %error, "old segment ids are not deleted");
            }
        }
        match stepped {
            Ok(true) => (),
            Ok(false) => {
                let _woken = tokio::time::timeout(CHECK_INTERVAL, federation.wake.notified()).await;
            }
            Err(error) => {
                error!(federation = %federation.name, %error, "a step of a round failed; it is retried");
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
        }
    }
}

impl Federation {
    /// Takes the next step; returns whether there was one.
    async fn step(self: &Arc<Self>) -> Result<bool, ServerError> {
        match self.next_step(self.now()) {
            NextStep::End => self.end().await?,
            NextStep::Open => return self.open().await,
            NextStep::Measure(id) => return self.open_measurement(id).await,
            NextStep::CloseSealStep => self.close_seal_step().await?,
            NextStep::AskKeeper => self.ask_keeper().await?,
            NextStep::Close => self.close().await?,
            NextStep::Finish => self.finish().await?,
            NextStep::Unlearn => self.unlearn().await?,
            NextStep::RollBack => self.roll_back_as_requested().await?,
            NextStep::Wait => return Ok(false),
        }
        Ok(true)
    }

    fn next_step(&self, now: Millis) -> NextStep {
        let measurement = self.next_measurement(now);
        let mut state = self.state();
        match state.ending() {
            Rollback::Ready => return NextStep::End,
            Rollback::Waiting => return NextStep::Wait,
            Rollback::None => (),
        }
        if state.status == Status::Archived {
            return NextStep::Wait;
        }
        match state.rollback() {
            Rollback::Ready if state.requested.is_some() => return NextStep::RollBack,
            Rollback::Ready => return NextStep::Unlearn,
            Rollback::Waiting => return NextStep::Wait,
            Rollback::None => (),
        }
        let enough = state.members.admitted() >= self.config.devices as usize;
        let running = state.status == Status::Running;
        let done = state.next_round >= self.rounds_to_hold(&state);
        let due = state.plan.due(state.next_round, state.next_device, now);
        match &mut state.round {
            Some(round) => {
                let closes = round.is_over(now) && round.is_settled();
                let closes_step = round.seal_step_is_over(now);
                match (closes, closes_step) {
                    (true, _) => NextStep::Close,
                    (false, true) => NextStep::CloseSealStep,
                    (false, false) if round.asks_keeper(now) => NextStep::AskKeeper,
                    (false, false) => NextStep::Wait,
                }
            }
            None if measurement.is_some() => NextStep::Measure(measurement.unwrap_or_default()),
            None if running && done => NextStep::Finish,
            None if running && enough && due == Due::Now => NextStep::Open,
            None => NextStep::Wait,
        }
    }

    /// Opens a round if enough devices are present; returns whether it did.
    async fn open(&self) -> Result<bool, ServerError> {
        let opened = self.now();
        let (active, present) = self.candidates(opened);
        let selected = match self.select_cohort(active, present.as_ref(), opened) {
            Err(FederationError::Budget(why)) => {
                info!(federation = %self.name, %why, "the privacy budget allows no further round");
                return self.finish().await.map(|()| true);
            }
            selected => selected?,
        };
        let (opening, terms) = match selected {
            Selected::Cohort(opening, terms) => (opening, *terms),
            Selected::TooSmall(opening) => return self.skip_draw(opening).await.map(|()| true),
            Selected::TooFew(why) => {
                self.state().too_few = Some(why);
                return Ok(false);
            }
        };
        let issuer = self.anonymous.then(|| anonymous::issuer(&self.secret, self.id, opening.round));
        let terms = issuer.iter().try_fold(terms, anonymous::with_key)?;
        let terms = self.retention.iter().try_fold(terms, |terms, _| retention::with_notice(terms))?;
        let planning = self.planning.lock().await;
        let plan = self.begin_occasion(&opening);
        let changes = plan.iter().map(|(_, change)| change.clone()).chain([Change::OpenRound(opening.clone())]);
        self.services.queue.commit(changes.collect()).await?;
        let (number, asked) = (opening.round, opening.cohort.len());
        let over_selection = self.coordinator().rules().over_selection;
        let mut round = Round::new(opening, terms, over_selection, issuer.map(OneTimeTokens::new));
        round.seal = self.new_seal(&round, &self.current().digest);
        let mut state = self.state();
        decline_departed(&mut round, &state.members);
        state.too_few = None;
        state.plan = plan.map_or_else(|| state.plan.clone(), |(plan, _)| plan);
        state.round = Some(round);
        drop((state, planning));
        info!(federation = %self.name, round = number, asked, "round opened");
        Ok(true)
    }

    /// The plan, and its change, if a round is the first of an occasion of the schedule.
    fn begin_occasion(&self, opening: &RoundOpening) -> Option<(Plan, Change)> {
        let state = self.state();
        let plan = state.plan.with_round(opening.round, state.next_device, opening.opened)?;
        let text = serde_json::to_string(&plan).unwrap_or_default();
        Some((plan, Change::SetPlan { federation: self.id, plan: text }))
    }

    /// Devices that can be selected, and those of them that are present; `None` if presence is not required.
    fn candidates(&self, now: Millis) -> (Vec<u32>, Option<HashSet<u32>>) {
        let state = self.state();
        let active = state.members.active();
        let present = self.config.present_within.map(|seconds| {
            let since = now.saturating_sub(u64::from(seconds) * 1000);
            let seen = |device: &&u32| state.members.get(**device).is_some_and(|member| member.seen >= since);
            active.iter().filter(seen).copied().collect()
        });
        (active, present)
    }

    fn select_cohort(
        &self,
        active: Vec<u32>,
        present: Option<&HashSet<u32>>,
        opened: Millis,
    ) -> Result<Selected, FederationError> {
        let mut coordinator = self.coordinator();
        coordinator.ask_among(active);
        coordinator.check_budget()?;
        let wanted = coordinator.wanted();
        let is_present = |device: u32| present.is_none_or(|present| present.contains(&device));
        let cohort = coordinator.draw(&is_present).cohort.to_vec();
        let minimum = self.config.minimum_of(wanted);
        let protected = coordinator.privacy();
        // A seal needs enough devices to hide each among the others.
        let suffices = |count: usize| {
            let can_seal = protected.is_none_or(|protected| protected.config().seals(count as u32).is_ok());
            count >= minimum as usize && can_seal
        };
        let (is_enough, expected) = (suffices(cohort.len()), suffices(coordinator.expected()));
        // All that were drawn are there, and others of the same size as usual would do: chance alone drew too few.
        let by_chance = !is_enough && expected && cohort.len() == coordinator.rules().ask(wanted);
        if !is_enough && !by_chance {
            let most = coordinator.most_updates().unwrap_or(usize::MAX);
            let needed = (cohort.len() + 1..=most.min(cohort.len() + 256)).find(|&count| suffices(count));
            let needed = needed.unwrap_or(cohort.len() + 1);
            return Ok(Selected::TooFew(TooFew { found: cohort.len(), needed, of_present: present.is_some() }));
        }
        let deadline = coordinator.rules().deadline.map(|seconds| opened + (seconds * 1000.0) as u64);
        let opening = RoundOpening {
            federation: self.id,
            round: coordinator.round().0,
            version: coordinator.shared().version.0,
            wanted: wanted.min(cohort.len()) as u32,
            cohort,
            minimum,
            opened,
            deadline,
        };
        if by_chance {
            return Ok(Selected::TooSmall(opening));
        }
        let terms = coordinator.terms(opening.cohort.len())?;
        Ok(Selected::Cohort(opening, Box::new(terms)))
    }

    /// Skips a round for which chance drew too few devices, and says so: its draw would be the same for ever.
    async fn skip_draw(&self, opening: RoundOpening) -> Result<(), ServerError> {
        let (round, drawn) = (opening.round, opening.cohort.len());
        let remark = format!("the draw of {drawn} devices was too small; the next round draws anew");
        let (federation, opened) = (self.id, opening.opened);
        let record = RoundRecord {
            federation,
            round,
            opened,
            closed: opened,
            criteria: "{}".to_owned(),
            remark,
            ..RoundRecord::default()
        };
        let close = Change::CloseRound(Box::new(record.clone()), None);
        let planning = self.planning.lock().await;
        let plan = self.begin_occasion(&opening);
        let changes = plan.iter().map(|(_, change)| change.clone()).chain([Change::OpenRound(opening), close]);
        self.services.queue.commit(changes.collect()).await?;
        plan.into_iter().for_each(|(plan, _)| self.state().plan = plan);
        drop(planning);
        self.closed(None, round);
        self.report(&record);
        Ok(())
    }

    /// Closes a round: aggregates its updates, or abandons it.
    async fn close(self: &Arc<Self>) -> Result<(), ServerError> {
        let Some(mut record) = self.stop_uploads().await? else { return Ok(()) };
        if self.is_measuring() {
            return self.close_measurement(record).await;
        }
        let mut published = None;
        let (outcome, offences) = self.outcome().await?;
        self.settle(offences).await;
        self.retain_uploads(matches!(outcome, Outcome::Next { .. })).await?;
        match outcome {
            Outcome::Abandoned(why) => {
                self.record_abandoned()?;
                record.remark = why;
            }
            Outcome::Diverged(error) => return self.fail(record, &error).await,
            Outcome::Next { version, counted, criteria, model, remark } => {
                record.version = Some(version.version);
                record.remark = remark;
                (record.counted, record.criteria) = (counted, criteria);
                published = Some((version, model));
            }
        }
        record.closed = self.now();
        let version = published.as_ref().map(|(version, _)| version.clone());
        self.commit(Change::CloseRound(Box::new(record.clone()), version)).await?;
        self.closed(published, record.round);
        self.report(&record);
        self.delete_obsolete_versions().await
    }

    /// What came in a round that is abandoned is spent all the same: the server has seen it.
    fn record_abandoned(&self) -> Result<(), FederationError> {
        let state = self.state();
        let came = state.round.as_ref().filter(|round| round.stored > 0).map(|round| round.opening.cohort.clone());
        drop(state);
        came.map_or(Ok(()), |cohort| self.coordinator().record_participants(&cohort))
    }

    /// The result of a round that accepts no more updates; idempotent.
    async fn outcome(self: &Arc<Self>) -> Result<(Outcome, Offences), ServerError> {
        let enough = |round: &Round| round.seal.is_some() || round.stored >= round.opening.minimum;
        let abandoned = |why: &str| Outcome::Abandoned(why.to_owned());
        if !self.state().round.as_ref().is_some_and(enough) {
            return Ok((abandoned("too few updates came"), Offences::default()));
        }
        let federation = Arc::clone(self);
        let aggregated = tokio::task::spawn_blocking(move || federation.aggregate());
        let Aggregation { mut sum, criteria, mut offences, remark } = match aggregated.await?? {
            Ok(aggregation) => aggregation,
            Err(why) => return Ok((abandoned(&why), self.suspects())),
        };
        let suspects = self.suspects();
        offences.of.extend(suspects.of);
        offences.ended.extend(suspects.ended);
        // With noise, means are taken over the expected number of updates, not over this one.
        let counted = sum.updates as u32;
        let minimum = self.state().round.as_ref().map_or(0, |round| round.opening.minimum);
        if counted < minimum {
            return Ok((Outcome::Abandoned(format!("too few updates came within the bound; {remark}")), offences));
        }
        let outcome = match self.next_version(&mut sum).await {
            Ok((version, model)) => Outcome::Next { version, counted, criteria, model, remark },
            Err(ServerError::Federation(error @ FederationError::Diverged { .. })) => Outcome::Diverged(error),
            Err(ServerError::Federation(error @ FederationError::Sealed { .. })) => {
                Outcome::Abandoned(error.to_string())
            }
            Err(error) => return Err(error),
        };
        Ok((outcome, offences))
    }

    pub(super) fn report(&self, record: &RoundRecord) {
        let RoundRecord { round, asked, counted, declined, refused, .. } = *record;
        let seconds = record.closed.saturating_sub(record.opened) as f64 / 1000.0;
        if record.version.is_some() || record.counted > 0 {
            info!(federation = %self.name, round, asked, counted, declined, refused, seconds, "round closed");
        } else {
            warn!(federation = %self.name, round, asked, declined, refused, seconds, why = %record.remark, "round abandoned");
        }
        self.services.metrics.closed(&self.name, record);
    }

    /// Stops accepting updates; returns the start of the round's record.
    async fn stop_uploads(&self) -> Result<Option<RoundRecord>, ServerError> {
        let of_round = self.state().round.as_ref().map(|round| (round.opening.round, round.uploads_stopped));
        let Some((round, stopped)) = of_round else { return Ok(None) };
        if !stopped {
            self.commit(Change::StopUploads { federation: self.id, round }).await?;
        }
        let mut state = self.state();
        Ok(state.round.as_mut().map(|round| {
            round.uploads_stopped = true;
            round.close()
        }))
    }

    /// Applies the aggregate, and stores the version that results.
    async fn next_version(&self, sum: &mut Aggregate) -> Result<(VersionRecord, Arc<Published>), ServerError> {
        let (state, published) = self.apply_aggregate(sum)?;
        let bytes = self.services.versions.put(&state, Some(self.current().version.0)).await?;
        let published = Arc::new(published);
        let mut state = self.state();
        let before = state.versions.get(&state.current.version.0);
        let record = VersionRecord {
            federation: self.id,
            version: published.version.0,
            digest: published.digest,
            bytes,
            rounds: before.map_or(0, |before| before.rounds) + 1,
            created: state.next_timestamp(now()),
        };
        Ok((record, published))
    }

    /// The next version. If storing it failed before, the coordinator is at it already.
    fn apply_aggregate(&self, sum: &mut Aggregate) -> Result<(VersionState, Published), ServerError> {
        let current = self.current().version;
        let cohort = self.state().round.as_ref().map(|round| round.opening.cohort.clone()).unwrap_or_default();
        let mut coordinator = self.coordinator();
        if coordinator.shared().version == current {
            let round = coordinator.round();
            coordinator.record_participants(&cohort)?;
            coordinator.apply(round, sum)?;
        }
        let state = VersionState::of(&coordinator, self.id, &self.name, &self.config.model)?;
        Ok((state, Published::of(&coordinator)?))
    }

    /// Moves on from a round whose closing is stored.
    pub(super) fn closed(&self, published: Option<(VersionRecord, Arc<Published>)>, round: u64) {
        self.coordinator().skip();
        let mut state = self.state();
        state.next_round = round + 1;
        state.remember_uploads();
        if let Some((record, published)) = published {
            state.versions.insert(record.version, record);
            state.recent.insert(published.version.0, Arc::clone(&published));
            while state.recent.len() > super::RECENT_VERSIONS {
                state.recent.pop_first();
            }
            state.current = published;
        }
    }

    /// Training diverged: the federation has failed, and keeps the version before.
    async fn fail(&self, mut record: RoundRecord, error: &FederationError) -> Result<(), ServerError> {
        let why = format!("{error}; {}", self.coordinator().advice());
        error!(federation = %self.name, round = record.round, %why, "training diverged");
        (record.remark, record.counted) = (why.clone(), 0);
        let status = Status::Failed(why);
        let close = Change::CloseRound(Box::new(record.clone()), None);
        let set_status = Change::SetStatus { federation: self.id, status: status.clone() };
        self.services.queue.commit(vec![close, set_status]).await?;
        self.closed(None, record.round);
        self.state().status = status;
        self.services.metrics.closed(&self.name, &record);
        Ok(())
    }

    async fn finish(&self) -> Result<(), ServerError> {
        self.set_status(Status::Finished).await?;
        let rounds = self.state().next_round;
        info!(federation = %self.name, rounds, "finished");
        Ok(())
    }

    pub(super) async fn delete_obsolete_versions(&self) -> Result<(), ServerError> {
        let obsolete = unlearning::obsolete_versions(&self.state(), self.config.keep_versions, self.config.unlearn);
        for version in obsolete {
            self.services.versions.delete(self.id, version).await?;
            self.commit(Change::RemoveVersion { federation: self.id, version }).await?;
            self.state().versions.remove(&version);
        }
        Ok(())
    }

    async fn store_seen(&self) {
        let devices = self.state().members.take_seen();
        if devices.is_empty() {
            return;
        }
        let change = Change::Seen { federation: self.id, devices };
        if let Err(error) = self.commit(change).await {
            warn!(federation = %self.name, %error, "the last check-ins of devices are not stored");
        }
    }
}

impl VersionState {
    /// The state of a coordinator at its version.
    pub(crate) fn of(coordinator: &Coordinator, federation: u64, name: &str, model: &str) -> std::io::Result<Self> {
        let mut state = Vec::new();
        coordinator.save_memory(&mut state)?;
        let shared = coordinator.shared();
        let (name, model) = (name.to_owned(), model.to_owned());
        let (version, shared) = (shared.version.0, shared.parameters.clone());
        Ok(Self { federation, version, name, model, shared, state })
    }
}
