//! Settings of look-alike modelling.

use super::Continual;
use super::network::{Cell, Normalisation, Shape, Text};
use crate::config;
use crate::federated::{MeanAggregation, MeanStrategy};

config! {
    /// What the network is like.
    pub struct NetworkConfig {
        /// What is read of the last five pages: nothing (AE), titles or entities (PAE)
        pub text: Text = Text::Titles => [device];
        /// Length of the code
        pub code: usize = 40, in 1..=1024 => [log device];
        /// Length of a page's vector
        pub dim: usize = 64, in 1..=1024 => [log device];
        /// The recurrent network over pages
        pub cell: Cell = Cell::Lstm => [device];
        /// Its units
        pub units: usize = 20, in 1..=256 => [log device];
        /// How layers are normalised: by running statistics in the shared model, each sample by itself, or not
        pub normalisation: Normalisation = Normalisation::Layer => [device];
        /// Fraction of the last hidden layer that training drops
        pub dropout_share: f64 = 0.1, in 0.0..=0.9 => [device];
        /// Fraction of training steps that read no pages, so that people without pages are not another kind of people
        pub page_dropout: f64 = 0.0, in 0.0..=0.9 => [device];
    }
}

impl NetworkConfig {
    /// The network's shape.
    pub fn shape(&self) -> Shape {
        let Self { code, text, dim, cell, units, normalisation, dropout_share: dropout, page_dropout } = *self;
        Shape { code, text, dim, cell, units, normalisation, dropout, page_dropout }
    }
}

config! {
    /// Settings of look-alike modelling.
    pub struct LookalikeConfig {
        /// With earlier data (--before): how training goes on from it
        pub continual: Continual = Continual::Nothing;
        /// Epochs of a device in a round; each hides another interest
        pub local_epochs: usize = 1, in 1..=1000 => [log device];
        /// Learning rate of the devices; 1 sends the gradient of a single epoch as it is
        pub learning_rate: f64 = 1.0, in 1e-6..=100.0 => [log device];
        include
        /// The network; nothing is dropped by default, as devices see each sample once in many rounds.
        pub network: NetworkConfig = NetworkConfig { dropout_share: 0.0, ..NetworkConfig::default() };
        include
        /// How updates are combined.
        pub aggregation: MeanAggregation = MeanAggregation {
            strategy: MeanStrategy::FedAdam,
            server_learning_rate: 3e-3,
            server_beta2: 0.999,
            server_tau: 1e-8,
            ..MeanAggregation::default()
        };
    }
}
