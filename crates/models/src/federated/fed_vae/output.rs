//! The output layer: a row and a bias for each item of the catalog, gone through twice a step.

use sottovoce_core::{SimdKernel, math, simd_dispatch};

/// Scores of all items: rows end with the item's bias.
pub(super) struct Scoring<'a> {
    /// Rows as given, and what this device changed in them so far; empty before its first step.
    pub(super) rows: &'a [f32],
    pub(super) changes: &'a [f32],
    pub(super) code: &'a [f32],
    pub(super) into: &'a mut [f32],
}

impl SimdKernel for Scoring<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Scoring { rows, changes, code, into } = self;
        let width = code.len() + 1;
        for (score, row) in into.iter_mut().zip(rows.chunks_exact(width)) {
            *score = math::dot(&row[..width - 1], code) + row[width - 1];
        }
        for (score, row) in into.iter_mut().zip(changes.chunks_exact(width)) {
            *score += math::dot(&row[..width - 1], code) + row[width - 1];
        }
    }
}

/// A step down the gradient of the scores: changes rows, and collects the gradient of the code.
pub(super) struct Stepping<'a> {
    pub(super) rows: &'a [f32],
    pub(super) changes: &'a mut [f32],
    /// Whether changes were made before.
    pub(super) changed: bool,
    pub(super) code: &'a [f32],
    pub(super) gradients: &'a [f32],
    pub(super) rate: f32,
    pub(super) back: &'a mut [f32],
}

impl SimdKernel for Stepping<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Stepping { rows, changes, changed, code, gradients, rate, back } = self;
        let width = code.len() + 1;
        for ((row, change), &gradient) in rows.chunks_exact(width).zip(changes.chunks_exact_mut(width)).zip(gradients) {
            math::add_scaled(back, gradient, &row[..width - 1]);
            if changed {
                math::add_scaled(back, gradient, &change[..width - 1]);
            }
            math::add_scaled(&mut change[..width - 1], -rate * gradient, code);
            change[width - 1] -= rate * gradient;
        }
    }
}

pub(super) fn score(work: Scoring<'_>) {
    simd_dispatch(work);
}

pub(super) fn step(work: Stepping<'_>) {
    simd_dispatch(work);
}

/// Turns scores into the gradient of `- sum over the history's items of ln softmax`; returns that sum.
pub(super) fn multinomial(scores: &mut [f32], history: &[u32]) -> f64 {
    let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let own: f64 = history.iter().map(|&item| f64::from(scores[item as usize] - largest)).sum();
    scores.iter_mut().for_each(|score| *score = math::exp_f32(*score - largest));
    let sum: f64 = scores.iter().map(|&score| f64::from(score)).sum();
    let share = (history.len() as f64 / sum) as f32;
    scores.iter_mut().for_each(|score| *score *= share);
    history.iter().for_each(|&item| scores[item as usize] -= 1.0);
    history.len() as f64 * math::ln(sum) - own
}
