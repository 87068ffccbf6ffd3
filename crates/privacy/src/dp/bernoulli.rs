//! Coins with exact odds: every decision is one on integers, none on rounded numbers.
//!
//! C. Canonne, G. Kamath, T. Steinke, "The Discrete Gaussian for Differential Privacy", 2020, section 5.

use crate::SecureRng;

/// Largest denominator of a coin's bernoulli, so that 64 more bits of a draw never overflow.
pub(super) const LARGEST: u128 = 1 << 120;

/// True with probability `a / b`, exactly; `a <= b < 2^120`.
///
/// A uniform real in [0, 1) is read 64 bits at a time until it is plain on which side of a / b it lies: u b against a 2^64, and
/// what is left of a when the first 64 bits cannot tell (once in 2^64 draws).
pub(super) fn bernoulli(generator: &mut SecureRng, mut a: u128, b: u128) -> bool {
    debug_assert!(a <= b && b < LARGEST);
    if a == b {
        return true;
    }
    loop {
        let draw = u128::from(generator.next_u64());
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

/// True with probability e^-(a / b), exactly; `a <= b < 2^120`. Algorithm 1 of the paper, with the odds a / (b k) of its
/// step k as two coins, a / b and 1 / k, which keeps denominators small.
pub(super) fn bernoulli_exp(generator: &mut SecureRng, a: u128, b: u128) -> bool {
    let mut k: u128 = 1;
    while bernoulli(generator, a, b) && (k == 1 || bernoulli(generator, 1, k)) {
        k += 1;
    }
    k % 2 == 1
}

/// True with probability 1 / e, exactly.
pub(super) fn bernoulli_inv_e(generator: &mut SecureRng) -> bool {
    let mut k: u128 = 2;
    while bernoulli(generator, 1, k) {
        k += 1;
    }
    k % 2 == 1
}

/// True with probability e^-times, exactly.
pub(super) fn bernoulli_exp_int(generator: &mut SecureRng, times: u128) -> bool {
    (0..times).all(|_| bernoulli_inv_e(generator))
}

/// True with probability e^-(a / b) for any a, exactly; `b < 2^120`.
pub(super) fn bernoulli_exp_ratio(generator: &mut SecureRng, a: u128, b: u128) -> bool {
    bernoulli_exp_int(generator, a / b) && bernoulli_exp(generator, a % b, b)
}

/// A whole number below `bound`, all alike, by multiplication and rejection (Lemire 2019); `bound > 0`.
pub(super) fn below(generator: &mut SecureRng, bound: u64) -> u64 {
    loop {
        let product = u128::from(generator.next_u64()) * u128::from(bound);
        let low = product as u64;
        if low >= bound || low >= bound.wrapping_neg() % bound {
            return (product >> 64) as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Within five standard deviations of what is expected of 200,000 coins.
    fn agrees(expected: f64, mut coin: impl FnMut() -> bool) {
        let tosses = 200_000;
        let heads = (0..tosses).filter(|_| coin()).count() as f64;
        let spread = (expected * (1.0 - expected) * f64::from(tosses)).sqrt();
        assert!((heads - expected * f64::from(tosses)).abs() <= 5.0 * spread, "{heads} for {expected}");
    }

    #[test]
    fn coins_fall_as_often_as_they_should() {
        let mut generator = SecureRng::new([1; 32]);
        for (a, b) in [(1, 2), (1, 3), (2, 7), (99, 100), ((1 << 100) + 7, 5 << 100), (1, 1 << 10)] {
            agrees(a as f64 / b as f64, || bernoulli(&mut generator, a, b));
            agrees((-(a as f64) / b as f64).exp(), || bernoulli_exp(&mut generator, a, b));
        }
        agrees((-1.0f64).exp(), || bernoulli_inv_e(&mut generator));
        agrees((-2.0f64).exp(), || bernoulli_exp_int(&mut generator, 2));
        agrees((-1.25f64).exp(), || bernoulli_exp_ratio(&mut generator, 5, 4));
    }

    #[test]
    fn certain_coins_are_certain() {
        let mut generator = SecureRng::new([2; 32]);
        for b in [1, 2, 3, 1 << 64, LARGEST - 1] {
            assert!((0..100).all(|_| bernoulli(&mut generator, b, b)));
            assert!((0..100).all(|_| !bernoulli(&mut generator, 0, b)));
            assert!((0..100).all(|_| bernoulli_exp(&mut generator, 0, b)));
        }
    }

    #[test]
    fn whole_numbers_are_alike() {
        let mut generator = SecureRng::new([3; 32]);
        let mut seen = [0u32; 7];
        (0..70_000).for_each(|_| seen[below(&mut generator, 7) as usize] += 1);
        assert!(seen.iter().all(|&n| (9_500..10_500).contains(&n)), "{seen:?}");
        assert_eq!(below(&mut generator, 1), 0);
    }
}
