//! One federation on the server: who its devices are, which round is under way, which version is current.
//!
//! Handlers change the state in memory under a short lock and hand what must not be forgotten to the clerk; one task a
//! federation (`drive`) opens and closes rounds.

mod anonymous;
pub mod catalog;
pub mod config;
pub(crate) mod drive;
mod intake;
mod keeping;
mod members;
mod pace;
mod published;
mod round;
mod sealing;
mod unlearning;
mod view;

pub use catalog::CatalogError;
pub use config::{ConfigError, Criterion, FederationConfig, Unlearn};
pub use intake::{Refused, Taken};
pub use keeping::KeepError;
pub use published::Published;
pub use published::digest;
pub(crate) use published::{Encoded, WIRE};
pub use sealing::Heard;
pub(crate) use sealing::MOST_NOTE;
pub use view::{FederationView, RoundView};

use crate::clerk::ClerkError;
use crate::storage::{
    AnonymousReceipt, DeviceRecord, FederationRecord, Hash, Millis, OpenRound, Receipt, Standing,
    VersionRecord,
};
use anonymous::Tokens;
use bytes::Bytes;
use keeping::Keeper;
use members::Members;
use round::{Answer, Known, Round};
use sealing::Sealing;
use sottovoce_federation::{Coordinator, FederationError, Hosted};
use sottovoce_privacy::PrivacyMechanism;
use sottovoce_protocol::{Layout, ModelVersion, Received, RoundId};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Rows that an update may have beside those of the shared model's tables: headers, lists, criteria.
const UPLOAD_ALLOWANCE: u64 = 64 << 10;
/// Buffers for decoding that are kept.
const MOST_BUFFERS: usize = 16;
/// Versions whose bytes stay in memory.
const RECENT: usize = 3;

/// A federation.
pub struct Federation {
    /// Its number.
    pub id: u64,
    /// Its name in addresses.
    pub name: String,
    /// Its configuration.
    pub config: FederationConfig,
    /// When it was created.
    pub created: Millis,
    /// Items of the catalog.
    pub items: usize,
    /// Rounds after which it is finished, but for those that are held again.
    goal: u64,
    pub(crate) catalog: Encoded,
    layout: Layout,
    /// Words of an update, where devices send words in the open.
    words: Option<usize>,
    /// Whether updates come with tokens instead of credentials.
    anonymous: bool,
    /// The server's secret for what must be the same after a restart and unknown to devices.
    secret: Hash,
    upload_limit: u64,
    /// Where uploads are kept, if they are.
    keeper: Option<Keeper>,
    state: Mutex<State>,
    coordinator: Mutex<Coordinator>,
    buffers: Mutex<Vec<Received>>,
    wake: Notify,
}

struct State {
    standing: Standing,
    members: Members,
    next_device: u32,
    next_round: u64,
    round: Option<Round>,
    /// What is known of updates of rounds that were over lately, by round and device.
    past: BTreeMap<u64, BTreeMap<u32, Known>>,
    /// The same of updates that came with tokens, by round and nullifier.
    past_anonymous: BTreeMap<u64, BTreeMap<Hash, Known>>,
    current: Arc<Published>,
    recent: BTreeMap<u64, Arc<Published>>,
    versions: BTreeMap<u64, VersionRecord>,
    /// Rounds that were undone, to be held again.
    undone: u64,
    /// The version with which training last went back.
    went_back: Option<u64>,
    /// Somebody who had enrolled then withdrew, and is to be unlearnt.
    unlearn: Option<Millis>,
    /// The latest moment that a version or a device was given.
    latest: Millis,
}

/// The answer to a check-in.
#[derive(Debug)]
pub enum CheckIn {
    /// The device is asked to take part.
    Asked {
        /// The terms, encoded.
        terms: Bytes,
        /// The model to train on.
        model: Arc<Published>,
        /// The device's place in the cohort, where updates are sealed.
        seat: Option<u32>,
        /// The version with which training last went back: private models from before it are of no use.
        went_back: Option<u64>,
    },
    /// Nothing to do now.
    Later {
        /// Seconds until the device should come back.
        seconds: u32,
        /// Why: `waiting`, `done`, `paused`, `finished`.
        state: &'static str,
    },
}

/// Who a credential belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// This device.
    Device(u32),
    /// One that an operator has shut out.
    Revoked,
    /// Nobody.
    Unknown,
}

/// What is stored of a federation, to begin or go on with.
pub struct Founded {
    /// Its record.
    pub record: FederationRecord,
    /// Its devices.
    pub devices: Vec<DeviceRecord>,
    /// Its round under way.
    pub round: Option<OpenRound>,
    /// Receipts of rounds over lately.
    pub receipts: Vec<(u64, Receipt)>,
    /// The same of updates that came with tokens.
    pub anonymous: Vec<(u64, AnonymousReceipt)>,
    /// Its versions.
    pub versions: Vec<VersionRecord>,
    /// A secret of the server's own.
    pub secret: Hash,
    /// Where uploads may be kept, if the server has such a folder.
    pub uploads: Option<PathBuf>,
}

/// Why a federation cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum FoundError {
    /// Its configuration.
    #[error("federation {name}: {reason}")]
    Record {
        /// Its name.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// Its model.
    #[error(transparent)]
    Federation(#[from] FederationError),
}

impl Federation {
    /// One that begins, or goes on with what is stored; the coordinator is at the record's version already.
    ///
    /// # Errors
    /// If what is stored makes no sense.
    pub fn new(found: Founded, config: FederationConfig, hosted: Hosted) -> Result<Self, FoundError> {
        let Founded { record, devices, round, receipts, anonymous, versions, secret, uploads } = found;
        let Hosted { mut coordinator, rounds } = hosted;
        let wrong = |reason: String| FoundError::Record { name: record.name.clone(), reason };
        let text = std::str::from_utf8(&record.catalog).map_err(|error| wrong(error.to_string()))?;
        let items = catalog::check(text).map_err(|error| wrong(error.to_string()))?.items;
        coordinator.go_on_with(RoundId(record.next_round));
        let current = Arc::new(Published::of(&coordinator)?);
        config.check_recording(&coordinator, uploads.is_some()).map_err(|error| wrong(error.to_string()))?;
        let keeper = uploads.filter(|_| config.record_uploads).map(Keeper::new);
        let mut round = round
            .map(|found| resume_round(&mut coordinator, found, &secret, keeper.is_some()))
            .transpose()?;
        let protected = coordinator.protected();
        let in_the_open = protected.filter(|protected| protected.sends_quantized() && !protected.is_sealed());
        let words = in_the_open.map(|protected| protected.quantizer().length());
        let sent = protected.filter(|protected| protected.sends_quantized()).map(PrivacyMechanism::message_bytes);
        let mut members = Members::default();
        devices.iter().for_each(|device| members.add(device));
        round.iter_mut().for_each(|round| leave_out(round, &members));
        let mut past: BTreeMap<u64, BTreeMap<u32, Known>> = BTreeMap::new();
        for (round, Receipt { device, key, digest, .. }) in receipts {
            past.entry(round).or_default().insert(device, Known { key, digest });
        }
        let mut past_anonymous: BTreeMap<u64, BTreeMap<Hash, Known>> = BTreeMap::new();
        for (round, AnonymousReceipt { nullifier, key, digest, .. }) in anonymous {
            past_anonymous.entry(round).or_default().insert(nullifier, Known { key, digest });
        }
        let layout = coordinator.layout().clone();
        let values: u64 = layout.shapes().iter().map(|shape| 4 * shape.values() as u64).sum();
        let indices: u64 = layout.shapes().iter().map(|shape| 5 * u64::from(shape.rows)).sum();
        let limit = config.upload_bytes.unwrap_or(sent.unwrap_or(values + indices) + UPLOAD_ALLOWANCE);
        let goal = config.rounds.unwrap_or(rounds);
        let stamps = devices.iter().map(|device| device.enrolled);
        let latest = stamps.chain(versions.iter().map(|version| version.created)).chain(record.unlearn).max();
        let state = State {
            standing: record.standing,
            members,
            next_device: record.next_device,
            next_round: record.next_round,
            round,
            past,
            past_anonymous,
            recent: BTreeMap::from([(current.version.0, Arc::clone(&current))]),
            current,
            versions: versions.into_iter().map(|version| (version.version, version)).collect(),
            undone: record.undone,
            went_back: record.went_back,
            unlearn: record.unlearn,
            latest: latest.unwrap_or(0),
        };
        Ok(Self {
            id: record.id,
            name: record.name,
            created: record.created,
            items,
            goal,
            catalog: Encoded::new(record.catalog, "text/tab-separated-values; charset=utf-8"),
            upload_limit: limit.min(sottovoce_protocol::limits::MESSAGE_BYTES),
            layout,
            words,
            anonymous: coordinator.is_anonymous(),
            secret,
            keeper,
            state: Mutex::new(state),
            coordinator: Mutex::new(coordinator),
            buffers: Mutex::default(),
            wake: Notify::new(),
            config,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A handler that panicked left no half-made change: each one is a few assignments.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn coordinator(&self) -> MutexGuard<'_, Coordinator> {
        self.coordinator.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of an update at most.
    pub fn upload_limit(&self) -> u64 {
        self.upload_limit
    }

    /// Who a credential belongs to.
    pub fn caller(&self, credential: &Hash) -> Caller {
        match self.state().members.find(credential) {
            Some((number, false)) => Caller::Device(number),
            Some((_, true)) => Caller::Revoked,
            None => Caller::Unknown,
        }
    }

    /// Gives the next number and moment to a device that enrols and hands its enrolment in: numbers are written down in
    /// their order.
    pub(crate) fn number<T>(&self, now: Millis, hand_in: impl FnOnce(u32, Millis) -> T) -> T {
        let mut state = self.state();
        let enrolled = state.stamp(now);
        state.next_device += 1;
        hand_in(state.next_device - 1, enrolled)
    }

    /// Rounds after which it is finished.
    pub fn goal(&self) -> u64 {
        self.goal + self.state().undone
    }

    /// A device is enrolled, which is written down.
    pub(crate) fn enrolled(&self, record: &DeviceRecord) {
        self.state().members.add(record);
        self.wake.notify_one();
    }

    /// A device checks in.
    pub fn check_in(&self, device: u32, now: Millis) -> CheckIn {
        let mut state = self.state();
        state.members.hear(device, now);
        let current = Arc::clone(&state.current);
        if let Some(round) = &mut state.round
            && round.answer(device) == Some(&Answer::Awaited)
            && !round.is_over(now)
            && round.sealing.as_ref().is_none_or(Sealing::takes_newcomers)
        {
            let seat = round.seat(device).filter(|_| round.sealing.is_some());
            let terms = round.encoded_terms(now);
            return CheckIn::Asked { terms, model: current, seat, went_back: state.went_back };
        }
        let devices = state.members.count();
        let seconds = pace::come_back(&self.config, devices, device, now / 1000);
        let answered = state.round.as_ref().is_some_and(|round| {
            let answer = round.answer(device);
            matches!(answer, Some(Answer::Stored(_) | Answer::Token | Answer::Declined | Answer::Pending))
        });
        let word = match state.standing {
            _ if answered => "done",
            Standing::Running => "waiting",
            Standing::Paused => "paused",
            Standing::Finished | Standing::Failed(_) => "finished",
        };
        let waits = state.round.is_none() && state.standing == Standing::Running;
        drop(state);
        // Somebody is there again: perhaps enough to begin.
        if waits && self.config.present_within.is_some() {
            self.wake.notify_one();
        }
        CheckIn::Later { seconds, state: word }
    }

    /// The current version.
    pub(crate) fn current(&self) -> Arc<Published> {
        Arc::clone(&self.state().current)
    }

    /// A version that is in memory; otherwise whether there ever was one.
    pub(crate) fn version(&self, version: u64) -> Result<Arc<Published>, bool> {
        let state = self.state();
        state.recent.get(&version).cloned().ok_or(version <= state.current.version.0)
    }

    /// What leads from one version to another.
    pub(crate) fn difference(
        &self,
        version: u64,
        held: u64,
    ) -> Result<Option<Arc<Encoded>>, FederationError> {
        match self.version(version) {
            Ok(published) => published.difference(ModelVersion(held), &self.coordinator),
            Err(_) => Ok(None),
        }
    }

    /// Bytes of a model went out.
    pub(crate) fn sent(&self, bytes: u64) {
        if let Some(round) = &mut self.state().round {
            round.bytes_down += bytes;
        }
    }

    /// Whether it trains.
    pub fn standing(&self) -> Standing {
        self.state().standing.clone()
    }

    pub(crate) fn set_standing(&self, standing: Standing) {
        self.state().standing = standing;
        self.wake.notify_one();
    }

    /// A device was shut out or left, which is written down.
    pub(crate) fn gone(&self, device: u32, revoked: bool, now: Millis) {
        let mut state = self.state();
        if revoked {
            state.members.revoke(device);
        } else {
            let enrolled = state.members.get(device).map(|member| member.enrolled);
            if let Some(enrolled) = enrolled.filter(|_| self.config.unlearn == Unlearn::Retrain) {
                state.unlearn = Some(state.unlearn.map_or(enrolled, |pending| pending.min(enrolled)));
            }
            state.members.remove(device);
            state.past.values_mut().for_each(|known| {
                known.remove(&device);
            });
        }
        if let Some(round) = &mut state.round {
            round.remove(device, now);
        }
        drop(state);
        self.wake.notify_one();
    }

    /// Whether there is such a device.
    pub(crate) fn has_device(&self, device: u32) -> bool {
        self.state().members.get(device).is_some()
    }
}

/// Makes a round of what is stored of it.
fn resume_round(
    coordinator: &mut Coordinator,
    found: OpenRound,
    secret: &Hash,
    keeps_uploads: bool,
) -> Result<Round, FederationError> {
    let (federation, round) = (found.opening.federation, found.opening.round);
    coordinator.go_on_with(RoundId(round));
    let mut terms = coordinator.terms(found.opening.cohort.len())?;
    if keeps_uploads {
        terms = keeping::with_notice(terms)?;
    }
    let mut tokens = None;
    if coordinator.is_anonymous() {
        let issuer = anonymous::issuer(secret, federation, round);
        terms = anonymous::with_key(terms, &issuer)?;
        tokens = Some(Tokens::remembering(issuer, &found));
    }
    let mut round = Round::restored(found, Arc::new(terms), coordinator.rules().over_selection);
    round.tokens = tokens;
    Ok(round)
}

/// Who left or was shut out while the round was under way will not answer it, before a restart as after it.
fn leave_out(round: &mut Round, members: &Members) {
    let gone = |device: &u32| members.get(*device).is_none_or(|member| member.revoked);
    let gone: Vec<u32> = round.opening.cohort.iter().copied().filter(gone).collect();
    gone.into_iter().for_each(|device| round.remove(device, crate::now()));
}

/// A hash in hexadecimal.
pub(crate) fn hex(hash: &Hash) -> String {
    blake3::Hash::from_bytes(*hash).to_hex().to_string()
}

impl From<ClerkError> for Refused {
    fn from(error: ClerkError) -> Self {
        match error {
            ClerkError::Busy | ClerkError::Gone => Refused::Busy,
            ClerkError::Storage(_) => Refused::NotStored,
        }
    }
}
