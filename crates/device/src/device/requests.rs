//! What a device does next, by its state: no I/O, no clock.

use super::{Device, audiences};
use crate::DeviceError;
use crate::audiences::Spending;
use crate::history::DeviceFigures;
use crate::schedule::{NextStep, StopReason, WaitReason};
use crate::state::{Membership, Pending, PrivateModel};
use crate::transport::{Method, Request, Transport};
use crate::upload_credential::UploadCredential;
use sottovoce_client::{Declined, DeviceRound, Digest, LoadedModel, Outcome, Sealing, Upload, policy_in};
use sottovoce_privacy::dp::accountant::Round;
use sottovoce_privacy::tokens::to_hex;
use sottovoce_privacy::{PrivacyConfig, anonymous_key};
use sottovoce_protocol::{Ledger, ModelSpec, Participation, Refusal, RoundId, RoundTerms, codec};
use std::sync::Arc;
use std::time::Duration;

/// Limit on the bytes of a response that is neither a model nor a catalog.
const SMALL_RESPONSE: u64 = 1 << 20;
/// How many times as long as a model an encrypted sum may be.
const ENCRYPTION_OVERHEAD: u64 = 16;

/// What the caller does for the device.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Send this request, and pass the response to [`Device::handle_response`].
    Send(Request),
    /// Call [`Device::train`], which computes and needs no network.
    Train,
    /// Nothing at this moment.
    Idle(NextStep),
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestKind {
    Catalog,
    Enrol,
    CheckIn,
    /// What there is to know of the current model, outside rounds.
    CurrentModel,
    Model,
    Difference,
    Refuse,
    Upload,
    /// The one-time token that an anonymous upload needs.
    Token,
    /// The update with the token instead of the device's credential.
    UploadAnonymously,
    /// A message of a sealed round to the server.
    SendSealed,
    /// The server's next message of a sealed round.
    ReceiveSealed,
    Withdraw,
    /// The list of audiences.
    Audiences,
    /// Tokens for the audiences of a rotation.
    AudienceTokens,
    /// A segment id with a token instead of the device's credential.
    Report,
}

/// A round that the device is invited to; or a model that it fits by itself.
pub(super) struct Invitation {
    pub(super) terms: RoundTerms,
    /// Of the shared model.
    pub(super) digest: Digest,
    /// The device's index in the cohort, where updates are sealed.
    pub(super) client_index: Option<u32>,
    /// There is no difference to download, or it led to another model: download the whole model.
    pub(super) whole_model: bool,
    /// The catalog was downloaded again for this round.
    pub(super) catalog_is_new: bool,
    /// There is no round: the device fits its private model, and nothing leaves.
    pub(super) fits_alone: bool,
}

/// Where the device is in a round; not stored.
pub(super) enum Phase {
    Idle,
    /// There is a model that the device does not recommend with yet.
    Behind(Digest),
    Invited(Box<Invitation>),
    /// The encoded refusal is to be sent.
    Refusing {
        round: RoundId,
        bytes: Arc<[u8]>,
        /// For the owner.
        why: String,
    },
}

impl Device {
    /// What to do at this time. Times count from whichever moment the caller chooses, as long as it is always the same.
    ///
    /// # Errors
    /// If the store fails.
    pub fn next_action(&mut self, now: Duration) -> Result<Action, DeviceError> {
        if let Some(reason) = self.waiting.clone().filter(|_| now < self.wait_until) {
            // An owner who withdraws does not have to wait, unless the server cannot be reached.
            if !matches!(self.state.membership, Membership::Withdrawing { .. }) || self.failures > 0 {
                return Ok(Action::Idle(NextStep::Wait(self.wait_until - now, reason)));
            }
        }
        self.waiting = None;
        self.clock = now;
        self.choose_action(now)
    }

    /// Does all there is to do, until the device has to wait; `now` as for [`next_action`](Self::next_action). Blocks
    /// during requests and training.
    ///
    /// # Errors
    /// If the store fails. The device can go on later from its stored state.
    pub fn step(&mut self, transport: &dyn Transport, now: Duration) -> Result<NextStep, DeviceError> {
        loop {
            if let Some(next) = self.act(transport, now)? {
                return Ok(next);
            }
        }
    }

    /// Enrols the device, and does no more; `None` once it is enrolled. A fleet that assigns numbers in order calls
    /// this for one device after the other.
    ///
    /// # Errors
    /// If the store fails.
    pub fn join(&mut self, transport: &dyn Transport, now: Duration) -> Result<Option<NextStep>, DeviceError> {
        let mut next = None;
        while next.is_none() && matches!(self.state.membership, Membership::Enrolling { .. }) {
            next = self.act(transport, now)?;
        }
        Ok(next)
    }

    fn act(&mut self, transport: &dyn Transport, now: Duration) -> Result<Option<NextStep>, DeviceError> {
        match self.next_action(now)? {
            Action::Send(request) => self.handle_response(now, transport.send(&request)),
            Action::Train => self.train(now).map(|()| None),
            Action::Idle(next) => Ok(Some(next)),
        }
    }

    fn choose_action(&mut self, now: Duration) -> Result<Action, DeviceError> {
        let conditions = &self.options.conditions;
        let (may_connect, may_train) = (conditions.may_connect(), conditions.may_train());
        let interval = self.options.timing.conditions_interval;
        let wait = |reason| Ok(Action::Idle(NextStep::Wait(interval, reason)));
        match &self.state.membership {
            Membership::Withdrawn => return Ok(Action::Idle(NextStep::Stop(StopReason::Withdrawn))),
            _ if !may_connect => return wait(WaitReason::Conditions),
            Membership::Withdrawing { .. } => return Ok(self.send(RequestKind::Withdraw)),
            Membership::Enrolling { .. } if self.items.is_none() => {
                return Ok(self.send(RequestKind::Catalog));
            }
            Membership::Enrolling { .. } => return Ok(self.send(RequestKind::Enrol)),
            Membership::Enrolled { .. } => (),
        }
        if self.policy.participation() == Participation::Paused {
            return wait(WaitReason::Paused);
        }
        if let Some(pending) = &self.state.pending {
            let kind = match pending.upload_credential.map(|credential| credential.text()) {
                None => RequestKind::Upload,
                Some(None) => RequestKind::Token,
                Some(Some(_)) => RequestKind::UploadAnonymously,
            };
            return Ok(self.send(kind));
        }
        if let Some(sealing) = &self.state.sealing {
            let kind = if sealing.out.is_some() { RequestKind::SendSealed } else { RequestKind::ReceiveSealed };
            return Ok(self.send(kind));
        }
        if matches!(self.phase, Phase::Idle)
            && let Some(kind) = self.next_audience_request(now)?
        {
            return Ok(self.send(kind));
        }
        match &self.phase {
            Phase::Refusing { .. } => Ok(self.send(RequestKind::Refuse)),
            _ if !may_train => wait(WaitReason::Conditions),
            _ if self.items.is_none() => Ok(self.send(RequestKind::Catalog)),
            Phase::Idle => Ok(self.send(RequestKind::CheckIn)),
            Phase::Behind(_) => Ok(self.send(RequestKind::CurrentModel)),
            Phase::Invited(_) => self.prepare_round(now),
        }
    }

    /// Downloads what is missing for the round, and trains once all is there.
    fn prepare_round(&mut self, now: Duration) -> Result<Action, DeviceError> {
        let Phase::Invited(invitation) = &self.phase else { return Ok(self.send(RequestKind::CheckIn)) };
        let (digest, version) = (invitation.digest, invitation.terms.version);
        if self.shared.as_ref().is_some_and(|shared| (shared.digest, shared.model.version) == (digest, version)) {
            return match self.model_fits_catalog() {
                Ok(true) => Ok(Action::Train),
                Ok(false) => Ok(self.send(RequestKind::Catalog)),
                Err(declined) => {
                    self.refuse(&declined);
                    self.choose_action(now)
                }
            };
        }
        if let Some(model) = self.options.models.get(&digest).filter(|model| model.version == version) {
            self.save_model(model, digest)?;
            return self.choose_action(now);
        }
        let has_older = self.shared.as_ref().is_some_and(|shared| shared.model.version < version);
        let difference = has_older && !invitation.whole_model;
        Ok(self.send(if difference { RequestKind::Difference } else { RequestKind::Model }))
    }

    /// Whether the shared model has a row for each item of the catalog. If not, the catalog is downloaded again, once.
    fn model_fits_catalog(&self) -> Result<bool, Declined> {
        let (Phase::Invited(invitation), Some(shared), Some(items)) = (&self.phase, &self.shared, &self.items) else {
            return Ok(false);
        };
        let model = self.load_model(&audiences::shared_model(&invitation.terms)?)?;
        let layout = model.layout(items.len());
        self.options.models.release(model);
        match layout.and_then(|layout| shared.model.parameters.check(&layout)) {
            Ok(()) => Ok(true),
            Err(_) if !invitation.catalog_is_new => Ok(false),
            Err(error) => Err(Declined::terms(format!("the shared model does not fit the catalog: {error}"))),
        }
    }

    fn send(&mut self, kind: RequestKind) -> Action {
        self.outstanding = Some(kind);
        Action::Send(self.request(kind))
    }

    fn request(&self, kind: RequestKind) -> Request {
        let base = format!("/v1/federations/{}", self.state.name);
        let (bearer, secret) = (Some(self.bearer().to_owned()), &self.state.secret);
        let get = |path: &str, max_response_bytes| {
            let path = format!("{base}/{path}");
            Request { path, max_response_bytes, ..Request::default() }
        };
        let with_bearer = |request| Request { bearer: bearer.clone(), ..request };
        let post = |path: &str| Request { method: Method::Post, ..with_bearer(get(path, SMALL_RESPONSE)) };
        let update = |round: u64, body| {
            let idempotency_key = Some(secret.idempotency_key("update", round));
            Request { idempotency_key, body, ..post(&format!("rounds/{round}/updates")) }
        };
        // Models are the same for all devices and may come from a cache: no credential is sent unless the server
        // demands it. A message has names and framing beside its values.
        let limit = self.options.bounds.model_bytes + SMALL_RESPONSE;
        let model = |path: String| {
            let request = get(&path, limit);
            if self.models_are_private { with_bearer(request) } else { request }
        };
        let version = match &self.phase {
            Phase::Invited(invitation) => invitation.terms.version.0,
            _ => 0,
        };
        let (pending, sealing) = (self.state.pending.as_ref(), self.state.sealing.as_ref());
        let credential = pending.and_then(|pending| pending.upload_credential);
        let (round, bytes) =
            pending.map_or_else(Default::default, |pending| (pending.round, Arc::clone(&pending.bytes)));
        let sealed_round = sealing.map_or(0, |sealing| sealing.round.0);
        match kind {
            RequestKind::Catalog => get("catalog", self.options.bounds.catalog_bytes),
            RequestKind::Enrol => {
                Request { idempotency_key: Some(secret.idempotency_key("enrol", 0)), ..post("devices") }
            }
            RequestKind::CheckIn => Request { audiences: self.policy.audiences.takes_part, ..post("check-in") },
            RequestKind::CurrentModel => {
                let request = get("model", SMALL_RESPONSE);
                if self.models_are_private { with_bearer(request) } else { request }
            }
            RequestKind::Model => model(format!("models/{version}")),
            RequestKind::Difference => {
                let from = self.shared.as_ref().map_or(0, |shared| shared.model.version.0);
                model(format!("models/{version}/from/{from}"))
            }
            RequestKind::Refuse => {
                let (round, body) = match &self.phase {
                    Phase::Refusing { round, bytes, .. } => (*round, Arc::clone(bytes)),
                    _ => Default::default(),
                };
                Request { body, ..post(&format!("rounds/{}/refusal", round.0)) }
            }
            RequestKind::Upload => update(round.0, bytes),
            RequestKind::Token => {
                let blinded = credential.map(|credential| credential.blinded(secret, round));
                let body = blinded.map_or_else(Default::default, Arc::from);
                Request { body, ..post(&format!("rounds/{}/token", round.0)) }
            }
            // Nothing but the token, which the device's credential was exchanged for: nothing identifies the device.
            RequestKind::UploadAnonymously => Request {
                bearer: None,
                round_token: credential.and_then(|credential| credential.text()),
                idempotency_key: Some(secret.idempotency_key("anonymous update", round.0)),
                body: bytes,
                ..post(&format!("rounds/{}/anonymous-updates", round.0))
            },
            RequestKind::SendSealed => {
                let body = sealing.and_then(|sealing| sealing.out.clone()).unwrap_or_default();
                match sealing.is_some_and(Sealing::sends_update) {
                    true => update(sealed_round, body),
                    false => Request { body, ..post(&format!("rounds/{sealed_round}/seal")) },
                }
            }
            RequestKind::ReceiveSealed => {
                let limit = limit.saturating_mul(ENCRYPTION_OVERHEAD);
                with_bearer(get(&format!("rounds/{sealed_round}/seal"), limit))
            }
            RequestKind::Withdraw => Request { method: Method::Delete, ..post("devices/me") },
            // The same for all devices, so that none says which it is.
            RequestKind::Audiences => get("audiences", SMALL_RESPONSE),
            RequestKind::AudienceTokens => {
                let (rotation, body) = self.audience_token_request();
                Request { body: body.into(), ..post(&format!("audience-tokens/{rotation}")) }
            }
            RequestKind::Report => match self.state.audiences.reports.first() {
                Some(report) => Request {
                    bearer: None,
                    round_token: Some(to_hex(&report.token.to_bytes())),
                    body: report.segment.to_vec().into(),
                    ..post(&format!("audiences/{}/segments/{}", report.audience, report.rotation))
                },
                None => get("audiences", SMALL_RESPONSE),
            },
        }
    }

    fn bearer(&self) -> &str {
        match &self.state.membership {
            Membership::Enrolling { token } => token,
            Membership::Enrolled { credential, .. } | Membership::Withdrawing { credential } => credential,
            Membership::Withdrawn => "",
        }
    }

    /// Trains for the round that [`next_action`](Self::next_action) prepared, and stores private model, ledger and
    /// update atomically, before anything is sent. A device that was killed meanwhile trains again.
    ///
    /// # Errors
    /// If the store fails.
    pub fn train(&mut self, now: Duration) -> Result<(), DeviceError> {
        let Phase::Invited(invitation) = &self.phase else { return Ok(()) };
        self.clock = now;
        if invitation.fits_alone {
            return self.fit_alone();
        }
        if audiences::measures(&invitation.terms) {
            return self.measure(now);
        }
        let (round, model) = (invitation.terms.round, invitation.terms.model.clone());
        let mut ledger = self.state.ledger.clone();
        let outcome = self.pi_in(&invitation.terms).and_then(|pi| Ok((pi, self.run_round(pi, now, &mut ledger)?)));
        let (pi, (Outcome { private, disclosed, upload }, upload_credential)) = match outcome {
            Ok(outcome) => outcome,
            Err(declined) => {
                self.refuse(&declined);
                return Ok(());
            }
        };
        let uploads = !matches!(upload, Upload::Nothing);
        let fitted = self.fit_along(&model, &private);
        let spent = self.spent_in(&invitation.terms);
        self.update(|state| {
            let stored = |values| PrivateModel { model: model.clone(), values };
            state.private = Some(stored(private));
            if let Some(values) = disclosed {
                (state.disclosed, state.disclosed_pi) = (Some(stored(values)), pi);
            }
            state.fitted = fitted;
            match upload {
                Upload::Message(bytes) => state.pending = Some(Pending { round, bytes, upload_credential }),
                Upload::Sealed(sealing) => state.sealing = Some(sealing),
                Upload::Nothing => return,
            }
            state.ledger = ledger;
            state.account.spend(spent);
            state.last_round = Some(round);
        })?;
        match uploads {
            true => self.phase = Phase::Idle,
            false => self.refuse(&Declined::NothingDisclosed),
        }
        Ok(())
    }

    /// The pi of this round.
    fn pi_in(&self, terms: &RoundTerms) -> Result<f64, Declined> {
        let privacy = PrivacyConfig::read(&terms.privacy).map_err(Declined::terms)?;
        Ok(policy_in(&self.policy, &privacy, terms).pi())
    }

    /// What an update in this round spends against the server, if that has a bound.
    fn spent_in(&self, terms: &RoundTerms) -> Option<Round> {
        let privacy = PrivacyConfig::read(&terms.privacy).ok()?;
        privacy.against_server(terms.cohort_size, self.policy.least_cohort)
    }

    /// Answers a measurement, and stores ledger, account and answer atomically, before anything is sent.
    fn measure(&mut self, now: Duration) -> Result<(), DeviceError> {
        let (Phase::Invited(invitation), Some(shared)) = (&self.phase, &self.shared) else { return Ok(()) };
        let round = invitation.terms.round;
        let mut ledger = self.state.ledger.clone();
        match self.run_measurement(invitation, &shared.model, now.as_secs(), &mut ledger) {
            Ok((Outcome { upload: Upload::Sealed(sealing), .. }, Spending { when, epsilon, what })) => {
                self.update(|state| {
                    (state.sealing, state.ledger, state.last_round) = (Some(sealing), ledger, Some(round));
                    state.audiences.spend(when, epsilon, what);
                })?;
                self.phase = Phase::Idle;
            }
            Ok(_) => self.refuse(&Declined::terms("an answer to a measurement must be sealed")),
            Err(declined) => self.refuse(&declined),
        }
        Ok(())
    }

    /// Runs the client's half of the round with this pi, and makes the credential of an anonymous upload.
    fn run_round(
        &self,
        pi: f64,
        now: Duration,
        ledger: &mut Ledger,
    ) -> Result<(Outcome, Option<UploadCredential>), Declined> {
        let (Phase::Invited(invitation), Some(shared)) = (&self.phase, &self.shared) else {
            return Err(Declined::NoHistory);
        };
        let (terms, state, when) = (&invitation.terms, &self.state, now.as_secs());
        let key = anonymous_key(&terms.privacy).map_err(Declined::terms)?;
        let mut model = self.load_model(&terms.model)?;
        let pages = self.page_vectors(&model);
        let round = DeviceRound {
            terms,
            shared: &shared.model,
            digest: shared.digest,
            history: pages.history(self.rows.history()),
            figures: &DeviceFigures { rows: &self.rows, items: self.items.as_deref(), now: when },
            policy: &self.policy,
            randomness: &state.randomness(&terms.model.name, terms.round, self.fresh()?),
            key: state.key.as_ref(),
            identity: self.identity_for(terms),
            client_index: invitation.client_index,
            when,
        };
        let values = |private: &Option<PrivateModel>| {
            let private = private.as_ref().filter(|private| private.model.name == terms.model.name);
            private.map(|private| private.values.clone())
        };
        // A model that was trained on more than this round discloses must not shape its update.
        let disclosed = values(&state.disclosed).filter(|_| state.disclosed_pi <= pi);
        let private = values(&state.private);
        let outcome = model.run_round(&round, (private.as_deref(), disclosed.as_deref()), ledger);
        self.options.models.release(model);
        Ok((outcome?, key.map(|key| UploadCredential::new(terms.federation, key))))
    }

    /// Random bytes that no other attempt at a round has.
    pub(super) fn fresh(&self) -> Result<[u8; 32], Declined> {
        (self.options.entropy)().map_err(Declined::terms)
    }

    /// A model with its settings, to be released again.
    pub(super) fn load_model(&self, model: &ModelSpec) -> Result<LoadedModel, Declined> {
        let features = self.items.as_ref().and_then(|items| items.features_for(&model.name));
        self.options.models.load(model, features).map_err(|error| Declined::Terms {
            why: error.to_string(),
            refusal: Refusal::UnknownModel(model.name.clone()),
        })
    }

    /// Refuses the round that the device is invited to.
    pub(super) fn refuse(&mut self, declined: &Declined) {
        let Phase::Invited(invitation) = &self.phase else { return };
        if invitation.fits_alone {
            return self.give_up_fitting();
        }
        let (federation, round) = (invitation.terms.federation, invitation.terms.round);
        let mut bytes = Vec::new();
        codec::encode_refusal(federation, round, &declined.refusal(), &mut bytes);
        self.phase = Phase::Refusing { round, bytes: bytes.into(), why: declined.to_string() };
    }
}
