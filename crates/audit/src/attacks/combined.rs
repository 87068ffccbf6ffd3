//! All attacks combined: a logistic regression on their scores, fitted on a few accounts of the attacker's own.

use sottovoce_core::{Rng, math};

/// Weights of the attacks.
#[derive(Clone, Debug)]
pub(crate) struct Combined {
    weights: Vec<f64>,
}

/// An account of the attacker: scores of all items by each attack, and the history.
pub(crate) struct Account<'a> {
    pub(crate) scores: &'a [Vec<f32>],
    pub(crate) history: &'a [u32],
}

const STEPS: usize = 200;
const LEARNING_RATE: f64 = 0.5;
/// L2 regularisation, where accounts are few.
const REGULARISATION: f64 = 1e-3;

impl Combined {
    /// Fits on accounts; features are the ranks of each attack's scores within one user.
    pub(crate) fn fit<'a>(accounts: impl Iterator<Item = Account<'a>>, rng: &mut Rng) -> Self {
        let mut samples: Vec<(Vec<f64>, f64)> = Vec::new();
        let mut count = 0;
        for Account { scores, history } in accounts {
            let ranks: Vec<Vec<f32>> = scores.iter().map(|scores| ranks(scores)).collect();
            count = ranks.len();
            let items = ranks.first().map_or(0, Vec::len);
            let features = |item: usize| ranks.iter().map(|ranks| f64::from(ranks[item])).collect::<Vec<f64>>();
            for &own in history {
                samples.push((features(own as usize), 1.0));
                let other = rng.index(items);
                if history.binary_search(&(other as u32)).is_err() {
                    samples.push((features(other), 0.0));
                }
            }
        }
        let mut weights = vec![0.0; count + 1];
        for _ in 0..STEPS {
            step(&mut weights, &samples);
        }
        Self { weights }
    }

    /// Combined scores of all items, from those of each attack.
    pub(crate) fn scores(&self, scores: &[Vec<f32>]) -> Vec<f32> {
        let items = scores.first().map_or(0, Vec::len);
        let mut sum = vec![0.0; items];
        for (scores, weight) in scores.iter().zip(&self.weights) {
            math::add_scaled(&mut sum, *weight as f32, &ranks(scores));
        }
        sum
    }
}

/// A step of gradient descent on the mean loss; the last weight is the intercept.
fn step(weights: &mut [f64], samples: &[(Vec<f64>, f64)]) {
    let Some((intercept, slopes)) = weights.split_last_mut() else { return };
    let mut gradient = vec![0.0; slopes.len() + 1];
    for (features, label) in samples {
        let x: f64 = *intercept + features.iter().zip(&*slopes).map(|(x, w)| x * w).sum::<f64>();
        let error = label - 1.0 / (1.0 + math::exp(-x));
        gradient.iter_mut().zip(features).for_each(|(g, x)| *g += error * x);
        gradient[slopes.len()] += error;
    }
    let rate = LEARNING_RATE / samples.len().max(1) as f64;
    for (weight, g) in slopes.iter_mut().zip(&gradient) {
        *weight += rate * g - LEARNING_RATE * REGULARISATION * *weight;
    }
    *intercept += rate * gradient[slopes.len()];
}

/// Ranks from -1 for the lowest score to 1 for the highest; equal for ties.
pub(super) fn ranks(scores: &[f32]) -> Vec<f32> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[a].total_cmp(&scores[b]));
    let mut ranks = vec![0.0; scores.len()];
    let (mut below, all) = (0, scores.len().max(2) as f32);
    for tied in order.chunk_by(|&a, &b| scores[a] == scores[b]) {
        let rank = (below as f32 + 0.5 * (tied.len() - 1) as f32) / (all - 1.0);
        tied.iter().for_each(|&index| ranks[index] = 2.0 * rank - 1.0);
        below += tied.len();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_informative_attacks_above_noise() {
        let mut rng = Rng::new(2);
        let users: Vec<(Vec<Vec<f32>>, Vec<u32>)> = (0..40)
            .map(|_| {
                let history: Vec<u32> = (0..200).filter(|_| rng.chance(0.1)).collect();
                let mut noise = vec![0.0; 200];
                rng.fill_normal(1.0, &mut noise);
                let mut informative = vec![0.0; 200];
                rng.fill_normal(1.0, &mut informative);
                history.iter().for_each(|&item| informative[item as usize] += 1.5);
                (vec![noise, informative], history)
            })
            .collect();
        let accounts = users.iter().map(|(scores, history)| Account { scores, history });
        let combined = Combined::fit(accounts, &mut rng);
        assert!(combined.weights[1] > 8.0 * combined.weights[0].abs(), "{:?}", combined.weights);
    }

    #[test]
    fn ranks_ascend_and_ties_share_one() {
        assert_eq!(ranks(&[5.0, 1.0, 1.0, 9.0, 7.0]), [0.0, -0.75, -0.75, 1.0, 0.5]);
        assert_eq!(ranks(&[3.0]), [-1.0]);
    }
}
