//! ReFRS by DP-SGD: one step of the embedding model a round, with the gradient of each window bounded.
//!
//! Interactions are sampled first, and windows are those of the sampled sequence. One interaction more makes one window
//! more and changes the w - 1 windows after it. Each window's gradient is therefore clipped to 1 / (2w - 1) of the
//! clip: then all of them together move by the clip at most. Of an item that comes several times, only the last
//! interaction counts, because an item is what is sampled.
//!
//! What leaves is the encoder's share. All of the embedding model is changed by noisy sums alone, the device's own copy
//! of the encoder too, by which it later chooses its cluster. The recommender is trained on the history as it is. No
//! update depends on it: the embedding model is trained first, and never sees it.

use super::Client;
use super::session::Networks;
use crate::federated::clustering::PreparedClusters;
use crate::federated::dp_sgd::{Gradient, Sums};
use crate::loss::Loss;
use crate::{DpSgd, TrainInput, TrainResult, TrainStats};
use sottovoce_core::Rng;
use sottovoce_neural::NeuralError;
use sottovoce_protocol::Trained;

/// Each item's last interaction, in time order.
fn last_of_each(sequence: &[u32]) -> Vec<u32> {
    let mut seen = std::collections::HashSet::new();
    let mut last: Vec<u32> = sequence.iter().rev().copied().filter(|&item| seen.insert(item)).collect();
    last.reverse();
    last
}

impl Client {
    pub(super) fn step_dp_sgd(
        &self,
        networks: &Networks,
        sequence: &[u32],
        input: TrainInput<'_, PreparedClusters>,
        dp_sgd: &mut DpSgd<'_>,
        rng: &mut Rng,
        into: &mut Trained,
    ) -> TrainResult {
        let TrainInput { shared, prepared, private, history, hidden } = input;
        let mut sampled = last_of_each(sequence);
        // One without a chance has no part even in what is drawn.
        sampled.retain(|&item| (dp_sgd.probability)(item) > 0.0 && rng.chance((dp_sgd.probability)(item)));
        let encoder = networks.embedding.encoder();
        let own = super::client::has_trained(private).then(|| &private[encoder.clone()]);
        // By noisy parameters only: what a network loses would tell of the history.
        let cluster = self.clusters.assign(shared, prepared, own, |_| 0.0);
        private[encoder.clone()].copy_from_slice(shared.tables()[self.clusters.networks()].row(cluster));
        let values = networks.embedding.layout().len();
        let mut sums = Sums::new(vec![cluster as u32], encoder.len(), (values, 0));
        let windows = 2 * networks.embedding.shape().window - 1;
        let DpSgd { probability, clip, steps, .. } = *dp_sgd;
        let each = DpSgd { probability, clip: clip / windows as f64, steps, noise: &mut |_| () };
        let loss = self.add_windows(networks, (&private[..values], cluster as u32), &sampled, (&each, rng), &mut sums);
        let loss = loss.unwrap_or(f64::NAN);
        let stats = sums.finish(dp_sgd, (&mut private[..values], 1.0), (&history[..], hidden), Loss::new(), into)?;
        Ok(TrainStats { loss, ..stats })
    }

    /// Adds the clipped step of each window; returns the sum of losses.
    fn add_windows(
        &self,
        networks: &Networks,
        (parameters, cluster): (&[f32], u32),
        sampled: &[u32],
        (each, rng): (&DpSgd<'_>, &Rng),
        sums: &mut Sums,
    ) -> Result<f64, NeuralError> {
        let (mut work, mut gradient, mut loss) = (networks.workspace()?, Gradient::default(), 0.0);
        let encoder = networks.embedding.encoder();
        let window = networks.embedding.shape().window;
        for end in 0..sampled.len() {
            let items = &sampled[(end + 1).saturating_sub(window)..=end];
            // A window's randomness is its own, so that windows before it do not matter.
            let mut rng = rng.stream("window", sampled[end].into());
            gradient.clear(parameters.len(), 0);
            loss += networks.window_gradient(parameters, items, &mut work, &mut rng, |gradients| {
                let steps = gradients.iter().map(|&value| -self.config.learning_rate * f64::from(value));
                gradient.private.iter_mut().zip(steps).for_each(|(private, step)| *private = step);
            })?;
            gradient.copy_to_row(cluster, encoder.clone());
            sums.add(&gradient, each);
        }
        Ok(loss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClientModel;
    use crate::federated::clustering::Assignment;
    use crate::federated::refrs::tests::{client, shared};
    use sottovoce_core::History;

    /// The row and the sums that were to be noised, in steps.
    fn learn(sequence: &[u32], clip: f64) -> Vec<f64> {
        let client = client(|config| {
            config.learning_rate = 1.0;
            config.clustering.assignment = Assignment::Single;
        });
        let shared = shared(&client);
        let mut private = vec![0.0; client.private_values()];
        client.init_private(&mut private, &mut Rng::new(2));
        let mut kept = Vec::new();
        let mut noise = |sums: &mut [i64]| kept.extend(sums.iter().map(|&sum| sum as f64));
        let mut dp_sgd = DpSgd { probability: &|_| 1.0, clip, steps: 65536.0, noise: &mut noise };
        let mut into = Trained::new(&shared.layout());
        let mut items = sequence.to_vec();
        items.sort_unstable();
        items.dedup();
        let history = History { sequence, ..(&items).into() };
        let prepared = client.prepare(&shared);
        let input = TrainInput { shared: &shared, prepared: &prepared, private: &mut private, history, hidden: &[] };
        client.train_dp_sgd(input, &mut dp_sgd, &mut Rng::new(7), &mut into).unwrap();
        let row = into.update().tables()[0].values().iter().map(|&value| f64::from(value) * 65536.0);
        row.chain(kept).collect()
    }

    #[test]
    fn one_more_interaction_moves_all_that_is_noised_by_the_clip_at_most() {
        let few: Vec<u32> = (0..24).collect();
        for clip in [0.05, 2.0] {
            for at in [0, 11, 24] {
                let mut more = few.clone();
                more.insert(at, 30);
                let (few, more) = (learn(&few, clip), learn(&more, clip));
                let moved: f64 = few.iter().zip(&more).map(|(a, b)| (a - b).powi(2)).sum();
                let moved = moved.sqrt() / 65536.0;
                assert!(moved > 0.01 * clip && moved <= clip, "{at}: {moved} of {clip}");
            }
        }
    }

    #[test]
    fn only_the_last_interaction_with_an_item_counts() {
        assert_eq!(last_of_each(&[3, 1, 3, 2, 1]), [3, 2, 1]);
        assert_eq!(learn(&[3, 1, 3, 2, 1], 1.0), learn(&[3, 2, 1], 1.0));
    }
}
