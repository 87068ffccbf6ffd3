//! Opening and closing rounds.

use super::anonymous::{self, Tokens};
use super::round::Round;
use super::unlearning::{self, Pending};
use super::{Federation, KeepError, Published, keeping, leave_out};
use crate::clerk::{Clerk, ClerkError};
use crate::now;
use crate::storage::{
    Change, Millis, RoundOpening, RoundRecord, Standing, Storage, StorageError, VersionRecord,
};
use crate::versions::{VersionState, Versions, VersionsError};
use sottovoce_federation::{Collected, Coordinator, FederationError, Tally, TallyError};
use sottovoce_protocol::{Update, codec};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tracing::{error, info, warn};

/// How often a federation looks whether something is due, beside when it is told.
const TICK: Duration = Duration::from_millis(500);
/// How long it waits after a failure before it tries again.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// What opening and closing needs of the server.
#[derive(Clone)]
pub(crate) struct Tools {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) clerk: Clerk,
    pub(crate) versions: Arc<Versions>,
    pub(crate) observer: Arc<dyn Observer>,
}

/// Is told of rounds.
pub(crate) trait Observer: Send + Sync {
    fn closed(&self, federation: &str, record: &RoundRecord);
}

/// Why a round could not be opened or closed at this moment.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    #[error(transparent)]
    Clerk(#[from] ClerkError),
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error(transparent)]
    Versions(#[from] VersionsError),
    #[error(transparent)]
    Tally(#[from] TallyError),
    #[error(transparent)]
    Federation(#[from] FederationError),
    #[error("a worker stopped: {0}")]
    Worker(#[from] tokio::task::JoinError),
    #[error("its memory cannot be written or read: {0}")]
    Memory(#[from] std::io::Error),
    #[error(transparent)]
    Keeping(#[from] KeepError),
}

/// What is to be done next.
enum Due {
    Open,
    CloseStep,
    Close,
    Finish,
    Unlearn,
    Nothing,
}

/// What a round came to.
enum Outcome {
    TooFew,
    /// The sum could not be opened, and why.
    NotOpened(String),
    Diverged(FederationError),
    Next {
        version: VersionRecord,
        counted: u32,
        criteria: String,
        model: Arc<Published>,
    },
}

/// What came of adding up.
enum Added {
    /// The sum, and the mean of each criterion as JSON.
    Up(Collected, String),
    /// None, and why.
    NotOpened(String),
}

/// Is given the bytes of one update after the other, with the device if it is known.
type VisitAny<'a> = dyn FnMut(Option<u32>, &[u8]) -> Result<(), StorageError> + 'a;

/// Sums that are being made.
enum Sums<'a> {
    /// As the simulator makes them: one part of the cohort after the other.
    ByDevice(Box<Tally<'a>>),
    /// Of integers, which come out the same in whichever order.
    InAnyOrder(Box<Collected>),
}

impl Sums<'_> {
    fn add(&mut self, device: Option<u32>, update: &Update) -> Result<(), TallyError> {
        match (self, device) {
            (Self::ByDevice(tally), Some(device)) => tally.add(device, update),
            (Self::ByDevice(_), None) => Err(TallyError::NotAsked(u32::MAX)),
            (Self::InAnyOrder(collected), _) => {
                collected.add(update);
                Ok(())
            }
        }
    }

    fn finish(self) -> Collected {
        match self {
            Self::ByDevice(tally) => tally.finish(),
            Self::InAnyOrder(collected) => *collected,
        }
    }
}

/// Keeps a federation going until the task is dropped.
pub(crate) async fn drive(federation: Arc<Federation>, tools: Tools) {
    let mut heard = now();
    // What a server that was killed had not come to.
    if let Err(trouble) = federation.forget_old_versions(&tools).await {
        warn!(federation = %federation.name, %trouble, "old versions are not removed");
    }
    loop {
        let done = match federation.due(now()) {
            Due::Open => federation.open(&tools).await,
            Due::CloseStep => federation.close_step(&tools.clerk).await.map(|()| true).map_err(Trouble::from),
            Due::Close => federation.close(&tools).await.map(|()| true),
            Due::Finish => federation.finish(&tools, Standing::Finished).await.map(|()| true),
            Due::Unlearn => federation.unlearn(&tools).await.map(|()| true),
            Due::Nothing => Ok(false),
        };
        if now() - heard > 60_000 {
            heard = now();
            federation.write_heard(&tools).await;
        }
        match done {
            Ok(true) => (),
            Ok(false) => {
                let _either = tokio::time::timeout(TICK, federation.wake.notified()).await;
            }
            Err(trouble) => {
                error!(federation = %federation.name, %trouble, "a round cannot go on; it is tried again");
                tokio::time::sleep(AFTER_FAILURE).await;
            }
        }
    }
}

impl Federation {
    fn due(&self, now: Millis) -> Due {
        let mut state = self.state();
        match Self::unlearning(&mut state) {
            Pending::Due => return Due::Unlearn,
            Pending::Settling => return Due::Nothing,
            Pending::Nothing => (),
        }
        let enough = state.members.count() >= self.config.devices as usize;
        let running = state.standing == Standing::Running;
        let (next, goal) = (state.next_round, self.goal + state.undone);
        let over = state
            .round
            .as_mut()
            .map(|round| (round.is_over(now) && round.is_settled(), Federation::step_due(round, now)));
        match over {
            Some((true, _)) => Due::Close,
            Some((false, true)) => Due::CloseStep,
            Some((false, false)) => Due::Nothing,
            None if running && next >= goal => Due::Finish,
            None if running && enough => Due::Open,
            None => Due::Nothing,
        }
    }

    /// Opens a round, if enough devices are there; says whether it did.
    async fn open(&self, tools: &Tools) -> Result<bool, Trouble> {
        let opened = now();
        let (active, present) = self.candidates(opened);
        let called = match self.call(active, present.as_ref(), opened) {
            Err(FederationError::Budget(why)) => {
                info!(federation = %self.name, %why, "no further round may be held");
                return self.finish(tools, Standing::Finished).await.map(|()| true);
            }
            called => called?,
        };
        let Some((opening, terms)) = called else { return Ok(false) };
        let tokens = self.anonymous.then(|| anonymous::issuer(&self.secret, self.id, opening.round));
        let terms = tokens.iter().try_fold(terms, anonymous::with_key)?;
        let terms = self.keeper.iter().try_fold(terms, |terms, _| keeping::with_notice(terms))?;
        tools.clerk.write(vec![Change::Open(opening.clone())]).await?;
        let (round, asked) = (opening.round, opening.cohort.len());
        let over_selection = self.coordinator().rules().over_selection;
        let mut under_way = Round::new(opening, Arc::new(terms), over_selection);
        under_way.sealing = self.seal(&under_way);
        under_way.tokens = tokens.map(Tokens::new);
        let mut state = self.state();
        // Who left while this was written down will not answer.
        leave_out(&mut under_way, &state.members);
        state.round = Some(under_way);
        drop(state);
        info!(federation = %self.name, round, asked, "round opened");
        Ok(true)
    }

    /// Devices that may be asked, and those of them who are there; `None` if that is not looked at.
    fn candidates(&self, now: Millis) -> (Vec<u32>, Option<HashSet<u32>>) {
        let state = self.state();
        let active = state.members.active();
        let present = self.config.present_within.map(|seconds| {
            let since = now.saturating_sub(u64::from(seconds) * 1000);
            let there =
                |device: &&u32| state.members.get(**device).is_some_and(|member| member.seen >= since);
            active.iter().filter(there).copied().collect()
        });
        (active, present)
    }

    fn call(
        &self,
        active: Vec<u32>,
        present: Option<&HashSet<u32>>,
        opened: Millis,
    ) -> Result<Option<(RoundOpening, sottovoce_protocol::RoundTerms)>, FederationError> {
        let mut coordinator = self.coordinator();
        coordinator.ask_among(active);
        coordinator.may_go_on()?;
        let wanted = coordinator.wanted();
        let there = |device: u32| present.is_none_or(|present| present.contains(&device));
        let cohort = coordinator.draw(&there).cohort.to_vec();
        let minimum = self.config.minimum_of(wanted);
        let protected = coordinator.protected();
        // Too few to hide anybody among: the round waits for more.
        let sealed =
            protected.is_none_or(|protected| protected.config().seals(cohort.len() as u32).is_ok());
        if cohort.len() < minimum as usize || !sealed {
            return Ok(None);
        }
        let terms = coordinator.terms(cohort.len())?;
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
        Ok(Some((opening, terms)))
    }

    /// Closes a round: adds up what is stored, or abandons it.
    async fn close(self: &Arc<Self>, tools: &Tools) -> Result<(), Trouble> {
        let Some(mut record) = self.begin_closing(tools).await? else { return Ok(()) };
        let mut published = None;
        let outcome = self.outcome(tools).await?;
        self.keep_uploads(&tools.storage, matches!(outcome, Outcome::Next { .. })).await?;
        match outcome {
            Outcome::TooFew => "too few updates came".clone_into(&mut record.remark),
            Outcome::NotOpened(why) => record.remark = why,
            Outcome::Diverged(error) => return self.fail(tools, record, &error).await,
            Outcome::Next { version, counted, criteria, model } => {
                record.version = Some(version.version);
                (record.counted, record.criteria) = (counted, criteria);
                published = Some((version, model));
            }
        }
        record.closed = now();
        let version = published.as_ref().map(|(version, _)| version.clone());
        tools.clerk.write(vec![Change::Close(Box::new(record.clone()), version)]).await?;
        self.closed(published, record.round);
        self.tell_closed(tools, &record);
        self.forget_old_versions(tools).await
    }

    /// What a round that takes no more updates comes to; the same however often it is asked.
    async fn outcome(self: &Arc<Self>, tools: &Tools) -> Result<Outcome, Trouble> {
        let enough = self
            .state()
            .round
            .as_ref()
            .is_some_and(|round| round.sealing.is_some() || round.stored >= round.opening.minimum);
        if !enough {
            return Ok(Outcome::TooFew);
        }
        let (federation, storage) = (Arc::clone(self), Arc::clone(&tools.storage));
        let adding = tokio::task::spawn_blocking(move || federation.add_up(storage.as_ref()));
        let (mut collected, criteria) = match adding.await?? {
            Added::Up(collected, criteria) => (collected, criteria),
            Added::NotOpened(why) => return Ok(Outcome::NotOpened(why)),
        };
        // With noise means are taken over those who were expected, whoever came.
        let counted = collected.updates as u32;
        match self.next_version(tools, &mut collected).await {
            Ok((version, model)) => Ok(Outcome::Next { version, counted, criteria, model }),
            Err(Trouble::Federation(error @ FederationError::Diverged { .. })) => {
                Ok(Outcome::Diverged(error))
            }
            Err(Trouble::Federation(error @ FederationError::Sealed { .. })) => {
                Ok(Outcome::NotOpened(error.to_string()))
            }
            Err(trouble) => Err(trouble),
        }
    }

    fn tell_closed(&self, tools: &Tools, record: &RoundRecord) {
        let RoundRecord { round, asked, counted, declined, refused, .. } = *record;
        let seconds = (record.closed - record.opened) as f64 / 1000.0;
        if record.version.is_some() {
            info!(federation = %self.name, round, asked, counted, declined, refused, seconds, "round closed");
        } else {
            warn!(federation = %self.name, round, asked, declined, refused, seconds, why = %record.remark, "round abandoned");
        }
        tools.observer.closed(&self.name, record);
    }

    /// Takes no more updates, which is written down; the beginning of the round's record.
    async fn begin_closing(&self, tools: &Tools) -> Result<Option<RoundRecord>, Trouble> {
        let (round, written) = {
            let state = self.state();
            let Some(round) = &state.round else { return Ok(None) };
            (round.opening.round, round.closing_for_good)
        };
        if !written {
            tools.clerk.write(vec![Change::Closing { federation: self.id, round }]).await?;
        }
        let mut state = self.state();
        let Some(round) = &mut state.round else { return Ok(None) };
        round.closing_for_good = true;
        Ok(Some(round.record(self.id)))
    }

    /// The sum of what is stored, and the mean of each criterion as JSON.
    fn add_up(&self, storage: &dyn Storage) -> Result<Added, Trouble> {
        let (round, cohort, terms, sum) = {
            let state = self.state();
            let Some(round) = &state.round else {
                return Ok(Added::Up(Collected::new(&self.layout), "{}".to_owned()));
            };
            let sum = round.sealing.as_ref().map(|sealing| (sealing.sum(), round.opening.minimum));
            (round.opening.round, round.opening.cohort.clone(), Arc::clone(&round.terms), sum)
        };
        if let Some((sum, minimum)) = sum {
            return Ok(self.opened(sum, minimum));
        }
        if let Some(length) = self.words {
            return self.add_words(storage, round, length);
        }
        let mut sums = match self.anonymous {
            true => Sums::InAnyOrder(Box::new(self.coordinator().collected())),
            false => Sums::ByDevice(Box::new(self.coordinator().tally(&cohort))),
        };
        let mut buffer = self.buffer();
        let mut criteria = vec![(0.0, 0u64); terms.criteria.len()];
        self.each_update(storage, round, &mut |device, bytes| {
            let damaged = |reason: String| self.damaged(round, reason);
            codec::decode_update(bytes, &mut buffer).map_err(|error| damaged(error.to_string()))?;
            for &(index, value) in buffer.update().criteria() {
                if let Some((sum, count)) = criteria.get_mut(index as usize) {
                    *sum += value;
                    *count += 1;
                }
            }
            sums.add(device, buffer.update()).map_err(|error| damaged(error.to_string()))
        })?;
        let mean = |(asked, (sum, count)): (&sottovoce_protocol::CriterionRequest, (f64, u64))| {
            let value = serde_json::json!({"mean": sum / count as f64, "devices": count});
            (count > 0).then(|| (asked.name.clone(), value))
        };
        let criteria: serde_json::Map<_, _> = terms.criteria.iter().zip(criteria).filter_map(mean).collect();
        Ok(Added::Up(sums.finish(), serde_json::Value::Object(criteria).to_string()))
    }

    /// Goes through what is stored of a round: by ascending device, or by nothing that says whose it is.
    fn each_update(
        &self,
        storage: &dyn Storage,
        round: u64,
        visit: &mut VisitAny<'_>,
    ) -> Result<(), StorageError> {
        if self.anonymous {
            return storage.anonymous_updates(self.id, round, &mut |_, bytes| visit(None, bytes));
        }
        storage.updates(self.id, round, &mut |device, bytes| visit(Some(device), bytes))
    }

    fn damaged(&self, round: u64, reason: String) -> StorageError {
        StorageError::Damaged {
            what: format!("an update of round {round} of federation {}", self.name),
            reason,
        }
    }

    /// What a seal was opened to.
    fn opened(&self, sum: Result<(Vec<u32>, u64), String>, minimum: u32) -> Added {
        match sum {
            Ok((words, updates)) if updates >= u64::from(minimum) => {
                let mut collected = self.coordinator().collected();
                collected.take_sum(&words, updates);
                Added::Up(collected, "{}".to_owned())
            }
            Ok((_, updates)) => {
                Added::NotOpened(format!("{updates} updates came, at least {minimum} are needed"))
            }
            Err(why) => Added::NotOpened(why),
        }
    }

    /// The sum of updates that are words with noise.
    fn add_words(&self, storage: &dyn Storage, round: u64, length: usize) -> Result<Added, Trouble> {
        let (layout, mut collected) = (self.layout.fingerprint(), self.coordinator().collected());
        self.each_update(storage, round, &mut |_, bytes| {
            let words = codec::decode_quantized(bytes, layout, length);
            let words = words.map_err(|error| self.damaged(round, error.to_string()))?;
            collected.add_words(&words.words);
            Ok(())
        })?;
        Ok(Added::Up(collected, "{}".to_owned()))
    }

    /// Takes the sum in, and writes the version that follows.
    async fn next_version(
        self: &Arc<Self>,
        tools: &Tools,
        collected: &mut Collected,
    ) -> Result<(VersionRecord, Arc<Published>), Trouble> {
        let (state, published) = self.absorb(collected)?;
        let bytes = tools.versions.put(&state, Some(self.current().version.0)).await?;
        let published = Arc::new(published);
        let mut state = self.state();
        let before = state.versions.get(&state.current.version.0);
        let record = VersionRecord {
            federation: self.id,
            version: published.version.0,
            digest: published.digest,
            bytes,
            rounds: before.map_or(0, |before| before.rounds) + 1,
            created: state.stamp(now()),
        };
        Ok((record, published))
    }

    /// The next version; again only if the one before could not be written. Then the coordinator is there already.
    fn absorb(&self, collected: &mut Collected) -> Result<(VersionState, Published), Trouble> {
        let current = self.current().version;
        let cohort =
            self.state().round.as_ref().map(|round| round.opening.cohort.clone()).unwrap_or_default();
        let mut coordinator = self.coordinator();
        if coordinator.shared().version == current {
            let round = coordinator.round();
            coordinator.took_part(&cohort)?;
            coordinator.absorb(round, collected)?;
        }
        Ok((self.version_state(&coordinator)?, Published::of(&coordinator)?))
    }

    /// All that is needed to go on from the coordinator's version.
    pub(super) fn version_state(&self, coordinator: &Coordinator) -> Result<VersionState, Trouble> {
        let mut memory = Vec::new();
        coordinator.save_memory(&mut memory)?;
        let shared = coordinator.shared();
        Ok(VersionState {
            federation: self.id,
            version: shared.version.0,
            name: self.name.clone(),
            model: self.config.model.clone(),
            shared: shared.parameters.clone(),
            state: memory,
        })
    }

    /// The round is over, which is written down.
    fn closed(&self, published: Option<(VersionRecord, Arc<Published>)>, round: u64) {
        self.coordinator().skip();
        let mut state = self.state();
        state.next_round = round + 1;
        if let Some(known) = state.round.take() {
            state.keep_known(known);
        }
        if let Some((record, published)) = published {
            state.versions.insert(record.version, record);
            state.recent.insert(published.version.0, Arc::clone(&published));
            while state.recent.len() > super::RECENT {
                state.recent.pop_first();
            }
            state.current = published;
        }
    }

    /// Training diverged: the federation is over, its model the one before.
    async fn fail(
        &self,
        tools: &Tools,
        mut record: RoundRecord,
        error: &FederationError,
    ) -> Result<(), Trouble> {
        let why = format!("{error}; {}", self.coordinator().advice());
        error!(federation = %self.name, round = record.round, %why, "training diverged");
        (record.remark, record.counted) = (why.clone(), 0);
        let stand = Change::Stand { federation: self.id, standing: Standing::Failed(why.clone()) };
        tools.clerk.write(vec![Change::Close(Box::new(record.clone()), None), stand]).await?;
        self.closed(None, record.round);
        self.state().standing = Standing::Failed(why);
        tools.observer.closed(&self.name, &record);
        Ok(())
    }

    async fn finish(&self, tools: &Tools, standing: Standing) -> Result<(), Trouble> {
        let change = Change::Stand { federation: self.id, standing: standing.clone() };
        tools.clerk.write(vec![change]).await?;
        self.state().standing = standing;
        info!(federation = %self.name, rounds = self.goal(), "finished");
        Ok(())
    }

    pub(super) async fn forget_old_versions(&self, tools: &Tools) -> Result<(), Trouble> {
        let old = unlearning::superfluous(&self.state(), self.config.keep_versions, self.config.unlearn);
        for version in old {
            tools.versions.delete(self.id, version).await?;
            tools.clerk.write(vec![Change::RemoveVersion { federation: self.id, version }]).await?;
            self.state().versions.remove(&version);
        }
        Ok(())
    }

    async fn write_heard(&self, tools: &Tools) {
        let devices = self.state().members.take_fresh();
        if devices.is_empty() {
            return;
        }
        let change = Change::Seen { federation: self.id, devices };
        if let Err(trouble) = tools.clerk.write(vec![change]).await {
            warn!(federation = %self.name, %trouble, "who was heard of is not written down");
        }
    }
}
