//! ReFRS: sequential recommendation on small devices.
//!
//! M. Imran, H. Yin, T. Chen, Q. V. H. Nguyen, A. Zhou, K. Zheng: ReFRS: Resource-efficient Federated Recommender
//! System for Dynamic and Diversified User Preferences, ACM TOIS 2023.
//!
//! A device holds two small networks and the vectors of at most 100 items at a time: its history is gone through in
//! sessions of 100 interactions, which are swapped in and out. An *embedding model* (`network.rs`) learns to
//! reconstruct windows of 16 items through a codebook and attention, without any label. It gives each item of the
//! history an embedding that depends on what came before it. A *recommender* (GRU4Rec or SASRec), trained on these
//! embeddings, predicts the embedding of what comes next; an item c that could come next is embedded with the current
//! window and scores h . z_c.
//!
//! In a round a device finds its cluster of similar devices by itself ([`clustering`]), starts from the cluster's
//! encoder, trains embedding model and recommender, one after the other, and proposes the change of the encoder. With
//! `assignment = single` there is one encoder for all (the paper's FRS-2); with `none` devices train alone (FRS-1).
//!
//! **What leaves the device**: the change of the encoder, in the row of the device's cluster: about 2,600 values that
//! belong to no item. Decoder, codebook, attention, recommender, embeddings and the history stay. Interactions with
//! items that the owner withholds have no part in the update. Between rounds the recommender adapts to new
//! interactions; no update depends on it.
//!
//! Where this differs from the paper, and why:
//! - A window ends in the item that it embeds; the paper's ends before it. There all items that a person does not have
//!   would share one embedding, that of the current window, and could not be ranked.
//! - An item's embedding is the code of its window's last position, normalised, plus the item's own vector at the same
//!   scale. By the code alone candidates can hardly be told apart: they are one of eight items that the last position
//!   sees, and there are 64 codes for all of the catalog.
//! - Items' vectors are computed on the device from the public catalog (`item_vectors.rs`): from facts, or else
//!   categories and titles, and a direction of the item's own. The paper's devices fetch them from the server, which so
//!   learns what they visit.
//! - Windows do not reach over the beginning of a session, so that 100 vectors are enough; zeros stand there.
//!
//! Odd histories: a sequence shorter than the window has zeros in front. Of one item the embedding model alone learns.
//! An item may come several times, each time with another embedding. Where no order is known (`History::sequence` is
//! empty), items count in ascending order. An empty history trains nothing, sends nothing and scores all items 0.

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

use super::{
    AggregationSpec, Cohort, EpochTraffic, Epochs, Exposure, FeatureUse, FederatedModel, ModelInfo, RowMeaning,
    clustering,
};
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
