//! Embeddings of many candidates for the last place of one window.
//!
//! An embedding depends on the latents of the last position, which sees the last eight items. A candidate changes the
//! last position of each convolution only, and is added there to what the items before it give:
//! `pair W = older W_older + newer W_newer`. So all but the candidate's own share is computed once a window, and a
//! candidate costs three small products.

use super::network::{Network, Shape};
use sottovoce_neural::products::{Matrix, MatrixMut, add_product};
use sottovoce_neural::{Activation, Arithmetic, Linear, NeuralError, Real, Space};

/// Candidates that are embedded at a time.
pub(super) const CHUNK: usize = 64;

/// Items that the last position sees.
const SEEN: usize = 8;

impl Network {
    /// Values of a context: the sums at the last position of the three convolutions, without a candidate.
    pub(super) fn context_values(&self) -> usize {
        self.convolutions.iter().map(Linear::outputs).sum()
    }

    /// Writes the contexts of some windows, whose last items are taken as absent.
    pub(super) fn contexts<R: Real>(
        &self,
        parameters: &[R],
        windows: &[R],
        into: &mut [R],
        space: &mut Space<'_, R>,
    ) -> Result<(), NeuralError> {
        let mut space = space.scratch();
        let Shape { dim, window, .. } = *self.shape();
        let [one, two, three] = &self.convolutions;
        let seen = space.zeros(windows.len() / window * SEEN)?;
        for (seen, window) in seen.chunks_exact_mut(SEEN * dim).zip(windows.chunks_exact(window * dim)) {
            let before = (SEEN - 1) * dim;
            seen[..before].copy_from_slice(&window[window.len() - SEEN * dim..][..before]);
        }
        let values = self.context_values();
        let first = one.forward(parameters, seen, &mut space)?;
        open_last(first, SEEN / 2 * one.outputs(), one.outputs(), into, (values, 0));
        Activation::Relu.apply(first);
        let second = two.forward(parameters, first, &mut space)?;
        open_last(second, SEEN / 4 * two.outputs(), two.outputs(), into, (values, one.outputs()));
        Activation::Relu.apply(second);
        let third = three.forward(parameters, second, &mut space)?;
        open_last(third, three.outputs(), three.outputs(), into, (values, one.outputs() + two.outputs()));
        Ok(())
    }

    /// Writes the embeddings of up to [`CHUNK`] candidates for the last place of a window, given the window's context
    /// and the candidates' vectors.
    pub(super) fn embed_candidates<R: Real>(
        &self,
        parameters: &[R],
        context: &[R],
        vectors: &[R],
        into: &mut [R],
        space: &mut Space<'_, R>,
    ) -> Result<(), NeuralError> {
        let mut space = space.scratch();
        let candidates = vectors.len() / self.shape().dim;
        let (mut values, mut rest): (&[R], &[R]) = (vectors, context);
        for (n, layer) in self.convolutions.iter().enumerate() {
            let (inputs, outputs) = (layer.inputs() / 2, layer.outputs());
            let newer = &layer.weight().of(parameters)?[inputs * outputs..];
            let sums = space.zeros(candidates * outputs)?;
            let (sum, others) = rest.split_at(outputs);
            sums.chunks_exact_mut(outputs).for_each(|row| row.copy_from_slice(sum));
            let (factors, into) = (Matrix::new(values, inputs)?, MatrixMut::new(sums, outputs)?);
            add_product(Arithmetic::Portable, factors, Matrix::new(newer, outputs)?, into)?;
            if n < 2 {
                Activation::Relu.apply(sums);
            }
            (values, rest) = (sums, others);
        }
        self.embed(parameters, values, vectors, into, &mut space)
    }
}

/// Moves the last row of each window's rows into its context; zeros take its place.
fn open_last<R: Real>(rows: &mut [R], of_window: usize, width: usize, into: &mut [R], (values, at): (usize, usize)) {
    for (rows, into) in rows.chunks_exact_mut(of_window).zip(into.chunks_exact_mut(values)) {
        let last = &mut rows[of_window - width..];
        into[at..at + width].copy_from_slice(last);
        last.fill(R::ZERO);
    }
}
