//! GRU4Rec and SASRec in a federation: the next item of a sequence, learnt from sequences that stay on devices.
//!
//! B. Hidasi, A. Karatzoglou, L. Baltrunas, D. Tikk: Session-based Recommendations with Recurrent Neural Networks, ICLR
//! 2016. W.-C. Kang, J. McAuley: Self-Attentive Sequential Recommendation, ICDM 2018. As baselines of a federated
//! recommender: M. Imran and others: ReFRS, 2021.
//!
//! ```text
//! h_t = network(E[i_1], ..., E[i_t])        score of an item j after i_1, ..., i_t = h_t . E[j]
//! loss = mean over t of -ln s(h_t . E[i_(t+1)]) - sum over negatives j of ln(1 - s(h_t . E[j]))
//! ```
//! With one local epoch and learning rate 1 a device sends its gradient, of which FedAdam makes the server's step: this
//! is centralised training with a batch of as many sequences as the cohort has devices. With FedAvg devices make steps
//! and the server averages. The network may be one for all, or one for each cluster of devices
//! ([`clustering`](super::clustering)); the items' vectors are everybody's.
//!
//! **FedFast** (K. Muhammad and others, KDD 2020) moves rows by the devices that changed them most and devices of a
//! cluster together. Its server knows every user's vector; here `weighting=active` weighs each row by the length of its
//! change, and `assignment=projection` clusters networks, which the server need not see.
//!
//! **What leaves the device**: changes of the vectors of the owner's items (as far as pi allows) and of items drawn as
//! negatives, and the change of the network, which depends on the sequence as a whole. Single updates say much about
//! the owner: seal them, or choose a small pi. With clusters, which one the device belongs to leaves too.

mod client;
mod config;
mod server;

pub use client::{Client, Scratch};
pub use config::{FedSequentialConfig, NetworkKind};
pub use server::Server;

use super::clustering::Assignment;
use super::{AggregationSpec, Cohort, EpochTraffic, Epochs, Exposure, FederatedModel, ModelInfo, RowMeaning, Schedule};
use sottovoce_core::Facts;
use std::sync::Arc;

/// GRU4Rec and SASRec in a federation.
pub struct FedSequential;

impl FederatedModel for FedSequential {
    const INFO: ModelInfo = ModelInfo::new("fed-sequential", "FedSequential")
        .summary("The next item of a sequence by SASRec or GRU4Rec, trained on sequences that stay on devices")
        .paper("Kang, McAuley: Self-Attentive Sequential Recommendation. ICDM 2018");
    const EPOCHS: Epochs = Epochs::of_devices(50);
    const COHORT: Cohort = Cohort::Count(50);
    const SEQUENTIAL: bool = true;

    type Config = FedSequentialConfig;
    type Client = Client;
    type Server = Server;

    fn client(config: &FedSequentialConfig, features: &Arc<Facts>) -> Client {
        Client::new(Self::server(config, features))
    }

    fn server(config: &FedSequentialConfig, _: &Arc<Facts>) -> Server {
        Server { config: config.clone() }
    }

    /// A gradient is what one epoch with learning rate 1 comes to.
    fn scheduled(config: FedSequentialConfig, _: &Schedule) -> FedSequentialConfig {
        match config.aggregation.wants_gradients() {
            true => FedSequentialConfig { local_epochs: 1, learning_rate: 1.0, ..config },
            false => config,
        }
    }

    fn aggregation(config: &FedSequentialConfig, devices: usize) -> AggregationSpec {
        let clusters = Server { config: config.clone() }.clusters();
        match config.clusters.assignment {
            Assignment::Single => config.aggregation.spec(),
            _ => clusters.aggregation(&config.clusters, devices),
        }
    }

    /// Rows of items leave for the person's own and for negatives; of networks, the cluster's.
    fn exposure() -> Vec<Exposure> {
        vec![
            Exposure { table: 0, rows: RowMeaning::Items, bias: false },
            Exposure { table: 1, rows: RowMeaning::Clusters, bias: false },
        ]
    }

    /// All items' vectors down; up those of the person's items, as far as pi allows, and of their negatives.
    fn vectors_per_epoch(config: &FedSequentialConfig, traffic: &EpochTraffic) -> f64 {
        let EpochTraffic { schedule, cohort, items, pi, .. } = *traffic;
        let own = schedule.triples.min(config.max_length) as f64;
        let up = own * (pi + config.negatives as f64);
        (schedule.rounds * cohort) as f64 * (items as f64 + up)
    }

    /// Of a positive and its negatives.
    fn baseline_loss(config: &FedSequentialConfig, _: usize) -> f64 {
        (1 + config.negatives) as f64 * std::f64::consts::LN_2
    }
}
