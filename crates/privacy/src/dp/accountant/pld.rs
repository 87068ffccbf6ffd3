//! The tight bound: privacy loss distributions on a grid, composed by Fourier transforms.
//!
//! A. Koskela, J. Jälkö, A. Honkela, "Computing Tight Differential Privacy Guarantees Using FFT", 2020; the grid as in
//! V. Doroshenko et al., "Connect the Dots: Tighter Discrete Approximations of Privacy Loss Distributions", 2022: the
//! mass between two grid points is divided between them so that its probability under *both* distributions is
//! preserved. That never underestimates the loss, and its error falls with the square of the grid's step. What lies
//! beyond the grid, or wraps around in the transform, is bounded and added to delta.

use super::fft::{Complex, Fourier};
use super::loss::Loss;
use sottovoce_core::math;

/// Share of delta allotted to truncation, once for single rounds and once for their sum.
const CUT: f64 = 1e-4;
/// Grid step in standard deviations of one round's loss, and at most in epsilon.
const STEP: f64 = 0.05;
const LARGEST_STEP: f64 = 0.02;
/// Below this, floating-point rounding would matter in how mass is divided.
const SMALLEST_STEP: f64 = 1e-7;
/// A bound on floating-point rounding in the transforms.
const ROUNDING: f64 = 1e-13;
/// Most points of a grid; a larger range takes a larger step.
const POINTS: f64 = (1u64 << 20) as f64;

/// Probabilities of losses `(start + index) * step`, and that the loss is beyond all of them.
struct Grid {
    start: i64,
    masses: Vec<f64>,
    beyond: f64,
}

/// The epsilon at `delta` of the given losses, each so many times; infinite if the grid is too coarse.
pub(super) fn epsilon(losses: &[(Loss, u64)], delta: f64) -> f64 {
    let rounds: u64 = losses.iter().map(|(_, count)| count).sum();
    if rounds == 0 {
        return 0.0;
    }
    let tail = CUT * delta / rounds as f64;
    let variance = losses.iter().map(|(loss, count)| loss.variance() * *count as f64).sum::<f64>() / rounds as f64;
    let widest = losses.iter().map(|(loss, _)| loss.range(tail)).map(|(a, b)| b - a).fold(0.0, f64::max);
    let mut step = (STEP * variance.sqrt()).clamp(SMALLEST_STEP, LARGEST_STEP).max(widest / POINTS);
    loop {
        let grids: Vec<(Grid, u64)> = losses.iter().map(|(loss, count)| (Grid::of(loss, step, tail), *count)).collect();
        let (low, high) = window(&grids, CUT * delta);
        if (high - low) as f64 <= POINTS {
            return compose(&grids, low, high, CUT * delta).epsilon(step, delta);
        }
        step *= 1.1 * (high - low) as f64 / POINTS;
    }
}

impl Grid {
    fn of(loss: &Loss, step: f64, tail: f64) -> Self {
        let (low, high) = loss.range(tail);
        let (start, end) = ((low / step).floor() as i64, (high / step).ceil() as i64);
        let mut masses = vec![0.0; (end - start) as usize + 1];
        masses[0] = loss.mass(f64::NEG_INFINITY, start as f64 * step).0;
        for index in start..end {
            let place = (index - start) as usize;
            let (lower, upper) = shares(loss, index as f64 * step, step);
            masses[place] += lower;
            masses[place + 1] += upper;
        }
        Self { start, masses, beyond: loss.mass(end as f64 * step, f64::INFINITY).0 }
    }

    /// The epsilon at which the part of the losses above it, sum p (1 - e^(epsilon - loss)), is `delta`.
    fn epsilon(&self, step: f64, delta: f64) -> f64 {
        if self.beyond >= delta {
            return f64::INFINITY;
        }
        let shrink = math::exp(-step);
        // Sums over the losses from `loss` on, the second with weights e^(loss - that loss).
        let (mut all, mut weighted) = (self.beyond, 0.0);
        for (place, mass) in self.masses.iter().enumerate().rev() {
            let loss = (self.start + place as i64) as f64 * step;
            all += mass;
            weighted = weighted * shrink + mass;
            if all - shrink * weighted > delta {
                return (loss + math::ln((all - delta) / weighted)).max(0.0);
            }
            if loss <= 0.0 {
                break;
            }
        }
        0.0
    }
}

/// How the mass between two grid points is divided: a + b = P and a e^-low + b e^-high = Q.
fn shares(loss: &Loss, low: f64, step: f64) -> (f64, f64) {
    let (p, q) = loss.mass(low, low + step);
    let upper = (p - q * math::exp(low)) / -libm::expm1(-step);
    // NaN where e^low overflows: then all goes up, which is conservative.
    let upper = if upper.is_nan() { p } else { upper.clamp(0.0, p) };
    (p - upper, upper)
}

/// Grid indices between which the sum of all losses lies but for probability `tail` on each side, by Chernoff's bound:
/// ln P(sum >= u)
/// <= ln E e^(r sum) - r u.
fn window(grids: &[(Grid, u64)], tail: f64) -> (i64, i64) {
    let longest = grids.iter().map(|(grid, _)| grid.masses.len()).max().unwrap_or(1) as f64;
    let reach = |sign: f64| {
        (0..24)
            // Rates in grid steps; the largest keeps e^(r loss) within doubles.
            .map(|halvings| 600.0 / longest * (-f64::from(halvings)).exp2())
            .map(|rate| {
                (grids.iter().map(|(g, n)| *n as f64 * g.ln_moment(sign * rate)).sum::<f64>() - math::ln(tail)) / rate
            })
            .fold(f64::INFINITY, f64::min)
    };
    let least: i64 = grids.iter().map(|(grid, count)| grid.start * *count as i64).sum();
    let most: i64 = grids.iter().map(|(g, count)| (g.start + g.masses.len() as i64 - 1) * *count as i64).sum();
    ((-reach(-1.0)).floor().max(least as f64) as i64, reach(1.0).ceil().min(most as f64) as i64)
}

impl Grid {
    /// ln E e^(rate loss), rate in grid steps.
    fn ln_moment(&self, rate: f64) -> f64 {
        let factor = math::exp(rate);
        let sum = self.masses.iter().rev().fold(0.0, |sum, mass| sum * factor + mass);
        math::ln(sum) + rate * self.start as f64
    }
}

/// The distribution of the sum, between two indices.
fn compose(grids: &[(Grid, u64)], low: i64, high: i64, tail: f64) -> Grid {
    let length = ((high - low + 1) as usize).next_power_of_two();
    let fourier = Fourier::new(length);
    let mut product = vec![Complex::ONE; length];
    let mut ln_within = 0.0;
    for (grid, count) in grids {
        let mut values = vec![Complex::default(); length];
        for (place, mass) in grid.masses.iter().enumerate() {
            values[place % length].re += mass;
        }
        fourier.forward(&mut values);
        for (all, value) in product.iter_mut().zip(values) {
            *all = all.times(value.power(*count));
        }
        ln_within += *count as f64 * libm::log1p(-grid.beyond);
    }
    fourier.inverse_real(&mut product);
    let start: i64 = grids.iter().map(|(grid, count)| grid.start * *count as i64).sum();
    let masses =
        (low..=high).map(|index| product[(index - start).rem_euclid(length as i64) as usize].re.max(0.0)).collect();
    Grid { start: low, masses, beyond: tail + ROUNDING - libm::expm1(ln_within) }
}

#[cfg(test)]
mod tests {
    use super::super::loss::{Noise, Truth};
    use super::*;
    use crate::dp::gaussian::gaussian_epsilon;

    fn worst(q: f64, noise: Noise, steps: u64, delta: f64) -> f64 {
        let direction = |truth| epsilon(&[(Loss { truth, q, noise }, steps)], delta);
        direction(Truth::With).max(direction(Truth::Without))
    }

    fn poisson(q: f64, sigma: f64, steps: u64, delta: f64) -> f64 {
        worst(q, Noise::Gaussian { sigma }, steps, delta)
    }

    fn with(q: f64, sigma: f64) -> Loss {
        Loss { truth: Truth::With, q, noise: Noise::Gaussian { sigma } }
    }

    /// Figures of dp-accounting's privacy loss distributions (Google) and of PRV accountant (Microsoft).
    #[test]
    fn epsilon_equals_the_reference() {
        for (q, sigma, steps, delta, expected) in
            [(0.01, 1.0, 1000, 1e-5, 1.828244), (0.1, 0.3, 100, 1e-5, 106.175899), (1.0, 2.0, 50, 1e-6, 22.424516)]
        {
            let found = poisson(q, sigma, steps, delta);
            assert!((found / expected - 1.0).abs() < 2e-3, "{found} instead of {expected}");
        }
    }

    /// Without sampling the exact epsilon is known.
    #[test]
    fn bound_is_conservative_and_close() {
        for (sigma, steps, delta) in [(1.0, 1, 1e-5), (5.0, 10, 1e-6), (0.7, 3, 1e-8), (40.0, 1000, 1e-5)] {
            let exact = gaussian_epsilon(sigma / f64::from(steps).sqrt(), delta, 1.0).unwrap();
            let found = poisson(1.0, sigma, steps as u64, delta);
            assert!(found >= exact && found < 1.002 * exact, "{found} {exact}");
        }
    }

    #[test]
    fn handles_extreme_noise() {
        let loud = epsilon(&[(with(1.0, 0.05), 3), (with(0.5, 0.05), 2)], 1e-6);
        assert!(loud.is_finite() && loud > 600.0, "{loud}");
        let quiet = epsilon(&[(Loss { truth: Truth::Without, ..with(1e-4, 1e5) }, 1000)], 1e-6);
        assert!((0.0..1e-4).contains(&quiet), "{quiet}");
        assert_eq!(epsilon(&[(with(0.1, 1.0), 1)], 1e-14), f64::INFINITY);
    }

    #[test]
    fn laplace_equals_the_closed_form_for_one_round() {
        // delta = 1 - e^((epsilon - 1 / b) / 2)
        let (scale, delta) = (0.5, 0.01);
        let exact = 2.0 + 2.0 * (1.0f64 - delta).ln();
        let found = worst(1.0, Noise::Laplace { scale }, 1, delta);
        assert!(found >= exact && found < exact + 1e-3, "{found} {exact}");
    }

    #[test]
    fn composition_is_independent_of_order() {
        let (a, b) = (with(0.05, 1.0), with(0.2, 3.0));
        let together = epsilon(&[(a, 50), (b, 30)], 1e-5);
        let other = epsilon(&[(b, 10), (a, 50), (b, 20)], 1e-5);
        assert!((together / other - 1.0).abs() < 1e-9);
        assert!(together > epsilon(&[(a, 50)], 1e-5) && together < epsilon(&[(a, 80)], 1e-5));
        assert_eq!(epsilon(&[], 1e-5), 0.0);
    }
}
