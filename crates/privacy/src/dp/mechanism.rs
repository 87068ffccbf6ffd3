//! How much noise a promise needs, and the exponential mechanism.

use super::bernoulli::{bernoulli_exp_ratio, below};
use super::error::{check, delta as checked_delta, positive};
use super::normal::{bisect, cdf, ln_cdf};
use super::{DpError, error};
use crate::SecureRng;
use sottovoce_core::math;

/// The scale of Laplace noise that gives epsilon, for a value that one person moves by at most `sensitivity` (L1).
///
/// # Errors
/// If a number is not finite and above 0.
pub fn laplace_scale(sensitivity: f64, epsilon: f64) -> Result<f64, DpError> {
    Ok(positive("sensitivity", sensitivity)? / positive("epsilon", epsilon)?)
}

/// The smallest delta for which Gaussian noise of `sigma` is (epsilon, delta)-private: equation 6 of B. Balle, Y.-X. Wang,
/// "Improving the Gaussian Mechanism for Differential Privacy", ICML 2018. `sensitivity` is L2.
///
/// # Errors
/// If a number is out of range.
pub fn gaussian_delta(epsilon: f64, sigma: f64, sensitivity: f64) -> Result<f64, DpError> {
    check("epsilon", epsilon, "a finite number, 0 or more", |v| v >= 0.0)?;
    let ratio = positive("sensitivity", sensitivity)? / positive("sigma", sigma)?;
    Ok(delta_of(epsilon, ratio))
}

/// [`gaussian_delta`] by sensitivity / sigma.
fn delta_of(epsilon: f64, ratio: f64) -> f64 {
    let (half, shift) = (0.5 * ratio, epsilon / ratio);
    (cdf(half - shift) - math::exp(epsilon + ln_cdf(-half - shift))).max(0.0)
}

/// The smallest sigma for which Gaussian noise is (epsilon, delta)-private (analytic calibration, to 1e-12 relative, rounded up).
///
/// # Errors
/// If a number is out of range.
pub fn gaussian_sigma(epsilon: f64, delta: f64, sensitivity: f64) -> Result<f64, DpError> {
    check("epsilon", epsilon, "a finite number, 0 or more", |v| v >= 0.0)?;
    checked_delta(delta)?;
    positive("sensitivity", sensitivity)?;
    // In the logarithm of sigma / sensitivity: delta falls as it grows.
    let found = bisect(-20.0, 40.0, 60, |log| delta_of(epsilon, math::exp(-log)) > delta);
    Ok(sensitivity * math::exp(found))
}

/// The smallest epsilon for which Gaussian noise of `sigma` is (epsilon, delta)-private.
///
/// # Errors
/// If a number is out of range.
pub fn gaussian_epsilon(sigma: f64, delta: f64, sensitivity: f64) -> Result<f64, DpError> {
    checked_delta(delta)?;
    let ratio = positive("sensitivity", sensitivity)? / positive("sigma", sigma)?;
    if delta_of(0.0, ratio) <= delta {
        return Ok(0.0);
    }
    let mut high = 1.0;
    while delta_of(high, ratio) > delta {
        high *= 2.0;
    }
    Ok(bisect(0.0, high, 60, |epsilon| delta_of(epsilon, ratio) > delta))
}

/// Steps of a score within one sensitivity.
const STEPS: f64 = (1u64 << 20) as f64;
const EPSILON_STEPS: f64 = (1u64 << 20) as f64;

/// The exponential mechanism (McSherry & Talwar 2007): an index, with probability proportional to
/// e^(epsilon score / (2 sensitivity)), where one person moves any score by at most `sensitivity`.
///
/// A uniform candidate is kept with probability e^-x, x how far its score is below the best, until one is: so no weight is ever
/// added up or rounded. Scores are first put on a grid of 2^-20 sensitivities; two steps more of sensitivity make up for that
/// rounding, and epsilon is rounded down, so that the promise holds exactly. Expected draws: at most one for each score.
///
/// # Errors
/// If there is no score, a score is not finite or further than 2^29 sensitivities from 0, or epsilon is not from
/// 2^-20 to 2^20.
pub fn exponential(
    generator: &mut SecureRng,
    scores: &[f64],
    sensitivity: f64,
    epsilon: f64,
) -> Result<usize, DpError> {
    positive("sensitivity", sensitivity)?;
    check("epsilon", epsilon, "from 2^-20 to 2^20", |v| (1.0 / STEPS..=STEPS).contains(&v))?;
    let steps = scores.iter().map(|&s| on_grid(s, sensitivity)).collect::<Result<Vec<_>, _>>()?;
    let best = *steps.iter().max().ok_or(error::DpError::Length {
        what: "the list of scores",
        found: 0,
        expected: 1,
    })?;
    let slope = (epsilon * EPSILON_STEPS).floor() as u128;
    let unit = 2 * (STEPS as u128 + 2) * EPSILON_STEPS as u128;
    loop {
        let chosen = below(generator, steps.len() as u64) as usize;
        let behind = u128::from(best.abs_diff(steps[chosen]));
        if bernoulli_exp_ratio(generator, behind * slope, unit) {
            return Ok(chosen);
        }
    }
}

/// Below 2^49 steps, so that the division's own rounding is less than one of them.
fn on_grid(score: f64, sensitivity: f64) -> Result<i64, DpError> {
    let ratio = score / sensitivity;
    check("a score in sensitivities", ratio, "between -2^29 and 2^29", |v| v.abs() < (1u64 << 29) as f64)?;
    Ok((ratio * STEPS).round() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Exact figure of the analytic Gaussian for 50 rounds of multiplier 2: sigma 2 / sqrt(50), delta 1e-6 (dp-accounting).
    #[test]
    fn the_analytic_gaussian_is_exact() {
        let sigma = 2.0 / 50f64.sqrt();
        assert!((gaussian_epsilon(sigma, 1e-6, 1.0).unwrap() - 22.424_516).abs() < 1e-6);
        // Better than the classical sqrt(2 ln(1.25 / delta)) / epsilon.
        let sigma = gaussian_sigma(1.0, 1e-5, 1.0).unwrap();
        assert!((3.73..3.74).contains(&sigma), "{sigma}");
        assert_eq!(laplace_scale(3.0, 2.0).unwrap(), 1.5);
    }

    proptest! {
        #[test]
        fn sigma_and_delta_are_inverse(epsilon in 0.01..20.0f64, log in -12.0..-1.0f64, sensitivity in 0.1..10.0f64) {
            let delta = 10f64.powf(log);
            let sigma = gaussian_sigma(epsilon, delta, sensitivity).unwrap();
            let back = gaussian_delta(epsilon, sigma, sensitivity).unwrap();
            prop_assert!(back <= delta * (1.0 + 1e-9) && back > delta * 0.999_999, "{back} {delta}");
            prop_assert!((gaussian_epsilon(sigma, delta, sensitivity).unwrap() / epsilon - 1.0).abs() < 1e-6);
        }
    }

    #[test]
    fn the_exponential_mechanism_has_its_probabilities() {
        let mut generator = SecureRng::new([5; 32]);
        let scores = [0.0, 1.0, 3.0, 2.5, -40.0];
        let (sensitivity, epsilon, draws) = (0.5, 0.7, 100_000);
        let mut seen = [0u32; 5];
        for _ in 0..draws {
            seen[exponential(&mut generator, &scores, sensitivity, epsilon).unwrap()] += 1;
        }
        let weights = scores.map(|s: f64| (epsilon * s / (2.0 * sensitivity)).exp());
        let sum: f64 = weights.iter().sum();
        for (count, weight) in seen.iter().zip(weights) {
            let p = weight / sum;
            let spread = (p * (1.0 - p) * f64::from(draws)).sqrt();
            assert!((f64::from(*count) - p * f64::from(draws)).abs() < 5.0 * spread + 1.0, "{seen:?}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        let generator = &mut SecureRng::new([6; 32]);
        let message = |result: Result<usize, DpError>| result.unwrap_err().to_string();
        assert!(message(exponential(generator, &[], 1.0, 1.0)).contains("list of scores has 0"));
        assert!(
            message(exponential(generator, &[f64::NAN], 1.0, 1.0))
                .contains("a score in sensitivities is NaN")
        );
        assert!(message(exponential(generator, &[1.0], 0.0, 1.0)).contains("sensitivity is 0"));
        assert!(gaussian_sigma(1.0, 1.0, 1.0).unwrap_err().to_string().contains("delta is 1"));
        assert!(laplace_scale(1.0, f64::INFINITY).is_err());
    }
}
