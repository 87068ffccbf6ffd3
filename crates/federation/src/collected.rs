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

    /// Nothing yet, under the same guard.
    pub(crate) fn alike(&self, layout: &Layout) -> Self {
        Self::guarded(layout, self.guard)
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
            kept.sums(self.guard, cols, |row, updates, values| sums.add(row, values, updates));
            kept.clear();
        }
    }

    /// Adds what another collected, and empties that.
    pub(crate) fn drain(&mut self, other: &mut Collected) {
        for (sums, others) in self.tables.iter_mut().zip(&mut other.tables) {
            fastest(Merging { sums, others });
        }
        for (kept, others) in self.kept.iter_mut().zip(&mut other.kept) {
            kept.append(others);
        }
        self.updates += other.updates;
        other.clear();
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
                for (&row, values) in indices.iter().zip(values) {
                    sums.add(row as usize, values, 1);
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

/// Sums of one table, to be added to others.
struct Merging<'a> {
    sums: &'a mut Sums,
    others: &'a Sums,
}

impl Work for Merging<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for &row in &self.others.touched {
            let row = row as usize;
            self.sums.add(row, self.others.row(row), self.others.counts[row]);
        }
    }
}

/// Adds a table, in loops of the right length where the number of columns is a common one.
fn add_table(sums: &mut Sums, rows: &Rows) {
    match sums.cols {
        9 => fastest(Adding::<9> { sums, rows }),
        11 => fastest(Adding::<11> { sums, rows }),
        17 => fastest(Adding::<17> { sums, rows }),
        21 => fastest(Adding::<21> { sums, rows }),
        33 => fastest(Adding::<33> { sums, rows }),
        51 => fastest(Adding::<51> { sums, rows }),
        65 => fastest(Adding::<65> { sums, rows }),
        _ => fastest(Adding::<0> { sums, rows }),
    }
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
    fn add(&mut self, row: usize, values: &[f32], updates: u32) {
        self.count(row, updates);
        math::add(&mut self.values[row * values.len()..][..values.len()], values);
    }

    fn add_clipped(&mut self, rows: &Rows, norm: f32) {
        let mut row_values = Vec::with_capacity(self.cols);
        for (row, values) in rows.iter() {
            match clipping(values, norm) {
                None => self.add(row, values, 1),
                Some(factor) => {
                    row_values.clear();
                    row_values.extend(values.iter().map(|value| value * factor));
                    self.add(row, &row_values, 1);
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
