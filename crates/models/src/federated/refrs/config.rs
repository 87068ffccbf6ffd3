//! Settings of ReFRS.

use super::network::{Embedding, Shape};
use super::recommender::{Recommender, RecommenderShape};
use crate::config;
use crate::federated::clustering::ClusterConfig;

config! {
    /// What the embedding model is like.
    pub struct EmbeddingConfig {
        /// The embedding model: the paper's with codebook and attention, or what its ablation leaves of it
        pub embedding: Embedding = Embedding::Refrs => [device];
        /// Length of items' vectors and of their embeddings (d)
        pub dim: usize = 16, in 2..=64 => [log device];
        /// Items of a window (w), rounded up to a multiple of 4
        pub window: usize = 16, in 8..=64 => [log device];
        /// Codes of the codebook (J)
        pub codes: usize = 64, in 1..=1024 => [log device];
        /// Heads of attention at most; as many as divide the length of embeddings
        pub heads: usize = 2, in 1..=16 => [device];
        /// Units of the decoder's hidden layer
        pub decoder_units: usize = 128, in 1..=1024 => [log device];
        /// Weight of the commitment loss, or of a VAE's divergence (beta)
        pub commitment: f64 = 0.25, in 0.0..=10.0 => [device];
        /// Weight of an item's own direction in its vector, beside its facts
        pub item_weight: f64 = 0.2, in 0.0..=10.0 => [device];
    }
}

impl EmbeddingConfig {
    /// The embedding model's shape.
    pub fn shape(&self) -> Shape {
        Shape {
            embedding: self.embedding,
            dim: self.dim,
            window: self.window.next_multiple_of(4),
            codes: self.codes,
            heads: self.heads,
            units: self.decoder_units,
            beta: self.commitment,
        }
    }
}

config! {
    /// Settings of ReFRS.
    pub struct RefrsConfig {
        /// Epochs of a device in a round
        pub local_epochs: usize = 10, in 1..=1000 => [log device];
        /// Learning rate of the embedding model
        pub learning_rate: f64 = 0.01, in 1e-6..=10.0 => [log device];
        /// Windows of a step
        pub local_batch: usize = 20, in 1..=1000 => [log device];
        /// Interactions of a session: so many items' vectors are held at a time
        pub session: usize = 100, in 2..=1000 => [log device];
        /// The recommender over embeddings
        pub recommender: Recommender = Recommender::Gru4Rec => [device];
        /// Epochs of the recommender in a round
        pub recommender_epochs: usize = 10, in 0..=1000 => [device];
        /// Epochs of the recommender over the newest session when interactions come in between rounds
        pub adapt_epochs: usize = 10, in 0..=1000 => [device];
        /// Learning rate of the recommender
        pub recommender_learning_rate: f64 = 0.01, in 1e-6..=10.0 => [log device];
        /// Units of GRU4Rec, or of the layers within SASRec's blocks
        pub recommender_units: usize = 32, in 1..=256 => [log device];
        /// Items of the catalog that a next item is told from, in a step of the recommender
        pub negatives: usize = 8, in 1..=64 => [log device];
        include
        /// The embedding model.
        pub network: EmbeddingConfig = EmbeddingConfig::default();
        include
        /// Clusters of devices.
        pub clustering: ClusterConfig = ClusterConfig::default();
    }
}

impl RefrsConfig {
    /// The recommender's shape.
    pub fn recommender_shape(&self) -> RecommenderShape {
        let (dim, session) = (self.network.dim, self.session);
        RecommenderShape { recommender: self.recommender, dim, units: self.recommender_units, session }
    }
}
