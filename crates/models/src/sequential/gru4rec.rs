//! GRU4Rec: gated recurrent units over a sequence of items.
//!
//! B. Hidasi, A. Karatzoglou, L. Baltrunas, D. Tikk: Session-based Recommendations with Recurrent Neural Networks,
//! ICLR 2016. With the items' vectors as input and output, as in B. Hidasi, A. Karatzoglou: Recurrent Neural Networks
//! with Top-k Gains for Session-based Recommendations, CIKM 2018.
//!
//! ```text
//! s_0 = dropout(x)      s_l = GRU_l(s_(l-1))      h = s_L W + b
//! ```
//! The units run over sequences of equal length. Shorter ones are padded behind their end, where nothing that is read
//! depends on it.

use super::{MAX_LAYERS, add, check_layers};
use sottovoce_core::Rng;
use sottovoce_neural::{
    Dropout, Layout, Linear, NeuralError, Packed, Real, Recurrent, RecurrentCell, RecurrentTape, SequenceGradients,
    Sequences, Space, StateGradients,
};

/// The shape of a [`Gru4Rec`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Gru4RecShape {
    /// Length of an item's vector.
    pub(crate) width: usize,
    /// Units of each layer.
    pub(crate) units: usize,
    /// Recurrent layers.
    pub(crate) layers: usize,
    /// Probability with which values of the items' vectors are dropped in training.
    pub(crate) dropout: f64,
}

/// The network.
#[derive(Clone, Debug)]
pub(crate) struct Gru4Rec {
    layers: Vec<Recurrent>,
    output: Linear,
    shape: Gru4RecShape,
    dropout: Dropout,
}

/// What backward needs of a [`Gru4Rec`]'s forward.
pub(crate) struct Gru4RecTape<'a, R> {
    /// h of each row.
    pub(crate) output: &'a mut [R],
    mask: Option<&'a mut [R]>,
    layers: [Option<RecurrentTape<'a, R>>; MAX_LAYERS],
    /// States of the last layer, without padding.
    states: &'a mut [R],
    sequences: Packed<'a>,
    longest: usize,
}

impl Gru4Rec {
    /// Adds `name.gru0`, ..., `name.output` to a layout.
    ///
    /// # Errors
    /// If a size is 0 or too large, or the name is taken.
    pub(crate) fn new(layout: &mut Layout, name: &str, shape: &Gru4RecShape) -> Result<Self, NeuralError> {
        check_layers(shape.layers)?;
        let layer = |layout: &mut Layout, n: usize| {
            let inputs = if n == 0 { shape.width } else { shape.units };
            Recurrent::new(layout, &format!("{name}.gru{n}"), RecurrentCell::Gru, inputs, shape.units)
        };
        Ok(Self {
            layers: (0..shape.layers).map(|n| layer(layout, n)).collect::<Result<_, _>>()?,
            output: Linear::new(layout, &format!("{name}.output"), shape.units, shape.width)?,
            shape: *shape,
            dropout: Dropout::new(shape.dropout)?,
        })
    }

    pub(super) fn width(&self) -> usize {
        self.shape.width
    }

    pub(super) fn space(&self, sequences: usize, rows: usize, longest: usize) -> usize {
        let Gru4RecShape { width, units, layers, .. } = self.shape;
        let padded = sequences.saturating_mul(longest);
        let recurrent = self.layers.iter().map(|layer| layer.space(sequences, longest)).sum::<usize>();
        // Padded inputs and states with their gradients; inputs, mask, states, output and the gradients of states.
        let in_padded = 2 * (width + units * layers) + units;
        recurrent + padded.saturating_mul(in_padded) + rows.saturating_mul(4 * width + 3 * units)
    }

    pub(super) fn forward<'a, R: Real>(
        &self,
        parameters: &[R],
        x: &[R],
        sequences: Packed<'a>,
        dropout: Option<&mut Rng>,
        space: &mut Space<'a, R>,
    ) -> Result<Gru4RecTape<'a, R>, NeuralError> {
        let (width, units) = (self.shape.width, self.shape.units);
        expect_rows(x, sequences, width)?;
        let x = space.copy(x)?;
        let mask = dropout.map(|rng| self.dropout.forward(x, rng, space)).transpose()?;
        let longest = sequences.lengths().max().unwrap_or(1);
        let padded = space.zeros(sequences.sequences() * longest * width)?;
        for_each_sequence(sequences, longest, width, |packed, place| padded[place].copy_from_slice(&x[packed]));
        let mut layers: [Option<RecurrentTape<'a, R>>; MAX_LAYERS] = Default::default();
        let mut input: &'a [R] = padded;
        for (layer, kept) in self.layers.iter().zip(&mut layers) {
            let tape = layer.forward(parameters, Sequences::new(input, sequences.sequences(), longest), space)?;
            input = space.copy(tape.states())?;
            *kept = Some(tape);
        }
        let states = space.zeros(sequences.rows() * units)?;
        for_each_sequence(sequences, longest, units, |packed, place| states[packed].copy_from_slice(&input[place]));
        let output = self.output.forward(parameters, states, space)?;
        Ok(Gru4RecTape { output, mask, layers, states, sequences, longest })
    }

    pub(super) fn backward<R: Real>(
        &self,
        parameters: &[R],
        tape: &Gru4RecTape<'_, R>,
        dh: &[R],
        gradients: &mut [R],
        dx: Option<&mut [R]>,
        space: &mut Space<'_, R>,
    ) -> Result<(), NeuralError> {
        let (width, units) = (self.shape.width, self.shape.units);
        let mut space = space.scratch();
        let dstates = space.zeros(tape.states.len())?;
        self.output.backward(parameters, tape.states, dh, gradients, Some(&mut *dstates))?;
        let padded = tape.sequences.sequences() * tape.longest;
        let mut above = space.zeros(padded * units)?;
        for_each_sequence(tape.sequences, tape.longest, units, |packed, place| {
            above[place].copy_from_slice(&dstates[packed]);
        });
        for (n, (layer, tape)) in self.layers.iter().zip(&tape.layers).enumerate().rev() {
            let Some(tape) = tape else { continue };
            let below = space.zeros(padded * if n == 0 { width } else { units })?;
            let dy = StateGradients { states: above, last_cells: None };
            let into = SequenceGradients { values: Some(&mut *below), start: None };
            layer.backward(parameters, tape, dy, gradients, into, &mut space)?;
            above = below;
        }
        let Some(dx) = dx else { return Ok(()) };
        expect_rows(dx, tape.sequences, width)?;
        let gathered = space.zeros(dx.len())?;
        for_each_sequence(tape.sequences, tape.longest, width, |packed, place| {
            gathered[packed].copy_from_slice(&above[place]);
        });
        if let Some(mask) = &tape.mask {
            self.dropout.backward(mask, gathered)?;
        }
        add(dx, gathered);
        Ok(())
    }
}

fn expect_rows<R>(values: &[R], sequences: Packed<'_>, width: usize) -> Result<(), NeuralError> {
    match values.len() {
        found if found == sequences.rows() * width => Ok(()),
        found => Err(NeuralError::Length("vectors of packed sequences", sequences.rows() * width, found)),
    }
}

/// Calls with the values of each sequence, without and with padding.
fn for_each_sequence(
    sequences: Packed<'_>,
    longest: usize,
    width: usize,
    mut copy: impl FnMut(std::ops::Range<usize>, std::ops::Range<usize>),
) {
    for (sequence, rows) in sequences.starts().windows(2).enumerate() {
        let start = sequence * longest * width;
        copy(rows[0] * width..rows[1] * width, start..start + (rows[1] - rows[0]) * width);
    }
}
