//! Items met in a round, in ascending order without sorting.

use sottovoce_protocol::Mark;

/// A set of items, each had by the owner or not. Reading it out takes a step a met item and a little for each 4,096 items
/// of the catalog.
#[derive(Debug)]
pub(super) struct Touched {
    consumed: Vec<u64>,
    others: Vec<u64>,
    /// One bit a word of the two: whether one of them is not 0.
    groups: Vec<u64>,
}

impl Touched {
    /// Of a catalog of this size; empty.
    pub(super) fn new(items: usize) -> Self {
        let words = items.div_ceil(64);
        Self { consumed: vec![0; words], others: vec![0; words], groups: vec![0; words.div_ceil(64)] }
    }

    /// Adds an item the owner has and one they do not have.
    #[inline]
    pub(super) fn add(&mut self, consumed: u32, other: u32) {
        self.consumed[consumed as usize / 64] |= 1 << (consumed % 64);
        self.others[other as usize / 64] |= 1 << (other % 64);
        for item in [consumed, other] {
            self.groups[item as usize / 4096] |= 1 << (item / 64 % 64);
        }
    }

    /// Visits the items in ascending order and forgets them.
    #[inline]
    pub(super) fn drain(&mut self, mut visit: impl FnMut(u32, Mark)) {
        for (group, bits) in self.groups.iter_mut().enumerate() {
            for word in ones(std::mem::take(bits)) {
                let word = group * 64 + word as usize;
                let consumed = std::mem::take(&mut self.consumed[word]);
                for bit in ones(consumed | std::mem::take(&mut self.others[word])) {
                    let mark = if consumed >> bit & 1 == 1 { Mark::Consumed } else { Mark::Other };
                    visit(word as u32 * 64 + bit, mark);
                }
            }
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
    use proptest::prelude::{prop, prop_assert_eq, proptest};
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn items_come_out_once_ascending_and_marked(
            pairs in prop::collection::vec((0u32..5000, 5000u32..9999), 0..60),
        ) {
            let mut touched = Touched::new(9999);
            for _ in 0..2 {
                let mut expected = BTreeMap::new();
                for &(even, odd) in &pairs {
                    // Halves exchanged for some, so that marks do not follow the order.
                    let (consumed, other) = if even % 3 == 0 { (odd * 2 % 9998, even) } else { (even * 2 % 9998, odd) };
                    if consumed % 2 == 0 && other % 2 == 1 {
                        touched.add(consumed, other);
                        expected.extend([(consumed, Mark::Consumed), (other, Mark::Other)]);
                    }
                }
                let mut found = Vec::new();
                touched.drain(|item, mark| found.push((item, mark)));
                prop_assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
            }
        }
    }
}
