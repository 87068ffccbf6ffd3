//! Co-occurrences of items as a sum over people, G = sum_u x_u x_u', in one upload or in several: what `fed-ease` and
//! `fed-item-knn` share.
//!
//! Half of the matrix is sent, because it is symmetric: see [`packed_cell`]. Its columns are divided over as many
//! tables as there are uploads, the *blocks*, each with a row for each item. A round asks for one of them, so that
//! neither a device nor the server handles more than a block at a time. What the server publishes has the same tables.

use super::{TensorSlice, item_rows};
use crate::central::matrix_inverse::SymmetricMatrix;
use crate::central::neighbours::{NeighbourConfig, retain_best};
use crate::spectral::{packed_cell, packed_cols};
use crate::{TrainInput, TrainResult, TrainStats};
use rayon::prelude::*;
use sottovoce_core::{Rng, math};
use sottovoce_protocol::{Layout, ModelError, Parameters, RowOrigin, Table, Trained, limits};
use std::ops::Range;

/// Blocks at most: tables that a shared model may have.
pub const MAX_BLOCKS: usize = limits::TABLES as usize;

/// How half of the matrix is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairLayout {
    /// Uploads that one is divided into.
    pub blocks: usize,
    /// Columns behind those of the last block, for what else an item has.
    pub more: usize,
}

/// The name of a block's table.
fn name(block: usize) -> String {
    if block == 0 { "items".to_owned() } else { format!("items-{block}") }
}

impl PairLayout {
    /// The columns of half of the matrix that a block has.
    fn columns(&self, block: usize, items: usize) -> Range<usize> {
        let start = |block| packed_cols(items) * block / self.blocks;
        start(block)..start(block + 1)
    }

    /// The tables of a catalog of this size.
    ///
    /// # Errors
    /// If the catalog is empty or too large, or there are more blocks than columns.
    pub fn layout(&self, items: usize) -> Result<Layout, ModelError> {
        let width = |block| self.columns(block, items).len() + if block + 1 == self.blocks { self.more } else { 0 };
        if packed_cols(items) < self.blocks {
            let (found, most) = (self.blocks as u64, packed_cols(items) as u64);
            return Err(ModelError::Limit(name(0), "blocks", found, most));
        }
        Layout::new((0..self.blocks).map(|block| item_rows(&name(block), items, width(block))).collect())
    }

    /// Zeros: nothing is known.
    ///
    /// # Errors
    /// As [`layout`](Self::layout).
    pub fn init(&self, items: usize, _: &mut Rng) -> Result<Parameters, ModelError> {
        Ok(Parameters::zeros(&self.layout(items)?))
    }

    /// How the tables are stored in model files; the first under this name.
    pub fn tensors(&self, first: &'static str) -> Vec<TensorSlice> {
        let slice = |block| match block {
            0 => TensorSlice::whole(first, 0),
            _ => TensorSlice::whole(format!("{first}-{block}"), block),
        };
        (0..self.blocks).map(slice).collect()
    }

    /// The number of blocks, and of values in all of them.
    pub fn numbers(&self, shared: &Parameters) -> (u64, u64) {
        let items = shared.tables().first().map_or(0, |table| table.shape().rows as usize);
        (self.blocks as u64, (items * packed_cols(items)) as u64)
    }

    /// A shared model read as half of a matrix; `None` for that of an empty catalog.
    pub fn pairs<'a>(&self, shared: &'a Parameters) -> Option<Pairs<'a>> {
        let tables = shared.tables();
        let items = tables.first()?.shape().rows as usize;
        Some(Pairs { layout: *self, tables, items })
    }

    /// Writes what a device sends in a round: a 1 for each pair of its items that the round asks for.
    ///
    /// # Errors
    /// If the buffer does not have the shared model's layout.
    pub fn write(&self, input: &TrainInput<'_>, cells: &mut Vec<(usize, usize)>, into: &mut Trained) -> TrainResult {
        let history = input.visible();
        let Some(table) = input.shared.tables().first().filter(|_| !history.is_empty()) else {
            return Ok(TrainStats::default());
        };
        let items = table.shape().rows as usize;
        for block in 0..self.blocks {
            if !into.asks_for(block) {
                continue;
            }
            let columns = self.columns(block, items);
            cells.clear();
            for (index, &i) in history.iter().enumerate() {
                let pairs = history[index..].iter().map(|&j| packed_cell(i as usize, j as usize, items));
                cells.extend(pairs.filter(|(_, col)| columns.contains(col)));
            }
            cells.sort_unstable();
            for row in cells.chunk_by(|a, b| a.0 == b.0) {
                let into = into.push_row(block, row[0].0 as u32, RowOrigin::Consumed)?;
                into.fill(0.0);
                row.iter().for_each(|&(_, col)| into[col - columns.start] = 1.0);
            }
        }
        // The same whichever block is asked for: that a device has no pair in one must not show.
        let samples = history.len() as u64;
        into.set_samples(samples);
        Ok(TrainStats { samples, loss: samples as f64 })
    }
}

/// Half of a symmetric matrix in the tables of a shared model.
#[derive(Clone, Copy)]
pub struct Pairs<'a> {
    layout: PairLayout,
    tables: &'a [Table],
    items: usize,
}

impl<'a> Pairs<'a> {
    /// Items of the catalog.
    pub fn items(&self) -> usize {
        self.items
    }

    /// The value at (i, j).
    pub fn at(&self, i: u32, j: u32) -> f32 {
        let (row, col) = packed_cell(i as usize, j as usize, self.items);
        let block = ((col + 1) * self.layout.blocks).div_ceil(packed_cols(self.items)) - 1;
        self.tables[block].row(row)[col - self.layout.columns(block, self.items).start]
    }

    /// The value at (i, i).
    pub fn diagonal(&self, i: usize) -> f32 {
        self.tables[0].row(i)[0]
    }

    /// What else an item has: the columns behind those of the last block.
    pub fn more(&self, item: usize) -> &'a [f32] {
        let row = self.tables[self.layout.blocks - 1].row(item);
        &row[row.len() - self.layout.more..]
    }

    /// Calls `each` with i, j and the value at (i, j), for all i of a history (ascending) and all j but i.
    ///
    /// An item's row has half of the pairs. The others are in the rows of the other items, which are gone through one
    /// after the other, so that each is in the cache once.
    pub fn each(&self, history: &[u32], mut each: impl FnMut(u32, usize, f32)) {
        let n = self.items;
        let half = n.saturating_sub(1) / 2;
        for (block, table) in self.tables.iter().enumerate().take(self.layout.blocks) {
            let columns = self.layout.columns(block, n);
            for &i in history {
                let row = &table.row(i as usize)[..columns.len()];
                let own = usize::from(columns.start == 0);
                for (step, &value) in columns.clone().zip(row).skip(own) {
                    let j = i as usize + step;
                    each(i, if j < n { j } else { j - n }, value);
                }
            }
            // Half way round, where there is such an item, was row i's to say.
            let steps = columns.start.max(1)..columns.end.min(half + 1);
            if steps.is_empty() {
                continue;
            }
            let from = |least: usize| history.partition_point(|&i| (i as usize) < least);
            for j in 0..n {
                let row = table.row(j);
                let mut had = |range: Range<usize>, round: usize| {
                    let mut others = history[from(range.start)..].iter().take_while(|&&i| (i as usize) < range.end);
                    others.by_ref().for_each(|&i| each(i, j, row[i as usize + round - j - columns.start]));
                };
                let (first, end) = (j + steps.start, j + steps.end);
                had(first.min(n)..end.min(n), 0);
                had(first.max(n) - n..end.max(n) - n, n);
            }
        }
    }
}

/// How the server turns a sum into a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GramSpec {
    /// How the matrix is divided.
    pub layout: PairLayout,
    /// What is made of it.
    pub readout: GramReadout,
}

/// What is made of co-occurrences.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GramReadout {
    /// (G + l I)^-1.
    Inverse {
        /// l.
        regularisation: f64,
    },
    /// Similarities; on the diagonal that of an item's last neighbour, and behind the rows which it is.
    Neighbours(NeighbourConfig),
}

/// What the server knows beside the shared model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GramStep {
    /// The epoch of the latest round.
    pub epoch: u64,
    /// Rounds of that epoch, by block.
    pub rounds: Vec<u64>,
    /// Variance of the noise in the sum, by block.
    pub variances: Vec<f64>,
    /// Half of G of that epoch so far.
    pub gram: Vec<f64>,
}

impl GramStep {
    /// Takes a round with noise of this standard deviation; `pass` counts the times that everybody was asked for a
    /// block. `sums` gives the rows of a table's sums. Writes the model if all blocks are of as many rounds, and leaves
    /// it as it was otherwise, or where noise has made a matrix that has no inverse.
    pub fn take<'a, Rows: Iterator<Item = (usize, &'a [f32])>>(
        &mut self,
        spec: &GramSpec,
        (pass, noise): (u64, f64),
        shared: &mut Parameters,
        sums: impl Fn(usize) -> Rows,
    ) {
        let Some(items) = shared.tables().first().map(|table| table.shape().rows as usize) else { return };
        let (blocks, cols) = (spec.layout.blocks, packed_cols(items));
        let (epoch, block) = (pass / blocks as u64, (pass % blocks as u64) as usize);
        if epoch != self.epoch || self.gram.is_empty() {
            self.gram.clear();
            self.gram.resize(items * cols, 0.0);
            (self.epoch, self.rounds, self.variances) = (epoch, vec![0; blocks], vec![0.0; blocks]);
        }
        let columns = spec.layout.columns(block, items);
        for (row, sum) in sums(block) {
            let into = &mut self.gram[row * cols..][columns.clone()];
            into.iter_mut().zip(sum).for_each(|(to, sum)| *to += f64::from(*sum));
        }
        self.rounds[block] += 1;
        self.variances[block] += noise * noise;
        if self.rounds.iter().any(|rounds| *rounds != self.rounds[0]) {
            return;
        }
        match spec.readout {
            GramReadout::Inverse { regularisation } => self.invert(spec, regularisation, shared),
            GramReadout::Neighbours(neighbours) => self.compare(spec, &neighbours, shared),
        }
    }

    /// The value at (i, j).
    fn at(&self, i: usize, j: usize, items: usize) -> f64 {
        let (row, col) = packed_cell(i, j, items);
        self.gram[row * packed_cols(items) + col]
    }

    fn invert(&self, spec: &GramSpec, regularisation: f64, shared: &mut Parameters) {
        let items = shared.tables()[0].shape().rows as usize;
        let matrix = SymmetricMatrix::from_rows(items, |i, row| {
            row.iter_mut().enumerate().take(i + 1).for_each(|(j, value)| *value = self.at(i, j, items));
            row[i] += regularisation;
        });
        let Ok(inverse) = matrix.invert() else { return };
        write_pairs(spec, shared, |i, j| inverse.at(i, j) as f32);
    }

    /// Similarities, and each item's last neighbour: of equals that with the smallest number is nearer.
    fn compare(&self, spec: &GramSpec, config: &NeighbourConfig, shared: &mut Parameters) {
        let items = shared.tables()[0].shape().rows as usize;
        let deviation = self.variances.iter().copied().fold(0.0, f64::max).sqrt();
        let pairs = items as f64 * items.saturating_sub(1) as f64 / 2.0;
        // The largest of so many values of noise alone is hardly larger.
        let floor = deviation * (2.0 * math::ln(pairs.max(2.0))).sqrt();
        let people: Vec<f64> = (0..items).map(|i| self.at(i, i, items).max(floor)).collect();
        let similarity = |i: usize, j: usize| {
            let common = self.at(i, j, items);
            // Who has both has each, though noise or owners who withheld one of them may say otherwise.
            let [a, b] = [i, j].map(|item| people[item].max(common));
            if i == j || common <= floor { 0.0 } else { config.similarity_of(common, a, b) }
        };
        let last = |i: usize| {
            let others = (0..items).map(|j| (j as u32, similarity(i, j)));
            let mut near: Vec<(u32, f32)> = others.filter(|(_, similarity)| *similarity > 0.0).collect();
            retain_best(&mut near, config.k);
            near.last().copied().unwrap_or((0, 0.0))
        };
        let last: Vec<(u32, f32)> = (0..items).into_par_iter().map(last).collect();
        write_pairs(spec, shared, |i, j| if i == j { last[i].1 } else { similarity(i, j) });
        if let Some(table) = shared.tables_mut().last_mut() {
            let place = table.shape().cols as usize - spec.layout.more;
            last.iter().enumerate().for_each(|(item, (last, _))| table.row_mut(item)[place] = *last as f32);
        }
    }
}

/// Writes half of a matrix. Cells that stand for no pair, of an even number of items, get their pair's value too:
/// scoring goes through whole rows.
fn write_pairs(spec: &GramSpec, shared: &mut Parameters, value: impl Fn(usize, usize) -> f32 + Sync) {
    let Some(items) = shared.tables().first().map(|table| table.shape().rows as usize) else { return };
    for (block, table) in shared.tables_mut().iter_mut().enumerate() {
        let (columns, cols) = (spec.layout.columns(block, items), table.shape().cols as usize);
        table.values_mut().par_chunks_exact_mut(cols.max(1)).enumerate().for_each(|(i, row)| {
            for (step, to) in columns.clone().zip(row) {
                *to = value(i, (i + step) % items);
            }
        });
    }
}
