//! BERT4Rec: items in the middle of a sequence, hidden and predicted from both sides.
//!
//! F. Sun, J. Liu, J. Wu, C. Pei, X. Lin, W. Ou, P. Jiang: BERT4Rec: Sequential Recommendation with Bidirectional
//! Encoder Representations from Transformer, CIKM 2019.
//!
//! ```text
//! h = network(E[m_1], ..., E[m_n])      m_t = the item i_t, or the mask with probability p
//! score of an item j at t = gelu(h_t W + b) . E[j]        loss = mean over masked t of the loss of i_t
//! ```
//! The network is SASRec's without its causal mask. In a tenth of the sequences only the last item is masked, which is
//! what the model is asked for: it scores with the mask behind the history. The paper's bias of each item's score is
//! left out.

use super::next_item::look_up;
use super::objective::{Into, Loss, Objective, Positions};
use super::training::{MicroBatch, Scratch, Worker};
use super::{
    Layouts, Made, SelfAttention, SequenceConfig, SequenceModel, SequenceTraining, Size, Table, Weights, add_scores,
    latest,
};
use crate::config;
use crate::registry::ModelInfo;
use crate::sequential::SequenceNetwork;
use crate::sequential::transformer::INIT;
use sottovoce_core::Rng;
use sottovoce_neural::{Arena, Linear, Mask, NeuralError, Packed, gelu, gelu_backward};

config! {
    /// Settings of BERT4Rec.
    pub(super) struct Bert4RecConfig {
        /// Probability with which an item is masked
        pub(super) mask_probability: f64 = 0.4, in 0.01..=0.99;
        include
        /// The network.
        pub(super) attention: SelfAttention = SelfAttention { dropout: 0.2, ..SelfAttention::default() };
        include
        /// What is minimised.
        pub(super) objective: Objective = Objective { loss: Loss::CrossEntropy, negatives: 0, ..Objective::default() };
        include
        /// How it is trained.
        pub(super) training: SequenceTraining = SequenceTraining { epochs: 200, ..SequenceTraining::default() };
    }
}

impl SequenceConfig for Bert4RecConfig {
    const INFO: ModelInfo = ModelInfo::new("bert4rec", "BERT4Rec")
        .summary("Masked items predicted from both sides by self-attention; the next item is a mask behind the history")
        .paper("Sun, Liu, Wu, Pei, Lin, Ou, Jiang: BERT4Rec. CIKM 2019");

    fn training(&self) -> &SequenceTraining {
        &self.training
    }

    fn network(&self, size: &Size, layouts: &mut Layouts) -> Made {
        Ok(Box::new(Bert4Rec::new(self, size, layouts)?))
    }
}

/// Fraction of sequences of which only the last item is masked.
const LAST_ONLY: f64 = 0.1;

pub(super) struct Bert4Rec {
    network: SequenceNetwork,
    output: Linear,
    objective: Objective,
    mask_probability: f64,
    items: usize,
    max_length: usize,
}

impl Bert4Rec {
    pub(super) fn new(config: &Bert4RecConfig, size: &Size, layouts: &mut Layouts) -> Result<Self, NeuralError> {
        let (hidden, shape) = (config.attention.hidden, config.attention.shape(size, Mask::None));
        layouts.tables.push(Table { name: "items", rows: size.items + 1, width: hidden, init: INIT });
        Ok(Self {
            network: SequenceNetwork::transformer(&mut layouts.network, "network", &shape)?,
            output: Linear::with_init(&mut layouts.network, "output", hidden, hidden, INIT)?,
            objective: config.objective.clone(),
            mask_probability: config.mask_probability,
            items: size.items,
            max_length: size.max_length,
        })
    }

    /// The row of the mask.
    fn mask(&self) -> u32 {
        self.items as u32
    }

    /// Appends a sequence with masks, and the rows and items of these.
    fn mask_items(&self, items: &[u32], scratch: &mut Scratch, rng: &mut Rng) {
        let (start, first) = (scratch.items.len(), scratch.rows.len());
        let last_only = rng.chance(LAST_ONLY);
        scratch.items.extend_from_slice(items);
        for (n, &item) in items.iter().enumerate() {
            let last = n + 1 == items.len();
            let masked = if last_only { last } else { rng.chance(self.mask_probability) };
            if masked || last && scratch.rows.len() == first {
                scratch.items[start + n] = self.mask();
                scratch.rows.push((start + n) as u32);
                scratch.targets.push(item);
            }
        }
        scratch.starts.push(scratch.items.len());
    }

    /// Adds the gradients of the sequences that the scratch memory describes.
    pub(super) fn add_gradients(
        &self,
        weights: &Weights,
        scale: f64,
        worker: &mut Worker,
        dropout: Option<&mut Rng>,
    ) -> Result<f64, NeuralError> {
        let Worker { gradients, tables, arena, scratch } = worker;
        let (mut space, width, p) = (arena.space(), self.network.width(), &weights.network);
        let x = space.zeros(scratch.items.len() * width)?;
        look_up(&weights.tables[0], &scratch.items, x);
        let tape = self.network.forward(p, x, Packed::new(&scratch.starts)?, dropout, &mut space)?;

        // Only masked rows are predicted.
        let masked = space.zeros(scratch.rows.len() * width)?;
        look_up(tape.output(), &scratch.rows, masked);
        let before = self.output.forward(p, masked, &mut space)?;
        let h = space.zeros(before.len())?;
        gelu(before, h)?;
        let dh = space.zeros(h.len())?;
        let positions = Positions { h, targets: &scratch.targets, negatives: &scratch.negatives };
        let scale = scale / self.mask_probability;
        let into = Into { dh: &mut *dh, items: &mut tables[0] };
        let table = &weights.tables[0][..self.items * width];
        let loss = self.objective.loss(&positions, table, scale, into, &mut space)?;

        gelu_backward(before, dh)?;
        let dmasked = space.zeros(masked.len())?;
        self.output.backward(p, masked, dh, gradients, Some(&mut *dmasked))?;
        let dy = space.zeros(x.len())?;
        for (gradient, &row) in dmasked.chunks_exact(width).zip(&scratch.rows) {
            dy[row as usize * width..][..width].copy_from_slice(gradient);
        }
        let dx = space.zeros(x.len())?;
        self.network.backward(p, &tape, dy, gradients, Some(&mut *dx), &mut space)?;
        for (dx, &item) in dx.chunks_exact(width).zip(&scratch.items) {
            tables[0].add(item as usize, 1.0, dx)?;
        }
        Ok(loss)
    }
}

impl SequenceModel for Bert4Rec {
    fn samples(&self, history: &[u32]) -> usize {
        if history.len() < 2 { 0 } else { history.len().min(self.max_length) }
    }

    fn space(&self, users: usize) -> usize {
        let (rows, width) = (users.saturating_mul(self.max_length), self.network.width());
        let network = self.network.space(users, rows, self.max_length);
        network.saturating_add(9 * rows * width).saturating_add(self.objective.space(rows, self.items, width))
    }

    fn backpropagate(
        &self,
        weights: &Weights,
        batch: &MicroBatch<'_>,
        worker: &mut Worker,
        rng: &mut Rng,
    ) -> Result<f64, NeuralError> {
        let scratch = &mut worker.scratch;
        scratch.clear();
        for &user in batch.users {
            let before = scratch.rows.len();
            self.mask_items(latest(batch.histories.of(user as usize), self.max_length), scratch, rng);
            let masked = scratch.rows.len() - before;
            self.objective.draw(batch, user, masked, &mut scratch.negatives, rng);
        }
        self.objective.draw_shared(batch, &mut scratch.negatives);
        self.add_gradients(weights, batch.scale, worker, Some(rng))
    }

    fn score(&self, weights: &Weights, _: Option<usize>, history: &[u32], into: &mut [f32]) -> Result<(), NeuralError> {
        let mut items = latest(history, self.max_length - 1).to_vec();
        items.push(self.mask());
        let (steps, width) = (items.len(), self.network.width());
        let starts = [0, steps];
        let mut arena = Arena::new(self.network.space(1, steps, steps) + (steps + 2) * width, 0)?;
        let mut space = arena.space();
        let x = space.zeros(steps * width)?;
        look_up(&weights.tables[0], &items, x);
        let tape = self.network.forward(&weights.network, x, Packed::new(&starts)?, None, &mut space)?;
        let before = self.output.forward(&weights.network, &tape.output()[(steps - 1) * width..], &mut space)?;
        let h = space.zeros(width)?;
        gelu(before, h)?;
        add_scores(h, &weights.tables[0], into)
    }
}
