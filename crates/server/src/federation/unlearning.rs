//! Going back to a version of the shared model that somebody who withdrew had no part in.
//!
//! That somebody is to be unlearnt is written down together with the withdrawal, as the moment at which they had enrolled.
//! Whatever is interrupted, it is done before the next round: the latest version from before that moment becomes the current
//! one under a new number, rounds since are held again without them, and the versions in between are deleted.

use super::drive::{Tools, Trouble};
use super::round::Round;
use super::{Federation, Published, State, Unlearn};
use crate::storage::{Change, Millis, RECEIPT_ROUNDS, RoundRecord, Standing, VersionRecord};
use crate::versions::VersionState;
use sottovoce_protocol::ModelVersion;
use std::collections::BTreeMap;
use std::sync::Arc;
use tracing::info;

/// What is to be done for those who withdrew.
struct Back {
    /// When the first of them had enrolled.
    from: Millis,
    /// The current version, and the one to go on from.
    current: VersionRecord,
    target: VersionRecord,
}

/// What unlearning waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pending {
    /// Nobody is to be unlearnt.
    Nothing,
    /// Updates that are being written down.
    Settling,
    /// It can be done now.
    Due,
}

impl State {
    /// A moment later than every one given before, whatever the clock does: by these it is known which versions a device
    /// had no part in.
    pub(super) fn stamp(&mut self, now: Millis) -> Millis {
        self.latest = now.max(self.latest + 1);
        self.latest
    }

    /// Versions that are not current any more and hold rounds that were undone.
    fn undone_versions(&self) -> Vec<u64> {
        let mut least = Millis::MAX;
        let undone = |record: &&VersionRecord| {
            least = least.min(record.created);
            record.created > least
        };
        self.versions.values().rev().filter(undone).map(|record| record.version).collect()
    }

    /// The latest version from before a moment; the first one is from before all.
    fn before(&self, moment: Millis) -> Option<&VersionRecord> {
        let undone = self.undone_versions();
        let mut usable = self.versions.values().filter(|record| !undone.contains(&record.version));
        let first = usable.clone().next();
        usable.rfind(|record| record.created <= moment).or(first)
    }

    /// Where to go back to; `None` if the current version will do, and no round with somebody who left is under way.
    fn back(&self, from: Millis) -> Option<Back> {
        let current = self.versions.get(&self.current.version.0)?.clone();
        let target = self.before(from)?.clone();
        let left = |device: &u32| self.members.get(*device).is_none();
        let touched = self.round.as_ref().is_some_and(|round| round.opening.cohort.iter().any(left));
        (touched || target.version != current.version).then_some(Back { from, current, target })
    }
}

/// Versions that were undone or are beyond those that are kept. The first is kept for good where training may go back.
pub(super) fn superfluous(state: &State, keep: u32, unlearn: Unlearn) -> Vec<u64> {
    let goes_back = unlearn == Unlearn::Retrain;
    let kept_for_good = |version: &u64| goes_back && *version == 0;
    let undone = if goes_back { state.undone_versions() } else { Vec::new() };
    let there = |version: &&u64| !undone.contains(version);
    let old = state.versions.keys().rev().filter(there).skip(keep as usize).copied();
    let old: Vec<u64> = old.filter(|version| !kept_for_good(version)).collect();
    undone.iter().copied().chain(old).collect()
}

impl Federation {
    /// Whether somebody is to be unlearnt; then the round under way takes no more updates.
    pub(super) fn unlearning(state: &mut State) -> Pending {
        let Some(from) = state.unlearn else { return Pending::Nothing };
        let goes_back = state.back(from).is_some();
        match &mut state.round {
            Some(round) if goes_back => {
                round.closing_for_good = true;
                if round.is_settled() { Pending::Due } else { Pending::Settling }
            }
            _ => Pending::Due,
        }
    }

    /// Goes back for those who withdrew.
    pub(super) async fn unlearn(&self, tools: &Tools) -> Result<(), Trouble> {
        let (from, back) = {
            let state = self.state();
            let Some(from) = state.unlearn else { return Ok(()) };
            (from, state.back(from))
        };
        match back {
            Some(back) => self.go_back(tools, back).await?,
            None => {
                let change = Change::Unlearnt { federation: self.id, from, back: None };
                tools.clerk.write(vec![change]).await?;
                self.state().has_unlearnt(from);
                info!(federation = %self.name, "somebody withdrew who is in no version that is kept");
            }
        }
        self.forget_old_versions(tools).await
    }

    async fn go_back(&self, tools: &Tools, back: Back) -> Result<(), Trouble> {
        let Back { from, current, target } = back;
        let kept = tools.versions.get(self.id, target.version).await?;
        let (state, published) = self.back_to(kept, current.version + 1)?;
        let bytes = tools.versions.put(&state, Some(current.version)).await?;
        let (digest, version) = (published.digest, published.version.0);
        let made = VersionRecord { version, digest, bytes, ..target.clone() };
        let undone = current.rounds.saturating_sub(target.rounds);
        let remark = format!(
            "somebody withdrew: training goes back to version {}, now version {version}, and {undone} rounds are held again",
            target.version
        );
        let abandoned = self.abandoned(&remark);
        self.keep_uploads(&tools.storage, false).await?;
        let again = undone + u64::from(abandoned.is_some());
        let mut changes: Vec<Change> =
            abandoned.iter().map(|record| Change::Close(Box::new(record.clone()), None)).collect();
        changes.push(Change::Unlearnt { federation: self.id, from, back: Some((made.clone(), again)) });
        let standing = self.standing_again(again);
        changes.extend(standing.clone().map(|standing| Change::Stand { federation: self.id, standing }));
        tools.clerk.write(changes).await?;
        self.went_back(from, (made, Arc::new(published)), again, standing);
        info!(federation = %self.name, round = abandoned.as_ref().map(|record| record.round), "{remark}");
        if let Some(record) = abandoned {
            tools.observer.closed(&self.name, &record);
        }
        Ok(())
    }

    /// Brings the coordinator to a version that is kept, under a new number; the same however often it is done.
    fn back_to(&self, kept: VersionState, number: u64) -> Result<(VersionState, Published), Trouble> {
        let mut coordinator = self.coordinator();
        let VersionState { shared, state, .. } = kept;
        coordinator.go_back(ModelVersion(number), shared, &mut &state[..])?;
        Ok((self.version_state(&coordinator)?, Published::of(&coordinator)?))
    }

    /// The record of the round under way, which comes to nothing.
    fn abandoned(&self, remark: &str) -> Option<RoundRecord> {
        let state = self.state();
        let record = state.round.as_ref().map(|round| round.record(self.id))?;
        Some(RoundRecord { remark: remark.to_owned(), ..record })
    }

    /// A federation that had all its rounds has some to hold again; one that an operator or a budget ended stays so.
    fn standing_again(&self, again: u64) -> Option<Standing> {
        let state = self.state();
        let had_all = state.next_round >= self.goal + state.undone;
        (state.standing == Standing::Finished && had_all && again > 0).then_some(Standing::Running)
    }

    fn went_back(
        &self,
        from: Millis,
        (record, published): (VersionRecord, Arc<Published>),
        again: u64,
        standing: Option<Standing>,
    ) {
        if self.state().round.is_some() {
            self.coordinator().skip();
        }
        let mut state = self.state();
        if let Some(round) = state.round.take() {
            state.next_round = round.opening.round + 1;
            state.keep_known(round);
        }
        state.has_unlearnt(from);
        state.undone += again;
        state.went_back = Some(record.version);
        state.standing = standing.unwrap_or_else(|| state.standing.clone());
        state.recent = BTreeMap::from([(record.version, Arc::clone(&published))]);
        state.current = published;
        state.versions.insert(record.version, record);
    }
}

impl State {
    /// Somebody who had enrolled earlier and withdrew meanwhile is still to be unlearnt.
    fn has_unlearnt(&mut self, from: Millis) {
        self.unlearn = self.unlearn.filter(|pending| *pending < from);
    }

    /// Keeps what is known of a round's updates, for repetitions that come late.
    pub(super) fn keep_known(&mut self, mut round: Round) {
        let number = round.opening.round;
        if let Some(tokens) = round.tokens.take() {
            self.past_anonymous.insert(number, tokens.into_known());
        }
        self.past.insert(number, round.into_known());
        self.past.retain(|past, _| past + RECEIPT_ROUNDS > number);
        self.past_anonymous.retain(|past, _| past + RECEIPT_ROUNDS > number);
    }
}
