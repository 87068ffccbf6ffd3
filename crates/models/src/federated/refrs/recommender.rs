//! The recommender over embeddings: tells the next item of a session from those before it.
//!
//! With embeddings z_1, .., z_T of a session's items, h_t = network(z_1, .., z_t). For each t the next item's embedding
//! and those of some drawn items, all embedded with the window that ends in them, compete by a softmax of h_t . z.

use crate::choices;
use crate::sequential::SequenceNetwork;
use crate::sequential::gru4rec::Gru4RecShape;
use crate::sequential::transformer::TransformerShape;
use sottovoce_neural::{Layout, Mask, NeuralError, Packed, Real, Space, losses};

choices! {
    /// The recommender over embeddings.
    #[derive(Default)]
    pub enum Recommender {
        /// Gated recurrent units.
        #[default]
        Gru4Rec => "gru4rec",
        /// Self-attention.
        SasRec => "sasrec",
    }
}

/// What a recommender is like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecommenderShape {
    /// Which network.
    pub recommender: Recommender,
    /// Length of embeddings.
    pub dim: usize,
    /// Units of GRU4Rec, or of the layers within SASRec's blocks.
    pub units: usize,
    /// The longest session.
    pub session: usize,
}

/// Heads of SASRec at most.
const HEADS: usize = 2;

/// The recommender and where its parameters are.
#[derive(Clone, Debug)]
pub(super) struct RecommenderNetwork {
    layout: Layout,
    network: SequenceNetwork,
    dim: usize,
}

impl RecommenderNetwork {
    pub(super) fn new(shape: &RecommenderShape) -> Result<Self, NeuralError> {
        let RecommenderShape { recommender, dim, units, session } = *shape;
        let mut layout = Layout::default();
        let network = match recommender {
            Recommender::Gru4Rec => {
                let shape = Gru4RecShape { width: dim, units, layers: 1, dropout: 0.0 };
                SequenceNetwork::gru4rec(&mut layout, "recommender", &shape)?
            }
            Recommender::SasRec => {
                let heads = if dim.is_multiple_of(HEADS) { HEADS } else { 1 };
                let (positions, mask) = (session, Mask::Causal);
                let shape =
                    TransformerShape { width: dim, heads, layers: 1, inner: units, positions, mask, dropout: 0.0 };
                SequenceNetwork::transformer(&mut layout, "recommender", &shape)?
            }
        };
        Ok(Self { layout, network, dim })
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Values that a step over so many items, each with so many candidates, takes from an arena.
    pub(super) fn space(&self, items: usize, candidates: usize) -> usize {
        self.network.space(1, items, items) + items * (2 * candidates + self.dim)
    }

    /// The loss of a session; adds its gradients. Of `candidates`, so many a step, each step's first is the next item.
    pub(super) fn step<R: Real>(
        &self,
        parameters: &[R],
        embeddings: &[R],
        candidates: &[R],
        gradients: &mut [R],
        space: &mut Space<'_, R>,
    ) -> Result<f64, NeuralError> {
        let (dim, steps) = (self.dim, embeddings.len() / self.dim);
        let starts = [0, steps];
        let mut space = space.scratch();
        let tape = self.network.forward(parameters, embeddings, Packed::new(&starts)?, None, &mut space)?;
        let each = candidates.len() / dim / steps;
        let (logits, dlogits) = (space.zeros(steps * each)?, space.zeros(steps * each)?);
        for (n, candidate) in candidates.chunks_exact(dim).enumerate() {
            let h = &tape.output()[n / each * dim..][..dim];
            logits[n] = h.iter().zip(candidate).map(|(&h, &z)| h * z).sum();
        }
        let mut loss = 0.0;
        for (logits, dlogits) in logits.chunks_exact(each).zip(dlogits.chunks_exact_mut(each)) {
            loss += losses::cross_entropy(logits, each, &[0], 1.0 / steps as f64, Some(dlogits))?;
        }
        let dh = space.zeros(steps * dim)?;
        for (n, (candidate, &slope)) in candidates.chunks_exact(dim).zip(&*dlogits).enumerate() {
            dh[n / each * dim..][..dim].iter_mut().zip(candidate).for_each(|(dh, &z)| *dh += slope * z);
        }
        self.network.backward(parameters, &tape, dh, gradients, None, &mut space)?;
        Ok(loss)
    }

    /// Writes h after a session.
    pub(super) fn state<R: Real>(
        &self,
        parameters: &[R],
        embeddings: &[R],
        into: &mut [R],
        space: &mut Space<'_, R>,
    ) -> Result<(), NeuralError> {
        let starts = [0, embeddings.len() / self.dim];
        let mut space = space.scratch();
        let tape = self.network.forward(parameters, embeddings, Packed::new(&starts)?, None, &mut space)?;
        into.copy_from_slice(&tape.output()[tape.output().len() - self.dim..]);
        Ok(())
    }
}
