//! What a device does next, by what it holds: no I/O, no clock.

use super::Device;
use crate::DeviceError;
use crate::history::DeviceFigures;
use crate::model_cache::Digest;
use crate::schedule::{End, Next, Rest};
use crate::state::{Membership, Pending, PrivateModel};
use crate::transport::{Method, Request, Transport};
use crate::upload_credential::UploadCredential;
use sottovoce_client::{Declined, DeviceRound, LoadedModel, Outcome, Sealing, Upload};
use sottovoce_privacy::anonymous_key;
use sottovoce_protocol::{ModelVersion, Participation, RoundId, RoundTerms, codec};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of an answer that is no model and no catalog.
const SMALL: u64 = 1 << 20;
/// Times as long as a model an encrypted sum may be.
const SEALED: u64 = 16;

/// What the caller does for the device.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Send this, and give [`Device::answer`] what came back.
    Send(Request),
    /// Call [`Device::train`]: computing, and no network.
    Train,
    /// Nothing at this moment.
    Rest(Next),
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestKind {
    Catalog,
    Enrol,
    CheckIn,
    Model,
    Difference,
    Refuse,
    Upload,
    /// Asks for the token that an upload without a name needs.
    Token,
    /// Sends the update with the token, and without a name.
    UploadAnonymously,
    /// Says something in a sealed round.
    SealMessage,
    /// Asks what there is to hear in a sealed round.
    SealAnswer,
    Withdraw,
}

/// A round that the device is asked into.
pub(super) struct RoundInvitation {
    pub(super) terms: RoundTerms,
    pub(super) digest: Digest,
    /// The device's place in the cohort, where updates are sealed.
    pub(super) client_index: Option<u32>,
    /// No difference to be had, or one that led elsewhere: take the whole model.
    pub(super) whole: bool,
    /// The catalog was fetched anew for this round.
    pub(super) catalog_is_new: bool,
}

/// Where the device is in a round; forgotten when the process ends.
pub(super) enum Phase {
    Idle,
    RoundInvitation(Box<RoundInvitation>),
    /// With the refusal as it is sent, and why, for the owner.
    Refusing {
        round: RoundId,
        bytes: Arc<[u8]>,
        why: String,
    },
}

impl Device {
    /// What to do at this time (since whichever moment the caller counts from, as long as it is always the same).
    ///
    /// # Errors
    /// If the store fails.
    pub fn next(&mut self, now: Duration) -> Result<Action, DeviceError> {
        if let Some(rest) = self.rest.clone().filter(|_| now < self.until) {
            // An owner who withdraws is not kept waiting for a round's sake.
            if !matches!(self.state.membership, Membership::Withdrawing { .. }) || self.failures > 0 {
                return Ok(Action::Rest(Next::After(self.until - now, rest)));
            }
        }
        self.rest = None;
        self.wanted(now)
    }

    /// Does what there is to do until the device rests; `now` as for [`next`](Self::next). Blocks while requests are on their
    /// way and while it learns.
    ///
    /// # Errors
    /// If the store fails. The device can go on later from what is kept.
    pub fn step(&mut self, transport: &dyn Transport, now: Duration) -> Result<Next, DeviceError> {
        loop {
            match self.next(now)? {
                Action::Send(request) => {
                    let answer = transport.send(&request);
                    if let Some(next) = self.answer(now, answer)? {
                        return Ok(next);
                    }
                }
                Action::Train => self.train(now)?,
                Action::Rest(next) => return Ok(next),
            }
        }
    }

    /// Sends what it takes to be enrolled, and no more; `None` once the device is. A fleet that gives out numbers in order
    /// calls this for one device after the other.
    ///
    /// # Errors
    /// If the store fails.
    pub fn join(&mut self, transport: &dyn Transport, now: Duration) -> Result<Option<Next>, DeviceError> {
        while matches!(self.state.membership, Membership::Enrolling { .. }) {
            let next = match self.next(now)? {
                Action::Send(request) => self.answer(now, transport.send(&request))?,
                Action::Train => None,
                Action::Rest(next) => Some(next),
            };
            if next.is_some() {
                return Ok(next);
            }
        }
        Ok(None)
    }

    fn wanted(&mut self, now: Duration) -> Result<Action, DeviceError> {
        let conditions = &self.options.conditions;
        let (may_connect, may_train) = (conditions.may_connect(), conditions.may_train());
        let wait = |rest| Ok(Action::Rest(Next::After(self.options.timing.conditions, rest)));
        match &self.state.membership {
            Membership::Withdrawn => Ok(Action::Rest(Next::Never(End::Withdrawn))),
            _ if !may_connect => wait(Rest::Conditions),
            Membership::Withdrawing { .. } => self.send(RequestKind::Withdraw),
            Membership::Enrolling { .. } if self.items.is_none() => self.send(RequestKind::Catalog),
            Membership::Enrolling { .. } => self.send(RequestKind::Enrol),
            Membership::Enrolled { .. } if self.policy.participation() == Participation::Paused => {
                wait(Rest::Paused)
            }
            Membership::Enrolled { .. } if self.state.pending.is_some() => {
                let upload_credential =
                    self.state.pending.as_ref().and_then(|pending| pending.upload_credential);
                self.send(match upload_credential.map(|upload_credential| upload_credential.text()) {
                    None => RequestKind::Upload,
                    Some(None) => RequestKind::Token,
                    Some(Some(_)) => RequestKind::UploadAnonymously,
                })
            }
            Membership::Enrolled { .. } if self.state.sealing.is_some() => {
                let says = self.state.sealing.as_ref().is_some_and(|sealing| sealing.out.is_some());
                self.send(if says { RequestKind::SealMessage } else { RequestKind::SealAnswer })
            }
            Membership::Enrolled { .. } if matches!(self.phase, Phase::Refusing { .. }) => {
                self.send(RequestKind::Refuse)
            }
            Membership::Enrolled { .. } if !may_train => wait(Rest::Conditions),
            Membership::Enrolled { .. } if self.items.is_none() => self.send(RequestKind::Catalog),
            Membership::Enrolled { .. } => self.within_round(now),
        }
    }

    fn within_round(&mut self, now: Duration) -> Result<Action, DeviceError> {
        let Phase::RoundInvitation(asked) = &self.phase else { return self.send(RequestKind::CheckIn) };
        let (digest, version) = (asked.digest, asked.terms.version);
        let fits = |digest_held: &Digest, held: ModelVersion| *digest_held == digest && held == version;
        if self.held.as_ref().is_some_and(|held| fits(&held.digest, held.model.version)) {
            return match self.check_fit() {
                Ok(true) => Ok(Action::Train),
                Ok(false) => self.send(RequestKind::Catalog),
                Err(declined) => {
                    self.refuse(&declined);
                    self.wanted(now)
                }
            };
        }
        if let Some(model) = self.options.models.find(&digest).filter(|model| model.version == version) {
            self.hold(model, digest)?;
            return self.wanted(now);
        }
        let has_older = self.held.as_ref().is_some_and(|held| held.model.version < version);
        self.send(if has_older && !asked.whole { RequestKind::Difference } else { RequestKind::Model })
    }

    /// Whether the held model has a row for each item of the catalog; if not, the catalog is worth fetching once.
    fn check_fit(&self) -> Result<bool, Declined> {
        let (Phase::RoundInvitation(asked), Some(held), Some(items)) = (&self.phase, &self.held, &self.items)
        else {
            return Ok(false);
        };
        let model = self.lend(&asked.terms)?;
        let layout = model.layout(items.len());
        self.options.models.give_back(model);
        match layout.and_then(|layout| held.model.parameters.check(&layout)) {
            Ok(()) => Ok(true),
            Err(_) if !asked.catalog_is_new => Ok(false),
            Err(error) => Err(Declined::terms(format!("the shared model does not fit the catalog: {error}"))),
        }
    }

    fn send(&mut self, request_kind: RequestKind) -> Result<Action, DeviceError> {
        self.request_kind = Some(request_kind);
        Ok(Action::Send(self.request(request_kind)))
    }

    fn request(&self, request_kind: RequestKind) -> Request {
        let base = format!("/v1/federations/{}", self.state.name);
        let (bearer, secret) = (self.bearer(), &self.state.secret);
        let get = |path: String, most| Request::new(Method::Get, path, most);
        let post = |path: String| Request::new(Method::Post, path, SMALL).with_bearer(bearer);
        // A message has names and framing beside its values.
        let most = self.options.bounds.model_bytes + SMALL;
        let version = match &self.phase {
            Phase::RoundInvitation(asked) => asked.terms.version.0,
            _ => 0,
        };
        match request_kind {
            RequestKind::Catalog => get(format!("{base}/catalog"), self.options.bounds.catalog_bytes),
            RequestKind::Enrol => {
                post(format!("{base}/devices")).with_key(secret.idempotency_key("enrol", 0))
            }
            RequestKind::CheckIn => post(format!("{base}/check-in")),
            RequestKind::Model => self.for_model(get(format!("{base}/models/{version}"), most)),
            RequestKind::Difference => {
                let held = self.held.as_ref().map_or(0, |held| held.model.version.0);
                self.for_model(get(format!("{base}/models/{version}/from/{held}"), most))
            }
            RequestKind::Refuse => {
                let (round, bytes) = match &self.phase {
                    Phase::Refusing { round, bytes, .. } => (round.0, Arc::clone(bytes)),
                    _ => (0, Arc::from([])),
                };
                post(format!("{base}/rounds/{round}/refusal")).with_body(bytes)
            }
            RequestKind::Upload => {
                let pending = self.state.pending.as_ref();
                let (round, bytes) = pending
                    .map_or((0, Arc::from([])), |pending| (pending.round.0, Arc::clone(&pending.bytes)));
                let key = secret.idempotency_key("update", round);
                post(format!("{base}/rounds/{round}/updates")).with_key(key).with_body(bytes)
            }
            RequestKind::Token | RequestKind::UploadAnonymously => self.without_a_name(request_kind, &base),
            RequestKind::SealMessage => {
                let sealing = self.state.sealing.as_ref();
                let round = sealing.map_or(0, |sealing| sealing.round.0);
                let bytes = sealing.and_then(|sealing| sealing.out.clone()).unwrap_or_else(|| Arc::from([]));
                if sealing.is_some_and(Sealing::sends_update) {
                    let key = secret.idempotency_key("update", round);
                    post(format!("{base}/rounds/{round}/updates")).with_key(key).with_body(bytes)
                } else {
                    post(format!("{base}/rounds/{round}/seal")).with_body(bytes)
                }
            }
            RequestKind::SealAnswer => {
                let round = self.state.sealing.as_ref().map_or(0, |sealing| sealing.round.0);
                get(format!("{base}/rounds/{round}/seal"), most.saturating_mul(SEALED)).with_bearer(bearer)
            }
            RequestKind::Withdraw => {
                Request::new(Method::Delete, format!("{base}/devices/me"), SMALL).with_bearer(bearer)
            }
        }
    }

    /// Of an upload without a name: first the token, by the credential; then the update, with the token and nothing else of
    /// this device.
    fn without_a_name(&self, request_kind: RequestKind, base: &str) -> Request {
        let (secret, pending) = (&self.state.secret, self.state.pending.as_ref());
        let round = pending.map_or(RoundId(0), |pending| pending.round);
        let upload_credential = pending.and_then(|pending| pending.upload_credential);
        let post = |rest: &str| {
            Request::new(Method::Post, format!("{base}/rounds/{round}/{rest}", round = round.0), SMALL)
        };
        if request_kind == RequestKind::Token {
            let blinded = upload_credential.map_or_else(
                || Arc::from([]),
                |upload_credential| Arc::from(upload_credential.blinded(secret, round)),
            );
            return post("token").with_bearer(self.bearer()).with_body(blinded);
        }
        let bytes = pending.map_or_else(|| Arc::from([]), |pending| Arc::clone(&pending.bytes));
        post("anonymous-updates")
            .with_key(secret.idempotency_key("anonymous update", round.0))
            .with_round_token(upload_credential.and_then(|upload_credential| upload_credential.text()))
            .with_body(bytes)
    }

    /// ModelCache are the same for all and may come from elsewhere than the server: no credential goes along unless it is asked for.
    fn for_model(&self, request: Request) -> Request {
        if self.models_are_private { request.with_bearer(self.bearer()) } else { request }
    }

    fn bearer(&self) -> &str {
        match &self.state.membership {
            Membership::Enrolling { token } => token,
            Membership::Enrolled { credential, .. } | Membership::Withdrawing { credential } => credential,
            Membership::Withdrawn => "",
        }
    }

    /// Learns for the round that [`next`](Self::next) said is ready, and keeps new private model, ledger and update in one
    /// step, before anything is sent. Killed in the middle, the device does the same again, to the same bytes.
    ///
    /// # Errors
    /// If the store fails.
    pub fn train(&mut self, now: Duration) -> Result<(), DeviceError> {
        let Phase::RoundInvitation(asked) = &self.phase else { return Ok(()) };
        let round = asked.terms.round;
        let mut ledger = self.state.ledger.clone();
        match self.run_round(now, &mut ledger) {
            Ok((Outcome { private, disclosed, upload }, credential)) => {
                let model = asked.terms.model.clone();
                let stored = |values| PrivateModel { model: model.clone(), values };
                let sends_nothing = matches!(upload, Upload::Nothing);
                self.change(|state| {
                    state.private = Some(stored(private));
                    state.disclosed = disclosed.map(stored).or(state.disclosed.take());
                    match upload {
                        Upload::Message(bytes) => {
                            state.pending = Some(Pending { round, bytes, upload_credential: credential });
                        }
                        Upload::Sealed(sealing) => state.sealing = Some(sealing),
                        Upload::Nothing => return Ok(()),
                    }
                    state.ledger = ledger;
                    state.answered = Some(round);
                    Ok(())
                })?;
                match sends_nothing {
                    true => self.refuse(&Declined::NothingDisclosed),
                    false => self.phase = Phase::Idle,
                }
            }
            Err(declined) => self.refuse(&declined),
        }
        Ok(())
    }

    /// Runs the client's half of the round, and makes the credential of an anonymous upload.
    fn run_round(
        &self,
        now: Duration,
        ledger: &mut sottovoce_protocol::Ledger,
    ) -> Result<(Outcome, Option<UploadCredential>), Declined> {
        let (Phase::RoundInvitation(asked), Some(held)) = (&self.phase, &self.held) else {
            return Err(Declined::NoHistory);
        };
        let (terms, state) = (&asked.terms, &self.state);
        let key = anonymous_key(&terms.privacy).map_err(Declined::terms)?;
        let round = DeviceRound {
            terms,
            shared: &held.model,
            history: &self.rows.rows,
            figures: &DeviceFigures { rows: &self.rows, items: self.items.as_deref(), now: now.as_secs() },
            policy: &self.policy,
            randomness: &state.seeds.in_round(
                &state.secret,
                &state.disclosure_secret,
                &terms.model.name,
                terms.round,
            ),
            key: state.key.as_ref(),
            identity: self.signing_identity(),
            client_index: asked.client_index,
            when: now.as_secs(),
        };
        let of_model = |private: &Option<PrivateModel>| {
            let private = private.as_ref().filter(|private| private.model.name == terms.model.name);
            private.map(|private| private.values.clone())
        };
        let (private, disclosed) = (of_model(&state.private), of_model(&state.disclosed));
        let mut model = self.lend(terms)?;
        let outcome = model.run_round(&round, (private.as_deref(), disclosed.as_deref()), ledger);
        self.options.models.give_back(model);
        Ok((outcome?, key.map(|key| UploadCredential::new(terms.federation, key))))
    }

    pub(super) fn lend(&self, terms: &RoundTerms) -> Result<Box<LoadedModel>, Declined> {
        let facts = self.items.as_ref().and_then(|items| items.facts());
        let lent = self.options.models.lend(&terms.model, facts);
        lent.map_err(|error| Declined::Terms {
            why: error.to_string(),
            refusal: sottovoce_protocol::Refusal::UnknownModel(terms.model.name.clone()),
        })
    }

    /// Turns to saying no to the round that the device is asked into.
    pub(super) fn refuse(&mut self, declined: &Declined) {
        let Phase::RoundInvitation(asked) = &self.phase else { return };
        let (federation, round) = (asked.terms.federation, asked.terms.round);
        let mut bytes = Vec::new();
        codec::encode_refusal(federation, round, &declined.refusal(), &mut bytes);
        self.phase = Phase::Refusing { round, bytes: bytes.into(), why: declined.to_string() };
    }
}
