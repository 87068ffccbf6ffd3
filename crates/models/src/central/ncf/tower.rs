//! NeuMF's tower: a multi-layer perceptron above a user's and an item's vector.
//!
//! ```text
//! m_0 = [p, q]      m_l = relu(m_(l-1) W_l + b_l), each half as wide as the one before      x += o . m_L
//! ```

use super::embeddings::Embeddings;
use sottovoce_neural::products::{Matrix, MatrixMut, add_product, add_product_by_transposed, add_transposed_product};
use sottovoce_neural::{Activation, Arithmetic, Init, Layout, Linear, NeuralError, Role, Slot, Space};

const RELU: Activation = Activation::Relu;

/// The layers; their parameters are in the buffer of shared parameters.
pub(super) struct Tower {
    layers: Vec<Linear>,
    pub(super) output: Slot,
    width: usize,
    factors: usize,
    arithmetic: Arithmetic,
}

/// Length of a user's or an item's vector, if the last of so many layers has so many factors as outputs.
pub(super) fn width(factors: usize, layers: usize) -> usize {
    factors << (layers - 1)
}

/// The activations that backpropagation needs: the input of each layer, and the output of the last.
pub(super) struct Tape<'a> {
    activations: Vec<&'a mut [f32]>,
}

impl Tower {
    pub(super) fn new(layout: &mut Layout, factors: usize, layers: usize) -> Result<Self, NeuralError> {
        let width = width(factors, layers);
        let linear = |(number, inputs): (usize, usize)| {
            Linear::with_init(layout, &format!("tower.{number}"), inputs, inputs / 2, Init::glorot(inputs, inputs / 2))
        };
        let inputs = (0..layers).map(|number| (number, (2 * width) >> number));
        let layers = inputs.map(linear).collect::<Result<_, _>>()?;
        let output = layout.add("tower.output".to_owned(), &[factors], Role::Weight, Init::fan_in(factors))?;
        Ok(Self { layers, output, width, factors, arithmetic: layout.arithmetic() })
    }

    /// Size of the arena for a training pass over so many samples.
    pub(super) fn space(&self, samples: usize) -> usize {
        // Outputs and the concatenated input, with a gradient each; the two vectors.
        let outputs: usize = self.layers.iter().map(|layer| layer.space(samples)).sum();
        2 * (outputs + 2 * samples * self.width) + 2 * samples * self.width
    }

    /// Adds to the logits of samples; all users have the same number of them.
    pub(super) fn forward<'a>(
        &self,
        shared: &[f32],
        p: &[f32],
        q: &[f32],
        x: &mut [f32],
        space: &mut Space<'a, f32>,
    ) -> Result<Tape<'a>, NeuralError> {
        let each = q.len() / p.len().max(1);
        let joined = space.zeros(2 * q.len())?;
        for (sample, joined) in joined.chunks_exact_mut(2 * self.width).enumerate() {
            joined[..self.width].copy_from_slice(&p[sample / each * self.width..][..self.width]);
            joined[self.width..].copy_from_slice(&q[sample * self.width..][..self.width]);
        }
        let mut activations = vec![joined];
        for layer in &self.layers {
            let Some(below) = activations.last() else { break };
            let above = layer.forward(shared, below, space)?;
            RELU.apply(above);
            activations.push(above);
        }
        self.add_output(shared, activations.last().map_or(&[], |m| &**m), x)?;
        Ok(Tape { activations })
    }

    /// x += m o.
    fn add_output(&self, shared: &[f32], m: &[f32], x: &mut [f32]) -> Result<(), NeuralError> {
        let (m, o) = (Matrix::new(m, self.factors)?, Matrix::new(self.output.of(shared)?, self.factors)?);
        add_product_by_transposed(self.arithmetic, m, o, MatrixMut::new(x, 1)?)
    }

    /// Adds the gradients of the layers, and of the users' and samples' vectors.
    pub(super) fn backward(
        &self,
        shared: &[f32],
        tape: &Tape<'_>,
        dx: &[f32],
        gradients: &mut [f32],
        [dp, dq]: [&mut [f32]; 2],
        space: &mut Space<'_, f32>,
    ) -> Result<(), NeuralError> {
        let Some((m, below)) = tape.activations.split_last() else { return Ok(()) };
        let column = Matrix::new(dx, 1)?;
        let of_output = MatrixMut::new(self.output.of_mut(gradients)?, self.factors)?;
        add_transposed_product(self.arithmetic, column, Matrix::new(m, self.factors)?, of_output)?;
        let mut dm = space.zeros(m.len())?;
        let o = Matrix::new(self.output.of(shared)?, self.factors)?;
        add_product(self.arithmetic, column, o, MatrixMut::new(dm, self.factors)?)?;
        let mut above: &[f32] = m;
        for (layer, below) in self.layers.iter().zip(below).rev() {
            RELU.backward(above, dm)?;
            let next = space.zeros(below.len())?;
            layer.backward(shared, below, dm, gradients, Some(next))?;
            (dm, above) = (next, below);
        }
        self.split(dm, dp, dq);
        Ok(())
    }

    /// Splits the gradient of the concatenated vectors.
    fn split(&self, joined: &[f32], dp: &mut [f32], dq: &mut [f32]) {
        let each = dq.len() / dp.len().max(1);
        for (sample, joined) in joined.chunks_exact(2 * self.width).enumerate() {
            let (of_p, of_q) = joined.split_at(self.width);
            let user = &mut dp[sample / each * self.width..][..self.width];
            user.iter_mut().zip(of_p).for_each(|(sum, of_p)| *sum += of_p);
            let item = &mut dq[sample * self.width..][..self.width];
            item.iter_mut().zip(of_q).for_each(|(sum, of_q)| *sum += of_q);
        }
    }

    /// The first layer applied to every item: q W, to which scoring adds a user's p W + b.
    pub(super) fn first_layer(&self, shared: &[f32], items: &Embeddings) -> Result<Vec<f32>, NeuralError> {
        let Some((table, first)) = items.tower_table().zip(self.layers.first()) else {
            return Ok(Vec::new());
        };
        let mut sums = vec![0.0; table.len() / self.width * first.outputs()];
        let lower = &first.weight().of(shared)?[self.width * first.outputs()..];
        let (q, weight) = (Matrix::new(table, self.width)?, Matrix::new(lower, first.outputs())?);
        add_product(self.arithmetic, q, weight, MatrixMut::new(&mut sums, first.outputs())?)?;
        Ok(sums)
    }

    /// Adds to the scores of all items for one user, given [`first_layer`](Self::first_layer).
    pub(super) fn add_scores(
        &self,
        shared: &[f32],
        p: &[f32],
        first_layer: &[f32],
        into: &mut [f32],
    ) -> Result<(), NeuralError> {
        let Some((first, above)) = self.layers.split_first() else { return Ok(()) };
        let mut arena = sottovoce_neural::Arena::new(self.space(BLOCK), 0)?;
        // p concatenated with zeros: p W + b.
        let mut joined = p.to_vec();
        joined.resize(2 * self.width, 0.0);
        let of_user = first.forward(shared, &joined, &mut arena.space())?.to_vec();
        for (sums, into) in first_layer.chunks(BLOCK * first.outputs()).zip(into.chunks_mut(BLOCK)) {
            let mut space = arena.space();
            let mut m = space.copy(sums)?;
            for row in m.chunks_exact_mut(first.outputs()) {
                row.iter_mut().zip(&of_user).for_each(|(sum, of_user)| *sum += of_user);
            }
            RELU.apply(m);
            for layer in above {
                m = layer.forward(shared, m, &mut space)?;
                RELU.apply(m);
            }
            self.add_output(shared, m, into)?;
        }
        Ok(())
    }
}

/// Items that are scored together: few enough for their activations to stay in cache.
const BLOCK: usize = 256;
