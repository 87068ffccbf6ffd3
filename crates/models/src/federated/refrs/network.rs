//! The embedding model: an autoencoder of windows of items.
//!
//! A window x has w items' vectors of length d, oldest first. A convolution with kernel 2 and stride 2 is a dense layer
//! over neighbouring pairs, and is computed as one:
//! ```text
//! a = relu(pairs(x) W1 + b1)         w/2 positions of 2d values
//! b = relu(pairs(a) W2 + b2)         w/4 positions of d values
//! e = overlapping pairs(b) W3 + b3   P = w/4 - 1 positions of d values: the encoder's latents
//! z = nearest codes to e             straight-through: dz passes to e
//! y = multi-head attention with queries z, keys and values e
//! x' = relu(y W4 + b4) W5 + b5       the decoder
//! loss = mean over windows of |x' - x|^2 + |sg(e) - z|^2 + beta |e - sg(z)|^2
//! ```
//! The embedding of a window's last item i is z at the last position, normalised, + sqrt(d) F_i: its context, and the
//! item itself. Without attention y = z (VQ-VAE). Without codes the encoder gives means m and logarithms of variances
//! l, y is a sample of N(m, e^l), and beta weighs the divergence from N(0, 1) (VAE); embeddings take the means.

use crate::choices;
use sottovoce_core::Rng;
use sottovoce_neural::{
    Activation, Arithmetic, Attention, AttentionGradients, AttentionOutputGradients, AttentionTape, Layout, Linear,
    Mask, NeuralError, Quantiser, QuantiserTape, Real, Space, losses,
};
use std::ops::Range;

choices! {
    /// The embedding model: the paper's, and what its ablation leaves of it.
    #[derive(Default)]
    pub enum Embedding {
        /// A variational autoencoder.
        Vae => "vae",
        /// With a codebook instead.
        VqVae => "vq-vae",
        /// With a codebook and attention.
        #[default]
        Refrs => "refrs",
    }
}

/// What an embedding model is like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Which parts it has.
    pub embedding: Embedding,
    /// Length of items' vectors and of latents (d).
    pub dim: usize,
    /// Items of a window (w); a multiple of 4, of 8 at least.
    pub window: usize,
    /// Codes (J).
    pub codes: usize,
    /// Heads of attention at most; they divide d.
    pub heads: usize,
    /// Units of the decoder's hidden layer.
    pub units: usize,
    /// Weight of the commitment loss, or of the divergence (beta).
    pub beta: f64,
}

impl Shape {
    /// Positions of the latents (P).
    pub fn positions(&self) -> usize {
        self.window / 4 - 1
    }

    /// Values of a window.
    pub fn window_values(&self) -> usize {
        self.window * self.dim
    }

    /// Values of a window's latents.
    pub fn latent_values(&self) -> usize {
        self.positions() * self.dim
    }

    /// Values that the encoder gives for a position.
    fn encoded(&self) -> usize {
        if self.embedding == Embedding::Vae { 2 * self.dim } else { self.dim }
    }
}

/// The layers.
#[derive(Clone, Debug)]
pub struct Network {
    shape: Shape,
    layout: Layout,
    pub(super) convolutions: [Linear; 3],
    codes: Option<Quantiser>,
    attention: Option<Attention>,
    hidden: Linear,
    output: Linear,
}

/// What the encoder's forward pass left behind.
pub(super) struct Encoded<'a, R> {
    first: &'a mut [R],
    second: &'a mut [R],
    pairs: &'a mut [R],
    /// e, or m and l beside each other.
    pub(super) latents: &'a mut [R],
}

/// Between encoder and decoder.
enum Code<'a, R> {
    /// Means, logarithms of variances, and deviations of the sample.
    Sampled {
        means: &'a mut [R],
        logs: &'a mut [R],
        deviations: &'a mut [R],
        z: &'a mut [R],
    },
    Quantised(QuantiserTape<'a, R>),
    Attended {
        codes: QuantiserTape<'a, R>,
        attention: AttentionTape<'a, R>,
    },
}

impl<R> Code<'_, R> {
    fn output(&self) -> &[R] {
        match self {
            Self::Sampled { z, .. } => z,
            Self::Quantised(codes) => codes.output,
            Self::Attended { attention, .. } => attention.output,
        }
    }
}

impl Network {
    /// Lays out all layers, the encoder's first.
    ///
    /// # Errors
    /// If a size is 0 or too large.
    pub fn new(shape: Shape) -> Result<Self, NeuralError> {
        let Shape { embedding, dim, window, codes, heads, units, beta } = shape;
        if window < 8 || !window.is_multiple_of(4) {
            return Err(NeuralError::Setting(format!("a window of {window}: a multiple of 4 from 8 is expected")));
        }
        let mut layout = Layout::new(Arithmetic::Portable);
        let convolutions = [
            Linear::new(&mut layout, "encoder.first", 2 * dim, 2 * dim)?,
            Linear::new(&mut layout, "encoder.second", 4 * dim, dim)?,
            Linear::new(&mut layout, "encoder.third", 2 * dim, shape.encoded())?,
        ];
        let codes = match embedding {
            Embedding::Vae => None,
            _ => Some(Quantiser::new(&mut layout, "codes", codes, dim, beta)?),
        };
        let heads = (1..=heads.min(dim)).rev().find(|heads| dim.is_multiple_of(*heads)).unwrap_or(1);
        let attention = match embedding {
            Embedding::Refrs => Some(Attention::new(&mut layout, "attention", dim, heads, Mask::None)?),
            _ => None,
        };
        let hidden = Linear::new(&mut layout, "decoder.hidden", shape.latent_values(), units)?;
        let output = Linear::new(&mut layout, "decoder.output", units, shape.window_values())?;
        Ok(Self { shape, layout, convolutions, codes, attention, hidden, output })
    }

    /// What it is like.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Where its parameters are.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The encoder's parameters, which alone leave a device.
    pub fn encoder(&self) -> Range<usize> {
        let after = self.layout.tensors().iter().find(|tensor| !tensor.name.starts_with("encoder."));
        0..after.map_or(self.layout.len(), |tensor| tensor.slot.range().start)
    }

    /// Values that a pass over so many windows and the way back take from an arena, and indices.
    pub fn space(&self, windows: usize) -> (usize, usize) {
        let Shape { dim, window, units, .. } = self.shape;
        let (latents, positions) = (self.shape.latent_values(), self.shape.positions());
        // Outputs of the convolutions and pairs of the second's; each has a gradient.
        let encoder = window / 2 * 2 * dim + window / 4 * dim + positions * 2 * dim + positions * 2 * dim;
        // Latents, codes or a sample with its deviations, and their gradients.
        let code = 8 * latents;
        let attention = self.attention.map_or(0, |attention| attention.space(windows, positions, positions));
        let decoder = units + self.shape.window_values();
        (windows * 2 * (encoder + decoder) + windows * code + attention, windows * positions)
    }

    /// Latents of some windows.
    pub(super) fn encode<'a, R: Real>(
        &self,
        parameters: &[R],
        windows: &[R],
        space: &mut Space<'a, R>,
    ) -> Result<Encoded<'a, R>, NeuralError> {
        let [one, two, three] = &self.convolutions;
        let first = one.forward(parameters, windows, space)?;
        Activation::Relu.apply(first);
        let second = two.forward(parameters, first, space)?;
        Activation::Relu.apply(second);
        let pairs = self.overlapping(second, space)?;
        let latents = three.forward(parameters, pairs, space)?;
        Ok(Encoded { first, second, pairs, latents })
    }

    /// Neighbouring rows of each window beside each other.
    fn overlapping<'a, R: Real>(&self, rows: &[R], space: &mut Space<'a, R>) -> Result<&'a mut [R], NeuralError> {
        let Shape { dim, window, .. } = self.shape;
        let (of_window, positions) = (window / 4 * dim, self.shape.positions());
        let pairs = space.zeros(rows.len() / of_window * positions * 2 * dim)?;
        for (rows, pairs) in rows.chunks_exact(of_window).zip(pairs.chunks_exact_mut(positions * 2 * dim)) {
            for (position, pair) in pairs.chunks_exact_mut(2 * dim).enumerate() {
                pair.copy_from_slice(&rows[position * dim..][..2 * dim]);
            }
        }
        Ok(pairs)
    }

    /// Codes or a sample.
    fn code<'a, R: Real>(
        &self,
        parameters: &[R],
        latents: &'a [R],
        rng: &mut Rng,
        space: &mut Space<'a, R>,
    ) -> Result<Code<'a, R>, NeuralError> {
        let Some(codes) = &self.codes else {
            let dim = self.shape.dim;
            let (means, logs) = (space.zeros(latents.len() / 2)?, space.zeros(latents.len() / 2)?);
            for (n, both) in latents.chunks_exact(2 * dim).enumerate() {
                means[n * dim..][..dim].copy_from_slice(&both[..dim]);
                logs[n * dim..][..dim].copy_from_slice(&both[dim..]);
            }
            let (z, deviations) = losses::sample_gaussian(means, logs, rng, space)?;
            return Ok(Code::Sampled { means, logs, deviations, z });
        };
        let codes = codes.forward(parameters, latents, space)?;
        let Some(attention) = &self.attention else { return Ok(Code::Quantised(codes)) };
        let queries = space.copy(codes.output)?;
        let windows = latents.len() / self.shape.latent_values();
        let attention = attention.forward(parameters, queries, latents, windows, space)?;
        Ok(Code::Attended { codes, attention })
    }

    /// The loss of some windows; adds its gradients. A VAE draws its samples from `rng`.
    ///
    /// # Errors
    /// If there are no whole windows, or the arena or a buffer is too small.
    pub fn step<R: Real>(
        &self,
        parameters: &[R],
        windows: &[R],
        rng: &mut Rng,
        gradients: &mut [R],
        space: &mut Space<'_, R>,
    ) -> Result<f64, NeuralError> {
        let mut space = space.scratch();
        let space = &mut space;
        let share = self.shape.window_values() as f64 / windows.len().max(1) as f64;
        let Encoded { first, second, pairs, latents } = self.encode(parameters, windows, space)?;
        let code = self.code(parameters, latents, rng, space)?;
        let hidden = self.hidden.forward(parameters, code.output(), space)?;
        Activation::Relu.apply(hidden);
        let output = self.output.forward(parameters, hidden, space)?;

        let doutput = space.zeros(output.len())?;
        let mut loss = losses::mse(output, windows, share, Some(&mut *doutput))?;
        let dhidden = space.zeros(hidden.len())?;
        self.output.backward(parameters, hidden, doutput, gradients, Some(&mut *dhidden))?;
        Activation::Relu.backward(hidden, dhidden)?;
        let dcode = space.zeros(code.output().len())?;
        self.hidden.backward(parameters, code.output(), dhidden, gradients, Some(&mut *dcode))?;
        let dlatents = space.zeros(latents.len())?;
        loss += self.code_backward(parameters, latents, &code, dcode, share, gradients, dlatents, space)?;

        let [one, two, three] = &self.convolutions;
        let dpairs = space.zeros(pairs.len())?;
        three.backward(parameters, pairs, dlatents, gradients, Some(&mut *dpairs))?;
        let dsecond = space.zeros(second.len())?;
        self.add_overlapping(dpairs, dsecond);
        Activation::Relu.backward(second, dsecond)?;
        let dfirst = space.zeros(first.len())?;
        two.backward(parameters, first, dsecond, gradients, Some(&mut *dfirst))?;
        Activation::Relu.backward(first, dfirst)?;
        one.backward(parameters, windows, dfirst, gradients, None)?;
        Ok(loss)
    }

    /// Adds the gradients of codes, attention and latents; returns the losses between encoder and decoder.
    #[allow(clippy::too_many_arguments)]
    fn code_backward<R: Real>(
        &self,
        parameters: &[R],
        latents: &[R],
        code: &Code<'_, R>,
        dcode: &[R],
        share: f64,
        gradients: &mut [R],
        dlatents: &mut [R],
        space: &mut Space<'_, R>,
    ) -> Result<f64, NeuralError> {
        // The quantiser takes a mean over rows; of each window the sum over positions counts.
        let factor = self.shape.positions() as f64;
        match (code, &self.codes, &self.attention) {
            (Code::Attended { codes, attention }, Some(quantiser), Some(layer)) => {
                let dqueries = space.zeros(dcode.len())?;
                let dy = AttentionOutputGradients { output: dcode, weights: None };
                let into = AttentionGradients { queries: Some(&mut *dqueries), source: Some(&mut *dlatents) };
                layer.backward(parameters, attention, dy, gradients, into, space)?;
                quantiser.backward(codes, latents, dqueries, factor, gradients, dlatents)?;
                Ok(quantiser.loss(codes, factor))
            }
            (Code::Quantised(codes), Some(quantiser), _) => {
                quantiser.backward(codes, latents, dcode, factor, gradients, dlatents)?;
                Ok(quantiser.loss(codes, factor))
            }
            (Code::Sampled { means, logs, deviations, .. }, ..) => {
                let (dmeans, dlogs) = (space.zeros(dcode.len())?, space.zeros(dcode.len())?);
                losses::sample_gaussian_backward(deviations, dcode, dmeans, dlogs)?;
                let of_both = Some((&mut *dmeans, &mut *dlogs));
                let divergence = losses::kl_gaussian(means, logs, share * self.shape.beta, of_both)?;
                let dim = self.shape.dim;
                for (n, both) in dlatents.chunks_exact_mut(2 * dim).enumerate() {
                    both[..dim].copy_from_slice(&dmeans[n * dim..][..dim]);
                    both[dim..].copy_from_slice(&dlogs[n * dim..][..dim]);
                }
                Ok(divergence)
            }
            _ => Err(NeuralError::Setting("codes without a codebook".to_owned())),
        }
    }

    /// Adds gradients of neighbouring rows to those of the rows.
    fn add_overlapping<R: Real>(&self, dpairs: &[R], drows: &mut [R]) {
        let Shape { dim, window, .. } = self.shape;
        let (of_window, positions) = (window / 4 * dim, self.shape.positions());
        for (rows, pairs) in drows.chunks_exact_mut(of_window).zip(dpairs.chunks_exact(positions * 2 * dim)) {
            for (position, pair) in pairs.chunks_exact(2 * dim).enumerate() {
                rows[position * dim..][..2 * dim].iter_mut().zip(pair).for_each(|(row, &pair)| *row += pair);
            }
        }
    }

    /// Writes the embedding of each window's last item, given the latents of the windows' last positions and the items'
    /// vectors: the nearest code, or the mean, normalised, plus the item's vector at the same scale.
    pub(super) fn embed<R: Real>(
        &self,
        parameters: &[R],
        latents: &[R],
        vectors: &[R],
        into: &mut [R],
        space: &mut Space<'_, R>,
    ) -> Result<(), NeuralError> {
        let mut space = space.scratch();
        let dim = self.shape.dim;
        let (rows, width): (&[R], usize) = match &self.codes {
            Some(codes) => (codes.forward(parameters, latents, &mut space)?.output, dim),
            None => (latents, self.shape.encoded()),
        };
        let scale = R::sqrt(R::of(dim as f64));
        let rows = rows.chunks_exact(width).zip(vectors.chunks_exact(dim));
        for ((row, vector), into) in rows.zip(into.chunks_exact_mut(dim)) {
            into.copy_from_slice(&row[..dim]);
            normalise(into);
            into.iter_mut().zip(vector).for_each(|(into, &value)| *into += scale * value);
        }
        Ok(())
    }
}

/// Shifts to mean 0 and scales to variance 1.
fn normalise<R: Real>(row: &mut [R]) {
    let share = R::ONE / R::of(row.len() as f64);
    let mean = row.iter().copied().sum::<R>() * share;
    row.iter_mut().for_each(|value| *value -= mean);
    let variance = row.iter().map(|&value| value * value).sum::<R>() * share;
    let factor = R::ONE / R::sqrt(variance + R::of(1e-8));
    row.iter_mut().for_each(|value| *value *= factor);
}
