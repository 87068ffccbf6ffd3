//! What a device does in a round between the download and the upload.

use crate::Items;
use crate::criteria::{self, AUC, CLOSENESS, DIVERSITY, LOSS, RECENCY, SIZE};
use crate::history::Rows;
use crate::sealing::{self, Sealing};
use crate::seeds::{Secret, Seeds};
use crate::state::Private;
use crate::ticket::Ticket;
use sottovoce_core::Rng;
use sottovoce_models::learner::{self, LearnError, Learner};
use sottovoce_models::{Bounds, Lesson, criteria as figures};
use sottovoce_privacy::secagg::Identity;
use sottovoce_privacy::{SecureRng, PrivacyMechanism, PrivacyConfig, anonymous_key};
use sottovoce_protocol::{
    Disclosed, DisclosureError, DisclosureSeeds, Ledger, Policy, Refusal, RoundTerms, SharedModel, Trained,
    UpdateError, codec,
};
use std::sync::Arc;
use thiserror::Error;

/// Why a round gets no update, and what the server is told.
#[derive(Debug, Error)]
pub(crate) enum Declined {
    #[error("the owner's policy: {0}")]
    Policy(Refusal),
    #[error("{0}")]
    Terms(String, Refusal),
    #[error("nothing to learn from")]
    NoHistory,
    #[error("nothing of the history is shown; what was learnt is for its owner alone")]
    NothingShown,
    #[error("learning: {0}")]
    Learning(#[from] LearnError),
    #[error("learning: {0}")]
    Update(#[from] UpdateError),
    #[error("what was learnt cannot be sent: {0}")]
    Disclosure(DisclosureError),
    #[error("learning led to values that are not finite")]
    NotFinite,
}

impl Declined {
    /// What the server is told.
    pub(crate) fn refusal(&self) -> Refusal {
        match self {
            Self::Policy(refusal) | Self::Terms(_, refusal) => refusal.clone(),
            Self::NoHistory | Self::NothingShown => Refusal::NoHistory,
            Self::Learning(_) | Self::Update(_) | Self::Disclosure(_) | Self::NotFinite => Refusal::NoReason,
        }
    }
}

impl From<DisclosureError> for Declined {
    fn from(error: DisclosureError) -> Self {
        match error {
            DisclosureError::Refused(refusal) => Self::Policy(refusal),
            other => Self::Disclosure(other),
        }
    }
}

/// Terms that this device cannot follow.
pub(crate) fn not_known(why: impl Into<Box<dyn std::error::Error>>) -> Declined {
    let why: Box<dyn std::error::Error> = why.into();
    Declined::Terms(why.to_string(), Refusal::NoReason)
}

/// What a round needs to know of the device.
pub(crate) struct Work<'a> {
    pub(crate) terms: &'a RoundTerms,
    pub(crate) shared: &'a Arc<SharedModel>,
    pub(crate) history: &'a Rows,
    pub(crate) items: Option<&'a Items>,
    pub(crate) private: Option<&'a Private>,
    /// The private model with which is learnt what is shown, if there is one.
    pub(crate) shown: Option<&'a Private>,
    pub(crate) policy: &'a Policy,
    pub(crate) secret: &'a Secret,
    /// What it is drawn from which items are shown.
    pub(crate) parting: &'a Secret,
    pub(crate) seeds: &'a Seeds,
    /// The key that devices of the federation share, if it was given one.
    pub(crate) key: Option<&'a [u8; 32]>,
    /// Its identity and those it knows, if it has a roster.
    pub(crate) identity: Option<Identity>,
    /// Its place in the cohort, where updates are sealed.
    pub(crate) seat: Option<u32>,
    /// Seconds, for the ledger.
    pub(crate) when: u64,
}

/// What came of it.
pub(crate) struct Outcome {
    pub(crate) private: Private,
    /// Where some of the history stays at home for good.
    pub(crate) shown: Option<Private>,
    pub(crate) leaves: Leaves,
}

/// What leaves the device.
pub(crate) enum Leaves {
    /// One message; with a ticket, without saying whose it is.
    Message(Arc<[u8]>, Option<Box<Ticket>>),
    /// An update that is sealed, in steps.
    Sealed(Sealing),
    /// Nothing: no part of the history is shown.
    Nothing,
}

impl Work<'_> {
    /// Learns and discloses; the same again gives the same bytes. The ledger is changed only if something can leave.
    pub(crate) fn run(&self, learner: &mut dyn Learner, ledger: &mut Ledger) -> Result<Outcome, Declined> {
        let terms = self.terms;
        self.policy.check_terms(terms).map_err(Declined::Policy)?;
        let mut rng = self.seeds.round(self.secret, &terms.model.name, terms.round);
        let layout = self.shared.parameters.layout();
        let protection = PrivacyConfig::read(&terms.privacy).map_err(not_known)?;
        let protected = PrivacyMechanism::new(&protection, &layout, terms.cohort_size).map_err(not_known)?;
        let kept = self.seeds.kept(self.parting, &terms.model.name);
        if !self.policy.withholds_items() {
            let mut private = self.start(learner, self.private, Seeds::private);
            let mut trained = Trained::new(&layout);
            trained.expect_policy(self.policy);
            let leaves = self.show(
                learner,
                (&mut private, self.history),
                protected,
                (&mut rng, kept),
                trained,
                ledger,
            )?;
            return match leaves {
                Leaves::Nothing => Err(Declined::NoHistory),
                leaves => Ok(Outcome { private: self.named(private), shown: None, leaves }),
            };
        }
        let mut private = self.start(learner, self.private, Seeds::private);
        if !private.is_empty() {
            let mut aside = Trained::new(&layout);
            aside.expect_no_disclosure();
            let (history, mut rng) = (&self.history.rows, rng.stream("own", 0));
            learner.train(self.shared, &mut private, history, &[], &mut rng, &mut aside)?;
            is_finite(&private)?;
        }
        let history = self.history.shown(self.policy, kept);
        let mut shown = self.start(learner, self.shown, Seeds::shown);
        let mut trained = Trained::new(&layout);
        match protection.per_example() {
            Some(_) => trained.expect_policy(self.policy),
            None => trained.expect_disclosed_items(self.policy),
        }
        let leaves =
            self.show(learner, (&mut shown, &history), protected, (&mut rng, kept), trained, ledger)?;
        Ok(Outcome { private: self.named(private), shown: Some(self.named(shown)), leaves })
    }

    fn named(&self, values: Vec<f32>) -> Private {
        Private { model: self.terms.model.clone(), values }
    }

    /// Learns from a history what is for others too, discloses it and wraps it; nothing if there is nothing to learn from. Where
    /// interactions are taken one by one, by chance, it is all of the owner's: those that are not shown have no chance, and whether
    /// the device takes part must not depend on which those are.
    fn show(
        &self,
        learner: &mut dyn Learner,
        (private, of): (&mut [f32], &Rows),
        protected: Option<PrivacyMechanism>,
        (rng, kept): (&mut Rng, u64),
        mut trained: Trained,
        ledger: &mut Ledger,
    ) -> Result<Leaves, Declined> {
        let terms = self.terms;
        let asked = |name: &str| {
            self.policy.reports(name) && terms.criteria.iter().any(|criterion| criterion.name == name)
        };
        let tested = of.latest.filter(|_| asked(AUC) && of.rows.len() > 1);
        let auc = tested.map(|item| self.auc(learner, (private, of), item)).transpose()?.flatten();
        // The item that the figure is about must not be learnt from.
        let left_out = tested.filter(|_| auc.is_some());
        let is_by_chance =
            protected.as_ref().is_some_and(|protected| protected.config().per_example().is_some());
        let from = if is_by_chance { self.history } else { of };
        let history: Vec<u32> = from.rows.iter().copied().filter(|&row| Some(row) != left_out).collect();
        let lesson =
            self.learn(learner, (private, &history), protected.as_ref(), (rng, kept), &mut trained)?;
        if lesson.samples == 0 {
            return Ok(Leaves::Nothing);
        }
        is_finite(private)?;
        for (index, criterion) in (0..).zip(&terms.criteria) {
            let value = match criterion.name.as_str() {
                AUC => auc,
                name => self.figure(name, of, &lesson, &trained),
            };
            if let Some(value) = value {
                trained.report(index, value)?;
            }
        }
        let ticket = anonymous_key(&terms.privacy).map_err(not_known)?;
        let ticket = ticket.map(|key| Box::new(Ticket::new(terms.federation, key)));
        let words = protected.as_ref().filter(|protected| protected.sends_quantized());
        let wrapped = words.map(|protected| protected.upload_bytes(terms.cohort_size));
        let draws = DisclosureSeeds { per_round: rng.next_u64(), fixed: kept };
        let disclosed = trained.disclose_wrapped(self.policy, terms, (self.when, wrapped), ledger, draws)?;
        if let Some(protected) = protected.filter(PrivacyMechanism::sends_quantized) {
            return self.seal(&protected, &disclosed, ticket);
        }
        let mut bytes = Vec::new();
        codec::encode_update(&disclosed, &mut bytes);
        Ok(Leaves::Message(bytes.into(), ticket))
    }

    /// Learns, where the terms ask for it with each interaction's share bounded and noise on the private model.
    fn learn(
        &self,
        learner: &mut dyn Learner,
        (private, history): (&mut [f32], &[u32]),
        protected: Option<&PrivacyMechanism>,
        (rng, kept): (&mut Rng, u64),
        into: &mut Trained,
    ) -> Result<Lesson, LearnError> {
        let hidden = self.policy.hidden();
        let bounded = protected.and_then(|protected| Some((protected, protected.config().per_example()?)));
        let Some((protected, each)) = bounded else {
            return learner.train(self.shared, private, history, hidden, rng, into);
        };
        let mut generator =
            self.seeds.generator(self.secret, "steps", &self.terms.model.name, self.terms.round);
        let mut noise = |sums: &mut [i64]| protected.add_noise(&mut generator, sums);
        let mut bounds = Bounds {
            chance: &Bounds::chances(each.rate, self.policy, kept),
            clip: each.clip.into(),
            steps: protected.steps(),
            noise: &mut noise,
        };
        learner.train_on_each(self.shared, learner::Work { private, history, hidden }, &mut bounds, rng, into)
    }

    /// Turns what was disclosed into words, adds this device's noise, and wraps them as the terms say.
    fn seal(
        &self,
        protected: &PrivacyMechanism,
        disclosed: &Disclosed,
        ticket: Option<Box<Ticket>>,
    ) -> Result<Leaves, Declined> {
        let (terms, mut words) = (self.terms, Vec::new());
        let mut noise = self.seeds.generator(self.secret, "noise", &terms.model.name, terms.round);
        protected.quantize(disclosed.update(), &mut noise, &mut words);
        if protected.encryption().is_some() {
            let key = self.key.ok_or_else(|| not_known(sealing::Leaves::NoKey))?;
            let mut generator = SecureRng::new(self.secret.key("lock", terms.round));
            let sealing = Sealing::lock(terms, protected, key, &words, &mut generator);
            return sealing.map(Leaves::Sealed).map_err(not_known);
        }
        let Some(masks) = protected.config().secagg_config(terms, words.len()) else {
            let mut bytes = Vec::new();
            codec::encode_quantized(disclosed, &words, &mut bytes);
            return Ok(Leaves::Message(bytes.into(), ticket));
        };
        let seat =
            self.seat.ok_or_else(|| not_known("the server does not say which seat this device has"))?;
        let seed = self.secret.key("seal", terms.round);
        let sealing = Sealing::begin(masks, (seat, seed), self.identity.clone(), words);
        sealing.map(Leaves::Sealed).map_err(not_known)
    }

    /// What the device can say of itself, by what it learnt from. Hidden items are not counted.
    fn figure(&self, name: &str, of: &Rows, lesson: &Lesson, trained: &Trained) -> Option<f64> {
        let shown = || of.rows.iter().copied().filter(|&row| !self.policy.hides(row));
        match name {
            SIZE => Some(shown().count() as f64),
            DIVERSITY => {
                let items = self.items?;
                let of = |row: u32| items.categories(row as usize).collect();
                Some(figures::diversity::<&str>(&shown().collect::<Vec<_>>(), of) as f64)
            }
            CLOSENESS => Some(figures::closeness(trained.update())),
            RECENCY => {
                let now = i64::try_from(self.when).unwrap_or(i64::MAX);
                of.latest_time.map(|latest| figures::recency(latest, now))
            }
            LOSS => Some(lesson.loss / lesson.samples as f64),
            _ => None,
        }
    }

    /// The private model to go on with: the one there is, or a new one if there is none of this model.
    fn start(
        &self,
        learner: &dyn Learner,
        there: Option<&Private>,
        numbers: fn(&Seeds, &Secret, &str) -> Rng,
    ) -> Vec<f32> {
        let (name, length) = (&self.terms.model.name, learner.private_values());
        match there.filter(|private| private.model.name == *name && private.values.len() == length) {
            Some(private) => private.values.clone(),
            None => {
                let mut values = vec![0.0; length];
                learner.start(&mut values, &mut numbers(self.seeds, self.secret, name));
                values
            }
        }
    }

    fn auc(
        &self,
        learner: &dyn Learner,
        (private, of): (&[f32], &Rows),
        item: u32,
    ) -> Result<Option<f64>, LearnError> {
        // Without the item that is looked for.
        let history: Vec<u32> = of.rows.iter().copied().filter(|&row| row != item).collect();
        let mut scores = vec![0.0; learner.items(&self.shared.parameters)];
        learner.score(&self.shared.parameters, private, &history, &mut scores)?;
        Ok(scores.get(item as usize).and_then(|_| criteria::auc(&scores, item, &of.rows)))
    }
}

fn is_finite(private: &[f32]) -> Result<(), Declined> {
    if private.iter().all(|value| value.is_finite()) { Ok(()) } else { Err(Declined::NotFinite) }
}
