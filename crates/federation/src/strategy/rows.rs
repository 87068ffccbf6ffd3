//! Steps along the sum of what devices propose for a row.

use super::Strategy;
use crate::Aggregate;
use sottovoce_core::math;
use sottovoce_models::federated::{DampedSum, Sum};
use sottovoce_protocol::Parameters;

impl Strategy for Sum {
    fn apply(&mut self, shared: &mut Parameters, round: &Aggregate) {
        add_rows(shared, round, |_| self.learning_rate);
    }

    fn advice(&self) -> String {
        format!(
            "many devices add to the same rows; take a learning_rate below {} or strategy = adaptive",
            self.learning_rate
        )
    }
}

impl Strategy for DampedSum {
    fn apply(&mut self, shared: &mut Parameters, round: &Aggregate) {
        let DampedSum { learning_rate: rate, devices } = *self;
        add_rows(shared, round, |count| rate * (devices / (devices + (count - 1) as f32)));
    }

    fn advice(&self) -> String {
        format!("take a learning_rate below {} or damped_devices below {}", self.learning_rate, self.devices)
    }
}

fn add_rows(shared: &mut Parameters, round: &Aggregate, step: impl Fn(u32) -> f32) {
    for (table, sums) in shared.tables_mut().iter_mut().zip(round.tables()) {
        for (row, count, sum) in sums.rows() {
            math::add_scaled(table.row_mut(row), step(count), sum);
        }
    }
}
