//! Drawing from a fixed distribution in constant time.

use sottovoce_core::Rng;

/// Walker's alias method (as Vose builds it): one random number and one look-up a draw, 8 bytes an outcome.
#[derive(Clone, Debug)]
pub(super) struct Alias {
    slots: Vec<Slot>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Probability of staying at this slot, as a fraction of 2^32.
    stay: u32,
    other: u32,
}

impl Alias {
    /// Of weights that are finite, not negative and not all 0; there must be at least one.
    pub(super) fn new(weights: &[f64]) -> Self {
        let n = weights.len();
        let total: f64 = weights.iter().sum();
        let mut share: Vec<f64> = weights.iter().map(|weight| weight / total * n as f64).collect();
        let mut slots: Vec<Slot> = (0..n as u32).map(|index| Slot { stay: u32::MAX, other: index }).collect();
        let (mut poor, mut rich): (Vec<usize>, Vec<usize>) = (0..n).partition(|&index| share[index] < 1.0);
        while let (Some(&small), Some(&large)) = (poor.last(), rich.last()) {
            poor.pop();
            slots[small] = Slot { stay: (share[small] * 4_294_967_296.0) as u32, other: large as u32 };
            share[large] -= 1.0 - share[small];
            if share[large] < 1.0 {
                rich.pop();
                poor.push(large);
            }
        }
        Self { slots }
    }

    /// An index with the probability of its weight.
    #[inline]
    pub(super) fn draw(&self, rng: &mut Rng) -> usize {
        let bits = rng.next_u64();
        let index = (((bits >> 32) * self.slots.len() as u64) >> 32) as usize;
        let slot = self.slots[index];
        // The low half is independent of the high half that chose the slot.
        if (bits as u32) < slot.stay { index } else { slot.other as usize }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_follow_the_weights() {
        let weights = [5.0, 0.0, 1.0, 3.0, 1.0];
        let table = Alias::new(&weights);
        let mut rng = Rng::new(9);
        let mut counts = [0u32; 5];
        for _ in 0..100_000 {
            counts[table.draw(&mut rng)] += 1;
        }
        for (count, weight) in counts.iter().zip(weights) {
            assert!((f64::from(*count) - weight * 10_000.0).abs() < 500.0, "{counts:?}");
        }
    }

    #[test]
    fn one_outcome_is_always_drawn() {
        let mut rng = Rng::new(2);
        assert!((0..100).all(|_| Alias::new(&[0.3]).draw(&mut rng) == 0));
    }
}
