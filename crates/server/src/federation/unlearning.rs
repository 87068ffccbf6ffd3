//! Unlearning: rolling training back to a version that a device which withdrew had no part in.
//!
//! A withdrawal is stored together with the time at which the device had enrolled. Before the next round, whatever is
//! interrupted, the latest version from before that time becomes current under a new number, the rounds since are held
//! again without the device, and the versions in between are deleted.

use super::{Federation, Published, State, Unlearn};
use crate::error::ServerError;
use crate::storage::{Change, Millis, RECEIPT_ROUNDS, RoundRecord, Status, VersionRecord};
use crate::versions::VersionState;
use sottovoce_protocol::ModelVersion;
use std::collections::BTreeMap;
use std::sync::Arc;
use tracing::info;

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
        let Some(from) = self.unlearn else { return Rollback::None };
        let planned = self.plan_rollback(from).is_some();
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
            Some(plan) => self.roll_back(from, plan).await?,
            None => {
                let change = Change::RollBack { federation: self.id, from, to: None };
                self.commit(change).await?;
                self.state().unlearnt(from);
                info!(federation = %self.name, "a device withdrew that no stored version was trained with");
            }
        }
        self.delete_obsolete_versions().await
    }

    async fn roll_back(&self, from: Millis, RollbackPlan { current, target }: RollbackPlan) -> Result<(), ServerError> {
        let stored = self.services.versions.get(self.id, target.version).await?;
        let (state, published) = self.restore_version(stored, current.version + 1)?;
        let bytes = self.services.versions.put(&state, Some(current.version)).await?;
        let (digest, version) = (published.digest, published.version.0);
        let restored = VersionRecord { version, digest, bytes, ..target.clone() };
        let undone = current.rounds.saturating_sub(target.rounds);
        let remark = format!(
            "a device withdrew: training is rolled back to version {}, now version {version}, and {undone} rounds are held again",
            target.version
        );
        let abandoned = self.state().round.as_ref().map(super::round::Round::close);
        let abandoned = abandoned.map(|record| RoundRecord { remark: remark.clone(), ..record });
        self.retain_uploads(false).await?;
        // A measurement is not held again.
        let again = undone + u64::from(abandoned.is_some() && !self.is_measuring());
        let measurement = self.abandon_measurement("a device withdrew in the middle of it");
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

    /// A federation that had held all its rounds resumes; one that an operator or a budget ended does not.
    fn status_after_rollback(&self, again: u64) -> Option<Status> {
        let state = self.state();
        let had_all = state.next_round >= self.target_rounds + state.undone;
        (state.status == Status::Finished && had_all && again > 0).then_some(Status::Running)
    }

    /// Moves on from a rollback that is stored.
    fn rolled_back(
        &self,
        from: Millis,
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
        state.unlearnt(from);
        state.undone += again;
        state.rolled_back = Some(record.version);
        state.status = status.unwrap_or_else(|| state.status.clone());
        state.recent = BTreeMap::from([(record.version, Arc::clone(&published))]);
        state.current = published;
        state.versions.insert(record.version, record);
    }
}
