//! The normal distribution far into its tails.

use sottovoce_core::math;
use std::f64::consts::{FRAC_1_SQRT_2, LN_2, PI};

/// P(N(0, 1) <= x).
pub(super) fn cdf(x: f64) -> f64 {
    0.5 * libm::erfc(-x * FRAC_1_SQRT_2)
}

/// ln P(N(0, 1) <= x), also where the probability is too small for a double.
pub(super) fn ln_cdf(x: f64) -> f64 {
    if x > -8.0 {
        return math::ln(libm::erfc(-x * FRAC_1_SQRT_2)) - LN_2;
    }
    // Mills' ratio as a continued fraction: P(N > a) = density(a) / (a + 1 / (a + 2 / (a + 3 / ...))).
    let a = -x;
    let fraction = (1..=60).rev().fold(a, |below, k| a + f64::from(k) / below);
    -0.5 * a * a - 0.5 * math::ln(2.0 * PI) - math::ln(fraction)
}

/// ln erfc(x).
pub(super) fn ln_erfc(x: f64) -> f64 {
    ln_cdf(-x * std::f64::consts::SQRT_2) + LN_2
}

/// P(a < N(0, 1) <= b), to a relative error that depends on b - a alone, also in the tails.
pub(super) fn between(a: f64, b: f64) -> f64 {
    if a > 0.0 { cdf(-a) - cdf(-b) } else { cdf(b) - cdf(a) }
}

/// The x for which P(N(0, 1) > x) is `tail`, to 1e-9; for tails from e^-700 to 1/2.
pub(super) fn upper_quantile(tail: f64) -> f64 {
    let target = math::ln(tail);
    bisect(0.0, 40.0, 45, |x| ln_cdf(-x) > target)
}

/// Where `low_side` turns from true to false between two points: the upper end after so many halvings.
pub(super) fn bisect(mut low: f64, mut high: f64, halvings: u32, low_side: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..halvings {
        let middle = 0.5 * (low + high);
        if low_side(middle) { low = middle } else { high = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figures from tables of the normal distribution (Abramowitz and Stegun, 26.2).
    #[test]
    fn known_values() {
        for (x, p) in [(0.0, 0.5), (1.0, 0.841_344_746_068_543), (-3.0, 1.349_898_031_630_095e-3)] {
            assert!((cdf(x) / p - 1.0).abs() < 1e-13);
        }
        // log10 Q(10) = -23.11805, log10 Q(50) = -544.96634
        for (x, log10) in [(10.0, -23.118_05), (50.0, -544.966_34)] {
            assert!((ln_cdf(-x) / std::f64::consts::LN_10 - log10).abs() < 6e-6, "{}", ln_cdf(-x));
        }
        assert!((upper_quantile(0.025) - 1.959_963_984_540_054).abs() < 1e-9);
    }

    #[test]
    fn both_formulas_of_the_logarithm_meet() {
        assert!((ln_cdf(-8.0 - 1e-12) - ln_cdf(-8.0 + 1e-12)).abs() < 1e-10);
    }
}
