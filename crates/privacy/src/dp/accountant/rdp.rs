//! Rényi differential privacy of one round, and from it to epsilon.
//!
//! I. Mironov, K. Talwar, L. Zhang, "Rényi Differential Privacy of the Sampled Gaussian Mechanism", 2019, for Poisson sampling
//! at integer (section 3.3) and fractional (3.3, infinite series) orders; Y.-X. Wang, B. Balle, S. Kasiviswanathan, "Subsampled Rényi
//! Differential Privacy and Analytical Moments Accountant", 2019, theorem 9, for fixed cohorts; I. Mironov, "Rényi
//! Differential Privacy", 2017, for Laplace noise, and Y. Zhu, Y.-X. Wang, "Poisson Subsampled Rényi Differential Privacy", 2019,
//! for that under Poisson sampling. Sums are kept as logarithms.

use super::round::Round;
use crate::dp::normal::ln_erfc;
use sottovoce_core::math;
use std::f64::consts::{LN_2, SQRT_2};

/// The logarithm of what may be left of a series whose sum is at least 1.
const LEAST: f64 = -32.0;

/// Orders at which the accounts are kept: dense where epsilon is usually decided, then sparse.
pub(super) fn orders() -> Vec<f64> {
    let fractional = (1..100).map(|x| 1.0 + f64::from(x) / 10.0);
    let whole = (11..64).chain([128, 256, 512, 1024]).map(f64::from);
    fractional.chain(whole).collect()
}

/// The Rényi divergence of order `alpha` that one round may cause.
pub(super) fn one(round: &Round, alpha: f64) -> f64 {
    match *round {
        Round::Poisson { rate, multiplier } if rate >= 1.0 => alpha / (2.0 * multiplier * multiplier),
        Round::Poisson { rate, multiplier } => poisson(rate, multiplier, alpha),
        Round::FixedCohort { cohort, population, multiplier } => {
            fixed(cohort as f64 / population as f64, multiplier, alpha)
        }
        Round::Laplace { rate, scale } if rate >= 1.0 => laplace(scale, alpha),
        Round::Laplace { rate, scale } => sampled_laplace(rate, scale, alpha),
    }
}

fn poisson(rate: f64, sigma: f64, alpha: f64) -> f64 {
    let log_a = if alpha.fract() == 0.0 { log_a_whole(rate, sigma, alpha) } else { log_a_fraction(rate, sigma, alpha) };
    // Not below 0 by rounding.
    (log_a / (alpha - 1.0)).max(0.0)
}

/// ln sum_k C(alpha, k) q^k (1 - q)^(alpha - k) e^((k^2 - k) / (2 sigma^2))
fn log_a_whole(q: f64, sigma: f64, alpha: f64) -> f64 {
    log_binomial(q, alpha, |k| (k * k - k) / (2.0 * sigma * sigma))
}

/// ln sum_k C(alpha, k) q^k (1 - q)^(alpha - k) e^moment(k), alpha whole.
fn log_binomial(q: f64, alpha: f64, moment: impl Fn(f64) -> f64) -> f64 {
    let (ln_q, ln_p) = (math::ln(q), libm::log1p(-q));
    (0..=alpha as u32).map(f64::from).fold(f64::NEG_INFINITY, |sum, k| {
        let term = ln_choose(alpha, k) + k * ln_q + (alpha - k) * ln_p + moment(k);
        ln_sum(sum, term)
    })
}

/// The two series of the integral left and right of z0, where both densities meet.
fn log_a_fraction(q: f64, sigma: f64, alpha: f64) -> f64 {
    let (ln_q, ln_p) = (math::ln(q), libm::log1p(-q));
    let z0 = sigma * sigma * (ln_p - ln_q) + 0.5;
    let (mut positive, mut negative) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
    // The generalised binomial coefficient C(alpha, i), by its logarithm and sign.
    let (mut ln_choose, mut sign) = (0.0, 1.0);
    for i in (0..100_000).map(f64::from) {
        let j = alpha - i;
        let left = ln_choose + i * ln_q + j * ln_p + (i * i - i) / (2.0 * sigma * sigma) - LN_2
            + ln_erfc((i - z0) / (SQRT_2 * sigma));
        let right = ln_choose + j * ln_q + i * ln_p + (j * j - j) / (2.0 * sigma * sigma) - LN_2
            + ln_erfc((z0 - j) / (SQRT_2 * sigma));
        // From i > alpha on the terms alternate and fall like i^-(alpha + 2): half of the last one ends the series with an error
        // that is smaller than it by a factor of about (alpha + 2) / (4 i).
        let term = ln_sum(left, right);
        let last = i > alpha + 2.0 && term + math::ln((alpha + 2.0) / (4.0 * i)) < LEAST;
        let term = if last { term - LN_2 } else { term };
        let sum = if sign > 0.0 { &mut positive } else { &mut negative };
        *sum = ln_sum(*sum, term);
        if last {
            break;
        }
        ln_choose += math::ln(j.abs()) - math::ln(i + 1.0);
        sign *= j.signum();
    }
    ln_difference(positive, negative)
}

/// Theorem 9 for Gaussian noise (epsilon of order infinity is infinite), or no amplification where that is better.
/// Fractional orders take the next whole one: the divergence grows with the order.
fn fixed(share: f64, multiplier: f64, alpha: f64) -> f64 {
    let alpha = alpha.ceil();
    // Sensitivity 2: alpha 2^2 / (2 z^2).
    let plain = |order: f64| 2.0 * order / (multiplier * multiplier);
    if share >= 1.0 {
        return plain(alpha);
    }
    let ln_share = math::ln(share);
    let second = (4.0 * libm::expm1(plain(2.0))).min(2.0 * math::exp(plain(2.0)));
    let mut sum = ln_sum(0.0, 2.0 * ln_share + ln_choose(alpha, 2.0) + math::ln(second));
    for j in (3..=alpha as u32).map(f64::from) {
        sum = ln_sum(sum, j * ln_share + ln_choose(alpha, j) + (j - 1.0) * plain(j) + LN_2);
    }
    (sum / (alpha - 1.0)).min(plain(alpha))
}

fn laplace(scale: f64, alpha: f64) -> f64 {
    let near = math::ln(alpha / (2.0 * alpha - 1.0)) + (alpha - 1.0) / scale;
    let far = math::ln((alpha - 1.0) / (2.0 * alpha - 1.0)) - alpha / scale;
    (ln_sum(near, far) / (alpha - 1.0)).max(0.0)
}

/// As for Gaussian noise, with the moments (k - 1) rdp(k) of Laplace noise. Fractional orders take the next whole one.
fn sampled_laplace(rate: f64, scale: f64, alpha: f64) -> f64 {
    let alpha = alpha.ceil();
    let moment = |k: f64| if k < 2.0 { 0.0 } else { (k - 1.0) * laplace(scale, k) };
    (log_binomial(rate, alpha, moment) / (alpha - 1.0)).max(0.0)
}

/// The smallest epsilon at `delta` of a curve of divergences over [`orders`]: epsilon = rdp + ln(1 - 1 / alpha) -
/// ln(delta alpha) / (alpha - 1) (Canonne, Kamath, Steinke 2020, proposition 12).
pub(super) fn epsilon(orders: &[f64], curve: &[f64], delta: f64) -> f64 {
    let at = |(alpha, rdp): (&f64, &f64)| rdp + libm::log1p(-1.0 / alpha) - math::ln(delta * alpha) / (alpha - 1.0);
    orders.iter().zip(curve).map(at).fold(f64::INFINITY, f64::min).max(0.0)
}

fn ln_choose(n: f64, k: f64) -> f64 {
    libm::lgamma(n + 1.0) - libm::lgamma(k + 1.0) - libm::lgamma(n - k + 1.0)
}

/// ln(e^a + e^b)
pub(super) fn ln_sum(a: f64, b: f64) -> f64 {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    if low == f64::NEG_INFINITY { high } else { high + libm::log1p(math::exp(low - high)) }
}

/// ln(e^a - e^b) for a > b; infinite, which promises nothing, if rounding has eaten the difference.
fn ln_difference(a: f64, b: f64) -> f64 {
    if b == f64::NEG_INFINITY {
        a
    } else if a > b {
        a + libm::log1p(-math::exp(b - a))
    } else {
        f64::INFINITY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-5, "{found} instead of {expected}");
    }

    /// Figures of dp-accounting (Google), Poisson-subsampled Gaussian.
    #[test]
    fn one_step_equals_the_reference() {
        for (alpha, rdp) in [(2.0, 1.718134221e-4), (8.0, 8.936439076e-4), (32.0, 11.24627594)] {
            close(poisson(0.01, 1.0, alpha), rdp);
        }
    }

    #[test]
    fn epsilon_equals_the_reference_for_integer_orders() {
        let orders: Vec<f64> = (2..=256).map(f64::from).collect();
        for (q, sigma, steps, delta, expected) in [
            (0.01, 1.0, 1000.0, 1e-5, 2.107753),
            (0.1, 0.3, 100.0, 1e-5, 660.868573),
            (1.0, 2.0, 50.0, 1e-6, 24.702984),
        ] {
            let round = Round::Poisson { rate: q, multiplier: sigma };
            let curve: Vec<f64> = orders.iter().map(|&a| steps * one(&round, a)).collect();
            close(epsilon(&orders, &curve, delta), expected);
        }
    }

    #[test]
    fn fractional_orders_lie_between_whole_ones() {
        for (q, sigma) in [(0.01, 1.0), (0.3, 0.7), (0.001, 3.0), (0.5, 5.0), (0.95, 1.0)] {
            for alpha in [2.0, 3.0, 7.0, 10.0] {
                let at = |a| poisson(q, sigma, a);
                assert!(at(alpha) <= at(alpha + 0.5) && at(alpha + 0.5) <= at(alpha + 1.0), "{q} {sigma} {alpha}");
                assert!(at(alpha + 0.5) <= (alpha + 0.5) / (2.0 * sigma * sigma), "sampling never costs");
                // Continuous at whole orders, though the formulas are others.
                assert!((log_a_fraction(q, sigma, alpha + 1e-7) / log_a_whole(q, sigma, alpha) - 1.0).abs() < 1e-4);
            }
        }
    }

    #[test]
    fn fixed_cohorts_are_never_worse_than_all_and_never_better_than_poisson() {
        for share in [0.001, 0.01, 0.1] {
            for alpha in [2.0, 4.0, 16.0] {
                let amplified = fixed(share, 4.0, alpha);
                assert!(amplified < fixed(1.0, 4.0, alpha));
                assert!(amplified > poisson(share, 4.0, alpha));
            }
        }
        // Order 2 by hand: ln(1 + 0.01^2 4 (e^(4 / 16) - 1)).
        let by_hand = (1.0 + 1e-4 * 4.0 * (0.25f64.exp() - 1.0)).ln();
        assert!((fixed(0.01, 4.0, 2.0) / by_hand - 1.0).abs() < 1e-9);
    }

    /// The divergence of Laplace noise by numerical integration.
    #[test]
    fn laplace_equals_its_integral() {
        let (scale, alpha) = (1.5f64, 3.5f64);
        let step = 1e-3;
        let density = |x: f64| (-x.abs() / scale).exp() / (2.0 * scale);
        let sum: f64 = (-60_000..60_000)
            .map(|n| (f64::from(n) + 0.5) * step)
            .map(|x| density(x).powf(alpha) * density(x - 1.0).powf(1.0 - alpha) * step)
            .sum();
        close(laplace(scale, alpha), sum.ln() / (alpha - 1.0));
        // At large orders it is the pure epsilon.
        assert!((laplace(scale, 1e6) - 1.0 / scale).abs() < 1e-4);
    }

    /// With the person against without by numerical integration, which is the worse of the two.
    #[test]
    fn sampled_laplace_equals_its_integral() {
        for (q, scale, alpha) in [(0.1, 1.5f64, 3.0), (0.3, 0.7, 2.0), (0.02, 4.0, 8.0), (0.5, 1.0, 5.0)] {
            let step = 1e-3;
            let density = |x: f64| (-x.abs() / scale).exp() / (2.0 * scale);
            let (mut with, mut without) = (0.0, 0.0);
            for x in (-100_000..100_000).map(|n| (f64::from(n) + 0.5) * step) {
                let (one, other) = ((1.0 - q) * density(x) + q * density(x - 1.0), density(x));
                with += one.powf(alpha) * other.powf(1.0 - alpha) * step;
                without += other.powf(alpha) * one.powf(1.0 - alpha) * step;
            }
            let found = sampled_laplace(q, scale, alpha);
            close(found, with.ln() / (alpha - 1.0));
            assert!(without < with && found < laplace(scale, alpha));
            assert_eq!(sampled_laplace(q, scale, alpha - 0.5), found);
        }
    }
}
