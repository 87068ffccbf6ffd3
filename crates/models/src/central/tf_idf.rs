//! Weights of features by how rare they are.

use sottovoce_core::{Facts, math};

/// Each item's features with their TF-IDF weights, in the order of the facts, scaled to length 1.
///
/// A feature comes once in an item, so that its weight is the logarithm of all items over those that have it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Weights {
    /// Where each item's weights end.
    ends: Vec<usize>,
    values: Vec<f32>,
}

impl Weights {
    pub(crate) fn of(facts: &Facts) -> Self {
        let rarity: Vec<f32> = (0..facts.features()).map(|feature| rarity(facts, feature)).collect();
        let mut weights = Self::default();
        for item in 0..facts.items() {
            let own = || facts.of(item).iter().map(|feature| rarity[feature as usize]);
            let length = own().map(|weight| weight * weight).sum::<f32>().sqrt();
            // Features that all items have weigh nothing, and an item may have no other.
            weights.values.extend(own().map(|weight| if length > 0.0 { weight / length } else { 0.0 }));
            weights.ends.push(weights.values.len());
        }
        weights
    }

    /// The weights of an item's features.
    pub(crate) fn item(&self, item: usize) -> &[f32] {
        &self.values[self.start(item)..self.ends[item]]
    }

    /// The same, to be changed.
    pub(crate) fn item_mut(&mut self, item: usize) -> &mut [f32] {
        let start = self.start(item);
        &mut self.values[start..self.ends[item]]
    }

    /// The weights of all items, one after the other.
    pub(crate) fn values(&self) -> &[f32] {
        &self.values
    }

    /// The same, to be changed.
    pub(crate) fn values_mut(&mut self) -> &mut [f32] {
        &mut self.values
    }

    fn start(&self, item: usize) -> usize {
        if item == 0 { 0 } else { self.ends[item - 1] }
    }

    /// The mean of some items' weights, by feature, into an array of zeros.
    pub(crate) fn mean(&self, facts: &Facts, items: &[u32], into: &mut [f32]) {
        let share = 1.0 / items.len().max(1) as f32;
        for &item in items {
            for (feature, weight) in facts.of(item as usize).iter().zip(self.item(item as usize)) {
                into[feature as usize] += share * weight;
            }
        }
    }
}

fn rarity(facts: &Facts, feature: usize) -> f32 {
    let having = facts.items_with(feature).len().max(1) as f64;
    math::ln(facts.items() as f64 / having).max(0.0) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_features_weigh_more_and_common_ones_nothing() {
        let names = [("all", 1), ("half", 1), ("one", 1)];
        let facts = Facts::of_lists(&names, &[vec![0, 1, 2], vec![0, 1], vec![0], vec![0]]);
        let weights = Weights::of(&facts);
        let [half, one] = [2f32.ln(), 4f32.ln()];
        let length = half.hypot(one);
        let found = weights.item(0);
        assert!(
            found[0] == 0.0
                && (found[1] - half / length).abs() < 1e-6
                && (found[2] - one / length).abs() < 1e-6
        );
        assert_eq!((weights.item(1), weights.item(3)), (&[0.0, 1.0][..], &[0.0][..]));
        let mut mean = [0.0; 3];
        weights.mean(&facts, &[1, 2], &mut mean);
        assert_eq!(mean, [0.0, 0.5, 0.0]);
    }
}
