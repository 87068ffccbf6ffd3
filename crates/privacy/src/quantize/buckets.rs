//! Rows in an invertible Bloom lookup table (M. T. Goodrich, M. Mitzenmacher, 2011) instead of a dense table: a device
//! sends the same length whatever rows it changed, and that length depends on the rows that a cohort changes together,
//! not on the catalog.
//!
//! Each row is hashed to three cells, one in each third, with its index and a checksum. Sums of cells are decoded by
//! peeling: a cell with a single row gives that row's sum, which is then subtracted from the row's other cells. It
//! succeeds for almost all sets of rows up to about 0.8 of the cells.

use std::collections::HashMap;
use thiserror::Error;

/// Words of a cell before its values: number of updates, lower and upper half of the row index, checksum.
const HEAD: usize = 4;
/// Updates at most: sums of halves of row indices must fit 32 bits.
pub(super) const MOST_UPDATES: u64 = 1 << 16;

/// The cells of one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Buckets {
    /// Cells in a third.
    third: usize,
    cols: usize,
}

/// More rows than the cells can decode.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error(
    "{read} rows could be read from {cells} buckets and others not: the cohort touches too many rows for them; take more buckets, or none (buckets = 0) for whole tables"
)]
pub struct BucketOverflow {
    /// Rows decoded.
    pub read: usize,
    /// Cells in all.
    pub cells: usize,
}

impl Buckets {
    pub(super) fn new(cells: usize, cols: usize) -> Self {
        Self { third: cells.div_ceil(3).max(1), cols }
    }

    fn cell(&self) -> usize {
        HEAD + self.cols
    }

    /// Words in all.
    pub(super) fn words(&self) -> usize {
        3 * self.third * self.cell()
    }

    /// The first word of each of a row's cells.
    fn places(&self, row: u32) -> [usize; 3] {
        [0, 1, 2].map(|third| {
            let hash = mix(u64::from(row) ^ ((third as u64 + 1) << 40));
            let place = ((u128::from(hash) * self.third as u128) >> 64) as usize;
            (third * self.third + place) * self.cell()
        })
    }

    /// Two of so many rows that hash to the same cells: no sum with both can be decoded.
    pub(super) fn collision(&self, rows: u32) -> Option<[u32; 2]> {
        let mut seen = HashMap::with_capacity(rows as usize);
        (0..rows).find_map(|row| seen.insert(self.places(row), row).map(|other| [other, row]))
    }

    /// Adds one update's row; `steps` are its values on the grid.
    pub(super) fn add(&self, row: u32, steps: &[u32], mut add: impl FnMut(usize, u32)) {
        for place in self.places(row) {
            for (word, value) in head(1, row).into_iter().enumerate() {
                add(place + word, value);
            }
            for (column, &value) in steps.iter().enumerate() {
                add(place + HEAD + column, value);
            }
        }
    }

    /// Decodes all rows: calls `each` with row, number of updates and sum. Leaves `words` zero.
    pub(super) fn read(&self, words: &mut [u32], mut each: impl FnMut(u32, u32, &[u32])) -> Result<(), BucketOverflow> {
        let cell = self.cell();
        let mut looked_at: Vec<usize> = (0..words.len()).step_by(cell).collect();
        let (mut read, mut sums) = (0, vec![0; self.cols]);
        while let Some(place) = looked_at.pop() {
            let Some((count, row)) = self.single(&words[place..][..cell], place) else { continue };
            sums.copy_from_slice(&words[place + HEAD..][..self.cols]);
            each(row, count, &sums);
            read += 1;
            for other in self.places(row) {
                let (taken, values) = words[other..][..cell].split_at_mut(HEAD);
                let taken = taken.iter_mut().zip(head(count, row));
                let values = values.iter_mut().zip(sums.iter().copied());
                taken.chain(values).for_each(|(word, part)| *word = word.wrapping_sub(part));
                looked_at.push(other);
            }
        }
        if words.iter().all(|&word| word == 0) {
            return Ok(());
        }
        Err(BucketOverflow { read, cells: 3 * self.third })
    }

    /// The row of a cell with a single one.
    fn single(&self, words: &[u32], place: usize) -> Option<(u32, u32)> {
        let count = words[0];
        if count == 0 || !words[1].is_multiple_of(count) || !words[2].is_multiple_of(count) {
            return None;
        }
        let (low, high) = (words[1] / count, words[2] / count);
        let row = (low < 1 << 16 && high < 1 << 16).then_some(high << 16 | low)?;
        (words[..HEAD] == head(count, row) && self.places(row).contains(&place)).then_some((count, row))
    }
}

/// What `count` updates add to the head of a cell.
fn head(count: u32, row: u32) -> [u32; HEAD] {
    let check = mix(u64::from(row) ^ (9 << 40)) as u32;
    [1, row & 0xFFFF, row >> 16, check].map(|word| word.wrapping_mul(count))
}

/// SplitMix64: the hash is public, and need not be hard to predict.
pub(super) fn mix(key: u64) -> u64 {
    let mut z = key.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};
    use std::collections::BTreeMap;

    fn sum(buckets: &Buckets, updates: &[BTreeMap<u32, u32>]) -> Vec<u32> {
        let mut words = vec![0u32; buckets.words()];
        for (row, value) in updates.iter().flatten() {
            let steps = [*value, value.wrapping_neg()];
            buckets.add(*row, &steps, |place, word| words[place] = words[place].wrapping_add(word));
        }
        words
    }

    #[test]
    fn finds_rows_with_the_same_cells() {
        let few = Buckets::new(30, 2);
        let [a, b] = few.collision(200).unwrap();
        assert!(a < b && few.places(a) == few.places(b));
        assert_eq!(few.collision(b), None, "it is the first");
        let mut both = sum(&few, &[BTreeMap::from([(a, 1), (b, 1)])]);
        assert!(few.read(&mut both, |_, _, _| ()).is_err());
        assert_eq!(Buckets::new(6000, 2).collision(3706), None);
    }

    proptest! {
        #[test]
        fn sums_decode_row_by_row(
            updates in prop::collection::vec(prop::collection::btree_map(0u32..1 << 24, any::<u32>(), 0..12), 1..8),
        ) {
            let buckets = Buckets::new(300, 2);
            let mut expected: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
            for (row, value) in updates.iter().flatten() {
                let entry = expected.entry(*row).or_default();
                *entry = (entry.0 + 1, entry.1.wrapping_add(*value));
            }
            let mut found = BTreeMap::new();
            let mut words = sum(&buckets, &updates);
            let read = buckets.read(&mut words, |row, count, sums| {
                assert_eq!(sums[1], sums[0].wrapping_neg());
                found.insert(row, (count, sums[0]));
            });
            let left: Vec<u32> = expected.keys().copied().filter(|row| !found.contains_key(row)).collect();
            prop_assert_eq!(read.is_err(), !left.is_empty());
            expected.retain(|row, _| found.contains_key(row));
            prop_assert_eq!(found, expected);
            // Rows are not decoded only if each of their cells is shared: one in a million pairs, with 300 cells.
            for row in &left {
                let shared = |place: &usize| left.iter().any(|other| other != row && buckets.places(*other).contains(place));
                prop_assert!(buckets.places(*row).iter().all(shared), "row {} could have been read", row);
            }
        }
    }

    #[test]
    fn detects_too_many_rows() {
        let buckets = Buckets::new(30, 2);
        let rows: BTreeMap<u32, u32> = (0..200).map(|row| (row, 1)).collect();
        let mut words = sum(&buckets, &[rows]);
        let error = buckets.read(&mut words, |_, _, _| ()).unwrap_err();
        assert!(error.to_string().contains("from 30 buckets") && error.read < 200, "{error}");
    }
}
