//! The noise distribution of negative sampling.

use sottovoce_core::{Rng, math};

/// Draws words in proportion to count^0.75 (Mikolov et al. 2013), by Vose's alias method: one random number and one
/// look-up a word.
pub(super) struct Noise {
    /// Of each word: below which of 2^32 numbers it is drawn itself, and what is drawn otherwise.
    cells: Vec<(u32, u32)>,
}

impl Noise {
    pub(super) fn new(counts: &[u64]) -> Self {
        let weights: Vec<f64> = counts.iter().map(|&count| math::pow(count as f64, 0.75)).collect();
        let scale = counts.len() as f64 / weights.iter().sum::<f64>();
        let mut shares: Vec<f64> = weights.iter().map(|weight| weight * scale).collect();
        let (mut small, mut large): (Vec<u32>, Vec<u32>) =
            (0..counts.len() as u32).partition(|&word| shares[word as usize] < 1.0);
        let mut cells: Vec<(u32, u32)> = (0..counts.len() as u32).map(|word| (u32::MAX, word)).collect();
        while let (Some(&few), Some(&many)) = (small.last(), large.last()) {
            small.pop();
            cells[few as usize] = ((shares[few as usize] * 4_294_967_296.0) as u32, many);
            shares[many as usize] -= 1.0 - shares[few as usize];
            if shares[many as usize] < 1.0 {
                large.pop();
                small.push(many);
            }
        }
        Self { cells }
    }

    #[inline(always)]
    pub(super) fn draw(&self, rng: &mut Rng) -> u32 {
        let bits = rng.next_u64();
        let word = ((bits >> 32) * self.cells.len() as u64) >> 32;
        let (limit, other) = self.cells[word as usize];
        if (bits as u32) < limit { word as u32 } else { other }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_follow_the_distribution() {
        let counts = [10_000, 1_000, 100, 50, 50, 1];
        let noise = Noise::new(&counts);
        let mut drawn = [0u32; 6];
        let mut rng = Rng::new(5);
        let draws = 1_000_000;
        for _ in 0..draws {
            drawn[noise.draw(&mut rng) as usize] += 1;
        }
        let weights = counts.map(|count: u64| (count as f64).powf(0.75));
        for (found, weight) in drawn.iter().zip(weights) {
            let expected = weight / weights.iter().sum::<f64>() * f64::from(draws);
            assert!((f64::from(*found) - expected).abs() < 4.0 * expected.sqrt() + 4.0, "{found} {expected}");
        }
    }

    #[test]
    fn a_single_word_is_always_drawn() {
        let noise = Noise::new(&[7]);
        assert!((0..100).all(|seed| noise.draw(&mut Rng::new(seed)) == 0));
    }
}
