//! FedItemKNN: Item-kNN from one sealed sum.
//!
//! M. Deshpande, G. Karypis: Item-based Top-N Recommendation Algorithms, ACM TOIS 22(1), 2004.
//!
//! Similarities of items depend on people through G = sum_u x_u x_u' only, with x_u a person's history: G_ij people
//! have both items, G_ii have i. Each device sends half of x_u x_u'; the server adds up G and publishes similarities:
//! ```text
//! cosine  G_ij / (sqrt(G_ii G_jj) + shrinkage)        jaccard  G_ij / (G_ii + G_jj - G_ij + shrinkage)
//! score(u, j) = sum of the similarities of j to those of its k nearest neighbours that u has
//! ```
//! **One round** makes the model that one place with everybody's data would make. There is no private model: whoever
//! comes later is served at once.
//!
//! **With noise** a person's pairs are scaled to a norm of 1, whatever the history, so that nothing else need be
//! bounded; long histories then weigh less. Pairs whose sum noise alone could have made count as none, and nobody's
//! item is rarer than that: small sums of noise would otherwise be the largest similarities. Over a whole catalog much
//! noise leaves few pairs; `fed-ease-top` is made for it.
//!
//! What leaves the device are rows of its tables, one for each item that the owner has, with a 1 for each other item
//! that they have. **That is the history itself**: devices decline rounds of this model without a seal, and the
//! simulator refuses them. Uploads are those of `fed-ease`.

mod client;
mod config;
#[cfg(test)]
mod tests;

pub use client::{Client, Scratch};
pub use config::FedItemKnnConfig;

use super::co_occurrences::{GramReadout, GramSpec, PairLayout};
use super::{
    AggregationSpec, Cohort, EpochTraffic, Epochs, Exposure, FederatedModel, ModelInfo, Population, RowMeaning,
    Schedule, ServerModel, TensorSlice,
};
use sottovoce_core::{Facts, Rng};
use sottovoce_protocol::{Layout, ModelError, Parameters};
use std::sync::Arc;

/// FedItemKNN.
pub struct FedItemKnn;

/// The server's half: half of the similarities, and each item's last neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server(PairLayout);

impl ServerModel for Server {
    fn layout(&self, items: usize) -> Result<Layout, ModelError> {
        self.0.layout(items)
    }

    fn init(&self, items: usize, rng: &mut Rng) -> Result<Parameters, ModelError> {
        self.0.init(items, rng)
    }

    fn tensors(&self) -> Vec<TensorSlice> {
        self.0.tensors("similarities")
    }
}

impl FedItemKnnConfig {
    fn pairs(&self) -> PairLayout {
        PairLayout { blocks: self.blocks, more: 1 }
    }
}

impl FederatedModel for FedItemKnn {
    const INFO: ModelInfo = ModelInfo::new("fed-item-knn", "FedItemKNN")
        .summary("Item-kNN from one sealed sum of co-occurrences: the model that one place with all data would make")
        .paper("Deshpande, Karypis: Item-based Top-N Recommendation Algorithms. ACM TOIS 22(1), 2004");
    const EPOCHS: Epochs = Epochs { default: 1, help: "Epochs; in one, every device is asked once" };
    const ONCE_AN_EPOCH: bool = true;
    const SENDS_ONES: bool = true;
    const SENSITIVITY: Option<f32> = Some(1.0);
    /// Numbers of items are among the values.
    const LARGEST_VALUE: f32 = 1e9;

    type Config = FedItemKnnConfig;
    type Client = Client;
    type Server = Server;

    fn client(config: &FedItemKnnConfig, _: &Arc<Facts>) -> Client {
        Client { pairs: config.pairs() }
    }

    fn server(config: &FedItemKnnConfig, _: &Arc<Facts>) -> Server {
        Server(config.pairs())
    }

    fn schedule(config: &FedItemKnnConfig, cohort: Option<Cohort>, population: &Population) -> Schedule {
        Schedule::once(cohort.unwrap_or(Self::COHORT), population).in_passes(config.blocks)
    }

    fn passes(config: &FedItemKnnConfig) -> usize {
        config.blocks
    }

    fn aggregation(config: &FedItemKnnConfig, _: usize) -> AggregationSpec {
        let readout = GramReadout::Neighbours(config.neighbours);
        AggregationSpec::Gram(GramSpec { layout: config.pairs(), readout })
    }

    fn exposure() -> Vec<Exposure> {
        vec![Exposure { table: 0, rows: RowMeaning::Items, bias: false }]
    }

    /// All items down; up the owner's items.
    fn vectors_per_epoch(_: &FedItemKnnConfig, traffic: &EpochTraffic) -> f64 {
        let EpochTraffic { schedule, cohort, items, pi, .. } = *traffic;
        (schedule.rounds * cohort) as f64 * (items as f64 + pi * schedule.triples as f64)
    }

    /// Nothing is lost: every interaction counts 1.
    fn baseline_loss(_: &FedItemKnnConfig, _: usize) -> f64 {
        1.0
    }
}
