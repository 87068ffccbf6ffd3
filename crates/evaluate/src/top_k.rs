//! Top-k of a catalog by score, without sorting it.

/// Key of an item that does not compete.
pub(crate) const OUT: i32 = i32::MIN;
/// Key of a score that is not a number: worse than any other, minus infinity included.
const NAN: i32 = i32::MIN + 1;
/// Scores are looked at in blocks of this many: most blocks hold nothing that enters the list.
const BLOCK: usize = 32;

/// An integer with the order of the score; equal scores (0 and -0 too) have equal keys.
#[inline]
pub(crate) fn key(score: f32) -> i32 {
    // Adding 0 turns -0 into 0. Negative floats order backwards by their bits: flip all but the sign.
    let bits = (score + 0.0).to_bits() as i32;
    let ordered = bits ^ ((bits >> 31) & i32::MAX);
    if score.is_nan() { NAN } else { ordered }
}

/// Writes the keys of all scores.
pub(crate) fn keys(scores: &[f32], into: &mut [i32]) {
    for (into, &score) in into.iter_mut().zip(scores) {
        *into = key(score);
    }
}

/// Finds the best `k` of many; keeps its buffer between calls.
#[derive(Debug)]
pub(crate) struct TopK {
    k: usize,
    /// Items that may be among the best, packed so that the better of two is the greater number.
    best: Vec<u64>,
}

impl TopK {
    pub(crate) fn new(k: usize) -> Self {
        Self { k, best: Vec::with_capacity(Self::limit(k) + BLOCK) }
    }

    /// The buffer is cut back to k when it passes this: rarely, yet often enough for the threshold to rise early.
    fn limit(k: usize) -> usize {
        2 * k + BLOCK
    }

    /// Writes the best `k` items into the front of `into`, best first, ties by ascending item; returns how many.
    pub(crate) fn select(&mut self, keys: &[i32], into: &mut [u32]) -> usize {
        self.best.clear();
        let mut threshold = OUT;
        for (index, block) in keys.chunks(BLOCK).enumerate() {
            // An item that only equals the k-th best so far loses to it: it comes later in the catalog.
            if block.iter().fold(OUT, |max, &key| max.max(key)) > threshold {
                self.gather(block, index * BLOCK, threshold);
                if self.best.len() > Self::limit(self.k) {
                    threshold = self.cut();
                }
            }
        }
        if self.best.len() > self.k {
            self.cut();
        }
        self.best.sort_unstable_by(|a, b| b.cmp(a));
        for (into, &packed) in into.iter_mut().zip(&self.best) {
            *into = !packed as u32;
        }
        self.best.len()
    }

    fn gather(&mut self, block: &[i32], first: usize, threshold: i32) {
        for (offset, &key) in block.iter().enumerate() {
            if key > threshold {
                self.best.push(pack(key, (first + offset) as u32));
            }
        }
    }

    /// Keeps the best k and returns the key of the last of them.
    fn cut(&mut self) -> i32 {
        let last = self.k - 1;
        let (_, &mut kth, _) = self.best.select_nth_unstable_by(last, |a, b| b.cmp(a));
        self.best.truncate(self.k);
        ((kth >> 32) as u32 ^ SIGN) as i32
    }
}

const SIGN: u32 = 1 << 31;

/// Key in the upper half, the item's complement in the lower: ties go to the lower item.
#[inline]
fn pack(key: i32, item: u32) -> u64 {
    u64::from(key as u32 ^ SIGN) << 32 | u64::from(!item)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keys_have_the_order_of_scores() {
        let inf = f32::INFINITY;
        let ascending = [-inf, -f32::MAX, -1.0, -1e-40, 0.0, 1e-40, 1.0, 1.5, f32::MAX, inf];
        assert!(ascending.map(key).is_sorted_by(|a, b| a < b));
        assert_eq!(key(-0.0), key(0.0));
        for nan in [f32::NAN, -f32::NAN] {
            assert!(OUT < key(nan) && key(nan) < key(-inf));
        }
    }

    fn literal(keys: &[i32], k: usize) -> Vec<u32> {
        let mut order: Vec<u32> = (0..keys.len() as u32).filter(|&i| keys[i as usize] != OUT).collect();
        order.sort_by_key(|&item| (std::cmp::Reverse(keys[item as usize]), item));
        order.truncate(k);
        order
    }

    proptest! {
        #[test]
        fn selection_agrees_with_sorting(
            // Few levels give many ties, some scores are missing, and rising ones keep the buffer full.
            levels in 1i32..200,
            draws in prop::collection::vec((0i32..1000, any::<bool>()), 0..600),
            rising in any::<bool>(),
            k in 1usize..40,
        ) {
            let keys: Vec<i32> = draws.iter().enumerate().map(|(index, &(draw, out))| {
                if out { OUT } else { draw % levels - 50 + if rising { index as i32 } else { 0 } }
            }).collect();
            let mut into = vec![0; k];
            let mut top = TopK::new(k);
            let found = top.select(&keys, &mut into);
            prop_assert_eq!(&into[..found], literal(&keys, k));
            let again = top.select(&keys[..keys.len() / 2], &mut into);
            prop_assert_eq!(&into[..again], literal(&keys[..keys.len() / 2], k));
        }
    }
}
