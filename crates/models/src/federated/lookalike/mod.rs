//! Look-alike modelling: which categories would a person care for, going by those that they do?
//!
//! G. Vedana: Federated Learning for an Autoencoder Based Recommender System for Look-Alike Modeling, Padova 2022: an
//! autoencoder of interests on the device (AE), joined by the last state of a
//! recurrent network over the pages read last (PAE).
//!
//! With x the person's interests as ones, one of them hidden, and P the vectors of the last five pages that are not
//! about the hidden one:
//! ```text
//! c = relu(N(W2 relu(W1 x + b1) + b2))              the code
//! t = last state of an RNN, a GRU or an LSTM over P
//! h = relu(N(W3 N([c, t]) + b3)), some of it dropped
//! y = sigmoid(W4 h + b4)                             a probability for each category
//! loss = mean over categories of the binary cross-entropy between y and all interests
//! ```
//! Somebody with a single interest shows nothing, and so teaches how common interests are; look-alike data sets leave
//! such people out. N normalises. A device has one sample, hence no batch: it normalises by running statistics that are
//! part of the shared model and says what it saw, or (the default) each sample by itself. Scores are calibrated, so
//! that 0.6 means what people expect of a probability.
//!
//! **What leaves the device**: rows of W1 for the owner's interests that were seen (nothing else of W1 changes), rows
//! (W4, b4) for all categories, marked by whether the owner is interested, and all other layers whole. An update names
//! the owner's interests plainly: choose pi with that in mind, or seal updates. Pages never leave, and pages about an
//! interest that is withheld are not read.

mod central;
mod client;
mod config;
mod network;
mod predictor;
mod replay;
mod server;
#[cfg(test)]
mod tests;

pub use central::MODEL as CENTRAL;
pub use client::{Client, Scratch};
pub use config::{LookalikeConfig, NetworkConfig};
pub use network::{Cell, Inputs, Network, Normalisation, PAGES, Pass, Shape, Text, calibrated, uncalibrated};
pub use predictor::{Predictor, PredictorScratch};
pub use replay::{Continual, REPLAY_SHARE, replayed};
pub use server::Server;

use super::{AggregationSpec, Cohort, EpochTraffic, Epochs, Exposure, FederatedModel, ModelInfo, RowMeaning, Schedule};
use sottovoce_core::Facts;
use std::sync::Arc;

/// The paper.
pub(super) const PAPER: &str =
    "Vedana: Federated Learning for an Autoencoder Based Recommender System for Look-Alike Modeling. Padova 2022";

/// Look-alike modelling.
pub struct Lookalike;

impl FederatedModel for Lookalike {
    const INFO: ModelInfo = ModelInfo::new("lookalike", "Look-alike")
        .summary("An autoencoder of interests that also reads the last pages: completes what a person cares for")
        .paper(PAPER);
    const EPOCHS: Epochs = Epochs::of_devices(10);
    const COHORT: Cohort = Cohort::Count(50);

    type Config = LookalikeConfig;
    type Client = Client;
    type Server = Server;

    fn client(config: &LookalikeConfig, features: &Arc<Facts>) -> Client {
        Client { server: Self::server(config, features), config: config.clone() }
    }

    fn server(config: &LookalikeConfig, _: &Arc<Facts>) -> Server {
        Server { shape: config.network.shape() }
    }

    /// A gradient is what one epoch with learning rate 1 comes to.
    fn scheduled(config: LookalikeConfig, _: &Schedule) -> LookalikeConfig {
        match config.aggregation.wants_gradients() {
            true => LookalikeConfig { local_epochs: 1, learning_rate: 1.0, ..config },
            false => config,
        }
    }

    fn aggregation(config: &LookalikeConfig, _: usize) -> AggregationSpec {
        config.aggregation.spec()
    }

    /// Rows of the first layer leave for the person's interests only; rows of the last layer leave for all categories,
    /// and their bias moves up for the person's own.
    fn exposure() -> Vec<Exposure> {
        vec![
            Exposure { table: 0, rows: RowMeaning::Items, bias: false },
            Exposure { table: 1, rows: RowMeaning::Items, bias: true },
        ]
    }

    /// Two rows a category down; up all of the last layer's and the first layer's of the person's interests, of both
    /// the fraction pi of the person's own.
    fn vectors_per_epoch(_: &LookalikeConfig, traffic: &EpochTraffic) -> f64 {
        let EpochTraffic { schedule, cohort, items, pi, .. } = *traffic;
        let own = schedule.triples as f64;
        let up = items as f64 - own + 2.0 * pi * own;
        (schedule.rounds * cohort) as f64 * (2.0 * items as f64 + up)
    }
}
