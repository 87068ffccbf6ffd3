//! What a device makes of the server's answers.

use super::requests::{Phase, RequestKind, RoundInvitation};
use super::{Device, Held};
use crate::model_cache::Digest;
use crate::schedule::{End, Next, Rest};
use crate::state::Membership;
use crate::transport::{Response, TransportError};
use crate::{DeviceError, Items};
use serde_json::Value;
use sottovoce_client::{Declined, Sealing};
use sottovoce_privacy::{
    PrivacyConfig, PrivacyMechanism, Seal, SecureRng, UPLOAD_RETENTION, anonymous_key, key_digest,
};
use sottovoce_protocol::{DecodeError, RoundId, RoundTerms, SharedModel, codec};
use std::sync::Arc;
use std::time::Duration;

/// What an answer means.
enum Transition {
    /// Go on at once.
    GoOn,
    /// Rest; without a time for as long as the server asked, or else not at all.
    Rest(Rest, Option<Duration>),
    /// It did not work; try again later.
    Failed(String),
    /// The server will not have this device.
    Over(End),
}

/// Why a round with identities goes without a device that knows none.
const NO_ROSTER: &str = "devices of this round show identities, and this device has no roster to look them up in: its owner gets \
    that list of public keys from somebody other than the server";

type Handled = Result<Transition, DeviceError>;

/// Statuses that say "not now" and nothing about the request.
fn is_passing(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 300..=399 | 500..)
}

impl Device {
    /// Takes the answer to the request that [`next`](Self::next) gave. Says when to come back if the device rests now, also
    /// where it may come back at once; `None`: ask for the next action.
    ///
    /// # Errors
    /// If the store fails.
    pub fn answer(
        &mut self,
        now: Duration,
        answer: Result<Response, TransportError>,
    ) -> Result<Option<Next>, DeviceError> {
        let Some(request_kind) = self.request_kind.take() else { return Ok(None) };
        let asked_for = answer.as_ref().ok().and_then(Response::retry_after).map(Duration::from_secs);
        let transition = match answer {
            Err(error) => Transition::Failed(error.to_string()),
            Ok(response) if is_passing(response.status) => Transition::Failed(said(&response)),
            Ok(response) => self.handle(request_kind, response)?,
        };
        Ok(match transition {
            Transition::GoOn => {
                self.failures = 0;
                None
            }
            Transition::Rest(rest, otherwise) => {
                self.failures = 0;
                Some(self.rest_for(now, asked_for.or(otherwise).unwrap_or_default(), rest))
            }
            Transition::Failed(what) => {
                self.failures = self.failures.saturating_add(1);
                let pause = self.options.timing.after_failures(self.failures, &self.state.secret, now);
                let rest = Rest::Failed { what, times: self.failures };
                Some(self.rest_for(now, asked_for.map_or(pause, |asked| asked.max(pause)), rest))
            }
            Transition::Over(end) => Some(Next::Never(end)),
        })
    }

    fn rest_for(&mut self, now: Duration, pause: Duration, rest: Rest) -> Next {
        self.until = now.saturating_add(pause);
        self.rest = Some(rest.clone());
        Next::After(pause, rest)
    }

    fn handle(&mut self, request_kind: RequestKind, response: Response) -> Handled {
        match request_kind {
            RequestKind::Catalog => self.take_catalog(response),
            RequestKind::Enrol => self.take_credential(&response),
            RequestKind::CheckIn => self.take_terms(&response),
            RequestKind::Model => self.take_model(&response),
            RequestKind::Difference => self.take_difference(&response),
            RequestKind::Refuse => Ok(self.refused()),
            RequestKind::Upload => self.uploaded(&response),
            RequestKind::Token => self.take_token(&response),
            RequestKind::UploadAnonymously => self.uploaded_anonymously(&response),
            RequestKind::SealMessage => self.message_sent(&response),
            RequestKind::SealAnswer => self.message_received(&response),
            RequestKind::Withdraw => self.withdrawn(&response),
        }
    }

    fn take_catalog(&mut self, response: Response) -> Handled {
        if response.status != 200 {
            return Ok(rejected(&response));
        }
        let items = match Items::parse(response.body) {
            Ok(items) => Arc::new(items),
            Err(error) => return Ok(Transition::Failed(error.to_string())),
        };
        self.store.keep_items(&items)?;
        self.items = Some(items);
        self.resolve_items();
        if let Phase::RoundInvitation(asked) = &mut self.phase {
            asked.catalog_is_new = true;
        }
        Ok(Transition::GoOn)
    }

    fn take_credential(&mut self, response: &Response) -> Handled {
        if !matches!(response.status, 200 | 201) {
            return Ok(rejected(response));
        }
        let document: Value = serde_json::from_slice(&response.body).unwrap_or_default();
        let credential = document.get("credential").and_then(Value::as_str);
        let usable =
            |text: &&str| (1..=512).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        let (Some(device), Some(credential)) =
            (document.get("device").and_then(Value::as_u64), credential.filter(usable))
        else {
            return Ok(Transition::Failed(
                "the server's answer to the enrolment names no device and credential".to_owned(),
            ));
        };
        let credential = credential.to_owned();
        self.change(|state| {
            state.membership = Membership::Enrolled { device, credential };
            Ok(())
        })?;
        Ok(Transition::GoOn)
    }

    fn take_terms(&mut self, response: &Response) -> Handled {
        match response.status {
            200 => (),
            204 => {
                let state =
                    response.header("sottovoce-state").unwrap_or("waiting").chars().take(32).collect();
                return Ok(Transition::Rest(Rest::Idle { state }, Some(self.options.timing.check_in)));
            }
            _ => return Ok(rejected(response)),
        }
        let terms = match codec::decode_terms(&response.body) {
            Ok(terms) => terms,
            Err(error) => return Ok(Transition::Failed(format!("the server's round terms: {error}"))),
        };
        let Some(digest) = response.header("sottovoce-model-digest").and_then(Digest::from_hex) else {
            return Ok(Transition::Failed(
                "the server does not say which model its round terms are for".to_owned(),
            ));
        };
        if self.state.federation.is_some_and(|federation| federation != terms.federation) {
            return Ok(Transition::Failed(format!(
                "the server's round terms are for another {}",
                terms.federation
            )));
        }
        if self.declined == Some(terms.round) {
            return Ok(Transition::Failed(format!("asked again into {}, which was refused", terms.round)));
        }
        if self.state.federation.is_none() {
            let federation = terms.federation;
            self.change(|state| {
                state.federation = Some(federation);
                Ok(())
            })?;
        }
        self.roll_back(response.header("sottovoce-went-back").and_then(|version| version.parse().ok()))?;
        self.record_retention(&terms)?;
        let considered = self.check_terms(&terms);
        let client_index =
            response.header("sottovoce-seat").and_then(|client_index| client_index.parse().ok());
        let asked = RoundInvitation { terms, digest, client_index, whole: false, catalog_is_new: false };
        self.phase = Phase::RoundInvitation(Box::new(asked));
        if let Err(declined) = considered {
            self.refuse(&declined);
        }
        Ok(Transition::GoOn)
    }

    /// Remembers for the owner whether the server says that it keeps uploads.
    fn record_retention(&mut self, terms: &RoundTerms) -> Result<(), DeviceError> {
        let kept = terms.privacy.layers.iter().any(|layer| layer.name == UPLOAD_RETENTION);
        if kept == self.state.uploads_are_kept {
            return Ok(());
        }
        self.change(|state| {
            state.uploads_are_kept = kept;
            Ok(())
        })
    }

    /// Training went back with this version: a private model learnt with an earlier one begins anew, because it has taken up
    /// something of whoever is being forgotten.
    fn roll_back(&mut self, with: Option<u64>) -> Result<(), DeviceError> {
        let earlier = |with: &u64| self.held.as_ref().is_none_or(|held| held.model.version.0 < *with);
        let has_none = self.state.private.is_none() && self.state.disclosed.is_none();
        if has_none || !with.as_ref().is_some_and(earlier) {
            return Ok(());
        }
        self.change(|state| {
            (state.private, state.disclosed) = (None, None);
            Ok(())
        })
    }

    /// Whether to take part, before anything is downloaded.
    fn check_terms(&self, terms: &RoundTerms) -> Result<(), Declined> {
        self.policy.check_terms(terms).map_err(Declined::Policy)?;
        let unstated = |why: String| Err(Declined::terms(why));
        if self.state.answered.is_some_and(|answered| terms.round <= answered) {
            return unstated("this device has made its update for it already".to_owned());
        }
        let protection = PrivacyConfig::read(&terms.privacy).map_err(Declined::terms)?;
        anonymous_key(&terms.privacy).map_err(Declined::terms)?;
        match &protection.seal {
            Some(Seal::Encryption { key, .. })
                if self.state.key.as_ref().map(key_digest).as_ref() != Some(key) =>
            {
                return unstated(
                    "updates are encrypted under a key that this device does not have".to_owned(),
                );
            }
            Some(Seal::SecureAggregation { identities: true, .. }) if self.signing_identity().is_none() => {
                return unstated(NO_ROSTER.to_owned());
            }
            _ => (),
        }
        if self.rows.rows.is_empty() {
            return Err(Declined::NoHistory);
        }
        let model = self.lend(terms)?;
        let items = self.items.as_ref().map_or(0, |items| items.len());
        let layout = model.layout(items);
        self.options.models.give_back(model);
        let most = self.options.bounds.model_bytes;
        match layout {
            Err(error) => unstated(error.to_string()),
            Ok(layout) => {
                PrivacyMechanism::new(&protection, &layout, terms.cohort_size).map_err(Declined::terms)?;
                let bytes: u64 = layout.shapes().iter().map(|shape| 4 * shape.values() as u64).sum();
                if bytes > most {
                    return unstated(format!("a model of {bytes} bytes, at most {most} are held here"));
                }
                Ok(())
            }
        }
    }

    fn take_model(&mut self, response: &Response) -> Handled {
        match response.status {
            200 => self.take_decoded(codec::decode_model(&response.body)),
            401 if !self.models_are_private => Ok(self.show_credential()),
            _ => self.model_unavailable(response),
        }
    }

    fn show_credential(&mut self) -> Transition {
        self.models_are_private = true;
        Transition::GoOn
    }

    fn take_difference(&mut self, response: &Response) -> Handled {
        let applied = self.held.as_ref().filter(|_| response.status == 200).and_then(|held| {
            let mut model = SharedModel::clone(&held.model);
            codec::apply_difference(&response.body, &mut model).ok().map(|()| model)
        });
        if let Some(model) = applied.filter(|model| self.is_asked(model)) {
            return self.take_decoded(Ok(model));
        }
        match response.status {
            401 if !self.models_are_private => Ok(self.show_credential()),
            401 | 403 => self.model_unavailable(response),
            // Whatever went wrong with it, the whole model does without it.
            _ => {
                if let Phase::RoundInvitation(asked) = &mut self.phase {
                    asked.whole = true;
                }
                Ok(Transition::GoOn)
            }
        }
    }

    fn is_asked(&self, model: &SharedModel) -> bool {
        let Phase::RoundInvitation(asked) = &self.phase else { return false };
        let RoundInvitation { terms, digest, .. } = &**asked;
        let is_version = (model.federation, model.version) == (terms.federation, terms.version);
        is_version && Digest::of(&model.parameters) == *digest
    }

    fn take_decoded(&mut self, model: Result<SharedModel, DecodeError>) -> Handled {
        let Phase::RoundInvitation(asked) = &self.phase else { return Ok(Transition::GoOn) };
        let digest = asked.digest;
        let wrong = match model {
            Ok(model) if self.is_asked(&model) => {
                let model = Arc::new(model);
                self.options.models.keep(&digest, &model);
                self.hold(model, digest)?;
                return Ok(Transition::GoOn);
            }
            Ok(_) => "the model that came is not the one that the round terms are for".to_owned(),
            Err(error) => format!("the model that came: {error}"),
        };
        self.phase = Phase::Idle;
        Ok(Transition::Failed(wrong))
    }

    /// Makes a model the one that is held.
    pub(super) fn hold(&mut self, model: Arc<SharedModel>, digest: Digest) -> Result<(), DeviceError> {
        self.store.keep_model(&model)?;
        self.held = Some(Held { model, digest });
        Ok(())
    }

    /// A model that cannot be had: the round is over, or the device is out.
    fn model_unavailable(&mut self, response: &Response) -> Handled {
        self.phase = Phase::Idle;
        Ok(match response.status {
            401 | 403 => rejected(response),
            _ => Transition::Failed(said(response)),
        })
    }

    /// Whatever the server said: a round that does not want to know still goes without this device.
    fn refused(&mut self) -> Transition {
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Refusing { round, why, .. } => {
                self.declined = Some(round);
                Transition::Rest(Rest::Declined { round: round.0, why }, None)
            }
            other => {
                self.phase = other;
                Transition::GoOn
            }
        }
    }

    fn uploaded(&mut self, response: &Response) -> Handled {
        let Some(round) = self.state.pending.as_ref().map(|pending| pending.round.0) else {
            return Ok(Transition::GoOn);
        };
        // A credential that is not known today may be again tomorrow, when a server was restored.
        if response.status == 401 {
            return Ok(rejected(response));
        }
        self.change(|state| {
            state.pending = None;
            Ok(())
        })?;
        let (code, _) = response.problem();
        Ok(match response.status {
            200..=299 => Transition::Rest(Rest::Done { round }, None),
            403 if code == "revoked" => rejected(response),
            _ => Transition::Rest(Rest::Dropped { round, why: said(response) }, None),
        })
    }

    /// The token for the update that is pending, if it was made with the key of the round's terms: a token of another key
    /// would say whose it is.
    fn take_token(&mut self, response: &Response) -> Handled {
        let Some((round, upload_credential)) =
            self.state.pending.as_ref().and_then(|pending| Some((pending.round, pending.upload_credential?)))
        else {
            return Ok(Transition::GoOn);
        };
        match response.status {
            200 => (),
            201..=299 => return self.drop_pending(said(response)),
            _ => return self.uploaded(response),
        }
        match upload_credential.finish(&self.state.secret, round, &response.body) {
            Ok(upload_credential) => {
                self.change(|state| {
                    if let Some(pending) = &mut state.pending {
                        pending.upload_credential = Some(upload_credential);
                    }
                    Ok(())
                })?;
                Ok(Transition::GoOn)
            }
            Err(error) => self.drop_pending(error.to_string()),
        }
    }

    /// As for an upload with a name, but what is not known is the token then, not the device.
    fn uploaded_anonymously(&mut self, response: &Response) -> Handled {
        match response.status {
            200..=299 => self.uploaded(response),
            _ => self.drop_pending(said(response)),
        }
    }

    fn drop_pending(&mut self, why: String) -> Handled {
        let round = self.state.pending.as_ref().map_or(0, |pending| pending.round.0);
        self.change(|state| {
            state.pending = None;
            Ok(())
        })?;
        Ok(Transition::Rest(Rest::Dropped { round, why }, None))
    }

    /// The server has what was said in a sealed round, or does not want it.
    fn message_sent(&mut self, response: &Response) -> Handled {
        let Some(sealing) = self.state.sealing.clone() else { return Ok(Transition::GoOn) };
        if response.status == 401 {
            return Ok(rejected(response));
        }
        if !matches!(response.status, 200..=299) {
            return self.leave_sealed(said(response));
        }
        let round = sealing.round.0;
        let goes_on = sealing.acknowledged();
        let done = goes_on.is_none();
        self.change(|state| {
            state.sealing = goes_on;
            Ok(())
        })?;
        Ok(if done { Transition::Rest(Rest::Done { round }, None) } else { Transition::GoOn })
    }

    /// What there is to hear in a sealed round, if there is something yet.
    fn message_received(&mut self, response: &Response) -> Handled {
        let Some(sealing) = &self.state.sealing else { return Ok(Transition::GoOn) };
        match response.status {
            200 => {
                let (key, mut decryption_rng) = (self.state.key.as_ref(), self.decryption_rng(sealing.round));
                match sealing.receive(&response.body, key, self.signing_identity(), &mut decryption_rng) {
                    Ok(next) => {
                        self.change(|state| {
                            state.sealing = Some(next);
                            Ok(())
                        })?;
                        Ok(Transition::GoOn)
                    }
                    Err(refusal) => self.leave_sealed(refusal.to_string()),
                }
            }
            204 => {
                let waits = Rest::Idle { state: "sealing".to_owned() };
                Ok(Transition::Rest(waits, Some(self.options.timing.check_in)))
            }
            401 => Ok(rejected(response)),
            _ => self.leave_sealed(said(response)),
        }
    }

    /// Noise for what is opened of an encrypted sum.
    fn decryption_rng(&self, round: RoundId) -> SecureRng {
        SecureRng::new(self.state.secret.key("flooding", round))
    }

    /// Takes no more part in a sealed round; others can open the sum without this device.
    fn leave_sealed(&mut self, why: String) -> Handled {
        let sealing = self.state.sealing.as_ref();
        let round = sealing.map_or(0, |sealing| sealing.round.0);
        let counted = sealing.is_some_and(Sealing::is_counted);
        self.change(|state| {
            state.sealing = None;
            Ok(())
        })?;
        let rest = if counted { Rest::Done { round } } else { Rest::Dropped { round, why } };
        Ok(Transition::Rest(rest, None))
    }

    fn withdrawn(&mut self, response: &Response) -> Handled {
        // A server that does not know the device has nothing of it.
        if !matches!(response.status, 200..=299 | 401 | 403 | 404 | 410) {
            return Ok(Transition::Failed(said(response)));
        }
        self.change(|state| {
            state.membership = Membership::Withdrawn;
            Ok(())
        })?;
        Ok(Transition::Over(End::Withdrawn))
    }
}

fn said(response: &Response) -> String {
    let (code, detail) = response.problem();
    let parts = [format!("the server said {}", response.status), code, detail];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// For statuses that are neither what was hoped for nor passing.
fn rejected(response: &Response) -> Transition {
    let (code, detail) = response.problem();
    match response.status {
        400..=499 => Transition::Over(End::TurnedAway { status: response.status, code, detail }),
        _ => Transition::Failed(said(response)),
    }
}
