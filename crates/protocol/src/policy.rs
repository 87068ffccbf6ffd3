//! What its owner lets leave a device.

use crate::error::PolicyError;
use crate::{AudiencePolicy, DisclosureSeeds, LayerRequirement, Refusal, RoundTerms};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// Whether the owner takes part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Participation {
    /// In every round the device is asked into.
    #[default]
    Active,
    /// In no round until the owner resumes.
    Paused,
    /// No more. Coming back means enrolling anew.
    Withdrawn,
}

/// Which of the owner's items are disclosed over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DisclosureMode {
    /// A fixed subset, drawn once: uploads are computed from the same items in all rounds, and never from the others.
    #[default]
    Fixed,
    /// A subset drawn anew in each round, as in FPL's paper: after enough rounds all items have been disclosed.
    PerRound,
}

impl DisclosureMode {
    /// Names for settings; the first is the default.
    pub const NAMES: &'static [&'static str] = &["fixed", "per-round"];

    /// By name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "fixed" | "kept" => Some(Self::Fixed),
            "per-round" | "each-round" => Some(Self::PerRound),
            _ => None,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// Which criteria may be reported when a round asks for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reportable {
    /// Whatever is asked for.
    All,
    /// Only those of these names.
    Only(BTreeSet<String>),
}

/// What an owner discloses in rounds whose server sees sums only.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SealedDisclosure {
    pi: f64,
    /// A round counts as sealed where its server cannot open the sum of fewer devices' updates than this.
    pub least: u32,
}

impl SealedDisclosure {
    /// The π of owners who choose none: among enough others everything helps, and nobody's can be told apart.
    pub const DEFAULT_PI: f64 = 1.0;
    /// What rounds of about 50 devices reach with the default shares of drop-outs and colluders.
    pub const DEFAULT_LEAST: u32 = 20;

    /// Uses this fraction of the owner's items where no sum of fewer than `least` updates can be opened.
    ///
    /// # Errors
    /// If `pi` is not from 0 to 1.
    pub fn new(pi: f64, least: u32) -> Result<Self, PolicyError> {
        check_pi(pi).map(|pi| Self { pi, least })
    }

    /// Probability with which the row of a consumed item leaves in such a round.
    pub fn pi(self) -> f64 {
        self.pi
    }
}

fn check_pi(pi: f64) -> Result<f64, PolicyError> {
    if (0.0..=1.0).contains(&pi) { Ok(pi) } else { Err(PolicyError::Pi(pi)) }
}

/// The owner's disclosure policy. The one in force when an update is disclosed decides, so a change between rounds
/// holds from the next round on, and a pause in the middle of a round still withholds that round's update.
///
/// A new policy has fixed disclosure and one pi for all rounds, hides nothing, reports no criterion and requires nothing
/// of the round.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    pi: f64,
    /// What sealed rounds have instead of pi; `None`: the same. Items are drawn from the same numbers, so that of two
    /// sets of disclosed items the smaller is part of the larger: rounds of both kinds tell no more than the larger.
    pub sealed: Option<SealedDisclosure>,
    /// Whether the disclosed items, each drawn with probability pi, are fixed or drawn per round.
    pub disclosure: DisclosureMode,
    hidden: Vec<u32>,
    participation: Participation,
    /// Whether the sample count may be reported where a round asks for it.
    pub samples: bool,
    /// Criteria that may be reported.
    pub criteria: Reportable,
    /// Smaller cohorts are refused.
    pub least_cohort: u32,
    /// Requirements on a round's privacy layers, in the syntax of [`LayerRequirement`]; a round that misses one is
    /// refused.
    pub required_layers: BTreeSet<String>,
    /// Layers with which a round is refused, in the same syntax.
    pub refused_layers: BTreeSet<String>,
    /// What the owner agrees to about audiences.
    pub audiences: AudiencePolicy,
}

impl Policy {
    /// The π of owners who choose none, simulated or not: everything is disclosed, as in a federation without the
    /// owner's control, so that nobody believes to be protected by a choice that they did not make.
    pub const DEFAULT_PI: f64 = 1.0;

    /// Discloses rows of consumed items with probability `pi`.
    ///
    /// # Errors
    /// If `pi` is not from 0 to 1.
    pub fn new(pi: f64) -> Result<Self, PolicyError> {
        Ok(Self {
            pi: check_pi(pi)?,
            sealed: None,
            disclosure: DisclosureMode::default(),
            hidden: Vec::new(),
            participation: Participation::Active,
            samples: true,
            criteria: Reportable::Only(BTreeSet::new()),
            least_cohort: 0,
            required_layers: BTreeSet::new(),
            refused_layers: BTreeSet::new(),
            audiences: AudiencePolicy::default(),
        })
    }

    /// Probability with which the row of a consumed item leaves, drawn for each item as
    /// [`disclosure`](Self::disclosure) says; in sealed rounds [`sealed`](Self::sealed) may have another.
    pub fn pi(&self) -> f64 {
        self.pi
    }

    /// Changes pi.
    ///
    /// # Errors
    /// If it is not from 0 to 1.
    pub fn set_pi(&mut self, pi: f64) -> Result<(), PolicyError> {
        self.pi = check_pi(pi)?;
        Ok(())
    }

    /// The policy in a round of which the server can open no sum of fewer updates than this, `None` if it sees single
    /// ones: with one pi, the round's.
    pub fn in_round(&self, smallest_sum: Option<u32>) -> Cow<'_, Self> {
        let counts = |sealed: &SealedDisclosure| smallest_sum.is_some_and(|sum| sum >= sealed.least);
        match (self.sealed, self.sealed.filter(counts)) {
            (None, _) => Cow::Borrowed(self),
            (Some(_), sealed) => {
                let pi = sealed.map_or(self.pi, SealedDisclosure::pi);
                Cow::Owned(Self { pi, sealed: None, ..self.clone() })
            }
        }
    }

    /// The policy in the kind of round that uses most of the owner's items.
    pub fn at_most(&self) -> Cow<'_, Self> {
        self.in_round(self.sealed.filter(|sealed| sealed.pi > self.pi).map(|_| u32::MAX))
    }

    /// Probability with which a consumed item's row leaves in a round, given the device's [`DisclosureSeeds::fixed`]: 0
    /// or 1 with fixed disclosure.
    pub fn disclosure_probability(&self, item: u32, fixed_seed: u64) -> f64 {
        let seeds = DisclosureSeeds { per_round: 0, fixed: fixed_seed };
        match self.disclosure {
            _ if self.hides(item) => 0.0,
            DisclosureMode::Fixed => f64::from(u8::from(seeds.draw(self).discloses(u64::from(item)))),
            DisclosureMode::PerRound => self.pi,
        }
    }

    /// Whether some items are never disclosed. Uploads are then computed from the others alone, with a second private
    /// model; the owner's own private model is trained on everything.
    pub fn withholds_items(&self) -> bool {
        self.disclosure == DisclosureMode::Fixed && (self.pi < 1.0 || !self.hidden.is_empty())
    }

    /// Whether a consumed item is ever disclosed.
    pub fn discloses(&self, item: u32, fixed_seed: u64) -> bool {
        self.disclosure_probability(item, fixed_seed) > 0.0
    }

    /// The items of a history that are ever disclosed.
    pub fn disclosed_items(&self, history: &[u32], fixed_seed: u64) -> impl Iterator<Item = u32> {
        let mut items = Vec::new();
        self.disclosed_items_into(history, fixed_seed, &mut items);
        items.into_iter()
    }

    /// The same into a buffer.
    pub fn disclosed_items_into(&self, history: &[u32], fixed_seed: u64, into: &mut Vec<u32>) {
        into.clear();
        // The commonest case, without a search for each item.
        if !(self.hidden.is_empty() && self.disclosure == DisclosureMode::Fixed) {
            into.extend(history.iter().copied().filter(|&item| self.discloses(item, fixed_seed)));
            return;
        }
        let draw = DisclosureSeeds { per_round: 0, fixed: fixed_seed }.draw(self);
        into.resize(history.len(), 0);
        let mut count = 0;
        // Each item is written, and counts only if it is disclosed: nobody can guess which are, processors included.
        for &item in history {
            into[count] = item;
            count += usize::from(draw.discloses(u64::from(item)));
        }
        into.truncate(count);
    }

    /// Hidden items, ascending: nothing about the owner's use of them leaves. A model that samples decoys from the
    /// whole catalog sends decoys for hidden items too: a row that never left would give itself away. A model whose
    /// rows are no items gives rows that only hidden items changed the origin
    /// [`RowOrigin::Hidden`](crate::RowOrigin::Hidden); a model without rows must leave hidden items out of training.
    pub fn hidden(&self) -> &[u32] {
        &self.hidden
    }

    /// Whether an item is hidden.
    pub fn hides(&self, item: u32) -> bool {
        self.hidden.binary_search(&item).is_ok()
    }

    /// Hides an item from now on.
    pub fn hide(&mut self, item: u32) {
        if let Err(position) = self.hidden.binary_search(&item) {
            self.hidden.insert(position, item);
        }
    }

    /// Whether the owner takes part.
    pub fn participation(&self) -> Participation {
        self.participation
    }

    /// Takes part in no round until [`resume`](Self::resume).
    ///
    /// # Errors
    /// If the owner has withdrawn.
    pub fn pause(&mut self) -> Result<(), PolicyError> {
        self.change(Participation::Paused)
    }

    /// Takes part again.
    ///
    /// # Errors
    /// If the owner has withdrawn.
    pub fn resume(&mut self) -> Result<(), PolicyError> {
        self.change(Participation::Active)
    }

    /// Withdraws, finally.
    pub fn withdraw(&mut self) {
        self.participation = Participation::Withdrawn;
    }

    fn change(&mut self, to: Participation) -> Result<(), PolicyError> {
        if self.participation == Participation::Withdrawn {
            return Err(PolicyError::Withdrawn);
        }
        self.participation = to;
        Ok(())
    }

    /// Whether a criterion of this name may be reported.
    pub fn reports(&self, criterion: &str) -> bool {
        match &self.criteria {
            Reportable::All => true,
            Reportable::Only(names) => names.contains(criterion),
        }
    }

    /// That the owner takes part in a round of these terms: worth asking before training.
    ///
    /// # Errors
    /// With the reason why not.
    pub fn check_terms(&self, terms: &RoundTerms) -> Result<(), Refusal> {
        match self.participation {
            Participation::Paused => return Err(Refusal::Paused),
            Participation::Withdrawn => return Err(Refusal::Withdrawn),
            Participation::Active => (),
        }
        if terms.cohort_size < self.least_cohort {
            return Err(Refusal::CohortTooSmall(self.least_cohort));
        }
        let layers = &terms.privacy.layers;
        // What cannot be parsed cannot be met.
        let offered = |text: &String| {
            let requirement = LayerRequirement::parse(text);
            requirement.is_some_and(|required| layers.iter().any(|layer| required.is_met_by(layer)))
        };
        if let Some(name) = self.required_layers.iter().find(|&name| !offered(name)) {
            return Err(Refusal::LayerMissing(name.clone()));
        }
        match self.refused_layers.iter().find(|&name| offered(name)) {
            Some(name) => Err(Refusal::LayerRefused(name.clone())),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_pi_out_of_range_and_resuming_after_withdrawal() {
        for wrong in [-0.1, 1.000_001, f64::NAN] {
            assert!(matches!(Policy::new(wrong), Err(PolicyError::Pi(_))), "{wrong}");
        }
        let mut policy = Policy::new(0.25).unwrap();
        policy.pause().unwrap();
        policy.resume().unwrap();
        policy.withdraw();
        assert_eq!(policy.resume(), Err(PolicyError::Withdrawn));
        assert_eq!(policy.participation(), Participation::Withdrawn);
    }

    #[test]
    fn sealed_rounds_have_a_pi_of_their_own() {
        let mut policy = Policy::new(0.25).unwrap();
        policy.hide(3);
        assert_eq!(policy.in_round(Some(1000)).pi(), 0.25);
        policy.sealed = Some(SealedDisclosure::new(0.75, 20).unwrap());
        for (smallest_sum, expected) in [(None, 0.25), (Some(19), 0.25), (Some(20), 0.75), (Some(1000), 0.75)] {
            let resolved = policy.in_round(smallest_sum);
            assert_eq!((resolved.pi(), resolved.sealed), (expected, None));
            assert!(resolved.hides(3));
            assert_eq!(resolved.in_round(Some(1000)), resolved);
        }
        assert_eq!(policy.at_most().pi(), 0.75);
        policy.sealed = Some(SealedDisclosure::new(0.1, 20).unwrap());
        assert_eq!((policy.at_most().pi(), policy.in_round(Some(20)).pi()), (0.25, 0.1));
        assert!(matches!(SealedDisclosure::new(1.5, 20), Err(PolicyError::Pi(_))));
    }

    #[test]
    fn of_two_disclosed_sets_the_smaller_is_part_of_the_larger() {
        let mut policy = Policy::new(0.3).unwrap();
        policy.sealed = Some(SealedDisclosure::new(0.8, 20).unwrap());
        policy.hide(7);
        let history: Vec<u32> = (0..400).collect();
        for seed in 0..20 {
            let of = |policy: &Policy| policy.disclosed_items(&history, seed).collect::<BTreeSet<u32>>();
            let (open, sealed) = (of(&policy.in_round(None)), of(&policy.in_round(Some(20))));
            assert!(open.is_subset(&sealed) && open.len() < sealed.len(), "{seed}");
            assert!(!sealed.contains(&7));
        }
    }

    #[test]
    fn hidden_items_stay_sorted() {
        let mut policy = Policy::new(1.0).unwrap();
        for item in [7, 3, 7, 5] {
            policy.hide(item);
        }
        assert_eq!(policy.hidden(), [3, 5, 7]);
        assert!(policy.hides(7) && !policy.hides(4));
    }
}
