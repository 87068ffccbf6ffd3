//! The order of interactions in an epoch.

use super::negative_sampler::NegativeSampler;
use sottovoce_core::{Histories, Rng};

/// A user and an item that they have.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Interaction {
    /// The user.
    pub(super) user: u32,
    /// The item.
    pub(super) item: u32,
}

/// Interactions shuffled together: few enough for the L1 cache.
const CHUNK: usize = 2048;

/// Interactions of a group of users, about: few enough for their vectors to stay in cache.
const GROUP: usize = 1 << 16;

/// All interactions, in a new order in each epoch.
///
/// Users are assigned to random groups once, and each group's interactions are shuffled. An epoch visits the groups in
/// random order; in each it shifts the bounds of the chunks, visits the chunks in random order and shuffles each. This
/// is random enough for training, at a quarter of the cost of shuffling millions of interactions in main memory, and
/// users' vectors stay in cache.
pub(super) struct EpochOrder {
    groups: Vec<Vec<Interaction>>,
    chunks: Vec<usize>,
}

impl EpochOrder {
    /// The interactions of all users for whom there is a negative item.
    pub(super) fn new(train: &Histories, sampler: &NegativeSampler, rng: &mut Rng) -> Self {
        let mut users: Vec<u32> = (0..train.users() as u32).filter(|&user| !sampler.has_all(user)).collect();
        rng.shuffle(&mut users);
        let total: usize = users.iter().map(|&user| train.of(user as usize).len()).sum();
        let count = (total / GROUP).max(1);
        let mut groups = vec![Vec::with_capacity(total / count); count];
        let mut before = 0;
        for user in users {
            let items = train.of(user as usize);
            let group = &mut groups[(before * count / total.max(1)).min(count - 1)];
            group.extend(items.iter().map(|&item| Interaction { user, item }));
            before += items.len();
        }
        groups.iter_mut().for_each(|group| rng.shuffle(group));
        Self { groups, chunks: Vec::new() }
    }

    /// Number of interactions.
    pub(super) fn len(&self) -> usize {
        self.groups.iter().map(Vec::len).sum()
    }

    /// Calls `train` with each chunk of an epoch and the random stream.
    pub(super) fn epoch(&mut self, rng: &mut Rng, mut train: impl FnMut(&[Interaction], &mut Rng)) {
        rng.shuffle(&mut self.groups);
        for group in self.groups.iter_mut().filter(|group| !group.is_empty()) {
            let shift = rng.index(group.len().min(CHUNK));
            group.rotate_left(shift);
            self.chunks.clear();
            self.chunks.extend(0..group.len().div_ceil(CHUNK));
            rng.shuffle(&mut self.chunks);
            for &chunk in &self.chunks {
                let end = ((chunk + 1) * CHUNK).min(group.len());
                let chunk = &mut group[chunk * CHUNK..end];
                rng.shuffle(chunk);
                train(chunk, rng);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_epoch_visits_every_interaction_in_a_new_order() {
        // Enough for two groups, the second with a chunk that is not full.
        let length = |user: u32| 300 + user;
        let lists: Vec<Vec<u32>> = (0..400).map(|user| (0..length(user)).collect()).collect();
        let train = Histories::from_lists(&lists, 700).unwrap();
        let mut rng = Rng::new(1);
        let mut order = EpochOrder::new(&train, &NegativeSampler::new(&train), &mut rng);
        assert!(order.groups.len() == 3 && order.groups.iter().all(|group| group.len() > 60_000));
        assert_eq!(order.len(), train.interactions());
        let mut epoch = || {
            let mut interactions = Vec::new();
            order.epoch(&mut rng, |chunk, _| interactions.extend_from_slice(chunk));
            interactions
        };
        let (first, mut second) = (epoch(), epoch());
        assert!(first.iter().zip(&second).filter(|(a, b)| a == b).count() < 100);
        second.sort_unstable_by_key(|interaction| (interaction.user, interaction.item));
        let all = |user: u32| (0..length(user)).map(move |item| Interaction { user, item });
        assert_eq!(second, (0..400).flat_map(all).collect::<Vec<_>>());
    }

    #[test]
    fn no_interactions_give_no_chunk() {
        let train = Histories::from_lists(&[vec![], vec![0, 1]], 2).unwrap();
        let mut order = EpochOrder::new(&train, &NegativeSampler::new(&train), &mut Rng::new(1));
        order.epoch(&mut Rng::new(1), |chunk, _| panic!("{chunk:?}"));
        assert_eq!(order.len(), 0);
    }
}
