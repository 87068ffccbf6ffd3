//! Squared error.
//!
//! ```text
//! sum of (x - t)^2       dx = 2 (x - t)
//! ```

use super::expect_gradient;
use crate::Real;
use crate::error::{Result, expect_len, rows_of};

/// `factor *` the sum of squared differences.
///
/// # Errors
/// If there is nothing, or lengths differ.
pub fn mse<R: Real>(x: &[R], targets: &[R], factor: f64, mut dx: Option<&mut [R]>) -> Result<f64> {
    rows_of("values", x.len(), 1)?;
    expect_len("targets", targets.len(), x.len())?;
    expect_gradient(dx.as_deref_mut(), x.len())?;
    let sum: f64 = x.iter().zip(targets).map(|(&x, &t)| R::to_f64((x - t) * (x - t))).sum();
    if let Some(dx) = dx {
        let twice = R::of(2.0 * factor);
        for ((dx, &x), &target) in dx.iter_mut().zip(x).zip(targets) {
            *dx += twice * (x - target);
        }
    }
    Ok(factor * sum)
}
