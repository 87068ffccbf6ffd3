//! Bayesian personalised ranking (Rendle et al. 2009).
//!
//! ```text
//! sum of -ln sigma(p - n) = ln(1 + e^(n - p))       dp = -sigma(n - p)      dn = sigma(n - p)
//! ```
//! for scores p of items that a person has and n of items that they do not have.

use super::expect_gradient;
use crate::Real;
use crate::error::{Result, expect_len, rows_of};
use sottovoce_core::math;

/// `factor *` the sum over pairs of the ranking loss; gradients are added to those of the two scores.
///
/// # Errors
/// If there are no pairs, or lengths differ.
pub fn bpr<R: Real>(
    positive: &[R],
    negative: &[R],
    factor: f64,
    gradients: Option<(&mut [R], &mut [R])>,
) -> Result<f64> {
    rows_of("scores", positive.len(), 1)?;
    expect_len("scores of negative items", negative.len(), positive.len())?;
    let sum: f64 = positive.iter().zip(negative).map(|(&p, &n)| softplus(R::to_f64(n - p))).sum();
    if let Some((dp, dn)) = gradients {
        expect_gradient(Some(&mut *dp), positive.len())?;
        expect_gradient(Some(&mut *dn), positive.len())?;
        let factor = R::of(factor);
        for pair in 0..positive.len() {
            let slope = factor * R::sigmoid(negative[pair] - positive[pair]);
            dp[pair] -= slope;
            dn[pair] += slope;
        }
    }
    Ok(factor * sum)
}

/// ln(1 + e^x) without overflow.
fn softplus(x: f64) -> f64 {
    let positive = if x < 0.0 { 0.0 } else { x };
    positive + math::ln(1.0 + math::exp(-x.abs()))
}
