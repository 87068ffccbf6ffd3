//! Items met in a round, in ascending order without sorting.

use sottovoce_protocol::Mark;

/// Words up to which all are looked at instead of remembering which are not 0.
const FEW_WORDS: usize = 256;

/// What the owner has, and a set of items of either kind. Reading it out takes a step a met item and a little for each
/// 64 items of a small catalog, or each 4,096 of a large one.
#[derive(Debug)]
pub(super) struct Touched {
    own: Vec<u64>,
    met: Vec<u64>,
    /// One bit a word of `met`: whether it is not 0. Empty for a small catalog.
    groups: Vec<u64>,
}

impl Touched {
    /// Of a catalog of this size; empty.
    pub(super) fn new(items: usize) -> Self {
        let words = items.div_ceil(64);
        let groups = if words > FEW_WORDS { words.div_ceil(64) } else { 0 };
        Self { own: vec![0; words], met: vec![0; words], groups: vec![0; groups] }
    }

    /// Learns what the owner has.
    pub(super) fn begin(&mut self, history: &[u32]) {
        history.iter().for_each(|&item| self.own[item as usize / 64] |= 1 << (item % 64));
    }

    /// Whether the owner has an item.
    #[inline]
    pub(super) fn has(&self, item: u32) -> bool {
        self.own[item as usize / 64] >> (item % 64) & 1 == 1
    }

    /// Adds two items.
    #[inline]
    pub(super) fn add(&mut self, items: [u32; 2]) {
        for item in items {
            self.met[item as usize / 64] |= 1 << (item % 64);
        }
        if !self.groups.is_empty() {
            for item in items {
                self.groups[item as usize / 4096] |= 1 << (item / 64 % 64);
            }
        }
    }

    /// Visits the items in ascending order, and forgets them and what the owner has.
    #[inline]
    pub(super) fn drain(&mut self, history: &[u32], mut visit: impl FnMut(u32, Mark)) {
        if self.groups.is_empty() {
            for word in 0..self.met.len() {
                self.drain_word(word, &mut visit);
            }
        }
        for group in 0..self.groups.len() {
            for word in ones(std::mem::take(&mut self.groups[group])) {
                self.drain_word(group * 64 + word as usize, &mut visit);
            }
        }
        history.iter().for_each(|&item| self.own[item as usize / 64] = 0);
    }

    #[inline]
    fn drain_word(&mut self, word: usize, visit: &mut impl FnMut(u32, Mark)) {
        let own = self.own[word];
        for bit in ones(std::mem::take(&mut self.met[word])) {
            let mark = if own >> bit & 1 == 1 { Mark::Consumed } else { Mark::Other };
            visit(word as u32 * 64 + bit, mark);
        }
    }
}

/// Positions of the bits that are set, ascending.
#[inline]
fn ones(mut bits: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let place = bits.trailing_zeros();
        bits &= bits.wrapping_sub(1);
        (place < 64).then_some(place)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop, prop_assert, prop_assert_eq, proptest};
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn items_come_out_once_ascending_and_marked(
            history in prop::collection::btree_set(0u32..9999, 1..60),
            others in prop::collection::vec(0u32..9999, 1..60),
            catalog in prop::sample::select(vec![9999usize, 70_000]),
        ) {
            let history: Vec<u32> = history.into_iter().collect();
            let mut touched = Touched::new(catalog);
            prop_assert_eq!(touched.groups.is_empty(), catalog == 9999);
            for round in 0..2 {
                touched.begin(&history);
                let mut expected = BTreeMap::new();
                for (place, &other) in others.iter().enumerate() {
                    let consumed = history[(place + round) % history.len()];
                    if touched.has(other) {
                        continue;
                    }
                    touched.add([consumed, other]);
                    expected.extend([(consumed, Mark::Consumed), (other, Mark::Other)]);
                }
                let mut found = Vec::new();
                touched.drain(&history, |item, mark| found.push((item, mark)));
                prop_assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
                prop_assert!(history.iter().all(|&item| !touched.has(item)));
            }
        }
    }
}
