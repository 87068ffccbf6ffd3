//! FCF: federated collaborative filtering.
//!
//! M. Ammad-ud-din, E. Ivannikova, S. A. Khan, W. Oyomno, Q. Fu, K. E. Tan, A. Flanagan: Federated Collaborative
//! Filtering for Privacy-Preserving Personalized Recommendation System, 2019.
//!
//! The matrix factorisation of implicit feedback (iALS) with the item factors Q on the server and each user's factors p
//! on their device: score(u, i) = p . q_i. It minimises, with r_ui = 1 and c_ui = 1 + alpha where u has i, else r_ui =
//! 0 and c_ui = 1,
//! ```text
//! J = sum_ui c_ui (r_ui - p_u . q_i)^2 + l (sum_u |p_u|^2 + sum_i |q_i|^2)
//! ```
//! In a round the server gives Q to a cohort. Each device solves for its p exactly,
//! ```text
//! (Q'Q + alpha sum_{i of u} q_i q_i' + l I) p = (1 + alpha) sum_{i of u} q_i
//! ```
//! and sends its part of the items' gradient, f(u, i) = c_ui (r_ui - p . q_i) p, for all items of the catalog, so that
//! dJ/dq_i = -2 sum_u f(u, i) + 2 l q_i. The server steps along it, by Adam or plainly. Q'Q is the same for all devices
//! of a round and computed once.
//!
//! The regularisation is subtracted from the singular values of the matrix of people and items, which grow with the
//! root of the number of people: by default l does so too, as `docs/decisions/0045-defaults.md` says.
//!
//! What leaves the device are rows of one table, [`Server::TABLE`]: one for each item, marked by whether the owner has
//! it, so that their disclosure policy works as with every model; p and the history never leave. But all rows are
//! multiples of p, which anybody sees who sees one device's update; consider what that reveals before you use it
//! without sealing.

mod client;
mod config;

pub use client::{Client, Prepared, Scratch};
pub use config::{FcfConfig, FcfNegatives, ServerOptimiser};

use super::{
    AdamSettings, AggregationSpec, EpochTraffic, Epochs, Exposure, FederatedModel, ItemFactors, ModelInfo, RowMeaning,
    Schedule, Sgd,
};
use sottovoce_core::Facts;
use std::sync::Arc;

/// FCF.
pub struct Fcf;

/// Devices of the population that `regularisation` is for, where it is scaled.
const SCALE_DEVICES: f64 = 1000.0;
/// What devices accept of it.
const LEAST_REGULARISATION: f64 = 1e-6;
const MOST_REGULARISATION: f64 = 1e5;

/// Item factors.
pub type Server = ItemFactors<false>;

impl FederatedModel for Fcf {
    const INFO: ModelInfo = ModelInfo::new("fcf", "FCF")
        .summary("Federated collaborative filtering: devices solve for their user's vector and send the gradient of all items; without biases")
        .paper("Ammad-ud-din, Ivannikova, Khan, Oyomno, Fu, Tan, Flanagan: Federated Collaborative Filtering for Privacy-Preserving Personalized Recommendation System. arXiv:1901.09888, 2019");
    const EPOCHS: Epochs = Epochs::of_devices(50);

    type Config = FcfConfig;
    type Client = Client;
    type Server = Server;

    fn client(config: &FcfConfig, _: &Arc<Facts>) -> Client {
        Client { config: config.clone() }
    }

    fn server(config: &FcfConfig, _: &Arc<Facts>) -> Server {
        Server { factors: config.factors, init_deviation: config.init_deviation as f32 }
    }

    /// With the regularisation of a population of this size, which is all that devices need to know.
    fn scheduled(config: FcfConfig, schedule: &Schedule) -> FcfConfig {
        if !config.scale_regularisation {
            return config;
        }
        let times = (schedule.devices.max(1) as f64 / SCALE_DEVICES).sqrt();
        let regularisation = (times * config.regularisation).clamp(LEAST_REGULARISATION, MOST_REGULARISATION);
        FcfConfig { regularisation, scale_regularisation: false, ..config }
    }

    fn aggregation(config: &FcfConfig, devices: usize) -> AggregationSpec {
        // The loss has the regularisation once; each device that takes part stands for its share of it.
        let regularisation = config.regularisation as f32 / devices.max(1) as f32;
        let learning_rate = config.learning_rate as f32;
        match config.server {
            ServerOptimiser::Sgd => AggregationSpec::Sgd(Sgd { learning_rate, regularisation }),
            ServerOptimiser::Adam => AggregationSpec::Adam(AdamSettings {
                learning_rate,
                beta1: config.beta1 as f32,
                beta2: config.beta2 as f32,
                regularisation,
            }),
        }
    }

    fn exposure() -> Vec<Exposure> {
        vec![Exposure { table: 0, rows: RowMeaning::Items, bias: false }]
    }

    /// All items down; up all but those of the user's own items that are withheld.
    fn vectors_per_epoch(_: &FcfConfig, traffic: &EpochTraffic) -> f64 {
        let EpochTraffic { schedule, cohort, items, pi, .. } = *traffic;
        let withheld = (1.0 - pi) * schedule.triples as f64;
        (schedule.rounds * cohort) as f64 * (2.0 * items as f64 - withheld)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::federated::{Cohort, Population};

    #[test]
    fn regularisation_grows_with_the_root_of_the_population() {
        let of = |devices: u32, config: &FcfConfig| {
            let population = Population { devices: (0..devices).collect(), interactions: 20 * devices as usize };
            Fcf::scheduled(config.clone(), &Fcf::schedule(config, Some(Cohort::Count(50)), &population))
        };
        let default = FcfConfig::default();
        let found: Vec<f64> = [250, 1000, 4000].map(|devices| of(devices, &default).regularisation).into();
        assert_eq!(found, [4.0, 8.0, 16.0]);
        // Once is enough, and a device accepts what comes of it.
        let scheduled = of(4000, &default);
        assert_eq!(of(4000, &scheduled).regularisation, 16.0);
        assert_eq!(of(4000, &FcfConfig { regularisation: 1e5, ..default.clone() }).regularisation, 1e5);
        assert_eq!(of(4000, &FcfConfig { scale_regularisation: false, ..default }).regularisation, 8.0);
    }
}
