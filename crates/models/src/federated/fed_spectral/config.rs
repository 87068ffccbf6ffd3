//! FedSpectral's settings.

use crate::config;
use crate::spectral::Readout;

config! {
    /// FedSpectral's settings.
    pub struct FedSpectralConfig {
        /// Length of items' vectors: eigenvalues that are used
        pub factors: usize = 64, in 1..=512 => [log device];
        /// Vectors beyond those that are used, so that these converge
        pub oversampling: usize = 16, in 0..=256 => [device];
        /// How scores are read from the vectors: ease, svd (pure SVD), or gf-cf (graph filters)
        pub readout: Readout = Readout::Ease => [device];
        /// With readout = ease: L2 regularisation, in multiples of the smallest eigenvalue that is used
        pub regularisation: f64 = 10.0, in 1e-3..=1e4 => [log];
        /// With readout = gf-cf: weight of the ideal low-pass filter beside the linear one
        pub alpha: f64 = 0.3, in 0.0..=100.0 => [device];
        /// How much less each interaction of a long history weighs: one of n items counts n^-a times (a); 1 with
        /// readout = gf-cf
        pub user_exponent: f64 = 0.0, in 0.0..=1.0 => [device];
        /// Rounds that turn random vectors into useful ones: sums of the rounds before the last of them are forgotten
        pub basis_rounds: usize = 2, in 0..=100;
    }
}
