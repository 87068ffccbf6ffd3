//! GRU4Rec, SASRec and gSASRec: networks that are trained to predict, at each position, the item that came next.
//!
//! B. Hidasi, A. Karatzoglou, L. Baltrunas, D. Tikk: Session-based Recommendations with Recurrent Neural Networks,
//! ICLR 2016.
//! W.-C. Kang, J. McAuley: Self-Attentive Sequential Recommendation, ICDM 2018.
//! A. Petrov, C. Macdonald: gSASRec: Reducing Overconfidence in Sequential Recommendation Trained with Negative
//! Sampling, RecSys 2023.
//!
//! ```text
//! h_t = network(E[i_1], ..., E[i_t])        score of an item j after i_1, ..., i_t = h_t . E[j]
//! loss = mean over users and t of the loss of i_(t+1), see `objective`
//! ```
//! The items' vectors E are both input and output. `crate::sequential` has the networks. gSASRec is SASRec with many
//! negatives: by default cross-entropy over them, or with loss = gbce the paper's own loss. Unlike in the paper, the
//! positions of a batch share them.

use super::objective::{Into, Loss, Objective, Positions};
use super::training::{MicroBatch, Scratch, Worker};
use super::{
    Layouts, Made, SelfAttention, SequenceConfig, SequenceModel, SequenceTraining, Sequential, Size, Table, Weights,
    add_scores, latest,
};
use crate::config;
use crate::registry::{CentralModel, ModelInfo};
use crate::sequential::SequenceNetwork;
use crate::sequential::gru4rec::Gru4RecShape;
use crate::sequential::transformer::INIT;
use crate::settings::Config;
use sottovoce_core::Rng;
use sottovoce_neural::{Arena, Layout, Mask, NeuralError, Packed};

/// The registry's entry of gSASRec.
pub(super) const GSASREC: CentralModel = CentralModel {
    info: ModelInfo::new("gsasrec", "gSASRec")
        .summary("SASRec with many negatives: cross-entropy over them, or generalised binary cross-entropy")
        .paper("Petrov, Macdonald: gSASRec: Reducing Overconfidence in Sequential Recommendation. RecSys 2023"),
    schema: || g_sas_rec_defaults().schema(),
    build: |settings| Box::new(Sequential::new("gsasrec", SasRecConfig::read(settings))),
};

config! {
    /// Settings of GRU4Rec.
    pub(super) struct Gru4RecConfig {
        /// Length of items' vectors
        hidden: usize = 64, in 1..=1024 => [log];
        /// Units of each recurrent layer
        units: usize = 128, in 1..=1024 => [log];
        /// Recurrent layers
        layers: usize = 1, in 1..=4;
        /// Fraction of the input that training drops
        dropout: f64 = 0.3, in 0.0..=0.95;
        include
        /// What is minimised.
        objective: Objective = Objective { loss: Loss::CrossEntropy, negatives: 0, ..Objective::default() };
        include
        /// How it is trained.
        training: SequenceTraining = SequenceTraining::default();
    }
}

impl SequenceConfig for Gru4RecConfig {
    const INFO: ModelInfo = ModelInfo::new("gru4rec", "GRU4Rec")
        .summary("Next item by a recurrent network over the items of a history in time order")
        .paper("Hidasi et al.: Session-based Recommendations with Recurrent Neural Networks. ICLR 2016");

    fn training(&self) -> &SequenceTraining {
        &self.training
    }

    fn network(&self, size: &Size, layouts: &mut Layouts) -> Made {
        let Self { hidden, units, layers, dropout, .. } = *self;
        let shape = Gru4RecShape { width: hidden, units, layers, dropout };
        let network = |layout: &mut Layout| SequenceNetwork::gru4rec(layout, "network", &shape);
        Ok(Box::new(NextItem::new(size, layouts, &self.objective, 0, network)?))
    }
}

config! {
    /// Settings of SASRec and gSASRec.
    pub(super) struct SasRecConfig {
        include
        /// The network.
        attention: SelfAttention = SelfAttention::default();
        include
        /// What is minimised.
        objective: Objective = Objective::default();
        include
        /// How it is trained.
        training: SequenceTraining = SequenceTraining { epochs: 200, ..SequenceTraining::default() };
    }
}

impl SequenceConfig for SasRecConfig {
    const INFO: ModelInfo = ModelInfo::new("sasrec", "SASRec")
        .summary("Next item by self-attention over the items of a history in time order")
        .paper("Kang, McAuley: Self-Attentive Sequential Recommendation. ICDM 2018");

    fn training(&self) -> &SequenceTraining {
        &self.training
    }

    fn network(&self, size: &Size, layouts: &mut Layouts) -> Made {
        let shape = self.attention.shape(size, Mask::Causal);
        let network = |layout: &mut Layout| SequenceNetwork::transformer(layout, "network", &shape);
        Ok(Box::new(NextItem::new(size, layouts, &self.objective, 0, network)?))
    }
}

fn g_sas_rec_defaults() -> SasRecConfig {
    // Cross-entropy: with negatives that a batch shares, gbce stayed at the level of popularity on Beauty.
    let objective = Objective { loss: Loss::CrossEntropy, negatives: 1000, ..Objective::default() };
    SasRecConfig { objective, ..SasRecConfig::default() }
}

/// A network with the items' vectors, and its loss.
pub(super) struct NextItem {
    pub(super) network: SequenceNetwork,
    objective: Objective,
    items: usize,
    max_length: usize,
}

impl NextItem {
    /// With a row for each item, and more behind them.
    pub(super) fn new(
        size: &Size,
        layouts: &mut Layouts,
        objective: &Objective,
        more_rows: usize,
        network: impl Fn(&mut Layout) -> Result<SequenceNetwork, NeuralError>,
    ) -> Result<Self, NeuralError> {
        let network = network(&mut layouts.network)?;
        layouts.tables.push(Table { name: "items", rows: size.items + more_rows, width: network.width(), init: INIT });
        Ok(Self { network, objective: objective.clone(), items: size.items, max_length: size.max_length })
    }

    /// Adds the gradients of the positions that the scratch memory describes.
    pub(super) fn add_gradients(
        &self,
        weights: &Weights,
        scale: f64,
        worker: &mut Worker,
        dropout: Option<&mut Rng>,
    ) -> Result<f64, NeuralError> {
        let Worker { gradients, tables, arena, scratch } = worker;
        let (mut space, width) = (arena.space(), self.network.width());
        let x = space.zeros(scratch.items.len() * width)?;
        look_up(&weights.tables[0], &scratch.items, x);
        let sequences = Packed::new(&scratch.starts)?;
        let tape = self.network.forward(&weights.network, x, sequences, dropout, &mut space)?;
        let dh = space.zeros(x.len())?;
        let positions = Positions { h: tape.output(), targets: &scratch.targets, negatives: &scratch.negatives };
        let into = Into { dh: &mut *dh, items: &mut tables[0] };
        let table = &weights.tables[0][..self.items * width];
        let loss = self.objective.loss(&positions, table, scale, into, &mut space)?;
        let dx = space.zeros(x.len())?;
        self.network.backward(&weights.network, &tape, dh, gradients, Some(&mut *dx), &mut space)?;
        for (dx, &item) in dx.chunks_exact(width).zip(&scratch.items) {
            tables[0].add(item as usize, 1.0, dx)?;
        }
        Ok(loss)
    }
}

impl SequenceModel for NextItem {
    fn samples(&self, history: &[u32]) -> usize {
        history.len().saturating_sub(1).min(self.max_length)
    }

    fn space(&self, users: usize) -> usize {
        let (rows, width) = (users.saturating_mul(self.max_length), self.network.width());
        let network = self.network.space(users, rows, self.max_length);
        network.saturating_add(3 * rows * width).saturating_add(self.objective.space(rows, self.items, width))
    }

    fn backpropagate(
        &self,
        weights: &Weights,
        batch: &MicroBatch<'_>,
        worker: &mut Worker,
        rng: &mut Rng,
    ) -> Result<f64, NeuralError> {
        fill_with_next(batch, self.max_length, &self.objective, &mut worker.scratch, rng);
        self.add_gradients(weights, batch.scale, worker, Some(rng))
    }

    fn score(&self, weights: &Weights, _: Option<usize>, history: &[u32], into: &mut [f32]) -> Result<(), NeuralError> {
        let (steps, width) = (history.len(), self.network.width());
        let starts = [0, steps];
        let mut arena = Arena::new(self.network.space(1, steps, steps) + steps * width, 0)?;
        let mut space = arena.space();
        let x = space.zeros(steps * width)?;
        look_up(&weights.tables[0], history, x);
        let tape = self.network.forward(&weights.network, x, Packed::new(&starts)?, None, &mut space)?;
        add_scores(&tape.output()[(steps - 1) * width..], &weights.tables[0], into)
    }
}

/// Describes a micro-batch: the latest items of each user but the last, and behind each the item that came next.
pub(super) fn fill_with_next(
    batch: &MicroBatch<'_>,
    max_length: usize,
    objective: &Objective,
    scratch: &mut Scratch,
    rng: &mut Rng,
) {
    scratch.clear();
    for &user in batch.users {
        let items = latest(batch.histories.of(user as usize), max_length + 1);
        let Some((_, targets)) = items.split_first() else { continue };
        scratch.items.extend_from_slice(&items[..targets.len()]);
        scratch.targets.extend_from_slice(targets);
        scratch.starts.push(scratch.items.len());
        objective.draw(batch, user, targets.len(), &mut scratch.negatives, rng);
    }
    objective.draw_shared(batch, &mut scratch.negatives);
}

/// Copies the vectors of items.
pub(super) fn look_up(table: &[f32], items: &[u32], into: &mut [f32]) {
    let width = into.len() / items.len().max(1);
    for (vector, &item) in into.chunks_exact_mut(width.max(1)).zip(items) {
        vector.copy_from_slice(&table[item as usize * width..][..width]);
    }
}
