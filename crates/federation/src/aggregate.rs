//! What a cohort sent, added up.

use crate::aggregation::{
    Aggregation, BufferedRows, BufferedUpdate, BufferedUpdates, CriteriaSums, RobustAggregator, Weighting, clipping,
};
use crate::privacy::QuantizedSum;
use sottovoce_core::{SimdKernel, math, simd_dispatch};
use sottovoce_privacy::SecureRng;
use sottovoce_privacy::quantize::BucketOverflow;
use sottovoce_protocol::{Layout, Rows, Shape, Update};
use std::sync::Arc;

/// The sum of a cohort's updates, by table and row. Where updates do not count alike, it is the weighted mean times
/// their number, so that any strategy can follow.
#[derive(Clone, Debug)]
pub struct Aggregate {
    tables: Vec<RowSums>,
    pub(crate) aggregation: Aggregation,
    /// By table, where the robust keeps rows until all are there.
    buffered_rows: Vec<BufferedRows>,
    /// Where whole updates are buffered until the round is complete.
    buffered_updates: BufferedUpdates,
    /// Each update with its device, where the strategy needs to know; in the order of the cohort.
    identified: Vec<(u32, BufferedUpdate)>,
    /// Where updates are weighed by what they say.
    criteria_sums: Option<Box<CriteriaSums>>,
    /// Where updates are protected: their sum as integers.
    quantized: Option<Box<QuantizedSum>>,
    /// Updates added.
    pub updates: u64,
    /// Standard deviation of the noise on each value of the sum, once it is opened.
    pub noise: f64,
}

/// Sums of one table's rows; rows that were not sent are zero.
#[derive(Clone, Debug, Default)]
pub struct RowSums {
    cols: usize,
    values: Vec<f32>,
    /// Updates that had the row.
    counts: Vec<u32>,
    /// What they weigh together; empty where all count alike.
    weights: Vec<f32>,
    /// Rows that were sent, in the order in which they first came.
    touched: Vec<u32>,
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

impl Aggregate {
    /// Nothing yet.
    pub fn new(layout: &Layout) -> Self {
        Self::with(layout, &Aggregation::default())
    }

    /// Nothing yet, to be added up so.
    pub fn with(layout: &Layout, aggregation: &Aggregation) -> Self {
        let sums = |shape: &Shape| RowSums {
            cols: shape.cols as usize,
            values: vec![0.0; shape.values()],
            counts: vec![0; shape.rows as usize],
            ..RowSums::default()
        };
        let tables = layout.shapes();
        let buffered = if aggregation.robust.buffers_rows() { tables.len() } else { 0 };
        let weighed = aggregation.weighting.values() > 0 && !aggregation.buffers_updates();
        Self {
            tables: tables.iter().map(sums).collect(),
            aggregation: aggregation.clone(),
            buffered_rows: vec![BufferedRows::default(); buffered],
            buffered_updates: BufferedUpdates::default(),
            identified: Vec::new(),
            criteria_sums: weighed.then(|| Box::new(CriteriaSums::new(layout, &aggregation.weighting))),
            quantized: aggregation.quantized_sum.as_ref().map(|protected| Box::new(QuantizedSum::new(protected))),
            updates: 0,
            noise: 0.0,
        }
    }

    /// The tables, in layout order.
    pub fn tables(&self) -> &[RowSums] {
        &self.tables
    }

    /// Each update with its device, where the strategy needs to know.
    pub(crate) fn identified(&self) -> impl Iterator<Item = (u32, &BufferedUpdate)> {
        self.identified.iter().map(|(device, update)| (*device, update))
    }

    /// Adds a device's update of the same layout.
    pub fn add_from(&mut self, device: u32, update: &Update) {
        if self.aggregation.identified {
            let scale = match self.aggregation.robust {
                RobustAggregator::ClipUpdate(norm) => clipping(update.tables().iter().flat_map(Rows::values), norm),
                _ => None,
            };
            self.identified.push((device, BufferedUpdate::of(update, scale.unwrap_or(1.0))));
        }
        self.add(update);
    }

    /// Adds an update of the same layout.
    pub fn add(&mut self, update: &Update) {
        self.updates += 1;
        if !self.aggregation.is_plain() {
            return self.add_weighted(update);
        }
        for (sums, rows) in self.tables.iter_mut().zip(update.tables()) {
            with_columns!(sums.cols, C => simd_dispatch(Adding::<C> { sums, rows }));
        }
    }

    /// Adds a device's words, noise and all, where updates are protected.
    pub fn add_quantized(&mut self, words: &[u32]) {
        self.add_sum(words, 1);
    }

    /// Takes up the sum of so many devices' words, as a seal was opened to it.
    pub fn add_sum(&mut self, words: &[u32], updates: u64) {
        self.updates += updates;
        if let Some(sum) = &mut self.quantized {
            sum.add_quantized(words);
        }
    }

    fn add_weighted(&mut self, update: &Update) {
        if let Some(words) = &mut self.quantized {
            return words.add(update);
        }
        if self.aggregation.buffers_updates() {
            return self.buffered_updates.add(update, &self.aggregation);
        }
        if self.aggregation.robust.buffers_rows() {
            return self.buffered_rows.iter_mut().zip(update.tables()).for_each(|(buffered, rows)| buffered.add(rows));
        }
        let robust = self.aggregation.robust;
        let whole = match robust {
            RobustAggregator::ClipUpdate(norm) => {
                clipping(update.tables().iter().flat_map(Rows::values), norm).unwrap_or(1.0)
            }
            _ => 1.0,
        };
        let active = self.aggregation.weighting == Weighting::Active;
        let criteria_sums = self.criteria_sums.as_mut();
        let mut criteria_sums =
            criteria_sums.and_then(|criteria_sums| criteria_sums.begin(update).then_some(criteria_sums));
        for (table, (sums, rows)) in self.tables.iter_mut().zip(update.tables()).enumerate() {
            for (row, values) in rows.iter() {
                let scale = match robust {
                    RobustAggregator::Clip(norm) => clipping(values, norm).unwrap_or(1.0),
                    _ => whole,
                };
                sums.count(row, 1);
                match &mut criteria_sums {
                    Some(criteria_sums) => criteria_sums.add(table, row, scale, values),
                    None if active => {
                        let length = scale * math::dot(values, values).sqrt();
                        sums.weigh(row, length);
                        sums.add_scaled(row, length * scale, values);
                    }
                    None => sums.add_scaled(row, scale, values),
                }
            }
        }
    }

    /// Takes up how updates are protected now, before the first of a round: only the clip moves from round to round.
    pub(crate) fn renew(&mut self, aggregation: &Aggregation) {
        let (Some(words), Some(how)) = (&mut self.quantized, aggregation.quantized_sum.as_ref()) else { return };
        if !self.aggregation.quantized_sum.as_ref().is_some_and(|current| Arc::ptr_eq(current, how)) {
            words.renew(how);
            self.aggregation = aggregation.clone();
        }
    }

    /// Ends the adding up of protected updates: adds the server's noise, if that is where it is added, and reads the
    /// sums. Returns what updates say of their lengths, where the clip follows them. Does nothing the second time.
    ///
    /// # Errors
    /// If the cohort touched more rows than its buckets hold.
    pub(crate) fn open(&mut self, generator: &mut SecureRng) -> Result<Option<i64>, BucketOverflow> {
        let Some(words) = &mut self.quantized else { return Ok(None) };
        let tables = &mut self.tables;
        words.read(&mut self.updates, generator, |table, row, count, values| {
            tables[table].count(row, count);
            tables[table].add(row, values);
        })
    }

    /// Ends the adding up, where it needs all updates for it; does nothing the second time.
    pub fn finish(&mut self) {
        self.finish_rows();
        self.finish_updates();
        self.finish_criteria_sums();
        self.finish_active();
    }

    /// Makes a row's sum the mean by length of change, times the number of updates.
    fn finish_active(&mut self) {
        if self.aggregation.weighting != Weighting::Active {
            return;
        }
        for sums in &mut self.tables {
            for index in 0..sums.touched.len() {
                let row = sums.touched[index] as usize;
                let (count, weight) = (sums.counts[row] as f32, sums.weight(row));
                let values = &mut sums.values[row * sums.cols..][..sums.cols];
                values.iter_mut().for_each(|value| *value *= count / weight);
                sums.weigh(row, count - weight);
            }
        }
    }

    fn finish_rows(&mut self) {
        let robust = self.aggregation.robust;
        for (sums, buffered) in self.tables.iter_mut().zip(&mut self.buffered_rows) {
            let cols = sums.cols;
            buffered.sums(robust, cols, |row, updates, values| {
                sums.count(row, updates);
                sums.add(row, values);
            });
            buffered.clear();
        }
    }

    fn finish_updates(&mut self) {
        if !self.aggregation.buffers_updates() {
            return;
        }
        for (update, weight, scale) in self.buffered_updates.weighed(&self.aggregation) {
            for (table, row, values) in update.rows() {
                let sums = &mut self.tables[table];
                sums.count(row, 1);
                sums.weigh(row, weight);
                sums.add_scaled(row, weight * scale, values);
            }
        }
        self.buffered_updates.clear();
    }

    fn finish_criteria_sums(&mut self) {
        let Some(criteria_sums) = &mut self.criteria_sums else { return };
        let Some(mixture) = criteria_sums.mixture() else { return };
        for (table, sums) in self.tables.iter_mut().enumerate() {
            for index in 0..sums.touched.len() {
                let (row, cols) = (sums.touched[index] as usize, sums.cols);
                let values = &mut sums.values[row * cols..][..cols];
                let (weight, reported) = criteria_sums.finish(&mixture, table, row, values);
                sums.weigh(row, weight + (sums.counts[row] as f32 - reported));
                criteria_sums.clear_row(table, row, cols);
            }
        }
        criteria_sums.clear_totals();
    }

    /// Adds another aggregate and empties it.
    pub(crate) fn merge(&mut self, other: &mut Aggregate) {
        if self.updates == 0 {
            // To nothing yet: a sum never is a negative zero, which adding to zero would change.
            std::mem::swap(self, other);
            other.clear();
            return;
        }
        if let (Some(criteria_sums), Some(others)) = (&mut self.criteria_sums, &mut other.criteria_sums) {
            for (table, sums) in other.tables.iter().enumerate() {
                for &row in &sums.touched {
                    criteria_sums.drain_row(others, table, row as usize, sums.cols);
                }
            }
            criteria_sums.drain_totals(others);
        }
        for (sums, others) in self.tables.iter_mut().zip(&mut other.tables) {
            for &row in &others.touched {
                if let Some(weight) = others.weights.get_mut(row as usize) {
                    sums.weigh(row as usize, std::mem::take(weight));
                }
            }
            with_columns!(sums.cols, C => simd_dispatch(Merging::<C> { sums, others }));
        }
        for (buffered, others) in self.buffered_rows.iter_mut().zip(&mut other.buffered_rows) {
            buffered.append(others);
        }
        self.buffered_updates.append(&mut other.buffered_updates);
        self.identified.append(&mut other.identified);
        if let (Some(words), Some(others)) = (&mut self.quantized, &mut other.quantized) {
            words.merge(others);
        }
        self.updates += other.updates;
        other.updates = 0;
    }

    /// Counts all rows among those that changed, whether they were sent or not.
    pub(crate) fn touch_all(&mut self) {
        for sums in &mut self.tables {
            let unsent = (0..).zip(&sums.counts).filter(|(_, count)| **count == 0).map(|(row, _): (u32, _)| row);
            sums.touched.extend(unsent);
        }
    }

    /// Back to nothing; takes a step for each row that was sent.
    pub fn clear(&mut self) {
        if let Some(criteria_sums) = &mut self.criteria_sums {
            for (table, sums) in self.tables.iter().enumerate() {
                sums.touched.iter().for_each(|&row| criteria_sums.clear_row(table, row as usize, sums.cols));
            }
            criteria_sums.clear_totals();
        }
        self.tables.iter_mut().for_each(RowSums::clear);
        self.buffered_rows.iter_mut().for_each(BufferedRows::clear);
        self.buffered_updates.clear();
        self.identified.clear();
        if let Some(words) = &mut self.quantized {
            words.clear();
        }
        self.updates = 0;
        self.noise = 0.0;
    }
}

/// One table of an update, to be added; `C` is the number of columns, or 0 for one without a loop of its own.
struct Adding<'a, const C: usize> {
    sums: &'a mut RowSums,
    rows: &'a Rows,
}

impl<const C: usize> SimdKernel for Adding<'_, C> {
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
    sums: &'a mut RowSums,
    others: &'a mut RowSums,
}

impl<const C: usize> SimdKernel for Merging<'_, C> {
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

impl RowSums {
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

    fn add_scaled(&mut self, row: usize, scale: f32, values: &[f32]) {
        math::add_scaled(&mut self.values[row * values.len()..][..values.len()], scale, values);
    }

    /// Adds to the weight of a row's updates.
    fn weigh(&mut self, row: usize, weight: f32) {
        self.weights.resize(self.counts.len(), 0.0);
        self.weights[row] += weight;
    }

    /// What the updates that had a row weigh together: their number, where all count alike.
    pub fn weight(&self, row: usize) -> f32 {
        match self.weights.get(row) {
            Some(&weight) if weight > 0.0 => weight,
            _ => self.counts[row] as f32,
        }
    }

    fn clear(&mut self) {
        for &row in &self.touched {
            self.counts[row as usize] = 0;
            if let Some(weight) = self.weights.get_mut(row as usize) {
                *weight = 0.0;
            }
            self.values[row as usize * self.cols..][..self.cols].fill(0.0);
        }
        self.touched.clear();
    }
}
