//! Seeded randomness whose values never depend on threads, platform or library version.

use crate::math;
use rand_core::{Rng as _, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A stream of random numbers, fully determined by a seed and the path of labels that led to it.
///
/// Independent work draws from its own stream (`rng.stream("user", 17)`), so results do not depend on the order of the
/// work. Distributions are implemented here because a new version of a crate might draw them differently.
///
/// ```
/// use sottovoce_core::Rng;
/// let a = Rng::new(7).stream("user", 3).below(100);
/// let b = Rng::new(7).stream("user", 3).below(100);
/// assert_eq!(a, b);
/// ```
#[derive(Clone, Debug)]
pub struct Rng {
    key: u64,
    source: Xoshiro256PlusPlus,
}

impl Rng {
    /// The root stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self::from_key(mix(seed ^ 0x5077_0C0E_0000_0001))
    }

    #[inline]
    fn from_key(key: u64) -> Self {
        Self { key, source: Xoshiro256PlusPlus::seed_from_u64(key) }
    }

    /// An independent stream named by a label and a number; does not advance this one.
    #[inline]
    pub fn stream(&self, label: &str, index: u64) -> Rng {
        let mut key = self.key;
        for byte in label.bytes() {
            key = mix(key ^ u64::from(byte).wrapping_add(0x9E37_79B9_7F4A_7C15));
        }
        Self::from_key(mix(key ^ mix(index.wrapping_add(0xD1B5_4A32_D192_ED03))))
    }

    /// 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.source.next_u64()
    }

    /// 32 random bits.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        (self.source.next_u64() >> 32) as u32
    }

    /// A number below `n`, uniform up to a bias under n / 2^32 per value.
    ///
    /// # Panics
    /// If `n` is 0.
    #[inline]
    pub fn below(&mut self, n: u32) -> u32 {
        assert!(n > 0, "a number below 0 was asked for");
        ((u64::from(self.next_u32()) * u64::from(n)) >> 32) as u32
    }

    /// Two independent numbers below these two, each as [`below`](Self::below), for the cost of one.
    ///
    /// # Panics
    /// If one of them is 0.
    #[inline]
    pub fn two_below(&mut self, [n, m]: [u32; 2]) -> [u32; 2] {
        assert!(n > 0 && m > 0, "a number below 0 was asked for");
        let bits = self.next_u64();
        let scaled = |bits: u64, n: u32| ((bits * u64::from(n)) >> 32) as u32;
        [scaled(bits >> 32, n), scaled(bits & u64::from(u32::MAX), m)]
    }

    /// An index below `n`.
    ///
    /// # Panics
    /// If `n` is 0.
    #[inline]
    pub fn index(&mut self, n: usize) -> usize {
        assert!(n > 0, "an index below 0 was asked for");
        ((u128::from(self.next_u64()) * n as u128) >> 64) as usize
    }

    /// Uniform in [0, 1) with 53 bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// True with this probability.
    #[inline]
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Standard normal, by the polar method.
    pub fn normal(&mut self) -> f64 {
        loop {
            let (x, y) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                return x * (-2.0 * math::ln(square) / square).sqrt();
            }
        }
    }

    /// Fills with independent normal values of this standard deviation.
    pub fn fill_normal(&mut self, deviation: f32, into: &mut [f32]) {
        for value in into {
            *value = self.normal() as f32 * deviation;
        }
    }

    /// Exponential with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -math::ln(1.0 - self.unit())
    }

    /// Puts a slice into random order (Fisher-Yates).
    pub fn shuffle<T>(&mut self, slice: &mut [T]) {
        for end in (1..slice.len()).rev() {
            slice.swap(end, self.index(end + 1));
        }
    }
}

/// SplitMix64's finaliser: every input bit reaches every output bit.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_never_change() {
        let mut rng = Rng::new(42);
        let drawn = [rng.next_u64(), rng.stream("a", 1).next_u64(), rng.stream("b", 1).next_u64()];
        assert_eq!(drawn, FIXED, "streams changed: every stored result would change with them");
    }
    const FIXED: [u64; 3] = [17_050_540_545_346_152_548, 721_485_937_006_864_646, 2_066_000_455_014_099_445];

    #[test]
    fn normal_and_exponential_have_the_right_moments() {
        let mut rng = Rng::new(1);
        let n = 200_000;
        let (mut sum, mut square, mut waiting) = (0.0, 0.0, 0.0);
        for _ in 0..n {
            let z = rng.normal();
            sum += z;
            square += z * z;
            waiting += rng.exponential();
        }
        let n = f64::from(n);
        assert!((sum / n).abs() < 0.01 && (square / n - 1.0).abs() < 0.02 && (waiting / n - 1.0).abs() < 0.01);
    }

    #[test]
    fn shuffle_is_uniform() {
        let mut rng = Rng::new(3);
        let mut seen = std::collections::HashMap::new();
        for _ in 0..6000 {
            let mut order = [0, 1, 2];
            rng.shuffle(&mut order);
            *seen.entry(order).or_insert(0) += 1;
        }
        assert_eq!(seen.len(), 6);
        assert!(seen.values().all(|&count| (850..1150).contains(&count)), "{seen:?}");
    }
}
