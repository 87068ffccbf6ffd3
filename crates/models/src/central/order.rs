//! The order in which interactions are learnt from.

use super::negatives::Owned;
use sottovoce_core::{Histories, Rng};

/// A user and an item they have.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Pair {
    /// The user.
    pub(crate) user: u32,
    /// The item.
    pub(crate) item: u32,
}

/// Interactions put into one random order as they are learnt from: small enough to be shuffled in a near cache.
const CHUNK: usize = 2048;

/// Interactions of a group of users, about: what a step needs to know of them stays in a near cache.
const GROUP: usize = 1 << 16;

/// All interactions that can be learnt from, in an order that is new in each epoch.
///
/// Users are put into groups at random once, and each group's interactions are shuffled. An epoch takes the groups in
/// random order; in each it moves the borders of the chunks, takes the chunks in random order and shuffles each. That is
/// as random as learning needs, at a quarter of the cost of shuffling millions of pairs in far memory, and a user's
/// vector is met again soon.
pub(crate) struct Order {
    groups: Vec<Vec<Pair>>,
    chunks: Vec<usize>,
}

impl Order {
    /// The interactions of all users for whom there is a negative item.
    pub(crate) fn new(train: &Histories, owned: &Owned, rng: &mut Rng) -> Self {
        let mut users: Vec<u32> = (0..train.users() as u32).filter(|&user| !owned.has_all(user)).collect();
        rng.shuffle(&mut users);
        let total: usize = users.iter().map(|&user| train.of(user as usize).len()).sum();
        let count = (total / GROUP).max(1);
        let mut groups = vec![Vec::with_capacity(total / count); count];
        let mut before = 0;
        for user in users {
            let items = train.of(user as usize);
            let group = &mut groups[(before * count / total.max(1)).min(count - 1)];
            group.extend(items.iter().map(|&item| Pair { user, item }));
            before += items.len();
        }
        groups.iter_mut().for_each(|group| rng.shuffle(group));
        Self { groups, chunks: Vec::new() }
    }

    /// Number of interactions.
    pub(crate) fn len(&self) -> usize {
        self.groups.iter().map(Vec::len).sum()
    }

    /// One epoch, a chunk of interactions after the other; the random stream is handed on.
    #[inline(always)]
    pub(crate) fn epoch(&mut self, rng: &mut Rng, mut learn: impl FnMut(&[Pair], &mut Rng)) {
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
                learn(chunk, rng);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_epoch_goes_through_every_interaction_in_a_new_order() {
        // Enough for two groups, the second with a chunk that is not full.
        let length = |user: u32| 300 + user;
        let lists: Vec<Vec<u32>> = (0..400).map(|user| (0..length(user)).collect()).collect();
        let train = Histories::from_lists(&lists, 700).unwrap();
        let mut rng = Rng::new(1);
        let mut order = Order::new(&train, &Owned::new(&train), &mut rng);
        assert!(order.groups.len() == 3 && order.groups.iter().all(|group| group.len() > 60_000));
        assert_eq!(order.len(), train.interactions());
        let mut epoch = || {
            let mut pairs = Vec::new();
            order.epoch(&mut rng, |chunk, _| pairs.extend_from_slice(chunk));
            pairs
        };
        let (first, mut second) = (epoch(), epoch());
        assert!(first.iter().zip(&second).filter(|(a, b)| a == b).count() < 100);
        second.sort_unstable_by_key(|pair| (pair.user, pair.item));
        let all = |user: u32| (0..length(user)).map(move |item| Pair { user, item });
        assert_eq!(second, (0..400).flat_map(all).collect::<Vec<_>>());
    }

    #[test]
    fn nothing_to_learn_from_is_no_chunk() {
        let train = Histories::from_lists(&[vec![], vec![0, 1]], 2).unwrap();
        let mut order = Order::new(&train, &Owned::new(&train), &mut Rng::new(1));
        order.epoch(&mut Rng::new(1), |chunk, _| panic!("{chunk:?}"));
        assert_eq!(order.len(), 0);
    }
}
