//! Networks over sequences of items, for centralised models and for devices alike.
//!
//! A [`SequenceNetwork`] reads the vectors of a person's items in time order and gives, for each, a vector h of what
//! comes next; an item with vector v scores h . v. The items' vectors come from outside: from a table that is trained
//! along, or from whatever a device has of the items that it knows. All parameters are in one flat buffer, and a step
//! makes no allocation. Sequences of a batch may differ in length ([`Packed`]); a device has a batch of one.
//!
//! ```text
//! let mut layout = Layout::default();
//! let network = SequenceNetwork::transformer(&mut layout, "network", &shape)?;
//! let tape = network.forward(&parameters, vectors, Packed::new(&[0, items])?, dropout, &mut space)?;
//! // scores = tape.output() V',  their loss,  dh = its gradient
//! network.backward(&parameters, &tape, dh, &mut gradients, Some(dvectors), &mut space)?;
//! ```

pub(crate) mod gru4rec;
pub(crate) mod transformer;

#[cfg(test)]
mod tests;

use gru4rec::{Gru4Rec, Gru4RecShape, Gru4RecTape};
use sottovoce_core::Rng;
use sottovoce_neural::{Layout, NeuralError, Packed, Real, Space};
use transformer::{Transformer, TransformerShape, TransformerTape};

/// Layers at most: what backward needs of each is in an array.
pub(crate) const MAX_LAYERS: usize = 4;

/// A network that predicts the next item of a sequence from those before.
#[derive(Clone, Debug)]
pub(crate) enum SequenceNetwork {
    /// Recurrent.
    Gru4Rec(Gru4Rec),
    /// Self-attention: SASRec with a causal mask, BERT4Rec without.
    Transformer(Transformer),
}

/// What backward needs of a [`SequenceNetwork`]'s forward.
pub(crate) enum SequenceTape<'a, R> {
    /// Of GRU4Rec.
    Gru4Rec(Gru4RecTape<'a, R>),
    /// Of self-attention.
    Transformer(TransformerTape<'a, R>),
}

impl<R> SequenceTape<'_, R> {
    /// h of each row.
    pub(crate) fn output(&self) -> &[R] {
        match self {
            Self::Gru4Rec(tape) => tape.output,
            Self::Transformer(tape) => tape.output,
        }
    }
}

impl SequenceNetwork {
    /// GRU4Rec; adds its parameters to a layout.
    ///
    /// # Errors
    /// If a size is 0 or too large, or the name is taken.
    pub(crate) fn gru4rec(layout: &mut Layout, name: &str, shape: &Gru4RecShape) -> Result<Self, NeuralError> {
        Gru4Rec::new(layout, name, shape).map(Self::Gru4Rec)
    }

    /// Self-attention; adds its parameters to a layout.
    ///
    /// # Errors
    /// If a size is 0 or too large, heads do not divide the width, or the name is taken.
    pub(crate) fn transformer(layout: &mut Layout, name: &str, shape: &TransformerShape) -> Result<Self, NeuralError> {
        Transformer::new(layout, name, shape).map(Self::Transformer)
    }

    /// Length of an item's vector, and of h.
    pub(crate) fn width(&self) -> usize {
        match self {
            Self::Gru4Rec(network) => network.width(),
            Self::Transformer(network) => network.width(),
        }
    }

    /// Values that forward and backward together take from the arena, for so many sequences no longer than `longest`,
    /// with so many rows in all.
    pub(crate) fn space(&self, sequences: usize, rows: usize, longest: usize) -> usize {
        match self {
            Self::Gru4Rec(network) => network.space(sequences, rows, longest),
            Self::Transformer(network) => network.space(rows, longest),
        }
    }

    /// h of each row of x. Drops values where a random stream is given: in training.
    ///
    /// # Errors
    /// If lengths contradict each other, or the arena or the parameters are too small.
    pub(crate) fn forward<'a, R: Real>(
        &self,
        parameters: &[R],
        x: &[R],
        sequences: Packed<'a>,
        dropout: Option<&mut Rng>,
        space: &mut Space<'a, R>,
    ) -> Result<SequenceTape<'a, R>, NeuralError> {
        match self {
            Self::Gru4Rec(network) => {
                network.forward(parameters, x, sequences, dropout, space).map(SequenceTape::Gru4Rec)
            }
            Self::Transformer(network) => {
                network.forward(parameters, x, sequences, dropout, space).map(SequenceTape::Transformer)
            }
        }
    }

    /// Adds the gradients of the parameters, and of x where asked for, given those of h.
    ///
    /// # Errors
    /// If lengths contradict each other, or the arena is too small.
    pub(crate) fn backward<R: Real>(
        &self,
        parameters: &[R],
        tape: &SequenceTape<'_, R>,
        dh: &[R],
        gradients: &mut [R],
        dx: Option<&mut [R]>,
        space: &mut Space<'_, R>,
    ) -> Result<(), NeuralError> {
        match (self, tape) {
            (Self::Gru4Rec(network), SequenceTape::Gru4Rec(tape)) => {
                network.backward(parameters, tape, dh, gradients, dx, space)
            }
            (Self::Transformer(network), SequenceTape::Transformer(tape)) => {
                network.backward(parameters, tape, dh, gradients, dx, space)
            }
            _ => Err(NeuralError::Setting("the tape is another network's".to_owned())),
        }
    }
}

/// `y += x`.
pub(crate) fn add<R: Real>(y: &mut [R], x: &[R]) {
    for (y, &x) in y.iter_mut().zip(x) {
        *y += x;
    }
}

/// Checks the number of layers of a network.
fn check_layers(layers: usize) -> Result<(), NeuralError> {
    if (1..=MAX_LAYERS).contains(&layers) {
        Ok(())
    } else {
        Err(NeuralError::Setting(format!("{layers} layers: 1 to {MAX_LAYERS} are expected")))
    }
}
