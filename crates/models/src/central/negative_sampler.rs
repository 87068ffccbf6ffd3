//! Uniform sampling of items that a user does not have.

use sottovoce_core::{Histories, Rng};

/// Largest bit map, 64 MiB; above it items are looked up by binary search.
const MAX_MAP_BYTES: usize = 64 << 20;

/// Samples negatives, and looks up which items users have.
pub(super) struct NegativeSampler {
    sorted: Histories,
    /// One bit per user and item, each user in words of their own; empty if it would be too large.
    bits: Vec<u64>,
    words_per_user: usize,
}

impl NegativeSampler {
    /// Of these histories.
    pub(super) fn new(train: &Histories) -> Self {
        Self::with_map_up_to(train, MAX_MAP_BYTES)
    }

    fn with_map_up_to(train: &Histories, bytes: usize) -> Self {
        let words_per_user = train.catalog_size().div_ceil(64);
        let words = words_per_user.saturating_mul(train.users());
        let mut sampler = Self { sorted: train.sorted(), bits: Vec::new(), words_per_user };
        if words.saturating_mul(8) <= bytes {
            sampler.bits = vec![0; words];
            for (user, items) in train.iter().enumerate() {
                for &item in items {
                    sampler.bits[user * words_per_user + item as usize / 64] |= 1 << (item % 64);
                }
            }
        }
        sampler
    }

    /// Whether the user has the item.
    #[inline]
    pub(super) fn has(&self, user: u32, item: u32) -> bool {
        if self.bits.is_empty() {
            return self.sorted.of(user as usize).binary_search(&item).is_ok();
        }
        let word = self.bits[user as usize * self.words_per_user + (item / 64) as usize];
        word >> (item % 64) & 1 == 1
    }

    /// Whether the user has every item, so that there is no negative.
    pub(super) fn has_all(&self, user: u32) -> bool {
        let items = self.sorted.of(user as usize);
        let distinct = items.len() - items.windows(2).filter(|pair| pair[0] == pair[1]).count();
        distinct == self.sorted.catalog_size()
    }

    /// Draws for each user an item that they do not have, uniformly; there must be one.
    ///
    /// All are drawn first and looked up together, so that cache misses overlap; the few that the user has are drawn
    /// again.
    #[inline]
    pub(super) fn sample(&self, users: &(impl Iterator<Item = u32> + Clone), into: &mut [u32], rng: &mut Rng) {
        let items = self.sorted.catalog_size() as u32;
        into.fill_with(|| rng.below(items));
        let mut had = [false; 64];
        for (group, users) in into.chunks_mut(64).zip((0..).map(|n| users.clone().skip(64 * n))) {
            for ((had, user), item) in had.iter_mut().zip(users.clone()).zip(&*group) {
                *had = self.has(user, *item);
            }
            for ((had, user), item) in had.iter().zip(users).zip(group) {
                if *had {
                    *item = self.sample_one(user, rng);
                }
            }
        }
    }

    fn sample_one(&self, user: u32, rng: &mut Rng) -> u32 {
        loop {
            let item = rng.below(self.sorted.catalog_size() as u32);
            if !self.has(user, item) {
                return item;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop, prop_assert, prop_assert_eq, proptest};

    proptest! {
        #[test]
        fn bit_map_and_binary_search_agree(lists in prop::collection::vec(prop::collection::vec(0u32..70, 0..90), 1..6)) {
            let train = Histories::from_lists(&lists, 70).unwrap();
            let (map, search) = (NegativeSampler::with_map_up_to(&train, 1 << 20), NegativeSampler::with_map_up_to(&train, 0));
            prop_assert!(!map.bits.is_empty() && search.bits.is_empty());
            for (user, list) in lists.iter().enumerate() {
                for item in 0..70 {
                    prop_assert_eq!(map.has(user as u32, item), list.contains(&item));
                    prop_assert_eq!(search.has(user as u32, item), list.contains(&item));
                }
                let all = (0..70).all(|item| list.contains(&item));
                prop_assert_eq!(map.has_all(user as u32), all);
            }
        }
    }

    #[test]
    fn negatives_are_uniform_over_missing_items() {
        let train = Histories::from_lists(&[vec![1, 4, 1]], 6).unwrap();
        let sampler = NegativeSampler::new(&train);
        let mut rng = Rng::new(5);
        let mut counts = [0; 6];
        let mut drawn = [0; 8000];
        sampler.sample(&std::iter::repeat(0), &mut drawn, &mut rng);
        drawn.iter().for_each(|&item| counts[item as usize] += 1);
        assert_eq!((counts[1], counts[4]), (0, 0));
        assert!([0, 2, 3, 5].iter().all(|&item| (1850..2150).contains(&counts[item])), "{counts:?}");
    }
}
