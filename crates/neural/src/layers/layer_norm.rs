//! Layer normalisation (Ba, Kiros, Hinton 2016).
//!
//! Each row by itself, with its mean m and variance v over w values:
//! ```text
//! n = (x - m) / sqrt(v + eps)       y = g n + b
//! dg += dy n     db += dy     with q = dy g:  dx += (q - mean(q) - n mean(q n)) / sqrt(v + eps)
//! ```

use crate::error::{Result, expect_len, rows_of};
use crate::kernels::{dots, kernel, sum};
use crate::{Init, Layout, Real, Role, Slot, Space};

/// Added to variances, as in PyTorch.
pub(crate) const EPSILON: f64 = 1e-5;

/// Normalises rows.
#[derive(Clone, Copy, Debug)]
pub struct LayerNorm {
    weight: Slot,
    bias: Slot,
    width: usize,
}

/// What backward needs of a [`LayerNorm`]'s forward.
#[derive(Debug)]
pub struct LayerNormTape<'a, R> {
    /// y.
    pub output: &'a mut [R],
    normalised: &'a mut [R],
    /// 1 / sqrt(v + eps) of each row.
    scales: &'a mut [R],
}

impl LayerNorm {
    /// Adds `name.weight` (ones) and `name.bias` (zeros) to a layout.
    ///
    /// # Errors
    /// If the width is 0 or the name is taken.
    pub fn new(layout: &mut Layout, name: &str, width: usize) -> Result<Self> {
        let weight = layout.add(format!("{name}.weight"), &[width], Role::Bias, Init::ONES)?;
        let bias = layout.add(format!("{name}.bias"), &[width], Role::Bias, Init::ZEROS)?;
        Ok(Self { weight, bias, width })
    }

    /// Values that a forward of so many rows takes from the arena.
    pub fn space(&self, rows: usize) -> usize {
        rows.saturating_mul(2 * self.width + 1)
    }

    /// y of each row.
    ///
    /// # Errors
    /// If x is not whole rows, or the arena or the parameters are too small.
    pub fn forward<'a, R: Real>(
        &self,
        parameters: &[R],
        x: &[R],
        space: &mut Space<'a, R>,
    ) -> Result<LayerNormTape<'a, R>> {
        let rows = rows_of("input of LayerNorm", x.len(), self.width)?;
        let (weight, bias) = (self.weight.of(parameters)?, self.bias.of(parameters)?);
        let mut tape =
            LayerNormTape { output: space.take(x.len())?, normalised: space.copy(x)?, scales: space.take(rows)? };
        normalise_rows(weight, bias, &mut tape);
        Ok(tape)
    }

    /// Adds the gradients of weight and bias, and of x where asked for.
    ///
    /// # Errors
    /// If lengths contradict each other.
    pub fn backward<R: Real>(
        &self,
        parameters: &[R],
        tape: &LayerNormTape<'_, R>,
        dy: &[R],
        gradients: &mut [R],
        dx: Option<&mut [R]>,
    ) -> Result<()> {
        expect_len("gradient of LayerNorm", dy.len(), tape.normalised.len())?;
        add_scale_and_shift((self.weight, self.bias), tape.normalised, dy, gradients)?;
        let Some(dx) = dx else { return Ok(()) };
        expect_len("gradient of LayerNorm's input", dx.len(), dy.len())?;
        add_row_gradients(self.weight.of(parameters)?, tape, dy, dx);
        Ok(())
    }
}

/// dg += dy n, db += dy, over rows.
pub(crate) fn add_scale_and_shift<R: Real>(
    (weight, bias): (Slot, Slot),
    normalised: &[R],
    dy: &[R],
    gradients: &mut [R],
) -> Result<()> {
    let dweight = weight.of_mut(gradients)?;
    for (n, dy) in normalised.chunks_exact(dweight.len()).zip(dy.chunks_exact(dweight.len())) {
        for k in 0..dweight.len() {
            dweight[k] += dy[k] * n[k];
        }
    }
    let dbias = bias.of_mut(gradients)?;
    for dy in dy.chunks_exact(dbias.len()) {
        for k in 0..dbias.len() {
            dbias[k] += dy[k];
        }
    }
    Ok(())
}

kernel! {
    fn normalise_rows<'s, 'a, R>(weight: &'s [R], bias: &'s [R], tape: &'s mut LayerNormTape<'a, R>) {
        let width = weight.len();
        let share = R::of(1.0 / width as f64);
        let rows = tape.normalised.chunks_exact_mut(width).zip(tape.output.chunks_exact_mut(width));
        for ((row, y), scale) in rows.zip(tape.scales.iter_mut()) {
            let mean = sum(row) * share;
            row.iter_mut().for_each(|value| *value -= mean);
            let [square] = dots(row, [&*row]);
            *scale = R::ONE / R::sqrt(square * share + R::of(EPSILON));
            for k in 0..width {
                row[k] *= *scale;
                y[k] = row[k] * weight[k] + bias[k];
            }
        }
    }
}

kernel! {
    fn add_row_gradients<'s, 'a, R>(weight: &'s [R], tape: &'s LayerNormTape<'a, R>, dy: &'s [R], dx: &'s mut [R]) {
        let width = weight.len();
        let share = R::of(1.0 / width as f64);
        let rows = tape.normalised.chunks_exact(width).zip(dy.chunks_exact(width));
        for ((n, dy), (dx, &scale)) in rows.zip(dx.chunks_exact_mut(width).zip(tape.scales.iter())) {
            let (mut mean, mut along) = (R::ZERO, R::ZERO);
            for k in 0..width {
                let q = dy[k] * weight[k];
                mean += q * share;
                along += q * n[k] * share;
            }
            for k in 0..width {
                dx[k] += scale * (dy[k] * weight[k] - mean - n[k] * along);
            }
        }
    }
}
