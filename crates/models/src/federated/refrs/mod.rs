//! ReFRS: sequential recommendation on small devices.

mod candidates;
mod client;
mod config;
mod dp_sgd;
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

use super::{AggregationSpec, Cohort, EpochTraffic, Epochs, Exposure, FeatureUse, FederatedModel, ModelInfo, RowMeaning, clustering};
use clustering::Clusters;
use session::Networks;
use sottovoce_core::Facts;
use std::sync::Arc;

/// The clusters of encoders, which are the shared model's first tables.
fn clusters(config: &RefrsConfig, network: Option<&Network>) -> Clusters {
    Clusters::new(&config.clustering, network.map_or(0, |network| network.encoder().len()), 0)
}

/// ReFRS.
pub struct Refrs;

impl FederatedModel for Refrs {
    const INFO: ModelInfo = ModelInfo::new("refrs", "ReFRS")
        .summary("Sequential recommendation on small devices: only the encoder of an item's latest context is shared, by clusters of similar devices")
        .paper("Imran, Yin, Chen, Nguyen, Zhou, Zheng: ReFRS: Resource-efficient Federated Recommender System for Dynamic and Diversified User Preferences. TOIS 2023");
    const EPOCHS: Epochs = Epochs::of_devices(5);
    const COHORT: Cohort = Cohort::All;
    const SEQUENTIAL: bool = true;
    const FEATURES: FeatureUse = FeatureUse::Content;

    type Config = RefrsConfig;
    type Client = Client;
    type Server = Server;

    fn client(config: &RefrsConfig, features: &Arc<Facts>) -> Client {
        let networks = Networks::new(config, features).ok();
        let clusters = clusters(config, networks.as_ref().map(|networks| &networks.embedding));
        Client { config: config.clone(), networks, clusters }
    }

    fn server(config: &RefrsConfig, _: &Arc<Facts>) -> Server {
        let network = Network::new(config.network.shape()).ok();
        Server { clusters: clusters(config, network.as_ref()), network }
    }

    fn aggregation(config: &RefrsConfig, devices: usize) -> AggregationSpec {
        let clusters = Self::server(config, &Arc::default()).clusters;
        clusters.aggregation(&config.clustering, devices)
    }

    fn exposure() -> Vec<Exposure> {
        vec![Exposure { table: 0, rows: RowMeaning::Clusters, bias: false }]
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
