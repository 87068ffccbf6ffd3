//! The features that characterise a set of items, for looking at histories and lists.

use super::feature_selection::{FeatureSelection, Selection};
use sottovoce_core::{Facts, Rng};

/// Weighs the features of sets of items as a device weighs those of its owner's.
///
/// ```
/// use sottovoce_core::{Facts, Rng};
/// use sottovoce_models::federated::kgflex::FeatureRanking;
/// let facts = Facts::of_lists(&[("type: park", 1), ("city: Rome", 1)], &[vec![0], vec![0], vec![1], vec![]]);
/// let mut telling = FeatureRanking::new(&facts);
/// assert_eq!(telling.of(&facts, &[0, 1], &mut Rng::new(1)), [(0, 1.0)]);
/// ```
#[derive(Debug)]
pub struct FeatureRanking(FeatureSelection);

impl FeatureRanking {
    /// Working memory for these facts.
    pub fn new(facts: &Facts) -> Self {
        Self(FeatureSelection::new(facts))
    }

    /// All features of some items, each once, that tell them from as many others drawn at random: the most telling
    /// first, ties by number, with their information gains.
    ///
    /// # Panics
    /// If an item is not one of the facts', or comes twice.
    pub fn of(&mut self, facts: &Facts, items: &[u32], rng: &mut Rng) -> &[(u32, f32)] {
        let all = Selection { most: [usize::MAX; 2], negatives: 1, min_gain: 0.0 };
        self.0.choose(facts, items, &all, rng);
        self.0.chosen.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        &self.0.chosen
    }
}
