//! FedVAE's settings.

use super::Kind;
use crate::config;
use crate::federated::{MeanAggregation, MeanStrategy};

config! {
    /// FedVAE's settings. Every device is asked ten times by default, because each time it gets the whole network.
    pub struct FedVaeConfig {
        /// Variational (MultVAE), or denoising with one hidden layer (MultDAE), which learns from fewer rounds
        pub network: Kind = Kind::Denoising => [device];
        /// Width of the hidden layers
        pub hidden: usize = 50, in 1..=4096 => [log device];
        /// With network = vae: width of the latent code
        pub latent: usize = 50, in 1..=4096 => [log device];
        /// Steps of a device in a round
        pub local_steps: usize = 1, in 1..=10_000 => [log device];
        /// Learning rate of the devices
        pub learning_rate: f64 = 0.1, in 1e-6..=10.0 => [log device];
        /// Fraction of the user's items that a step drops
        pub dropout_share: f64 = 0.5, in 0.0..=0.95 => [device];
        /// With network = vae: weight of the KL divergence once annealed
        pub beta: f64 = 0.2, in 0.0..=1000.0 => [device];
        /// With network = vae: rounds of a device until then
        pub annealing: usize = 20, in 1..=1_000_000 => [log device];
        include
        /// How updates are combined.
        pub aggregation: MeanAggregation = MeanAggregation {
            strategy: MeanStrategy::FedAdam,
            server_learning_rate: 6e-3,
            ..MeanAggregation::default()
        };
    }
}
