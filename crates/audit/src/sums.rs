//! What is kept of rounds of which the server sees nothing but the sum, and who was in it.

use crate::ExposedTable;
use crate::evidence::main_direction;
use sottovoce_core::math;
use sottovoce_federation::Aggregate;
use std::collections::VecDeque;

/// Values kept at most, over all rounds: a gibibyte. Of more rounds the last that fit are kept.
const MOST_VALUES: usize = 1 << 28;

/// The sums of rounds.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    /// Values kept of a row: its bias, or all of it.
    width: usize,
    height: usize,
    rounds: VecDeque<Round>,
}

#[derive(Debug)]
pub(crate) struct Round {
    /// Who is in it, ascending.
    pub(crate) present: Vec<u32>,
    /// `width` values a row.
    pub(crate) values: Vec<f32>,
}

impl Sums {
    /// Keeps a round: who was in it, ascending, and what they sent together.
    pub(crate) fn record(
        &mut self,
        table: &ExposedTable,
        present: Vec<u32>,
        aggregate: &Aggregate,
        height: usize,
    ) {
        let Some(sums) = aggregate.tables().get(table.index()) else { return };
        let Some(cols) = sums.rows().next().map(|(_, _, row)| row.len()) else { return };
        (self.width, self.height) = (if table.has_bias() { 1 } else { cols }, height);
        let mut values = vec![0.0; self.width * height];
        for (row, _, sum) in sums.rows() {
            values[row * self.width..][..self.width].copy_from_slice(&sum[cols - self.width..]);
        }
        while !self.rounds.is_empty() && (self.rounds.len() + 1) * values.len() > MOST_VALUES {
            self.rounds.pop_front();
        }
        self.rounds.push_back(Round { present, values });
    }

    /// Rounds kept, oldest first; none with nobody in it.
    pub(crate) fn rounds(&self) -> impl DoubleEndedIterator<Item = &Round> {
        self.rounds.iter().filter(|round| !round.present.is_empty())
    }

    pub(crate) fn values(&self) -> usize {
        self.width * self.height
    }

    /// How far each row moves towards somebody, of whom this is what they are taken to have sent.
    pub(crate) fn moves(&self, sent: Vec<f32>) -> Vec<f32> {
        if self.width == 1 {
            return sent;
        }
        match main_direction(&sent, self.width) {
            Some(direction) => sent.chunks_exact(self.width).map(|row| math::dot(row, &direction)).collect(),
            None => vec![0.0; self.height],
        }
    }
}
