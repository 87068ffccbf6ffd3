//! The privacy loss random variable of one round: the log-likelihood ratio of an outcome between two neighbouring data sets.

use super::round::Round;
use crate::dp::normal::{between, upper_quantile};
use sottovoce_core::math;

/// Noise around 0 without the person and around 1 with them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Noise {
    Gaussian { sigma: f64 },
    Laplace { scale: f64 },
}

/// Which of the two neighbouring data sets is the true one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Truth {
    /// With the person, who takes part with probability q: noise around 0 with probability 1 - q, around 1 with q.
    With,
    /// Without: noise around 0.
    Without,
}

/// The loss when somebody takes part with probability q. It increases with the outcome if the truth is with the person, and
/// decreases otherwise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Loss {
    pub(super) truth: Truth,
    pub(super) q: f64,
    pub(super) noise: Noise,
}

impl Loss {
    /// The losses of a round in both directions, where one is known.
    pub(super) fn both(round: &Round) -> Option<[Self; 2]> {
        let (q, noise) = match *round {
            Round::Poisson { rate, multiplier } => (rate, Noise::Gaussian { sigma: multiplier }),
            Round::Laplace { rate, scale } => (rate, Noise::Laplace { scale }),
            Round::FixedCohort { .. } => return None,
        };
        Some([Truth::With, Truth::Without].map(|truth| Self { truth, q, noise }))
    }

    /// Losses outside have a probability below `tail` on each side.
    pub(super) fn range(&self, tail: f64) -> (f64, f64) {
        let (low, high) = match self.noise {
            Noise::Gaussian { sigma } => {
                let far = upper_quantile(tail) * sigma;
                let shift = f64::from(u8::from(self.truth == Truth::With));
                (self.of(-far), self.of(shift + far))
            }
            // The smallest and the largest have point masses: a little further, so that rounding does not exclude them.
            Noise::Laplace { .. } => {
                let hair = |loss: f64| 1e-12 * loss.abs() + f64::MIN_POSITIVE;
                let (low, high) = (self.of(0.0), self.of(1.0));
                (low - hair(low), high + hair(high))
            }
        };
        if self.truth == Truth::With { (low, high) } else { (-high, -low) }
    }

    /// The probability that the loss is above `low` and at most `high`, under the true data set and under the other.
    pub(super) fn mass(&self, low: f64, high: f64) -> (f64, f64) {
        // Outcomes from the first to the second; those whose loss equals a bound count as lower losses.
        let (a, b) = match self.truth {
            Truth::With => (self.outcome(low, true), self.outcome(high, true)),
            Truth::Without => (self.outcome(-high, false), self.outcome(-low, false)),
        };
        let without = self.noise.between(a, b);
        let with = (1.0 - self.q) * without + self.q * self.noise.between(a - 1.0, b - 1.0);
        if self.truth == Truth::With { (with, without) } else { (without, with) }
    }

    /// The variance of the loss, roughly: for choosing a grid.
    pub(super) fn variance(&self) -> f64 {
        let points = 800;
        let far = self.noise.reach();
        let step = (1.0 + 2.0 * far) / f64::from(points);
        let (mut mass, mut mean, mut square) = (0.0, 0.0, 0.0);
        for point in 0..=points {
            let x = -far + step * f64::from(point);
            let without = self.noise.weight(x);
            let with = (1.0 - self.q) * without + self.q * self.noise.weight(x - 1.0);
            let weight = if self.truth == Truth::With { with } else { without };
            let loss = self.of(x);
            mass += weight;
            mean += weight * loss;
            square += weight * loss * loss;
        }
        (square / mass - (mean / mass) * (mean / mass)).max(0.0)
    }

    /// ln(1 - q + q e^y) at an outcome, y how much likelier it is around 1 than around 0.
    fn of(&self, x: f64) -> f64 {
        let (q, y) = (self.q, self.noise.ln_ratio(x));
        if q >= 1.0 {
            return y;
        }
        if y > 0.0 { y + math::ln(q + (1.0 - q) * math::exp(-y)) } else { libm::log1p(q * libm::expm1(y)) }
    }

    /// The outcome that separates those of larger loss from the others; infinite where all are on one side. Where many outcomes have
    /// the same loss: with `last` the last of them, otherwise the first.
    fn outcome(&self, loss: f64, last: bool) -> f64 {
        let q = self.q;
        if loss.is_infinite() {
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
        self.noise.outcome(ln_rest - math::ln(q), last)
    }
}

impl Noise {
    /// ln of how much likelier an outcome is around 1 than around 0.
    fn ln_ratio(self, x: f64) -> f64 {
        match self {
            Self::Gaussian { sigma } => (2.0 * x - 1.0) / (2.0 * sigma * sigma),
            Self::Laplace { scale } => (2.0 * x.clamp(0.0, 1.0) - 1.0) / scale,
        }
    }

    /// The outcome of this ratio; `last` as in [`Loss::outcome`].
    fn outcome(self, ln_ratio: f64, last: bool) -> f64 {
        match self {
            Self::Gaussian { sigma } => sigma * sigma * ln_ratio + 0.5,
            // Constant below 0 and above 1.
            Self::Laplace { scale } => match 0.5 * (1.0 + ln_ratio * scale) {
                x if x < 0.0 || x <= 0.0 && !last => f64::NEG_INFINITY,
                x if x > 1.0 || x >= 1.0 && last => f64::INFINITY,
                x => x,
            },
        }
    }

    /// Mass of outcomes from a to b around 0.
    fn between(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Gaussian { sigma } => between(a / sigma, b / sigma),
            Self::Laplace { scale } => laplace_between(a / scale, b / scale),
        }
    }

    /// The density around 0, up to a factor.
    fn weight(self, x: f64) -> f64 {
        match self {
            Self::Gaussian { sigma } => math::exp(-0.5 * (x / sigma) * (x / sigma)),
            Self::Laplace { scale } => math::exp(-x.abs() / scale),
        }
    }

    /// A bound on almost all outcomes.
    fn reach(self) -> f64 {
        match self {
            Self::Gaussian { sigma } => 9.0 * sigma,
            Self::Laplace { scale } => 25.0 * scale,
        }
    }
}

/// Mass from a to b of Laplace noise of scale 1, without cancellation in its tails.
fn laplace_between(a: f64, b: f64) -> f64 {
    if b <= a {
        return 0.0;
    }
    if b <= 0.0 {
        return 0.5 * math::exp(b) * -libm::expm1(a - b);
    }
    if a >= 0.0 {
        return 0.5 * math::exp(-a) * -libm::expm1(a - b);
    }
    -0.5 * (libm::expm1(a) + libm::expm1(-b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn losses() -> impl Iterator<Item = Loss> {
        let noises = [
            Noise::Gaussian { sigma: 0.8 },
            Noise::Gaussian { sigma: 5.0 },
            Noise::Laplace { scale: 2.0 },
            Noise::Laplace { scale: 0.1 },
        ];
        noises.into_iter().flat_map(|noise| {
            [0.01, 0.5, 1.0]
                .into_iter()
                .flat_map(move |q| [Truth::With, Truth::Without].map(|truth| Loss { truth, q, noise }))
        })
    }

    #[test]
    fn losses_and_outcomes_are_inverse() {
        for loss in losses() {
            for x in [0.1, 0.4, 0.9] {
                let back = loss.outcome(loss.of(x), true);
                assert!((back - x).abs() < 1e-6, "{loss:?} {x} {back}");
            }
        }
    }

    #[test]
    fn masses_sum_to_one() {
        for loss in losses() {
            let (low, high) = loss.range(1e-12);
            let edges = [f64::NEG_INFINITY, low, 0.3 * low, 0.0, 0.5 * high, high, f64::INFINITY];
            let parts: Vec<_> = edges.windows(2).map(|e| loss.mass(e[0], e[1])).collect();
            let sums = parts.iter().fold((0.0, 0.0), |s, p| (s.0 + p.0, s.1 + p.1));
            assert!((sums.0 - 1.0).abs() < 1e-11 && (sums.1 - 1.0).abs() < 1e-11, "{loss:?} {sums:?}");
            assert!(parts[0].0 <= 1.1e-12 && parts[5].0 <= 1.1e-12, "{loss:?} {parts:?}");
            assert!(loss.variance() > 0.0);
        }
    }

    /// Under the other data set every outcome is likelier by e^-loss.
    #[test]
    fn mass_ratios_equal_the_loss() {
        for loss in losses() {
            let (low, high) = loss.range(1e-9);
            let step = (high - low) / 1000.0;
            for place in 0..1000 {
                let (from, to) = (low + step * f64::from(place), low + step * f64::from(place + 1));
                let (p, q) = loss.mass(from, to);
                if p > 1e-12 {
                    assert!((from - 1e-6..=to + 1e-6).contains(&(p / q).ln()), "{loss:?} {from} {to} {p} {q}");
                }
            }
        }
    }

    #[test]
    fn laplace_mass_is_the_difference_of_its_cdf() {
        let below = |x: f64| if x < 0.0 { 0.5 * x.exp() } else { 1.0 - 0.5 * (-x).exp() };
        for (a, b) in [(-3.0, -1.0), (-1.0, 0.5), (0.0, 2.0), (1.5, 4.0), (2.0, 1.0)] {
            let expected: f64 = below(b) - below(a);
            assert!((laplace_between(a, b) - expected.max(0.0)).abs() < 1e-15);
        }
        assert_eq!(laplace_between(f64::NEG_INFINITY, f64::INFINITY), 1.0);
    }
}
