//! What its owner lets leave a device.

use crate::error::PolicyError;
use crate::{LayerRequirement, DisclosureSeeds, Refusal, RoundTerms};
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

/// How often it is drawn which of the owner's items leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DisclosureMode {
    /// Once for good: what leaves is learnt from the same share of them in all rounds, and never from the others.
    #[default]
    Fixed,
    /// Anew in each round, as FPL's paper has it: after enough rounds all of them have left.
    PerRound,
}

impl DisclosureMode {
    /// Names for settings; the first is the default.
    pub const NAMES: &'static [&'static str] = &["kept", "each-round"];

    /// By name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Fixed, Self::PerRound].into_iter().find(|draw| draw.name() == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fixed => "kept",
            Self::PerRound => "each-round",
        }
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

/// The owner's disclosure policy. The one in force when an update is disclosed decides, so a change between rounds
/// holds from the next round on, and a pause in the middle of a round still keeps that round's update at home.
///
/// Starts out with a draw that is kept, nothing hidden, no criterion reported and no demand on the round.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    pi: f64,
    /// How often it is drawn which of the owner's items leave, with probability pi each.
    pub disclosure: DisclosureMode,
    hidden: Vec<u32>,
    participation: Participation,
    /// Whether the sample count may be reported where a round asks for it.
    pub samples: bool,
    /// Criteria that may be reported.
    pub criteria: Reportable,
    /// Smaller cohorts are refused.
    pub least_cohort: u32,
    /// What a round's privacy layers must be for it not to be refused, each in the words of a [`LayerRequirement`].
    pub required_layers: BTreeSet<String>,
    /// Layers with which a round is refused, in the same words.
    pub refused_layers: BTreeSet<String>,
}

impl Policy {
    /// Discloses rows of consumed items with probability `pi`.
    ///
    /// # Errors
    /// If `pi` is not from 0 to 1.
    pub fn new(pi: f64) -> Result<Self, PolicyError> {
        let mut policy = Self {
            pi: 0.0,
            disclosure: DisclosureMode::default(),
            hidden: Vec::new(),
            participation: Participation::Active,
            samples: true,
            criteria: Reportable::Only(BTreeSet::new()),
            least_cohort: 0,
            required_layers: BTreeSet::new(),
            refused_layers: BTreeSet::new(),
        };
        policy.set_pi(pi)?;
        Ok(policy)
    }

    /// Probability with which the row of a consumed item leaves, drawn for each item as [`draw`](Self::draw) says.
    pub fn pi(&self) -> f64 {
        self.pi
    }

    /// Changes pi.
    ///
    /// # Errors
    /// If it is not from 0 to 1.
    pub fn set_pi(&mut self, pi: f64) -> Result<(), PolicyError> {
        if !(0.0..=1.0).contains(&pi) {
            return Err(PolicyError::Pi(pi));
        }
        self.pi = pi;
        Ok(())
    }

    /// Probability with which a consumed item's row leaves in a round, for who knows what was drawn once for good
    /// ([`DisclosureSeeds::fixed`]): 0 or 1 where the draw is kept.
    pub fn disclosure_probability(&self, item: u32, kept: u64) -> f64 {
        let goes = |draws: DisclosureSeeds| f64::from(u8::from(draws.let_leave(self, u64::from(item))));
        match self.disclosure {
            _ if self.hides(item) => 0.0,
            DisclosureMode::Fixed => goes(DisclosureSeeds { per_round: 0, fixed: kept }),
            DisclosureMode::PerRound => self.pi,
        }
    }

    /// Whether some of what the owner has stays at home for good. What leaves is then learnt from the rest alone, with a private
    /// model of its own, and the owner's private model is learnt aside.
    pub fn withholds_items(&self) -> bool {
        self.disclosure == DisclosureMode::Fixed && (self.pi < 1.0 || !self.hidden.is_empty())
    }

    /// Whether a consumed item is not kept at home for good.
    pub fn discloses(&self, item: u32, kept: u64) -> bool {
        self.disclosure_probability(item, kept) > 0.0
    }

    /// What of a history is not kept at home for good.
    pub fn disclosed_items(&self, history: &[u32], kept: u64) -> impl Iterator<Item = u32> {
        history.iter().copied().filter(move |&item| self.discloses(item, kept))
    }

    /// Items of which nothing leaves that has to do with the owner, consumed or not; ascending. Where a model draws decoys from the
    /// whole catalog, what leaves of a hidden item is a decoy, as of any other: a row that never left would show itself. A model whose rows are something else marks those that
    /// only hidden items explain ([`RowOrigin::Hidden`](crate::RowOrigin::Hidden)); one without rows must leave hidden items out of
    /// training instead.
    pub fn hidden(&self) -> &[u32] {
        &self.hidden
    }

    /// Whether an item is hidden.
    pub fn hides(&self, item: u32) -> bool {
        self.hidden.binary_search(&item).is_ok()
    }

    /// Hides an item from now on.
    pub fn hide(&mut self, item: u32) {
        if let Err(place) = self.hidden.binary_search(&item) {
            self.hidden.insert(place, item);
        }
    }

    /// Hides an item no more.
    pub fn unhide(&mut self, item: u32) {
        if let Ok(place) = self.hidden.binary_search(&item) {
            self.hidden.remove(place);
        }
    }

    /// Whether the owner takes part.
    pub fn participation(&self) -> Participation {
        self.participation
    }

    /// Stays away until [`resume`](Self::resume).
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

    /// Leaves for good.
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

    /// Reads the terms of a round: worth asking before training.
    ///
    /// # Errors
    /// With the reason why the owner does not take part.
    pub fn check_terms(&self, terms: &RoundTerms) -> Result<(), Refusal> {
        match self.participation {
            Participation::Paused => return Err(Refusal::Paused),
            Participation::Withdrawn => return Err(Refusal::Withdrawn),
            Participation::Active => (),
        }
        if terms.cohort_size < self.least_cohort {
            return Err(Refusal::CohortTooSmall { least: self.least_cohort });
        }
        let layers = &terms.privacy.layers;
        // What cannot be read as a demand cannot be met.
        let offered = |name: &String| {
            LayerRequirement::parse(name).is_some_and(|demand| layers.iter().any(|layer| demand.is_met_by(layer)))
        };
        if let Some(name) = self.required_layers.iter().find(|&name| !offered(name)) {
            return Err(Refusal::LayerMissing { layer: name.clone() });
        }
        match self.refused_layers.iter().find(|&name| offered(name)) {
            Some(name) => Err(Refusal::LayerRefused { layer: name.clone() }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pi_is_a_probability_and_withdrawal_is_final() {
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
    fn hidden_items_stay_in_order_and_come_back() {
        let mut policy = Policy::new(1.0).unwrap();
        for item in [7, 3, 7, 5] {
            policy.hide(item);
        }
        policy.unhide(5);
        assert_eq!(policy.hidden(), [3, 7]);
        assert!(policy.hides(7) && !policy.hides(5));
    }
}
