//! Everything that is learnt, and what one part of a batch says about it.

use super::Plan;
use super::product::{Slopes, Vectors, add_decay, add_logits, add_slopes};
use super::side::{Side, Touched, Widths};
use super::tower::{self, Tower};
use sottovoce_core::Rng;
use sottovoce_neural::losses::bce_with_logits;
use sottovoce_neural::products::{Matrix, MatrixMut, add_product_by_transposed};
use sottovoce_neural::{Arithmetic, Init, Layout, NeuralError, Role, Slot, Space};
use std::sync::OnceLock;

/// The vectors of users and of items, and what all of them share.
pub(super) struct Network {
    pub(super) users: Side,
    pub(super) items: Side,
    pub(super) layout: Layout,
    /// Output vector, bias and tower.
    pub(super) shared: Vec<f32>,
    output: Slot,
    bias: Slot,
    tower: Option<Tower>,
    /// What the tower's first layer makes of each item, made when first scored after a change.
    of_items: OnceLock<Result<Vec<f32>, NeuralError>>,
}

/// Samples of a part of a batch: each user's positive first, then their negatives.
#[derive(Default)]
pub(super) struct Part {
    pub(super) users: Touched,
    pub(super) items: Touched,
    pub(super) targets: Vec<f32>,
}

/// What a part's gradients are scaled with.
#[derive(Clone, Copy)]
pub(super) struct Weights {
    /// 1 / samples of the batch.
    pub(super) share: f64,
    pub(super) regularisation: f64,
}

impl Network {
    pub(super) fn new(plan: &Plan, users: usize, items: usize, rng: &Rng) -> Result<Self, NeuralError> {
        let tower_width = plan.layers.map(|layers| tower::width(plan.factors, layers));
        let widths = Widths { product: plan.factors, tower: tower_width };
        let side = |name, rows| Side::new(name, rows, widths, plan.init_deviation, rng);
        let (users, items) = (side("users", users)?, side("items", items)?);
        let mut layout = Layout::new(Arithmetic::Machine);
        // h starts as ones: as plain matrix factorisation.
        let output = layout.add("output".to_owned(), &[plan.factors], Role::Weight, Init::ONES)?;
        let bias = layout.add("bias".to_owned(), &[1], Role::Bias, Init::ZEROS)?;
        let tower = plan.layers.map(|layers| Tower::new(&mut layout, plan.factors, layers)).transpose()?;
        let mut shared = layout.zeros();
        layout.initialise(&mut shared, rng)?;
        Ok(Self { users, items, layout, shared, output, bias, tower, of_items: OnceLock::new() })
    }

    /// To be called when parameters have changed.
    pub(super) fn changed(&mut self) {
        self.of_items.take();
    }

    /// All parameters, with where their tensors are.
    pub(super) fn buffers(&self) -> [(&Layout, &[f32]); 3] {
        [
            (&self.users.layout, &self.users.parameters),
            (&self.items.layout, &self.items.parameters),
            (&self.layout, &self.shared),
        ]
    }

    /// The same, to be changed.
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

    /// Values that a pass of so many users and samples takes.
    pub(super) fn space(&self, users: usize, samples: usize) -> usize {
        let tower = self.tower.as_ref().map_or(0, |tower| tower.space(samples));
        self.users.space(users) + self.items.space(samples) + 2 * samples + tower
    }

    /// Loss and gradients of a part: those of vectors are left in the part, those of the rest are added.
    pub(super) fn learn(
        &self,
        part: &mut Part,
        weights: Weights,
        gradients: &mut [f32],
        space: &mut Space<'_, f32>,
    ) -> Result<f64, NeuralError> {
        let [p, tower_p] = self.users.look_up(&part.users.indices, space)?;
        let [q, tower_q] = self.items.look_up(&part.items.indices, space)?;
        part.users.begin([p, tower_p], weights.decay(part.targets.len() / part.users.indices.len()));
        part.items.begin([q, tower_q], weights.decay(1));

        let vectors = Vectors { h: self.output.of(&self.shared)?, p, q };
        let x = space.zeros(part.targets.len())?;
        x.fill(self.bias.of(&self.shared)?[0]);
        add_logits(vectors, x);
        let tower = self.tower.as_ref();
        let tape = match tower {
            Some(tower) => Some((tower, tower.forward(&self.shared, tower_p, tower_q, x, space)?)),
            None => None,
        };
        let dx = space.zeros(x.len())?;
        let loss = bce_with_logits(x, &part.targets, weights.share, Some(dx))?;

        let slopes = Slopes {
            h: self.output.of_mut(gradients)?,
            p: &mut part.users.product,
            q: &mut part.items.product,
        };
        add_slopes(vectors, dx, slopes);
        self.bias.of_mut(gradients)?[0] += dx.iter().sum::<f32>();
        if let Some((tower, tape)) = tape {
            let of_vectors = [&mut *part.users.tower, &mut *part.items.tower];
            tower.backward(&self.shared, &tape, dx, gradients, of_vectors, space)?;
        }
        Ok(loss)
    }

    /// Adds the pull to zero of the output vectors. Not of the layers: a tower that is pulled to zero as a whole would
    /// end in numbers too small for a processor's fast path.
    pub(super) fn add_output_decay(&self, rate: f64, gradients: &mut [f32]) -> Result<(), NeuralError> {
        for slot in [Some(self.output), self.tower.as_ref().map(Tower::output)].into_iter().flatten() {
            add_decay(rate as f32, slot.of(&self.shared)?, slot.of_mut(gradients)?);
        }
        Ok(())
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
        let of_items = self.of_items.get_or_init(|| tower.of_items(&self.shared, &self.items));
        let of_items = of_items.as_ref().map_err(Clone::clone)?;
        let width = table.len() * factors / self.users.product_table().len();
        tower.add_scores(&self.shared, &table[user * width..][..width], of_items, into)
    }
}

impl Weights {
    /// The pull to zero of a vector that stands for so many samples.
    fn decay(&self, samples: usize) -> f32 {
        (self.share * self.regularisation * samples as f64) as f32
    }
}

impl Touched {
    /// Gradients start as the pull to zero.
    fn begin(&mut self, [product, tower]: [&[f32]; 2], decay: f32) {
        for (slopes, values) in [(&mut self.product, product), (&mut self.tower, tower)] {
            slopes.clear();
            slopes.resize(values.len(), 0.0);
            add_decay(decay, values, slopes);
        }
    }
}
