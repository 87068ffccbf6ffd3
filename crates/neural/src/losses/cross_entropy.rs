//! Cross-entropy of softmax, against one class a row or against several.
//!
//! ```text
//! one class c       ln(sum_j e^x_j) - x_c                        dx = softmax(x) - [j = c]
//! counts t          sum_j t_j (ln(sum_k e^x_k) - x_j)            dx = (sum t) softmax(x) - t
//! ```
//! The second is the multinomial likelihood of MultiVAE (Liang et al. 2018) without its constant.

use super::expect_gradient;
use crate::error::{Result, expect_len, rows_of};
use crate::kernels::{kernel, largest};
use crate::{NeuralError, Real, SparseRows};
use sottovoce_core::math;

/// `factor *` the sum over rows of logits of the cross-entropy with one class each.
///
/// # Errors
/// If there is not a class below `width` for each row.
pub fn cross_entropy<R: Real>(
    x: &[R],
    width: usize,
    classes: &[u32],
    factor: f64,
    mut dx: Option<&mut [R]>,
) -> Result<f64> {
    expect_len("classes", classes.len(), rows_of("logits", x.len(), width)?)?;
    expect_gradient(dx.as_deref_mut(), x.len())?;
    if let Some(&class) = classes.iter().find(|&&class| class as usize >= width) {
        return Err(NeuralError::Index("class", class as usize, width));
    }
    Ok(sum_rows(x, width, factor, dx, |row| [(classes[row] as usize, R::ONE)].into_iter()))
}

/// `factor *` the sum over rows of logits of the cross-entropy with counts.
///
/// # Errors
/// If the logits are not as many rows of the same width as the counts.
pub fn multinomial<R: Real>(x: &[R], counts: &SparseRows<'_, R>, factor: f64, mut dx: Option<&mut [R]>) -> Result<f64> {
    let width = counts.width();
    expect_len("rows of logits", rows_of("logits", x.len(), width)?, counts.rows())?;
    expect_gradient(dx.as_deref_mut(), x.len())?;
    Ok(sum_rows(x, width, factor, dx, |row| counts.row(row)))
}

/// `factor *` the sum of the losses of all rows, given each row's counts.
fn sum_rows<R: Real, C: Iterator<Item = (usize, R)> + Clone>(
    x: &[R],
    width: usize,
    factor: f64,
    mut dx: Option<&mut [R]>,
    counts: impl Fn(usize) -> C,
) -> f64 {
    let mut sum = 0.0;
    for (row, x) in x.chunks_exact(width).enumerate() {
        let dx = dx.as_deref_mut().map(|dx| &mut dx[row * width..][..width]);
        sum += row_loss(x, counts(row), factor, dx);
    }
    factor * sum
}

fn row_loss<R: Real>(
    x: &[R],
    counts: impl Iterator<Item = (usize, R)> + Clone,
    factor: f64,
    dx: Option<&mut [R]>,
) -> f64 {
    let (most, sum) = exponentials(x);
    let logarithm = R::to_f64(most) + math::ln(R::to_f64(sum));
    let total = counts.clone().map(|(_, count)| count).sum::<R>();
    let loss = counts.clone().map(|(column, count)| R::to_f64(count) * (logarithm - R::to_f64(x[column]))).sum();
    if let Some(dx) = dx {
        let factor = R::of(factor);
        add_softmax(x, most, factor * total / sum, dx);
        for (column, count) in counts {
            dx[column] -= factor * count;
        }
    }
    loss
}

kernel! {
    /// The largest value and the sum of e^(x - largest).
    fn exponentials<'s, R>(x: &'s [R]) -> (R, R) {
        let most = largest(x);
        let (blocks, rest) = x.as_chunks::<8>();
        let mut lanes = [R::ZERO; 8];
        for block in blocks {
            for lane in 0..8 {
                lanes[lane] += R::exp(block[lane] - most);
            }
        }
        for (lane, &x) in rest.iter().enumerate() {
            lanes[lane] += R::exp(x - most);
        }
        (most, lanes.into_iter().sum())
    }
}

kernel! {
    /// `dx += scale e^(x - most)`.
    fn add_softmax<'s, R>(x: &'s [R], most: R, scale: R, dx: &'s mut [R]) {
        for (dx, &x) in dx.iter_mut().zip(x) {
            *dx += scale * R::exp(x - most);
        }
    }
}
