//! Weights to draw by, with draws and restorations in logarithmic time.

use sottovoce_core::Rng;
use thiserror::Error;

/// Why weights cannot be drawn by.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum WeightsError {
    /// Not one a device.
    #[error("{weights} weights for {devices} devices")]
    Number {
        /// Weights given.
        weights: usize,
        /// Devices there are.
        devices: usize,
    },
    /// Negative or not finite.
    #[error("weight {weight} of device {device} (counted from 0) is not a number of at least 0")]
    Weight {
        /// Its index in the population.
        device: usize,
        /// The weight.
        weight: f64,
    },
    /// Nobody could be asked.
    #[error("all weights are 0: nobody could be asked")]
    Nothing,
}

/// The largest weight as a whole number; lighter devices have their share of it, rounded, and at least 1.
const HEAVIEST: f64 = (1u64 << 32) as f64;

/// A binary indexed tree over whole numbers: what is taken out and put back leaves no rounding behind, so that a draw
/// does not depend on earlier ones.
#[derive(Debug)]
pub(super) struct Weights {
    own: Vec<u64>,
    /// `tree[i - 1]` has the sum of the `i & -i` weights that end with the i-th.
    tree: Vec<u64>,
    total: u64,
}

impl Weights {
    pub(super) fn new(weights: &[f64], devices: usize) -> Result<Self, WeightsError> {
        if weights.len() != devices {
            return Err(WeightsError::Number { weights: weights.len(), devices });
        }
        let wrong = |(_, weight): &(usize, &f64)| !(weight.is_finite() && **weight >= 0.0);
        if let Some((device, &weight)) = weights.iter().enumerate().find(wrong) {
            return Err(WeightsError::Weight { device, weight });
        }
        let heaviest = weights.iter().fold(0.0, |most: f64, &weight| most.max(weight));
        if heaviest == 0.0 {
            return Err(WeightsError::Nothing);
        }
        let whole = |&weight: &f64| {
            if weight == 0.0 { 0 } else { (weight / heaviest * HEAVIEST).round().max(1.0) as u64 }
        };
        Ok(Self::of(weights.iter().map(whole).collect()))
    }

    fn of(own: Vec<u64>) -> Self {
        let mut tree = own.clone();
        for end in 1..=tree.len() {
            let next = end + lowest_bit(end);
            if next <= tree.len() {
                tree[next - 1] += tree[end - 1];
            }
        }
        let total = own.iter().sum();
        Self { own, tree, total }
    }

    /// Draws an index by weight and removes it; `None` if nothing is left.
    pub(super) fn take(&mut self, rng: &mut Rng) -> Option<usize> {
        if self.total == 0 {
            return None;
        }
        let index = self.find(rng.index(self.total as usize) as u64);
        self.total -= self.own[index];
        self.update_sums(index, |sum, weight| *sum -= weight);
        Some(index)
    }

    /// Puts back what was taken out.
    pub(super) fn put_back(&mut self, index: usize) {
        self.total += self.own[index];
        self.update_sums(index, |sum, weight| *sum += weight);
    }

    fn update_sums(&mut self, index: usize, change: impl Fn(&mut u64, u64)) {
        let (weight, mut end) = (self.own[index], index + 1);
        while end <= self.tree.len() {
            change(&mut self.tree[end - 1], weight);
            end += lowest_bit(end);
        }
    }

    /// The index at which the sum of weights first exceeds `target`, which is below their total.
    fn find(&self, mut target: u64) -> usize {
        let mut before = 0;
        let mut step = (self.tree.len() + 1).next_power_of_two() / 2;
        while step > 0 {
            let end = before + step;
            if end <= self.tree.len() && self.tree[end - 1] <= target {
                target -= self.tree[end - 1];
                before = end;
            }
            step /= 2;
        }
        before
    }
}

fn lowest_bit(number: usize) -> usize {
    number & number.wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_by_their_share() {
        for length in [1, 2, 3, 7, 8, 13] {
            let own: Vec<u64> = (0..length).map(|index| [3, 0, 5, 1][index as usize % 4]).collect();
            let weights = Weights::of(own.clone());
            let expected: Vec<usize> =
                own.iter().enumerate().flat_map(|(index, &n)| vec![index; n as usize]).collect();
            let found: Vec<usize> = (0..weights.total).map(|target| weights.find(target)).collect();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn wrong_weights_are_named() {
        let wrong = |weights: &[f64]| Weights::new(weights, 2).unwrap_err().to_string();
        assert_eq!(wrong(&[1.0]), "1 weights for 2 devices");
        assert!(wrong(&[1.0, f64::NAN]).starts_with("weight NaN of device 1 "));
        assert!(wrong(&[-2.0, 1.0]).starts_with("weight -2 of device 0 "));
        assert!(wrong(&[0.0, 0.0]).contains("nobody"));
    }
}
