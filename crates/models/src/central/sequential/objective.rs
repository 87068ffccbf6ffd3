//! Losses of the next item.
//!
//! With the vector h of a position, the score p = h . v of the item that came next, and scores n_1, ..., n_K of
//! negatives:
//! ```text
//! bce            ln(1 + e^-p) + sum_k ln(1 + e^n_k)
//! bpr            sum_k ln(1 + e^(n_k - p))
//! gbce           b ln(1 + e^-p) + sum_k ln(1 + e^n_k),    b = a (t (1 - 1/a) + 1/a),    a = K / (items - 1)
//! cross-entropy  ln(e^p + sum_k e^n_k) - p
//! ```
//! `bce` and `bpr` draw negatives for each position, from the items that the user does not have. The other two draw
//! negatives for a batch, from all items, which its positions share; the next item itself is left out where it is among
//! them. So the scores are one matrix product, and hundreds of negatives cost little. `gbce` is generalised binary
//! cross-entropy (A. Petrov, C. Macdonald: gSASRec, RecSys 2023): with few negatives, bce learns probabilities that are
//! too high, and t, from 0 to 1, says how far b makes up for it.

use super::training::MicroBatch;
use crate::{choices, config};
use sottovoce_core::{Rng, math};
use sottovoce_neural::losses::cross_entropy;
use sottovoce_neural::products::{Matrix, MatrixMut, add_product, add_product_by_transposed, add_transposed_product};
use sottovoce_neural::{Arithmetic, NeuralError, RowGradients, Space};

choices! {
    /// The loss of the next item.
    pub(super) enum Loss {
        /// Binary cross-entropy.
        Bce => "bce",
        /// Bayesian personalised ranking.
        Bpr => "bpr",
        /// Generalised binary cross-entropy.
        Gbce => "gbce",
        /// Cross-entropy over the next item and the negatives.
        CrossEntropy => "cross-entropy",
    }
}

config! {
    /// Settings of the loss.
    pub(super) struct Objective {
        /// Loss of the next item; bce and bpr draw negatives for each position, gbce and cross-entropy for a batch
        pub(super) loss: Loss = Loss::Bce;
        /// Negatives; with cross-entropy, 0 stands for all items
        pub(super) negatives: usize = 1, in 0..=100_000;
        /// With gbce: how far probabilities are calibrated (t)
        pub(super) calibration: f64 = 0.75, in 0.0..=1.0;
    }
}

/// Positions whose next item is known.
pub(super) struct Positions<'p> {
    /// h of each position.
    pub(super) h: &'p [f32],
    /// The items that came next.
    pub(super) targets: &'p [u32],
    /// Negatives of each position, or of all.
    pub(super) negatives: &'p [u32],
}

/// Where gradients are added.
pub(super) struct Into<'g> {
    /// Of h.
    pub(super) dh: &'g mut [f32],
    /// Of the items' vectors.
    pub(super) items: &'g mut RowGradients<f32>,
}

impl Objective {
    fn shares_negatives(&self) -> bool {
        matches!(self.loss, Loss::Gbce | Loss::CrossEntropy)
    }

    /// Negatives that positions share, at most.
    fn shared(&self, items: usize) -> usize {
        match self.negatives {
            0 if self.loss == Loss::CrossEntropy => items,
            // One negative more often than not equals none for a loss that needs some.
            drawn => drawn.max(1),
        }
    }

    /// Values that `loss` takes from the arena, for so many positions and items' vectors of this width.
    pub(super) fn space(&self, positions: usize, items: usize, width: usize) -> usize {
        if !self.shares_negatives() {
            return 0;
        }
        let shared = self.shared(items);
        // Scores and their gradients; the negatives' vectors and theirs.
        positions.saturating_mul(2 * (shared + 1)).saturating_add(2 * shared * width)
    }

    /// Draws the negatives of a user's positions, if each has its own.
    pub(super) fn draw(&self, batch: &MicroBatch<'_>, user: u32, positions: usize, into: &mut Vec<u32>, rng: &mut Rng) {
        if !self.shares_negatives() {
            batch.draw_negatives(user, positions * self.negatives.max(1), into, rng);
        }
    }

    /// Draws the negatives of a batch, if its positions share them; the same in all micro-batches.
    pub(super) fn draw_shared(&self, batch: &MicroBatch<'_>, into: &mut Vec<u32>) {
        if self.shares_negatives() {
            let items = batch.histories.catalog_size();
            let mut rng = batch.shared_rng.stream("negatives", 0);
            match self.shared(items) {
                all if all == items => into.extend(0..items as u32),
                some => into.extend((0..some).map(|_| rng.below(items as u32))),
            }
        }
    }

    /// `scale *` the sum of the losses of positions; adds their gradients. `table` has the items' vectors.
    pub(super) fn loss(
        &self,
        positions: &Positions<'_>,
        table: &[f32],
        scale: f64,
        into: Into<'_>,
        space: &mut Space<'_, f32>,
    ) -> Result<f64, NeuralError> {
        if self.shares_negatives() {
            self.shared_loss(positions, table, scale, into, space)
        } else {
            self.own_loss(positions, table, scale, into)
        }
    }

    fn own_loss(
        &self,
        positions: &Positions<'_>,
        table: &[f32],
        scale: f64,
        into: Into<'_>,
    ) -> Result<f64, NeuralError> {
        let width = positions.h.len() / positions.targets.len().max(1);
        let each = positions.negatives.len() / positions.targets.len().max(1);
        let vector = |item: u32| &table[item as usize * width..][..width];
        let mut sum = 0.0;
        let rows = positions.h.chunks_exact(width).zip(into.dh.chunks_exact_mut(width));
        let items = positions.targets.iter().zip(positions.negatives.chunks_exact(each));
        for ((h, dh), (&target, negatives)) in rows.zip(items) {
            let p = math::dot(h, vector(target));
            let mut dp = 0.0;
            if self.loss == Loss::Bce {
                sum += softplus(-p);
                dp = -math::sigmoid(-p);
            }
            for &negative in negatives {
                let n = math::dot(h, vector(negative));
                let margin = if self.loss == Loss::Bce { n } else { n - p };
                sum += softplus(margin);
                let dn = math::sigmoid(margin);
                if self.loss == Loss::Bpr {
                    dp -= dn;
                }
                let dn = dn * scale as f32;
                math::add_scaled(dh, dn, vector(negative));
                into.items.add(negative as usize, dn, h)?;
            }
            let dp = dp * scale as f32;
            math::add_scaled(dh, dp, vector(target));
            into.items.add(target as usize, dp, h)?;
        }
        Ok(scale * sum)
    }

    fn shared_loss(
        &self,
        positions: &Positions<'_>,
        table: &[f32],
        scale: f64,
        into: Into<'_>,
        space: &mut Space<'_, f32>,
    ) -> Result<f64, NeuralError> {
        let Positions { h, targets, negatives } = *positions;
        let (rows, shared) = (targets.len(), negatives.len());
        let (width, wide) = (h.len() / rows.max(1), shared + 1);
        let mut space = space.scratch();
        let vectors = space.zeros(shared * width)?;
        for (vector, &item) in vectors.chunks_exact_mut(width).zip(negatives) {
            vector.copy_from_slice(&table[item as usize * width..][..width]);
        }
        // The score of the next item, then those of the negatives.
        let (scores, dscores) = (space.zeros(rows * wide)?, space.zeros(rows * wide)?);
        let (by_rows, vectors) = (Matrix::new(h, width)?, Matrix::new(vectors, width)?);
        let of_negatives = MatrixMut::strided(&mut scores[1..], rows, shared, wide)?;
        add_product_by_transposed(Arithmetic::Machine, by_rows, vectors, of_negatives)?;
        for ((scores, h), &target) in scores.chunks_exact_mut(wide).zip(h.chunks_exact(width)).zip(targets) {
            scores[0] = math::dot(h, &table[target as usize * width..][..width]);
            leave_out(&mut scores[1..], negatives, target);
        }
        let loss = match self.loss {
            Loss::CrossEntropy => {
                let classes = space.indices(rows)?;
                cross_entropy(scores, wide, classes, scale, Some(&mut *dscores))?
            }
            _ => self.gbce(scores, wide, table.len() / width, scale, dscores),
        };
        let of_negatives = Matrix::strided(&dscores[1..], rows, shared, wide)?;
        add_product(Arithmetic::Machine, of_negatives, vectors, MatrixMut::new(&mut *into.dh, width)?)?;
        let dvectors = space.zeros(shared * width)?;
        add_transposed_product(Arithmetic::Machine, of_negatives, by_rows, MatrixMut::new(&mut *dvectors, width)?)?;
        for (gradient, &item) in dvectors.chunks_exact(width).zip(negatives) {
            into.items.add(item as usize, 1.0, gradient)?;
        }
        let rows = into.dh.chunks_exact_mut(width).zip(h.chunks_exact(width)).zip(dscores.chunks_exact(wide));
        for (((dh, h), dscores), &target) in rows.zip(targets) {
            math::add_scaled(dh, dscores[0], &table[target as usize * width..][..width]);
            into.items.add(target as usize, dscores[0], h)?;
        }
        Ok(loss)
    }

    fn gbce(&self, scores: &[f32], wide: usize, items: usize, scale: f64, dscores: &mut [f32]) -> f64 {
        let fraction = (wide - 1) as f64 / items.saturating_sub(1).max(1) as f64;
        let power = fraction * (self.calibration * (1.0 - 1.0 / fraction) + 1.0 / fraction);
        let mut sum = 0.0;
        for (scores, dscores) in scores.chunks_exact(wide).zip(dscores.chunks_exact_mut(wide)) {
            sum += power * softplus(-scores[0]);
            dscores[0] = -(scale * power) as f32 * math::sigmoid(-scores[0]);
            for (&score, gradient) in scores[1..].iter().zip(&mut dscores[1..]) {
                sum += softplus(score);
                *gradient = scale as f32 * math::sigmoid(score);
            }
        }
        scale * sum
    }
}

/// A score that changes neither a sum of exponentials nor a softplus.
const OUT: f32 = -1e4;

/// Leaves the next item out of the negatives.
fn leave_out(scores: &mut [f32], negatives: &[u32], target: u32) {
    for (score, &item) in scores.iter_mut().zip(negatives) {
        if item == target {
            *score = OUT;
        }
    }
}

/// ln(1 + e^x).
pub(super) fn softplus(x: f32) -> f64 {
    let x = f64::from(x);
    x.max(0.0) + math::ln(1.0 + math::exp(-x.abs()))
}
