//! The variational part of an autoencoder (Kingma and Welling 2014): how far a diagonal normal distribution is from the
//! standard one, and a sample of it that gradients pass through.
//!
//! ```text
//! KL(N(m, e^l) || N(0, 1)) = 1/2 sum (m^2 + e^l - 1 - l)        dm = m       dl = (e^l - 1) / 2
//! z = m + n e^(l/2),  n standard normal                         dm += dz     dl += dz n e^(l/2) / 2
//! ```

use super::expect_gradient;
use crate::error::{Result, expect_len, rows_of};
use crate::{Real, Space};
use sottovoce_core::Rng;

/// `factor *` the sum of divergences, given means and logarithms of variances; gradients are added to those of the two.
///
/// # Errors
/// If there is nothing, or lengths differ.
pub fn kl_gaussian<R: Real>(
    means: &[R],
    logs: &[R],
    factor: f64,
    gradients: Option<(&mut [R], &mut [R])>,
) -> Result<f64> {
    rows_of("means", means.len(), 1)?;
    expect_len("logarithms of variances", logs.len(), means.len())?;
    let (half, weight) = (R::of(0.5), R::of(factor));
    let term = |m: R, l: R| m * m + R::exp(l) - R::ONE - l;
    let sum: f64 = means.iter().zip(logs).map(|(&m, &l)| R::to_f64(term(m, l))).sum();
    if let Some((dm, dl)) = gradients {
        expect_gradient(Some(&mut *dm), means.len())?;
        expect_gradient(Some(&mut *dl), means.len())?;
        for n in 0..means.len() {
            dm[n] += weight * means[n];
            dl[n] += weight * half * (R::exp(logs[n]) - R::ONE);
        }
    }
    Ok(0.5 * factor * sum)
}

/// A sample z, and the deviations n e^(l/2) that its backward needs.
///
/// # Errors
/// If there is nothing, lengths differ, or the arena has not twice as many values left.
pub fn sample_gaussian<'a, R: Real>(
    means: &[R],
    logs: &[R],
    rng: &mut Rng,
    space: &mut Space<'a, R>,
) -> Result<(&'a mut [R], &'a mut [R])> {
    rows_of("means", means.len(), 1)?;
    expect_len("logarithms of variances", logs.len(), means.len())?;
    let (z, deviations) = (space.copy(means)?, space.take(means.len())?);
    for ((z, deviation), &log) in z.iter_mut().zip(deviations.iter_mut()).zip(logs) {
        *deviation = R::of(rng.normal()) * R::exp(R::of(0.5) * log);
        *z += *deviation;
    }
    Ok((z, deviations))
}

/// Adds a sample's gradient to those of means and logarithms of variances.
///
/// # Errors
/// If lengths differ.
pub fn sample_gaussian_backward<R: Real>(deviations: &[R], dz: &[R], dm: &mut [R], dl: &mut [R]) -> Result<()> {
    expect_len("gradient of a sample", dz.len(), deviations.len())?;
    expect_gradient(Some(&mut *dm), dz.len())?;
    expect_gradient(Some(&mut *dl), dz.len())?;
    let half = R::of(0.5);
    for n in 0..dz.len() {
        dm[n] += dz[n];
        dl[n] += dz[n] * deviations[n] * half;
    }
    Ok(())
}
