//! ReFRS: sequential recommendation on small devices.

mod candidates;
mod client;
mod config;
mod item_vectors;
mod network;
mod recommender;
mod server;
mod session;
#[cfg(test)]
mod tests;

pub use client::{Client, Scratch};
pub use config::{EmbeddingConfig, RefrsConfig};
pub use item_vectors::ItemVectors;
pub use network::{Embedding, Network, Shape};
pub use recommender::{Recommender, RecommenderShape};
pub use server::Server;

use super::{AggregationSpec, Cohort, EpochTraffic, Epochs, Exposure, FeatureUse, FederatedModel, Mean, MeanOver, ModelInfo};
use session::Networks;
use sottovoce_core::Facts;
use std::sync::Arc;

/// ReFRS.
pub struct Refrs;

impl FederatedModel for Refrs {
    const INFO: ModelInfo = ModelInfo::new("refrs", "ReFRS")
        .summary("Sequential recommendation on small devices: only the encoder of an item's latest context is shared, by clusters of similar devices")
        .paper("Imran, Yin, Chen, Nguyen, Zhou, Zheng: ReFRS: Resource-efficient Federated Recommender System for Dynamic and Diversified User Preferences. TOIS 2023");
    const EPOCHS: Epochs = Epochs::of_devices(5);
    const COHORT: Cohort = Cohort::All;
    const FEATURES: FeatureUse = FeatureUse::Content;

    type Config = RefrsConfig;
    type Client = Client;
    type Server = Server;

    fn client(config: &RefrsConfig, features: &Arc<Facts>) -> Client {
        Client { networks: Networks::new(config, features).ok(), config: config.clone() }
    }

    fn server(config: &RefrsConfig, _: &Arc<Facts>) -> Server {
        Server { network: Network::new(config.network.shape()).ok() }
    }

    fn aggregation(_: &RefrsConfig, _: usize) -> AggregationSpec {
        AggregationSpec::Mean(Mean { learning_rate: 1.0, over: MeanOver::All })
    }

    fn exposure() -> Vec<Exposure> {
        Vec::new()
    }

    /// A cluster's encoder down and up; a vector is an encoder.
    fn vectors_per_epoch(_: &RefrsConfig, traffic: &EpochTraffic) -> f64 {
        (traffic.schedule.rounds * traffic.cohort) as f64 * 2.0
    }

    /// A decoder that gives zeros misses a window of vectors of length 1.
    fn baseline_loss(config: &RefrsConfig, _: usize) -> f64 {
        config.network.shape().window as f64
    }
}
