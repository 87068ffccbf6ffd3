//! FDSA: self-attention over items beside self-attention over their attributes.
//!
//! T. Zhang, P. Zhao, Y. Liu, V. Sheng, J. Xu, D. Wang, G. Liu, X. Zhou: Feature-level Deeper Self-Attention Network
//! for Sequential Recommendation, IJCAI 2019.
//!
//! An item's attributes are pooled by attention, with vectors a_k and one vector w for all:
//! ```text
//! g_i = sum of c_k a_k over the attributes of i,  c = softmax of (a_k . w)
//! h_t = [network(E[i_1], ..., E[i_t]), network'(g_(i_1), ..., g_(i_t))] W + b        score of an item j = h_t . E[j]
//! ```
//! Both networks are SASRec's. An item without attributes has the zero vector as g.

use super::attributes::Attributes;
use super::next_item::{fill_with_next, look_up};
use super::objective::{Into, Objective, Positions};
use super::training::{MicroBatch, Worker};
use super::{
    Layouts, Made, SelfAttention, SequenceConfig, SequenceModel, SequenceTraining, Size, Table, Weights, add_scores,
};
use crate::config;
use crate::registry::ModelInfo;
use crate::sequential::transformer::{INIT, Transformer};
use sottovoce_core::{Rng, math};
use sottovoce_neural::{Arena, Linear, Mask, NeuralError, Packed, Role, Slot, Space, softmax, softmax_backward};
use std::sync::Arc;

config! {
    /// Settings of FDSA.
    pub(super) struct FdsaConfig {
        include
        /// The networks.
        attention: SelfAttention = SelfAttention::default();
        include
        /// What is minimised.
        objective: Objective = Objective::default();
        include
        /// How it is trained.
        training: SequenceTraining = SequenceTraining::default();
    }
}

impl SequenceConfig for FdsaConfig {
    const INFO: ModelInfo = ModelInfo::new("fdsa", "FDSA")
        .summary("Self-attention over the items of a history beside self-attention over their attributes")
        .paper("Zhang et al.: Feature-level Deeper Self-Attention Network for Sequential Recommendation. IJCAI 2019");
    const NEEDS_ATTRIBUTES: bool = true;

    fn training(&self) -> &SequenceTraining {
        &self.training
    }

    fn network(&self, size: &Size, layouts: &mut Layouts) -> Made {
        Ok(Box::new(Fdsa::new(self, size, layouts)?))
    }
}

struct Fdsa {
    attributes: Arc<Attributes>,
    of_items: Transformer,
    of_attributes: Transformer,
    vectors: Slot,
    attention: Slot,
    output: Linear,
    objective: Objective,
    width: usize,
    items: usize,
    max_length: usize,
    /// Attributes of an item at most.
    most: usize,
}

impl Fdsa {
    fn new(config: &FdsaConfig, size: &Size, layouts: &mut Layouts) -> Result<Self, NeuralError> {
        let attributes = size.attributes.clone().unwrap_or_default();
        let (width, shape) = (config.attention.hidden, config.attention.shape(size, Mask::Causal));
        layouts.tables.push(Table { name: "items", rows: size.items, width, init: INIT });
        let layout = &mut layouts.network;
        let rows = attributes.count().max(1);
        Ok(Self {
            of_items: Transformer::new(layout, "items_network", &shape)?,
            of_attributes: Transformer::new(layout, "attributes_network", &shape)?,
            vectors: layout.add("attributes".to_owned(), &[rows, width], Role::Weight, INIT)?,
            attention: layout.add("attribute_attention".to_owned(), &[width], Role::Weight, INIT)?,
            output: Linear::with_init(layout, "output", 2 * width, width, INIT)?,
            most: (0..size.items as u32).map(|item| attributes.of(item).len()).max().unwrap_or(0),
            attributes,
            objective: config.objective.clone(),
            width,
            items: size.items,
            max_length: size.max_length,
        })
    }

    /// Pools the attributes of items into `g`; the weights of all, one item after the other.
    fn pool<'a>(
        &self,
        p: &[f32],
        items: &[u32],
        g: &mut [f32],
        space: &mut Space<'a, f32>,
    ) -> Result<&'a mut [f32], NeuralError> {
        let (vectors, w) = (self.vectors.of(p)?, self.attention.of(p)?);
        let vector = |attribute: u32| &vectors[attribute as usize * self.width..][..self.width];
        let all = items.iter().map(|&item| self.attributes.of(item).len()).sum();
        let weights = space.zeros(all)?;
        let mut rest = &mut *weights;
        for (&item, g) in items.iter().zip(g.chunks_exact_mut(self.width)) {
            let attributes = self.attributes.of(item);
            let (weights, others) = std::mem::take(&mut rest).split_at_mut(attributes.len());
            rest = others;
            if attributes.is_empty() {
                continue;
            }
            weights.iter_mut().zip(attributes).for_each(|(weight, &a)| *weight = math::dot(vector(a), w));
            softmax(weights, attributes.len())?;
            weights.iter().zip(attributes).for_each(|(&weight, &a)| math::add_scaled(g, weight, vector(a)));
        }
        Ok(weights)
    }

    fn pool_backward(
        &self,
        p: &[f32],
        items: &[u32],
        mut weights: &[f32],
        dg: &[f32],
        gradients: &mut [f32],
        space: &mut Space<'_, f32>,
    ) -> Result<(), NeuralError> {
        let (vectors, w) = (self.vectors.of(p)?, self.attention.of(p)?);
        let dweights = space.zeros(self.most)?;
        for (&item, dg) in items.iter().zip(dg.chunks_exact(self.width)) {
            let attributes = self.attributes.of(item);
            let (own, rest) = weights.split_at(attributes.len());
            weights = rest;
            if attributes.is_empty() {
                continue;
            }
            let dweights = &mut dweights[..attributes.len()];
            for (d, &a) in dweights.iter_mut().zip(attributes) {
                *d = math::dot(dg, &vectors[a as usize * self.width..][..self.width]);
            }
            softmax_backward(own, dweights, attributes.len())?;
            for ((&d, &weight), &a) in dweights.iter().zip(own).zip(attributes) {
                let place = a as usize * self.width..(a as usize + 1) * self.width;
                math::add_scaled(self.attention.of_mut(gradients)?, d, &vectors[place.clone()]);
                let dvector = &mut self.vectors.of_mut(gradients)?[place];
                math::add_scaled(dvector, weight, dg);
                math::add_scaled(dvector, d, w);
            }
        }
        Ok(())
    }

    fn join(&self, of_items: &[f32], of_attributes: &[f32], both: &mut [f32]) {
        let parts = of_items.chunks_exact(self.width).zip(of_attributes.chunks_exact(self.width));
        for (both, (item, attribute)) in both.chunks_exact_mut(2 * self.width).zip(parts) {
            both[..self.width].copy_from_slice(item);
            both[self.width..].copy_from_slice(attribute);
        }
    }

    fn space_of(&self, rows: usize, longest: usize) -> usize {
        let networks = 2 * self.of_items.space(rows, longest);
        networks.saturating_add(rows.saturating_mul(12 * self.width + self.most)).saturating_add(self.most)
    }
}

impl SequenceModel for Fdsa {
    fn samples(&self, history: &[u32]) -> usize {
        history.len().saturating_sub(1).min(self.max_length)
    }

    fn space(&self, users: usize) -> usize {
        let rows = users.saturating_mul(self.max_length);
        self.space_of(rows, self.max_length).saturating_add(self.objective.space(rows, self.items, self.width))
    }

    fn backpropagate(
        &self,
        weights: &Weights,
        batch: &MicroBatch<'_>,
        worker: &mut Worker,
        rng: &mut Rng,
    ) -> Result<f64, NeuralError> {
        let Worker { gradients, tables, arena, scratch } = worker;
        fill_with_next(batch, self.max_length, &self.objective, scratch, rng);
        let (mut space, width, p) = (arena.space(), self.width, &weights.network);
        let sequences = Packed::new(&scratch.starts)?;
        let x = space.zeros(scratch.items.len() * width)?;
        look_up(&weights.tables[0], &scratch.items, x);
        let g = space.zeros(x.len())?;
        let pooled = self.pool(p, &scratch.items, g, &mut space)?;
        let of_items = self.of_items.forward(p, x, sequences, Some(rng), &mut space)?;
        let of_attributes = self.of_attributes.forward(p, g, sequences, Some(rng), &mut space)?;
        let both = space.zeros(2 * x.len())?;
        self.join(of_items.output, of_attributes.output, both);
        let h = self.output.forward(p, both, &mut space)?;

        let dh = space.zeros(h.len())?;
        let positions = Positions { h, targets: &scratch.targets, negatives: &scratch.negatives };
        let into = Into { dh: &mut *dh, items: &mut tables[0] };
        let loss = self.objective.loss(&positions, &weights.tables[0], batch.scale, into, &mut space)?;

        let dboth = space.zeros(both.len())?;
        self.output.backward(p, both, dh, gradients, Some(&mut *dboth))?;
        let (dy, dx, dg) = (space.zeros(x.len())?, space.zeros(x.len())?, space.zeros(x.len())?);
        dy.chunks_exact_mut(width).zip(dboth.chunks_exact(2 * width)).for_each(|(d, b)| d.copy_from_slice(&b[..width]));
        self.of_items.backward(p, &of_items, dy, gradients, Some(&mut *dx), &mut space)?;
        dy.chunks_exact_mut(width).zip(dboth.chunks_exact(2 * width)).for_each(|(d, b)| d.copy_from_slice(&b[width..]));
        self.of_attributes.backward(p, &of_attributes, dy, gradients, Some(&mut *dg), &mut space)?;
        self.pool_backward(p, &scratch.items, pooled, dg, gradients, &mut space)?;
        for (dx, &item) in dx.chunks_exact(width).zip(&scratch.items) {
            tables[0].add(item as usize, 1.0, dx)?;
        }
        Ok(loss)
    }

    fn score(&self, weights: &Weights, _: Option<usize>, history: &[u32], into: &mut [f32]) -> Result<(), NeuralError> {
        let (steps, width, p) = (history.len(), self.width, &weights.network);
        let starts = [0, steps];
        let mut arena = Arena::new(self.space_of(steps, steps), 0)?;
        let (mut space, sequences) = (arena.space(), Packed::new(&starts)?);
        let (x, g) = (space.zeros(steps * width)?, space.zeros(steps * width)?);
        look_up(&weights.tables[0], history, x);
        self.pool(p, history, g, &mut space)?;
        let of_items = self.of_items.forward(p, x, sequences, None, &mut space)?;
        let of_attributes = self.of_attributes.forward(p, g, sequences, None, &mut space)?;
        let both = space.zeros(2 * width)?;
        let last = (steps - 1) * width;
        self.join(&of_items.output[last..], &of_attributes.output[last..], both);
        add_scores(self.output.forward(p, both, &mut space)?, &weights.tables[0], into)
    }
}
