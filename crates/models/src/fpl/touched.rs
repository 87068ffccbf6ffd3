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

    /// Learns what the owner has, and lends what drawing needs.
    #[inline(always)]
    pub(super) fn begin(&mut self, history: &[u32]) -> Marking<'_> {
        for &item in history {
            self.own[item as usize / 64] |= 1 << (item % 64);
        }
        Marking { own: &self.own, met: &mut self.met, groups: &mut self.groups }
    }

    /// Lists the items in ascending order with their marks, and forgets them and what the owner has.
    #[inline(always)]
    pub(super) fn drain(
        &mut self,
        history: &[u32],
        items: &mut Vec<u32>,
        marks: &mut Vec<Mark>,
        most: usize,
    ) {
        // Room for all and the four that may be written past the last.
        items.resize(most + 4, 0);
        marks.resize(most + 4, Mark::Other);
        let mut count = 0;
        let (own, met) = (&self.own[..], &mut self.met[..]);
        if self.groups.is_empty() {
            for word in 0..met.len() {
                count = list(own, met, word, items, marks, count);
            }
        }
        for group in 0..self.groups.len() {
            let mut bits = std::mem::take(&mut self.groups[group]);
            while bits != 0 {
                count = list(own, met, group * 64 + bits.trailing_zeros() as usize, items, marks, count);
                bits &= bits - 1;
            }
        }
        items.truncate(count);
        marks.truncate(count);
        for &item in history {
            self.own[item as usize / 64] = 0;
        }
    }
}

/// What drawing needs, as slices, whose places need not be looked up for each triple.
pub(super) struct Marking<'a> {
    own: &'a [u64],
    met: &'a mut [u64],
    groups: &'a mut [u64],
}

impl Marking<'_> {
    /// Whether the owner has an item.
    #[inline(always)]
    pub(super) fn has(&self, item: u32) -> bool {
        self.own[item as usize / 64] >> (item % 64) & 1 == 1
    }

    /// Adds two items.
    #[inline(always)]
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
}

/// Lists the items of a word from place `count` on; returns the place after the last. Four are written at once whether they
/// were met or not, and only those that were count: a loop of unknown length for each word would cost more in wrong
/// guesses.
#[inline(always)]
fn list(
    own: &[u64],
    met: &mut [u64],
    word: usize,
    items: &mut [u32],
    marks: &mut [Mark],
    count: usize,
) -> usize {
    let (own, mut bits) = (own[word], std::mem::take(&mut met[word]));
    let (mut at, end) = (count, count + bits.count_ones() as usize);
    while bits != 0 {
        let (mut four, mut four_marks) = ([0; 4], [Mark::Other; 4]);
        for k in 0..4 {
            let bit = bits.trailing_zeros() % 64;
            bits &= bits.wrapping_sub(1);
            four[k] = word as u32 * 64 + bit;
            four_marks[k] = if own >> bit & 1 == 1 { Mark::Consumed } else { Mark::Other };
        }
        items[at..at + 4].copy_from_slice(&four);
        marks[at..at + 4].copy_from_slice(&four_marks);
        at += 4;
    }
    end
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
                let mut marking = touched.begin(&history);
                let mut expected = BTreeMap::new();
                for (place, &other) in others.iter().enumerate() {
                    let consumed = history[(place + round) % history.len()];
                    if marking.has(other) {
                        continue;
                    }
                    marking.add([consumed, other]);
                    expected.extend([(consumed, Mark::Consumed), (other, Mark::Other)]);
                }
                let (mut items, mut marks) = (vec![7], vec![]);
                touched.drain(&history, &mut items, &mut marks, 2 * others.len());
                let found: Vec<_> = items.into_iter().zip(marks).collect();
                prop_assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
                prop_assert!(touched.own.iter().chain(&touched.met).chain(&touched.groups).all(|&word| word == 0));
            }
        }
    }
}
