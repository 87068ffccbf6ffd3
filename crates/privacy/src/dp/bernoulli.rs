//! Exact Bernoulli sampling: every decision is made on integers, none on rounded numbers.
//!
//! C. Canonne, G. Kamath, T. Steinke, "The Discrete Gaussian for Differential Privacy", 2020, section 5.

use crate::SecureRng;

/// Largest denominator of a probability, so that 64 more bits of a draw never overflow.
pub(super) const LARGEST: u128 = 1 << 120;

/// True with probability `a / b`, exactly; `a <= b < 2^120`.
///
/// A uniform real in [0, 1) is read 64 bits at a time until it is known on which side of a / b it lies: u b against a 2^64, and
/// the remainder of a when the first 64 bits do not decide (once in 2^64 draws).
pub(super) fn bernoulli(rng: &mut SecureRng, mut a: u128, b: u128) -> bool {
    debug_assert!(a <= b && b < LARGEST);
    if a == b {
        return true;
    }
    loop {
        let draw = u128::from(rng.next_u64());
        let low = draw * (b & u128::from(u64::MAX));
        let high = draw * (b >> 64) + (low >> 64);
        let low = low & u128::from(u64::MAX);
        if high >= a {
            return false;
        }
        let gap = a - high;
        if gap > (b >> 64) + 2 {
            return true;
        }
        // gap is small now: no overflow.
        let left = (gap << 64) - low;
        if left >= b {
            return true;
        }
        a = left;
    }
}

/// True with probability e^-(a / b), exactly; `a <= b < 2^120`. Algorithm 1 of the paper, with the probability a / (b k) of
/// its step k as two draws, a / b and 1 / k, which keeps denominators small.
pub(super) fn bernoulli_exp(rng: &mut SecureRng, a: u128, b: u128) -> bool {
    let mut k: u128 = 1;
    while bernoulli(rng, a, b) && (k == 1 || bernoulli(rng, 1, k)) {
        k += 1;
    }
    k % 2 == 1
}

/// True with probability 1 / e, exactly.
pub(super) fn bernoulli_inv_e(rng: &mut SecureRng) -> bool {
    let mut k: u128 = 2;
    while bernoulli(rng, 1, k) {
        k += 1;
    }
    k % 2 == 1
}

/// True with probability e^-times, exactly.
pub(super) fn bernoulli_exp_int(rng: &mut SecureRng, times: u128) -> bool {
    (0..times).all(|_| bernoulli_inv_e(rng))
}

/// A uniform integer below `bound`, by multiplication and rejection (Lemire 2019); `bound > 0`.
pub(super) fn below(rng: &mut SecureRng, bound: u64) -> u64 {
    loop {
        let product = u128::from(rng.next_u64()) * u128::from(bound);
        let low = product as u64;
        if low >= bound || low >= bound.wrapping_neg() % bound {
            return (product >> 64) as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Within five standard deviations of what is expected of 200,000 draws.
    fn agrees(expected: f64, mut draw: impl FnMut() -> bool) {
        let draws = 200_000;
        let hits = (0..draws).filter(|_| draw()).count() as f64;
        let spread = (expected * (1.0 - expected) * f64::from(draws)).sqrt();
        assert!((hits - expected * f64::from(draws)).abs() <= 5.0 * spread, "{hits} for {expected}");
    }

    #[test]
    fn frequencies_match_probabilities() {
        let mut rng = SecureRng::new([1; 32]);
        for (a, b) in [(1, 2), (1, 3), (2, 7), (99, 100), ((1 << 100) + 7, 5 << 100), (1, 1 << 10)] {
            agrees(a as f64 / b as f64, || bernoulli(&mut rng, a, b));
            agrees((-(a as f64) / b as f64).exp(), || bernoulli_exp(&mut rng, a, b));
        }
        agrees((-1.0f64).exp(), || bernoulli_inv_e(&mut rng));
        agrees((-2.0f64).exp(), || bernoulli_exp_int(&mut rng, 2));
    }

    #[test]
    fn probabilities_0_and_1_are_certain() {
        let mut rng = SecureRng::new([2; 32]);
        for b in [1, 2, 3, 1 << 64, LARGEST - 1] {
            assert!((0..100).all(|_| bernoulli(&mut rng, b, b)));
            assert!((0..100).all(|_| !bernoulli(&mut rng, 0, b)));
            assert!((0..100).all(|_| bernoulli_exp(&mut rng, 0, b)));
        }
    }

    #[test]
    fn integers_below_a_bound_are_uniform() {
        let mut rng = SecureRng::new([3; 32]);
        let mut seen = [0u32; 7];
        (0..70_000).for_each(|_| seen[below(&mut rng, 7) as usize] += 1);
        assert!(seen.iter().all(|&n| (9_500..10_500).contains(&n)), "{seen:?}");
        assert_eq!(below(&mut rng, 1), 0);
    }
}
