//! A device: its state, and how it is created.

mod audiences;
mod fitting;
mod identity;
mod owner;
mod protection;
mod recommend;
mod requests;
mod responses;

pub use audiences::AudienceMembership;
pub use owner::DisclosedItem;
pub use recommend::{Explanation, Recommendation, RecommendedItem};
pub use requests::Action;

use crate::bounds::Bounds;
use crate::history::{History, Rows};
use crate::model_cache::{ModelCache, NoCache};
use crate::protection::{Protection, split_token};
use crate::reading::{self, PageVectors, ReadPage};
use crate::schedule::{Always, Conditions, Timing, WaitReason};
use crate::state::{self, Membership, State};
use crate::store::{Store, StoreError};
use crate::{DeviceError, Items};
use requests::{Phase, RequestKind};
use sottovoce_client::{Digest, LoadedModel, Secret, Seeds};
use sottovoce_privacy::secagg::Roster;
use sottovoce_protocol::{Policy, RoundId, SharedModel};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// How a device joins a federation.
#[derive(Clone, Debug)]
pub struct Enrolment {
    /// The server's address; stored for the embedder, not used by the device itself.
    pub server: String,
    /// The server's certificate authority as PEM, or empty; stored for the embedder as well.
    pub ca: String,
    /// The federation's name.
    pub federation: String,
    /// The operator's enrolment token, which may carry a digest of what the federation was founded with.
    pub token: String,
    /// Random bytes that never leave the device.
    pub secret: Secret,
    /// Which random numbers to train with.
    pub seeds: Seeds,
    /// What may leave the device. Hidden items are named by [`Device::hide`].
    pub policy: Policy,
    /// The owner's interactions.
    pub history: History,
    /// Pages that the owner read last, oldest first, for models that read their titles.
    pub pages: Vec<ReadPage>,
    /// The catalog, if it is at hand; saves a download.
    pub items: Option<Arc<Items>>,
    /// The key that devices of the federation share, where updates are encrypted. It must not come from the server.
    pub key: Option<[u8; 32]>,
    /// Identities of other devices, where rounds ask for them. They must not come from the server either; the policy
    /// then requires identities.
    pub roster: Option<Roster>,
    /// Layers that need the owner's word and have it: [`sottovoce_privacy::ACCEPTABLE`].
    pub accept: BTreeSet<String>,
}

impl Enrolment {
    /// With the device's own random numbers, an empty history, no pages, catalog, key or roster.
    pub fn new(server: &str, federation: &str, token: &str, secret: Secret, policy: Policy) -> Self {
        Self {
            server: server.to_owned(),
            ca: String::new(),
            federation: federation.to_owned(),
            token: token.to_owned(),
            secret,
            seeds: Seeds::Own,
            policy,
            history: History::new(),
            pages: Vec::new(),
            items: None,
            key: None,
            roster: None,
            accept: BTreeSet::new(),
        }
    }
}

/// Gives 32 random bytes that nobody else knows, others at each call.
pub type Entropy = fn() -> Result<[u8; 32], StoreError>;

/// What an embedder chooses once.
pub struct Options {
    /// Limits on what the device stores.
    pub bounds: Bounds,
    /// How long it waits.
    pub timing: Timing,
    /// When it may work.
    pub conditions: Box<dyn Conditions>,
    /// Models shared with other devices of the process.
    pub models: Arc<dyn ModelCache>,
    /// Fresh random bytes, for masks and noise.
    pub entropy: Entropy,
    /// Whether somebody wants recommendations. A device that has no model yet, or an earlier one when training is over,
    /// then downloads the current one and fits its private part by itself; nothing leaves.
    pub recommends: bool,
}

impl Default for Options {
    /// Default bounds and timing, work at all times, no shared models, random bytes of the operating system. Without
    /// the feature `files` there are none: an embedder brings them, or the device takes part in no round with noise or
    /// a seal of its own.
    fn default() -> Self {
        let (bounds, timing) = (Bounds::default(), Timing::default());
        let entropy = crate::store::system_entropy;
        let models = Arc::new(NoCache);
        Self { bounds, timing, conditions: Box::new(Always), models, entropy, recommends: true }
    }
}

/// The shared model that was downloaded last.
struct DownloadedModel {
    model: Arc<SharedModel>,
    digest: Digest,
}

/// One owner's device in one federation. The crate's documentation shows how to drive it.
pub struct Device {
    store: Box<dyn Store>,
    options: Options,
    state: State,
    items: Option<Arc<Items>>,
    /// The history in rows of the catalog.
    rows: Rows,
    /// The policy with its hidden items in rows of the catalog.
    policy: Policy,
    shared: Option<DownloadedModel>,
    phase: Phase,
    /// The request that has no response yet.
    outstanding: Option<RequestKind>,
    waiting: Option<WaitReason>,
    wait_until: Duration,
    /// Failures in a row.
    failures: u32,
    /// A round that was declined, not to be declined again.
    declined_round: Option<RoundId>,
    /// The caller's clock at its last call.
    clock: Duration,
    /// The server gives its models to its devices only.
    models_are_private: bool,
    /// A model that the device could not fit, not to be tried again.
    unfit: Option<Digest>,
    /// What the federation waits for, as the server said at the last check-in.
    waits_for: Option<String>,
    /// Identities trusted beside the roster; not stored.
    session_roster: Option<Arc<Roster>>,
}

impl Device {
    /// A new device in a store that is empty or whose device has withdrawn; in the latter case it discloses the same
    /// items as that one did. Nothing is sent yet.
    ///
    /// # Errors
    /// If the store has a device that takes part, cannot be used, or the history is too long.
    pub fn enrol(mut store: Box<dyn Store>, enrolment: Enrolment, options: Options) -> Result<Self, DeviceError> {
        let Enrolment {
            server, ca, federation, token, secret, seeds, history, pages, items, key, roster, accept, ..
        } = enrolment;
        let mut policy = enrolment.policy;
        check_name(&federation)?;
        let (token, commitment) = split_token(token);
        check_length("interactions", history.len(), options.bounds.interactions)?;
        reading::check(&pages, &options.bounds)?;
        check_length("identities", roster.as_ref().map_or(0, Roster::len), options.bounds.roster)?;
        let before = store.load()?.map(|bytes| decode(&bytes, &options.bounds)).transpose()?;
        if let Some(before) = before.as_ref().filter(|before| before.membership != Membership::Withdrawn) {
            return Err(DeviceError::Enrolled(before.name.clone()));
        }
        store.clear_downloads()?;
        if roster.is_some() {
            identity::require(&mut policy, roster.as_ref());
        }
        let state = State {
            server,
            ca,
            name: federation,
            membership: Membership::Enrolling { token },
            audiences: before.as_ref().map(|before| before.audiences.after_withdrawal()).unwrap_or_default(),
            account: before.as_ref().map(|before| before.account.clone()).unwrap_or_default(),
            disclosure_secret: before.map_or_else(|| secret.clone(), |before| before.disclosure_secret),
            secret,
            seeds,
            federation: None,
            policy,
            hidden: BTreeSet::new(),
            ledger: state::new_ledger(&options.bounds),
            history: Arc::new(history),
            pages: Arc::new(pages),
            private: None,
            disclosed: None,
            disclosed_pi: 0.0,
            fitted: None,
            last_round: None,
            pending: None,
            sealing: None,
            key,
            uploads_are_retained: false,
            roster: roster.map(Arc::new),
            protection: Protection { commitment, accepted: accept, ..Protection::default() },
        };
        if let Some(items) = &items {
            store.save_catalog(items)?;
        }
        store.commit(&state.encode())?;
        Ok(Self::with(store, options, state, items, None))
    }

    /// The device of a store.
    ///
    /// # Errors
    /// If there is none, or the store cannot be read.
    pub fn open(mut store: Box<dyn Store>, options: Options) -> Result<Self, DeviceError> {
        let bytes = store.load()?.ok_or(DeviceError::NotEnrolled)?;
        let state = decode(&bytes, &options.bounds)?;
        let items = store.load_catalog()?;
        // A model of another federation is left from a device that has withdrawn.
        let model = store.load_model()?.filter(|model| Some(model.federation) == state.federation);
        let shared = model.map(|model| DownloadedModel { digest: Digest::of(&model.parameters), model });
        Ok(Self::with(store, options, state, items, shared))
    }

    fn with(
        store: Box<dyn Store>,
        options: Options,
        state: State,
        items: Option<Arc<Items>>,
        shared: Option<DownloadedModel>,
    ) -> Self {
        let policy = state.policy.clone();
        let mut device = Self {
            store,
            options,
            state,
            items,
            rows: Rows::default(),
            policy,
            shared,
            phase: Phase::Idle,
            outstanding: None,
            waiting: None,
            wait_until: Duration::ZERO,
            failures: 0,
            declined_round: None,
            clock: Duration::ZERO,
            models_are_private: false,
            unfit: None,
            waits_for: None,
            session_roster: None,
        };
        device.resolve_items();
        device
    }

    /// Looks the history's and the policy's items up in the catalog.
    fn resolve_items(&mut self) {
        self.policy = self.state.policy.clone();
        let Some(items) = &self.items else { return };
        self.rows = self.state.history.rows(items);
        for row in self.state.hidden.iter().filter_map(|id| items.find(id)) {
            self.policy.hide(row);
        }
    }

    /// The vectors of the pages that a model reads; none for a model that reads none.
    fn page_vectors(&self, model: &LoadedModel) -> PageVectors {
        let dim = model.title_dim().filter(|_| !self.state.pages.is_empty());
        let vectors = |(dim, items): (usize, &Arc<Items>)| PageVectors::new(&self.state.pages, items, dim);
        dim.zip(self.items.as_ref()).map(vectors).unwrap_or_default()
    }

    /// Changes the state durably; after an error nothing has changed.
    fn try_update<T>(&mut self, change: impl FnOnce(&mut State) -> Result<T, DeviceError>) -> Result<T, DeviceError> {
        let mut next = self.state.clone();
        let result = change(&mut next)?;
        self.store.commit(&next.encode())?;
        let before = std::mem::replace(&mut self.state, next);
        let State { history, hidden, policy, .. } = &self.state;
        if !Arc::ptr_eq(history, &before.history) || *hidden != before.hidden || *policy != before.policy {
            self.resolve_items();
        }
        Ok(result)
    }

    /// [`try_update`](Self::try_update) with a change that cannot fail.
    fn update<T>(&mut self, change: impl FnOnce(&mut State) -> T) -> Result<T, DeviceError> {
        self.try_update(|state| Ok(change(state)))
    }

    /// Sets the number of failures in a row, for a device that is opened again for each step.
    pub fn set_failures(&mut self, failures: u32) {
        self.failures = failures;
    }

    /// The federation's name.
    pub fn federation(&self) -> &str {
        &self.state.name
    }

    /// The server's address as given at enrolment.
    pub fn server(&self) -> &str {
        &self.state.server
    }

    /// The server's certificate authority as PEM, as given at enrolment; empty for none.
    pub fn ca(&self) -> &str {
        &self.state.ca
    }

    /// The device's membership in its federation.
    pub fn membership(&self) -> &Membership {
        &self.state.membership
    }

    /// Its number in the federation, once it is enrolled.
    pub fn number(&self) -> Option<u64> {
        match self.state.membership {
            Membership::Enrolled { device, .. } => Some(device),
            _ => None,
        }
    }

    /// The catalog, once it is downloaded.
    pub fn items(&self) -> Option<&Arc<Items>> {
        self.items.as_ref()
    }

    /// The shared model that was downloaded last.
    pub fn model(&self) -> Option<&Arc<SharedModel>> {
        self.shared.as_ref().map(|shared| &shared.model)
    }

    /// The private model, once it was trained.
    pub fn private(&self) -> Option<&[f32]> {
        self.state.private.as_ref().map(|private| &private.values[..])
    }

    /// What the federation waits for, if the server said so at the last check-in.
    pub fn waits_for(&self) -> Option<&str> {
        self.waits_for.as_deref()
    }

    /// The version of the shared model that the private model was fitted to outside rounds, if it is the one held.
    pub fn fitted_version(&self) -> Option<u64> {
        let shared = self.shared.as_ref()?;
        let fitted = self.state.fitted.as_ref().filter(|fitted| fitted.digest == *shared.digest.bytes());
        fitted.map(|_| shared.model.version.0)
    }

    /// The history.
    pub fn history(&self) -> &History {
        &self.state.history
    }

    /// Pages that the owner read last, oldest first.
    pub fn pages(&self) -> &[ReadPage] {
        &self.state.pages
    }

    /// The last round for which the device made an update.
    pub fn last_round(&self) -> Option<u64> {
        self.state.last_round.map(|round| round.0)
    }

    /// Whether the server's last terms say that it retains uploads, for an audit.
    pub fn uploads_are_retained(&self) -> bool {
        self.state.uploads_are_retained
    }

    /// Whether there is an update that the server has not acknowledged; it may have left already.
    pub fn has_pending(&self) -> bool {
        self.state.pending.is_some()
    }
}

fn decode(bytes: &[u8], bounds: &Bounds) -> Result<State, DeviceError> {
    let damaged = |what| StoreError::Damaged { path: "the device's state".to_owned(), what };
    Ok(State::decode(bytes, bounds).map_err(damaged)?)
}

pub(crate) fn check_length(what: &'static str, found: usize, most: usize) -> Result<(), DeviceError> {
    if found > most { Err(DeviceError::TooLong { what, found, most }) } else { Ok(()) }
}

/// Names go into paths as they are.
fn check_name(name: &str) -> Result<(), DeviceError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let fine = (1..=128).contains(&name.len()) && name.bytes().all(plain) && !name.starts_with('.');
    if fine { Ok(()) } else { Err(DeviceError::Name(name.to_owned())) }
}
