//! How a device handles the server's responses.

use super::audiences::{measures, shared_model};
use super::requests::{Invitation, Phase, RequestKind};
use super::{Device, DownloadedModel};
use crate::schedule::{NextStep, StopReason, WaitReason};
use crate::state::{Membership, State};
use crate::transport::{Response, TransportError, short};
use crate::{DeviceError, Items};
use serde_json::Value;
use sottovoce_client::{Declined, Digest, Sealing};
use sottovoce_privacy::{
    PrivacyConfig, PrivacyMechanism, Seal, SecureRng, UPLOAD_RETENTION, anonymous_key, key_digest,
};
use sottovoce_protocol::{DecodeError, Layout, RoundTerms, SharedModel, codec};
use std::sync::Arc;
use std::time::Duration;

/// What follows from a response.
pub(super) enum Transition {
    /// Go on at once.
    Continue,
    /// Wait as long as the server asked for, or else this long, or else not at all.
    Wait(WaitReason, Option<Duration>),
    /// It failed; retry later.
    Failed(String),
    /// There is nothing more to do.
    Stop(StopReason),
}

/// Why a device without a roster declines rounds with identities.
const NO_ROSTER: &str = "devices of this round sign with identities, and this device has no roster to look them up in: its \
    owner gets that list of public keys from somebody other than the server";

pub(super) type Handled = Result<Transition, DeviceError>;

impl Device {
    /// Handles the response to the request that [`next_action`](Self::next_action) gave. Returns when to come back if
    /// the device waits now, also where it may come back at once; `None`: ask for the next action.
    ///
    /// # Errors
    /// If the store fails.
    pub fn handle_response(
        &mut self,
        now: Duration,
        response: Result<Response, TransportError>,
    ) -> Result<Option<NextStep>, DeviceError> {
        let Some(kind) = self.outstanding.take() else { return Ok(None) };
        self.clock = now;
        let retry_after = response.as_ref().ok().and_then(Response::retry_after).map(Duration::from_secs);
        let transition = match response {
            Err(error) => Transition::Failed(error.to_string()),
            // The status says "not now" and nothing about the request.
            Ok(response) if matches!(response.status, 408 | 425 | 429 | 300..=399 | 500..) => {
                Transition::Failed(describe(&response))
            }
            Ok(response) => self.dispatch(kind, response)?,
        };
        Ok(match transition {
            Transition::Continue => {
                self.failures = 0;
                None
            }
            Transition::Wait(reason, default) => {
                self.failures = 0;
                Some(self.wait(now, retry_after.or(default).unwrap_or_default(), reason))
            }
            Transition::Failed(what) => {
                self.failures = self.failures.saturating_add(1);
                let backoff = self.options.timing.after_failures(self.failures, &self.state.secret, now);
                let pause = retry_after.map_or(backoff, |retry_after| retry_after.max(backoff));
                Some(self.wait(now, pause, WaitReason::Failed { what, times: self.failures }))
            }
            Transition::Stop(reason) => Some(NextStep::Stop(reason)),
        })
    }

    fn wait(&mut self, now: Duration, pause: Duration, reason: WaitReason) -> NextStep {
        self.wait_until = now.saturating_add(pause);
        self.waiting = Some(reason.clone());
        NextStep::Wait(pause, reason)
    }

    fn dispatch(&mut self, kind: RequestKind, response: Response) -> Handled {
        match kind {
            RequestKind::Catalog => self.handle_catalog(response),
            RequestKind::Enrol => self.handle_enrolment(&response),
            RequestKind::CheckIn => self.handle_check_in(&response),
            RequestKind::CurrentModel => self.handle_current_model(&response),
            RequestKind::Model => self.handle_model(&response),
            RequestKind::Difference => self.handle_difference(&response),
            RequestKind::Refuse => Ok(self.handle_refusal()),
            RequestKind::Upload => self.handle_upload(&response),
            RequestKind::Token => self.handle_token(&response),
            RequestKind::UploadAnonymously => self.handle_anonymous_upload(&response),
            RequestKind::SendSealed => self.handle_sealed_sent(&response),
            RequestKind::ReceiveSealed => self.handle_sealed_message(&response),
            RequestKind::Withdraw => self.handle_withdrawal(&response),
            RequestKind::Audiences => self.handle_audiences(&response),
            RequestKind::AudienceTokens => self.handle_audience_tokens(&response),
            RequestKind::Report => self.handle_report(&response),
        }
    }

    fn handle_catalog(&mut self, response: Response) -> Handled {
        if response.status != 200 {
            return Ok(rejected(&response));
        }
        let items = match Items::parse(response.body) {
            Ok(items) => Arc::new(items),
            Err(error) => return Ok(Transition::Failed(error.to_string())),
        };
        self.store.save_catalog(&items)?;
        self.items = Some(items);
        self.resolve_items();
        if let Phase::Invited(invitation) = &mut self.phase {
            invitation.catalog_is_new = true;
        }
        Ok(Transition::Continue)
    }

    fn handle_enrolment(&mut self, response: &Response) -> Handled {
        if !matches!(response.status, 200 | 201) {
            return Ok(rejected(response));
        }
        let document: Value = serde_json::from_slice(&response.body).unwrap_or_default();
        let device = document.get("device").and_then(Value::as_u64);
        let usable = |text: &&str| (1..=512).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        let credential = document.get("credential").and_then(Value::as_str).filter(usable);
        let (Some(device), Some(credential)) = (device, credential) else {
            let what = "the server's answer to the enrolment names no device and credential";
            return Ok(Transition::Failed(what.to_owned()));
        };
        let credential = credential.to_owned();
        self.update(|state| state.membership = Membership::Enrolled { device, credential })?;
        Ok(Transition::Continue)
    }

    fn handle_check_in(&mut self, response: &Response) -> Handled {
        match response.status {
            200 => (),
            204 => {
                let state: String = response.header("sottovoce-state").unwrap_or("waiting").chars().take(32).collect();
                self.waits_for = response.header("sottovoce-waits-for").map(short);
                if let Some(digest) = self.missing_model(response, &state) {
                    self.phase = Phase::Behind(digest);
                    return Ok(Transition::Continue);
                }
                let interval = self.options.timing.check_in_interval;
                return Ok(Transition::Wait(WaitReason::NoRound { state }, Some(interval)));
            }
            _ => return Ok(rejected(response)),
        }
        let (terms, digest) = match self.read_terms(response) {
            Ok(read) => read,
            Err(what) => return Ok(Transition::Failed(what)),
        };
        let retains = terms.privacy.layers.iter().any(|layer| layer.name == UPLOAD_RETENTION);
        if self.state.federation.is_none() || retains != self.state.uploads_are_retained {
            self.update(|state| {
                state.federation = Some(terms.federation);
                state.uploads_are_retained = retains;
            })?;
        }
        self.roll_back(response.header("sottovoce-went-back").and_then(|version| version.parse().ok()))?;
        let checked = self.check_terms(&terms).map_err(|declined| (declined, None));
        let checked = match checked.and_then(|()| self.check_protection(&terms)) {
            Ok(kept) => {
                self.keep_protection(kept)?;
                Ok(())
            }
            Err((declined, offered)) => {
                self.keep_offer(offered)?;
                Err(declined)
            }
        };
        self.waits_for = None;
        let client_index = response.header("sottovoce-seat").and_then(|index| index.parse().ok());
        let (whole_model, catalog_is_new, fits_alone) = (false, false, false);
        let invitation = Invitation { terms, digest, client_index, whole_model, catalog_is_new, fits_alone };
        self.phase = Phase::Invited(Box::new(invitation));
        if let Err(declined) = checked {
            self.refuse(&declined);
        }
        Ok(Transition::Continue)
    }

    /// The terms of a round of this federation, and the digest of the model that they are for.
    fn read_terms(&self, response: &Response) -> Result<(RoundTerms, Digest), String> {
        let terms =
            codec::decode_terms(&response.body).map_err(|error| format!("the server's round terms: {error}"))?;
        let digest = response.header("sottovoce-model-digest").and_then(Digest::from_hex);
        let digest = digest.ok_or("the server does not say which model its round terms are for")?;
        if self.state.federation.is_some_and(|federation| federation != terms.federation) {
            return Err(format!("the server's round terms are for another {}", terms.federation));
        }
        if self.declined_round == Some(terms.round) {
            return Err(format!("invited again to {}, which this device declined", terms.round));
        }
        Ok((terms, digest))
    }

    /// The server has rolled training back with this version, to unlearn somebody. Private models trained with an
    /// earlier version begin anew, because they have learnt from that person too.
    pub(super) fn roll_back(&mut self, version: Option<u64>) -> Result<(), DeviceError> {
        let Some(version) = version else { return Ok(()) };
        let is_earlier = self.shared.as_ref().is_none_or(|shared| shared.model.version.0 < version);
        let State { private, disclosed, fitted, .. } = &self.state;
        let is_trained = private.is_some() || disclosed.is_some() || fitted.is_some();
        if !(is_earlier && is_trained) {
            return Ok(());
        }
        self.update(|state| (state.private, state.disclosed, state.fitted) = (None, None, None))
    }

    /// Whether to take part, before anything is downloaded.
    fn check_terms(&self, terms: &RoundTerms) -> Result<(), Declined> {
        self.policy.check_terms(terms).map_err(Declined::Policy)?;
        if self.state.last_round.is_some_and(|last| terms.round <= last) {
            return Err(Declined::terms("this device has made its update for this round already"));
        }
        let privacy = PrivacyConfig::read(&terms.privacy).map_err(Declined::terms)?;
        anonymous_key(&terms.privacy).map_err(Declined::terms)?;
        match &privacy.seal {
            Some(Seal::Encryption { key, .. }) if self.state.key.as_ref().map(key_digest).as_ref() != Some(key) => {
                let why = "updates are encrypted under a key that this device does not have";
                return Err(Declined::terms(why));
            }
            Some(Seal::SecureAggregation { identities: true, .. }) if self.signing_identity().is_none() => {
                return Err(Declined::terms(NO_ROSTER));
            }
            _ => (),
        }
        if measures(terms) {
            self.check_measurement(terms, &privacy)?;
        } else if self.rows.rows.is_empty() {
            return Err(Declined::NoHistory);
        }
        self.check_floors(terms, &privacy)?;
        let model = self.load_model(&shared_model(terms)?)?;
        let layout = model.layout(self.items.as_ref().map_or(0, |items| items.len()));
        self.options.models.release(model);
        let layout = layout.map_err(Declined::terms)?;
        if !measures(terms) {
            PrivacyMechanism::new(&privacy, &layout, terms.cohort_size).map_err(Declined::terms)?;
        }
        self.check_size(&layout)
    }

    /// That the device can store a model of these tables.
    pub(super) fn check_size(&self, layout: &Layout) -> Result<(), Declined> {
        let bytes: u64 = layout.shapes().iter().map(|shape| 4 * shape.values() as u64).sum();
        let limit = self.options.bounds.model_bytes;
        match bytes > limit {
            true => Err(Declined::terms(format!("a model of {bytes} bytes, this device stores at most {limit}"))),
            false => Ok(()),
        }
    }

    fn handle_model(&mut self, response: &Response) -> Handled {
        match response.status {
            200 => self.accept_model(codec::decode_model(&response.body)),
            401 if !self.models_are_private => Ok(self.send_credential_with_models()),
            _ => self.model_unavailable(response),
        }
    }

    pub(super) fn send_credential_with_models(&mut self) -> Transition {
        self.models_are_private = true;
        Transition::Continue
    }

    fn handle_difference(&mut self, response: &Response) -> Handled {
        let applied = self.shared.as_ref().filter(|_| response.status == 200).and_then(|shared| {
            let mut model = SharedModel::clone(&shared.model);
            codec::apply_difference(&response.body, &mut model).ok().map(|()| model)
        });
        if let Some(model) = applied.filter(|model| self.is_promised(model)) {
            return self.accept_model(Ok(model));
        }
        match response.status {
            401 if !self.models_are_private => Ok(self.send_credential_with_models()),
            401 | 403 => self.model_unavailable(response),
            // Whatever is wrong with the difference, the whole model does without it.
            _ => {
                if let Phase::Invited(invitation) = &mut self.phase {
                    invitation.whole_model = true;
                }
                Ok(Transition::Continue)
            }
        }
    }

    /// Whether a model is the one that the round terms are for.
    fn is_promised(&self, model: &SharedModel) -> bool {
        let Phase::Invited(invitation) = &self.phase else { return false };
        let Invitation { terms, digest, .. } = &**invitation;
        let is_version = (model.federation, model.version) == (terms.federation, terms.version);
        is_version && Digest::of(&model.parameters) == *digest
    }

    fn accept_model(&mut self, model: Result<SharedModel, DecodeError>) -> Handled {
        let Phase::Invited(invitation) = &self.phase else { return Ok(Transition::Continue) };
        let digest = invitation.digest;
        let wrong = match model {
            Ok(model) if self.is_promised(&model) => {
                let model = Arc::new(model);
                self.options.models.insert(&digest, &model);
                self.save_model(model, digest)?;
                return Ok(Transition::Continue);
            }
            Ok(_) => "the downloaded model is not the one that the round terms are for".to_owned(),
            Err(error) => format!("the downloaded model: {error}"),
        };
        self.phase = Phase::Idle;
        Ok(Transition::Failed(wrong))
    }

    /// Replaces the shared model.
    pub(super) fn save_model(&mut self, model: Arc<SharedModel>, digest: Digest) -> Result<(), DeviceError> {
        self.store.save_model(&model)?;
        self.shared = Some(DownloadedModel { model, digest });
        Ok(())
    }

    /// A model that cannot be downloaded: the round is over, or the server rejects the device.
    fn model_unavailable(&mut self, response: &Response) -> Handled {
        self.phase = Phase::Idle;
        Ok(match response.status {
            401 | 403 => rejected(response),
            _ => Transition::Failed(describe(response)),
        })
    }

    /// The status does not matter: whether the server accepts the refusal or not, the device does not take part.
    fn handle_refusal(&mut self) -> Transition {
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Refusing { round, why, .. } => {
                self.declined_round = Some(round);
                Transition::Wait(WaitReason::Declined { round: round.0, why }, None)
            }
            other => {
                self.phase = other;
                Transition::Continue
            }
        }
    }

    fn handle_upload(&mut self, response: &Response) -> Handled {
        let Some(round) = self.state.pending.as_ref().map(|pending| pending.round.0) else {
            return Ok(Transition::Continue);
        };
        match response.status {
            // A credential that is unknown today may be known again tomorrow, when the server was restored.
            401 => Ok(rejected(response)),
            200..=299 => {
                self.update(|state| state.pending = None)?;
                Ok(Transition::Wait(WaitReason::UpdateAccepted { round }, None))
            }
            403 if response.problem().0 == "revoked" => {
                self.update(|state| state.pending = None)?;
                Ok(rejected(response))
            }
            _ => self.drop_pending(describe(response)),
        }
    }

    /// The token for the pending update, if it was made with the key of the round's terms: a token of another key would
    /// identify the device.
    fn handle_token(&mut self, response: &Response) -> Handled {
        let Some((round, credential)) =
            self.state.pending.as_ref().and_then(|pending| Some((pending.round, pending.upload_credential?)))
        else {
            return Ok(Transition::Continue);
        };
        match response.status {
            200 => (),
            201..=299 => return self.drop_pending(describe(response)),
            _ => return self.handle_upload(response),
        }
        match credential.finish(&self.state.secret, round, &response.body) {
            Ok(credential) => {
                self.update(|state| {
                    if let Some(pending) = &mut state.pending {
                        pending.upload_credential = Some(credential);
                    }
                })?;
                Ok(Transition::Continue)
            }
            Err(error) => self.drop_pending(error.to_string()),
        }
    }

    /// As for other uploads, but a rejection is about the token and not about the device.
    fn handle_anonymous_upload(&mut self, response: &Response) -> Handled {
        match response.status {
            200..=299 => self.handle_upload(response),
            _ => self.drop_pending(describe(response)),
        }
    }

    fn drop_pending(&mut self, why: String) -> Handled {
        let round = self.state.pending.as_ref().map_or(0, |pending| pending.round.0);
        self.update(|state| state.pending = None)?;
        Ok(Transition::Wait(WaitReason::UpdateRejected { round, why }, None))
    }

    fn handle_sealed_sent(&mut self, response: &Response) -> Handled {
        let Some(sealing) = self.state.sealing.clone() else { return Ok(Transition::Continue) };
        match response.status {
            200..=299 => (),
            401 => return Ok(rejected(response)),
            _ => return self.leave_sealed_round(describe(response)),
        }
        let round = sealing.round.0;
        let next = sealing.acknowledged();
        let transition = match next {
            Some(_) => Transition::Continue,
            None => Transition::Wait(WaitReason::UpdateAccepted { round }, None),
        };
        self.update(|state| state.sealing = next)?;
        Ok(transition)
    }

    /// The server's next message of a sealed round, if there is one yet.
    fn handle_sealed_message(&mut self, response: &Response) -> Handled {
        let Some(sealing) = &self.state.sealing else { return Ok(Transition::Continue) };
        match response.status {
            200 => (),
            204 => {
                let reason = WaitReason::NoRound { state: "sealing".to_owned() };
                return Ok(Transition::Wait(reason, Some(self.options.timing.check_in_interval)));
            }
            401 => return Ok(rejected(response)),
            _ => return self.leave_sealed_round(describe(response)),
        }
        // Noise on what this device decrypts of an encrypted sum.
        let mut rng = SecureRng::new(self.state.secret.key("flooding", sealing.round));
        let owner = (self.signing_identity(), self.policy.least_cohort);
        match sealing.receive(&response.body, self.state.key.as_ref(), owner, &mut rng) {
            Ok(next) => {
                self.update(|state| state.sealing = Some(next))?;
                Ok(Transition::Continue)
            }
            Err(error) => self.leave_sealed_round(error.to_string()),
        }
    }

    /// Leaves a sealed round; others can open the sum without this device.
    fn leave_sealed_round(&mut self, why: String) -> Handled {
        let sealing = self.state.sealing.as_ref();
        let round = sealing.map_or(0, |sealing| sealing.round.0);
        let reason = match sealing.is_some_and(Sealing::is_counted) {
            true => WaitReason::UpdateAccepted { round },
            false => WaitReason::UpdateRejected { round, why },
        };
        self.update(|state| state.sealing = None)?;
        Ok(Transition::Wait(reason, None))
    }

    /// A federation may serve no audiences, or do so wrongly: the device goes on without.
    fn handle_audiences(&mut self, response: &Response) -> Handled {
        match response.status {
            200 => self.take_audience_list(&response.body)?,
            404 => self.no_audience_list("the federation serves no audiences".to_owned())?,
            _ => self.no_audience_list(describe(response))?,
        }
        Ok(Transition::Continue)
    }

    fn handle_audience_tokens(&mut self, response: &Response) -> Handled {
        if response.status == 401 {
            return Ok(rejected(response));
        }
        self.take_audience_tokens((response.status == 200).then_some(&response.body))?;
        Ok(Transition::Continue)
    }

    /// Whatever the server says about it, a report is sent once.
    fn handle_report(&mut self, response: &Response) -> Handled {
        self.report_sent(matches!(response.status, 200..=299))?;
        Ok(Transition::Continue)
    }

    fn handle_withdrawal(&mut self, response: &Response) -> Handled {
        // A server that does not know the device has nothing of it.
        if !matches!(response.status, 200..=299 | 401 | 403 | 404 | 410) {
            return Ok(Transition::Failed(describe(response)));
        }
        self.update(|state| state.membership = Membership::Withdrawn)?;
        Ok(Transition::Stop(StopReason::Withdrawn))
    }
}

fn describe(response: &Response) -> String {
    let (code, detail) = response.problem();
    let parts = [format!("the server answered {}", response.status), code, detail];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// For statuses that are neither success nor transient.
fn rejected(response: &Response) -> Transition {
    let (code, detail) = response.problem();
    match response.status {
        status @ 400..=499 => Transition::Stop(StopReason::Rejected { status, code, detail }),
        _ => Transition::Failed(describe(response)),
    }
}
