//! Batch normalisation (Ioffe and Szegedy 2015).
//!
//! Each column by itself, with mean m and variance v over the batch, or with the running ones:
//! ```text
//! n = (x - m) / sqrt(v + eps)       y = g n + b    dg += dy n    db += dy    with q = dy g and s = 1 / sqrt(v + eps):
//! batch statistics:    dx += s (q - mean(q) - n mean(q n))
//! running statistics:  dx += s q
//! running m += momentum (batch m - running m), the same for v, with the unbiased batch v
//! ```
//!
//! # One sample
//! A device that trains on one sample has no batch: its variance is 0 and every output would be b, whatever the input.
//! Batch statistics of one sample are therefore [an error](crate::NeuralError::BatchOfOne). What works is to normalise
//! by the running statistics, which are part of the flat buffer and so of the shared model, and to let every device say
//! what it saw: x as its mean and (x - running m)^2 as its variance. Both are unbiased, so their mean over a cohort is
//! what a batch of that cohort would have shown. [`BatchNorm::update_running`] moves the running statistics at once,
//! for local models that are averaged; [`BatchNorm::add_running_gradient`] puts the distance to them where their
//! gradients would be, for strategies that average gradients.

use super::layer_norm::{EPSILON, add_scale_and_shift};
use crate::error::{Result, expect_len, rows_of};
use crate::{Init, Layout, NeuralError, Real, Role, Slot, Space};

/// By what a [`BatchNorm`] normalises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statistics {
    /// Mean and variance of this batch; two samples or more.
    Batch,
    /// The running mean and variance, taken as constants: at inference, and in training on single samples.
    Running,
}

/// Normalises columns.
#[derive(Clone, Copy, Debug)]
pub struct BatchNorm {
    weight: Slot,
    bias: Slot,
    mean: Slot,
    variance: Slot,
    width: usize,
}

/// What backward needs of a [`BatchNorm`]'s forward.
#[derive(Debug)]
pub struct BatchNormTape<'a, R> {
    /// y.
    pub output: &'a mut [R],
    normalised: &'a mut [R],
    /// 1 / sqrt(v + eps) of each column.
    scales: &'a mut [R],
    /// What was seen: means, and unbiased variances.
    seen: &'a mut [R],
    statistics: Statistics,
}

impl BatchNorm {
    /// Adds `name.weight` (ones), `name.bias` (zeros), `name.mean` (zeros) and `name.variance` (ones) to a layout.
    ///
    /// # Errors
    /// If the width is 0 or the name is taken.
    pub fn new(layout: &mut Layout, name: &str, width: usize) -> Result<Self> {
        let mut add = |part: &str, role, init| layout.add(format!("{name}.{part}"), &[width], role, init);
        Ok(Self {
            weight: add("weight", Role::Bias, Init::ONES)?,
            bias: add("bias", Role::Bias, Init::ZEROS)?,
            mean: add("mean", Role::Statistic, Init::ZEROS)?,
            variance: add("variance", Role::Statistic, Init::ONES)?,
            width,
        })
    }

    /// Values that forward and backward of so many rows together take from the arena.
    pub fn space(&self, rows: usize) -> usize {
        rows.saturating_mul(2).saturating_add(5).saturating_mul(self.width)
    }

    /// y of a batch.
    ///
    /// # Errors
    /// If x is not whole rows, is one row and batch statistics are asked for, or the arena or the parameters are too
    /// small.
    pub fn forward<'a, R: Real>(
        &self,
        parameters: &[R],
        x: &[R],
        statistics: Statistics,
        space: &mut Space<'a, R>,
    ) -> Result<BatchNormTape<'a, R>> {
        let rows = rows_of("input of BatchNorm", x.len(), self.width)?;
        if rows == 1 && statistics == Statistics::Batch {
            return Err(NeuralError::BatchOfOne);
        }
        let (mean, variance) = (self.mean.of(parameters)?, self.variance.of(parameters)?);
        let seen = space.take(2 * self.width)?;
        see(x, mean, seen);
        let output = space.take(x.len())?;
        let normalised = space.copy(x)?;
        let scales = space.take(self.width)?;
        let (m, v) = seen.split_at(self.width);
        // Batches are normalised by their biased variance, and followed by the unbiased one.
        let (m, v, bias) = match statistics {
            Statistics::Batch => (m, v, R::of((rows - 1) as f64 / rows as f64)),
            Statistics::Running => (mean, variance, R::ONE),
        };
        for (scale, &v) in scales.iter_mut().zip(v) {
            *scale = R::ONE / R::sqrt(v * bias + R::of(EPSILON));
        }
        let (weight, bias) = (self.weight.of(parameters)?, self.bias.of(parameters)?);
        for (n, y) in normalised.chunks_exact_mut(self.width).zip(output.chunks_exact_mut(self.width)) {
            for k in 0..self.width {
                n[k] = (n[k] - m[k]) * scales[k];
                y[k] = n[k] * weight[k] + bias[k];
            }
        }
        Ok(BatchNormTape { output, normalised, scales, seen, statistics })
    }

    /// Adds the gradients of weight and bias, and of x where asked for.
    ///
    /// # Errors
    /// If lengths contradict each other or the arena is too small.
    pub fn backward<R: Real>(
        &self,
        parameters: &[R],
        tape: &BatchNormTape<'_, R>,
        dy: &[R],
        gradients: &mut [R],
        dx: Option<&mut [R]>,
        space: &mut Space<'_, R>,
    ) -> Result<()> {
        expect_len("gradient of BatchNorm", dy.len(), tape.normalised.len())?;
        add_scale_and_shift((self.weight, self.bias), tape.normalised, dy, gradients)?;
        let Some(dx) = dx else { return Ok(()) };
        expect_len("gradient of BatchNorm's input", dx.len(), dy.len())?;
        let mut space = space.scratch();
        let (mean, along) = (space.zeros(self.width)?, space.zeros(self.width)?);
        if tape.statistics == Statistics::Batch {
            self.project(tape, dy, mean, along);
        }
        let weight = self.weight.of(parameters)?;
        let rows = tape.normalised.chunks_exact(self.width).zip(dy.chunks_exact(self.width));
        for ((n, dy), dx) in rows.zip(dx.chunks_exact_mut(self.width)) {
            for k in 0..self.width {
                dx[k] += tape.scales[k] * weight[k] * (dy[k] - mean[k] - n[k] * along[k]);
            }
        }
        Ok(())
    }

    /// Means of dy and of dy n over the batch.
    fn project<R: Real>(&self, tape: &BatchNormTape<'_, R>, dy: &[R], mean: &mut [R], along: &mut [R]) {
        let share = R::of(self.width as f64 / dy.len() as f64);
        for (n, dy) in tape.normalised.chunks_exact(self.width).zip(dy.chunks_exact(self.width)) {
            for k in 0..self.width {
                mean[k] += dy[k] * share;
                along[k] += dy[k] * n[k] * share;
            }
        }
    }

    /// Moves the running statistics towards what a forward saw; PyTorch's momentum is 0.1.
    ///
    /// # Errors
    /// If the buffer is not this layer's, or the tape another's.
    pub fn update_running<R: Real>(
        &self,
        parameters: &mut [R],
        tape: &BatchNormTape<'_, R>,
        momentum: f64,
    ) -> Result<()> {
        let momentum = R::of(momentum);
        for (slot, seen) in self.seen(tape)? {
            for (running, &seen) in slot.of_mut(parameters)?.iter_mut().zip(seen) {
                *running += momentum * (seen - *running);
            }
        }
        Ok(())
    }

    /// The running statistics and what a forward saw of each.
    fn seen<'t, R: Real>(&self, tape: &'t BatchNormTape<'_, R>) -> Result<[(Slot, &'t [R]); 2]> {
        expect_len("statistics of BatchNorm", tape.seen.len(), 2 * self.width)?;
        let (mean, variance) = tape.seen.split_at(self.width);
        Ok([(self.mean, mean), (self.variance, variance)])
    }

    /// Adds (running - seen) where the gradients of the running statistics would be: a step of rate r then moves them
    /// by r towards what was seen, and gradients averaged over a cohort move them towards what the cohort saw.
    ///
    /// # Errors
    /// If a buffer is not this layer's, or the tape another's.
    pub fn add_running_gradient<R: Real>(
        &self,
        parameters: &[R],
        tape: &BatchNormTape<'_, R>,
        gradients: &mut [R],
    ) -> Result<()> {
        for (slot, seen) in self.seen(tape)? {
            let running = slot.of(parameters)?;
            for ((gradient, &running), &seen) in slot.of_mut(gradients)?.iter_mut().zip(running).zip(seen) {
                *gradient += running - seen;
            }
        }
        Ok(())
    }
}

/// Means and unbiased variances of columns; of a single row, itself and its squared distance to the running means.
fn see<R: Real>(x: &[R], running: &[R], seen: &mut [R]) {
    let width = running.len();
    let rows = x.len() / width;
    let (mean, variance) = seen.split_at_mut(width);
    mean.fill(R::ZERO);
    variance.fill(R::ZERO);
    let share = R::of(1.0 / rows as f64);
    for row in x.chunks_exact(width) {
        for k in 0..width {
            mean[k] += row[k] * share;
        }
    }
    let centre: &[R] = if rows == 1 { running } else { mean };
    let share = R::of(1.0 / (rows - 1).max(1) as f64);
    for row in x.chunks_exact(width) {
        for k in 0..width {
            let far = row[k] - centre[k];
            variance[k] += far * far * share;
        }
    }
}
