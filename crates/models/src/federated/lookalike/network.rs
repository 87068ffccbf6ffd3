//! The network: an autoencoder of interests, joined by a recurrent network over the pages read last.

use crate::choices;
use sottovoce_core::{Pages, Rng};
use sottovoce_neural::{
    Activation, Arena, Arithmetic, BatchNorm, BatchNormTape, Dropout, LayerNorm, LayerNormTape, Layout, Linear,
    NeuralError, Real, Recurrent, RecurrentCell, RecurrentTape, SequenceGradients, Sequences, Space, SparseRows,
    StateGradients, Statistics, losses,
};
use std::ops::Range;

/// Pages that the network reads (m).
pub const PAGES: usize = 5;

choices! {
    /// What the network reads of pages.
    #[derive(Default)]
    pub enum Text {
        /// Nothing: the plain autoencoder (AE).
        Nothing => "none",
        /// Their titles (PAE with titles).
        #[default]
        Titles => "titles",
        /// The entities they mention (PAE with entities).
        Entities => "entities",
    }
}

choices! {
    /// The recurrent network over pages.
    #[derive(Default)]
    pub enum Cell {
        /// Long short-term memory.
        #[default]
        Lstm => "lstm",
        /// Gated recurrent units.
        Gru => "gru",
        /// A simple recurrent network.
        Rnn => "rnn",
    }
}

choices! {
    /// How layers are normalised.
    #[derive(Default)]
    pub enum Normalisation {
        /// By running statistics that are part of the shared model; by the batch's where there is one.
        #[default]
        Batch => "batch",
        /// Each sample by itself.
        Layer => "layer",
        /// Not at all.
        Nothing => "none",
    }
}

/// What a network is like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Length of the code.
    pub code: usize,
    /// What is read of pages.
    pub text: Text,
    /// Length of a page's vector.
    pub dim: usize,
    /// By which recurrent network.
    pub cell: Cell,
    /// Of how many units.
    pub units: usize,
    /// How layers are normalised.
    pub normalisation: Normalisation,
    /// Fraction of the last hidden layer that training drops.
    pub dropout: f64,
    /// Probability that training reads none of a person's pages.
    pub page_dropout: f64,
}

impl Shape {
    /// Width of the hidden layers: twice the code, which gives the parameter counts of the paper's autoencoders.
    pub fn hidden(&self) -> usize {
        2 * self.code
    }

    /// Length of the vectors of pages that are read; 0 if none are.
    pub fn page_values(&self) -> usize {
        if self.text == Text::Nothing { 0 } else { self.dim }
    }

    /// The pages that a training step reads: sometimes none.
    pub fn some_pages<'a>(&self, pages: Pages<'a>, rng: &mut Rng) -> Pages<'a> {
        if self.page_dropout > 0.0 && rng.chance(self.page_dropout) { Pages::default() } else { pages }
    }

    /// Writes the vectors of the last pages that are not about a category, oldest first, after zeros where there are
    /// fewer. Vectors of another length do not count.
    pub fn read_pages<R: Real>(&self, pages: Pages<'_>, without: Option<u32>, into: &mut [R]) {
        into.fill(R::ZERO);
        let dim = self.page_values();
        if dim == 0 || pages.dim() != dim {
            return;
        }
        let is_read = |categories: &[u32]| without.is_none_or(|category| !categories.contains(&category));
        let read = pages.iter().rev().filter(|(_, categories)| is_read(categories));
        for (place, (vector, _)) in into.chunks_exact_mut(dim).rev().zip(read) {
            place.iter_mut().zip(vector).for_each(|(place, &value)| *place = R::of(f64::from(value)));
        }
    }
}

/// By how much a batch moves running statistics.
const MOMENTUM: f64 = 0.05;

#[derive(Clone, Copy, Debug)]
enum Norm {
    Batch(BatchNorm),
    Layer(LayerNorm),
    Nothing,
}

enum NormTape<'a, R> {
    Batch(BatchNormTape<'a, R>),
    Layer(LayerNormTape<'a, R>),
    Nothing(&'a mut [R]),
}

impl<R> NormTape<'_, R> {
    fn output(&self) -> &[R] {
        match self {
            Self::Batch(tape) => tape.output,
            Self::Layer(tape) => tape.output,
            Self::Nothing(output) => output,
        }
    }
}

impl Norm {
    fn new(layout: &mut Layout, kind: Normalisation, name: &str, width: usize) -> Result<Self, NeuralError> {
        Ok(match kind {
            Normalisation::Batch => Self::Batch(BatchNorm::new(layout, name, width)?),
            Normalisation::Layer => Self::Layer(LayerNorm::new(layout, name, width)?),
            Normalisation::Nothing => Self::Nothing,
        })
    }

    fn space(&self, rows: usize, width: usize) -> usize {
        match self {
            Self::Batch(norm) => norm.space(rows),
            Self::Layer(norm) => norm.space(rows),
            Self::Nothing => rows * width,
        }
    }

    fn forward<'a, R: Real>(
        &self,
        parameters: &[R],
        x: &[R],
        statistics: Statistics,
        space: &mut Space<'a, R>,
    ) -> Result<NormTape<'a, R>, NeuralError> {
        Ok(match self {
            Self::Batch(norm) => NormTape::Batch(norm.forward(parameters, x, statistics, space)?),
            Self::Layer(norm) => NormTape::Layer(norm.forward(parameters, x, space)?),
            Self::Nothing => NormTape::Nothing(space.copy(x)?),
        })
    }

    fn backward<R: Real>(
        &self,
        parameters: &[R],
        tape: &NormTape<'_, R>,
        dy: &[R],
        gradients: &mut [R],
        dx: &mut [R],
        space: &mut Space<'_, R>,
    ) -> Result<(), NeuralError> {
        match (self, tape) {
            (Self::Batch(norm), NormTape::Batch(tape)) => {
                norm.backward(parameters, tape, dy, gradients, Some(dx), space)?;
                norm.add_running_gradient(parameters, tape, gradients)
            }
            (Self::Layer(norm), NormTape::Layer(tape)) => norm.backward(parameters, tape, dy, gradients, Some(dx)),
            _ => {
                dx.iter_mut().zip(dy).for_each(|(dx, &dy)| *dx += dy);
                Ok(())
            }
        }
    }

    /// Moves running statistics towards a batch's; their gradients are not the optimiser's business then.
    fn follow<R: Real>(&self, parameters: &mut [R], tape: &NormTape<'_, R>) -> Result<(), NeuralError> {
        match (self, tape) {
            (Self::Batch(norm), NormTape::Batch(tape)) => norm.update_running(parameters, tape, MOMENTUM),
            _ => Ok(()),
        }
    }
}

/// Some people's interests and pages.
#[derive(Clone, Copy)]
pub struct Inputs<'a, R> {
    /// A row of interests a person.
    pub interests: &'a SparseRows<'a, R>,
    /// [`PAGES`] vectors a person.
    pub pages: &'a [R],
}

/// What a forward pass left behind.
pub struct Pass<'a, R> {
    first: &'a mut [R],
    normed: NormTape<'a, R>,
    code: &'a mut [R],
    text: Option<RecurrentTape<'a, R>>,
    joined: NormTape<'a, R>,
    hidden: NormTape<'a, R>,
    dropped: &'a mut [R],
    mask: Option<&'a mut [R]>,
    /// Logits, a row a person.
    pub logits: &'a mut [R],
}

/// The layers.
#[derive(Clone, Debug)]
pub struct Network {
    shape: Shape,
    layout: Layout,
    first: Linear,
    second: Linear,
    code: Norm,
    text: Option<Recurrent>,
    joined: Norm,
    third: Linear,
    hidden: Norm,
    dropout: Dropout,
    output: Linear,
}

impl Network {
    /// For so many categories.
    ///
    /// # Errors
    /// If a size is 0 or too large, or the dropout is not a fraction.
    pub fn new(shape: Shape, categories: usize, arithmetic: Arithmetic) -> Result<Self, NeuralError> {
        let Shape { code: width, normalisation, .. } = shape;
        let mut layout = Layout::new(arithmetic);
        let first = Linear::new(&mut layout, "encoder.first", categories, shape.hidden())?;
        let second = Linear::new(&mut layout, "encoder.second", shape.hidden(), width)?;
        let code = Norm::new(&mut layout, normalisation, "encoder.norm", width)?;
        let cell = match shape.cell {
            Cell::Lstm => RecurrentCell::Lstm,
            Cell::Gru => RecurrentCell::Gru,
            Cell::Rnn => RecurrentCell::Rnn,
        };
        let units = if shape.text == Text::Nothing { 0 } else { shape.units };
        let text = (units > 0).then(|| Recurrent::new(&mut layout, "embedder", cell, shape.dim, units)).transpose()?;
        let joined = Norm::new(&mut layout, normalisation, "decoder.first_norm", width + units)?;
        let third = Linear::new(&mut layout, "decoder.first", width + units, shape.hidden())?;
        let hidden = Norm::new(&mut layout, normalisation, "decoder.second_norm", shape.hidden())?;
        let dropout = Dropout::new(shape.dropout)?;
        let output = Linear::new(&mut layout, "decoder.second", shape.hidden(), categories)?;
        Ok(Self { shape, layout, first, second, code, text, joined, third, hidden, dropout, output })
    }

    /// What it is like.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Where its parameters are: the first layer's weights first, the last layer's last.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Number of categories.
    pub fn categories(&self) -> usize {
        self.first.inputs()
    }

    /// The parameters between the first layer's weights and the last layer.
    pub fn middle(&self) -> Range<usize> {
        self.first.weight().range().end..self.output.weight().range().start
    }

    /// Memory for a pass over so many people and the way back.
    ///
    /// # Errors
    /// If memory has no room for it.
    pub fn arena<R: Real>(&self, rows: usize) -> Result<Arena<R>, NeuralError> {
        let (hidden, code) = (self.shape.hidden(), self.shape.code);
        let joined = self.third.inputs();
        let norms = self.code.space(rows, code) + self.joined.space(rows, joined) + self.hidden.space(rows, hidden);
        let text = self.text.map_or(0, |text| text.space(rows, PAGES) + rows * PAGES * self.shape.units);
        let forward = rows * (4 * hidden + 2 * code + joined + self.categories());
        let backward = rows * (self.categories() + 2 * hidden + 2 * joined + 2 * code + hidden);
        Arena::new(norms + text + forward + backward + 8 * (joined + hidden), 0)
    }

    /// Logits of all categories; drops values only where there is randomness for it.
    ///
    /// # Errors
    /// If lengths contradict each other or the arena is too small.
    pub fn forward<'a, R: Real>(
        &self,
        parameters: &[R],
        inputs: Inputs<'a, R>,
        statistics: Statistics,
        rng: Option<&mut Rng>,
        space: &mut Space<'a, R>,
    ) -> Result<Pass<'a, R>, NeuralError> {
        let rows = inputs.interests.rows();
        let first = self.first.forward_sparse(parameters, inputs.interests, space)?;
        Activation::Relu.apply(first);
        // Norms come before activations: a unit that few people activate has hardly any variance after one.
        let second = self.second.forward(parameters, first, space)?;
        let normed = self.code.forward(parameters, second, statistics, space)?;
        let code = space.copy(normed.output())?;
        Activation::Relu.apply(code);
        let text = match &self.text {
            Some(text) => Some(text.forward(parameters, Sequences::new(inputs.pages, rows, PAGES), space)?),
            None => None,
        };
        let joined = space.zeros(rows * self.third.inputs())?;
        let width = self.shape.code;
        for (row, joined) in joined.chunks_exact_mut(self.third.inputs()).enumerate() {
            joined[..width].copy_from_slice(&code[row * width..][..width]);
            if let Some(text) = &text {
                joined[width..].copy_from_slice(text.last(row));
            }
        }
        let joined = self.joined.forward(parameters, joined, statistics, space)?;
        let third = self.third.forward(parameters, joined.output(), space)?;
        let hidden = self.hidden.forward(parameters, third, statistics, space)?;
        let dropped = space.copy(hidden.output())?;
        Activation::Relu.apply(dropped);
        let mask = match rng {
            Some(rng) if self.shape.dropout > 0.0 => Some(self.dropout.forward(dropped, rng, space)?),
            _ => None,
        };
        let logits = self.output.forward(parameters, dropped, space)?;
        Ok(Pass { first, normed, code, text, joined, hidden, dropped, mask, logits })
    }

    /// Adds the gradients of a loss, given that of the logits.
    ///
    /// # Errors
    /// If lengths contradict each other or the arena is too small.
    pub fn backward<'a, R: Real>(
        &self,
        parameters: &[R],
        inputs: Inputs<'_, R>,
        pass: &Pass<'_, R>,
        dlogits: &[R],
        gradients: &mut [R],
        space: &mut Space<'a, R>,
    ) -> Result<(), NeuralError> {
        let rows = inputs.interests.rows();
        let dropped = space.zeros(pass.dropped.len())?;
        self.output.backward(parameters, pass.dropped, dlogits, gradients, Some(&mut *dropped))?;
        if let Some(mask) = &pass.mask {
            self.dropout.backward(mask, dropped)?;
        }
        Activation::Relu.backward(pass.dropped, dropped)?;
        let third = space.zeros(dropped.len())?;
        self.hidden.backward(parameters, &pass.hidden, dropped, gradients, third, space)?;
        let normed = space.zeros(pass.joined.output().len())?;
        self.third.backward(parameters, pass.joined.output(), third, gradients, Some(&mut *normed))?;
        let joined = space.zeros(normed.len())?;
        self.joined.backward(parameters, &pass.joined, normed, gradients, joined, space)?;
        let (width, both, units) = (self.shape.code, self.third.inputs(), self.third.inputs() - self.shape.code);
        let code = space.zeros(rows * width)?;
        let states = space.zeros(rows * PAGES * units)?;
        for (row, joined) in joined.chunks_exact(both).enumerate() {
            code[row * width..][..width].copy_from_slice(&joined[..width]);
            let end = (row + 1) * PAGES * units;
            states[end - units..end].copy_from_slice(&joined[width..]);
        }
        if let (Some(text), Some(tape)) = (&self.text, &pass.text) {
            let dy = StateGradients { states, last_cells: None };
            text.backward(parameters, tape, dy, gradients, SequenceGradients::default(), space)?;
        }
        Activation::Relu.backward(pass.code, code)?;
        let second = space.zeros(code.len())?;
        self.code.backward(parameters, &pass.normed, code, gradients, second, space)?;
        let first = space.zeros(pass.first.len())?;
        self.second.backward(parameters, pass.first, second, gradients, Some(&mut *first))?;
        Activation::Relu.backward(pass.first, first)?;
        self.first.backward_sparse(inputs.interests, first, gradients)
    }

    /// Moves running statistics towards what a pass over a batch saw, and clears the gradients that stand for them.
    ///
    /// # Errors
    /// If a buffer is not this network's.
    pub fn follow<R: Real>(
        &self,
        parameters: &mut [R],
        pass: &Pass<'_, R>,
        gradients: &mut [R],
    ) -> Result<(), NeuralError> {
        for (norm, tape) in [(&self.code, &pass.normed), (&self.joined, &pass.joined), (&self.hidden, &pass.hidden)] {
            norm.follow(parameters, tape)?;
        }
        for tensor in self.layout.tensors().iter().filter(|tensor| tensor.role == sottovoce_neural::Role::Statistic) {
            tensor.slot.of_mut(gradients)?.fill(R::ZERO);
        }
        Ok(())
    }

    /// The binary cross-entropy between logits and full interests, a mean over categories and people; writes the
    /// gradient of the logits.
    ///
    /// # Errors
    /// If lengths contradict each other.
    pub fn loss<R: Real>(
        &self,
        logits: &[R],
        targets: &SparseRows<'_, R>,
        dlogits: Option<&mut [R]>,
    ) -> Result<f64, NeuralError> {
        losses::bce_with_logits_sparse(logits, targets, 1.0 / logits.len().max(1) as f64, dlogits)
    }

    /// Probabilities that a person is interested in each category, calibrated.
    ///
    /// # Errors
    /// If lengths contradict each other or the arena is too small.
    pub fn predict(
        &self,
        parameters: &[f32],
        interests: &[u32],
        pages: Pages<'_>,
        arena: &mut Arena<f32>,
        into: &mut [f32],
    ) -> Result<(), NeuralError> {
        let mut vectors = vec![0.0; PAGES * self.shape.page_values()];
        self.shape.read_pages(pages, None, &mut vectors);
        self.predict_vectors(parameters, interests, &vectors, arena, into)
    }

    /// The same with the pages as [`Shape::read_pages`] writes them.
    ///
    /// # Errors
    /// If lengths contradict each other or the arena is too small.
    pub fn predict_vectors(
        &self,
        parameters: &[f32],
        interests: &[u32],
        pages: &[f32],
        arena: &mut Arena<f32>,
        into: &mut [f32],
    ) -> Result<(), NeuralError> {
        let interests = SparseRows::one(interests, None, self.categories())?;
        let inputs = Inputs { interests: &interests, pages };
        let pass = self.forward(parameters, inputs, Statistics::Running, None, &mut arena.space())?;
        Activation::Sigmoid.apply(pass.logits);
        into.iter_mut().zip(&*pass.logits).for_each(|(into, &probability)| *into = calibrated(probability));
        Ok(())
    }
}

/// The slope of [`calibrated`].
const SLOPE: f32 = -2.5;

/// Stretches probabilities, which the network gives low values to, by the arc of the circle through (0, 0) and (1, 1)
/// that maps 0.3 to 0.6. The order stays.
pub fn calibrated(x: f32) -> f32 {
    let b = SLOPE + 2.0;
    let x = x.clamp(0.0, 1.0);
    ((b + (b * b - 4.0 * (x * x + SLOPE * x)).max(0.0).sqrt()) / 2.0).clamp(0.0, 1.0)
}

/// The probability that [`calibrated`] gives this score.
pub fn uncalibrated(y: f32) -> f32 {
    let y = y.clamp(0.0, 1.0);
    let rest = SLOPE * SLOPE - 4.0 * (y * y - (SLOPE + 2.0) * y);
    ((-SLOPE - rest.max(0.0).sqrt()) / 2.0).clamp(0.0, 1.0)
}
