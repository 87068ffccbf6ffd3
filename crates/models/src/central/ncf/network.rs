//! All parameters, and their gradients for a micro-batch.

use super::Ncf;
use super::embeddings::{Embeddings, LookedUp, Widths};
use super::product::{Gradients, Vectors, add_gradients, add_logits, add_weight_decay};
use super::tower::{self, Tower};
use sottovoce_core::Rng;
use sottovoce_neural::losses::bce_with_logits;
use sottovoce_neural::products::{Matrix, MatrixMut, add_product_by_transposed};
use sottovoce_neural::{Arithmetic, Init, Layout, NeuralError, Role, Slot, Space};
use std::sync::OnceLock;

/// The vectors of users and of items, and the shared parameters.
pub(super) struct Network {
    pub(super) users: Embeddings,
    pub(super) items: Embeddings,
    pub(super) layout: Layout,
    /// Output vector, bias and tower.
    pub(super) shared: Vec<f32>,
    output: Slot,
    bias: Slot,
    tower: Option<Tower>,
    /// The tower's first layer applied to each item, computed when first scored after a change.
    first_layer: OnceLock<Result<Vec<f32>, NeuralError>>,
}

/// Samples of a part of a batch: each interaction's positive first, then its negatives.
#[derive(Default)]
pub(super) struct MicroBatch {
    pub(super) users: LookedUp,
    pub(super) items: LookedUp,
    pub(super) targets: Vec<f32>,
}

/// The objective of a batch.
#[derive(Clone, Copy)]
pub(super) struct Objective {
    /// Weight of a sample: 1 / samples of the batch.
    pub(super) scale: f64,
    pub(super) regularisation: f64,
}

impl Network {
    pub(super) fn new(model: &Ncf, users: usize, items: usize, rng: &Rng) -> Result<Self, NeuralError> {
        let Ncf { factors, layers, .. } = *model;
        let tower_width = layers.map(|layers| tower::width(factors, layers));
        let widths = Widths { product: factors, tower: tower_width };
        let deviation = model.training.init_deviation;
        let embeddings = |name, rows| Embeddings::new(name, rows, widths, deviation, rng);
        let (users, items) = (embeddings("users", users)?, embeddings("items", items)?);
        let mut layout = Layout::new(Arithmetic::Machine);
        // h starts as ones: plain matrix factorisation.
        let output = layout.add("output".to_owned(), &[factors], Role::Weight, Init::ONES)?;
        let bias = layout.add("bias".to_owned(), &[1], Role::Bias, Init::ZEROS)?;
        let tower = layers.map(|layers| Tower::new(&mut layout, factors, layers)).transpose()?;
        let mut shared = layout.zeros();
        layout.initialise(&mut shared, rng)?;
        Ok(Self { users, items, layout, shared, output, bias, tower, first_layer: OnceLock::new() })
    }

    /// Must be called when parameters have changed.
    pub(super) fn changed(&mut self) {
        self.first_layer.take();
    }

    /// All parameters, with their layouts.
    pub(super) fn buffers(&self) -> [(&Layout, &[f32]); 3] {
        [
            (&self.users.layout, &self.users.parameters),
            (&self.items.layout, &self.items.parameters),
            (&self.layout, &self.shared),
        ]
    }

    /// The same, mutable.
    pub(super) fn buffers_mut(&mut self) -> [(&Layout, &mut [f32]); 3] {
        [
            (&self.users.layout, &mut self.users.parameters),
            (&self.items.layout, &mut self.items.parameters),
            (&self.layout, &mut self.shared),
        ]
    }

    /// Whether no parameter is infinite or not a number.
    pub(super) fn is_finite(&self) -> bool {
        self.buffers().iter().all(|(_, values)| values.iter().all(|value| value.is_finite()))
    }

    /// Length of the product's vectors.
    pub(super) fn factors(&self) -> usize {
        self.output.range().len()
    }

    /// Size of the arena for a pass over so many users and samples.
    pub(super) fn space(&self, users: usize, samples: usize) -> usize {
        let tower = self.tower.as_ref().map_or(0, |tower| tower.space(samples));
        self.users.space(users) + self.items.space(samples) + 2 * samples + tower
    }

    /// Loss and gradients of a micro-batch: those of vectors are left in `samples`, those of shared parameters are
    /// added to `gradients`.
    pub(super) fn backpropagate(
        &self,
        samples: &mut MicroBatch,
        objective: Objective,
        gradients: &mut [f32],
        space: &mut Space<'_, f32>,
    ) -> Result<f64, NeuralError> {
        let [p, tower_p] = self.users.look_up(&samples.users.indices, space)?;
        let [q, tower_q] = self.items.look_up(&samples.items.indices, space)?;
        samples
            .users
            .init_gradients([p, tower_p], objective.decay(samples.targets.len() / samples.users.indices.len()));
        samples.items.init_gradients([q, tower_q], objective.decay(1));

        let vectors = Vectors { h: self.output.of(&self.shared)?, p, q };
        let x = space.zeros(samples.targets.len())?;
        x.fill(self.bias.of(&self.shared)?[0]);
        add_logits(vectors, x);
        let tower = self.tower.as_ref();
        let tape = match tower {
            Some(tower) => Some((tower, tower.forward(&self.shared, tower_p, tower_q, x, space)?)),
            None => None,
        };
        let dx = space.zeros(x.len())?;
        let loss = bce_with_logits(x, &samples.targets, objective.scale, Some(dx))?;

        let of_product = Gradients {
            h: self.output.of_mut(gradients)?,
            p: &mut samples.users.product,
            q: &mut samples.items.product,
        };
        add_gradients(vectors, dx, of_product);
        self.bias.of_mut(gradients)?[0] += dx.iter().sum::<f32>();
        if let Some((tower, tape)) = tape {
            let of_vectors = [&mut *samples.users.tower, &mut *samples.items.tower];
            tower.backward(&self.shared, &tape, dx, gradients, of_vectors, space)?;
        }
        Ok(loss)
    }

    /// Adds the gradient of the output vectors' regularisation. Layers are not regularised: a tower that decays as a
    /// whole ends in denormal numbers, which are slow.
    pub(super) fn add_output_decay(&self, regularisation: f64, gradients: &mut [f32]) -> Result<(), NeuralError> {
        for slot in [Some(self.output), self.tower.as_ref().map(|tower| tower.output)].into_iter().flatten() {
            add_weight_decay(regularisation as f32, slot.of(&self.shared)?, slot.of_mut(gradients)?);
        }
        Ok(())
    }

    /// A user's vector p in the product, and h * q of all items: scores are <p, h * q> and, with a tower, its part.
    pub(super) fn product(&self, user: usize) -> Option<(&[f32], Vec<f32>)> {
        let output = self.output.of(&self.shared).ok()?;
        let p = &self.users.product_table()[user * output.len()..][..output.len()];
        let rows = self.items.product_table().chunks_exact(output.len());
        Some((p, rows.flat_map(|q| q.iter().zip(output).map(|(q, h)| q * h)).collect()))
    }

    /// Logits of all items for one user.
    pub(super) fn score(&self, user: usize, into: &mut [f32]) -> Result<(), NeuralError> {
        let output = self.output.of(&self.shared)?;
        let factors = output.len();
        let p = &self.users.product_table()[user * factors..][..factors];
        let weights: Vec<f32> = p.iter().zip(output).map(|(p, h)| p * h).collect();
        into.fill(self.bias.of(&self.shared)?[0]);
        let (w, q) = (Matrix::new(&weights, factors)?, Matrix::new(self.items.product_table(), factors)?);
        let items = into.len();
        add_product_by_transposed(Arithmetic::Portable, w, q, MatrixMut::new(into, items)?)?;
        let Some((tower, table)) = self.tower.as_ref().zip(self.users.tower_table()) else { return Ok(()) };
        let first_layer = self.first_layer.get_or_init(|| tower.first_layer(&self.shared, &self.items));
        let first_layer = first_layer.as_ref().map_err(Clone::clone)?;
        let width = table.len() * factors / self.users.product_table().len();
        tower.add_scores(&self.shared, &table[user * width..][..width], first_layer, into)
    }
}

impl Objective {
    /// The weight decay of a vector that stands for so many samples.
    fn decay(&self, samples: usize) -> f32 {
        (self.scale * self.regularisation * samples as f64) as f32
    }
}

impl LookedUp {
    /// Gradients start as those of the regularisation.
    fn init_gradients(&mut self, [product, tower]: [&[f32]; 2], decay: f32) {
        for (gradients, values) in [(&mut self.product, product), (&mut self.tower, tower)] {
            gradients.clear();
            gradients.resize(values.len(), 0.0);
            add_weight_decay(decay, values, gradients);
        }
    }
}
