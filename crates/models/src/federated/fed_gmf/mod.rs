//! GMF in a federation: generalised matrix factorisation with each person's vector on their device.
//!
//! X. He, L. Liao, H. Zhang, L. Nie, X. Hu, T.-S. Chua: Neural Collaborative Filtering, WWW 2017, trained by FedAvg
//! (McMahan, Moore, Ramage, Hampson, Agüera y Arcas, AISTATS 2017).
//!
//! With items' vectors Q and the output's weights h on the server and p on the device, probability and loss are
//! ```text
//! y(u, i) = sigma(sum over f of h_f p_f q_if)
//! J_u = - sum over u's items of ln y - sum over sampled items that u does not have of ln (1 - y) + regularisation
//! ```
//! In a round a device draws its negatives, goes through its samples some times by stochastic gradient descent on p,
//! the rows of Q that it touches, and h, and sends the difference to what it was given. With gradients asked for
//! (FedSGD) it sends one step of rate 1 down the mean gradient of all samples instead.
//!
//! What leaves the device are the rows of touched items, marked by whether the user has them, and the change of h; p
//! and the history never leave.

mod client;
mod config;
mod dp_sgd;
mod server;

pub use client::{Client, Scratch};
pub use config::FedGmfConfig;
pub use server::Server;

use super::{AggregationSpec, Cohort, EpochTraffic, Epochs, Exposure, FederatedModel, ModelInfo, RowMeaning, Schedule};
use sottovoce_core::Facts;
use std::sync::Arc;

/// FedGMF.
pub struct FedGmf;

impl FederatedModel for FedGmf {
    const INFO: ModelInfo = ModelInfo::new("fed-gmf", "FedGMF")
        .summary("Generalised matrix factorisation by FedAvg: items' vectors and the output layer are shared, users' vectors stay on their devices")
        .paper("He, Liao, Zhang, Nie, Hu, Chua: Neural Collaborative Filtering. WWW 2017; McMahan, Moore, Ramage, Hampson, Agüera y Arcas: Communication-Efficient Learning of Deep Networks from Decentralized Data. AISTATS 2017");
    const EPOCHS: Epochs = Epochs::of_devices(50);
    const COHORT: Cohort = Cohort::Count(50);

    type Config = FedGmfConfig;
    type Client = Client;
    type Server = Server;

    fn client(config: &FedGmfConfig, _: &Arc<Facts>) -> Client {
        Client { config: config.clone() }
    }

    fn server(config: &FedGmfConfig, _: &Arc<Facts>) -> Server {
        Server { factors: config.factors, init_deviation: config.init_deviation as f32 }
    }

    fn scheduled(config: FedGmfConfig, _: &Schedule) -> FedGmfConfig {
        FedGmfConfig { gradients: config.aggregation.wants_gradients(), ..config }
    }

    fn aggregation(config: &FedGmfConfig, _: usize) -> AggregationSpec {
        config.aggregation.spec()
    }

    fn exposure() -> Vec<Exposure> {
        vec![Exposure { table: 0, rows: RowMeaning::Items, bias: false }]
    }

    /// All items down; up those trained on: negatives, and of the user's own the fraction pi.
    fn vectors_per_epoch(config: &FedGmfConfig, traffic: &EpochTraffic) -> f64 {
        let EpochTraffic { schedule, cohort, items, pi, .. } = *traffic;
        let up = (schedule.triples as f64 * (pi + config.negatives as f64)).min(items as f64);
        (schedule.rounds * cohort) as f64 * (items as f64 + up)
    }

    /// Of a positive and its negatives.
    fn baseline_loss(config: &FedGmfConfig, _: usize) -> f64 {
        (1 + config.negatives) as f64 * std::f64::consts::LN_2
    }
}
