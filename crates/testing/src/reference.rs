//! The reference model: an autoencoder of interests that a GRU over the last pages joins, 66,743 parameters.
//!
//! ```text
//! h = relu(interests W + b)                473 -> 60, from a sparse row of ones
//! g = last state of a GRU over 5 pages     64 -> 20
//! c = relu([h, g] W + b)                   80 -> 30
//! d = relu(c W + b)                        30 -> 60
//! y = d W + b                              60 -> 473, mean binary cross-entropy with the interests, plain steps
//! ```
//! The speed of `sottovoce-neural` is stated for it (docs/performance.md), and it shows how a network is written.

use sottovoce_core::Rng;
use sottovoce_neural::losses::bce_with_logits_sparse;
use sottovoce_neural::{
    Activation, Arena, Arithmetic, Layout, Linear, NeuralError, Real, Recurrent, RecurrentCell, RowGradients,
    SequenceGradients, Sequences, Sgd, Space, SparseRows, StateGradients,
};

type Result<T> = std::result::Result<T, NeuralError>;

/// Categories of interests.
pub const INTERESTS: usize = 473;
/// Pages of a sequence.
pub const PAGES: usize = 5;
/// Values of a page.
pub const PAGE: usize = 64;
const HIDDEN: usize = 60;
const UNITS: usize = 20;
const JOINED: usize = HIDDEN + UNITS;
const CODE: usize = 30;
const RELU: Activation = Activation::Relu;

/// The layers.
#[derive(Clone, Debug)]
struct Layers {
    encoder: Linear,
    gru: Recurrent,
    code: Linear,
    decoder: Linear,
    output: Linear,
}

impl Layers {
    fn new(layout: &mut Layout) -> Result<Self> {
        Ok(Self {
            encoder: Linear::new(layout, "encoder", INTERESTS, HIDDEN)?,
            gru: Recurrent::new(layout, "pages", RecurrentCell::Gru, PAGE, UNITS)?,
            code: Linear::new(layout, "code", JOINED, CODE)?,
            decoder: Linear::new(layout, "decoder", CODE, HIDDEN)?,
            output: Linear::new(layout, "output", HIDDEN, INTERESTS)?,
        })
    }

    fn space(&self, batch: usize) -> usize {
        let outputs = [&self.encoder, &self.code, &self.decoder, &self.output].map(|layer| layer.space(batch));
        let joined = batch * (JOINED + PAGES * UNITS);
        // Every output has a gradient of its size; the GRU's own is in its space.
        2 * (outputs.iter().sum::<usize>() + joined) + self.gru.space(batch, PAGES)
    }
}

/// The model in training: parameters, gradients, memory of a step.
#[derive(Clone, Debug)]
pub struct Reference<R> {
    layers: Layers,
    layout: Layout,
    parameters: Vec<R>,
    gradients: Vec<R>,
    /// The gradient of the encoder's weight, of which a sample touches a few rows.
    rows: RowGradients<R>,
    arena: Arena<R>,
    sgd: Sgd<R>,
}

impl<R: Real> Reference<R> {
    /// A model for batches of up to this size, its parameters drawn from a seed.
    ///
    /// # Errors
    /// If no memory holds such a batch.
    pub fn new(arithmetic: Arithmetic, batch: usize, seed: u64) -> Result<Self> {
        let mut layout = Layout::new(arithmetic);
        let layers = Layers::new(&mut layout)?;
        let mut parameters = layout.zeros();
        layout.initialise(&mut parameters, &Rng::new(seed))?;
        Ok(Self {
            gradients: layout.zeros(),
            rows: RowGradients::new(INTERESTS, HIDDEN, INTERESTS)?,
            arena: Arena::new(layers.space(batch), 0)?,
            sgd: Sgd::new(0.1),
            layers,
            layout,
            parameters,
        })
    }

    /// Where its tensors are.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// All parameters.
    pub fn parameters(&self) -> &[R] {
        &self.parameters
    }

    /// One step on a batch: interests, and as many sequences of pages. Returns the loss before it.
    ///
    /// # Errors
    /// If lengths contradict each other, or the batch is larger than what the model was made for.
    pub fn step(&mut self, interests: &SparseRows<'_, R>, pages: &[R]) -> Result<f64> {
        let mut space = self.arena.space();
        let pass = Pass { layers: &self.layers, parameters: &self.parameters, interests, pages };
        let loss = pass.run(&mut self.rows, &mut self.gradients, &mut space)?;
        let table = self.layers.encoder.weight();
        self.sgd.step_rows(table, &mut self.parameters, &mut self.rows)?;
        let rest = table.range().end..self.parameters.len();
        self.sgd.step_part(rest, &mut self.parameters, &mut self.gradients)?;
        Ok(loss)
    }
}

/// Forward and backward of one batch.
struct Pass<'p, R> {
    layers: &'p Layers,
    parameters: &'p [R],
    interests: &'p SparseRows<'p, R>,
    pages: &'p [R],
}

impl<R: Real> Pass<'_, R> {
    fn run(&self, rows: &mut RowGradients<R>, gradients: &mut [R], space: &mut Space<'_, R>) -> Result<f64> {
        let Self { layers, parameters, interests, .. } = *self;
        let batch = interests.rows();
        let h = layers.encoder.forward_sparse(parameters, interests, space)?;
        RELU.apply(h);
        let mut scratch = space.scratch();
        let space = &mut scratch;
        let pages = Sequences::new(self.pages, batch, PAGES);
        let g = layers.gru.forward(parameters, pages, space)?;
        let joined = space.zeros(batch * JOINED)?;
        join(h, g.states(), joined);
        let c = layers.code.forward(parameters, joined, space)?;
        RELU.apply(c);
        let d = layers.decoder.forward(parameters, c, space)?;
        RELU.apply(d);
        let y = layers.output.forward(parameters, d, space)?;

        let dy = space.zeros(y.len())?;
        let loss = bce_with_logits_sparse(y, interests, 1.0 / y.len() as f64, Some(dy))?;

        let dd = space.zeros(d.len())?;
        layers.output.backward(parameters, d, dy, gradients, Some(dd))?;
        RELU.backward(d, dd)?;
        let dc = space.zeros(c.len())?;
        layers.decoder.backward(parameters, c, dd, gradients, Some(dc))?;
        RELU.backward(c, dc)?;
        let djoined = space.zeros(joined.len())?;
        layers.code.backward(parameters, joined, dc, gradients, Some(djoined))?;
        let (dh, dg) = (space.zeros(h.len())?, space.zeros(g.states().len())?);
        split(djoined, dh, dg);
        RELU.backward(h, dh)?;
        layers.encoder.backward_rows(interests, dh, rows, gradients)?;
        let dg = StateGradients { states: dg, last_cells: None };
        layers.gru.backward(parameters, &g, dg, gradients, SequenceGradients::default(), space)?;
        Ok(loss)
    }
}

/// Puts h and the last of a sequence's states beside each other.
fn join<R: Real>(h: &[R], states: &[R], joined: &mut [R]) {
    for (b, joined) in joined.chunks_exact_mut(JOINED).enumerate() {
        joined[..HIDDEN].copy_from_slice(&h[b * HIDDEN..][..HIDDEN]);
        joined[HIDDEN..].copy_from_slice(&states[((b + 1) * PAGES - 1) * UNITS..][..UNITS]);
    }
}

/// Splits the gradient of what [`join`] joined.
fn split<R: Real>(djoined: &[R], dh: &mut [R], dstates: &mut [R]) {
    for (b, djoined) in djoined.chunks_exact(JOINED).enumerate() {
        dh[b * HIDDEN..][..HIDDEN].copy_from_slice(&djoined[..HIDDEN]);
        dstates[((b + 1) * PAGES - 1) * UNITS..][..UNITS].copy_from_slice(&djoined[HIDDEN..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_the_stated_size_and_learns() {
        let mut model = Reference::<f32>::new(Arithmetic::Portable, 2, 1).unwrap();
        assert_eq!(model.layout().len(), 66_743);
        let interests = SparseRows::new(&[0, 3, 5], &[4, 90, 200, 90, 470], None, INTERESTS).unwrap();
        let pages: Vec<f32> = (0..2 * PAGES * PAGE).map(|n| (n as f32 * 0.37).sin()).collect();
        let first = model.step(&interests, &pages).unwrap();
        let last = (0..200).map(|_| model.step(&interests, &pages).unwrap()).last().unwrap();
        // The mean over 946 logits makes steps of 0.1 small.
        assert!((first - 0.69).abs() < 0.02 && last < first - 0.01, "{first} {last}");
        let larger = SparseRows::new(&[0, 1, 2, 3], &[4, 90, 200], None, INTERESTS).unwrap();
        assert!(model.step(&larger, &pages).is_err() && model.step(&interests, &pages[1..]).is_err());
    }
}
