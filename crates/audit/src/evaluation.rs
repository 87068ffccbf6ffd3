//! Evaluation of reconstructed histories.

use serde::Serialize;
use sottovoce_evaluate::significance::{Interval, bootstrap_mean};

/// How well one user's history was reconstructed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Reconstruction {
    /// Fraction of pairs of an item of the history and another item that are ranked correctly; ties count half.
    pub auc: f64,
    /// Precision among the n items of the highest scores, n the size of the history.
    pub precision: f64,
    /// Recall among the 2 n items of the highest scores.
    pub recall: f64,
}

/// Evaluates scores of candidates, of which `own` are in the history; `None` unless there are both kinds. Ties count as
/// the mean over all their orders.
pub(crate) fn evaluate(scores: &[f32], own: &[bool]) -> Option<Reconstruction> {
    let all = own.iter().filter(|&&own| own).count();
    let others = own.len() - all;
    if all == 0 || others == 0 {
        return None;
    }
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    let (mut above, mut found, mut wins) = (0, 0, 0.0);
    let (mut precision, mut recall) = (0.0, 0.0);
    for tied in order.chunk_by(|&a, &b| scores[a] == scores[b]) {
        let hits = tied.iter().filter(|&&index| own[index]).count();
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
    Some(Reconstruction { auc: wins / (of * others as f64), precision: precision / of, recall: recall / of })
}

/// A mean over users with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Estimate {
    /// Of one value per user.
    pub(crate) fn of(values: &[f64], seed: u64) -> Self {
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        let Interval { low, high } =
            bootstrap_mean(values, 0.95, 1000, seed).unwrap_or(Interval { low: mean, high: mean });
        Self { mean, low, high }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop, prop_assert, proptest};
    use sottovoce_core::Rng;

    #[test]
    fn evaluates_perfect_constant_and_inverted_scores() {
        let had = [true, true, false, false, false, false];
        let perfect = evaluate(&[3.0, 2.0, 1.0, 0.0, 0.5, 0.1], &had).unwrap();
        assert_eq!(perfect, Reconstruction { auc: 1.0, precision: 1.0, recall: 1.0 });
        let useless = evaluate(&[1.0; 6], &had).unwrap();
        assert_eq!(useless.auc, 0.5);
        assert!((useless.precision - 1.0 / 3.0).abs() < 1e-12 && (useless.recall - 2.0 / 3.0).abs() < 1e-12);
        assert_eq!(evaluate(&[0.0, 0.0, 1.0, 1.0, 1.0, 1.0], &had).unwrap().auc, 0.0);
        assert_eq!(evaluate(&[1.0, 2.0], &[true, true]), None);
    }

    proptest! {
        #[test]
        fn ties_count_as_the_mean_over_all_orders(
            scores in prop::collection::vec(0u8..4, 3..12), had in prop::collection::vec(prop::bool::ANY, 12),
        ) {
            let had = &had[..scores.len()];
            let tied: Vec<f32> = scores.iter().map(|&score| f32::from(score)).collect();
            let Some(found) = evaluate(&tied, had) else { return Ok(()) };
            let mut rng = Rng::new(1);
            let (mut sum, orders) = (Reconstruction::default(), 4000);
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
