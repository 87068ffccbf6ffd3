//! The privacy accountant: the rounds that happened, and the privacy loss that they add up to.

mod fft;
mod loss;
mod pld;
mod rdp;
mod round;
mod storage;

use super::DpError;
use super::error::{check, delta as checked_delta, positive};
use super::gaussian::gaussian_epsilon;
use super::normal::bisect;
use loss::Loss;
use sottovoce_core::math;
use std::sync::OnceLock;

pub use round::Round;

/// More kinds of rounds than this are merged on a coarser grid before the tight bound is computed.
const DIFFERENT: usize = 32;
/// Ratio between neighbours of that grid.
const COARSE: f64 = 1.002;
/// Most rounds of an accountant.
const MOST_ROUNDS: u64 = 1 << 40;
/// The most noise that [`noise_for`] tries.
const MOST_NOISE: f64 = 1e5;

/// The epsilon spent at some delta: two upper bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spent {
    /// By Rényi differential privacy.
    pub rdp: f64,
    /// By privacy loss distributions, where they are known; never above `rdp`.
    pub tight: f64,
}

/// A privacy budget.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// The largest epsilon.
    pub epsilon: f64,
    /// At this delta.
    pub delta: f64,
}

impl Budget {
    /// A checked budget.
    ///
    /// # Errors
    /// If epsilon is not above 0, or delta not between 0 and 1.
    pub fn new(epsilon: f64, delta: f64) -> Result<Self, DpError> {
        Ok(Self { epsilon: positive("epsilon", epsilon)?, delta: checked_delta(delta)? })
    }
}

/// Rounds of one kind.
#[derive(Debug, Clone, PartialEq)]
struct Run {
    round: Round,
    count: u64,
    /// The Rényi divergence of one round at each order.
    curve: Vec<f64>,
}

/// Records rounds and composes their privacy loss, at user level.
///
/// ```
/// use sottovoce_privacy::dp::accountant::{Accountant, Budget, Round};
/// let mut accountant = Accountant::default();
/// let budget = Budget::new(1.0, 1e-6)?;
/// let round = Round::Poisson { rate: 0.01, multiplier: 1.0 };
/// accountant.admit(round, &budget)?;
/// assert!(accountant.epsilon(1e-6)?.tight <= 1.0);
/// # Ok::<(), sottovoce_privacy::dp::DpError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Accountant {
    runs: Vec<Run>,
    /// The last answer since the last round, with its delta.
    cached: OnceLock<(f64, Spent)>,
}

impl Accountant {
    /// Records rounds that happened.
    ///
    /// # Errors
    /// If a number of the round is out of range, or its adjacency differs from that of earlier rounds.
    pub fn record(&mut self, round: Round, count: u64) -> Result<(), DpError> {
        self.fits(&round)?;
        if count == 0 {
            return Ok(());
        }
        let rounds = self.rounds().saturating_add(count);
        check("the number of rounds", rounds as f64, "at most 2^40", |_| rounds <= MOST_ROUNDS)?;
        self.cached = OnceLock::new();
        if let Some(run) = self.runs.iter_mut().find(|run| run.round == round) {
            run.count += count;
        } else {
            let curve = rdp::orders().iter().map(|&order| rdp::one(&round, order)).collect();
            self.runs.push(Run { round, count, curve });
        }
        Ok(())
    }

    /// Records one more round, unless it would exceed the budget.
    ///
    /// Cheap while the Rényi bound is within the budget; only after that the tight bound is computed.
    ///
    /// # Errors
    /// If the round would exceed the budget ([`DpError::OverBudget`]; nothing is recorded then), or a number is out of
    /// range.
    pub fn admit(&mut self, round: Round, budget: &Budget) -> Result<(), DpError> {
        let Budget { epsilon, delta } = Budget::new(budget.epsilon, budget.delta)?;
        let mut after = self.clone();
        after.record(round, 1)?;
        if after.rdp(delta)? > epsilon {
            let asked = after.epsilon(delta)?.tight;
            if asked > epsilon {
                return Err(DpError::OverBudget(self.epsilon(delta)?, asked, *budget));
            }
        }
        *self = after;
        Ok(())
    }

    /// What has been spent. Caches the answer until the next round.
    ///
    /// # Errors
    /// If delta is not between 0 and 1.
    pub fn epsilon(&self, delta: f64) -> Result<Spent, DpError> {
        match self.cached.get() {
            Some((asked, spent)) if *asked == delta => return Ok(*spent),
            _ => (),
        }
        let rdp = self.rdp(delta)?;
        let spent = Spent { rdp, tight: self.tight(delta)?.min(rdp) };
        // The answer for another delta may be cached already: then this one is not.
        let _ = self.cached.set((delta, spent));
        Ok(spent)
    }

    /// What has been spent by the Rényi bound alone, which takes microseconds.
    ///
    /// # Errors
    /// If delta is not between 0 and 1.
    pub fn rdp(&self, delta: f64) -> Result<f64, DpError> {
        checked_delta(delta)?;
        if self.runs.is_empty() {
            return Ok(0.0);
        }
        let orders = rdp::orders();
        let mut sums = vec![0.0; orders.len()];
        for run in &self.runs {
            for (sum, one) in sums.iter_mut().zip(&run.curve) {
                *sum += run.count as f64 * one;
            }
        }
        Ok(rdp::epsilon(&orders, &sums, delta))
    }

    /// How many rounds are recorded.
    pub fn rounds(&self) -> u64 {
        self.runs.iter().map(|run| run.count).sum()
    }

    /// The recorded rounds, each kind with its count, in the order of their first.
    pub fn recorded(&self) -> impl Iterator<Item = (Round, u64)> + '_ {
        self.runs.iter().map(|run| (run.round, run.count))
    }

    fn fits(&self, round: &Round) -> Result<(), DpError> {
        round.check()?;
        let accounts = self.runs.iter().find_map(|run| run.round.neighbours());
        match (accounts, round.neighbours()) {
            (Some(accounts), Some(new)) if accounts != new => Err(DpError::Neighbours(new.name(), accounts.name())),
            _ => Ok(()),
        }
    }

    /// Infinite where only the Rényi bound is known.
    fn tight(&self, delta: f64) -> Result<f64, DpError> {
        if self.runs.is_empty() {
            return Ok(0.0);
        }
        if let Some(ratio) = self.plain_gaussian() {
            return gaussian_epsilon(1.0 / ratio, delta, 1.0);
        }
        let Some(losses) = self.losses() else { return Ok(f64::INFINITY) };
        let worst = losses.iter().map(|direction| pld::epsilon(direction, delta)).fold(0.0, f64::max);
        Ok(worst)
    }

    /// Rounds without sampling are together one Gaussian mechanism: sensitivity over sigma adds up in squares.
    fn plain_gaussian(&self) -> Option<f64> {
        let square = |run: &Run| run.round.plain_gaussian().map(|ratio| run.count as f64 * ratio * ratio);
        self.runs.iter().map(square).sum::<Option<f64>>().map(f64::sqrt)
    }

    /// All losses in both directions, if each is known.
    fn losses(&self) -> Option<[Vec<(Loss, u64)>; 2]> {
        let mut directions = [Vec::new(), Vec::new()];
        for (round, count) in self.listed() {
            for (direction, loss) in directions.iter_mut().zip(Loss::both(&round)?) {
                direction.push((loss, count));
            }
        }
        Some(directions)
    }

    /// The rounds; if they are of very many kinds, those that are nearly alike as one, on the safe side.
    fn listed(&self) -> Vec<(Round, u64)> {
        let mut list: Vec<(Round, u64)> = Vec::new();
        for (round, count) in self.recorded() {
            let round = if self.runs.len() > DIFFERENT { coarse(round) } else { round };
            match list.iter_mut().find(|(known, _)| *known == round) {
                Some((_, known)) => *known += count,
                None => list.push((round, count)),
            }
        }
        list
    }
}

/// A round that spends a little more and is one of few.
fn coarse(round: Round) -> Round {
    let up = |v: f64| math::pow(COARSE, (math::ln(v) / math::ln(COARSE)).ceil());
    let down = |v: f64| math::pow(COARSE, (math::ln(v) / math::ln(COARSE)).floor());
    match round {
        Round::Poisson { rate, multiplier } => {
            Round::Poisson { rate: up(rate).max(rate).min(1.0), multiplier: down(multiplier).min(multiplier) }
        }
        Round::Laplace { rate, scale } => {
            Round::Laplace { rate: up(rate).max(rate).min(1.0), scale: down(scale).min(scale) }
        }
        Round::FixedCohort { .. } => round,
    }
}

/// The smallest noise, to a thousandth and rounded up, with which `rounds` rounds like this one stay within the budget.
///
/// # Errors
/// If a number is out of range, or no noise up to 100,000 clipping bounds suffices.
pub fn noise_for(budget: &Budget, round: Round, rounds: u64) -> Result<f64, DpError> {
    noise_for_parts(budget, &[BudgetedRounds { round, rounds, times: 1.0 }])
}

/// Some of the rounds that share a budget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BudgetedRounds {
    /// One of them, with any noise.
    pub round: Round,
    /// How many.
    pub rounds: u64,
    /// How many times the noise of the others they have.
    pub times: f64,
}

/// [`noise_for`] rounds of several kinds together, each with its multiple of the noise.
///
/// # Errors
/// As [`noise_for`].
pub fn noise_for_parts(budget: &Budget, parts: &[BudgetedRounds]) -> Result<f64, DpError> {
    let Budget { epsilon, delta } = Budget::new(budget.epsilon, budget.delta)?;
    for part in parts {
        check("the number of rounds", part.rounds as f64, "at least 1", |v| v >= 1.0)?;
        part.round.with_noise(1.0).check()?;
    }
    let after = |noise: f64| {
        let mut accountant = Accountant::default();
        for part in parts {
            accountant.record(part.round.with_noise(part.times * noise), part.rounds)?;
        }
        Ok::<_, DpError>(accountant)
    };
    if after(MOST_NOISE)?.rdp(delta)? > epsilon {
        return Err(DpError::OutOfReach(epsilon, delta, MOST_NOISE));
    }
    // The quick bound first; the tight one needs less noise, and more than a quarter of it.
    let too_little = |found: Result<f64, DpError>| found.is_ok_and(|found| found > epsilon);
    let quick = bisect_log(0.05, MOST_NOISE, |m| too_little(after(m).and_then(|a| a.rdp(delta))));
    Ok(bisect_log((0.25 * quick).max(0.05), quick, |m| {
        too_little(after(m).and_then(|a| a.epsilon(delta)).map(|spent| spent.tight))
    }))
}

/// [`bisect`] in the logarithm, to a thousandth.
fn bisect_log(low: f64, high: f64, low_side: impl Fn(f64) -> bool) -> f64 {
    let halvings = ((math::ln(high / low) / 1e-3).max(1.0)).log2().ceil() as u32;
    math::exp(bisect(math::ln(low), math::ln(high), halvings, |log| low_side(math::exp(log))))
}

#[cfg(test)]
mod tests;
