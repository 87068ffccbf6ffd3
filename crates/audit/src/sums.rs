//! Sums of rounds, for a server that sees nothing but them and who was in which.

use crate::evidence::main_direction;
use crate::exposed_table::ExposedTable;
use sottovoce_core::math;
use sottovoce_federation::Aggregate;
use std::collections::VecDeque;

/// Most values in memory: a gibibyte. Of more rounds the latest that fit remain.
const MAX_VALUES: usize = 1 << 28;

/// The sums of rounds, of one table.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    /// Values of a row: its bias, or all of it.
    width: usize,
    height: usize,
    rounds: VecDeque<Round>,
}

#[derive(Debug)]
pub(crate) struct Round {
    /// The users in it, ascending.
    pub(crate) users: Vec<u32>,
    /// `width` values a row.
    pub(crate) values: Vec<f32>,
}

impl Round {
    pub(crate) fn has(&self, user: u32) -> bool {
        self.users.binary_search(&user).is_ok()
    }
}

impl Sums {
    /// Adds a round: its users, ascending, and the sum of their updates.
    pub(crate) fn record(&mut self, table: &ExposedTable, users: Vec<u32>, aggregate: &Aggregate, height: usize) {
        let Some(sums) = aggregate.tables().get(table.index) else { return };
        let Some(cols) = sums.rows().next().map(|(_, _, row)| row.len()) else { return };
        (self.width, self.height) = (if table.bias { 1 } else { cols }, height);
        let mut values = vec![0.0; self.width * height];
        for (row, _, sum) in sums.rows() {
            values[row * self.width..][..self.width].copy_from_slice(&sum[cols - self.width..]);
        }
        while !self.rounds.is_empty() && (self.rounds.len() + 1) * values.len() > MAX_VALUES {
            self.rounds.pop_front();
        }
        self.rounds.push_back(Round { users, values });
    }

    /// Rounds with users in them, oldest first.
    pub(crate) fn rounds(&self) -> impl DoubleEndedIterator<Item = &Round> {
        self.rounds.iter().filter(|round| !round.users.is_empty())
    }

    pub(crate) fn values(&self) -> usize {
        self.width * self.height
    }

    /// How far each row moves along the user's vector, by an estimate of their update.
    pub(crate) fn directions(&self, update: Vec<f32>) -> Vec<f32> {
        if self.width == 1 {
            return update;
        }
        match main_direction(&update, self.width) {
            Some(direction) => update.chunks_exact(self.width).map(|row| math::dot(row, &direction)).collect(),
            None => vec![0.0; self.height],
        }
    }
}
