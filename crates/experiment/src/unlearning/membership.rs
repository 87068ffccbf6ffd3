//! A membership attack on the shared model.
//!
//! The attacker knows a user's history and has the shared model, as everybody has. They split the history into halves,
//! fit a private model to one half by local training while the shared model is fixed, and rank the other half among all
//! items outside the history (AUC). Then the other way round. Items that a user brought into training together are
//! close in the shared model, so that one half predicts the other a little better than for a user who never took part.
//! An attacker who also has a reference model of similar users without this one can subtract its AUC, which removes
//! that some histories are easier to predict than others.

use sottovoce_core::{Histories, Rng};
use sottovoce_federation::Simulation;
use sottovoce_models::ModelError;

/// The normal distribution's 97.5 % point.
const NORMAL_975: f64 = 1.959_963_984_540_054;

/// How well scores separate two groups: the probability that one of the first scores higher than one of the second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Separation {
    /// 0.5: no better than chance.
    pub auc: f64,
    /// Lower end of the 95 % confidence interval, by DeLong's variance.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

impl Separation {
    /// From the scores of both groups, each of at least two users.
    pub fn of(first: &[f64], second: &[f64]) -> Self {
        let wins = |score: f64, other: f64| match score.total_cmp(&other) {
            std::cmp::Ordering::Greater => 1.0,
            std::cmp::Ordering::Equal => 0.5,
            std::cmp::Ordering::Less => 0.0,
        };
        let mean = |sum: f64, of: usize| sum / of as f64;
        let of_first: Vec<f64> = first
            .iter()
            .map(|&score| mean(second.iter().map(|&other| wins(score, other)).sum(), second.len()))
            .collect();
        let of_second: Vec<f64> = second
            .iter()
            .map(|&other| mean(first.iter().map(|&score| wins(score, other)).sum(), first.len()))
            .collect();
        let auc = mean(of_first.iter().sum(), first.len());
        let variance = |parts: &[f64]| {
            let squares: f64 = parts.iter().map(|part| (part - auc) * (part - auc)).sum();
            squares / (parts.len() as f64 - 1.0) / parts.len() as f64
        };
        let spread = NORMAL_975 * (variance(&of_first) + variance(&of_second)).sqrt();
        Self { auc, low: (auc - spread).max(0.0), high: (auc + spread).min(1.0) }
    }
}

/// The attack.
pub(super) struct MembershipAttack<'a> {
    histories: &'a Histories,
    steps: usize,
    rng: Rng,
}

impl<'a> MembershipAttack<'a> {
    pub(super) fn new(histories: &'a Histories, steps: usize, rng: &Rng) -> Self {
        Self { histories, steps, rng: rng.stream("membership", 0) }
    }

    /// A score for each of these users: higher for those who seem to have taken part.
    pub(super) fn scores(&self, model: &Simulation, users: &[usize]) -> Result<Vec<f64>, ModelError> {
        users.iter().map(|&user| self.score(model, user)).collect()
    }

    fn score(&self, model: &Simulation, user: usize) -> Result<f64, ModelError> {
        let rng = self.rng.stream("person", user as u64);
        let mut items = self.histories.of(user).to_vec();
        items.sort_unstable();
        items.dedup();
        let has = |item: u32| items.binary_search(&item).is_ok();
        let others: Vec<u32> = (0..self.histories.catalog_size() as u32).filter(|item| !has(*item)).collect();
        let mut shuffled = items.clone();
        rng.stream("halves", 0).shuffle(&mut shuffled);
        let (one, other) = shuffled.split_at(shuffled.len() / 2);
        let mut sum = 0.0;
        for (half, (known, sought)) in (0..).zip([(one, other), (other, one)]) {
            let mut known = known.to_vec();
            known.sort_unstable();
            let mut scores = vec![0.0; self.histories.catalog_size()];
            model.train_newcomer((&known).into(), self.steps, &rng.stream("newcomer", half), &mut scores)?;
            sum += found(&scores, sought, &others);
        }
        Ok(sum / 2.0)
    }
}

/// The share of pairs in which a sought item is above another; ties count half.
fn found(scores: &[f32], sought: &[u32], others: &[u32]) -> f64 {
    let mut below: Vec<f32> = others.iter().map(|&item| scores[item as usize]).collect();
    below.sort_unstable_by(f32::total_cmp);
    let twice = |&item: &u32| {
        let score = scores[item as usize];
        below.partition_point(|other| *other < score) + below.partition_point(|other| *other <= score)
    };
    let twice: usize = sought.iter().map(twice).sum();
    twice as f64 / (2 * sought.len().max(1) * others.len().max(1)) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separates_groups_that_differ() {
        let of = |from: f64| -> Vec<f64> { (0..40).map(|n| from + f64::from(n)).collect() };
        let Separation { auc, low, high } = Separation::of(&of(0.0), &of(0.0));
        assert!((auc - 0.5).abs() < 1e-12 && low < 0.4 && high > 0.6, "{auc} {low} {high}");
        let apart = Separation::of(&of(100.0), &of(0.0));
        assert_eq!((apart.auc, apart.low, apart.high), (1.0, 1.0, 1.0));
        let mostly = Separation::of(&of(20.0), &of(0.0));
        assert!(mostly.low > 0.5 && mostly.auc < 1.0, "{mostly:?}");
    }

    /// By hand: of six pairs five are won and one is a tie.
    #[test]
    fn interval_matches_delong_by_hand() {
        let found = Separation::of(&[3.0, 2.0, 1.0], &[1.0, 0.0]);
        // Parts of the first group: 1, 1, 0.75; of the second: 5/6, 1.
        let auc = 2.75 / 3.0;
        let first = (2.0 * (1.0 - auc) * (1.0 - auc) + (0.75 - auc) * (0.75 - auc)) / 2.0 / 3.0;
        let second = ((5.0 / 6.0 - auc) * (5.0 / 6.0 - auc) + (1.0 - auc) * (1.0 - auc)) / 2.0;
        let spread = NORMAL_975 * f64::sqrt(first + second);
        assert!((found.auc - auc).abs() < 1e-12 && (found.low - (auc - spread)).abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn ties_count_half() {
        assert_eq!(found(&[1.0, 1.0, 0.0, 2.0], &[0], &[1, 2, 3]), 0.5);
        assert_eq!(found(&[3.0, 1.0, 0.0, 2.0], &[0], &[1, 2, 3]), 1.0);
    }
}
