//! Autoencoders of histories in a federation: MultVAE and MultDAE with every device one person.
//!
//! D. Liang, R. G. Krishnan, M. D. Hoffman, T. Jebara: Variational Autoencoders for Collaborative Filtering, WWW 2018,
//! trained by FedAvg or an adaptive relative of it.
//!
//! With x the owner's n items as ones, scaled to length 1, some of them dropped at random in training:
//! ```text
//! h = tanh(b + sum over x of x_i E_i)
//! d = h                                                                      denoising (MultDAE)
//! m = h W1 + b1, l = h W2 + b2, z = m + e exp(l/2), d = tanh(z W3 + b3)      variational (MultVAE); z = m when scoring
//! s_i = O_i . d + c_i
//! loss = - sum over the owner's items of ln softmax(s)_i [+ beta KL(N(m, e^l) || N(0, 1))]
//! ```
//! beta rises with the number of rounds that the device itself has trained in, which is all that it keeps as a private
//! model. A round is some steps of gradient descent from the shared model; the change is proposed. With one step the
//! server steps along the mean gradient of a cohort, so that FedAdam is what Adam on batches of people would be in one
//! place.
//!
//! What leaves the device: rows of E for the owner's items (nothing else of E changes), rows (O_i, c_i) for all items
//! of the catalog, marked by whether the owner has them, and the middle layers whole. The history and what it is
//! encoded to never leave. An update for E names the owner's items plainly: choose pi with that in mind, or seal
//! updates.

mod client;
mod config;
mod layers;
mod output;
mod server;

pub use client::{Client, Scratch};
pub use config::FedVaeConfig;
pub use layers::Kind;
pub use server::Server;

use super::{
    AggregationSpec, Cohort, EpochTraffic, Epochs, Exposure, FederatedModel, ModelInfo, Population, RowMeaning,
    Schedule,
};
use sottovoce_core::{Facts, math};
use std::sync::Arc;

/// FedVAE.
pub struct FedVae;

/// Devices of a round at least, where so many can learn.
const LEAST_COHORT: usize = 20;

impl FederatedModel for FedVae {
    const INFO: ModelInfo = ModelInfo::new("fed-vae", "FedVAE")
        .summary("An autoencoder of histories by FedAdam or FedAvg: every device is one person, and only the network is shared, all of it in each round")
        .paper("Liang, Krishnan, Hoffman, Jebara: Variational Autoencoders for Collaborative Filtering. WWW 2018; Reddi and others: Adaptive Federated Optimization. ICLR 2021");
    const EPOCHS: Epochs = Epochs::of_devices(10);
    /// As many steps of the server in any population but small ones.
    const COHORT: Cohort = Cohort::Fraction(0.05);

    type Config = FedVaeConfig;
    type Client = Client;
    type Server = Server;

    fn client(config: &FedVaeConfig, features: &Arc<Facts>) -> Client {
        Client { network: Self::server(config, features), config: config.clone() }
    }

    fn server(config: &FedVaeConfig, _: &Arc<Facts>) -> Server {
        Server { kind: config.network, hidden: config.hidden, latent: config.latent }
    }

    /// Small populations have fewer rounds instead of rounds of a few devices.
    fn schedule(_: &FedVaeConfig, cohort: Option<Cohort>, population: &Population) -> Schedule {
        let own = Self::COHORT.size(population.devices.len()).max(LEAST_COHORT);
        Schedule::in_turn(cohort.unwrap_or(Cohort::Count(own)), population)
    }

    /// A gradient is what one step of learning rate 1 comes to.
    fn scheduled(config: FedVaeConfig, _: &Schedule) -> FedVaeConfig {
        match config.aggregation.wants_gradients() {
            true => FedVaeConfig { local_steps: 1, learning_rate: 1.0, ..config },
            false => config,
        }
    }

    fn aggregation(config: &FedVaeConfig, _: usize) -> AggregationSpec {
        config.aggregation.spec()
    }

    /// Rows of the encoder leave for the user's own items only; rows of the output leave for all items, and their bias
    /// moves up for the user's own.
    fn exposure() -> Vec<Exposure> {
        vec![
            Exposure { table: 0, rows: RowMeaning::Items, bias: false },
            Exposure { table: 1, rows: RowMeaning::Items, bias: true },
        ]
    }

    /// Two rows an item down; up all of the output's and the encoder's of the user's items, of both the fraction pi of
    /// the user's own.
    fn vectors_per_epoch(_: &FedVaeConfig, traffic: &EpochTraffic) -> f64 {
        let EpochTraffic { schedule, cohort, items, pi, .. } = *traffic;
        let own = schedule.triples as f64;
        let up = items as f64 - own + 2.0 * pi * own;
        (schedule.rounds * cohort) as f64 * (2.0 * items as f64 + up)
    }

    /// All items are equally likely.
    fn baseline_loss(_: &FedVaeConfig, items: usize) -> f64 {
        math::ln(items.max(2) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_is_asked_once_an_epoch_in_twenty_rounds_or_fewer() {
        let of = |devices: u32, cohort| {
            let population = Population { devices: (0..devices).collect(), interactions: 20 * devices as usize };
            let schedule = FedVae::schedule(&FedVaeConfig::default(), cohort, &population);
            (schedule.cohort.size(devices as usize), schedule.rounds)
        };
        let found = [3, 100, 911, 1_000_000].map(|devices| of(devices, None));
        assert_eq!(found, [(3, 1), (20, 5), (46, 19), (50_000, 20)]);
        assert_eq!(of(911, Some(Cohort::Count(100))), (100, 9));
    }
}
