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
//! What leaves the device are rows of one table, [`Server::TABLE`], one for each item that the owner has, with a 1 for
//! each other item that they have. **That is the history itself**: devices decline rounds of this model without a seal,
//! and the simulator refuses them. An upload has items * (items / 2 + 1) values whatever the history: 27 MB for 3,700
//! items. It suits catalogs of up to a few thousand items; `fed-spectral` and `fed-ease-top` serve larger ones.

mod client;
mod config;
mod server;
#[cfg(test)]
mod tests;

pub use client::{Client, Scratch};
pub use config::FedEaseConfig;
pub use server::{GramSpec, GramStep, Server};

use super::{AggregationSpec, EpochTraffic, Epochs, Exposure, FederatedModel, ModelInfo, RowMeaning};
use sottovoce_core::Facts;
use std::sync::Arc;

/// FedEASE.
pub struct FedEase;

impl FederatedModel for FedEase {
    const INFO: ModelInfo = ModelInfo::new("fed-ease", "FedEASE")
        .summary("EASE from one sealed sum of co-occurrences: the model that one place with all data would make")
        .paper("Steck: Embarrassingly Shallow Autoencoders for Sparse Data. WWW 2019");
    const EPOCHS: Epochs = Epochs { default: 1, help: "Epochs; in one, every device is asked once" };
    const ONCE_AN_EPOCH: bool = true;
    const READOUT: &'static [&'static str] = &["regularisation"];

    type Config = FedEaseConfig;
    type Client = Client;
    type Server = Server;

    fn client(_: &FedEaseConfig, _: &Arc<Facts>) -> Client {
        Client
    }

    fn server(_: &FedEaseConfig, _: &Arc<Facts>) -> Server {
        Server
    }

    fn aggregation(config: &FedEaseConfig, _: usize) -> AggregationSpec {
        AggregationSpec::Gram(GramSpec { regularisation: config.regularisation })
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
