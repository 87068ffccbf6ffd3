//! FPL's settings.

use crate::federated::{Negatives, RoundsPerEpoch, RowAggregation, RowStrategy, TripleSchedule};
use crate::{choices, config};

choices! {
    /// When a device moves its user's vector.
    #[derive(Default)]
    pub enum Steps {
        /// At the end of a round, by the sum over its triples, as in the papers' text.
        #[default]
        Together => "together",
        /// After every triple, as in the papers' published program.
        Sequential => "sequential",
    }
}

config! {
    /// FPL's settings.
    pub struct FplConfig {
        /// Rounds of an epoch in configurations with +: as in the papers' text, or as in their published program, which
        /// trains as many times as much as there are interactions a device
        pub rounds_per_epoch: RoundsPerEpoch = RoundsPerEpoch::Text;
        /// When a device moves its user's vector: once at the end of a round, or (as in the papers' published program)
        /// after every triple
        pub steps: Steps = Steps::Together => [device];
        /// Times as many triples per device, on as many times fewer devices: fewer downloads
        pub local_work: usize = 1, in 1..=1000 => [log];
        /// Where triples draw their negatives from: the whole catalog, a part of it, or (papers) what the user does not
        /// have, which over rounds reveals what they have
        pub negatives: Negatives = Negatives::Decoys => [device];
        /// Length of users' and items' vectors
        pub factors: usize = 32, in 1..=512 => [log device];
        /// Learning rate of devices and server (alpha)
        pub learning_rate: f64 = 0.05, in 1e-6..=1.0 => [log device];
        /// L2 regularisation of users' vectors
        pub user_regularisation: f64 = 0.4, in 0.0..=10.0 => [device was("user_pull")];
        /// L2 regularisation of the rows of items that the user has
        pub positive_regularisation: f64 = 0.05, in 0.0..=10.0 => [device was("positive_pull")];
        /// L2 regularisation of the rows of items that the user does not have
        pub negative_regularisation: f64 = 1.0, in 0.0..=10.0 => [device was("negative_pull")];
        /// Whether regularisation is of items' biases too (as in the papers' text)
        pub regularise_biases: bool = false => [device];
        /// Whether the strengths of regularisation are those for histories of 100 items, and stronger for shorter ones
        /// and smaller pi: times the root of 100 / (mean_history * pi)
        pub scale_regularisation: bool = true => [device];
        /// Items that people have on average; 0: as `triples` says where it is set, otherwise as the training data say
        pub mean_history: Option<usize> = None, in 0..=1_000_000 => [device(1..=1_000_000)];
        /// With strategy = adaptive: how many times as long the steps of items' biases may be; 0: the fourth root of
        /// 100 / (interactions per item), between 1 and 3
        pub bias_steps: f64 = 0.0, in 0.0..=100.0;
        /// Standard deviation of initial vectors
        pub init_deviation: f64 = 0.1, in 0.0..=1.0 => [device];
        include
        /// How much a device does in a round.
        pub triples: TripleSchedule = TripleSchedule::default();
        include
        /// How updates are combined.
        pub aggregation: RowAggregation =
            RowAggregation { strategy: RowStrategy::Adaptive, ..RowAggregation::default() };
    }
}
