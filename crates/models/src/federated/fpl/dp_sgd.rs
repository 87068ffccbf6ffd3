//! FPL by DP-SGD: one triple for each interaction that is taken, bounded by itself.

use super::{Client, Regularisation, simd};
use crate::federated::dp_sgd::{Gradient, sigmoid};
use sottovoce_core::Rng;
use sottovoce_protocol::Table;

impl Client {
    /// All that one triple moves; returns the probability of the order that it says.
    pub(super) fn gradient(
        &self,
        strengths: Regularisation,
        (table, user): (&Table, &[f32]),
        [i, j]: [u32; 2],
        into: &mut Gradient,
    ) -> f64 {
        let width = user.len() + 1;
        let (positive, negative) = (simd::row(table.values(), width, i), simd::row(table.values(), width, j));
        let wrong = sigmoid(f64::from(simd::score(user, negative)) - f64::from(simd::score(user, positive)));
        into.clear(user.len(), 0);
        for (f, &p) in user.iter().enumerate() {
            let (p, back) = (f64::from(p), f64::from(strengths.user));
            into.private[f] = wrong * (f64::from(positive[f]) - f64::from(negative[f])) - back * p;
        }
        for (item, row, wrong, regularisation) in
            [(i, positive, wrong, strengths.positive), (j, negative, -wrong, strengths.negative)]
        {
            let sums = into.row(item, width);
            for (f, &q) in row.iter().enumerate() {
                let p = user.get(f).map_or(1.0, |&p| f64::from(p));
                let back = if f < user.len() { regularisation } else { strengths.of_bias(regularisation) };
                sums[f] += wrong * p - f64::from(back) * f64::from(q);
            }
        }
        1.0 - wrong
    }
}

/// Triples of the interactions that are taken. One without a chance has no part even in what is drawn.
pub(super) fn draw(history: &[u32], items: u32, probability: &dyn Fn(u32) -> f64, rng: &mut Rng) -> Vec<[u32; 2]> {
    let taken = |&item: &u32| {
        let (taken, other) = (rng.chance(probability(item)), rng.below(items));
        taken.then_some([item, other])
    };
    history.iter().filter(|&&item| probability(item) > 0.0).filter_map(taken).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::federated::fpl::{Regularisation, Server};
    use crate::{ClientModel, DpSgd, Negatives, ServerModel, TrainInput, TrainStats};
    use proptest::prelude::{Strategy, prop, prop_assert, prop_assert_eq, proptest};
    use sottovoce_protocol::{Parameters, Trained};

    const ITEMS: usize = 30;
    const FACTORS: usize = 4;
    const STEPS: f64 = 65536.0;

    fn device() -> Client {
        let regularisation =
            Regularisation { user: 0.03, positive: 0.02, negative: 0.01, biases: true, mean_history: None };
        let (negatives, steps) = (Negatives::Decoys, crate::federated::fpl::Steps::Together);
        Client {
            factors: FACTORS,
            triples: 1,
            learning_rate: 0.5,
            regularisation,
            init_deviation: 0.5,
            negatives,
            steps,
        }
    }

    fn model(seed: u64) -> Parameters {
        Server { factors: FACTORS, init_deviation: 0.8 }.init(ITEMS, &mut Rng::new(seed)).unwrap()
    }

    /// Sums of what leaves, by item, and the change of the private vector before noise, both in steps; `tell` is told
    /// what was to be noised.
    fn learn(shared: &Parameters, history: &[u32], clip: f64, chance: f64) -> (Vec<f64>, Vec<i64>, TrainStats) {
        let device = device();
        let mut private = [0.3, -0.2, 0.5, 0.1];
        let mut kept = Vec::new();
        let mut noise = |sums: &mut [i64]| kept.extend_from_slice(sums);
        let mut dp_sgd = DpSgd { probability: &|_| chance, clip, steps: STEPS, noise: &mut noise };
        let mut into = Trained::new(&shared.layout());
        let input = TrainInput { shared, prepared: &(), private: &mut private, history: history.into(), hidden: &[] };
        let stats = device.train_dp_sgd(input, &mut dp_sgd, &mut Rng::new(5), &mut into).unwrap();
        let mut rows = vec![0.0; ITEMS * (FACTORS + 1)];
        for (row, values) in into.update().tables()[0].iter() {
            for (sum, &value) in rows[row * (FACTORS + 1)..].iter_mut().zip(values) {
                *sum = f64::from(value) * STEPS;
            }
        }
        (rows, kept, stats)
    }

    fn history() -> impl Strategy<Value = Vec<u32>> {
        prop::collection::btree_set(0..ITEMS as u32 - 1, 1..20).prop_map(|items| items.into_iter().collect())
    }

    proptest! {
        #[test]
        fn one_more_interaction_moves_all_that_is_noised_by_the_clip_at_most(
            history in history(), clip in 0.01f64..2.0, seed in 0u64..1000,
        ) {
            let shared = model(seed);
            let more: Vec<u32> = history.iter().copied().chain([ITEMS as u32 - 1]).collect();
            // The last one draws last: what the others draw is the same with and without it.
            let ((rows, kept, _), (more_rows, more_kept, _)) =
                (learn(&shared, &history, clip, 1.0), learn(&shared, &more, clip, 1.0));
            prop_assert!(rows.iter().chain(&more_rows).all(|sum| sum.fract() == 0.0), "sums are whole steps");
            let moved = rows.iter().zip(&more_rows).map(|(a, b)| (a - b).powi(2)).sum::<f64>()
                + kept.iter().zip(&more_kept).map(|(a, b)| ((a - b) as f64).powi(2)).sum::<f64>();
            prop_assert!(moved.sqrt() <= clip * STEPS, "{} {}", moved.sqrt(), clip * STEPS);
            prop_assert!(moved > 0.0);
        }

        #[test]
        fn without_bound_it_is_the_papers_sum(history in history(), seed in 0u64..1000) {
            let shared = model(seed);
            let (rows, kept, stats) = learn(&shared, &history, 1e6, 1.0);
            let (device, user) = (device(), [0.3f32, -0.2, 0.5, 0.1]);
            let table = &shared.tables()[0];
            let mut expected = vec![0.0; rows.len()];
            let mut private = [0.0; FACTORS];
            let mut loss = 0.0;
            for [i, j] in draw(&history, ITEMS as u32, &|_| 1.0, &mut Rng::new(5)) {
                let (q_i, q_j) = (table.row(i as usize), table.row(j as usize));
                let x = |q: &[f32]| (0..FACTORS).map(|f| f64::from(user[f] * q[f])).sum::<f64>() + f64::from(q[FACTORS]);
                let s = 1.0 / (1.0 + (x(q_i) - x(q_j)).exp());
                loss -= (1.0 - s).ln();
                for f in 0..=FACTORS {
                    let p = if f < FACTORS { f64::from(user[f]) } else { 1.0 };
                    expected[i as usize * (FACTORS + 1) + f] += s * p - f64::from(device.regularisation.positive * q_i[f]);
                    expected[j as usize * (FACTORS + 1) + f] -= s * p + f64::from(device.regularisation.negative * q_j[f]);
                }
                for f in 0..FACTORS {
                    private[f] += s * f64::from(q_i[f] - q_j[f]) - f64::from(device.regularisation.user * user[f]);
                }
            }
            let near = |steps: f64, value: f64| (steps / STEPS - value).abs() < 1e-3;
            prop_assert!(rows.iter().zip(&expected).all(|(&steps, &value)| near(steps, value)));
            prop_assert!(kept.iter().zip(&private).all(|(&steps, &value)| near(steps as f64, value)));
            prop_assert!((stats.loss - loss).abs() < 1e-3);
            prop_assert_eq!(stats.samples, history.len() as u64);
        }
    }

    #[test]
    fn interactions_are_taken_by_chance_and_hidden_ones_never() {
        let shared = model(1);
        let history: Vec<u32> = (0..25).collect();
        let taken = |chance| draw(&history, 30, &|_| chance, &mut Rng::new(2)).len();
        assert_eq!((taken(0.0), taken(1.0)), (0, 25));
        assert!((5..20).contains(&taken(0.5)), "{}", taken(0.5));
        // Who takes part sends something even if nothing was taken.
        let (rows, _, stats) = learn(&shared, &history, 1.0, 0.0);
        assert!(rows.iter().all(|&sum| sum == 0.0));
        assert_eq!(stats.samples, 25);
        let mut none = |_: &mut [i64]| ();
        let mut dp_sgd = DpSgd { probability: &|_| 1.0, clip: 1.0, steps: STEPS, noise: &mut none };
        let mut into = Trained::new(&shared.layout());
        let hidden: Vec<u32> = (0..30).filter(|item| item % 2 == 1).collect();
        let input = TrainInput {
            shared: &shared,
            prepared: &(),
            private: &mut [0.1; FACTORS],
            history: (&[1, 4, 7]).into(),
            hidden: &hidden,
        };
        let stats = device().train_dp_sgd(input, &mut dp_sgd, &mut Rng::new(4), &mut into).unwrap();
        assert_eq!(stats.samples, 1);
        assert!(into.update().tables()[0].iter().count() <= 2);
    }
}
