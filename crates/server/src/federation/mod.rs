//! A federation on the server: its devices, its open round, its current version.
//!
//! Handlers change the state in memory under a short lock and pass durable changes to the commit queue; one task per
//! federation (`round_driver`) opens and closes rounds.

mod aggregation;
mod anonymous;
mod audiences;
pub mod catalog;
mod config;
mod ending;
mod keeper;
mod members;
mod norm_bound;
mod pace_steering;
mod plan;
mod published;
mod quarantine;
mod retention;
mod round;
pub(crate) mod round_driver;
mod seal;
mod unlearning;
mod uploads;
mod view;
mod waiting;

pub use audiences::{
    Advertiser, AdvertiserView, AudienceConfig, AudienceError, AudienceList, AudienceView, AudiencesView, Definition,
    ListedAudience, MeasurementView, NewAudience, NewQuestion, Size,
};
pub use catalog::CatalogError;
pub use config::{ConfigError, Criterion, FederationConfig, Unlearn};
pub use ending::{Deletion, EndError, Ending};
pub use keeper::KeeperConfig;
pub use plan::{Plan, PlanError, Schedule};
pub use published::Published;
pub use round::Admission;
pub use unlearning::RollbackError;
pub use uploads::UploadError;
pub use view::{FederationView, PrivacyView, PublicView, RoundView};

pub(crate) use audiences::{Audiences, MAX_REPORT, MAX_REQUEST};
pub(crate) use config::check_name;
pub(crate) use published::{Encoded, WIRE};

use crate::commit_queue::{CommitError, CommitQueue};
use crate::error::ServerError;
use crate::lock;
use crate::metrics::Metrics;
use crate::storage::{
    Change, DeviceRecord, FederationRecord, Hash, Millis, OpenRound, Receipt, Sender, Status, Storage, VersionRecord,
};
use crate::versions::VersionStore;
use anonymous::OneTimeTokens;
use audiences::Measuring;
use bytes::Bytes;
use members::Members;
use retention::Retention;
use round::{DeviceState, Round, UploadId};
use seal::Seal;
use sottovoce_federation::{Coordinator, FederationError, HostedFederation};
use sottovoce_privacy::PrivacyMechanism;
use sottovoce_protocol::{Layout, ModelVersion, Received, RoundId};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use tokio::sync::Notify;
use unlearning::RollbackRequest;
use waiting::TooFew;

/// Bytes of an update beside the rows of the shared model's tables: headers, lists, criteria.
const UPLOAD_ALLOWANCE: u64 = 64 << 10;
/// Decoding buffers that are reused.
const MAX_BUFFERS: usize = 16;
/// Versions in memory.
const RECENT_VERSIONS: usize = 3;

/// What federations use of the server.
#[derive(Clone)]
pub(crate) struct Services {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) queue: CommitQueue,
    pub(crate) versions: Arc<VersionStore>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) clock: Clock,
}

/// Tells the time by which rounds are held.
pub type Clock = Arc<dyn Fn() -> Millis + Send + Sync>;

/// A federation.
pub struct Federation {
    /// Its number.
    pub id: u64,
    /// Its name in URLs.
    pub name: String,
    /// Its configuration.
    pub config: FederationConfig,
    /// When it was created.
    pub created: Millis,
    /// Number of items in the catalog.
    pub items: usize,
    /// Rounds to hold, without those that rollbacks undid.
    target_rounds: u64,
    pub(crate) catalog: Encoded,
    layout: Layout,
    /// The length of quantised updates, if devices send unsealed ones.
    quantized_length: Option<usize>,
    /// Whether updates are sent with one-time tokens instead of credentials.
    anonymous: bool,
    /// The server's secret.
    secret: Hash,
    /// The largest size of an update in bytes.
    pub(crate) upload_limit: u64,
    /// The layer that seals updates.
    seal: Option<&'static str>,
    retention: Option<Retention>,
    services: Services,
    state: Mutex<State>,
    /// Held while the plan is read, changed and stored.
    planning: tokio::sync::Mutex<()>,
    coordinator: Mutex<Coordinator>,
    /// The measurement under way, if the open round is one.
    measuring: Mutex<Option<Measuring>>,
    /// Noise on a count of people, once it was computed.
    audience_noise: OnceLock<f64>,
    /// Row of each category, for audiences.
    category_rows: OnceLock<HashMap<String, u32>>,
    buffers: Mutex<Vec<Received>>,
    wake: Notify,
}

struct State {
    status: Status,
    members: Members,
    next_device: u32,
    next_round: u64,
    round: Option<Round>,
    /// Uploads of the last closed rounds, to recognise repetitions.
    past_uploads: BTreeMap<u64, BTreeMap<Sender, UploadId>>,
    current: Arc<Published>,
    recent: BTreeMap<u64, Arc<Published>>,
    versions: BTreeMap<u64, VersionRecord>,
    /// Rounds undone by rollbacks, which are held again.
    undone: u64,
    /// The version that the last rollback created.
    rolled_back: Option<u64>,
    /// A device that enrolled at this time has withdrawn, and training is to be rolled back.
    unlearn: Option<Millis>,
    /// How training goes on, beside what the configuration says.
    plan: Plan,
    /// It was deleted, and nothing of it is stored.
    deleted: bool,
    /// The end that an operator waits for.
    ending: Option<ending::EndRequest>,
    /// A rollback that an operator waits for.
    requested: Option<RollbackRequest>,
    /// Why the last attempt to open a round found no cohort.
    too_few: Option<TooFew>,
    /// The latest timestamp given to a version or a device.
    last_timestamp: Millis,
    audiences: Audiences,
}

impl State {
    /// The open round, if it has this number.
    fn open_round(&mut self, number: u64) -> Option<&mut Round> {
        self.round.as_mut().filter(|round| round.opening.round == number)
    }
}

/// The answer to a check-in.
#[derive(Debug)]
pub enum CheckIn {
    /// The device is selected for a round.
    Selected {
        /// The encoded terms.
        terms: Bytes,
        /// The model to train on.
        model: Arc<Published>,
        /// The device's index in the cohort, if updates are sealed.
        seat: Option<u32>,
        /// The version that the last rollback created: private models from before are of no use.
        rolled_back: Option<u64>,
    },
    /// Nothing to do now.
    Later {
        /// Seconds until the device should check in again.
        seconds: u32,
        /// Why: `waiting`, `done`, `paused`, `finished`, `quarantined`.
        state: &'static str,
        /// What the federation waits for, if that is no round that is open.
        waits_for: Option<String>,
        /// The current model, once something was learnt: for devices that are not asked.
        model: Option<Arc<Published>>,
    },
}

/// The holder of a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialHolder {
    /// This device.
    Device(u32),
    /// A device whose access an operator has revoked.
    Revoked,
    /// Nobody.
    Unknown,
}

/// What is stored of a federation.
pub(crate) struct StoredFederation {
    pub(crate) record: FederationRecord,
    pub(crate) devices: Vec<DeviceRecord>,
    pub(crate) round: Option<OpenRound>,
    /// Receipts of the last closed rounds.
    pub(crate) receipts: Vec<(u64, Receipt)>,
    pub(crate) versions: Vec<VersionRecord>,
    pub(crate) audiences: Audiences,
}

/// Why a stored federation cannot be resumed.
#[derive(Debug, thiserror::Error)]
#[error("federation {name}: {reason}")]
pub struct ResumeError {
    /// Its name.
    pub name: String,
    /// What is wrong.
    pub reason: String,
}

impl ResumeError {
    pub(crate) fn of<E: ToString>(name: &str) -> impl Fn(E) -> Self {
        move |error| Self { name: name.to_owned(), reason: error.to_string() }
    }
}

impl Federation {
    /// Resumes a federation, or starts a new one; the coordinator is at the record's version already.
    ///
    /// # Errors
    /// If what is stored is inconsistent.
    pub(crate) fn new(
        stored: StoredFederation,
        config: FederationConfig,
        hosted: HostedFederation,
        secret: Hash,
        uploads: Option<PathBuf>,
        services: Services,
    ) -> Result<Self, ResumeError> {
        let StoredFederation { record, devices, round, receipts, versions, audiences } = stored;
        let HostedFederation { mut coordinator, rounds } = hosted;
        let name = record.name.clone();
        let text = std::str::from_utf8(&record.catalog).map_err(ResumeError::of(&name))?;
        let items = catalog::check(text).map_err(ResumeError::of(&name))?.items;
        config.check_retention(&coordinator, uploads.is_some()).map_err(ResumeError::of(&name))?;
        coordinator.set_round(RoundId(record.next_round));
        let current = Arc::new(Published::of(&coordinator).map_err(ResumeError::of(&name))?);
        let retention = uploads.filter(|_| config.record_uploads).map(Retention::new);
        let mut members = Members::default();
        devices.iter().for_each(|device| members.add(device));
        audiences.check(&name, &config)?;
        let measures = |round: &OpenRound| audiences::resume(&audiences, round, &config, &mut coordinator).transpose();
        let measuring = round.as_ref().and_then(measures).transpose().map_err(ResumeError::of(&name))?;
        let (measuring, mut round) = match (measuring, round) {
            (Some((measuring, round)), _) => (Some(measuring), Some(round)),
            (None, round) => {
                let resumed = round.map(|round| resume_round(&mut coordinator, round, &secret, retention.is_some()));
                (None, resumed.transpose().map_err(ResumeError::of(&name))?)
            }
        };
        round.iter_mut().for_each(|round| decline_departed(round, &members));
        let mut past_uploads: BTreeMap<u64, BTreeMap<Sender, UploadId>> = BTreeMap::new();
        for (round, Receipt { sender, key, digest, .. }) in receipts {
            past_uploads.entry(round).or_default().insert(sender, UploadId { key, digest });
        }
        let stamps = devices.iter().map(|device| device.enrolled);
        let stamps = stamps.chain(versions.iter().map(|version| version.created)).chain(record.unlearn);
        let state = State {
            status: record.status,
            members,
            next_device: record.next_device,
            next_round: record.next_round,
            round,
            past_uploads,
            recent: BTreeMap::from([(current.version.0, Arc::clone(&current))]),
            current,
            last_timestamp: stamps.max().unwrap_or(0),
            versions: versions.into_iter().map(|version| (version.version, version)).collect(),
            undone: record.undone,
            rolled_back: record.rolled_back,
            unlearn: record.unlearn,
            plan: Plan::read(&record.plan).map_err(ResumeError::of(&name))?,
            deleted: false,
            ending: None,
            requested: None,
            too_few: None,
            audiences,
        };
        let quantized = coordinator.privacy().filter(|protected| protected.sends_quantized());
        Ok(Self {
            id: record.id,
            name,
            created: record.created,
            items,
            target_rounds: config.rounds.unwrap_or(rounds),
            catalog: Encoded::new(record.catalog, "text/tab-separated-values; charset=utf-8"),
            upload_limit: upload_limit(&config, &coordinator),
            layout: coordinator.layout().clone(),
            quantized_length: quantized
                .filter(|protected| !protected.is_sealed())
                .map(|protected| protected.quantizer().length()),
            anonymous: coordinator.is_anonymous(),
            seal: quantized.and_then(|protected| protected.config().seal.as_ref()).map(sottovoce_privacy::Seal::layer),
            secret,
            retention,
            services,
            state: Mutex::new(state),
            planning: tokio::sync::Mutex::default(),
            coordinator: Mutex::new(coordinator),
            measuring: Mutex::new(measuring),
            audience_noise: OnceLock::new(),
            category_rows: OnceLock::new(),
            buffers: Mutex::default(),
            wake: Notify::new(),
            config,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Rounds of training, those that rollbacks undid, and measurements.
    fn rounds_to_hold(&self, state: &State) -> u64 {
        self.planned_rounds(state).saturating_add(state.audiences.measuring_rounds())
    }

    /// The time by which rounds are held.
    fn now(&self) -> Millis {
        (self.services.clock)()
    }

    fn coordinator(&self) -> MutexGuard<'_, Coordinator> {
        lock(&self.coordinator)
    }

    /// The holder of a credential.
    pub fn credential_holder(&self, credential: &Hash) -> CredentialHolder {
        match self.state().members.find(credential) {
            Some((number, false)) => CredentialHolder::Device(number),
            Some((_, true)) => CredentialHolder::Revoked,
            None => CredentialHolder::Unknown,
        }
    }

    /// Enrols a device with a token; returns its number.
    pub(crate) async fn add_device(&self, credential: Hash, token: u64) -> Result<u32, CommitError> {
        let (federation, seen, revoked, quarantine) = (self.id, crate::now(), false, None);
        // Enqueued under the lock: numbers are stored in ascending order.
        let (device, enqueued) = {
            let mut state = self.state();
            let (enrolled, number) = (state.next_timestamp(seen), state.next_device);
            state.next_device += 1;
            let device = DeviceRecord { federation, number, credential, enrolled, seen, revoked, quarantine };
            (device.clone(), self.services.queue.enqueue(vec![Change::Enrol { device, token }])?)
        };
        enqueued.done().await?;
        self.state().members.add(&device);
        self.wake.notify_one();
        self.services.metrics.enrolled(&self.name);
        Ok(device.number)
    }

    /// Whether a device has used its credential, so that nobody needs to be told it again.
    pub(crate) fn has_called(&self, device: u32) -> bool {
        self.state().members.get(device).is_some_and(|member| member.has_called)
    }

    /// Answers a device that checks in and says whether it takes part in audiences.
    pub fn check_in(&self, device: u32, in_audiences: bool, now: Millis) -> CheckIn {
        let mut state = self.state();
        state.members.mark_seen(device, in_audiences, now);
        let (current, rolled_back) = (Arc::clone(&state.current), state.rolled_back);
        if let Some(round) = &mut state.round
            && round.device(device) == Some(&DeviceState::Waiting)
            && !round.is_over(now)
            && round.seal.as_ref().is_none_or(Seal::accepts_devices)
        {
            let seat = round.seat(device).filter(|_| round.seal.is_some());
            return CheckIn::Selected { terms: round.encoded_terms(now), model: current, seat, rolled_back };
        }
        let seconds = pace_steering::check_in_delay(&self.config, state.members.count(), device, now / 1000);
        let answered = state.round.as_ref().and_then(|round| round.device(device));
        let quarantined = state.members.get(device).is_some_and(|member| member.quarantine.is_some());
        let word = match state.status {
            _ if quarantined => "quarantined",
            _ if answered.is_some_and(|answer| *answer != DeviceState::Waiting) => "done",
            Status::Running => "waiting",
            // Audiences are measured for as long as they are open.
            Status::Finished if in_audiences && self.config.audiences.is_some() => "waiting",
            Status::Paused => "paused",
            Status::Finished | Status::Failed(_) | Status::Archived => "finished",
        };
        let waits = state.round.is_none() && state.status == Status::Running;
        let waits_for = waits.then(|| self.waits_for(&state)).flatten();
        drop(state);
        // With this device there may be enough to open a round.
        if waits && self.config.present_within.is_some() {
            self.wake.notify_one();
        }
        let model = Some(current).filter(|model| model.version.0 > 0);
        CheckIn::Later { seconds, state: word, waits_for, model }
    }

    /// The current version.
    pub(crate) fn current(&self) -> Arc<Published> {
        Arc::clone(&self.state().current)
    }

    /// The current version, and the version that the last rollback created.
    pub(crate) fn current_terms(&self) -> (Arc<Published>, Option<u64>) {
        let state = self.state();
        (Arc::clone(&state.current), state.rolled_back)
    }

    /// A version that is in memory; otherwise whether it ever existed.
    pub(crate) fn version(&self, version: u64) -> Result<Arc<Published>, bool> {
        let state = self.state();
        state.recent.get(&version).cloned().ok_or(version <= state.current.version.0)
    }

    /// The difference between two versions.
    pub(crate) fn difference(&self, version: u64, held: u64) -> Result<Option<Arc<Encoded>>, FederationError> {
        match self.version(version) {
            Ok(published) => published.difference(ModelVersion(held), &self.coordinator),
            Err(_) => Ok(None),
        }
    }

    /// Counts bytes of a model that were sent.
    pub(crate) fn count_sent(&self, bytes: u64) {
        if let Some(round) = &mut self.state().round {
            round.record.bytes_down += bytes;
        }
        self.services.metrics.sent(&self.name, bytes);
    }

    /// Whether it trains.
    pub fn status(&self) -> Status {
        self.state().status.clone()
    }

    async fn commit(&self, change: Change) -> Result<(), CommitError> {
        self.services.queue.commit(vec![change]).await
    }

    /// Changes whether it trains.
    ///
    /// # Errors
    /// If that cannot be stored.
    pub async fn set_status(&self, status: Status) -> Result<(), CommitError> {
        self.commit(Change::SetStatus { federation: self.id, status: status.clone() }).await?;
        self.state().status = status;
        self.wake.notify_one();
        Ok(())
    }

    /// Revokes a device's access.
    ///
    /// # Errors
    /// If that could not be stored.
    pub async fn revoke(&self, device: u32) -> Result<(), CommitError> {
        self.commit(Change::Revoke { federation: self.id, device }).await?;
        let mut state = self.state();
        state.members.revoke(device);
        self.leave_round(state, device);
        Ok(())
    }

    /// Withdraws a device: deletes its data and, if the configuration says so, rolls training back to before it
    /// enrolled.
    ///
    /// # Errors
    /// If its retained uploads could not be deleted, or the withdrawal could not be stored.
    pub async fn withdraw(&self, device: u32) -> Result<(), ServerError> {
        let _lock = self.delete_uploads(device).await?;
        let unlearn = self.config.unlearn == Unlearn::Retrain;
        self.commit(Change::Withdraw { federation: self.id, device, unlearn }).await?;
        let mut state = self.state();
        let enrolled = state.members.get(device).map(|member| member.enrolled);
        if let Some(enrolled) = enrolled.filter(|_| unlearn) {
            state.unlearn = Some(state.unlearn.map_or(enrolled, |pending| pending.min(enrolled)));
        }
        state.members.remove(device);
        state.audiences.forget(device);
        state.past_uploads.values_mut().for_each(|uploads| drop(uploads.remove(&Sender::Device(device))));
        self.leave_round(state, device);
        Ok(())
    }

    fn leave_round(&self, mut state: MutexGuard<'_, State>, device: u32) {
        if let Some(round) = &mut state.round {
            round.remove(device, crate::now());
        }
        self.wake.notify_one();
    }

    /// Numbers of the versions that are stored.
    pub(crate) fn versions(&self) -> Vec<u64> {
        self.state().versions.keys().copied().collect()
    }

    /// Whether there is such a device.
    pub(crate) fn has_device(&self, device: u32) -> bool {
        self.state().members.get(device).is_some()
    }
}

/// The largest size of an update: as configured, or that of an update of all rows.
fn upload_limit(config: &FederationConfig, coordinator: &Coordinator) -> u64 {
    let quantized = coordinator.privacy().filter(|protected| protected.sends_quantized());
    let shapes = coordinator.layout().shapes();
    let rows = || shapes.iter().map(|shape| 4 * shape.values() as u64 + 5 * u64::from(shape.rows)).sum();
    let update: u64 = quantized.map(PrivacyMechanism::message_bytes).unwrap_or_else(rows);
    config.upload_bytes.unwrap_or(update + UPLOAD_ALLOWANCE).min(sottovoce_protocol::limits::MESSAGE_BYTES)
}

/// Restores an open round.
fn resume_round(
    coordinator: &mut Coordinator,
    stored: OpenRound,
    secret: &Hash,
    retains_uploads: bool,
) -> Result<Round, FederationError> {
    let opening = stored.opening.clone();
    coordinator.set_round(RoundId(opening.round));
    let mut terms = coordinator.terms(opening.cohort.len())?;
    let mut tokens = None;
    if coordinator.is_anonymous() {
        let issuer = anonymous::issuer(secret, opening.federation, opening.round);
        terms = anonymous::with_key(terms, &issuer)?;
        tokens = Some(OneTimeTokens::new(issuer));
    }
    // In the same order as when the round was opened: seals are bound to the terms.
    if retains_uploads {
        terms = retention::with_notice(terms)?;
    }
    let mut round = Round::new(opening, terms, coordinator.rules().over_selection, tokens);
    round.restore(stored);
    Ok(round)
}

/// Marks devices of the cohort that have left or were revoked since the cohort was drawn as declined.
fn decline_departed(round: &mut Round, members: &Members) {
    let gone = |device: &u32| members.get(*device).is_none_or(|member| member.revoked);
    let gone: Vec<u32> = round.opening.cohort.iter().copied().filter(gone).collect();
    gone.into_iter().for_each(|device| round.remove(device, crate::now()));
}
