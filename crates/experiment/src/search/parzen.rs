//! A Parzen estimator over a search space: one kernel an observed point, and an even one beneath them all.

use super::space::{Point, Position, Range, Space};
use sottovoce_core::{Rng, math};
use sottovoce_models::settings::Value;

/// A mixture of product kernels with equal weights.
///
/// Kernel i stands on point i: a normal density cut at the ends of the range for numbers (its mass over the cell for
/// whole numbers), and most of the mass on the point's own value for choices. The last kernel is even over the
/// space, so that no region is ever given up.
pub(super) struct Parzen<'a> {
    space: &'a Space,
    kernels: Vec<Vec<Position>>,
    /// Width of the normal kernels, in units of the range.
    width: f64,
    /// Probability that a choice's kernel gives a value drawn evenly instead of its own.
    doubt: f64,
}

impl<'a> Parzen<'a> {
    pub(super) fn new(space: &'a Space, points: &[&Point]) -> Self {
        let kernels: Vec<_> = points.iter().filter_map(|point| space.positions(point)).collect();
        let n = kernels.len() as f64 + 1.0;
        let dimensions = space.dimensions.len() as f64;
        // Scott's rule, never narrower than what so many points can resolve.
        let width = (0.2 * math::pow(n, -1.0 / (dimensions + 4.0))).max(1.0 / (n + 1.0).min(100.0) / 4.0);
        Self { space, kernels, width, doubt: 1.0 / (n + 1.0) }
    }

    /// Draws a point.
    pub(super) fn draw(&self, rng: &mut Rng) -> Point {
        let kernel = self.kernels.get(rng.index(self.kernels.len() + 1));
        let ranges = self.space.dimensions.iter().map(|dimension| &dimension.range);
        ranges
            .enumerate()
            .map(|(d, range)| {
                let position = match kernel.map(|positions| positions[d]) {
                    None => range.random(rng),
                    Some(Position::Index(_)) if rng.chance(self.doubt) => range.random(rng),
                    Some(Position::Index(own)) => Position::Index(own),
                    Some(Position::Unit(centre)) => Position::Unit(self.draw_near(centre, rng)),
                };
                range.value(position)
            })
            .collect()
    }

    fn draw_near(&self, centre: f64, rng: &mut Rng) -> f64 {
        loop {
            let x = centre + self.width * rng.normal();
            if (0.0..=1.0).contains(&x) {
                return x;
            }
        }
    }

    /// The logarithm of the density (mass, for whole numbers and choices) at a point.
    pub(super) fn log_density(&self, point: &Point) -> f64 {
        let Some(positions) = self.space.positions(point) else { return f64::NEG_INFINITY };
        let even = self.product(|d, range| self.even(range, &point[d]));
        let sum: f64 = self
            .kernels
            .iter()
            .map(|kernel| self.product(|d, range| self.kernel(range, kernel[d], positions[d], &point[d])))
            .sum();
        math::ln((sum + even) / (self.kernels.len() + 1) as f64)
    }

    fn product(&self, factor: impl Fn(usize, &Range) -> f64) -> f64 {
        self.space.dimensions.iter().enumerate().map(|(d, dimension)| factor(d, &dimension.range)).product()
    }

    fn even(&self, range: &Range, value: &Value) -> f64 {
        match range {
            Range::Choice(values) => 1.0 / values.len() as f64,
            Range::Integer(_) => range.cell(value).map_or(0.0, |(from, to)| to - from),
            Range::Real(_) => 1.0,
        }
    }

    fn kernel(&self, range: &Range, own: Position, at: Position, value: &Value) -> f64 {
        match (own, at) {
            (Position::Index(own), Position::Index(at)) => {
                let certain = if own == at { 1.0 - self.doubt } else { 0.0 };
                certain + self.doubt * self.even(range, value)
            }
            (Position::Unit(centre), Position::Unit(x)) => {
                let inside = self.mass(centre, 0.0, 1.0);
                range
                    .cell(value)
                    .map_or_else(|| self.normal(centre, x) / inside, |(from, to)| self.mass(centre, from, to) / inside)
            }
            _ => 0.0,
        }
    }

    fn normal(&self, centre: f64, x: f64) -> f64 {
        let z = (x - centre) / self.width;
        math::exp(-0.5 * z * z) / (self.width * (2.0 * std::f64::consts::PI).sqrt())
    }

    /// Mass of the uncut normal kernel between two positions.
    fn mass(&self, centre: f64, from: f64, to: f64) -> f64 {
        let scale = self.width * std::f64::consts::SQRT_2;
        0.5 * (libm::erf((to - centre) / scale) - libm::erf((from - centre) / scale))
    }
}

#[cfg(test)]
mod tests {
    use super::super::space::{Bounds, Dimension};
    use super::*;

    #[test]
    fn masses_over_a_finite_space_sum_to_one() {
        let space = Space {
            dimensions: vec![
                Dimension { key: "n".into(), range: Range::Integer(Bounds { low: 1, high: 40, log: true }) },
                Dimension {
                    key: "w".into(),
                    range: Range::Choice(vec![Value::Integer(3), Value::Switch(true), Value::Real(0.5)]),
                },
            ],
        };
        let seen = [vec![Value::Integer(1), Value::Real(0.5)], vec![Value::Integer(37), Value::Integer(3)]];
        let parzen = Parzen::new(&space, &seen.iter().collect::<Vec<_>>());
        let words = [Value::Integer(3), Value::Switch(true), Value::Real(0.5)];
        let total: f64 = (1..=40)
            .flat_map(|n| words.iter().map(move |word| vec![Value::Integer(n), word.clone()]))
            .map(|point| parzen.log_density(&point).exp())
            .sum();
        assert!((total - 1.0).abs() < 1e-9, "{total}");
    }

    #[test]
    fn a_density_integrates_to_one_and_is_highest_at_its_points() {
        let space = Space {
            dimensions: vec![Dimension {
                key: "x".into(),
                range: Range::Real(Bounds { low: 0.0, high: 1.0, log: false }),
            }],
        };
        let seen = [vec![Value::Real(0.02)], vec![Value::Real(0.7)]];
        let parzen = Parzen::new(&space, &seen.iter().collect::<Vec<_>>());
        let density = |x: f64| parzen.log_density(&vec![Value::Real(x)]).exp();
        let total: f64 = (0..10_000).map(|i| density((f64::from(i) + 0.5) / 10_000.0)).sum::<f64>() / 10_000.0;
        assert!((total - 1.0).abs() < 1e-6, "{total}");
        assert!(density(0.02) > density(0.35) && density(0.7) > density(0.35));
    }
}
