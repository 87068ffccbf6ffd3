//! Softmax over rows.
//!
//! ```text
//! y_i = e^(x_i - m) / sum_j e^(x_j - m),  m = max x        dx_i = y_i (dy_i - sum_j dy_j y_j)
//! ```

use crate::Real;
use crate::error::{Result, expect_len, rows_of};
use crate::kernels::{dots, kernel, largest, sum};

/// Replaces each row of this width by its softmax.
///
/// # Errors
/// If the values are not whole rows.
pub fn softmax<R: Real>(values: &mut [R], width: usize) -> Result<()> {
    rows_of("input of softmax", values.len(), width)?;
    softmax_rows(values, width);
    Ok(())
}

kernel! {
    fn softmax_rows<'v, R>(values: &'v mut [R], width: usize) {
        values.chunks_exact_mut(width).for_each(softmax_row);
    }
}

#[inline(always)]
pub(crate) fn softmax_row<R: Real>(row: &mut [R]) {
    let most = largest(row);
    for value in row.iter_mut() {
        *value = R::exp(*value - most);
    }
    let scale = R::ONE / sum(row);
    for value in row {
        *value *= scale;
    }
}

/// Replaces dy by dx, given y, row by row.
///
/// # Errors
/// If the two are not the same whole rows.
pub fn softmax_backward<R: Real>(y: &[R], gradient: &mut [R], width: usize) -> Result<()> {
    rows_of("output of softmax", y.len(), width)?;
    expect_len("gradient of softmax", gradient.len(), y.len())?;
    for (y, gradient) in y.chunks_exact(width).zip(gradient.chunks_exact_mut(width)) {
        softmax_row_backward(y, gradient);
    }
    Ok(())
}

#[inline(always)]
pub(crate) fn softmax_row_backward<R: Real>(y: &[R], gradient: &mut [R]) {
    let [mean] = dots(y, [&*gradient]);
    for (gradient, &y) in gradient.iter_mut().zip(y) {
        *gradient = y * (*gradient - mean);
    }
}
