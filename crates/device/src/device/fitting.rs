//! Recommending without having taken part: a device that comes late, or after the last round, downloads the current
//! model and fits its private part by itself.
//!
//! What is fitted here is for recommendations only. Updates go on from the private models of rounds, so that they
//! depend on what their rounds' terms say and on nothing else: noise of DP-SGD would bound nothing if a private model
//! that was fitted without noise went into them, and a deployed device would no longer train as a simulated one does.

use super::requests::{Invitation, Phase};
use super::responses::{Handled, Transition};
use super::{Device, DownloadedModel};
use crate::DeviceError;
use crate::state::{Fitted, PrivateModel};
use crate::transport::Response;
use sottovoce_client::{Declined, Digest, Fitting};
use sottovoce_protocol::{ModelSpec, RoundTerms, codec};

impl Device {
    /// The private model to recommend with.
    pub(super) fn recommending(&self) -> Option<&PrivateModel> {
        self.state.fitted.as_ref().map(|fitted| &fitted.private).or(self.state.private.as_ref())
    }

    /// The server's model, if this device should have it although it is in no round: it has none to recommend with, or
    /// training is over and it has an earlier one.
    pub(super) fn missing_model(&self, response: &Response, state: &str) -> Option<Digest> {
        let digest = response.header("sottovoce-model-digest").and_then(Digest::from_hex)?;
        let held = self.shared.as_ref().map(|shared| shared.digest);
        let is_missing =
            self.recommending().is_none() || held.is_none() || (state == "finished" && held != Some(digest));
        (self.options.recommends && is_missing && self.unfit != Some(digest)).then_some(digest)
    }

    /// What the current model is: as an invitation to a round, without the round.
    pub(super) fn handle_current_model(&mut self, response: &Response) -> Handled {
        match response.status {
            200 => (),
            401 if !self.models_are_private => return Ok(self.send_credential_with_models()),
            // A server of an earlier build, or a device without access: it goes on without.
            _ => {
                self.give_up_fitting();
                return Ok(Transition::Continue);
            }
        }
        let digest = response.header("sottovoce-model-digest").and_then(Digest::from_hex);
        let terms = codec::decode_terms(&response.body);
        let (Ok(terms), Some(digest)) = (terms, digest) else {
            self.give_up_fitting();
            return Ok(Transition::Continue);
        };
        self.phase = Phase::Behind(digest);
        if self.state.federation.is_some_and(|federation| federation != terms.federation)
            || self.check_model(&terms).is_err()
        {
            self.give_up_fitting();
            return Ok(Transition::Continue);
        }
        if self.state.federation.is_none() {
            self.update(|state| state.federation = Some(terms.federation))?;
        }
        self.roll_back(response.header("sottovoce-went-back").and_then(|version| version.parse().ok()))?;
        let (client_index, whole_model, catalog_is_new, fits_alone) = (None, false, false, true);
        let invitation = Invitation { terms, digest, client_index, whole_model, catalog_is_new, fits_alone };
        self.phase = Phase::Invited(Box::new(invitation));
        Ok(Transition::Continue)
    }

    /// That this build knows the model, and the device can store it.
    fn check_model(&self, terms: &RoundTerms) -> Result<(), Declined> {
        let model = self.load_model(&terms.model)?;
        let layout = model.layout(self.items.as_ref().map_or(0, |items| items.len()));
        self.options.models.release(model);
        self.check_size(&layout.map_err(Declined::terms)?)
    }

    /// Goes on without the model that could not be fitted.
    pub(super) fn give_up_fitting(&mut self) {
        self.unfit = match &self.phase {
            Phase::Behind(digest) => Some(*digest),
            Phase::Invited(invitation) => Some(invitation.digest),
            _ => self.unfit,
        };
        self.phase = Phase::Idle;
    }

    /// Fits the model that was downloaded, and stores the result.
    pub(super) fn fit_alone(&mut self) -> Result<(), DeviceError> {
        let Phase::Invited(invitation) = &self.phase else { return Ok(()) };
        let spec = invitation.terms.model.clone();
        match self.fitted(&spec, Fitting::Whole) {
            Some(fitted) => {
                self.update(|state| state.fitted = Some(fitted))?;
                self.phase = Phase::Idle;
            }
            None => self.give_up_fitting(),
        }
        Ok(())
    }

    /// The model that was fitted goes along with a round in which the device takes part: one step with the round's
    /// model. `None` for a device that was there from the start, which recommends with the model it trains in rounds.
    pub(super) fn fit_along(&self, spec: &ModelSpec, trained: &[f32]) -> Option<Fitted> {
        let fitted = self.state.fitted.as_ref()?;
        let fits = fitted.private.model.name == spec.name && fitted.private.values.len() == trained.len();
        self.fitted(spec, if fits { Fitting::Step } else { Fitting::Whole })
    }

    /// Fits the model that was fitted before to a history that has changed; returns whether there was one.
    pub(super) fn fit_again(&mut self) -> Result<bool, DeviceError> {
        let Some(spec) = self.state.fitted.as_ref().map(|fitted| fitted.private.model.clone()) else {
            return Ok(false);
        };
        let Some(fitted) = self.fitted(&spec, Fitting::Whole) else { return Ok(false) };
        self.update(|state| state.fitted = Some(fitted)).map(|()| true)
    }

    /// A private model fitted to the shared one; `None` if that cannot be done.
    fn fitted(&self, spec: &ModelSpec, fitting: Fitting) -> Option<Fitted> {
        let DownloadedModel { model: shared, digest } = self.shared.as_ref()?;
        let before = self.recommending().filter(|private| private.model.name == spec.name);
        let from = before.map(|private| &private.values[..]);
        let mut model = self.load_model(spec).ok()?;
        let pages = self.page_vectors(&model);
        let rng = self.state.secret.rng("fitting", digest.bytes());
        let values = model.fit(shared, from, pages.history(self.rows.history()), (&rng, fitting));
        self.options.models.release(model);
        let private = PrivateModel { model: spec.clone(), values: values.ok()? };
        Some(Fitted { private, digest: *digest.bytes() })
    }
}
