//! FPL's settings.

use crate::config;
use crate::federated::{Negatives, RowAggregation, TripleSchedule};

config! {
    /// FPL's settings.
    pub struct FplConfig {
        /// Times as many triples per device, on as many times fewer devices: fewer downloads
        pub local_work: usize = 1, in 1..=1000 => [log];
        /// Where triples draw their negatives from: the whole catalog, a part of it, or (papers) what the user does not
        /// have, which over rounds reveals what they have
        pub negatives: Negatives = Negatives::Decoys => [device];
        /// Length of users' and items' vectors
        pub factors: usize = 20, in 1..=512 => [log device];
        /// Learning rate of devices and server (alpha)
        pub learning_rate: f64 = 0.05, in 1e-6..=1.0 => [log device];
        /// L2 regularisation of users' vectors
        pub user_regularisation: f64 = 0.05, in 0.0..=10.0 => [device was("user_pull")];
        /// L2 regularisation of the rows of items that the user has
        pub positive_regularisation: f64 = 0.05, in 0.0..=10.0 => [device was("positive_pull")];
        /// L2 regularisation of the rows of items that the user does not have
        pub negative_regularisation: f64 = 0.005, in 0.0..=10.0 => [device was("negative_pull")];
        /// Standard deviation of initial vectors
        pub init_deviation: f64 = 0.1, in 0.0..=1.0 => [device];
        include
        /// How much a device does in a round.
        pub triples: TripleSchedule = TripleSchedule::default();
        include
        /// How updates are combined.
        pub aggregation: RowAggregation = RowAggregation::default();
    }
}
