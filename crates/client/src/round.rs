//! The steps of a client's round.

use crate::criteria::Figures;
use crate::{ClientError, Declined, Randomness, streams};
use sottovoce_core::{History, Rng};
use sottovoce_models::federated::{DynClient, Prepared, Scratch, WorkingMemory};
use sottovoce_models::{DpSgd, TrainInput, TrainStats};
use sottovoce_privacy::{PrivacyConfig, PrivacyMechanism, SEALS};
use sottovoce_protocol::{
    Disclosed, DisclosureMode, DisclosureSeeds, Layout, Ledger, ModelSpec, Parameters, Policy, PrivacyLayer,
    RoundTerms, Trained,
};
use std::borrow::Cow;

/// What all clients of a round have in common. The simulator makes it once for all of them.
pub struct Round<'a> {
    /// The terms.
    pub terms: &'a RoundTerms,
    /// The model's client half.
    pub client: &'a DynClient,
    /// The shared model as it was distributed.
    pub shared: &'a Parameters,
    /// What the client computed from it.
    pub prepared: &'a Prepared,
    /// Size of the catalog.
    pub items: usize,
    /// How updates are protected, if they are: what the terms' privacy layers come to.
    privacy: Option<&'a PrivacyMechanism>,
    /// Bytes of an upload that is not a plain update.
    upload_bytes: Option<u64>,
}

/// One device in a round.
pub struct Device<'a> {
    /// The private model.
    pub private: &'a mut [f32],
    /// Private model trained only on the disclosed items; not used where the policy withholds none.
    pub disclosed: &'a mut [f32],
    /// The user's items, ascending, their sequence and the pages they read last.
    pub history: History<'a>,
    /// What the device can say of them.
    pub figures: &'a dyn Figures,
    /// The owner's policy.
    pub policy: &'a Policy,
}

/// Working memory that one device after the other uses.
pub struct Buffers {
    scratch: Scratch,
    /// The update; empty between devices.
    pub(crate) trained: Trained,
    /// The update of training that is not disclosed; always discarded.
    discarded: Trained,
    disclosed_items: Vec<u32>,
    visible_items: Vec<u32>,
    training_items: Vec<u32>,
    pages: Vec<u32>,
    sequence: Vec<u32>,
    scores: Vec<f32>,
    /// What [`Round::quantize`] wrote.
    pub quantized: Vec<u32>,
}

impl Buffers {
    /// For a model, a catalog of this size and updates of this layout.
    pub fn new(client: &DynClient, items: usize, layout: &Layout) -> Self {
        Self {
            scratch: client.scratch(items),
            trained: Trained::new(layout),
            discarded: Trained::new(layout),
            disclosed_items: Vec::new(),
            visible_items: Vec::new(),
            training_items: Vec::new(),
            pages: Vec::new(),
            sequence: Vec::new(),
            scores: Vec::new(),
            quantized: Vec::new(),
        }
    }

    /// How large the model's working memory is, for models that can tell.
    pub fn working_memory(&self, client: &DynClient) -> Option<WorkingMemory> {
        client.working_memory(&self.scratch)
    }

    /// Trains for the private model alone: the update is discarded.
    pub(crate) fn train_alone(
        &mut self,
        client: &DynClient,
        input: TrainInput<'_, Prepared>,
        rng: &mut Rng,
    ) -> Result<TrainStats, ClientError> {
        self.discarded.expect_no_disclosure();
        let stats = client.train(input, &mut self.scratch, rng, &mut self.discarded);
        self.discarded.clear();
        Ok(stats?)
    }

    /// Discards the update.
    pub fn discard(&mut self) {
        self.trained.clear();
    }

    /// Takes the memory of an update back.
    pub fn recycle(&mut self, trained: Trained) {
        self.trained = trained;
    }
}

/// What came of training.
pub enum Training {
    /// There is an update to disclose.
    Trained(Session),
    /// The policy discloses none of the user's items. The private model was trained, and nothing leaves.
    NothingDisclosed,
}

/// A device between training and disclosure.
pub struct Session {
    /// Statistics of training.
    pub stats: TrainStats,
    rng: Rng,
    fixed: u64,
}

impl<'a> Round<'a> {
    /// A round under these terms; `privacy` is what their privacy layers come to.
    pub fn new(
        (terms, privacy): (&'a RoundTerms, Option<&'a PrivacyMechanism>),
        client: &'a DynClient,
        (shared, prepared): (&'a Parameters, &'a Prepared),
        items: usize,
    ) -> Self {
        let quantized = privacy.filter(|privacy| privacy.sends_quantized());
        let upload_bytes = quantized.map(|privacy| privacy.upload_bytes(terms.cohort_size));
        Self { terms, client, shared, prepared, items, privacy, upload_bytes }
    }

    /// Whether updates leave as integers, all of them, instead of as the rows that were touched.
    pub fn sends_quantized(&self) -> bool {
        self.upload_bytes.is_some()
    }

    /// Checks the terms against the policy, trains, and computes criteria. After an error the private models are of no
    /// use.
    ///
    /// # Errors
    /// If the policy refuses, there is nothing to train on, or training fails or diverges.
    pub fn train(
        &self,
        device: &mut Device<'_>,
        randomness: &impl Randomness,
        buffers: &mut Buffers,
    ) -> Result<Training, Declined> {
        device.policy.check_terms(self.terms).map_err(Declined::Policy)?;
        let policy = &*self.policy(device.policy);
        let Device { private, disclosed, history, figures, .. } = device;
        let device = &mut Device { private, disclosed, history: *history, figures: *figures, policy };
        check_decoys(policy, &self.terms.model)?;
        check_seal(self.client, self.terms)?;
        let mut rng = randomness.round();
        let fixed = match policy.disclosure {
            DisclosureMode::Fixed if policy.pi() < 1.0 => randomness.fixed_disclosure(),
            _ => 0,
        };
        let withholds = policy.withholds_items();
        if withholds {
            self.train_own(device, &mut rng, buffers)?;
        }
        let mut disclosed = std::mem::take(&mut buffers.disclosed_items);
        disclosed.clear();
        if withholds {
            policy.disclosed_items_into(&device.history, fixed, &mut disclosed);
        }
        let items = if withholds { &disclosed[..] } else { device.history.items };
        let trained = self.train_disclosed(device, items, (&mut rng, fixed), randomness, buffers);
        buffers.disclosed_items = disclosed;
        let stats = trained?;
        match stats.samples {
            0 if withholds && !device.history.is_empty() => Ok(Training::NothingDisclosed),
            0 => Err(Declined::NoHistory),
            _ => Ok(Training::Trained(Session { stats, rng, fixed })),
        }
    }

    /// Trains the owner's private model on all of the history, where the update must not depend on all of it.
    fn train_own(&self, device: &mut Device<'_>, rng: &mut Rng, buffers: &mut Buffers) -> Result<(), Declined> {
        if device.private.is_empty() {
            return Ok(());
        }
        let (private, history) = (&mut *device.private, device.history);
        let input = TrainInput { shared: self.shared, prepared: self.prepared, private, history, hidden: &[] };
        let mut rng = rng.stream(streams::OWN_TRAINING, 0);
        buffers.train_alone(self.client, input, &mut rng)?;
        check_finite(device.private)
    }

    /// Trains what is disclosed, on these items.
    fn train_disclosed(
        &self,
        device: &mut Device<'_>,
        items: &[u32],
        (rng, fixed): (&mut Rng, u64),
        randomness: &impl Randomness,
        buffers: &mut Buffers,
    ) -> Result<TrainStats, Declined> {
        let policy = device.policy;
        let withholds = policy.withholds_items();
        let dp_sgd = self.privacy.and_then(|privacy| Some((privacy, privacy.config().per_example()?)));
        match withholds && dp_sgd.is_none() {
            true => buffers.trained.expect_disclosed_items(policy),
            false => buffers.trained.expect_policy(policy),
        }
        let criteria = !self.terms.criteria.is_empty();
        let mut visible = std::mem::take(&mut buffers.visible_items);
        visible.clear();
        visible.extend(items.iter().copied().filter(|&item| criteria && !policy.hides(item)));
        let auc = match criteria {
            true => {
                let private = if withholds { &*device.disclosed } else { &*device.private };
                self.held_out_auc(device, private, &visible, &mut buffers.scores)
            }
            false => None,
        };
        // DP-SGD samples every interaction by itself, withheld ones with probability 0: whether the device takes part
        // must not depend on which those are.
        let mut history = if dp_sgd.is_some() { device.history.items } else { items };
        let mut without = std::mem::take(&mut buffers.training_items);
        if let Some((held_out, _)) = auc {
            without.clear();
            without.extend(history.iter().copied().filter(|&item| item != held_out));
            history = &without;
        }
        let private = if withholds { &mut *device.disclosed } else { &mut *device.private };
        let hidden = policy.hidden();
        // What a page says of a category may leave only where the category itself may.
        let is_withheld = |category| {
            policy.hides(category) || device.history.contains(&category) && items.binary_search(&category).is_err()
        };
        let mut kept = std::mem::take(&mut buffers.pages);
        let pages = device.history.pages.without(is_withheld, &mut kept);
        let mut sequence = std::mem::take(&mut buffers.sequence);
        sequence.clear();
        sequence.extend(device.history.sequence.iter().copied().filter(|item| history.binary_search(item).is_ok()));
        let history = History { items: history, sequence: &sequence, pages };
        let input = TrainInput { shared: self.shared, prepared: self.prepared, private, history, hidden };
        let stats = match dp_sgd {
            None => self.client.train(input, &mut buffers.scratch, rng, &mut buffers.trained)?,
            Some(_) if !self.client.supports_dp_sgd() => {
                return Err(ClientError::NoDpSgd(self.terms.model.name.clone()).into());
            }
            Some((privacy, per_example)) => {
                let mut generator = randomness.training_noise();
                let mut noise = |sums: &mut [i64]| privacy.add_noise(&mut generator, sums);
                let mut dp_sgd = DpSgd {
                    probability: &DpSgd::probabilities(per_example.rate, policy, fixed),
                    clip: per_example.clip.into(),
                    steps: privacy.steps(),
                    noise: &mut noise,
                };
                self.client.train_dp_sgd(input, &mut dp_sgd, rng, &mut buffers.trained)?
            }
        };
        if stats.samples > 0 {
            check_finite(if withholds { device.disclosed } else { device.private })?;
            if criteria {
                self.report_criteria(device, auc.map(|(_, auc)| auc), &stats, &visible, buffers)?;
            }
        }
        (buffers.visible_items, buffers.training_items) = (visible, without);
        (buffers.pages, buffers.sequence) = (kept, sequence);
        Ok(stats)
    }

    /// Applies the owner's policy and records what leaves in the ledger, at this time in seconds.
    ///
    /// # Errors
    /// If the update cannot be sent as the terms ask; the ledger is as it was then.
    pub fn disclose(
        &self,
        mut session: Session,
        (policy, when): (&Policy, u64),
        ledger: &mut Ledger,
        buffers: &mut Buffers,
    ) -> Result<Disclosed, Declined> {
        // An empty buffer takes the place of the one that leaves; it holds no memory.
        let trained = std::mem::replace(&mut buffers.trained, Trained::new(&Layout::default()));
        let seeds = DisclosureSeeds { per_round: session.rng.next_u64(), fixed: session.fixed };
        let policy = &*self.policy(policy);
        Ok(trained.disclose_wrapped(policy, self.terms, (when, self.upload_bytes), ledger, seeds)?)
    }

    /// An owner's policy as it is in this round.
    fn policy<'p>(&self, policy: &'p Policy) -> Cow<'p, Policy> {
        self.privacy.map_or_else(|| policy.in_round(None), |privacy| policy_in(policy, privacy.config(), self.terms))
    }

    /// Quantizes an update and adds this device's noise, where the terms ask for it; see [`Buffers::quantized`].
    pub fn quantize(&self, disclosed: &Disclosed, randomness: &impl Randomness, buffers: &mut Buffers) {
        if let Some(privacy) = self.privacy {
            privacy.quantize(disclosed.update(), &mut randomness.upload_noise(), &mut buffers.quantized);
        }
    }
}

/// An owner's policy as it is in a round of these layers: with the pi of open rounds, or of sealed ones.
pub fn policy_in<'p>(policy: &'p Policy, privacy: &PrivacyConfig, terms: &RoundTerms) -> Cow<'p, Policy> {
    // Owners with one pi do not need to know.
    policy.in_round(policy.sealed.and_then(|_| privacy.smallest_sum(terms.cohort_size)))
}

/// That an owner's policy goes with a model's negatives.
///
/// Decoys hide which rows are of the owner's items: for items that are withheld they send what would leave of anybody.
/// Where the disclosed items are drawn anew in each round, the same item leaves now as itself and now as a decoy, and
/// rounds compared give it away; and the shared model is told the opposite of what the private one says.
///
/// # Errors
/// If the model sends decoys, and the policy draws anew in each round what it discloses.
pub fn check_decoys(policy: &Policy, model: &ModelSpec) -> Result<(), Declined> {
    let decoys = model.settings.get("negatives").is_some_and(|negatives| negatives == "decoys");
    let drawn_anew = policy.disclosure == DisclosureMode::PerRound && policy.pi() > 0.0 && policy.pi() < 1.0;
    match decoys && drawn_anew {
        true => Err(Declined::terms(
            "negatives = decoys hide nothing with disclosure = per-round, because rounds compared give the owner's \
             items away: take disclosure = fixed, or negatives = papers for the papers' way, which does not hide them",
        )),
        false => Ok(()),
    }
}

/// That a round is sealed, where the model needs that.
///
/// # Errors
/// If a single update would be the history itself, for the server to read.
fn check_seal(client: &DynClient, terms: &RoundTerms) -> Result<(), Declined> {
    let is_seal = |layer: &PrivacyLayer| SEALS.contains(&&*layer.name);
    match client.needs_seal() && !terms.privacy.layers.iter().any(is_seal) {
        true => Err(Declined::terms(format!(
            "an update of {} is the whole history, and this round has no seal that hides it: take seal = secagg",
            terms.model.name
        ))),
        false => Ok(()),
    }
}

fn check_finite(private: &[f32]) -> Result<(), Declined> {
    if private.iter().all(|value| value.is_finite()) { Ok(()) } else { Err(Declined::NotFinite) }
}
