//! A clipping bound that follows a quantile of the norms, privately.
//!
//! G. Andrew, O. Thakkar, H. B. McMahan, S. Ramaswamy, "Differentially Private Learning with Adaptive Clipping", NeurIPS 2021.
//! Each device says with one bit whether its norm was within the bound; the noised share b of those moves the bound:
//! C <- C e^(-rate (b - quantile)).

use super::error::{check, positive};
use super::noise::DiscreteGaussian;
use super::{DpError, error};
use sottovoce_core::math;

const MAGIC: &[u8; 4] = b"SVac";
const VERSION: u8 = 1;

/// The bound and how it moves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdaptiveClip {
    bound: f64,
    quantile: f64,
    rate: f64,
    count_noise: f64,
}

impl AdaptiveClip {
    /// Length of the state as bytes: magic, version, four numbers.
    pub const BYTES: usize = 5 + 4 * 8;

    /// Starts at `bound` and steers it so that the share `quantile` of the updates is within it. `rate` is the step (the paper: 0.2),
    /// `count_noise` the standard deviation of the noise on the number of updates within (sigma_b; the paper: a twentieth of
    /// the cohort).
    ///
    /// # Errors
    /// If a number is out of range.
    pub fn new(bound: f64, quantile: f64, rate: f64, count_noise: f64) -> Result<Self, DpError> {
        check("the clipping bound", bound, "from 1e-20 to 1e20", |v| (1e-20..=1e20).contains(&v))?;
        check("the quantile", quantile, "from 0 to 1", |v| (0.0..=1.0).contains(&v))?;
        check("the rate of the clipping bound", rate, "from 0 to 10", |v| (0.0..=10.0).contains(&v))?;
        positive("the noise on the count", count_noise)?;
        DiscreteGaussian::new(2.0 * count_noise)?;
        Ok(Self { bound, quantile, rate, count_noise })
    }

    /// The bound as it is now.
    pub fn bound(&self) -> f64 {
        self.bound
    }

    /// Standard deviation of the noise on the sum of votes: each device adds 1 if its update was within the bound, -1 if not. Both
    /// sides of zero, because then one person moves the count of those within by a half only, as in the paper.
    pub fn vote_noise(&self) -> f64 {
        2.0 * self.count_noise
    }

    /// Moves the bound by the noised sum of votes of a cohort. `expected` is how many were expected, not how many came,
    /// where devices are sampled independently.
    ///
    /// # Errors
    /// If `expected` is not above 0.
    pub fn follow(&mut self, noised_votes: i64, expected: f64) -> Result<(), DpError> {
        positive("the expected cohort", expected)?;
        // Noise may carry the share far outside 0..1 in a small cohort; one round then moves the bound by e^rate at most.
        let share = 0.5 * (noised_votes as f64 / expected + 1.0);
        let bound = self.bound * math::exp(-self.rate * (share - self.quantile).clamp(-1.0, 1.0));
        self.bound = bound.clamp(1e-20, 1e20);
        Ok(())
    }

    /// The multiplier of the noise on the update for which update and votes together spend what `multiplier` alone
    /// would: (z^-2 - (2 sigma_b)^-2)^-1/2, theorem 1 of the paper. Accounts are kept with `multiplier`.
    ///
    /// # Errors
    /// If the noise on the count is too small to be made up for.
    pub fn update_multiplier(&self, multiplier: f64) -> Result<f64, DpError> {
        positive("the noise multiplier", multiplier)?;
        let left = multiplier.powi(-2) - (2.0 * self.count_noise).powi(-2);
        check("the noise on the count", self.count_noise, "above half the noise multiplier", |_| left > 0.0)?;
        Ok(1.0 / left.sqrt())
    }

    /// The state as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = [&MAGIC[..], &[VERSION]].concat();
        for number in [self.bound, self.quantile, self.rate, self.count_noise] {
            bytes.extend(number.to_le_bytes());
        }
        bytes
    }

    /// The state from [`AdaptiveClip::to_bytes`].
    ///
    /// # Errors
    /// If the bytes are not such a state.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DpError> {
        let wrong = |problem: String| error::DpError::Stored("clipping bound", problem);
        if bytes.len() != Self::BYTES {
            return Err(wrong(format!("{} bytes instead of {}", bytes.len(), Self::BYTES)));
        }
        if &bytes[..4] != MAGIC || bytes[4] != VERSION {
            return Err(wrong("it does not begin as version 1 does".to_owned()));
        }
        let mut numbers = bytes[5..].as_chunks::<8>().0.iter().map(|number| f64::from_le_bytes(*number));
        let mut number = || numbers.next().unwrap_or(f64::NAN);
        Self::new(number(), number(), number(), number()).map_err(|e| wrong(e.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SecureRng;
    use crate::dp::noise::Noise as _;

    #[test]
    fn bound_converges_to_the_quantile() {
        let mut generator = SecureRng::new([1; 32]);
        let mut adaptive = AdaptiveClip::new(0.1, 0.5, 0.2, 5.0).unwrap();
        // Norms 0.01 .. 5.00: the median is 2.5.
        for _ in 0..150 {
            let within = |n: i32| f64::from(n) / 100.0 <= adaptive.bound();
            let votes: i64 = (1..=500).map(|n| if within(n) { 1 } else { -1 }).sum();
            let noise = DiscreteGaussian::new(adaptive.vote_noise()).unwrap().sample(&mut generator);
            adaptive.follow(votes + noise, 500.0).unwrap();
        }
        assert!((adaptive.bound() - 2.5).abs() < 0.15, "{}", adaptive.bound());
    }

    #[test]
    fn indicators_are_paid_for_with_update_noise() {
        let adaptive = AdaptiveClip::new(1.0, 0.5, 0.2, 5.0).unwrap();
        let z = adaptive.update_multiplier(1.0).unwrap();
        assert!((z - 1.0 / (1.0f64 - 0.01).sqrt()).abs() < 1e-12);
        // Together: 1 / z^2 + 1 / (2 sigma_b)^2 is what one mechanism of multiplier 1 has.
        assert!((z.powi(-2) + 0.01 - 1.0).abs() < 1e-12);
        assert!(adaptive.update_multiplier(10.0).is_err());
    }

    #[test]
    fn state_round_trips_and_rejects_broken_bytes() {
        let adaptive = AdaptiveClip::new(0.37, 0.6, 0.2, 3.0).unwrap();
        let bytes = adaptive.to_bytes();
        assert_eq!(AdaptiveClip::from_bytes(&bytes).unwrap(), adaptive);
        assert!(AdaptiveClip::from_bytes(&bytes[1..]).unwrap_err().to_string().contains("36 bytes instead of 37"));
        let mut broken = bytes.clone();
        broken[4] = 9;
        assert!(AdaptiveClip::from_bytes(&broken).is_err());
        let mut broken = bytes;
        broken[5..13].copy_from_slice(&f64::NAN.to_le_bytes());
        assert!(AdaptiveClip::from_bytes(&broken).unwrap_err().to_string().contains("clipping bound is NaN"));
    }
}
