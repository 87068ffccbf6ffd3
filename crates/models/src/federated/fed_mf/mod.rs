//! FedMF: matrix factorisation with each user's vector on their device.
//!
//! D. Chai, L. Wang, K. Chen, Q. Yang: Secure Federated Matrix Factorization, IEEE Intelligent Systems 36 (5), 2021.
//!
//! It minimises the squared error of cells r_ui of the matrix of users and items,
//! ```text
//! J = sum_ui (r_ui - p_u . q_i)^2 + l (|p_u|^2 + |q_i|^2)
//! ```
//! with r_ui = 1 where u has i. The paper has ratings; here there are none, so that a device samples cells of value 0
//! for each interaction, anew in each round. It goes through its cells once. With e = r_ui - p . q_i it adds
//! e p - l q_i to the row of i in its update and then steps its own vector, p += rate (e q_i - l p). The server steps
//! along the sum of rows. The paper's own server does so with `strategy = sum`; the default bounds the step of items
//! that many people have.
//!
//! The paper encrypts updates: `seal = bfv` or `seal = ckks`; `seal = secagg` hides them at less cost.
//!
//! **What leaves the device**: rows of one table, [`Server::TABLE`], for the user's items and for the items sampled,
//! marked by whether the user has them. The user's vector and the history never leave. All of the user's rows are
//! nearly multiples of p, and a row that never leaves belongs to an item that the user has or hides: without a seal the
//! update says much about them.

mod client;
mod config;

pub use client::{Client, Scratch};
pub use config::FedMfConfig;

use super::{AggregationSpec, EpochTraffic, Epochs, Exposure, FederatedModel, ItemFactors, ModelInfo, RowMeaning};
use sottovoce_core::Facts;
use std::sync::Arc;

/// FedMF.
pub struct FedMf;

/// Items' vectors.
pub type Server = ItemFactors<false>;

impl FederatedModel for FedMf {
    const INFO: ModelInfo = ModelInfo::new("fed-mf", "FedMF")
        .summary(
            "Federated matrix factorisation: devices step their user's vector and send gradients of items' vectors; \
             without biases, so that it can be below MostPop on sparse data",
        )
        .paper("Chai, Wang, Chen, Yang: Secure Federated Matrix Factorization. IEEE Intelligent Systems 36 (5), 2021");
    const EPOCHS: Epochs = Epochs::of_devices(50);

    type Config = FedMfConfig;
    type Client = Client;
    type Server = Server;

    fn client(config: &FedMfConfig, _: &Arc<Facts>) -> Client {
        Client { config: config.clone() }
    }

    fn server(config: &FedMfConfig, _: &Arc<Facts>) -> Server {
        Server { factors: config.factors, init_deviation: config.init_deviation as f32 }
    }

    fn aggregation(config: &FedMfConfig, _: usize) -> AggregationSpec {
        config.aggregation.spec(config.learning_rate)
    }

    fn exposure() -> Vec<Exposure> {
        vec![Exposure { table: 0, rows: RowMeaning::Items, bias: false }]
    }

    /// All items down; up the sampled ones and, of the user's own, the fraction pi.
    fn vectors_per_epoch(config: &FedMfConfig, traffic: &EpochTraffic) -> f64 {
        let EpochTraffic { schedule, cohort, items, pi, .. } = *traffic;
        let up = (schedule.triples as f64 * (pi + config.negatives as f64)).min(items as f64);
        (schedule.rounds * cohort) as f64 * (items as f64 + up)
    }

    /// Of a model that predicts 0 everywhere: the interaction's.
    fn baseline_loss(_: &FedMfConfig, _: usize) -> f64 {
        1.0
    }
}
