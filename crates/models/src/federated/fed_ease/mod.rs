//! FedEASE: EASE itself, from one sealed sum.
//!
//! H. Steck: Embarrassingly Shallow Autoencoders for Sparse Data, WWW 2019.
//!
//! EASE depends on people through G = sum_u x_u x_u' only, with x_u a person's history. Each device sends half of
//! x_u x_u', because it is symmetric; the server adds up G and solves
//! ```text
//! P = (G + l I)^-1        score(u, j) = sum_{i of u, i != j} -P_ij / P_jj
//! ```
//! **One round** makes the model that one place with everybody's data would make. Where an epoch has several rounds,
//! their cohorts do not overlap, and G is the sum of all. There is no private model: whoever comes later is served at
//! once.
//!
//! What leaves the device are rows of its tables, one for each item that the owner has, with a 1 for
//! each other item that they have. **That is the history itself**: devices decline rounds of this model without a seal,
//! and the simulator refuses them. An upload has items * (items / 2 + 1) values whatever the history: 27 MB for 3,700
//! items. It suits catalogs of up to a few thousand items; `fed-spectral` and `fed-ease-top` serve larger ones.

mod client;
mod config;
#[cfg(test)]
mod tests;

pub use client::{Client, Scratch};
pub use config::FedEaseConfig;

use super::co_occurrences::{GramReadout, GramSpec, PairLayout};
use super::{
    AggregationSpec, Cohort, EpochTraffic, Epochs, Exposure, FederatedModel, ModelInfo, Population, RowMeaning,
    Schedule, ServerModel, TensorSlice,
};
use sottovoce_core::Facts;
use sottovoce_core::Rng;
use sottovoce_protocol::{Layout, ModelError, Parameters};
use std::sync::Arc;

/// FedEASE.
pub struct FedEase;

/// The server's half: half of the inverse.
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
        self.0.tensors("inverse")
    }
}

impl FedEaseConfig {
    fn pairs(&self) -> PairLayout {
        PairLayout { blocks: self.blocks, more: 0 }
    }
}

impl FederatedModel for FedEase {
    const INFO: ModelInfo = ModelInfo::new("fed-ease", "FedEASE")
        .summary("EASE from one sealed sum of co-occurrences: the model that one place with all data would make")
        .paper("Steck: Embarrassingly Shallow Autoencoders for Sparse Data. WWW 2019");
    const EPOCHS: Epochs = Epochs { default: 1, help: "Epochs; in one, every device is asked once" };
    const ONCE_AN_EPOCH: bool = true;
    const SENDS_ONES: bool = true;

    type Config = FedEaseConfig;
    type Client = Client;
    type Server = Server;

    fn client(config: &FedEaseConfig, _: &Arc<Facts>) -> Client {
        Client { pairs: config.pairs() }
    }

    fn server(config: &FedEaseConfig, _: &Arc<Facts>) -> Server {
        Server(config.pairs())
    }

    fn schedule(config: &FedEaseConfig, cohort: Option<Cohort>, population: &Population) -> Schedule {
        Schedule::once(cohort.unwrap_or(Self::COHORT), population).in_passes(config.blocks)
    }

    fn passes(config: &FedEaseConfig) -> usize {
        config.blocks
    }

    fn aggregation(config: &FedEaseConfig, _: usize) -> AggregationSpec {
        let readout = GramReadout::Inverse { regularisation: config.regularisation };
        AggregationSpec::Gram(GramSpec { layout: config.pairs(), readout })
    }

    fn exposure() -> Vec<Exposure> {
        vec![Exposure { table: 0, rows: RowMeaning::Items, bias: false }]
    }

    /// All items down; up the owner's items.
    fn vectors_per_epoch(_: &FedEaseConfig, traffic: &EpochTraffic) -> f64 {
        let EpochTraffic { schedule, cohort, items, pi, .. } = *traffic;
        (schedule.rounds * cohort) as f64 * (items as f64 + pi * schedule.triples as f64)
    }

    /// Nothing is lost: every interaction counts 1.
    fn baseline_loss(_: &FedEaseConfig, _: usize) -> f64 {
        1.0
    }
}
