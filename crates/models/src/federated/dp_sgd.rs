//! DP-SGD on a device: each interaction's gradient is clipped, gradients are summed as integers, and the private model
//! gets noise.
//!
//! M. Abadi et al., "Deep Learning with Differential Privacy", CCS 2016. For the guarantee to hold for a whole
//! training, everything that an interaction moves must be clipped and get noise: the rows that leave, whose noise is
//! added when they are quantized, and the private model, on which later rounds depend. Negatives are therefore drawn
//! from the whole catalog, whether the user has an item or not, and each interaction is sampled independently.

use super::{TrainResult, TrainStats};
use crate::loss::Loss;
use sottovoce_core::math;
use sottovoce_protocol::{Policy, RowOrigin, Trained, UpdateError};
use std::ops::Range;

/// Subtracted from the clip, so that rounding errors cannot add up to more than it.
const SLACK: f64 = 1e-12;

/// How gradients are clipped, and the noise that hides single interactions.
pub struct DpSgd<'a> {
    /// Probability that the interaction with an item is sampled in this round.
    pub probability: &'a dyn Fn(u32) -> f64,
    /// The largest Euclidean norm of an interaction's gradient, over all that it moves.
    pub clip: f64,
    /// Quantization steps in 1.
    pub steps: f64,
    /// Adds noise to quantized sums that stay on the device.
    pub noise: &'a mut dyn FnMut(&mut [i64]),
}

impl DpSgd<'_> {
    /// The sampling probabilities of a device's interactions in a round, where one that is always disclosed has this
    /// rate. `fixed` is the seed of fixed disclosure; see [`Policy::disclosure_probability`].
    pub fn probabilities(rate: f64, policy: &Policy, fixed: u64) -> impl Fn(u32) -> f64 {
        move |item| rate * policy.disclosure_probability(item, fixed)
    }

    /// The factor that turns values of a gradient with this sum of squares into steps, to be truncated towards zero:
    /// the norm of the integers is then at most the clip.
    fn scale(&self, squares: f64) -> f64 {
        let norm = squares.sqrt();
        if norm <= self.clip * (1.0 - SLACK) {
            return self.steps * (1.0 - SLACK);
        }
        self.steps * (self.clip * (1.0 - SLACK) / norm)
    }

    /// A sum of steps as a value; sums beyond 24 bits are clamped, as they are in uploads.
    fn value(&self, sum: i64) -> f32 {
        (sum.clamp(-(1 << 24), 1 << 24) as f64 / self.steps) as f32
    }

    /// Adds noise to the sums of a private model's gradient and returns them as values.
    fn noised(&mut self, mut sums: Vec<i64>) -> Vec<f32> {
        (self.noise)(&mut sums);
        sums.into_iter().map(|sum| (sum as f64 / self.steps) as f32).collect()
    }
}

/// The gradient of one interaction: parts, each of which belongs to a row, the private model or a dense table.
#[derive(Default)]
pub(crate) struct Gradient {
    /// Values of the private model's part.
    pub(crate) private: Vec<f64>,
    /// Values of a dense table.
    pub(crate) dense: Vec<f64>,
    /// Rows, each once, and their values.
    rows: Vec<u32>,
    values: Vec<f64>,
}

impl Gradient {
    /// Resets it.
    pub(crate) fn clear(&mut self, private: usize, dense: usize) {
        self.rows.clear();
        self.values.clear();
        for (values, length) in [(&mut self.private, private), (&mut self.dense, dense)] {
            values.clear();
            values.resize(length, 0.0);
        }
    }

    /// The gradient of a row, to be added to.
    pub(crate) fn row(&mut self, row: u32, width: usize) -> &mut [f64] {
        let index = self.rows.iter().position(|&other| other == row).unwrap_or_else(|| {
            self.rows.push(row);
            self.values.resize(self.rows.len() * width, 0.0);
            self.rows.len() - 1
        });
        &mut self.values[index * width..][..width]
    }

    /// Makes some values of the private model's part those of a row, too.
    pub(crate) fn copy_to_row(&mut self, row: u32, of: Range<usize>) {
        let values = std::mem::take(&mut self.private);
        self.row(row, of.len()).copy_from_slice(&values[of]);
        self.private = values;
    }

    fn squares(&self) -> f64 {
        [&self.private, &self.dense, &self.values].into_iter().flatten().map(|value| value * value).sum()
    }
}

/// Sums of clipped gradients, in quantization steps.
pub(crate) struct Sums {
    width: usize,
    /// Rows, ascending, and their sums.
    rows: Vec<u32>,
    values: Vec<i64>,
    private: Vec<i64>,
    dense: Vec<i64>,
}

impl Sums {
    /// For rows of this width; `rows` are those that may be added, in any order.
    pub(crate) fn new(mut rows: Vec<u32>, width: usize, (private, dense): (usize, usize)) -> Self {
        rows.sort_unstable();
        rows.dedup();
        let values = vec![0; rows.len() * width];
        Self { width, rows, values, private: vec![0; private], dense: vec![0; dense] }
    }

    /// Clips a gradient and adds it.
    pub(crate) fn add(&mut self, gradient: &Gradient, dp_sgd: &DpSgd<'_>) {
        let scale = dp_sgd.scale(gradient.squares());
        let add = |sums: &mut [i64], values: &[f64]| {
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum += (value * scale) as i64;
            }
        };
        add(&mut self.private, &gradient.private);
        add(&mut self.dense, &gradient.dense);
        for (row, values) in gradient.rows.iter().zip(gradient.values.chunks_exact(self.width)) {
            if let Ok(index) = self.rows.binary_search(row) {
                add(&mut self.values[index * self.width..][..self.width], values);
            }
        }
    }

    /// Ends a round of an input with these interactions: moves the private model by its noised sums times `rate`, and
    /// writes the others `into` an update. Samples are all interactions that there are, taken or not.
    pub(crate) fn finish(
        mut self,
        dp_sgd: &mut DpSgd<'_>,
        (private, rate): (&mut [f32], f32),
        (history, hidden): (&[u32], &[u32]),
        loss: Loss,
        into: &mut Trained,
    ) -> TrainResult {
        for (p, change) in private.iter_mut().zip(dp_sgd.noised(std::mem::take(&mut self.private))) {
            *p += rate * change;
        }
        self.write_update(dp_sgd, hidden, into)?;
        let samples = history.len() as u64;
        into.set_samples(samples);
        Ok(TrainStats { samples, loss: loss.sum() })
    }

    /// Writes the sums `into` an update: rows in its first table, dense ones, if there are any, in its second. All rows
    /// are marked as other: the noise hides which items the user has, and which rows there are.
    fn write_update(&self, dp_sgd: &DpSgd<'_>, hidden: &[u32], into: &mut Trained) -> Result<(), UpdateError> {
        let values = |sums: &[i64]| sums.iter().map(|&sum| dp_sgd.value(sum)).collect::<Vec<f32>>();
        into.push_rows(0, &self.rows, &vec![RowOrigin::Other; self.rows.len()])?.copy_from_slice(&values(&self.values));
        // Rows of hidden items leave as decoys, as they do for users who do not have them.
        let decoys: Vec<u32> = self.rows.iter().copied().filter(|row| hidden.binary_search(row).is_ok()).collect();
        let rows = into.push_decoys(0, &decoys)?.chunks_exact_mut(self.width);
        for (decoy, index) in rows.zip(decoys.iter().filter_map(|row| self.rows.binary_search(row).ok())) {
            decoy.copy_from_slice(&values(&self.values[index * self.width..][..self.width]));
        }
        if !self.dense.is_empty() {
            into.copy_whole(1, &values(&self.dense))?;
        }
        Ok(())
    }
}

/// 1 / (1 + e^-x) of a difference of scores.
pub(crate) fn sigmoid(x: f64) -> f64 {
    f64::from(math::sigmoid(x as f32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop, prop_assert, proptest};

    proptest! {
        #[test]
        fn no_interaction_moves_sums_by_more_than_the_clip(
            values in prop::collection::vec(-30.0f64..30.0, 12), clip in 0.01f64..5.0, bits in 4u32..22,
        ) {
            let mut none = |_: &mut [i64]| ();
            let dp_sgd = DpSgd { probability: &|_| 1.0, clip, steps: f64::from(1 << bits), noise: &mut none };
            let mut gradient = Gradient::default();
            gradient.clear(3, 1);
            gradient.private.copy_from_slice(&values[..3]);
            gradient.dense.copy_from_slice(&values[3..4]);
            for (row, values) in [(5, &values[4..6]), (2, &values[6..8]), (5, &values[8..10]), (7, &values[10..])] {
                gradient.row(row, 2).iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
            }
            let mut sums = Sums::new(vec![7, 5, 2, 5, 9], 2, (3, 1));
            sums.add(&gradient, &dp_sgd);
            let all = [&sums.values[..], &sums.private, &sums.dense].concat();
            let squares: i128 = all.iter().map(|&sum| i128::from(sum).pow(2)).sum();
            prop_assert!(squares as f64 <= (clip * dp_sgd.steps).powi(2));
            // Gradients within the clip are not changed by more than a step.
            let norm = gradient.squares().sqrt();
            let length = (squares as f64).sqrt() / dp_sgd.steps;
            prop_assert!((length - norm.min(clip)).abs() <= 4.0 / dp_sgd.steps, "{length} {norm} {clip}");
        }
    }
}
