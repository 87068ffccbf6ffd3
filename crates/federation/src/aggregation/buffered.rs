//! Whole updates, buffered until the round is complete.

use super::{Aggregation, RobustAggregator};
use sottovoce_protocol::{Rows, Update};
use std::cmp::Ordering;

/// A round's updates in the order in which they are counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct BufferedUpdates(Vec<BufferedUpdate>);

/// One device's.
#[derive(Clone, Debug)]
pub(crate) struct BufferedUpdate {
    tables: Vec<BufferedTable>,
    /// What it says of itself, if that is all that is asked for.
    reported: Option<Vec<f64>>,
}

/// Rows of one table.
#[derive(Clone, Debug)]
struct BufferedTable {
    /// Ascending; `None` for all.
    indices: Option<Vec<u32>>,
    values: Vec<f32>,
    cols: usize,
}

impl BufferedTable {
    fn of(rows: &Rows) -> Self {
        let indices = rows.indices().map(<[u32]>::to_vec);
        Self { indices, values: rows.values().to_vec(), cols: rows.cols() }
    }

    fn iter(&self) -> impl Iterator<Item = (usize, &[f32])> {
        let row = |index: usize| self.indices.as_ref().map_or(index, |rows| rows[index] as usize);
        self.values.chunks_exact(self.cols).enumerate().map(move |(index, values)| (row(index), values))
    }

    /// Products of the values of rows that both have, added up.
    fn dot(&self, other: &BufferedTable) -> f64 {
        let (mut ours, mut theirs) = (self.iter().peekable(), other.iter().peekable());
        let mut sum = 0.0;
        while let (Some((row, values)), Some((other, others))) = (ours.peek(), theirs.peek()) {
            match row.cmp(other) {
                Ordering::Less => ours.next(),
                Ordering::Greater => theirs.next(),
                Ordering::Equal => {
                    sum += values.iter().zip(*others).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
                    theirs.next();
                    ours.next()
                }
            };
        }
        sum
    }
}

impl BufferedUpdate {
    fn dot(&self, other: &BufferedUpdate) -> f64 {
        self.tables.iter().zip(&other.tables).map(|(ours, theirs)| ours.dot(theirs)).sum()
    }

    /// An update with its values scaled.
    pub(crate) fn of(update: &Update, scale: f32) -> Self {
        let mut tables: Vec<BufferedTable> = update.tables().iter().map(BufferedTable::of).collect();
        if scale != 1.0 {
            tables.iter_mut().flat_map(|table| &mut table.values).for_each(|value| *value *= scale);
        }
        Self { tables, reported: None }
    }

    /// Its rows of one table: row, values.
    pub(crate) fn rows_of(&self, table: usize) -> impl Iterator<Item = (usize, &[f32])> {
        self.tables.get(table).into_iter().flat_map(BufferedTable::iter)
    }

    /// Its rows: table, row, values.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (usize, usize, &[f32])> {
        let tables = self.tables.iter().enumerate();
        tables.flat_map(|(table, rows)| rows.iter().map(move |(row, values)| (table, row, values)))
    }

    /// The factor that brings it down to a norm.
    fn clipping(&self, norm: f32) -> f32 {
        let found = self.dot(self).sqrt();
        if found > f64::from(norm) { (f64::from(norm) / found) as f32 } else { 1.0 }
    }
}

impl BufferedUpdates {
    pub(crate) fn add(&mut self, update: &Update, aggregation: &Aggregation) {
        let mut values = Vec::new();
        let reported = aggregation.weighting.reported(update, &mut values).then_some(values);
        let tables = update.tables().iter().map(BufferedTable::of).collect();
        self.0.push(BufferedUpdate { tables, reported });
    }

    pub(crate) fn append(&mut self, other: &mut BufferedUpdates) {
        self.0.append(&mut other.0);
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Each update, what it counts, and the factor of its values; what they count is 1 on average.
    pub(crate) fn weighed(&self, aggregation: &Aggregation) -> impl Iterator<Item = (&BufferedUpdate, f32, f32)> {
        let weights = match aggregation.robust {
            RobustAggregator::Krum(share) => self.krum(share, 1),
            RobustAggregator::MultiKrum(share) => self.krum(share, self.0.len() - liars(self.0.len(), share)),
            _ => {
                let reported: Vec<_> = self.0.iter().map(|update| update.reported.clone()).collect();
                aggregation.weighting.weights(&reported)
            }
        };
        let scale = |update: &BufferedUpdate| match aggregation.robust {
            RobustAggregator::ClipUpdate(norm) => update.clipping(norm),
            _ => 1.0,
        };
        self.0.iter().zip(weights).map(move |(update, weight)| (update, weight as f32, scale(update)))
    }

    /// Weights of the `keep` updates nearest to the others, 0 for the rest.
    fn krum(&self, share: f32, keep: usize) -> Vec<f64> {
        let count = self.0.len();
        let norms: Vec<f64> = self.0.iter().map(|update| update.dot(update)).collect();
        let mut distances = vec![vec![0.0; count]; count];
        for a in 0..count {
            for b in 0..a {
                let distance = norms[a] + norms[b] - 2.0 * self.0[a].dot(&self.0[b]);
                (distances[a][b], distances[b][a]) = (distance, distance);
            }
        }
        let nearest = count.saturating_sub(liars(count, share) + 2).max(1);
        let score = |own: &Vec<f64>| {
            // The smallest is the distance to itself.
            let mut sorted = own.clone();
            sorted.sort_unstable_by(f64::total_cmp);
            sorted.iter().skip(1).take(nearest).sum::<f64>()
        };
        let scores: Vec<f64> = distances.iter().map(score).collect();
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by(|&a, &b| scores[a].total_cmp(&scores[b]));
        let keep = keep.clamp(1, count.max(1));
        let mut weights = vec![0.0; count];
        order.iter().take(keep).for_each(|&index| weights[index] = count as f64 / keep as f64);
        weights
    }
}

/// How many of so many may lie.
fn liars(count: usize, share: f32) -> usize {
    ((count as f32 * share) as usize).min(count.saturating_sub(1))
}
