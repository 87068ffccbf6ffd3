//! FedGMF by DP-SGD: an interaction with the negatives drawn for it, bounded by itself; one step a round.

use super::Client;
use crate::federated::dp_sgd::{Gradient, sigmoid};
use crate::loss::Loss;
use sottovoce_core::Rng;
use sottovoce_protocol::Table;

impl Client {
    /// Each interaction that is taken, followed by its negatives. One without a chance has no part even in what is
    /// drawn.
    pub(super) fn draw_each(
        &self,
        history: &[u32],
        items: u32,
        probability: &dyn Fn(u32) -> f64,
        rng: &mut Rng,
    ) -> Vec<u32> {
        let mut samples = Vec::new();
        for &item in history.iter().filter(|&&item| probability(item) > 0.0) {
            let (taken, before) = (rng.chance(probability(item)), samples.len());
            samples.push(item);
            samples.extend((0..self.config.negatives).map(|_| rng.below(items)));
            if !taken {
                samples.truncate(before);
            }
        }
        samples
    }

    /// All that an interaction moves, with its negatives: a step down the gradient, or the gradient where that is
    /// proposed.
    pub(super) fn gradient(
        &self,
        (vectors, output): (&Table, &[f32]),
        p: &[f32],
        sample: &[u32],
        into: &mut Gradient,
        loss: &mut Loss,
    ) {
        let width = p.len();
        let (rate, regularisation) = self.rates();
        let rate = if self.config.gradients { 1.0 } else { f64::from(rate) };
        into.clear(width, width);
        for (place, &item) in sample.iter().enumerate() {
            let q = vectors.row(item as usize);
            let score: f64 = (0..width).map(|f| f64::from(p[f] * q[f] * output[f])).sum();
            let sign = if place == 0 { 1.0 } else { -1.0 };
            let likely = sigmoid(sign * score);
            let (up, back) = (rate * sign * (1.0 - likely), rate * f64::from(regularisation));
            for f in 0..width {
                let (p, q, h) = (f64::from(p[f]), f64::from(q[f]), f64::from(output[f]));
                into.private[f] += up * h * q - back * p;
                into.dense[f] += up * p * q;
                into.row(item, width)[f] += up * h * p - back * q;
            }
            loss.add(likely as f32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::federated::fed_gmf::client::tests::{device, shared};
    use crate::{ClientModel, DpSgd, TrainInput};
    use sottovoce_protocol::Trained;

    /// Rows, output and the sums that were to be noised, in steps.
    fn learn(device: &Client, history: &[u32], clip: f64) -> Vec<f64> {
        let shared = shared();
        let mut all = vec![0.0; 9 * 3];
        let mut kept = Vec::new();
        let mut noise = |sums: &mut [i64]| kept.extend(sums.iter().map(|&sum| sum as f64));
        let mut dp_sgd = DpSgd { probability: &|_| 1.0, clip, steps: 65536.0, noise: &mut noise };
        let mut into = Trained::new(&shared.layout());
        let input = TrainInput {
            shared: &shared,
            prepared: &(),
            private: &mut [0.3, -0.8, 0.5],
            history: history.into(),
            hidden: &[],
        };
        device.train_dp_sgd(input, &mut dp_sgd, &mut Rng::new(7), &mut into).unwrap();
        for (row, values) in into.update().tables()[0].iter() {
            all[row * 3..][..3].copy_from_slice(&[0, 1, 2].map(|f| f64::from(values[f]) * 65536.0));
        }
        all.extend(into.update().tables()[1].values().iter().map(|&value| f64::from(value) * 65536.0));
        all.extend(kept);
        all
    }

    #[test]
    fn one_more_interaction_moves_all_that_is_noised_by_the_clip_at_most() {
        for (gradients, clip) in [(true, 0.2), (true, 5.0), (false, 0.05), (false, 5.0)] {
            let device = device(gradients);
            let (few, more) = (learn(&device, &[1, 4], clip), learn(&device, &[1, 4, 8], clip));
            let moved: f64 = few.iter().zip(&more).map(|(a, b)| (a - b).powi(2)).sum();
            assert!(moved > 0.0 && moved.sqrt() <= clip * 65536.0, "{} {clip}", moved.sqrt() / 65536.0);
        }
    }

    #[test]
    fn a_step_is_the_gradient_times_the_rate() {
        let (steps, gradients) = (learn(&device(false), &[1, 4], 1e6), learn(&device(true), &[1, 4], 1e6));
        assert!(steps.iter().zip(&gradients).all(|(step, gradient)| (step - 0.3 * gradient).abs() < 6.0));
    }
}
