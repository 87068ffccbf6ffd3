//! Binary cross-entropy of logits.
//!
//! ```text
//! sum of softplus(x) - x t,  with softplus(x) = ln(1 + e^x) = max(x, 0) + ln(1 + e^-|x|)       dx = sigma(x) - t
//! ```
//! The logarithms of the second part are one logarithm of a product.

use super::expect_gradient;
use crate::error::{Result, expect_len, rows_of};
use crate::kernels::{LogProduct, kernel};
use crate::{Real, SparseRows};

/// `factor *` the sum of binary cross-entropies of logits x and targets t within [0, 1].
///
/// # Errors
/// If there is nothing, or lengths differ.
pub fn bce_with_logits<R: Real>(x: &[R], targets: &[R], factor: f64, dx: Option<&mut [R]>) -> Result<f64> {
    let mut dx = dx;
    rows_of("logits", x.len(), 1)?;
    expect_len("targets", targets.len(), x.len())?;
    expect_gradient(dx.as_deref_mut(), x.len())?;
    let mut sum = sum_softplus(x, R::of(factor), dx.as_deref_mut());
    for (&x, &target) in x.iter().zip(targets) {
        sum -= R::to_f64(x * target);
    }
    if let Some(dx) = dx {
        let factor = R::of(factor);
        for (dx, &target) in dx.iter_mut().zip(targets) {
            *dx -= factor * target;
        }
    }
    Ok(factor * sum)
}

/// The same with targets that are mostly zero.
///
/// # Errors
/// If the logits are not as many rows of the same width.
pub fn bce_with_logits_sparse<R: Real>(
    x: &[R],
    targets: &SparseRows<'_, R>,
    factor: f64,
    dx: Option<&mut [R]>,
) -> Result<f64> {
    let mut dx = dx;
    let width = targets.width();
    expect_len("rows of logits", rows_of("logits", x.len(), width)?, targets.rows())?;
    expect_gradient(dx.as_deref_mut(), x.len())?;
    let mut sum = sum_softplus(x, R::of(factor), dx.as_deref_mut());
    for row in 0..targets.rows() {
        for (column, target) in targets.row(row) {
            let index = row * width + column;
            sum -= R::to_f64(x[index] * target);
            if let Some(dx) = &mut dx {
                dx[index] -= R::of(factor) * target;
            }
        }
    }
    Ok(factor * sum)
}

kernel! {
    /// The sum of softplus(x); adds `factor * sigma(x)` to the gradient.
    fn sum_softplus<'s, R>(x: &'s [R], factor: R, dx: Option<&'s mut [R]>) -> f64 {
        let (mut positive, mut product) = ([0.0; 8], LogProduct::new());
        let mut none = [R::ZERO; 0];
        let dx = dx.unwrap_or(&mut none);
        let (blocks, rest) = x.as_chunks::<8>();
        let (dx_blocks, dx_rest) = dx.as_chunks_mut::<8>();
        let mut dx_blocks = dx_blocks.iter_mut();
        for x in blocks {
            let sigma = softplus(x, &mut positive, &mut product);
            if let Some(dx) = dx_blocks.next() {
                for lane in 0..8 {
                    dx[lane] += factor * sigma[lane];
                }
            }
        }
        if !rest.is_empty() {
            // Lanes that are left over would add ln 2 each; so far below 0, they add nothing.
            let mut x = [R::of(-80.0); 8];
            x[..rest.len()].copy_from_slice(rest);
            let sigma = softplus(&x, &mut positive, &mut product);
            for (dx, sigma) in dx_rest.iter_mut().zip(sigma) {
                *dx += factor * sigma;
            }
        }
        positive.iter().sum::<f64>() + product.logarithm()
    }
}

/// Eight at a time: adds max(x, 0) and multiplies by 1 + e^-|x|; returns sigma(x).
#[inline(always)]
fn softplus<R: Real>(x: &[R; 8], positive: &mut [f64; 8], product: &mut LogProduct) -> [R; 8] {
    let (mut factors, mut sigma) = ([R::ONE; 8], [R::ZERO; 8]);
    for lane in 0..8 {
        let e = R::exp(-R::abs(x[lane]));
        factors[lane] = R::ONE + e;
        let small = e / factors[lane];
        sigma[lane] = if x[lane] < R::ZERO { small } else { R::ONE - small };
        positive[lane] += R::to_f64(if x[lane] < R::ZERO { R::ZERO } else { x[lane] });
    }
    product.multiply(&factors);
    sigma
}
