//! Quantised updates: vectors of integers of the same length for all devices, to which noise is added and which seals
//! wrap.
//!
//! Two layouts for tables of which a device changes some rows. **Dense**: an integer for each value of each row;
//! nothing is revealed but the sums, and the length grows with the catalog. **Buckets**: rows in an invertible Bloom
//! lookup table; the length grows with the rows that a cohort changes together, and the server learns from the sum
//! which rows those were, but not whose.

mod buckets;
mod grid;
mod packing;

pub use buckets::BucketOverflow;
pub use grid::{Grid, GridError, Norm};
pub use packing::Packing;

use buckets::{Buckets, MOST_UPDATES, mix};
use sottovoce_protocol::{Keyed, Layout, Rows, Update};
use thiserror::Error;

/// How the rows of a table are laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowLayout {
    /// All rows of the table.
    #[default]
    Dense,
    /// Rows in so many hashed cells a table.
    Buckets(u32),
    /// All rows of this table, and nothing of the others: for rounds that ask for one.
    Table(u32),
}

/// How updates are quantised; the same for all devices of a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Form {
    /// How values are rounded.
    pub grid: Grid,
    /// How rows are laid out.
    pub rows: RowLayout,
    /// Whether the sum counts the updates with each row. Not with noise.
    pub counts: bool,
    /// Whether the last integer indicates clipping: 1 for an update within the clip, -1 for a longer one.
    pub votes: bool,
    /// How integers are packed into the words that are sent.
    pub packing: Packing,
}

/// Why updates cannot be quantised so.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum FormError {
    /// Buckets are decoded by their counts.
    #[error("rows in buckets are read by their counts: they do not go with noise, only whole tables (buckets = 0) do")]
    BucketsWithoutCounts,
    /// Two rows with the same buckets. Fields: two of them; a number of buckets without such rows.
    #[error(
        "rows {one} and {other} would share all of their buckets, and no sum with both could be read: take buckets = {1}",
        one = .0[0],
        other = .0[1]
    )]
    AlikeRows([u32; 2], u32),
    /// A round that asks for a table which is not there.
    #[error("there is no table {0} to be sent")]
    NoTable(u32),
    /// More integers than fit a message. Fields: words; words at most.
    #[error("{0} words an update, at most {1} can be sent")]
    TooLong(u64, u64),
}

/// Integers of an update, at most.
const MOST_WORDS: u64 = sottovoce_protocol::limits::MESSAGE_BYTES / 4 - 1024;

/// Quantises the updates of one layout.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantizer {
    form: Form,
    tables: Vec<TableLayout>,
    length: usize,
}

/// Position and layout of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TableLayout {
    rows: usize,
    cols: usize,
    start: usize,
    how: How,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// All values, then how many updates had the table.
    Whole,
    /// Each row's values, then how many updates had the row.
    Rows,
    Buckets(Buckets),
    /// Not sent.
    Nothing,
}

impl Quantizer {
    /// For updates of this layout.
    ///
    /// # Errors
    /// If buckets have no counts, a table is not there, or an update would be too long to be sent.
    pub fn new(layout: &Layout, form: Form) -> Result<Self, FormError> {
        let (mut tables, mut length) = (Vec::new(), 0);
        let extra = usize::from(form.counts);
        if let RowLayout::Table(table) = form.rows
            && table as usize >= layout.shapes().len()
        {
            return Err(FormError::NoTable(table));
        }
        for (index, shape) in (0..).zip(layout.shapes()) {
            let (rows, cols) = (shape.rows as usize, shape.cols as usize);
            let (how, words) = match (shape.keyed, form.rows) {
                (_, RowLayout::Table(table)) if table != index => (How::Nothing, 0),
                (Keyed::Dense, _) => (How::Whole, rows * cols + extra),
                (_, RowLayout::Dense | RowLayout::Table(_)) => (How::Rows, rows * (cols + extra)),
                (_, RowLayout::Buckets(_)) if !form.counts => return Err(FormError::BucketsWithoutCounts),
                (_, RowLayout::Buckets(cells)) => {
                    let buckets = Buckets::new(cells as usize, cols);
                    (How::Buckets(buckets), buckets.words())
                }
            };
            tables.push(TableLayout { rows, cols, start: length, how });
            length += words;
        }
        length += usize::from(form.votes);
        let words = length.div_ceil(form.packing.per_word()) as u64;
        if words > MOST_WORDS {
            return Err(FormError::TooLong(words, MOST_WORDS));
        }
        Ok(Self { form, tables, length })
    }

    /// Words of an update.
    pub fn length(&self) -> usize {
        self.length.div_ceil(self.form.packing.per_word())
    }

    /// The integers of a sum of words.
    pub fn unpack(&self, words: &[u32]) -> Vec<i64> {
        match self.form.packing {
            Packing::Words => to_signed(words),
            packing => packing.unpacked(words, self.length),
        }
    }

    /// How updates are quantised.
    pub fn form(&self) -> &Form {
        &self.form
    }

    /// Updates that may be added.
    pub fn most_updates(&self) -> u64 {
        let bucketed = self.tables.iter().any(|table| matches!(table.how, How::Buckets(_)));
        if bucketed { MOST_UPDATES } else { u64::from(u32::MAX) }
    }

    /// That no two rows have the same buckets, for a server to check before it starts: it takes a while for a large
    /// catalog, and devices need not know.
    ///
    /// # Errors
    /// Names two rows with the same buckets, and a number of buckets with which there are none.
    pub fn check_buckets(&self) -> Result<(), FormError> {
        let bucketed = self.tables.iter().filter_map(|place| match place.how {
            How::Buckets(buckets) => Some((buckets, place.rows as u32)),
            _ => None,
        });
        let tables: Vec<(Buckets, u32)> = bucketed.collect();
        let Some(rows) = tables.iter().find_map(|(buckets, rows)| buckets.collision(*rows)) else {
            return Ok(());
        };
        let RowLayout::Buckets(cells) = self.form.rows else { return Ok(()) };
        let fits =
            |cells: &u32| tables.iter().all(|&(_, rows)| Buckets::new(*cells as usize, 0).collision(rows).is_none());
        let (near, far) =
            ((1..16).map(|more| cells.saturating_add(3 * more)), (1..16).map(|n| cells.saturating_mul(1 << n)));
        let better = near.chain(far).find(fits).unwrap_or(u32::MAX);
        Err(FormError::AlikeRows(rows, better))
    }

    /// Quantises an update of this layout: calls `add` with position and word, to be added there modulo 2^32, for all
    /// that are not zero.
    pub fn quantize(&self, update: &Update, mut add: impl FnMut(usize, u32)) {
        let packing = self.form.packing;
        let mut add = |position: usize, integer: u32| {
            let (word, shift) = packing.place(position);
            add(word, integer << shift);
        };
        let rounding = self.form.grid.rounding(update.tables().iter().map(Rows::values));
        // Rounding at random follows from the update, so that it is the same wherever it is done.
        let first = update.tables().iter().filter_map(|rows| rows.iter().next()).flat_map(|(_, values)| values);
        let random = matches!(packing, Packing::Sums(_));
        let seed = first.filter(|_| random).fold(0, |seed, value| mix(seed ^ u64::from(value.to_bits())));
        let mut steps = Vec::new();
        let sent = |(place, rows): &(&TableLayout, &Rows)| !rows.is_empty() && place.how != How::Nothing;
        for (place, rows) in self.tables.iter().zip(update.tables()).filter(sent) {
            for (row, values) in rows.iter() {
                steps.clear();
                match packing {
                    Packing::Sums(_) => steps.extend(values.iter().zip(row * place.cols..).map(|(&value, cell)| {
                        let drawn = (mix(seed ^ cell as u64) >> 11) as f64 / (1u64 << 53) as f64;
                        rounding.steps_at_random(value, drawn) as u32
                    })),
                    Packing::Words | Packing::Ones(_) => {
                        steps.extend(values.iter().map(|&value| rounding.steps(value) as u32));
                    }
                }
                place.add(row, &steps, self.form.counts, &mut add);
            }
            if place.how == How::Whole && self.form.counts {
                add(place.start + place.rows * place.cols, 1);
            }
        }
        if self.form.votes {
            add(self.length - 1, if rounding.within { 1 } else { u32::MAX });
        }
    }

    /// The position of the clip indicator, if there is one.
    pub fn indicator(&self) -> Option<usize> {
        self.form.votes.then(|| self.length - 1)
    }

    /// Dequantises a sum of updates, noise included: calls `each` with table, row, number of updates and sum for each
    /// row that some update had. Without counts these are all rows, as if all `updates` had them.
    ///
    /// # Errors
    /// If there are more rows than the buckets hold.
    pub fn dequantize(
        &self,
        sum: &[i64],
        updates: u32,
        mut each: impl FnMut(usize, usize, u32, &[f32]),
    ) -> Result<(), BucketOverflow> {
        let (grid, counts) = (&self.form.grid, self.form.counts);
        let mut values = Vec::new();
        for (table, place) in self.tables.iter().enumerate() {
            let mut row = |row: usize, count: u32, steps: &mut dyn Iterator<Item = i64>| {
                values.clear();
                values.extend(steps.map(|steps| grid.value(steps)));
                each(table, row, count, &values);
            };
            match place.how {
                How::Nothing => {}
                How::Buckets(buckets) => {
                    let mut words: Vec<u32> =
                        sum[place.start..][..buckets.words()].iter().map(|&word| word as u32).collect();
                    buckets.read(&mut words, |index, count, sums| {
                        row(index as usize, count, &mut sums.iter().map(|&word| i64::from(word as i32)));
                    })?;
                }
                _ => {
                    for index in 0..place.rows {
                        let (start, count) = place.row(index, counts);
                        let count = count.map_or(updates, |count| sum[count].clamp(0, u32::MAX.into()) as u32);
                        if count > 0 {
                            row(index, count, &mut sum[start..][..place.cols].iter().copied());
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

impl TableLayout {
    /// Position of a row's values, and of its count if there is one.
    fn row(&self, row: usize, counts: bool) -> (usize, Option<usize>) {
        match self.how {
            How::Whole => (self.start + row * self.cols, counts.then_some(self.start + self.rows * self.cols)),
            _ => {
                let start = self.start + row * (self.cols + usize::from(counts));
                (start, counts.then_some(start + self.cols))
            }
        }
    }

    fn add(&self, row: usize, steps: &[u32], counts: bool, add: &mut impl FnMut(usize, u32)) {
        if let How::Buckets(buckets) = self.how {
            return buckets.add(row as u32, steps, |place, word| add(self.start + place, word));
        }
        let (start, count) = self.row(row, counts);
        for (column, &word) in steps.iter().enumerate() {
            add(start + column, word);
        }
        if let (How::Rows, Some(count)) = (self.how, count) {
            add(count, 1);
        }
    }
}

/// Sums modulo 2^32 as signed integers.
pub fn to_signed(words: &[u32]) -> Vec<i64> {
    words.iter().map(|&word| i64::from(word as i32)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop, prop_assert, prop_assert_eq, proptest};
    use sottovoce_protocol::{RowOrigin, Shape, Trained};
    use std::collections::BTreeMap;

    fn layout() -> Layout {
        let shapes = vec![Shape::new("items", 40, 3, Keyed::Items), Shape::new("net", 2, 2, Keyed::Dense)];
        Layout::new(shapes).unwrap()
    }

    fn form(rows: RowLayout, counts: bool) -> Form {
        let grid = Grid::choose(2.0, None, 100, 0.0).unwrap();
        Form { grid, rows, counts, votes: false, packing: Packing::Words }
    }

    fn update(rows: &BTreeMap<u32, [f32; 3]>, net: [f32; 4]) -> Trained {
        let mut trained = Trained::new(&layout());
        for (&row, values) in rows {
            trained.push_row(0, row, RowOrigin::Other).unwrap().copy_from_slice(values);
        }
        trained.copy_whole(1, &net).unwrap();
        trained
    }

    fn words(quantizer: &Quantizer, update: &Update) -> Vec<u32> {
        let mut words = vec![0u32; quantizer.length()];
        quantizer.quantize(update, |place, word| words[place] = words[place].wrapping_add(word));
        words
    }

    #[test]
    fn a_round_that_asks_for_one_table_sends_nothing_of_the_others() {
        let layout = layout();
        let mut trained = Trained::new(&layout);
        for (table, shape) in layout.shapes().iter().enumerate().filter(|(_, shape)| shape.keyed != Keyed::Dense) {
            trained.push_row(table, shape.rows - 1, RowOrigin::Other).unwrap().fill(0.5);
        }
        for (table, shape) in layout.shapes().iter().enumerate() {
            let quantizer = Quantizer::new(&layout, form(RowLayout::Table(table as u32), false)).unwrap();
            assert_eq!(quantizer.length(), shape.values());
            let mut words = vec![0u32; quantizer.length()];
            quantizer.quantize(trained.update(), |place, word| words[place] = words[place].wrapping_add(word));
            let mut seen = Vec::new();
            quantizer.dequantize(&to_signed(&words), 1, |of, row, _, values| seen.push((of, row, values[0]))).unwrap();
            assert!(seen.iter().all(|&(of, row, value)| {
                let last = shape.keyed != Keyed::Dense && row + 1 == shape.rows as usize;
                of == table && value == if last { 0.5 } else { 0.0 }
            }));
            assert_eq!(seen.len(), shape.rows as usize);
        }
        let missing = Quantizer::new(&layout, form(RowLayout::Table(99), false)).unwrap_err();
        assert_eq!(missing, FormError::NoTable(99));
    }

    #[test]
    fn rejects_impossible_layouts() {
        let error = Quantizer::new(&layout(), form(RowLayout::Buckets(30), false)).unwrap_err();
        assert_eq!(error, FormError::BucketsWithoutCounts);
        let large = Layout::new(vec![Shape::new("items", 1 << 22, 60, Keyed::Items)]).unwrap();
        assert!(matches!(Quantizer::new(&large, form(RowLayout::Dense, true)), Err(FormError::TooLong(..))));
        assert_eq!(Quantizer::new(&layout(), form(RowLayout::Dense, true)).unwrap().length(), 40 * 4 + 5);
        assert_eq!(Quantizer::new(&layout(), form(RowLayout::Dense, false)).unwrap().length(), 40 * 3 + 4);
        assert_eq!(Quantizer::new(&layout(), form(RowLayout::Buckets(30), true)).unwrap().length(), 30 * 7 + 5);
    }

    #[test]
    fn rejects_buckets_with_colliding_rows_and_suggests_a_number() {
        let quantizer = |cells, rows| {
            let layout = Layout::new(vec![Shape::new("items", rows, 3, Keyed::Items)]).unwrap();
            Quantizer::new(&layout, form(RowLayout::Buckets(cells), true)).unwrap().check_buckets()
        };
        assert_eq!(quantizer(6000, 3706), Ok(()));
        for (cells, rows) in [(30, 200), (300, 3706), (3, 9)] {
            let error = quantizer(cells, rows).unwrap_err();
            let FormError::AlikeRows(_, better) = error else { panic!("{error}") };
            assert!(error.to_string().contains("share all of their buckets"), "{error}");
            assert!(better > cells && quantizer(better, rows) == Ok(()), "{error}");
        }
    }

    proptest! {
        #[test]
        fn sums_of_updates_dequantise(
            updates in prop::collection::vec(
                (prop::collection::btree_map(0u32..40, prop::array::uniform3(-2.0f32..2.0), 0..6),
                 prop::array::uniform4(-2.0f32..2.0)),
                1..9,
            ),
        ) {
            let mut rows: BTreeMap<(usize, usize), (u32, Vec<f64>)> = BTreeMap::new();
            for (items, net) in &updates {
                let items = items.iter().map(|(&row, values)| ((0, row as usize), &values[..]));
                for (at, values) in items.chain((0..2).map(|row| ((1, row), &net[2 * row..][..2]))) {
                    let (count, sums) = rows.entry(at).or_insert((0, vec![0.0; values.len()]));
                    *count += 1;
                    sums.iter_mut().zip(values).for_each(|(sum, &value)| *sum += f64::from(value));
                }
            }
            for form in [form(RowLayout::Dense, true), form(RowLayout::Buckets(120), true)] {
                let quantizer = Quantizer::new(&layout(), form).unwrap();
                let mut sum = vec![0u32; quantizer.length()];
                for (items, net) in &updates {
                    let words = words(&quantizer, update(items, *net).update());
                    sum.iter_mut().zip(words).for_each(|(sum, word)| *sum = sum.wrapping_add(word));
                }
                let mut found = BTreeMap::new();
                quantizer.dequantize(&to_signed(&sum), updates.len() as u32, |table, row, count, values| {
                    found.insert((table, row), (count, values.to_vec()));
                }).unwrap();
                prop_assert_eq!(found.len(), rows.len());
                for (at, (count, sums)) in &rows {
                    let (found, values) = &found[at];
                    prop_assert_eq!(found, count);
                    for (value, sum) in values.iter().zip(sums) {
                        prop_assert!((f64::from(*value) - sum).abs() < 1e-5, "{at:?} {value} {sum}");
                    }
                }
            }
        }
    }

    #[test]
    fn clip_indicator_is_the_last_integer() {
        let grid = Grid::choose(2.0, Some(1.0), 100, 0.0).unwrap();
        let form = Form { grid, votes: true, ..form(RowLayout::Dense, false) };
        let quantizer = Quantizer::new(&layout(), form).unwrap();
        assert_eq!((quantizer.length(), quantizer.indicator()), (40 * 3 + 4 + 1, Some(124)));
        for (value, vote) in [(0.5, 1), (1.5, -1)] {
            let words = words(&quantizer, update(&BTreeMap::from([(7, [value, 0.0, 0.0])]), [0.0; 4]).update());
            assert_eq!(words[124] as i32, vote);
            let mut rows = 0;
            quantizer.dequantize(&to_signed(&words), 1, |_, _, _, _| rows += 1).unwrap();
            assert_eq!(rows, 42);
        }
    }

    /// Words of many updates, packed, and the integers of their sum.
    fn packed(packing: Packing, grid: Grid, updates: &[BTreeMap<u32, [f32; 3]>]) -> (usize, Vec<(usize, Vec<f32>)>) {
        let form = Form { grid, packing, ..form(RowLayout::Dense, true) };
        let quantizer = Quantizer::new(&layout(), form).unwrap();
        let mut sum = vec![0u32; quantizer.length()];
        for rows in updates {
            let mut trained = Trained::new(&layout());
            for (&row, values) in rows {
                trained.push_row(0, row, RowOrigin::Other).unwrap().copy_from_slice(values);
            }
            let words = words(&quantizer, trained.update());
            sum.iter_mut().zip(words).for_each(|(sum, word)| *sum = sum.wrapping_add(word));
        }
        let mut found = Vec::new();
        let each = |_: usize, row: usize, _: u32, values: &[f32]| found.push((row, values.to_vec()));
        quantizer.dequantize(&quantizer.unpack(&sum), updates.len() as u32, each).unwrap();
        (quantizer.length(), found)
    }

    #[test]
    fn ones_take_as_many_bits_as_the_number_of_devices_has() {
        let everybody = |devices: usize| vec![BTreeMap::from([(3, [1.0, 0.0, 1.0]), (39, [1.0; 3])]); devices];
        for (devices, bits, per_word) in [(3, 2, 16), (255, 8, 4), (911, 10, 3), (65_535, 16, 2)] {
            let packing = Packing::ones(devices);
            assert_eq!(packing, Packing::Ones(bits));
            let devices = (devices as usize).min(1000);
            let (words, found) = packed(packing, Grid::of_ones(), &everybody(devices));
            let n = devices as f32;
            assert_eq!(found, [(3, vec![n, 0.0, n]), (39, vec![n; 3])]);
            assert_eq!(words, (40 * 4 + 5usize).div_ceil(per_word));
        }
        assert_eq!(Packing::ones(65_536), Packing::Words);
    }

    #[test]
    fn packed_sums_are_right_on_average_and_keep_their_signs() {
        let updates: Vec<_> = (0..600)
            .map(|device| BTreeMap::from([(7, [-0.07 + 1e-5 * device as f32, 0.9, -4.0]), (8, [0.0, -0.013, 0.4])]))
            .collect();
        let grid = Grid::for_sums_of(16, 4.0, 600).unwrap();
        assert!(grid.steps() <= 8.0, "coarse: {}", grid.steps());
        let (words, found) = packed(Packing::Sums(16), grid, &updates);
        assert_eq!(words, (40 * 4 + 5usize).div_ceil(2));
        let expected = [(7, [-40.2, 540.0, -2400.0]), (8, [0.0, -7.8, 240.0])];
        for ((row, found), (expected_row, expected)) in found.iter().zip(expected) {
            assert_eq!(*row, expected_row);
            for (found, expected) in found.iter().zip(expected) {
                // Six deviations of 600 values rounded up or down.
                assert!((found - expected).abs() < 6.0 * 0.5 * 24.5 / 8.0 + 1e-3, "{found} {expected}");
            }
        }
    }

    #[test]
    fn without_counts_every_row_is_dequantised() {
        let quantizer = Quantizer::new(&layout(), form(RowLayout::Dense, false)).unwrap();
        let words = words(&quantizer, update(&BTreeMap::from([(7, [0.5, -1.0, 0.25])]), [0.0; 4]).update());
        let mut seen = Vec::new();
        let visit = |table: usize, row: usize, count: u32, values: &[f32]| {
            seen.push((table, row, count, values.to_vec()));
        };
        quantizer.dequantize(&to_signed(&words), 9, visit).unwrap();
        assert_eq!(seen.len(), 42);
        assert_eq!(seen[7], (0, 7, 9, vec![0.5, -1.0, 0.25]));
        assert_eq!(seen[8], (0, 8, 9, vec![0.0; 3]));
    }
}
