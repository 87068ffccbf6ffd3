//! A model as a device holds it: named by round terms, with its working memory.

use crate::round::{Buffers, Device, Round, Training, policy_in};
use crate::{ClientError, Declined, Digest, Figures, Randomness, Sealing, SealingError};
use sottovoce_core::{Facts, History, Rng};
use sottovoce_models::federated::{DynClient, DynModel, Prepared, find};
use sottovoce_models::settings::TermsError;
use sottovoce_models::{Reason, ReasonKind};
use sottovoce_privacy::secagg::{Identity, Message as _};
use sottovoce_privacy::{PrivacyConfig, PrivacyMechanism, SecureRng, keeper};
use sottovoce_protocol::{
    Disclosed, Layout, Ledger, ModelError, ModelSpec, Parameters, Policy, RoundTerms, SharedModel, Trained, codec,
};
use std::sync::{Arc, Weak};

/// The model that round terms ask for. One serves one device after the other; only its settings matter to the result.
pub struct LoadedModel {
    spec: ModelSpec,
    model: DynModel,
    client: DynClient,
    /// With the size of the catalog and the layout they were made for.
    buffers: Option<(usize, u32, Buffers)>,
    /// With the shared model it was computed from. A weak pointer keeps the address from being used again, not the
    /// model.
    prepared: Option<(Weak<SharedModel>, Prepared)>,
}

/// What a device brings to a round.
pub struct DeviceRound<'a, R> {
    /// The terms.
    pub terms: &'a RoundTerms,
    /// The shared model.
    pub shared: &'a Arc<SharedModel>,
    /// Digest of the model that the device was given for the round, to which a seal is bound. In a measurement that is
    /// the federation's, not the one that `shared` is.
    pub digest: Digest,
    /// The user's items, ascending, each once.
    pub history: History<'a>,
    /// What the device can say of them.
    pub figures: &'a dyn Figures,
    /// The owner's policy.
    pub policy: &'a Policy,
    /// The device's random numbers.
    pub randomness: &'a R,
    /// The key that devices of the federation share, if the device has one.
    pub key: Option<&'a [u8; 32]>,
    /// Its identity and those it knows, if it has a roster.
    pub identity: Option<Identity>,
    /// Its index in the cohort, where updates are sealed.
    pub client_index: Option<u32>,
    /// Seconds, for the ledger.
    pub when: u64,
}

/// What came of a round.
pub struct Outcome {
    /// The private model.
    pub private: Vec<f32>,
    /// Private model trained only on the disclosed items, where the policy withholds some.
    pub disclosed: Option<Vec<f32>>,
    /// What leaves.
    pub upload: Upload,
}

/// What leaves a device.
pub enum Upload {
    /// One message.
    Message(Arc<[u8]>),
    /// A sealed update, in several messages.
    Sealed(Sealing),
    /// Nothing: the policy discloses none of the user's items.
    Nothing,
}

impl LoadedModel {
    /// The model of these settings, with what it uses of the catalog: facts, or content.
    ///
    /// # Errors
    /// If the model is not known, a setting is unknown, missing or out of range, or facts are needed and missing.
    pub fn load(spec: &ModelSpec, features: Option<&Arc<Facts>>) -> Result<Self, TermsError> {
        let model = find(&spec.name)?.from_terms(spec, features)?;
        let client = model.client(None);
        Ok(Self { spec: spec.clone(), model, client, buffers: None, prepared: None })
    }

    /// The settings it was loaded with.
    pub fn spec(&self) -> &ModelSpec {
        &self.spec
    }

    /// The model.
    pub fn model(&self) -> &DynModel {
        &self.model
    }

    /// Whether it was loaded with these facts, or needs none.
    pub fn uses(&self, features: Option<&Arc<Facts>>) -> bool {
        let own = self.model.features();
        own.items() == 0 || features.is_some_and(|features| Arc::ptr_eq(own, features))
    }

    /// Items of the catalog of a shared model: those that facts or content are about, or else the rows of the first
    /// table.
    pub fn items(&self, shared: &Parameters) -> usize {
        match self.model.features() {
            features if features.items() > 0 => features.items(),
            _ => shared.tables().first().map_or(0, |table| table.shape().rows as usize),
        }
    }

    /// Number of values of a private model.
    pub fn private_values(&self) -> usize {
        self.client.private_values()
    }

    /// Length of the vectors of titles that the model reads; `None` if it reads none.
    pub fn title_dim(&self) -> Option<usize> {
        self.client.title_dim()
    }

    /// Names and shapes of the shared model's tables, for a catalog of this size.
    ///
    /// # Errors
    /// If the catalog is empty or too large for the wire format.
    pub fn layout(&self, items: usize) -> Result<Layout, ModelError> {
        self.model.server().layout(items)
    }

    /// Scores all items; higher is better.
    ///
    /// # Errors
    /// If the shared model, the private model, the history or `into` does not fit.
    pub fn score(
        &self,
        shared: &Parameters,
        private: &[f32],
        history: History<'_>,
        into: &mut [f32],
    ) -> Result<(), ClientError> {
        let expected = self.check(shared, private.len(), &history)?;
        if into.len() != expected {
            return Err(ClientError::Scores { found: into.len(), expected });
        }
        self.client.score(shared, private, history, into);
        Ok(())
    }

    /// Adapts a private model to a history that has grown since the last round, for models that can; returns whether it
    /// did. Nothing leaves, and no ledger changes.
    ///
    /// # Errors
    /// As [`score`](Self::score), or if the result is not finite; the private model is then of no use.
    pub fn adapt(
        &self,
        shared: &Parameters,
        private: &mut [f32],
        history: History<'_>,
        rng: &mut Rng,
    ) -> Result<bool, ClientError> {
        let items = self.check(shared, private.len(), &history)?;
        let adapted = self.client.adapt(private, history, items, rng);
        if private.iter().all(|value| value.is_finite()) { Ok(adapted) } else { Err(ClientError::Adapted) }
    }

    /// What the reasons of [`explain`](Self::explain) are.
    pub fn reason_kind(&self) -> ReasonKind {
        self.client.reason_kind()
    }

    /// What speaks for each of some items, for models that can tell.
    ///
    /// # Errors
    /// As [`score`](Self::score), or if an item is not in the catalog.
    pub fn explain(
        &self,
        shared: &Parameters,
        private: &[f32],
        history: History<'_>,
        items: &[u32],
    ) -> Result<Vec<Vec<Reason>>, ClientError> {
        let catalog = self.check(shared, private.len(), &history)?;
        if items.iter().any(|&item| item as usize >= catalog) {
            return Err(ClientError::History { items: catalog });
        }
        Ok(self.client.explain(shared, private, history, items))
    }

    /// Trains, discloses and protects an update. The same input gives the same bytes. `private` are the private models
    /// of earlier rounds, the owner's and the one trained only on disclosed items; those that do not fit begin anew.
    /// The ledger changes only if something can leave.
    ///
    /// # Errors
    /// If the device does not take part; nothing has changed then.
    pub fn run_round<R: Randomness>(
        &mut self,
        round: &DeviceRound<'_, R>,
        (private, disclosed): (Option<&[f32]>, Option<&[f32]>),
        ledger: &mut Ledger,
    ) -> Result<Outcome, Declined> {
        let DeviceRound { terms, shared, history, policy, randomness, .. } = *round;
        policy.check_terms(terms).map_err(Declined::Policy)?;
        let config = PrivacyConfig::read(&terms.privacy).map_err(Declined::terms)?;
        let policy = &*policy_in(policy, &config, terms);
        let items = self.check(&shared.parameters, self.private_values(), &history)?;
        let layout = shared.parameters.layout();
        let privacy = PrivacyMechanism::new(&config, &layout, terms.cohort_size).map_err(Declined::terms)?;
        let withholds = policy.withholds_items();
        let mut private = self.continue_from(private, || randomness.private_init());
        let mut disclosed =
            if withholds { self.continue_from(disclosed, || randomness.disclosed_init()) } else { Vec::new() };
        self.prepare(shared, items, &layout);
        let Self { client, buffers: Some((_, _, buffers)), prepared: Some((_, prepared)), .. } = self else {
            return Err(Declined::NoHistory);
        };
        let context = Round::new((terms, privacy.as_ref()), client, (&shared.parameters, prepared), items);
        let mut device =
            Device { private: &mut private, disclosed: &mut disclosed, history, figures: round.figures, policy };
        let upload = match context.train(&mut device, randomness, buffers) {
            Err(declined) => {
                buffers.discard();
                return Err(declined);
            }
            Ok(Training::NothingDisclosed) => Upload::Nothing,
            Ok(Training::Trained(session)) => {
                // The ledger keeps the entry only if the update can leave.
                let mut recorded = ledger.clone();
                let update = context.disclose(session, (policy, round.when), &mut recorded, buffers);
                let update = update.inspect_err(|_| buffers.recycle(Trained::new(&layout)))?;
                context.quantize(&update, randomness, buffers);
                let upload = protect(round, privacy.as_ref(), &update, buffers);
                buffers.recycle(update.recycle());
                let upload = upload?;
                *ledger = recorded;
                upload
            }
        };
        Ok(Outcome { private, disclosed: withholds.then_some(disclosed), upload })
    }

    /// The client, what it computed from the shared model, and working memory.
    #[expect(clippy::type_complexity, reason = "borrows of three fields")]
    pub(crate) fn parts(
        &mut self,
    ) -> (&DynClient, Option<&(Weak<SharedModel>, Prepared)>, Option<&mut (usize, u32, Buffers)>) {
        (&self.client, self.prepared.as_ref(), self.buffers.as_mut())
    }

    /// The private model to go on with: the one there is, or a new one.
    pub(crate) fn continue_from(&self, there: Option<&[f32]>, rng: impl FnOnce() -> Rng) -> Vec<f32> {
        match there.filter(|values| values.len() == self.private_values()) {
            Some(values) => values.to_vec(),
            None => {
                let mut values = vec![0.0; self.private_values()];
                self.client.init_private(&mut values, &mut rng());
                values
            }
        }
    }

    /// Checks that everything belongs to this model; returns the size of the catalog.
    pub(crate) fn check(&self, shared: &Parameters, found: usize, history: &[u32]) -> Result<usize, ClientError> {
        let items = self.items(shared);
        shared.check(&self.layout(items)?)?;
        let expected = self.private_values();
        if found != expected {
            return Err(ClientError::Private { found, expected });
        }
        check_history(history, items)?;
        Ok(items)
    }

    /// Computes what depends on the shared model alone, and makes working memory, unless that was done.
    pub(crate) fn prepare(&mut self, shared: &Arc<SharedModel>, items: usize, layout: &Layout) {
        let this = Arc::downgrade(shared);
        if !self.prepared.as_ref().is_some_and(|(of, _)| of.ptr_eq(&this)) {
            self.prepared = Some((this, self.client.prepare(&shared.parameters)));
        }
        let fits = |(size, of, _): &(usize, u32, Buffers)| *size == items && *of == layout.fingerprint();
        if !self.buffers.as_ref().is_some_and(fits) {
            self.buffers = Some((items, layout.fingerprint(), Buffers::new(&self.client, items, layout)));
        }
    }
}

fn check_history(history: &[u32], items: usize) -> Result<(), ClientError> {
    let ascends = history.is_sorted_by(|one, next| one < next);
    let fits = ascends && history.last().is_none_or(|&last| (last as usize) < items);
    if fits { Ok(()) } else { Err(ClientError::History { items }) }
}

/// Why a device seals nothing without an index.
const NO_INDEX: &str = "the server does not say which index this device has in the cohort";

/// Wraps what was disclosed as the terms say.
fn protect<R: Randomness>(
    round: &DeviceRound<'_, R>,
    privacy: Option<&PrivacyMechanism>,
    disclosed: &Disclosed,
    buffers: &mut Buffers,
) -> Result<Upload, Declined> {
    let (terms, mut bytes) = (round.terms, Vec::new());
    let Some(privacy) = privacy.filter(|privacy| privacy.sends_quantized()) else {
        codec::encode_update(disclosed, &mut bytes);
        return Ok(Upload::Message(bytes.into()));
    };
    let words = &buffers.quantized;
    if privacy.encryption().is_some() {
        let key = round.key.ok_or_else(|| Declined::terms(SealingError::NoKey))?;
        let mut generator = SecureRng::new(round.randomness.seal_seed("lock"));
        let sealing = Sealing::encryption(terms, privacy, key, words, &mut generator);
        return sealing.map(Upload::Sealed).map_err(Declined::terms);
    }
    if let Some((config, key)) = privacy.config().keeper_config(terms, round.digest.bytes(), words.len()) {
        let index = round.client_index.filter(|&index| index < terms.cohort_size);
        let index = index.ok_or_else(|| Declined::terms(NO_INDEX))?;
        let secret = round.randomness.seal_seed("keeper");
        let (least, words) = (round.policy.least_cohort, std::mem::take(&mut buffers.quantized));
        let upload = keeper::seal(&config, &key, (index, secret), least, round.identity.as_ref(), words);
        return Ok(Upload::Message(upload.map_err(Declined::terms)?.encode().into()));
    }
    let Some(config) = privacy.config().secagg_config(terms, round.digest.bytes(), words.len()) else {
        codec::encode_quantized(disclosed, words, &mut bytes);
        return Ok(Upload::Message(bytes.into()));
    };
    let index = round.client_index;
    let index = index.ok_or_else(|| Declined::terms(NO_INDEX))?;
    let seed = round.randomness.seal_seed("seal");
    let words = std::mem::take(&mut buffers.quantized);
    let sealing = Sealing::secure_aggregation(config, (index, seed), round.identity.clone(), words);
    sealing.map(Upload::Sealed).map_err(Declined::terms)
}
