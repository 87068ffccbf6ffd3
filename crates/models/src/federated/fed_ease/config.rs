//! FedEASE's settings.

use crate::config;

config! {
    /// FedEASE's settings.
    pub struct FedEaseConfig {
        /// L2 regularisation of all weights: larger for fewer data
        pub regularisation: f64 = 500.0, in 1e-3..=1e6 => [log];
        /// Uploads that one is divided into, each in a round of its own, for large catalogs
        pub blocks: usize = 1, in 1..=256 => [log device];
    }
}
