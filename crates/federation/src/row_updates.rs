//! How often each row of the shared model was sent.

use crate::Aggregate;
use sottovoce_protocol::Layout;

/// How often each row of the shared model was sent, over all rounds: the papers' item-update frequency.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowUpdates {
    pub(crate) tables: Vec<Vec<u64>>,
}

impl RowUpdates {
    /// Nothing sent yet.
    pub fn new(layout: &Layout) -> Self {
        Self { tables: layout.shapes().iter().map(|shape| vec![0; shape.rows as usize]).collect() }
    }

    /// Updates that had each row, by table and row.
    pub fn tables(&self) -> &[Vec<u64>] {
        &self.tables
    }

    /// Counts the rows of a round.
    pub(crate) fn add(&mut self, aggregate: &Aggregate) {
        for (counts, sums) in self.tables.iter_mut().zip(aggregate.tables()) {
            sums.rows().for_each(|(row, updates, _)| counts[row] += u64::from(updates));
        }
    }
}
