//! Items touched in a round, in ascending order without sorting.

use sottovoce_protocol::RowOrigin;
use std::mem::take;

/// Words up to which all are looked at instead of remembering which are not 0.
const FEW_WORDS: usize = 256;

/// The user's items, and a set of items of either kind. Reading it out takes a step per touched item and a little for
/// each 64 items of a small catalog, or each 4,096 of a large one.
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
        let own = &mut self.own[..];
        // From four positions at once: neighbours share a word, and adding to one waits for the last one's end.
        let (quarter, rest) = history.split_at(history.len() / 4);
        let (second, rest) = rest.split_at(quarter.len());
        let (third, fourth) = rest.split_at(quarter.len());
        for (((&a, &b), &c), &d) in quarter.iter().zip(second).zip(third).zip(fourth) {
            own[a as usize / 64] |= 1 << (a % 64);
            own[b as usize / 64] |= 1 << (b % 64);
            own[c as usize / 64] |= 1 << (c % 64);
            own[d as usize / 64] |= 1 << (d % 64);
        }
        for &item in &fourth[quarter.len()..] {
            own[item as usize / 64] |= 1 << (item % 64);
        }
        Marking { own: &self.own, met: &mut self.met, groups: &mut self.groups }
    }

    /// Forgets what the owner has, where nothing was added.
    #[inline(always)]
    pub(super) fn forget(&mut self, history: &[u32]) {
        if self.groups.is_empty() {
            self.own.fill(0);
        } else {
            history.iter().for_each(|&item| self.own[item as usize / 64] = 0);
        }
    }

    /// Lists the items in ascending order with their marks, and forgets them and what the owner has.
    #[inline(always)]
    pub(super) fn drain(&mut self, history: &[u32], items: &mut Vec<u32>, marks: &mut Vec<RowOrigin>, most: usize) {
        // Room for all and the four that may be written past the last.
        items.resize(most + 4, 0);
        marks.resize(most + 4, RowOrigin::Other);
        let mut into = Listed { items: &mut items[..], marks: &mut marks[..], count: 0 };
        let (own, met) = (&mut self.own[..], &mut self.met[..]);
        if self.groups.is_empty() {
            for (word, (own, met)) in (0..).zip(own.iter_mut().zip(met)) {
                into.list(word, take(own), take(met));
            }
        } else {
            for (group, bits) in self.groups.iter_mut().enumerate() {
                let mut bits = take(bits);
                while bits != 0 {
                    let word = group * 64 + bits.trailing_zeros() as usize;
                    into.list(word as u32, own[word], take(&mut met[word]));
                    bits &= bits - 1;
                }
            }
            self.forget(history);
        }
        let count = into.count;
        items.truncate(count);
        marks.truncate(count);
    }
}

/// What drawing needs, as slices, whose bounds need not be looked up for each triple.
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

    /// Adds an item; whether it was not there.
    #[inline(always)]
    pub(super) fn add_one(&mut self, item: u32) -> bool {
        let (word, bit) = (&mut self.met[item as usize / 64], 1 << (item % 64));
        let new = *word & bit == 0;
        *word |= bit;
        if let Some(group) = self.groups.get_mut(item as usize / 4096) {
            *group |= 1 << (item / 64 % 64);
        }
        new
    }

    /// Adds the items of triples.
    #[inline(always)]
    pub(super) fn add(&mut self, triples: &[[u32; 2]]) {
        for &[i, j] in triples {
            self.met[i as usize / 64] |= 1 << (i % 64);
            self.met[j as usize / 64] |= 1 << (j % 64);
        }
        if self.groups.is_empty() {
            return;
        }
        for &[i, j] in triples {
            self.groups[i as usize / 4096] |= 1 << (i / 64 % 64);
            self.groups[j as usize / 4096] |= 1 << (j / 64 % 64);
        }
    }
}

/// Items listed so far, with room for more.
struct Listed<'a> {
    items: &'a mut [u32],
    marks: &'a mut [RowOrigin],
    count: usize,
}

impl Listed<'_> {
    /// Lists the touched items of a word. Four are written at once whether they were touched or not, and only those
    /// that were count: a loop of unknown length for each word would cost more in wrong guesses.
    #[inline(always)]
    fn list(&mut self, word: u32, own: u64, met: u64) {
        let (mut at, mut bits) = (self.count, met);
        while bits != 0 {
            let (mut four, mut four_marks) = ([0; 4], [RowOrigin::Other; 4]);
            for k in 0..4 {
                let bit = bits.trailing_zeros() % 64;
                bits &= bits.wrapping_sub(1);
                four[k] = word * 64 + bit;
                four_marks[k] = if own >> bit & 1 == 1 { RowOrigin::Consumed } else { RowOrigin::Other };
            }
            self.items[at..at + 4].copy_from_slice(&four);
            self.marks[at..at + 4].copy_from_slice(&four_marks);
            at += 4;
        }
        self.count += met.count_ones() as usize;
    }
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
                for (index, &other) in others.iter().enumerate() {
                    let consumed = history[(index + round) % history.len()];
                    if marking.has(other) {
                        continue;
                    }
                    marking.add(&[[consumed, other]]);
                    expected.extend([(consumed, RowOrigin::Consumed), (other, RowOrigin::Other)]);
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
