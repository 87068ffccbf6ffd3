//! Items' features: a vector for each item, computed from the public catalog wherever it is needed.

use sottovoce_core::{Facts, Rng};
use std::sync::Arc;

/// Seeds all vectors. It is part of the format: devices that trained with another would not understand the encoders.
const SEED: u64 = 0x4EF5;

/// Computes the vector F_i of any item: no table of vectors is stored, and none is fetched.
///
/// Each fact about an item (a genre, a director) stands for a random direction that follows from the fact's name; an
/// item's vector is the sum of its facts' directions and of a direction of its own, scaled to length 1. So items with
/// common facts are alike, no two items are the same, and an item without facts has its own direction only.
#[derive(Clone, Debug)]
pub struct ItemVectors {
    facts: Arc<Facts>,
    /// By feature: the seed of its direction.
    seeds: Arc<[u64]>,
    dim: usize,
    own: f32,
}

impl ItemVectors {
    /// Vectors of this length; an item's own direction has this weight beside that of its facts together, each of
    /// length 1.
    pub fn new(facts: &Arc<Facts>, dim: usize, own: f64) -> Self {
        let root = Rng::new(SEED);
        let names = facts.names();
        let seeds = names.iter().map(|name| root.stream(name, 0).next_u64()).collect();
        Self { facts: Arc::clone(facts), seeds, dim, own: own as f32 }
    }

    /// Length of the vectors.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Writes an item's vector. An item that the facts do not know has none.
    pub fn write(&self, item: u32, into: &mut [f32]) {
        into.fill(0.0);
        let mut facts = 0;
        if (item as usize) < self.facts.items() {
            for feature in self.facts.of(item as usize).iter() {
                add_direction(&mut Rng::new(self.seeds[feature as usize]), into);
                facts += 1;
            }
        }
        let own = if facts == 0 { 1.0 } else { self.own };
        scale_to(if facts == 0 { 0.0 } else { 1.0 }, into);
        if own > 0.0 {
            let scale = own / (self.dim as f32 / 3.0).sqrt();
            let mut rng = Rng::new(SEED ^ (u64::from(item) + 1));
            into.iter_mut().for_each(|value| *value += scale * uniform(&mut rng));
            scale_to(1.0, into);
        }
    }
}

/// Uniform within -1 and 1.
fn uniform(rng: &mut Rng) -> f32 {
    (2.0 * rng.unit() - 1.0) as f32
}

fn add_direction(rng: &mut Rng, into: &mut [f32]) {
    into.iter_mut().for_each(|value| *value += uniform(rng));
}

/// Scales a vector to a length, unless it is 0.
fn scale_to(length: f32, vector: &mut [f32]) {
    let squares: f32 = vector.iter().map(|value| value * value).sum();
    if squares > 0.0 {
        let factor = length / squares.sqrt();
        vector.iter_mut().for_each(|value| *value *= factor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector(vectors: &ItemVectors, item: u32) -> Vec<f32> {
        let mut into = vec![9.0; vectors.dim()];
        vectors.write(item, &mut into);
        into
    }

    fn cosine(a: &[f32], b: &[f32]) -> f32 {
        a.iter().zip(b).map(|(a, b)| a * b).sum()
    }

    #[test]
    fn items_are_alike_by_their_facts_and_never_the_same() {
        let lists = [vec![0, 1], vec![0, 1], vec![2], vec![], vec![]];
        let facts = Arc::new(Facts::of_lists(&[("genre: drama", 1), ("director: F", 1), ("genre: war", 1)], &lists));
        let vectors = ItemVectors::new(&facts, 64, 0.5);
        let all: Vec<Vec<f32>> = (0..7).map(|item| vector(&vectors, item)).collect();
        for item in &all {
            assert!((cosine(item, item) - 1.0).abs() < 1e-5);
        }
        let alike = cosine(&all[0], &all[1]);
        assert!(alike > 0.6 && alike < 0.95, "{alike}");
        for (one, other) in [(0, 2), (0, 3), (3, 4), (4, 5), (5, 6)] {
            assert!(cosine(&all[one], &all[other]).abs() < 0.45, "{one} {other}");
        }
    }

    /// A catalog that grows does not move the vectors of the items it had: directions follow from names.
    #[test]
    fn vectors_follow_from_names() {
        let before = Arc::new(Facts::of_lists(&[("drama", 1), ("war", 1)], &[vec![1], vec![0]]));
        let after = Arc::new(Facts::of_lists(&[("comedy", 1), ("drama", 1), ("war", 1)], &[vec![2], vec![1], vec![0]]));
        let [before, after] = [before, after].map(|facts| ItemVectors::new(&facts, 16, 0.3));
        assert_eq!(vector(&before, 0), vector(&after, 0));
        assert_eq!(vector(&before, 1), vector(&after, 1));
        assert_ne!(vector(&before, 2), vector(&after, 2));
    }
}
