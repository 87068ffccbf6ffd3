//! FedMF's settings.

use crate::config;
use crate::federated::{RowAggregation, RowStrategy};

config! {
    /// FedMF's settings.
    pub struct FedMfConfig {
        /// Length of users' and items' vectors
        pub factors: usize = 20, in 1..=512 => [log device];
        /// Cells of value 0 that a device samples for each interaction
        pub negatives: usize = 4, in 1..=1000 => [device];
        /// Learning rate of devices and server (gamma)
        pub learning_rate: f64 = 0.05, in 1e-6..=1.0 => [log device];
        /// L2 regularisation of users' and items' vectors (lambda, mu)
        pub regularisation: f64 = 0.05, in 0.0..=10.0 => [device];
        /// Standard deviation of initial vectors
        pub init_deviation: f64 = 0.1, in 1e-6..=1.0 => [log device];
        include
        /// How updates are combined.
        pub aggregation: RowAggregation = RowAggregation { strategy: RowStrategy::Damped, ..RowAggregation::default() };
    }
}
