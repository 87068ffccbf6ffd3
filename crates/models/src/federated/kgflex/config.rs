//! KGFlex's settings.

use crate::config;
use crate::federated::{RowAggregation, RowStrategy, TripleSchedule};

config! {
    /// Settings of the model itself, wherever it is trained.
    pub struct KgFlexModelConfig {
        /// Length of features' vectors
        pub factors: usize = 4, in 1..=512 => [log device];
        /// Features one hop away that a user keeps, by information gain
        pub one_hop: usize = 500, in 0..=10_000 => [device];
        /// Features more than one hop away that a user keeps, by information gain
        pub more_hops: usize = 500, in 0..=10_000 => [device];
        /// Negatives for each of a user's items when information gain is computed
        pub negatives: usize = 20, in 1..=1000 => [log device];
        /// Information gain below which a user does not keep a feature
        pub min_gain: f64 = 0.0, in 0.0..=1.0 => [device];
        /// Learning rate of all vectors and biases (alpha)
        pub learning_rate: f64 = 0.05, in 1e-6..=1.0 => [log device];
        /// L2 regularisation of a user's vectors
        pub personal_regularisation: f64 = 0.0, in 0.0..=10.0 => [device was("personal_pull")];
        /// L2 regularisation of shared vectors and biases
        pub shared_regularisation: f64 = 0.0, in 0.0..=10.0 => [device was("shared_pull")];
        /// Standard deviation of initial vectors
        pub init_deviation: f64 = 0.1, in 0.0..=1.0 => [device];
    }
}

config! {
    /// KGFlex's settings.
    pub struct KgFlexConfig {
        include
        /// The model. Devices make short steps: the gains already say what a person goes by, and vectors that follow a
        /// few items closely recommend worse.
        pub model: KgFlexModelConfig = KgFlexModelConfig { learning_rate: 0.002, ..KgFlexModelConfig::default() };
        include
        /// How much a device does in a round.
        pub triples: TripleSchedule = TripleSchedule::default();
        include
        /// How updates are combined. Gains are small, so that biases must become large; how small depends on the
        /// data set, which adaptive steps level out.
        pub aggregation: RowAggregation = RowAggregation {
            strategy: RowStrategy::Adaptive,
            adaptive_step: 3.0,
            ..RowAggregation::default()
        };
    }
}
