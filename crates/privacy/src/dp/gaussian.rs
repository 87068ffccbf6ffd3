//! The analytic Gaussian mechanism: B. Balle, Y.-X. Wang, "Improving the Gaussian Mechanism for Differential Privacy", ICML 2018.

use super::DpError;
use super::error::{delta as checked_delta, positive};
use super::normal::{bisect, cdf, ln_cdf};
use sottovoce_core::math;

/// The smallest delta for which Gaussian noise is (epsilon, delta)-private, by sensitivity / sigma (equation 6).
fn delta_of(epsilon: f64, ratio: f64) -> f64 {
    let (half, shift) = (0.5 * ratio, epsilon / ratio);
    (cdf(half - shift) - math::exp(epsilon + ln_cdf(-half - shift))).max(0.0)
}

/// The smallest epsilon for which Gaussian noise of `sigma` is (epsilon, delta)-private. `sensitivity` is L2.
///
/// # Errors
/// If a number is out of range.
pub(super) fn gaussian_epsilon(sigma: f64, delta: f64, sensitivity: f64) -> Result<f64, DpError> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Exact figure of the analytic Gaussian for 50 rounds of multiplier 2: sigma 2 / sqrt(50), delta 1e-6 (dp-accounting).
    #[test]
    fn epsilon_equals_the_reference() {
        let sigma = 2.0 / 50f64.sqrt();
        assert!((gaussian_epsilon(sigma, 1e-6, 1.0).unwrap() - 22.424_516).abs() < 1e-6);
        assert!(gaussian_epsilon(1.0, 1.0, 1.0).unwrap_err().to_string().contains("delta is 1"));
        assert!(gaussian_epsilon(1.0, 0.1, 0.0).unwrap_err().to_string().contains("sensitivity is 0"));
    }

    proptest! {
        #[test]
        fn epsilon_and_delta_are_inverse(log in -12.0..-1.0f64, sigma in 0.3..10.0f64, sensitivity in 0.1..3.0f64) {
            let delta = 10f64.powf(log);
            let epsilon = gaussian_epsilon(sigma, delta, sensitivity).unwrap();
            let back = delta_of(epsilon, sensitivity / sigma);
            prop_assert!(epsilon == 0.0 || back <= delta * (1.0 + 1e-9) && back > delta * 0.999, "{back} {delta}");
        }
    }
}
