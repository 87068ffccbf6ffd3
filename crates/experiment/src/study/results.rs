//! What a study came to.

use super::{Course, Study};
use serde::Serialize;
use sottovoce_evaluate::report::DataCard;

/// All courses of a study.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Results {
    /// The headline.
    pub title: String,
    /// The data set.
    pub data: DataCard,
    /// Number of devices.
    pub devices: usize,
    /// The targets.
    pub targets: Vec<f64>,
    /// The shares of devices.
    pub shares: Vec<f64>,
    /// Rounds at most.
    pub rounds: usize,
    /// Parameters of the network.
    pub parameters: usize,
    /// The seeds.
    pub seeds: Vec<u64>,
    /// The learning rate that all were trained with.
    pub rate: f64,
    /// Rates that were tried with the baseline; empty if one was given.
    pub tried: Vec<Tried>,
    /// One for each aggregation, the baseline first.
    pub rows: Vec<Row>,
}

/// A learning rate that was tried with the baseline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tried {
    /// The rate.
    pub rate: f64,
    /// The round in which half of the devices reached the last target.
    pub round: Option<usize>,
    /// The best global accuracy.
    pub accuracy: f64,
    /// Rounds done.
    pub rounds: usize,
}

impl Tried {
    pub(super) fn of(rate: f64, course: &Course, study: &Study, devices: usize) -> Self {
        let last = study.targets.len().saturating_sub(1);
        let round = course.round_of(last, super::file::CHOSEN_BY, devices);
        Self { rate, round, accuracy: course.best.accuracy, rounds: course.rounds() }
    }

    /// The best of these: the fastest, or, if none got there, the most accurate; the first of equals.
    pub(super) fn best(tried: &[Self]) -> Option<f64> {
        let worth = |one: &Self| (one.round.map_or(usize::MAX, |round| round), -one.accuracy);
        let better = |a: &&Self, b: &&Self| {
            let (a, b) = (worth(a), worth(b));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
        };
        tried.iter().min_by(better).map(|one| one.rate)
    }
}

/// An aggregation's courses.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// As the thesis writes it.
    pub label: String,
    /// One a seed.
    pub courses: Vec<Course>,
}

impl Row {
    /// The mean round in which this share of devices reached a target, and whether all seeds got there; those that did not count
    /// with the limit.
    pub fn round_of(&self, target: usize, share: f64, devices: usize, limit: usize) -> (f64, bool) {
        let rounds: Vec<Option<usize>> =
            self.courses.iter().map(|course| course.round_of(target, share, devices)).collect();
        let sum: usize = rounds.iter().map(|round| round.unwrap_or(limit)).sum();
        (sum as f64 / rounds.len().max(1) as f64, rounds.iter().all(Option::is_some))
    }

    /// The mean over seeds of something about a course.
    pub fn mean(&self, of: impl Fn(&Course) -> f64) -> f64 {
        self.courses.iter().map(of).sum::<f64>() / self.courses.len().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_rate_is_taken_and_otherwise_the_most_accurate() {
        let of = |rate, round, accuracy| Tried { rate, round, accuracy, rounds: 9 };
        let tried =
            [of(0.1, None, 0.99), of(0.2, Some(8), 0.9), of(0.3, Some(5), 0.8), of(0.4, Some(5), 0.8)];
        assert_eq!(Tried::best(&tried), Some(0.3));
        assert_eq!(Tried::best(&[of(0.1, None, 0.5), of(0.2, None, 0.7)]), Some(0.2));
        assert_eq!(Tried::best(&[]), None);
    }
}
