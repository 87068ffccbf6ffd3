//! TF-IDF weights of item features.

use crate::{ModelError, Tensor, stored};
use sottovoce_core::{Facts, math};

/// Each item's features with their TF-IDF weights, in the order of the facts, scaled to length 1.
///
/// An item has a feature at most once, so that its weight is the inverse document frequency.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TfIdf {
    /// Where each item's weights end.
    ends: Vec<usize>,
    /// The weights of all items, item by item.
    pub(super) values: Vec<f32>,
}

impl TfIdf {
    /// Of all items.
    pub(super) fn of(facts: &Facts) -> Self {
        let idf: Vec<f32> = (0..facts.features()).map(|feature| idf(facts, feature)).collect();
        let mut weights = Self::default();
        for item in 0..facts.items() {
            let own = || facts.of(item).iter().map(|feature| idf[feature as usize]);
            let length = own().map(|weight| weight * weight).sum::<f32>().sqrt();
            // Features that all items have weigh 0, and an item may have no others.
            weights.values.extend(own().map(|weight| if length > 0.0 { weight / length } else { 0.0 }));
            weights.ends.push(weights.values.len());
        }
        weights
    }

    /// The weights of an item's features.
    pub(super) fn item(&self, item: usize) -> &[f32] {
        &self.values[self.start(item)..self.ends[item]]
    }

    /// The same, mutable.
    pub(super) fn item_mut(&mut self, item: usize) -> &mut [f32] {
        let start = self.start(item);
        &mut self.values[start..self.ends[item]]
    }

    /// Those of the same items, from a stored tensor.
    pub(super) fn restore(facts: &Facts, tensors: &[Tensor], name: &str) -> Result<Self, ModelError> {
        let computed = Self::of(facts);
        let values = stored::take_floats(tensors, name, &[computed.values.len()])?.to_vec();
        Ok(Self { values, ..computed })
    }

    /// An item's features, with the products of their weights and a user's.
    pub(super) fn products<'a>(
        &'a self,
        facts: &'a Facts,
        user: &'a [f32],
        item: usize,
    ) -> impl Iterator<Item = (u32, f32)> + 'a {
        let own = facts.of(item).iter().zip(self.item(item));
        own.map(|(feature, weight)| (feature, user[feature as usize] * weight))
    }

    fn start(&self, item: usize) -> usize {
        if item == 0 { 0 } else { self.ends[item - 1] }
    }

    /// The mean of some items' weights, by feature, into an array of zeros.
    pub(super) fn mean(&self, facts: &Facts, items: &[u32], into: &mut [f32]) {
        let scale = 1.0 / items.len().max(1) as f32;
        for &item in items {
            for (feature, weight) in facts.of(item as usize).iter().zip(self.item(item as usize)) {
                into[feature as usize] += scale * weight;
            }
        }
    }
}

fn idf(facts: &Facts, feature: usize) -> f32 {
    let having = facts.items_with(feature).len().max(1) as f64;
    math::ln(facts.items() as f64 / having).max(0.0) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_features_weigh_more_and_ubiquitous_ones_nothing() {
        let names = [("all", 1), ("half", 1), ("one", 1)];
        let facts = Facts::of_lists(&names, &[vec![0, 1, 2], vec![0, 1], vec![0], vec![0]]);
        let weights = TfIdf::of(&facts);
        let [half, one] = [2f32.ln(), 4f32.ln()];
        let length = half.hypot(one);
        let found = weights.item(0);
        assert!(found[0] == 0.0 && (found[1] - half / length).abs() < 1e-6 && (found[2] - one / length).abs() < 1e-6);
        assert_eq!((weights.item(1), weights.item(3)), (&[0.0, 1.0][..], &[0.0][..]));
        let mut mean = [0.0; 3];
        weights.mean(&facts, &[1, 2], &mut mean);
        assert_eq!(mean, [0.0, 0.5, 0.0]);
    }
}
