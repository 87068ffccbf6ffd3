//! AutoInt: self-attention among the fields of a sample: who, after what, and what.
//!
//! W. Song, C. Shi, Z. Xiao, Z. Duan, Y. Xu, M. Zhang, J. Tang: AutoInt: Automatic Feature Interaction Learning via
//! Self-Attentive Neural Networks, CIKM 2019.
//!
//! The fields of a sample are the user, the latest item, the item that is scored, and its attributes, each a vector
//! (the attributes' mean; zeros where there are none):
//! ```text
//! y_0 = the four vectors        y_l = relu(attention_l(y_(l-1)) + y_(l-1) W_l)        score = [y_L] . w + b
//! loss of a sample = binary cross-entropy: 1 for the item that came next, 0 for negatives
//! ```
//! Attention is scaled and has a layer behind its heads, as elsewhere in this crate. The model scores one item at a
//! time, so that ranking a large catalog takes long. A newcomer has the zero vector as user.

use super::attributes::Attributes;
use super::training::{MicroBatch, Worker};
use super::{Layouts, Made, SequenceConfig, SequenceModel, SequenceTraining, Size, Table, Weights, latest};
use crate::config;
use crate::registry::ModelInfo;
use crate::sequential::{MAX_LAYERS, add, transformer::INIT};
use sottovoce_core::{Rng, math};
use sottovoce_neural::losses::bce_with_logits;
use sottovoce_neural::{
    Activation, Arena, Attention, AttentionGradients, AttentionOutputGradients, AttentionTape, Init, Layout, Linear,
    Mask, NeuralError, Role, Slot, Space,
};
use std::sync::Arc;

config! {
    /// Settings of AutoInt.
    pub(super) struct AutoIntConfig {
        /// Length of vectors; a multiple of heads
        hidden: usize = 32, in 1..=1024 => [log];
        /// Layers of interaction
        layers: usize = 2, in 1..=4;
        /// Heads of attention
        heads: usize = 2, in 1..=16;
        /// Negatives of each position
        negatives: usize = 4, in 1..=100;
        include
        /// How it is trained.
        training: SequenceTraining = SequenceTraining { epochs: 30, ..SequenceTraining::default() };
    }
}

impl SequenceConfig for AutoIntConfig {
    const INFO: ModelInfo = ModelInfo::new("autoint", "AutoInt")
        .summary("Self-attention among user, latest item, item and its attributes")
        .paper("Song et al.: AutoInt: Automatic Feature Interaction Learning via Self-Attention. CIKM 2019");
    const NEEDS_ATTRIBUTES: bool = true;

    fn training(&self) -> &SequenceTraining {
        &self.training
    }

    fn network(&self, size: &Size, layouts: &mut Layouts) -> Made {
        Ok(Box::new(AutoInt::new(self, size, layouts)?))
    }
}

const FIELDS: usize = 4;

/// Items that are scored together.
const SCORED: usize = 256;

struct AutoInt {
    config: AutoIntConfig,
    attributes: Arc<Attributes>,
    vectors: Slot,
    layers: Vec<(Attention, Linear)>,
    output: Linear,
}

/// What backward needs of forward.
struct Tape<'a> {
    layers: [Option<AttentionTape<'a, f32>>; MAX_LAYERS],
    /// Inputs of the layers, and the output of the last.
    values: [&'a [f32]; MAX_LAYERS + 1],
    logits: &'a mut [f32],
}

/// A sample: user (none for newcomers), latest item, scored item.
type Sample = (Option<u32>, u32, u32);

impl AutoInt {
    fn new(config: &AutoIntConfig, size: &Size, layouts: &mut Layouts) -> Result<Self, NeuralError> {
        let width = config.hidden;
        for (name, rows) in [("items", size.items), ("users", size.users.max(1))] {
            layouts.tables.push(Table { name, rows, width, init: INIT });
        }
        let attributes = size.attributes.clone().unwrap_or_default();
        let layout = &mut layouts.network;
        let layer = |layout: &mut Layout, n: usize| {
            let attention = Attention::new(layout, &format!("attention{n}"), width, config.heads, Mask::None)?;
            let residual = Linear::without_bias(layout, &format!("residual{n}"), width, width, Init::fan_in(width))?;
            Ok((attention, residual))
        };
        let rows = [attributes.count().max(1), width];
        Ok(Self {
            vectors: layout.add("attributes".to_owned(), &rows, Role::Weight, INIT)?,
            layers: (0..config.layers).map(|n| layer(layout, n)).collect::<Result<_, NeuralError>>()?,
            output: Linear::new(layout, "output", FIELDS * width, 1)?,
            attributes,
            config: config.clone(),
        })
    }

    /// Writes the vectors of a sample's fields.
    fn fields(&self, weights: &Weights, (user, before, item): Sample, into: &mut [f32]) -> Result<(), NeuralError> {
        let width = self.config.hidden;
        let row = |table: usize, row: u32| &weights.tables[table][row as usize * width..][..width];
        let vectors = self.vectors.of(&weights.network)?;
        into.fill(0.0);
        if let Some(user) = user {
            into[..width].copy_from_slice(row(1, user));
        }
        into[width..2 * width].copy_from_slice(row(0, before));
        into[2 * width..3 * width].copy_from_slice(row(0, item));
        let attributes = self.attributes.of(item);
        for &attribute in attributes {
            let vector = &vectors[attribute as usize * width..][..width];
            math::add_scaled(&mut into[3 * width..], 1.0 / attributes.len() as f32, vector);
        }
        Ok(())
    }

    fn forward<'a>(&self, p: &[f32], x: &'a [f32], space: &mut Space<'a, f32>) -> Result<Tape<'a>, NeuralError> {
        let samples = x.len() / (FIELDS * self.config.hidden);
        let mut layers: [Option<AttentionTape<'a, f32>>; MAX_LAYERS] = Default::default();
        let mut values: [&'a [f32]; MAX_LAYERS + 1] = [&[]; MAX_LAYERS + 1];
        values[0] = x;
        for (n, (attention, residual)) in self.layers.iter().enumerate() {
            let tape = attention.forward(p, values[n], values[n], samples, space)?;
            let y = residual.forward(p, values[n], space)?;
            add(y, tape.output);
            Activation::Relu.apply(y);
            values[n + 1] = y;
            layers[n] = Some(tape);
        }
        let logits = self.output.forward(p, values[self.layers.len()], space)?;
        Ok(Tape { layers, values, logits })
    }

    /// Adds all gradients; returns those of the fields.
    fn backward<'a>(
        &self,
        p: &[f32],
        tape: &Tape<'_>,
        dlogits: &[f32],
        gradients: &mut [f32],
        space: &mut Space<'a, f32>,
    ) -> Result<&'a mut [f32], NeuralError> {
        let last = tape.values[self.layers.len()];
        let (mut d, mut below) = (space.zeros(last.len())?, space.zeros(last.len())?);
        self.output.backward(p, last, dlogits, gradients, Some(&mut *d))?;
        for (n, (attention, residual)) in self.layers.iter().enumerate().rev() {
            let Some(of_layer) = &tape.layers[n] else { continue };
            Activation::Relu.backward(tape.values[n + 1], d)?;
            below.fill(0.0);
            residual.backward(p, tape.values[n], d, gradients, Some(&mut *below))?;
            let mut space = space.scratch();
            let dsource = space.zeros(below.len())?;
            let into = AttentionGradients { queries: Some(&mut *below), source: Some(&mut *dsource) };
            let dy = AttentionOutputGradients { output: d, weights: None };
            attention.backward(p, of_layer, dy, gradients, into, &mut space)?;
            add(below, dsource);
            std::mem::swap(&mut d, &mut below);
        }
        Ok(d)
    }

    /// Values that samples take from the arena.
    fn space_of(&self, samples: usize) -> usize {
        let values = samples.saturating_mul(FIELDS * self.config.hidden);
        let layers = self.layers.iter().map(|(attention, _)| attention.space(samples, FIELDS, FIELDS) + values);
        layers.sum::<usize>().saturating_add(4 * values + 3 * samples)
    }

    /// Adds the gradient of a sample's fields to those of the tables.
    fn scatter(&self, (user, before, item): Sample, d: &[f32], worker: &mut Worker) -> Result<(), NeuralError> {
        let width = self.config.hidden;
        if let Some(user) = user {
            worker.tables[1].add(user as usize, 1.0, &d[..width])?;
        }
        worker.tables[0].add(before as usize, 1.0, &d[width..2 * width])?;
        worker.tables[0].add(item as usize, 1.0, &d[2 * width..3 * width])?;
        let attributes = self.attributes.of(item);
        let vectors = self.vectors.of_mut(&mut worker.gradients)?;
        for &attribute in attributes {
            let vector = &mut vectors[attribute as usize * width..][..width];
            math::add_scaled(vector, 1.0 / attributes.len() as f32, &d[3 * width..]);
        }
        Ok(())
    }
}

impl SequenceModel for AutoInt {
    fn samples(&self, history: &[u32]) -> usize {
        (1 + self.config.negatives) * history.len().saturating_sub(1).min(self.config.training.max_length)
    }

    fn space(&self, users: usize) -> usize {
        let samples = users.saturating_mul(self.config.training.max_length).saturating_mul(1 + self.config.negatives);
        self.space_of(samples)
    }

    fn backpropagate(
        &self,
        weights: &Weights,
        batch: &MicroBatch<'_>,
        worker: &mut Worker,
        rng: &mut Rng,
    ) -> Result<f64, NeuralError> {
        let mut samples: Vec<Sample> = Vec::new();
        let mut targets = Vec::new();
        for &user in batch.users {
            let items = latest(batch.histories.of(user as usize), self.config.training.max_length + 1);
            for pair in items.windows(2) {
                worker.scratch.clear();
                batch.draw_negatives(user, self.config.negatives, &mut worker.scratch.negatives, rng);
                let negatives = worker.scratch.negatives.iter().copied();
                samples.extend(std::iter::once(pair[1]).chain(negatives).map(|item| (Some(user), pair[0], item)));
                targets.extend((0..=self.config.negatives).map(|n| if n == 0 { 1.0 } else { 0.0 }));
            }
        }
        let wide = FIELDS * self.config.hidden;
        // Taken out, so that gradients can be added to the worker while its arena is in use.
        let mut arena = std::mem::replace(&mut worker.arena, Arena::new(0, 0)?);
        let mut space = arena.space();
        let x = space.zeros(samples.len() * wide)?;
        for (x, &sample) in x.chunks_exact_mut(wide).zip(&samples) {
            self.fields(weights, sample, x)?;
        }
        let tape = self.forward(&weights.network, x, &mut space)?;
        let dlogits = space.zeros(samples.len())?;
        let loss = bce_with_logits(tape.logits, &targets, batch.scale, Some(&mut *dlogits))?;
        let d = self.backward(&weights.network, &tape, dlogits, &mut worker.gradients, &mut space)?;
        for (d, &sample) in d.chunks_exact(wide).zip(&samples) {
            self.scatter(sample, d, worker)?;
        }
        worker.arena = arena;
        Ok(loss)
    }

    fn score(
        &self,
        weights: &Weights,
        user: Option<usize>,
        history: &[u32],
        into: &mut [f32],
    ) -> Result<(), NeuralError> {
        let Some(&before) = history.last() else { return Ok(()) };
        let wide = FIELDS * self.config.hidden;
        let mut arena = Arena::new(self.space_of(into.len().min(SCORED)), 0)?;
        for (block, scores) in into.chunks_mut(SCORED).enumerate() {
            let mut space = arena.space();
            let x = space.zeros(scores.len() * wide)?;
            for (n, x) in x.chunks_exact_mut(wide).enumerate() {
                let item = (block * SCORED + n) as u32;
                self.fields(weights, (user.map(|user| user as u32), before, item), x)?;
            }
            scores.copy_from_slice(self.forward(&weights.network, x, &mut space)?.logits);
        }
        Ok(())
    }
}
