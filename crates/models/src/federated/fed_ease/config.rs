//! FedEASE's settings.

use crate::config;

config! {
    /// FedEASE's settings.
    pub struct FedEaseConfig {
        /// L2 regularisation of all weights: larger for fewer data
        pub regularisation: f64 = 500.0, in 1e-3..=1e6 => [log];
    }
}
