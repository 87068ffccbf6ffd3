//! FedGMF's settings.

use crate::config;
use crate::federated::MeanAggregation;

config! {
    /// FedGMF's settings.
    pub struct FedGmfConfig {
        /// Length of users' and items' vectors
        pub factors: usize = 20, in 1..=512 => [log device];
        /// Negatives that a device draws for each positive
        pub negatives: usize = 4, in 1..=1000 => [device];
        /// Passes of a device over its samples in a round
        pub local_epochs: usize = 1, in 1..=1000 => [log device];
        /// Samples of a device's step; 0: all of them
        pub local_batch: usize = 1, in 0..=1_000_000 => [device];
        /// Learning rate of the devices
        pub learning_rate: f64 = 0.1, in 1e-6..=10.0 => [log device];
        /// L2 regularisation of vectors in each step
        pub regularisation: f64 = 0.01, in 0.0..=10.0 => [device was("pull")];
        /// Standard deviation of initial vectors
        pub init_deviation: f64 = 0.1, in 1e-6..=1.0 => [log device];
        /// Whether devices send the mean gradient of all samples instead of what steps came to
        pub gradients: bool = false => [device derived];
        include
        /// How updates are combined.
        pub aggregation: MeanAggregation = MeanAggregation::default();
    }
}
