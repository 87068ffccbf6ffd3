//! A device: what it holds, and how it comes to be.

mod identity;
mod owner;
mod recommend;
mod requests;
mod responses;

pub use owner::{ItemLeft, OwnerReport};
pub use recommend::{Explanation, Recommendation, Recommended};
pub use requests::Action;

use crate::bounds::Bounds;
use crate::history::{History, Rows};
use crate::model_cache::{Digest, ModelCache, NoCache};
use crate::schedule::{Always, Conditions, Rest, Timing};
use crate::state::{self, Membership, State};
use crate::store::{Store, StoreError};
use crate::{DeviceError, Items};
use requests::{Phase, RequestKind};
use sottovoce_client::{Secret, Seeds};
use sottovoce_privacy::secagg::Roster;
use sottovoce_protocol::{Policy, RoundId, SharedModel};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// How a device joins a federation.
#[derive(Clone, Debug)]
pub struct Enrolment {
    /// The server's address; kept for the embedder, not used by the device itself.
    pub server: String,
    /// The server's certificate authority as PEM, or empty; kept for the embedder as well.
    pub ca: String,
    /// The federation's name.
    pub federation: String,
    /// The operator's enrolment token.
    pub token: String,
    /// Random bytes that never leave the device.
    pub secret: Secret,
    /// Which random numbers to learn with.
    pub seeds: Seeds,
    /// What the owner lets leave. Hidden items are named by [`Device::hide`].
    pub policy: Policy,
    /// What the owner has.
    pub history: History,
    /// The catalog, where it is at hand: spares a download.
    pub items: Option<Arc<Items>>,
    /// The key that devices of the federation share, where updates are encrypted. It comes past the server.
    pub key: Option<[u8; 32]>,
    /// Identities of other devices, where rounds ask for them. They come past the server as well; the policy then demands them.
    pub roster: Option<Roster>,
}

impl Enrolment {
    /// With the device's own random numbers, an empty history and nothing held at hand.
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
            items: None,
            key: None,
            roster: None,
        }
    }
}

/// What an embedder chooses once.
pub struct Options {
    /// What the device holds at most.
    pub bounds: Bounds,
    /// How long it rests.
    pub timing: Timing,
    /// When it may work.
    pub conditions: Box<dyn Conditions>,
    /// What it shares with other devices of the process.
    pub models: Arc<dyn ModelCache>,
}

impl Default for Options {
    /// The default bounds and timing, work at all times, and nothing shared.
    fn default() -> Self {
        let (bounds, timing) = (Bounds::default(), Timing::default());
        Self { bounds, timing, conditions: Box::new(Always), models: Arc::new(NoCache) }
    }
}

/// A shared model that is at hand.
struct Held {
    model: Arc<SharedModel>,
    digest: Digest,
}

/// One owner's device in one federation. See the crate's documentation for how it is driven.
pub struct Device {
    store: Box<dyn Store>,
    options: Options,
    state: State,
    items: Option<Arc<Items>>,
    /// The history in rows of the catalog.
    rows: Rows,
    /// The policy with its hidden items in rows of the catalog.
    policy: Policy,
    held: Option<Held>,
    phase: Phase,
    /// What was sent last and not answered yet.
    request_kind: Option<RequestKind>,
    rest: Option<Rest>,
    /// When the rest is over.
    until: Duration,
    /// Failures in a row.
    failures: u32,
    /// A round that was refused, not to be refused again.
    declined: Option<RoundId>,
    /// The server gives its models to its devices only.
    models_are_private: bool,
    /// Identities known beside the roster; not kept.
    known: Option<Arc<Roster>>,
}

impl Device {
    /// A new device in a store that has none, or whose device has withdrawn; it then shows the same items as that one did.
    /// Nothing is sent yet.
    ///
    /// # Errors
    /// If the store has a device that takes part, cannot be used, or the history is too long.
    pub fn enrol(
        mut store: Box<dyn Store>,
        enrolment: Enrolment,
        options: Options,
    ) -> Result<Self, DeviceError> {
        check_name(&enrolment.federation)?;
        check_length(enrolment.history.len(), &options.bounds)?;
        identity::check(enrolment.roster.as_ref(), &options.bounds)?;
        let before = store.load()?.map(|bytes| decode(&bytes, &options.bounds)).transpose()?;
        if let Some(before) = before.as_ref().filter(|before| before.membership != Membership::Withdrawn) {
            return Err(DeviceError::Enrolled(before.name.clone()));
        }
        store.forget()?;
        let Enrolment {
            server,
            ca,
            federation,
            token,
            secret,
            seeds,
            mut policy,
            history,
            items,
            key,
            roster,
        } = enrolment;
        if roster.is_some() {
            identity::demand(&mut policy, roster.as_ref());
        }
        let state = State {
            server,
            ca,
            name: federation,
            membership: Membership::Enrolling { token },
            disclosure_secret: before.map_or_else(|| secret.clone(), |before| before.disclosure_secret),
            secret,
            seeds,
            federation: None,
            policy,
            hidden: BTreeSet::new(),
            ledger: state::new_ledger(&options.bounds),
            history: Arc::new(history),
            private: None,
            disclosed: None,
            answered: None,
            pending: None,
            sealing: None,
            key,
            uploads_are_kept: false,
            roster: roster.map(Arc::new),
        };
        if let Some(items) = &items {
            store.keep_items(items)?;
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
        let items = store.items()?;
        // A model of another federation is left from a device that has withdrawn.
        let model = store.model()?.filter(|model| Some(model.federation) == state.federation);
        let held = model.map(|model| Held { digest: Digest::of(&model.parameters), model });
        Ok(Self::with(store, options, state, items, held))
    }

    fn with(
        store: Box<dyn Store>,
        options: Options,
        state: State,
        items: Option<Arc<Items>>,
        held: Option<Held>,
    ) -> Self {
        let policy = state.policy.clone();
        let mut device = Self {
            store,
            options,
            state,
            items,
            rows: Rows::default(),
            policy,
            held,
            phase: Phase::Idle,
            request_kind: None,
            rest: None,
            until: Duration::ZERO,
            failures: 0,
            declined: None,
            models_are_private: false,
            known: None,
        };
        device.resolve_items();
        device
    }

    /// Finds the history's and the policy's items in the catalog.
    fn resolve_items(&mut self) {
        self.policy = self.state.policy.clone();
        let Some(items) = &self.items else { return };
        self.rows = self.state.history.rows(items);
        for row in self.state.hidden.iter().filter_map(|id| items.find(id)) {
            self.policy.hide(row);
        }
    }

    /// Changes the state durably: if it cannot be kept, nothing has changed.
    fn change<T>(
        &mut self,
        change: impl FnOnce(&mut State) -> Result<T, DeviceError>,
    ) -> Result<T, DeviceError> {
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

    /// Goes on counting failures in a row from here: for a device that is opened anew for each step.
    pub fn count_failures_from(&mut self, failures: u32) {
        self.failures = failures;
    }

    /// The federation's name.
    pub fn federation(&self) -> &str {
        &self.state.name
    }

    /// The server's address as it was given at enrolment.
    pub fn server(&self) -> &str {
        &self.state.server
    }

    /// The server's certificate authority as PEM, as it was given at enrolment; empty for none.
    pub fn ca(&self) -> &str {
        &self.state.ca
    }

    /// Where the device stands with its federation.
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

    /// The catalog, once it is there.
    pub fn items(&self) -> Option<&Arc<Items>> {
        self.items.as_ref()
    }

    /// The shared model held, if there is one.
    pub fn model(&self) -> Option<&Arc<SharedModel>> {
        self.held.as_ref().map(|held| &held.model)
    }

    /// The private model, if a round was learnt in.
    pub fn private(&self) -> Option<&[f32]> {
        self.state.private.as_ref().map(|private| &private.values[..])
    }

    /// The history.
    pub fn history(&self) -> &History {
        &self.state.history
    }

    /// The last round for which the device made an update.
    pub fn last_round(&self) -> Option<u64> {
        self.state.answered.map(|round| round.0)
    }

    /// Whether the server said with its last terms that it keeps uploads, for an audit.
    pub fn uploads_are_kept(&self) -> bool {
        self.state.uploads_are_kept
    }

    /// Whether an update is ready that the server has not acknowledged; its bytes may have left.
    pub fn has_pending(&self) -> bool {
        self.state.pending.is_some()
    }
}

fn decode(bytes: &[u8], bounds: &Bounds) -> Result<State, DeviceError> {
    let damaged = |what| StoreError::Damaged { path: "the device's state".to_owned(), what };
    Ok(State::decode(bytes, bounds).map_err(damaged)?)
}

fn check_length(found: usize, bounds: &Bounds) -> Result<(), DeviceError> {
    let most = bounds.interactions;
    if found > most { Err(DeviceError::TooLong { found, most }) } else { Ok(()) }
}

/// Names go into paths as they are.
fn check_name(name: &str) -> Result<(), DeviceError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let fine = (1..=128).contains(&name.len()) && name.bytes().all(plain) && !name.starts_with('.');
    if fine { Ok(()) } else { Err(DeviceError::Name(name.to_owned())) }
}
