//! Sampling of negatives: random unseen items that compete with a user's test items.

use sottovoce_core::Rng;

/// A set of items that empties in constant time: an item is in the set if it carries the current stamp.
#[derive(Debug)]
pub(crate) struct ItemSet {
    stamps: Vec<u32>,
    now: u32,
}

impl ItemSet {
    pub(crate) fn new(items: usize) -> Self {
        Self { stamps: vec![0; items], now: 0 }
    }

    /// Empties the set.
    pub(crate) fn clear(&mut self) {
        if self.now == u32::MAX {
            self.stamps.fill(0);
            self.now = 0;
        }
        self.now += 1;
    }

    /// Adds an item; whether it is new.
    pub(crate) fn add(&mut self, item: u32) -> bool {
        let stamp = &mut self.stamps[item as usize];
        let new = *stamp != self.now;
        *stamp = self.now;
        new
    }

    pub(crate) fn has(&self, item: u32) -> bool {
        self.stamps[item as usize] == self.now
    }
}

/// Draws `negatives` distinct items that are not in `taken`, or all of them if there are fewer; `free` is their number.
pub(crate) fn draw(rng: &mut Rng, negatives: usize, free: usize, taken: &mut ItemSet, into: &mut Vec<u32>) {
    into.clear();
    let items = taken.stamps.len();
    if negatives < free / 2 {
        // More than half of the free items stay free: rejection ends soon unless the user has nearly everything.
        while into.len() < negatives {
            let item = rng.index(items) as u32;
            if taken.add(item) {
                into.push(item);
            }
        }
        return;
    }
    into.extend((0..items as u32).filter(|&item| !taken.has(item)));
    rng.shuffle(into);
    into.truncate(negatives);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(negatives: usize, seen: &[u32], items: usize, seed: u64) -> Vec<u32> {
        let mut taken = ItemSet::new(items);
        taken.clear();
        seen.iter().for_each(|&item| assert!(taken.add(item)));
        let mut into = vec![99];
        draw(&mut Rng::new(seed), negatives, items - seen.len(), &mut taken, &mut into);
        into
    }

    #[test]
    fn draws_distinct_unseen_items() {
        for (negatives, expected) in [(3, 3), (10, 10), (17, 17), (30, 17)] {
            let mut items = drawn(negatives, &[4, 9, 11], 20, 5);
            items.sort_unstable();
            items.dedup();
            assert_eq!(items.len(), expected);
            assert!(items.iter().all(|item| ![4, 9, 11].contains(item)));
        }
        assert_ne!(drawn(10, &[], 1000, 1), drawn(10, &[], 1000, 2));
    }

    #[test]
    fn draws_uniformly() {
        for negatives in [2, 6] {
            let mut counts = [0u32; 10];
            for seed in 0..4000 {
                drawn(negatives, &[0, 7], 10, seed).iter().for_each(|&item| counts[item as usize] += 1);
            }
            let expected = 4000.0 * negatives as f64 / 8.0;
            for (item, &count) in counts.iter().enumerate().filter(|(item, _)| ![0, 7].contains(item)) {
                assert!((f64::from(count) - expected).abs() < 0.1 * expected, "{item}: {count} of {expected}");
            }
        }
    }

    #[test]
    fn item_set_survives_stamp_overflow() {
        let mut items = ItemSet::new(2);
        items.now = u32::MAX - 1;
        items.clear();
        assert!(items.add(0) && !items.add(0) && items.has(0));
        items.clear();
        assert!(!items.has(0) && items.add(0));
    }
}
