//! FedEASE-Top's settings.

use crate::config;

config! {
    /// FedEASE-Top's settings.
    pub struct FedEaseTopConfig {
        /// Items that are kept: with noise about 3 times the root of the number of people, a number that everybody may
        /// know (M)
        pub top_items: usize = 200, in 2..=4096 => [log device];
        /// L2 regularisation, in multiples of the largest eigenvalue
        pub regularisation: f64 = 2.0, in 1e-4..=1e4 => [log];
        /// How much less popular items score for long histories, in the exponent of n / (n + 3)
        pub popularity_exponent: f64 = 0.5, in 0.0..=2.0 => [device];
    }
}
