//! FedSpectral's settings.

use crate::config;
use crate::federated::PublicFacts;
use crate::spectral::Readout;

config! {
    /// FedSpectral's settings.
    pub struct FedSpectralConfig {
        /// Length of items' vectors: eigenvalues that are used (k); 0: by rule, 256 where an update is no larger than
        /// 20 MB, and at least 64
        pub factors: Option<usize> = None, in 0..=512 => [device];
        /// Vectors beyond those that are used, so that these converge
        pub oversampling: usize = 16, in 0..=256 => [device];
        /// How scores are read from the vectors: ease, or svd (pure SVD)
        pub readout: Readout = Readout::Ease => [device];
        /// With readout = ease: L2 regularisation, in multiples of the smallest eigenvalue that is used
        pub regularisation: f64 = 10.0, in 1e-3..=1e4 => [log];
        /// How much less each interaction of a long history weighs: one of n items counts n^-a times (a)
        pub user_exponent: f64 = 0.0, in 0.0..=1.0 => [device];
        /// Rounds that turn random vectors into useful ones: sums of the rounds before the last of them are forgotten
        pub basis_rounds: usize = 2, in 0..=100;
    }
}

/// Vectors by rule, where a catalog is small enough and where it is not: more are not better, fewer are worse where
/// people are few and tastes many.
const MOST: usize = 256;
const LEAST: usize = 64;

/// The largest update by rule, in values of 4 bytes.
const VALUES: usize = 5_000_000;

impl FedSpectralConfig {
    /// k.
    pub fn vectors(&self) -> usize {
        self.factors.unwrap_or(LEAST)
    }

    /// k by rule: from the size of the catalog, and fewer where there are few items or people to find vectors in.
    pub fn rule(public: &PublicFacts<'_>) -> usize {
        let &PublicFacts { people, items, .. } = public;
        let sent = (VALUES / items.max(1)).saturating_sub(16).clamp(LEAST, MOST);
        sent.min(items - items / 8).min(people / 3).max(1)
    }
}
