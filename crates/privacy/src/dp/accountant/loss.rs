//! The privacy loss of one round: ln of how much more likely an outcome is with one person than without, under the former.

use super::round::Round;
use crate::dp::normal::{between, upper_quantile};
use sottovoce_core::math;

/// A pair of distributions whose ratio is monotone in the outcome; the first is the true one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Loss {
    /// With the person, (1 - q) N(0, s^2) + q N(1, s^2), against without, N(0, s^2).
    Remove { q: f64, sigma: f64 },
    /// Without against with.
    Add { q: f64, sigma: f64 },
    /// Laplace noise at 0 against at 1, which is the same the other way round.
    Laplace { scale: f64 },
}

impl Loss {
    /// The losses of a round in both directions, where one is known.
    pub(super) fn both(round: &Round) -> Option<[Self; 2]> {
        match *round {
            Round::Poisson { rate: q, multiplier: sigma } => {
                Some([Self::Remove { q, sigma }, Self::Add { q, sigma }])
            }
            Round::Laplace { scale } => Some([Self::Laplace { scale }; 2]),
            Round::FixedCohort { .. } => None,
        }
    }

    /// Losses outside have a probability below `tail` on each side.
    pub(super) fn range(&self, tail: f64) -> (f64, f64) {
        let far = upper_quantile(tail);
        match *self {
            Self::Remove { q, sigma } => (of(q, sigma, -far * sigma), of(q, sigma, 1.0 + far * sigma)),
            Self::Add { q, sigma } => (-of(q, sigma, far * sigma), -of(q, sigma, -far * sigma)),
            Self::Laplace { scale } => (-1.0 / scale, 1.0 / scale),
        }
    }

    /// The probability that the loss is above `low` and at most `high`, under the first and under the second distribution.
    pub(super) fn mass(&self, low: f64, high: f64) -> (f64, f64) {
        match *self {
            Self::Remove { q, sigma } => {
                let (without, with) = normals(q, sigma, outcome(q, sigma, low), outcome(q, sigma, high));
                (with, without)
            }
            Self::Add { q, sigma } => normals(q, sigma, outcome(q, sigma, -high), outcome(q, sigma, -low)),
            Self::Laplace { scale } => {
                let above = |bound: f64| laplace_above(scale, bound);
                let ((p_low, q_low), (p_high, q_high)) = (above(low), above(high));
                (p_low - p_high, q_low - q_high)
            }
        }
    }

    /// The variance of the loss, roughly: for choosing a grid.
    pub(super) fn variance(&self) -> f64 {
        let Some((sigma, q)) = self.gaussian() else {
            let Self::Laplace { scale } = *self else { return 0.0 };
            return (1.0 / scale).min(1.0 / (scale * scale));
        };
        let points = 800;
        let (from, to) = (-9.0 * sigma, 1.0 + 9.0 * sigma);
        let step = (to - from) / f64::from(points);
        let (mut mass, mut mean, mut square) = (0.0, 0.0, 0.0);
        for point in 0..=points {
            let x = from + step * f64::from(point);
            let without = math::exp(-0.5 * (x / sigma) * (x / sigma));
            let with = math::exp(-0.5 * ((x - 1.0) / sigma) * ((x - 1.0) / sigma));
            let weight =
                if matches!(self, Self::Add { .. }) { without } else { (1.0 - q) * without + q * with };
            let loss = of(q, sigma, x);
            mass += weight;
            mean += weight * loss;
            square += weight * loss * loss;
        }
        (square / mass - (mean / mass) * (mean / mass)).max(0.0)
    }

    fn gaussian(&self) -> Option<(f64, f64)> {
        match *self {
            Self::Remove { q, sigma } | Self::Add { q, sigma } => Some((sigma, q)),
            Self::Laplace { .. } => None,
        }
    }
}

/// ln(1 - q + q e^((2 x - 1) / (2 s^2)))
fn of(q: f64, sigma: f64, x: f64) -> f64 {
    let y = (2.0 * x - 1.0) / (2.0 * sigma * sigma);
    if q >= 1.0 {
        return y;
    }
    if y > 0.0 { y + math::ln(q + (1.0 - q) * math::exp(-y)) } else { libm::log1p(q * libm::expm1(y)) }
}

/// The x whose loss is this; infinite where there is none.
fn outcome(q: f64, sigma: f64, loss: f64) -> f64 {
    if loss == f64::INFINITY {
        return loss;
    }
    let ln_rest = if loss > 0.0 {
        loss + libm::log1p(-(1.0 - q) * math::exp(-loss))
    } else if q >= 1.0 {
        loss
    } else {
        let rest = libm::expm1(loss) + q;
        if rest <= 0.0 {
            return f64::NEG_INFINITY;
        }
        math::ln(rest)
    };
    sigma * sigma * (ln_rest - math::ln(q)) + 0.5
}

/// Mass of outcomes from a to b without and with the person.
fn normals(q: f64, sigma: f64, a: f64, b: f64) -> (f64, f64) {
    let without = between(a / sigma, b / sigma);
    let with = (1.0 - q) * without + q * between((a - 1.0) / sigma, (b - 1.0) / sigma);
    (without, with)
}

/// The probability that the loss (|x - 1| - |x|) / b is above `bound`, with x around 0 and around 1.
fn laplace_above(scale: f64, bound: f64) -> (f64, f64) {
    let most = 1.0 / scale;
    if bound < -most {
        return (1.0, 1.0);
    }
    if bound >= most {
        return (0.0, 0.0);
    }
    // x below (1 - bound * scale) / 2, which is between 0 and 1.
    let x = 0.5 * (1.0 - bound * scale);
    (1.0 - 0.5 * math::exp(-x / scale), 0.5 * math::exp((x - 1.0) / scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_and_outcomes_are_inverse() {
        for (q, sigma) in [(0.01, 1.0), (0.1, 0.3), (1.0, 2.0), (0.5, 5.0)] {
            for x in [-1.0, 0.0, 0.4, 1.0, 3.0] {
                let back = outcome(q, sigma, of(q, sigma, x));
                assert!((back - x).abs() < 1e-6, "{q} {sigma} {x} {back}");
            }
        }
    }

    #[test]
    fn all_mass_is_somewhere() {
        let losses = [
            Loss::Remove { q: 0.1, sigma: 0.8 },
            Loss::Add { q: 0.1, sigma: 0.8 },
            Loss::Laplace { scale: 2.0 },
        ];
        for loss in losses {
            let (low, high) = loss.range(1e-12);
            let edges = [f64::NEG_INFINITY, low, 0.3 * low, 0.0, 0.5 * high, high, f64::INFINITY];
            let parts: Vec<_> = edges.windows(2).map(|e| loss.mass(e[0], e[1])).collect();
            let sums = parts.iter().fold((0.0, 0.0), |s, p| (s.0 + p.0, s.1 + p.1));
            assert!((sums.0 - 1.0).abs() < 1e-12 && (sums.1 - 1.0).abs() < 1e-12, "{loss:?} {sums:?}");
            assert!(loss.variance() > 0.0);
        }
    }
}
