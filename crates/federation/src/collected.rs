//! What a cohort sent, added up.

use crate::guard::{Guard, Kept, clipping};
use sottovoce_core::{Work, fastest, math};
use sottovoce_protocol::{Layout, Rows, Update};

/// The sum of a cohort's updates, by table and row.
#[derive(Clone, Debug)]
pub struct Collected {
    tables: Vec<Sums>,
    guard: Guard,
    /// By table, where the guard keeps updates until all are there.
    kept: Vec<Kept>,
    /// Updates added.
    pub updates: u64,
}

/// Sums of one table's rows; rows that nobody sent are zero.
#[derive(Clone, Debug)]
pub struct Sums {
    cols: usize,
    values: Vec<f32>,
    /// Updates that had the row.
    counts: Vec<u32>,
    /// Rows that were sent, in the order in which they first came.
    touched: Vec<u32>,
}

impl Collected {
    /// Nothing yet.
    pub fn new(layout: &Layout) -> Self {
        Self::guarded(layout, Guard::None)
    }

    /// Nothing yet, to be added up under a guard.
    pub fn guarded(layout: &Layout, guard: Guard) -> Self {
        let sums = layout.shapes().iter().map(|shape| Sums {
            cols: shape.cols as usize,
            values: vec![0.0; shape.values()],
            counts: vec![0; shape.rows as usize],
            touched: Vec::new(),
        });
        let tables: Vec<Sums> = sums.collect();
        let kept = if guard.keeps() { vec![Kept::default(); tables.len()] } else { Vec::new() };
        Self { tables, guard, kept, updates: 0 }
    }

    /// The guard under which it is added up.
    pub(crate) fn guard(&self) -> Guard {
        self.guard
    }

    /// The tables, in layout order.
    pub fn tables(&self) -> &[Sums] {
        &self.tables
    }

    /// Adds an update of the same layout.
    pub fn add(&mut self, update: &Update) {
        self.updates += 1;
        if self.guard != Guard::None {
            return self.add_guarded(update);
        }
        for (sums, rows) in self.tables.iter_mut().zip(update.tables()) {
            add_table(sums, rows);
        }
    }

    fn add_guarded(&mut self, update: &Update) {
        for (table, rows) in update.tables().iter().enumerate() {
            match self.guard {
                Guard::Clip(norm) => self.tables[table].add_clipped(rows, norm),
                _ => self.kept[table].add(rows),
            }
        }
    }

    /// Ends the adding up, where the guard needs all updates for it; does nothing the second time.
    pub fn settle(&mut self) {
        for (sums, kept) in self.tables.iter_mut().zip(&mut self.kept) {
            let cols = sums.cols;
            kept.sums(self.guard, cols, |row, updates, values| {
                sums.count(row, updates);
                sums.add(row, values);
            });
            kept.clear();
        }
    }

    /// Adds what another collected, and empties that.
    pub(crate) fn drain(&mut self, other: &mut Collected) {
        if self.updates == 0 {
            // To nothing yet: a sum never is a negative zero, which adding to zero would change.
            std::mem::swap(self, other);
            other.clear();
            return;
        }
        for (sums, others) in self.tables.iter_mut().zip(&mut other.tables) {
            merge_table(sums, others);
        }
        for (kept, others) in self.kept.iter_mut().zip(&mut other.kept) {
            kept.append(others);
        }
        self.updates += other.updates;
        other.updates = 0;
    }

    /// Back to nothing; takes a step for each row that was sent.
    pub fn clear(&mut self) {
        self.tables.iter_mut().for_each(Sums::clear);
        self.kept.iter_mut().for_each(Kept::clear);
        self.updates = 0;
    }
}

/// One table of an update, to be added; `C` is the number of columns, or 0 for one without a loop of its own.
struct Adding<'a, const C: usize> {
    sums: &'a mut Sums,
    rows: &'a Rows,
}

impl<const C: usize> Work for Adding<'_, C> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Adding { sums, rows } = self;
        let cols = if C == 0 { sums.cols } else { C };
        let values = rows.values().chunks_exact(cols);
        // As loops: a closure would not be compiled for the wider instructions.
        match rows.indices() {
            Some(indices) => {
                // Two loops: the second, short as it is, lets the processor fetch many rows at once.
                for &row in indices {
                    sums.count(row as usize, 1);
                }
                for (&row, values) in indices.iter().zip(values) {
                    sums.add(row as usize, values);
                }
            }
            None => {
                for row in 0..sums.counts.len() {
                    sums.count(row, 1);
                }
                math::add(&mut sums.values, rows.values());
            }
        }
    }
}

/// Sums of one table, to be added to others and emptied; `C` as in [`Adding`].
struct Merging<'a, const C: usize> {
    sums: &'a mut Sums,
    others: &'a mut Sums,
}

impl<const C: usize> Work for Merging<'_, C> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Merging { sums, others } = self;
        let cols = if C == 0 { sums.cols } else { C };
        for &row in &others.touched {
            let row = row as usize;
            sums.count(row, std::mem::take(&mut others.counts[row]));
            let values = &mut others.values[row * cols..][..cols];
            sums.add(row, values);
            values.fill(0.0);
        }
        others.touched.clear();
    }
}

/// Does the work in loops of the right length where the number of columns is a common one.
macro_rules! with_columns {
    ($columns:expr, $c:ident => $body:expr) => {
        with_columns!(@arms $columns, $c, $body, 9 11 17 21 33 51 65)
    };
    (@arms $columns:expr, $c:ident, $body:expr, $($width:literal)*) => {
        match $columns {
            $($width => { const $c: usize = $width; $body })*
            _ => { const $c: usize = 0; $body }
        }
    };
}

fn add_table(sums: &mut Sums, rows: &Rows) {
    with_columns!(sums.cols, C => fastest(Adding::<C> { sums, rows }));
}

fn merge_table(sums: &mut Sums, others: &mut Sums) {
    with_columns!(sums.cols, C => fastest(Merging::<C> { sums, others }));
}

impl Sums {
    /// Rows that were sent: index, number of updates that had it, sum of their values. In no particular order, but in
    /// the same one on any number of threads.
    pub fn rows(&self) -> impl Iterator<Item = (usize, u32, &[f32])> {
        self.touched.iter().map(|&row| (row as usize, self.counts[row as usize], self.row(row as usize)))
    }

    fn row(&self, row: usize) -> &[f32] {
        &self.values[row * self.cols..][..self.cols]
    }

    #[inline(always)]
    fn count(&mut self, row: usize, updates: u32) {
        if self.counts[row] == 0 {
            self.touched.push(row as u32);
        }
        self.counts[row] += updates;
    }

    #[inline(always)]
    fn add(&mut self, row: usize, values: &[f32]) {
        math::add(&mut self.values[row * values.len()..][..values.len()], values);
    }

    fn add_clipped(&mut self, rows: &Rows, norm: f32) {
        let mut row_values = Vec::with_capacity(self.cols);
        for (row, values) in rows.iter() {
            self.count(row, 1);
            match clipping(values, norm) {
                None => self.add(row, values),
                Some(factor) => {
                    row_values.clear();
                    row_values.extend(values.iter().map(|value| value * factor));
                    self.add(row, &row_values);
                }
            }
        }
    }

    fn clear(&mut self) {
        for &row in &self.touched {
            self.counts[row as usize] = 0;
            self.values[row as usize * self.cols..][..self.cols].fill(0.0);
        }
        self.touched.clear();
    }
}
