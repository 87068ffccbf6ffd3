//! FedItemKNN's settings.

use crate::central::neighbours::NeighbourConfig;
use crate::config;

config! {
    /// FedItemKNN's settings.
    pub struct FedItemKnnConfig {
        /// Uploads that one is divided into, each in a round of its own, for large catalogs
        pub blocks: usize = 1, in 1..=256 => [log device];
        include
        /// Neighbours, as centralised Item-kNN has them.
        pub neighbours: NeighbourConfig = NeighbourConfig { k: 400, shrinkage: 0.0, ..NeighbourConfig::default() };
    }
}
