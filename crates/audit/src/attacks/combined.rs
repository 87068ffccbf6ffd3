//! All attacks together: a logistic model of them, which the attacker fits on a few accounts of their own.

use sottovoce_core::{Rng, math};

/// What each attack is worth.
#[derive(Clone, Debug)]
pub(crate) struct Combined {
    weights: Vec<f64>,
}

/// One account of the attacker's: scores of all items by each attack, and the history.
pub(crate) struct Account<'a> {
    pub(crate) scores: &'a [Vec<f32>],
    pub(crate) history: &'a [u32],
}

const STEPS: usize = 200;
const LEARNING_RATE: f64 = 0.5;
/// Keeps weights small where accounts are few.
const REGULARISATION: f64 = 1e-3;

impl Combined {
    /// Fits on accounts; every attack's scores count by their ranks within one person.
    pub(crate) fn fit<'a>(accounts: impl Iterator<Item = Account<'a>>, rng: &mut Rng) -> Self {
        let mut samples: Vec<(Vec<f64>, f64)> = Vec::new();
        let mut count = 0;
        for Account { scores, history } in accounts {
            let ranks: Vec<Vec<f32>> = scores.iter().map(|scores| ranks(scores)).collect();
            count = ranks.len();
            let items = ranks.first().map_or(0, Vec::len);
            let at = |item: usize| ranks.iter().map(|ranks| f64::from(ranks[item])).collect::<Vec<f64>>();
            for &had in history {
                samples.push((at(had as usize), 1.0));
                let other = rng.index(items);
                if history.binary_search(&(other as u32)).is_err() {
                    samples.push((at(other), 0.0));
                }
            }
        }
        let mut weights = vec![0.0; count + 1];
        for _ in 0..STEPS {
            step(&mut weights, &samples);
        }
        Self { weights }
    }

    /// Scores of all items by the scores of each attack.
    pub(crate) fn scores(&self, scores: &[Vec<f32>]) -> Vec<f32> {
        let items = scores.first().map_or(0, Vec::len);
        let mut sum = vec![0.0; items];
        for (scores, weight) in scores.iter().zip(&self.weights) {
            math::add_scaled(&mut sum, *weight as f32, &ranks(scores));
        }
        sum
    }
}

/// A step down the mean loss; the last weight is that of a constant.
fn step(weights: &mut [f64], samples: &[(Vec<f64>, f64)]) {
    let Some((constant, of)) = weights.split_last_mut() else { return };
    let mut gradient = vec![0.0; of.len() + 1];
    for (features, label) in samples {
        let x: f64 = *constant + features.iter().zip(&*of).map(|(x, w)| x * w).sum::<f64>();
        let error = label - 1.0 / (1.0 + math::exp(-x));
        gradient.iter_mut().zip(features).for_each(|(g, x)| *g += error * x);
        gradient[of.len()] += error;
    }
    let rate = LEARNING_RATE / samples.len().max(1) as f64;
    for (weight, g) in of.iter_mut().zip(&gradient) {
        *weight += rate * g - LEARNING_RATE * REGULARISATION * *weight;
    }
    *constant += rate * gradient[of.len()];
}

/// Ranks from -1 for the lowest score to 1 for the highest; the same for the same score.
pub(super) fn ranks(scores: &[f32]) -> Vec<f32> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[a].total_cmp(&scores[b]));
    let mut ranks = vec![0.0; scores.len()];
    let (mut below, all) = (0, scores.len().max(2) as f32);
    for tied in order.chunk_by(|&a, &b| scores[a] == scores[b]) {
        let rank = (below as f32 + 0.5 * (tied.len() - 1) as f32) / (all - 1.0);
        tied.iter().for_each(|&place| ranks[place] = 2.0 * rank - 1.0);
        below += tied.len();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tells_counts_and_noise_does_not() {
        let mut rng = Rng::new(2);
        let people: Vec<(Vec<Vec<f32>>, Vec<u32>)> = (0..40)
            .map(|_| {
                let history: Vec<u32> = (0..200).filter(|_| rng.chance(0.1)).collect();
                let mut noise = vec![0.0; 200];
                rng.fill_normal(1.0, &mut noise);
                let mut telling = vec![0.0; 200];
                rng.fill_normal(1.0, &mut telling);
                history.iter().for_each(|&item| telling[item as usize] += 1.5);
                (vec![noise, telling], history)
            })
            .collect();
        let accounts = people.iter().map(|(scores, history)| Account { scores, history });
        let combined = Combined::fit(accounts, &mut rng);
        assert!(combined.weights[1] > 8.0 * combined.weights[0].abs(), "{:?}", combined.weights);
    }

    #[test]
    fn ranks_go_from_lowest_to_highest_and_ties_share() {
        assert_eq!(ranks(&[5.0, 1.0, 1.0, 9.0, 7.0]), [0.0, -0.75, -0.75, 1.0, 0.5]);
        assert_eq!(ranks(&[3.0]), [-1.0]);
    }
}
