//! How much of a history was rebuilt.

use serde::Serialize;
use sottovoce_evaluate::significance::{Interval, bootstrap_mean};

/// How well one person's history was rebuilt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Rebuilt {
    /// Share of pairs of an item of the history and another item in which the first has the higher score; ties count half.
    pub auc: f64,
    /// Share of items of the history among as many items of the highest scores.
    pub precision: f64,
    /// Share of the history among twice as many items of the highest scores.
    pub recall: f64,
}

/// Judges scores of candidates, of which some are in the history; `None` without either kind. Items of the same score come in
/// any order, and what is given is the mean over all of them.
pub fn evaluate(scores: &[f32], had: &[bool]) -> Option<Rebuilt> {
    let all = had.iter().filter(|&&had| had).count();
    let others = had.len() - all;
    if all == 0 || others == 0 {
        return None;
    }
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    let (mut above, mut found, mut wins) = (0, 0, 0.0);
    let (mut precision, mut recall) = (0.0, 0.0);
    for tied in order.chunk_by(|&a, &b| scores[a] == scores[b]) {
        let hits = tied.iter().filter(|&&place| had[place]).count();
        let misses = tied.len() - hits;
        let misses_above = above - found;
        wins += hits as f64 * ((others - misses_above - misses) as f64 + 0.5 * misses as f64);
        let share = hits as f64 / tied.len() as f64;
        precision += share * all.saturating_sub(above).min(tied.len()) as f64;
        recall += share * (2 * all).saturating_sub(above).min(tied.len()) as f64;
        above += tied.len();
        found += hits;
    }
    let of = all as f64;
    Some(Rebuilt { auc: wins / (of * others as f64), precision: precision / of, recall: recall / of })
}

/// A mean over people, with the range that holds it with 95 % confidence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Figure {
    /// The mean.
    pub mean: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Figure {
    /// Of one value a person.
    pub fn of(values: &[f64], seed: u64) -> Self {
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        let Interval { low, high } =
            bootstrap_mean(values, 0.95, 1000, seed).unwrap_or(Interval { low: mean, high: mean });
        Self { mean, low, high }
    }

    /// Whether the range holds a value.
    pub fn holds(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop, prop_assert, proptest};
    use sottovoce_core::Rng;

    #[test]
    fn perfect_useless_and_wrong_scores_are_told_apart() {
        let had = [true, true, false, false, false, false];
        let perfect = evaluate(&[3.0, 2.0, 1.0, 0.0, 0.5, 0.1], &had).unwrap();
        assert_eq!(perfect, Rebuilt { auc: 1.0, precision: 1.0, recall: 1.0 });
        let useless = evaluate(&[1.0; 6], &had).unwrap();
        assert_eq!(useless.auc, 0.5);
        assert!((useless.precision - 1.0 / 3.0).abs() < 1e-12 && (useless.recall - 2.0 / 3.0).abs() < 1e-12);
        assert_eq!(evaluate(&[0.0, 0.0, 1.0, 1.0, 1.0, 1.0], &had).unwrap().auc, 0.0);
        assert_eq!(evaluate(&[1.0, 2.0], &[true, true]), None);
    }

    proptest! {
        #[test]
        fn ties_are_the_mean_over_all_orders(
            scores in prop::collection::vec(0u8..4, 3..12), had in prop::collection::vec(prop::bool::ANY, 12),
        ) {
            let had = &had[..scores.len()];
            let tied: Vec<f32> = scores.iter().map(|&score| f32::from(score)).collect();
            let Some(found) = evaluate(&tied, had) else { return Ok(()) };
            let mut rng = Rng::new(1);
            let (mut sum, orders) = (Rebuilt::default(), 4000);
            for _ in 0..orders {
                let broken: Vec<f32> = tied.iter().map(|score| score + 0.5 * rng.unit() as f32).collect();
                let one = evaluate(&broken, had).unwrap();
                sum.auc += one.auc / f64::from(orders);
                sum.precision += one.precision / f64::from(orders);
                sum.recall += one.recall / f64::from(orders);
            }
            for (found, mean) in [
                (found.auc, sum.auc), (found.precision, sum.precision), (found.recall, sum.recall),
            ] {
                prop_assert!((found - mean).abs() < 0.04, "{found} {mean}");
            }
        }
    }
}
