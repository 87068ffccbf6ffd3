//! FedPopularity: how many people have each item, from one sealed sum.
//!
//! Each device sends a 1 for each of its items; the sum is what `mostpop` counts in one place. Everybody gets the items
//! with the most people. There is no private model.
//!
//! **With noise** a person's ones are scaled to a norm of 1, whatever the history, so that nothing else need be
//! bounded: one of n items counts n^(-1/2).
//!
//! What leaves the device are rows of the table [`Server::TABLE`], one for each item that the owner has. **That is the
//! history itself**: devices decline rounds of this model without a seal, and the simulator refuses them.

mod client;
mod config;
#[cfg(test)]
mod tests;

pub use client::Client;
pub use config::FedPopularityConfig;

use super::{
    AggregationSpec, EpochTraffic, Epochs, Exposure, FederatedModel, ModelInfo, RowMeaning, ServerModel, Sum,
    TensorSlice, item_rows,
};
use sottovoce_core::{Facts, Rng};
use sottovoce_protocol::{Layout, ModelError, Parameters};
use std::sync::Arc;

/// FedPopularity.
pub struct FedPopularity;

/// The server's half: a count for each item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server;

impl Server {
    /// The table's name.
    pub const TABLE: &'static str = "items";
}

impl ServerModel for Server {
    fn layout(&self, items: usize) -> Result<Layout, ModelError> {
        Layout::new(vec![item_rows(Self::TABLE, items, 1)])
    }

    fn init(&self, items: usize, _: &mut Rng) -> Result<Parameters, ModelError> {
        Ok(Parameters::zeros(&self.layout(items)?))
    }

    fn tensors(&self) -> Vec<TensorSlice> {
        vec![TensorSlice::vector("counts", 0, 0)]
    }
}

impl FederatedModel for FedPopularity {
    const INFO: ModelInfo = ModelInfo::new("fed-popularity", "FedPopularity")
        .summary("The items that most people have, counted under a seal")
        .paper("none");
    const EPOCHS: Epochs =
        Epochs { default: 1, help: "Epochs; in one, every device is asked once, and counts are added to those before" };
    const ONCE_AN_EPOCH: bool = true;
    const SENDS_ONES: bool = true;
    const SENSITIVITY: Option<f32> = Some(1.0);
    /// Numbers of people.
    const LARGEST_VALUE: f32 = 1e12;

    type Config = FedPopularityConfig;
    type Client = Client;
    type Server = Server;

    fn client(_: &FedPopularityConfig, _: &Arc<Facts>) -> Client {
        Client
    }

    fn server(_: &FedPopularityConfig, _: &Arc<Facts>) -> Server {
        Server
    }

    fn aggregation(_: &FedPopularityConfig, _: usize) -> AggregationSpec {
        AggregationSpec::Sum(Sum { learning_rate: 1.0 })
    }

    fn exposure() -> Vec<Exposure> {
        vec![Exposure { table: 0, rows: RowMeaning::Items, bias: false }]
    }

    /// All items down; up the owner's items.
    fn vectors_per_epoch(_: &FedPopularityConfig, traffic: &EpochTraffic) -> f64 {
        let EpochTraffic { schedule, cohort, items, pi, .. } = *traffic;
        (schedule.rounds * cohort) as f64 * (items as f64 + pi * schedule.triples as f64)
    }

    /// Nothing is lost: every interaction counts 1.
    fn baseline_loss(_: &FedPopularityConfig, _: usize) -> f64 {
        1.0
    }
}
