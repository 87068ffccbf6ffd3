//! Embeddings of many candidates for the last place of one window.
//!
//! A candidate changes the last position of each convolution only, and is added there to what the items before it
//! give: `pair W = older W_older + newer W_newer`. So all but the candidate's own share is computed once a window, and
//! a candidate costs three small products.

use super::network::{Network, Shape};
use sottovoce_neural::products::{Matrix, MatrixMut, add_product};
use sottovoce_neural::{Activation, Arithmetic, NeuralError, Real, Space};

/// Candidates that are embedded at a time.
pub(super) const CHUNK: usize = 64;

/// The sums at the last position of the three convolutions without a candidate, and the latents before it.
#[derive(Clone, Copy)]
pub(super) struct Context<'c, R> {
    sums: [&'c [R]; 3],
    latents: &'c [R],
}

impl Network {
    /// Values of a context.
    pub(super) fn context_values(&self) -> usize {
        let widths: usize = self.convolutions.iter().map(|layer| layer.outputs()).sum();
        widths + (self.shape().positions() - 1) * self.convolutions[2].outputs()
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
        let windows = space.copy(windows)?;
        windows.chunks_exact_mut(window * dim).for_each(|window| {
            let last = window.len() - dim;
            window[last..].fill(R::ZERO);
        });
        let values = self.context_values();
        let first = one.forward(parameters, windows, &mut space)?;
        open_last(first, window / 2, one.outputs(), into, (values, 0));
        Activation::Relu.apply(first);
        let second = two.forward(parameters, first, &mut space)?;
        open_last(second, window / 4, two.outputs(), into, (values, one.outputs()));
        Activation::Relu.apply(second);
        let pairs = self.overlapping(second, &mut space)?;
        let latents = three.forward(parameters, pairs, &mut space)?;
        let (positions, width, at) = (self.shape().positions(), three.outputs(), one.outputs() + two.outputs());
        for (latents, into) in latents.chunks_exact(positions * width).zip(into.chunks_exact_mut(values)) {
            let (before, last) = latents.split_at((positions - 1) * width);
            into[at..at + width].copy_from_slice(last);
            into[at + width..].copy_from_slice(before);
        }
        Ok(())
    }

    /// A context that [`contexts`](Self::contexts) wrote.
    pub(super) fn context<'c, R>(&self, values: &'c [R]) -> Context<'c, R> {
        let [one, two, three] = self.convolutions.map(|layer| layer.outputs());
        let (first, rest) = values.split_at(one);
        let (second, rest) = rest.split_at(two);
        let (third, latents) = rest.split_at(three);
        Context { sums: [first, second, third], latents }
    }

    /// Writes the embeddings of up to [`CHUNK`] candidates, given their vectors.
    pub(super) fn embed_candidates<R: Real>(
        &self,
        parameters: &[R],
        context: Context<'_, R>,
        vectors: &[R],
        into: &mut [R],
        space: &mut Space<'_, R>,
    ) -> Result<(), NeuralError> {
        let mut space = space.scratch();
        let dim = self.shape().dim;
        let candidates = vectors.len() / dim;
        let mut values: &[R] = vectors;
        for (n, (layer, sum)) in self.convolutions.iter().zip(context.sums).enumerate() {
            let (inputs, outputs) = (layer.inputs() / 2, layer.outputs());
            let newer = &layer.weight().of(parameters)?[inputs * outputs..];
            let sums = space.zeros(candidates * outputs)?;
            sums.chunks_exact_mut(outputs).for_each(|row| row.copy_from_slice(sum));
            let (factors, into) = (Matrix::new(values, inputs)?, MatrixMut::new(sums, outputs)?);
            add_product(Arithmetic::Portable, factors, Matrix::new(newer, outputs)?, into)?;
            if n < 2 {
                Activation::Relu.apply(sums);
            }
            values = sums;
        }
        let (width, before) = (self.convolutions[2].outputs(), context.latents.len());
        let latents = space.zeros(candidates * (before + width))?;
        for (latents, last) in latents.chunks_exact_mut(before + width).zip(values.chunks_exact(width)) {
            latents[..before].copy_from_slice(context.latents);
            latents[before..].copy_from_slice(last);
        }
        self.embed(parameters, latents, into, &mut space)
    }
}

/// Moves the last row of each window into its context; zeros take its place.
fn open_last<R: Real>(rows: &mut [R], positions: usize, width: usize, into: &mut [R], (values, at): (usize, usize)) {
    for (rows, into) in rows.chunks_exact_mut(positions * width).zip(into.chunks_exact_mut(values)) {
        let last = &mut rows[(positions - 1) * width..];
        into[at..at + width].copy_from_slice(last);
        last.fill(R::ZERO);
    }
}
