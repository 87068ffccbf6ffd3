//! Area under the ROC curve of one user's full ranking.

use crate::top_k::OUT;

/// Up to this many test items, comparing each with the whole catalog beats sorting the catalog.
const FEW: usize = 128;

/// Computes the AUC; keeps its buffers between calls.
#[derive(Debug, Default)]
pub(crate) struct Auc {
    relevant: Vec<i32>,
    sorted: Vec<i32>,
}

impl Auc {
    /// The share of (test item, other candidate) pairs in which the test item has the higher key; ties count half.
    /// `None` if there is no such pair. `test` holds distinct items; one that does not compete is left out.
    pub(crate) fn of(&mut self, keys: &[i32], test: impl Iterator<Item = u32>) -> Option<f64> {
        self.relevant.clear();
        self.relevant.extend(test.map(|item| keys[item as usize]).filter(|&key| key != OUT));
        let relevant = self.relevant.len() as u64;
        let out: u64 = keys.iter().map(|&key| u64::from(key == OUT)).sum();
        let others = keys.len() as u64 - out - relevant;
        if relevant == 0 || others == 0 {
            return None;
        }
        let twice = if self.relevant.len() <= FEW { self.by_comparing(keys) } else { self.by_sorting(keys) };
        // Items that do not compete were counted below each test item. Among the test items themselves, every ordered
        // pair and its reverse add 2, and each with itself 1: relevant^2 altogether.
        let wins = twice - 2 * out * relevant - relevant * relevant;
        Some(wins as f64 / (2 * relevant * others) as f64)
    }

    /// Over test items, the number of keys below plus the number of keys not above, OUT included.
    fn by_comparing(&self, keys: &[i32]) -> u64 {
        let (blocks, rest) = self.relevant.as_chunks::<4>();
        let four: u64 = blocks.iter().map(|block| below_and_not_above(keys, *block)).sum();
        let one: u64 = rest.iter().map(|&key| below_and_not_above(keys, [key])).sum();
        four + one
    }

    /// The same by binary search in the sorted catalog.
    fn by_sorting(&mut self, keys: &[i32]) -> u64 {
        self.sorted.clear();
        self.sorted.extend_from_slice(keys);
        self.sorted.sort_unstable();
        let twice = |key| {
            self.sorted.partition_point(|&other| other < key) + self.sorted.partition_point(|&other| other <= key)
        };
        self.relevant.iter().map(|&key| twice(key) as u64).sum()
    }
}

/// Written as sums of comparisons, which become vector instructions; several at once share the reading of `keys`.
fn below_and_not_above<const N: usize>(keys: &[i32], relevant: [i32; N]) -> u64 {
    let mut total = 0;
    // Bounded runs, so that 32-bit counters suffice.
    for run in keys.chunks(1 << 20) {
        let mut counts = [0u32; N];
        for &key in run {
            for lane in 0..N {
                counts[lane] += u32::from(key < relevant[lane]) + u32::from(key <= relevant[lane]);
            }
        }
        total += counts.iter().map(|&count| u64::from(count)).sum::<u64>();
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn literal(keys: &[i32], test: &[u32]) -> Option<f64> {
        let competes = |item: &usize| keys[*item] != OUT;
        let relevant = |item: &usize| test.contains(&(*item as u32));
        let (mut wins, mut pairs) = (0.0, 0.0);
        for a in (0..keys.len()).filter(competes).filter(relevant) {
            for b in (0..keys.len()).filter(competes).filter(|b| !relevant(b)) {
                wins += if keys[a] > keys[b] {
                    1.0
                } else if keys[a] == keys[b] {
                    0.5
                } else {
                    0.0
                };
                pairs += 1.0;
            }
        }
        (pairs > 0.0).then(|| wins / pairs)
    }

    proptest! {
        #[test]
        fn both_algorithms_agree_with_the_definition(
            keys in prop::collection::vec(prop_oneof![1 => Just(OUT), 6 => -9i32..9, 3 => any::<i32>()], 0..350),
            share in 1u32..8,
        ) {
            let test: Vec<u32> = (0..keys.len() as u32).filter(|item| item * 7 % 8 < share).collect();
            let found = Auc::default().of(&keys, test.iter().copied());
            prop_assert_eq!(found, literal(&keys, &test));
        }
    }

    #[test]
    fn undefined_without_a_pair() {
        assert_eq!(Auc::default().of(&[1, 2, OUT], [0, 1].into_iter()), None);
        assert_eq!(Auc::default().of(&[1, 2, OUT], [2].into_iter()), None);
        assert_eq!(Auc::default().of(&[1, 2, OUT], [1, 2].into_iter()), Some(1.0));
    }
}
