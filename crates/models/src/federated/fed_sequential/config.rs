//! Settings of federated sequential recommenders.

use crate::federated::clustering::{Assignment, ClusterConfig};
use crate::federated::{MeanAggregation, MeanStrategy};
use crate::sequential::SequenceNetwork;
use crate::sequential::gru4rec::Gru4RecShape;
use crate::sequential::transformer::TransformerShape;
use crate::{choices, config};
use sottovoce_neural::{Layout, Mask, NeuralError};

choices! {
    /// The network over a sequence.
    #[derive(Default)]
    pub enum NetworkKind {
        /// Self-attention (SASRec).
        #[default]
        SasRec => "sasrec",
        /// Recurrent (GRU4Rec).
        Gru4Rec => "gru4rec",
    }
}

config! {
    /// Settings of federated sequential recommenders.
    pub struct FedSequentialConfig {
        /// The network over a sequence: self-attention (sasrec) or recurrent (gru4rec)
        pub network: NetworkKind = NetworkKind::SasRec => [device];
        /// Length of items' vectors
        pub hidden: usize = 32, in 1..=512 => [log device];
        /// Layers, or blocks of attention
        pub layers: usize = 2, in 1..=4 => [device];
        /// With network = sasrec: heads of attention
        pub heads: usize = 2, in 1..=16 => [device];
        /// Latest items of a sequence that the network reads
        pub max_length: usize = 50, in 1..=1000 => [log device];
        /// Negatives drawn for each item of a sequence
        pub negatives: usize = 1, in 1..=1000 => [log device];
        /// Fraction of values that training drops
        pub dropout_share: f64 = 0.2, in 0.0..=0.9 => [device];
        /// Epochs of a device in a round
        pub local_epochs: usize = 1, in 1..=1000 => [log device];
        /// Learning rate of the devices; 1 sends the gradient of a single epoch as it is
        pub learning_rate: f64 = 1.0, in 1e-6..=100.0 => [log device];
        include
        /// Clusters of devices, each with a network of its own; one by default.
        pub clusters: ClusterConfig = ClusterConfig { assignment: Assignment::Single, ..ClusterConfig::default() };
        include
        /// With assignment = single: how updates are combined.
        pub aggregation: MeanAggregation = MeanAggregation {
            strategy: MeanStrategy::FedAdam,
            server_learning_rate: 3e-3,
            server_beta2: 0.999,
            server_tau: 1e-8,
            ..MeanAggregation::default()
        };
    }
}

impl FedSequentialConfig {
    /// The network and the layout of its parameters.
    ///
    /// # Errors
    /// If heads do not divide the length of items' vectors.
    pub(super) fn build(&self) -> Result<(SequenceNetwork, Layout), NeuralError> {
        let &Self { hidden: width, layers, heads, max_length: positions, dropout_share: dropout, .. } = self;
        let mut layout = Layout::default();
        let network = match self.network {
            NetworkKind::Gru4Rec => {
                let shape = Gru4RecShape { width, units: width, layers, dropout };
                SequenceNetwork::gru4rec(&mut layout, "network", &shape)?
            }
            NetworkKind::SasRec => {
                let (inner, mask) = (4 * width, Mask::Causal);
                // Heads that do not divide the width are as many as do.
                let heads = (1..=heads).rev().find(|&heads| width.is_multiple_of(heads)).unwrap_or(1);
                let shape = TransformerShape { width, heads, layers, inner, positions, mask, dropout };
                SequenceNetwork::transformer(&mut layout, "network", &shape)?
            }
        };
        Ok((network, layout))
    }
}
