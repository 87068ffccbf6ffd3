//! S3-Rec: SASRec, pre-trained to relate items, attributes, subsequences and sequences.
//!
//! K. Zhou, H. Wang, W. X. Zhao, Y. Zhu, S. Wang, F. Zhang, Z. Wang, J.-R. Wen: S3-Rec: Self-Supervised Learning for
//! Sequential Recommendation with Mutual Information Maximization, CIKM 2020.
//!
//! Pre-training takes a beginning of each user's sequence, masks items, and reads it from both sides. With the vectors
//! h of its places, a of attributes, and a layer W of its own for each:
//! ```text
//! AAP   at places that are not masked, bce of (h W) . a over all attributes: which ones does the item have?
//! MAP   the same at masked places
//! MIP   at masked places, bpr of (h W) . E[item] against a random item
//! SP    bpr of (c W) . s against (c W) . s', with the last h of the sequence without a segment (c), of the segment by
//!       itself (s) and of a random one (s')
//! loss  = 0.2 AAP + MAP + MIP + 0.5 SP
//! ```
//! Training then goes on as SASRec's, from the vectors and layers that pre-training leaves. Each epoch of pre-training
//! takes one beginning of each sequence, of random length; the authors' takes all of them.

use super::attributes::Attributes;
use super::next_item::{NextItem, look_up};
use super::objective::{Objective, softplus};
use super::training::{MicroBatch, Phase, Scratch, Worker};
use super::{Layouts, Made, SelfAttention, SequenceConfig, SequenceModel, SequenceTraining, Size, Weights, latest};
use crate::config;
use crate::registry::ModelInfo;
use crate::sequential::SequenceNetwork;
use crate::sequential::transformer::{INIT, Transformer};
use sottovoce_core::{Rng, math};
use sottovoce_neural::losses::bce_with_logits_sparse;
use sottovoce_neural::products::{Matrix, MatrixMut, add_product, add_product_by_transposed, add_transposed_product};
use sottovoce_neural::{Arithmetic, Layout, Linear, Mask, NeuralError, Packed, Role, Slot, Space, SparseRows};
use std::sync::Arc;

config! {
    /// Settings of S3-Rec.
    pub(super) struct S3RecConfig {
        /// Passes of pre-training over all users, before those of training
        pretraining_epochs: usize = 100, in 0..=10_000;
        /// Probability with which pre-training masks an item
        mask_probability: f64 = 0.2, in 0.01..=0.99;
        include
        /// The network.
        attention: SelfAttention = SelfAttention::default();
        include
        /// What training minimises.
        objective: Objective = Objective::default();
        include
        /// How it is trained.
        training: SequenceTraining = SequenceTraining { epochs: 200, ..SequenceTraining::default() };
    }
}

impl SequenceConfig for S3RecConfig {
    const INFO: ModelInfo = ModelInfo::new("s3rec", "S3-Rec")
        .summary("SASRec, pre-trained to relate items, their attributes, and parts of sequences")
        .paper("Zhou et al.: S3-Rec: Self-Supervised Learning for Sequential Recommendation. CIKM 2020");
    const NEEDS_ATTRIBUTES: bool = true;

    fn training(&self) -> &SequenceTraining {
        &self.training
    }

    fn pretraining(&self) -> usize {
        self.pretraining_epochs
    }

    fn network(&self, size: &Size, layouts: &mut Layouts) -> Made {
        Ok(Box::new(S3Rec::new(self, size, layouts)?))
    }
}

/// Weights of the four losses: AAP, MIP, MAP, SP.
const AAP: f64 = 0.2;
const MIP: f64 = 1.0;
const MAP: f64 = 1.0;
const SP: f64 = 0.5;

/// Sequences of each user in pre-training: masked, without a segment, the segment, a random one.
const SEQUENCES: usize = 4;

struct S3Rec {
    next: NextItem,
    /// The same network without its causal mask.
    both_sides: Transformer,
    attributes: Arc<Attributes>,
    vectors: Slot,
    aap: Linear,
    mip: Linear,
    map: Linear,
    sp: Linear,
    mask_probability: f64,
    max_length: usize,
    items: usize,
    width: usize,
}

impl S3Rec {
    fn new(config: &S3RecConfig, size: &Size, layouts: &mut Layouts) -> Result<Self, NeuralError> {
        let (width, shape) = (config.attention.hidden, config.attention.shape(size, Mask::Causal));
        let network = |layout: &mut Layout| SequenceNetwork::transformer(layout, "network", &shape);
        let next = NextItem::new(size, layouts, &config.objective, 1, network)?;
        let SequenceNetwork::Transformer(causal) = &next.network else {
            return Err(NeuralError::Setting("S3-Rec needs self-attention".to_owned()));
        };
        let both_sides = causal.with_mask(Mask::None);
        let attributes = size.attributes.clone().unwrap_or_default();
        let layout = &mut layouts.network;
        let rows = attributes.count().max(1);
        let vectors = layout.add("attributes".to_owned(), &[rows, width], Role::Weight, INIT)?;
        let mut linear = |name| Linear::with_init(layout, name, width, width, INIT);
        Ok(Self {
            aap: linear("aap")?,
            mip: linear("mip")?,
            map: linear("map")?,
            sp: linear("sp")?,
            next,
            both_sides,
            attributes,
            vectors,
            mask_probability: config.mask_probability,
            max_length: size.max_length,
            items: size.items,
            width,
        })
    }

    /// The row of the mask.
    fn mask(&self) -> u32 {
        self.items as u32
    }

    /// Appends the four sequences of a user. Of scratch memory, `rows` are masked places, `targets` their items,
    /// `negatives` random items for them, `others` the places of the first sequences that are not masked.
    fn append(&self, batch: &MicroBatch<'_>, user: u32, scratch: &mut Scratch, rng: &mut Rng) {
        let items = latest(batch.histories.of(user as usize), self.max_length);
        let items = &items[..1 + rng.index(items.len())];
        let start = scratch.items.len();
        for (n, &item) in items.iter().enumerate() {
            let place = (start + n) as u32;
            if n + 1 == items.len() || rng.chance(self.mask_probability) {
                scratch.items.push(self.mask());
                scratch.rows.push(place);
                scratch.targets.push(item);
            } else {
                scratch.items.push(item);
                scratch.others.push(place);
            }
        }
        batch.draw_negatives(user, scratch.targets.len() - scratch.negatives.len(), &mut scratch.negatives, rng);
        scratch.starts.push(scratch.items.len());
        // Of a single item there is no proper segment: all three are the item, and the loss has no gradient.
        let length = 1 + rng.index((items.len() / 2).max(1));
        let from = rng.index(items.len() - length + 1);
        let inside = |n: usize| (from..from + length).contains(&n);
        let all = batch.histories.items();
        let other = rng.index(all.len() - length + 1);
        let single = items.len() == 1;
        let without = |n: usize| if inside(n) && !single { self.mask() } else { items[n] };
        let segment = |n: usize| if inside(n) { items[n] } else { self.mask() };
        let random = |n: usize| {
            if !inside(n) {
                self.mask()
            } else if single {
                items[n]
            } else {
                all[other + n - from]
            }
        };
        scratch.items.extend((0..items.len()).map(without));
        scratch.starts.push(scratch.items.len());
        scratch.items.extend((0..items.len()).map(segment));
        scratch.starts.push(scratch.items.len());
        scratch.items.extend((0..items.len()).map(random));
        scratch.starts.push(scratch.items.len());
    }

    /// AAP or MAP: adds gradients; `factor *` the sum of the losses at these places, given their true items.
    fn attribute_loss(
        &self,
        p: &[f32],
        layer: &Linear,
        (h, rows, items): (&[f32], &[u32], &[u32]),
        factor: f64,
        (gradients, dh): (&mut [f32], &mut [f32]),
        space: &mut Space<'_, f32>,
    ) -> Result<f64, NeuralError> {
        let count = self.attributes.count();
        if rows.is_empty() || count == 0 {
            return Ok(0.0);
        }
        let mut space = space.scratch();
        let x = space.zeros(rows.len() * self.width)?;
        look_up(h, rows, x);
        let y = layer.forward(p, x, &mut space)?;
        let (scores, dscores) = (space.zeros(rows.len() * count)?, space.zeros(rows.len() * count)?);
        let vectors = Matrix::new(self.vectors.of(p)?, self.width)?;
        let machine = Arithmetic::Machine;
        add_product_by_transposed(machine, Matrix::new(y, self.width)?, vectors, MatrixMut::new(&mut *scores, count)?)?;
        let starts: Vec<usize> = std::iter::once(0)
            .chain(items.iter().scan(0, |sum, &item| {
                *sum += self.attributes.of(item).len();
                Some(*sum)
            }))
            .collect();
        let columns: Vec<u32> = items.iter().flat_map(|&item| self.attributes.of(item)).copied().collect();
        let targets = SparseRows::new(&starts, &columns, None, count)?;
        let loss = bce_with_logits_sparse(scores, &targets, factor, Some(&mut *dscores))?;
        let dscores = Matrix::new(dscores, count)?;
        let dy = space.zeros(y.len())?;
        add_product(machine, dscores, vectors, MatrixMut::new(&mut *dy, self.width)?)?;
        let dvectors = MatrixMut::new(self.vectors.of_mut(gradients)?, self.width)?;
        add_transposed_product(machine, dscores, Matrix::new(y, self.width)?, dvectors)?;
        let dx = space.zeros(x.len())?;
        layer.backward(p, x, dy, gradients, Some(&mut *dx))?;
        self.add_rows(dx, rows, dh);
        Ok(loss)
    }

    fn add_rows(&self, from: &[f32], rows: &[u32], into: &mut [f32]) {
        for (from, &row) in from.chunks_exact(self.width).zip(rows) {
            math::add(&mut into[row as usize * self.width..][..self.width], from);
        }
    }

    /// MIP, whose gradients of items are in `items`.
    fn item_loss(
        &self,
        weights: &Weights,
        scratch: &Scratch,
        h: &[f32],
        factor: f64,
        (gradients, dh, items): (&mut [f32], &mut [f32], &mut sottovoce_neural::RowGradients<f32>),
        space: &mut Space<'_, f32>,
    ) -> Result<f64, NeuralError> {
        let (p, table, width) = (&weights.network, &weights.tables[0], self.width);
        let mut space = space.scratch();
        let x = space.zeros(scratch.rows.len() * width)?;
        look_up(h, &scratch.rows, x);
        let y = self.mip.forward(p, x, &mut space)?;
        let (dy, difference) = (space.zeros(y.len())?, space.zeros(width)?);
        let mut sum = 0.0;
        let pairs = scratch.targets.iter().zip(&scratch.negatives);
        for ((y, dy), (&target, &negative)) in y.chunks_exact(width).zip(dy.chunks_exact_mut(width)).zip(pairs) {
            difference.copy_from_slice(&table[negative as usize * width..][..width]);
            math::add_scaled(difference, -1.0, &table[target as usize * width..][..width]);
            let margin = math::dot(y, difference);
            sum += softplus(margin);
            let slope = factor as f32 * math::sigmoid(margin);
            math::add_scaled(dy, slope, difference);
            items.add(negative as usize, slope, y)?;
            items.add(target as usize, -slope, y)?;
        }
        let dx = space.zeros(x.len())?;
        self.mip.backward(p, x, dy, gradients, Some(&mut *dx))?;
        self.add_rows(dx, &scratch.rows, dh);
        Ok(factor * sum)
    }

    /// SP.
    fn segment_loss(
        &self,
        p: &[f32],
        starts: &[usize],
        h: &[f32],
        factor: f64,
        (gradients, dh): (&mut [f32], &mut [f32]),
        space: &mut Space<'_, f32>,
    ) -> Result<f64, NeuralError> {
        let width = self.width;
        let last = |sequence: usize| (starts[sequence + 1] - 1) * width..starts[sequence + 1] * width;
        let mut sum = 0.0;
        for user in 0..(starts.len() - 1) / SEQUENCES {
            let [context, segment, random] = [1, 2, 3].map(|n| last(SEQUENCES * user + n));
            let mut space = space.scratch();
            let c = self.sp.forward(p, &h[context.clone()], &mut space)?;
            let difference = space.copy(&h[random.clone()])?;
            math::add_scaled(difference, -1.0, &h[segment.clone()]);
            let margin = math::dot(c, difference);
            sum += softplus(margin);
            let slope = factor as f32 * math::sigmoid(margin);
            difference.iter_mut().for_each(|value| *value *= slope);
            math::add_scaled(&mut dh[random], slope, c);
            math::add_scaled(&mut dh[segment], -slope, c);
            self.sp.backward(p, &h[context.clone()], difference, gradients, Some(&mut dh[context]))?;
        }
        Ok(factor * sum)
    }

    fn pretrain(
        &self,
        weights: &Weights,
        batch: &MicroBatch<'_>,
        worker: &mut Worker,
        rng: &mut Rng,
    ) -> Result<f64, NeuralError> {
        let Worker { gradients, tables, arena, scratch } = worker;
        scratch.clear();
        for &user in batch.users {
            self.append(batch, user, scratch, rng);
        }
        let (mut space, p) = (arena.space(), &weights.network);
        let x = space.zeros(scratch.items.len() * self.width)?;
        look_up(&weights.tables[0], &scratch.items, x);
        let tape = self.both_sides.forward(p, x, Packed::new(&scratch.starts)?, Some(rng), &mut space)?;
        let (h, dh) = (tape.output, space.zeros(x.len())?);
        let unmasked: Vec<u32> = scratch.others.iter().map(|&row| scratch.items[row as usize]).collect();
        let scale = batch.scale;
        let of_unmasked = (h, &scratch.others[..], &unmasked[..]);
        let of_masked = (h, &scratch.rows[..], &scratch.targets[..]);
        let mut loss =
            self.attribute_loss(p, &self.aap, of_unmasked, AAP * scale, (gradients, &mut *dh), &mut space)?;
        loss += self.attribute_loss(p, &self.map, of_masked, MAP * scale, (gradients, &mut *dh), &mut space)?;
        loss += self.item_loss(weights, scratch, h, MIP * scale, (gradients, &mut *dh, &mut tables[0]), &mut space)?;
        loss += self.segment_loss(p, &scratch.starts, h, SP * scale, (gradients, &mut *dh), &mut space)?;
        let dx = space.zeros(x.len())?;
        self.both_sides.backward(p, &tape, dh, gradients, Some(&mut *dx), &mut space)?;
        for (dx, &item) in dx.chunks_exact(self.width).zip(&scratch.items) {
            tables[0].add(item as usize, 1.0, dx)?;
        }
        Ok(loss)
    }
}

impl SequenceModel for S3Rec {
    fn samples(&self, history: &[u32]) -> usize {
        self.next.samples(history)
    }

    fn space(&self, users: usize) -> usize {
        let first = users.saturating_mul(self.max_length);
        let rows = first.saturating_mul(SEQUENCES);
        let network = self.both_sides.space(rows, self.max_length);
        let losses = first.saturating_mul(2 * self.attributes.count() + 5 * self.width);
        let pretraining = network.saturating_add(rows.saturating_mul(3 * self.width)).saturating_add(losses);
        pretraining.saturating_add(3 * self.width).max(self.next.space(users))
    }

    fn backpropagate(
        &self,
        weights: &Weights,
        batch: &MicroBatch<'_>,
        worker: &mut Worker,
        rng: &mut Rng,
    ) -> Result<f64, NeuralError> {
        match batch.phase {
            Phase::PreTraining => self.pretrain(weights, batch, worker, rng),
            Phase::Training => self.next.backpropagate(weights, batch, worker, rng),
        }
    }

    fn score(
        &self,
        weights: &Weights,
        user: Option<usize>,
        history: &[u32],
        into: &mut [f32],
    ) -> Result<(), NeuralError> {
        self.next.score(weights, user, history, into)
    }
}
