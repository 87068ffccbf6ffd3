//! Who looks on while a federation learns.

use crate::{Attendance, Collected, EpochReport};
use sottovoce_protocol::Layout;

/// A round that is over, as the server saw it.
#[derive(Clone, Copy, Debug)]
pub struct RoundReport<'a> {
    /// Its number, from 0.
    pub round: u64,
    /// Who took part.
    pub attendance: &'a Attendance,
    /// Bytes from the server to devices, as encoded.
    pub down: u64,
    /// What the cohort sent, added up; emptied before the next round.
    pub collected: &'a Collected,
}

/// Is told of each round and epoch, on the thread that runs them. It sees, and changes nothing.
pub trait Observer {
    /// Called after each round, when the shared model has taken it in.
    fn after_round(&mut self, round: &RoundReport<'_>) {
        let _ = round;
    }

    /// Called after each epoch.
    fn after_epoch(&mut self, epoch: &EpochReport) {
        let _ = epoch;
    }
}

/// Looks away.
impl Observer for () {}

/// How often each row of the shared model was sent, over all rounds: the papers' item-update frequency.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowUpdates {
    tables: Vec<Vec<u64>>,
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
}

impl RowUpdates {
    pub(crate) fn tables_mut(&mut self) -> &mut [Vec<u64>] {
        &mut self.tables
    }
}

impl Observer for RowUpdates {
    fn after_round(&mut self, round: &RoundReport<'_>) {
        for (counts, sums) in self.tables.iter_mut().zip(round.collected.tables()) {
            sums.rows().for_each(|(row, updates, _)| counts[row] += u64::from(updates));
        }
    }
}
