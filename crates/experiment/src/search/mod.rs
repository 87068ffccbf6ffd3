//! Hyperparameter search: random, or by the tree-structured Parzen estimator.
//!
//! J. Bergstra, R. Bardenet, Y. Bengio, B. Kégl: Algorithms for Hyper-Parameter Optimization, NeurIPS 2011.
//!
//! TPE splits what was tried into the good (the best share γ) and the rest, models the distribution of each group with
//! a density, l and g, draws points from l and tries the one with the largest l / g, which maximises the expected
//! improvement. Densities are joint over all settings, so that settings which matter together are found together.

mod parzen;
mod space;

use parzen::Parzen;
use serde::Serialize;
use sottovoce_core::Rng;
pub use space::{Bounds, Dimension, Point, Range, Space};

/// How points are proposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Tree-structured Parzen estimator.
    Tpe,
    /// Evenly at random.
    Random,
}

/// A point that was tried.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Observation {
    /// Where.
    pub(crate) point: Point,
    /// How good it was, higher is better; `None` for a trial that failed.
    pub(crate) objective: Option<f64>,
}

/// Points drawn from l for each proposal.
const DRAWS: usize = 48;

/// Proposes points to try; the proposals are a function of the seed and of what was observed.
pub(crate) struct Searcher<'a> {
    /// Where to look.
    pub(crate) space: &'a Space,
    /// How to look.
    pub(crate) method: Method,
    /// Proposals made evenly at random before the estimator is trusted.
    pub(crate) startup: usize,
    /// Determines all randomness.
    pub(crate) seed: u64,
}

impl Searcher<'_> {
    /// The next point to try, or `None` when every point of a finite space has been tried.
    ///
    /// `pending` are proposals without a result yet; they count as failures, so that the next proposal looks
    /// elsewhere.
    pub(crate) fn propose(&self, history: &[Observation], pending: &[Point]) -> Option<Point> {
        let tried = history.len() + pending.len();
        let mut rng = Rng::new(self.seed).stream("proposal", tried as u64);
        let is_new = |point: &Point| !history.iter().any(|seen| seen.point == *point) && !pending.contains(point);
        if self.method == Method::Random || tried < self.startup {
            return self.draw_new(&mut rng, &is_new);
        }
        let (good, rest) = divide(history, pending);
        let (l, g) = (Parzen::new(self.space, &good), Parzen::new(self.space, &rest));
        (0..DRAWS)
            .map(|_| l.draw(&mut rng))
            .filter(|point| is_new(point))
            .map(|point| (l.log_density(&point) - g.log_density(&point), point))
            .reduce(|best, next| if next.0 > best.0 { next } else { best })
            .map(|(_, point)| point)
            .or_else(|| self.draw_new(&mut rng, &is_new))
    }

    /// An even draw that was not tried before; small spaces are walked through once chance no longer finds one.
    fn draw_new(&self, rng: &mut Rng, is_new: &dyn Fn(&Point) -> bool) -> Option<Point> {
        (0..1000).map(|_| self.space.random(rng)).find(is_new)
    }
}

/// The best share of what was tried, and the rest with all failures.
fn divide<'a>(history: &'a [Observation], pending: &'a [Point]) -> (Vec<&'a Point>, Vec<&'a Point>) {
    let objective = |seen: &Observation| seen.objective.filter(|x| !x.is_nan());
    let mut order: Vec<&Observation> = history.iter().collect();
    let key = |seen: &Observation| objective(seen).unwrap_or(f64::NEG_INFINITY);
    order.sort_by(|a, b| key(b).total_cmp(&key(a)));
    let succeeded = order.iter().filter(|seen| objective(seen).is_some()).count();
    let share = ((history.len() as f64 * 0.15).ceil() as usize).clamp(1, 25);
    let mut points = order.into_iter().map(|seen| &seen.point);
    let good = points.by_ref().take(share.min(succeeded)).collect();
    (good, points.chain(pending).collect())
}

#[cfg(test)]
mod tests;
