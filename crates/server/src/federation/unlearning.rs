//! Rolling training back: to a version that a device which withdrew had no part in, or to one that an operator names.
//!
//! A withdrawal is stored together with the time at which the device had enrolled. Before the next round, whatever is
//! interrupted, the latest version from before that time becomes current under a new number, the rounds since are held
//! again without the device, and the versions in between are deleted.
//!
//! An operator's rollback is one transaction, which the operator waits for: interrupted, nothing has happened. The
//! versions in between are kept for as long as others, so that the operator may change their mind.

use super::{Federation, Published, State, Unlearn};
use crate::error::ServerError;
use crate::storage::{Change, Millis, RECEIPT_ROUNDS, RoundRecord, Status, VersionRecord};
use crate::versions::VersionState;
use sottovoce_protocol::ModelVersion;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::oneshot;
use tracing::info;

/// Why an operator's rollback is not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RollbackError {
    /// There never was such a version.
    #[error("version {0} has never existed")]
    Unknown(u64),
    /// It is no longer stored.
    #[error("version {0} is no longer stored; {1} are")]
    Gone(u64, String),
    /// It is the current one.
    #[error("version {0} is the current one")]
    Current(u64),
    /// Another operator's is under way, or a withdrawn device's.
    #[error("another rollback is under way; retry when it is done")]
    Busy,
    /// The server stops.
    #[error("the server stops; retry when it is back")]
    Stopping,
}

/// An operator's rollback that is to be done.
pub(super) struct RollbackRequest {
    /// The version to restore.
    version: u64,
    /// Told when it is stored.
    done: oneshot::Sender<()>,
}

/// A rollback to be done.
struct RollbackPlan {
    /// The current version.
    current: VersionRecord,
    /// The version to restore.
    target: VersionRecord,
}

/// Whether a rollback is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rollback {
    None,
    /// Updates are being stored.
    Waiting,
    Ready,
}

impl State {
    /// A timestamp later than all before, whatever the clock does: timestamps decide which versions a device had no
    /// part in.
    pub(super) fn next_timestamp(&mut self, now: Millis) -> Millis {
        self.last_timestamp = now.max(self.last_timestamp + 1);
        self.last_timestamp
    }

    /// Whether a rollback is to be done; then the open round accepts no more updates.
    pub(super) fn rollback(&mut self) -> Rollback {
        let planned = match (self.unlearn, &self.requested) {
            (None, None) => return Rollback::None,
            (_, Some(_)) => true,
            (Some(from), None) => self.plan_rollback(from).is_some(),
        };
        match &mut self.round {
            Some(round) if planned => {
                round.uploads_stopped = true;
                if round.is_settled() { Rollback::Ready } else { Rollback::Waiting }
            }
            _ => Rollback::Ready,
        }
    }

    /// Versions that a rollback has undone.
    fn undone_versions(&self) -> Vec<u64> {
        let mut least = Millis::MAX;
        let undone = |record: &&VersionRecord| {
            least = least.min(record.created);
            record.created > least
        };
        self.versions.values().rev().filter(undone).map(|record| record.version).collect()
    }

    /// The latest version from before a time, or the first one.
    fn version_before(&self, time: Millis) -> Option<&VersionRecord> {
        let undone = self.undone_versions();
        let mut usable = self.versions.values().filter(|record| !undone.contains(&record.version));
        let first = usable.clone().next();
        usable.rfind(|record| record.created <= time).or(first)
    }

    /// The version to roll back to; `None` if the current one can stay, and no device that left is in the open cohort.
    fn plan_rollback(&self, from: Millis) -> Option<RollbackPlan> {
        let current = self.versions.get(&self.current.version.0)?.clone();
        let target = self.version_before(from)?.clone();
        let left = |device: &u32| self.members.get(*device).is_none();
        let affected = self.round.as_ref().is_some_and(|round| round.opening.cohort.iter().any(left));
        (affected || target.version != current.version).then_some(RollbackPlan { current, target })
    }

    /// A device that had enrolled earlier may have withdrawn in the meantime, and is still to be unlearnt.
    fn unlearnt(&mut self, from: Millis) {
        self.unlearn = self.unlearn.filter(|pending| *pending < from);
    }

    /// Ends the open round, but remembers its uploads, to recognise late repetitions.
    pub(super) fn remember_uploads(&mut self) {
        let Some(round) = self.round.take() else { return };
        let number = round.opening.round;
        self.past_uploads.insert(number, round.into_uploads());
        self.past_uploads.retain(|past, _| past + RECEIPT_ROUNDS > number);
    }
}

/// Versions that were undone, or are beyond the number to keep. The first one is kept for good if rollbacks are
/// possible.
pub(super) fn obsolete_versions(state: &State, keep: u32, unlearn: Unlearn) -> Vec<u64> {
    let rolls_back = unlearn == Unlearn::Retrain;
    let undone = if rolls_back { state.undone_versions() } else { Vec::new() };
    let remaining = state.versions.keys().rev().filter(|version| !undone.contains(version));
    let old = remaining.skip(keep as usize).filter(|version| !(rolls_back && **version == 0));
    undone.iter().chain(old).copied().collect()
}

impl Federation {
    /// Rolls back for devices that withdrew.
    pub(super) async fn unlearn(&self) -> Result<(), ServerError> {
        let (from, plan) = {
            let state = self.state();
            let Some(from) = state.unlearn else { return Ok(()) };
            (from, state.plan_rollback(from))
        };
        match plan {
            Some(plan) => {
                self.roll_back(Some(from), plan, "a device withdrew: training").await?;
            }
            None => {
                let change = Change::RollBack { federation: self.id, from: Some(from), to: None };
                self.commit(change).await?;
                self.state().unlearnt(from);
                info!(federation = %self.name, "a device withdrew that no stored version was trained with");
            }
        }
        self.delete_obsolete_versions().await
    }

    /// Rolls training back to a stored version, as an operator wishes; returns when that is stored.
    ///
    /// # Errors
    /// If there is no such version, or a rollback is under way.
    pub async fn roll_back_to(&self, version: u64) -> Result<(), RollbackError> {
        let (done, stored) = oneshot::channel();
        {
            let mut state = self.state();
            let current = state.current.version.0;
            if version == current {
                return Err(RollbackError::Current(version));
            }
            if !state.versions.contains_key(&version) {
                let kept: Vec<String> = state.versions.keys().map(u64::to_string).collect();
                return Err(match version < current {
                    true => RollbackError::Gone(version, kept.join(", ")),
                    false => RollbackError::Unknown(version),
                });
            }
            if state.requested.is_some() || state.unlearn.is_some() {
                return Err(RollbackError::Busy);
            }
            state.requested = Some(RollbackRequest { version, done });
        }
        self.wake.notify_one();
        stored.await.map_err(|_| RollbackError::Stopping)
    }

    /// Does the rollback that an operator waits for. After a failure it is retried: the coordinator has gone back.
    pub(super) async fn roll_back_as_requested(&self) -> Result<(), ServerError> {
        let plan = {
            let state = self.state();
            let version = |number: &u64| state.versions.get(number).cloned();
            let target = state.requested.as_ref().and_then(|request| version(&request.version));
            target.zip(version(&state.current.version.0)).map(|(target, current)| RollbackPlan { current, target })
        };
        if let Some(plan) = plan {
            self.roll_back(None, plan, "an operator rolled training back: it").await?;
        }
        if let Some(request) = self.state().requested.take() {
            // Whoever asked may have gone.
            let _told = request.done.send(());
        }
        self.delete_obsolete_versions().await
    }

    async fn roll_back(
        &self,
        from: Option<Millis>,
        RollbackPlan { current, target }: RollbackPlan,
        why: &str,
    ) -> Result<(), ServerError> {
        let stored = self.services.versions.get(self.id, target.version).await?;
        let (state, published) = self.restore_version(stored, current.version + 1)?;
        let bytes = self.services.versions.put(&state, Some(current.version)).await?;
        let (digest, version) = (published.digest, published.version.0);
        let restored = VersionRecord { version, digest, bytes, ..target.clone() };
        let undone = current.rounds.saturating_sub(target.rounds);
        let remark = format!(
            "{why} is rolled back to version {}, now version {version}, and {undone} rounds are held again",
            target.version
        );
        let abandoned = self.state().round.as_ref().map(super::round::Round::close);
        let abandoned = abandoned.map(|record| RoundRecord { remark: remark.clone(), ..record });
        self.retain_uploads(false).await?;
        // A measurement is not held again.
        let again = undone + u64::from(abandoned.is_some() && !self.is_measuring());
        let measurement = self.abandon_measurement("training was rolled back in the middle of it");
        let status = self.status_after_rollback(again);
        let close = abandoned.iter().map(|record| Change::CloseRound(Box::new(record.clone()), None));
        let to = Some((restored.clone(), again));
        let mut changes: Vec<Change> = close.chain(measurement.clone()).collect();
        changes.push(Change::RollBack { federation: self.id, from, to });
        changes.extend(status.clone().map(|status| Change::SetStatus { federation: self.id, status }));
        self.services.queue.commit(changes).await?;
        self.measurement_closed(&measurement);
        self.rolled_back(from, (restored, Arc::new(published)), again, status);
        info!(federation = %self.name, round = abandoned.as_ref().map(|record| record.round), "{remark}");
        if let Some(record) = abandoned {
            self.services.metrics.closed(&self.name, &record);
        }
        Ok(())
    }

    /// Brings the coordinator to a stored version, under a new number; idempotent.
    fn restore_version(&self, stored: VersionState, number: u64) -> Result<(VersionState, Published), ServerError> {
        let mut coordinator = self.coordinator();
        let VersionState { shared, state, .. } = stored;
        coordinator.go_back(ModelVersion(number), shared, &mut &state[..])?;
        let state = VersionState::of(&coordinator, self.id, &self.name, &self.config.model)?;
        Ok((state, Published::of(&coordinator)?))
    }

    /// A federation that had held all its rounds, or failed, resumes; one that an operator or a budget ended does not.
    fn status_after_rollback(&self, again: u64) -> Option<Status> {
        let state = self.state();
        let had_all = state.next_round >= self.planned_rounds(&state);
        match state.status {
            // Its model had diverged, and is gone now.
            Status::Failed(_) => Some(Status::Running),
            Status::Finished if had_all && again > 0 => Some(Status::Running),
            _ => None,
        }
    }

    /// Moves on from a rollback that is stored.
    fn rolled_back(
        &self,
        from: Option<Millis>,
        (record, published): (VersionRecord, Arc<Published>),
        again: u64,
        status: Option<Status>,
    ) {
        let round = self.state().round.as_ref().map(|round| round.opening.round);
        if round.is_some() {
            self.coordinator().skip();
        }
        let mut state = self.state();
        state.next_round = round.map_or(state.next_round, |round| round + 1);
        state.remember_uploads();
        from.into_iter().for_each(|from| state.unlearnt(from));
        state.undone += again;
        state.rolled_back = Some(record.version);
        state.status = status.unwrap_or_else(|| state.status.clone());
        state.recent = BTreeMap::from([(record.version, Arc::clone(&published))]);
        state.current = published;
        state.versions.insert(record.version, record);
    }
}
