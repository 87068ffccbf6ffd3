//! Sampling of negatives: random unseen items that compete with a user's test items.

use sottovoce_core::{Histories, Rng, math};

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

/// Draws items in proportion to their interactions.
pub(crate) struct ByPopularity {
    /// For each item, the interactions of all items up to it.
    cumulative: Vec<u64>,
}

impl ByPopularity {
    /// By the interactions of the training part.
    pub(crate) fn new(train: &Histories) -> Self {
        let counts = train.popularity().into_iter();
        Self {
            cumulative: counts
                .scan(0, |sum, count| {
                    *sum += u64::from(count);
                    Some(*sum)
                })
                .collect(),
        }
    }

    /// The number of interactions of an item.
    fn count(&self, item: usize) -> u64 {
        self.cumulative[item] - if item == 0 { 0 } else { self.cumulative[item - 1] }
    }

    /// Draws `negatives` distinct items that are not in `taken`, one after the other in proportion to their
    /// interactions; all that have any, if there are fewer.
    pub(crate) fn draw(&self, rng: &mut Rng, negatives: usize, taken: &mut ItemSet, into: &mut Vec<u32>) {
        into.clear();
        let all = self.cumulative.last().copied().unwrap_or(0);
        // Rejection is the fastest, unless few interactions are left to be hit.
        for _ in 0..8 * negatives {
            if into.len() == negatives || all == 0 {
                return;
            }
            let hit = (rng.unit() * all as f64) as u64;
            let item = self.cumulative.partition_point(|&end| end <= hit).min(self.cumulative.len() - 1) as u32;
            if taken.add(item) {
                into.push(item);
            }
        }
        self.complete(rng, negatives, taken, into);
    }

    /// Draws the rest in the same proportions, looking at each item once: the items with the earliest arrivals of
    /// exponential clocks that run as fast as an item has interactions (Efraimidis, Spirakis 2006).
    fn complete(&self, rng: &mut Rng, negatives: usize, taken: &mut ItemSet, into: &mut Vec<u32>) {
        let free = (0..self.cumulative.len()).filter(|&item| self.count(item) > 0 && !taken.has(item as u32));
        let mut arrivals: Vec<(f64, u32)> =
            free.map(|item| (-math::ln(1.0 - rng.unit()) / self.count(item) as f64, item as u32)).collect();
        arrivals.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let missing = negatives - into.len();
        into.extend(arrivals.into_iter().take(missing).map(|(_, item)| item));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Items 0 to 5 with 8, 4, 2, 1, 1 and 0 interactions; 0 is taken. Of the rest, the first is item 1 in half of all
    /// draws, and the second follows from what is left.
    #[test]
    fn draws_in_proportion_to_popularity() {
        let lists = [vec![0; 8], vec![1; 4], vec![2; 2], vec![3], vec![4]];
        let popularity = ByPopularity::new(&Histories::from_lists(&lists, 6).unwrap());
        let drawn = |negatives: usize, seed, slow: bool| {
            let (mut taken, mut into) = (ItemSet::new(6), Vec::new());
            taken.clear();
            taken.add(0);
            let mut rng = Rng::new(seed);
            if slow {
                popularity.complete(&mut rng, negatives, &mut taken, &mut into);
            } else {
                popularity.draw(&mut rng, negatives, &mut taken, &mut into);
            }
            into
        };
        for slow in [false, true] {
            let mut counts = [[0u32; 6]; 2];
            for seed in 0..20_000 {
                let pair = drawn(2, seed, slow);
                counts[0][pair[0] as usize] += 1;
                counts[1][pair[1] as usize] += 1;
            }
            // Second: sum over the first of its share times the share among those left.
            let expected = [[0.0, 0.5, 0.25, 0.125, 0.125, 0.0], [0.0, 0.3095, 0.3214, 0.1845, 0.1845, 0.0]];
            for (counts, expected) in counts.iter().zip(expected) {
                for (&count, share) in counts.iter().zip(expected) {
                    assert!((f64::from(count) / 20_000.0 - share).abs() < 0.012, "{slow} {counts:?}");
                }
            }
        }
        let mut all = drawn(9, 1, false);
        all.sort_unstable();
        assert_eq!(all, [1, 2, 3, 4], "fewer than asked for, and none that nobody has");
    }

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
