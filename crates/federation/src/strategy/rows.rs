//! Steps along the sum of what devices propose for a row.

use super::Strategy;
use crate::Aggregate;
use sottovoce_core::math;
use sottovoce_protocol::Parameters;

/// The papers': `row += rate * sum`. The step of a row grows with the number of devices that send it, so that a rate that
/// suits a small population makes a large one diverge.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sum {
    /// alpha.
    pub rate: f32,
}

/// A sum up to some devices, a mean beyond: `row += rate * sum * c / (c + n - 1)`, where n devices sent the row.
///
/// One device moves a row as with [`Sum`]; many move it together at most as far as c of them would under `Sum`, however
/// many they are. So the step of a row has a bound that does not depend on the population, and one setting serves 1,000
/// devices and 1,000,000; rare items still learn at full speed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DampedSum {
    /// alpha.
    pub rate: f32,
    /// c: devices beyond which a row hardly moves further.
    pub devices: f32,
}

impl Strategy for Sum {
    fn apply(&mut self, shared: &mut Parameters, round: &Aggregate) {
        add_rows(shared, round, |_| self.rate);
    }

    fn advice(&self) -> String {
        format!(
            "many devices add to the same rows; take a learning_rate below {} or strategy = adaptive",
            self.rate
        )
    }
}

impl Strategy for DampedSum {
    fn apply(&mut self, shared: &mut Parameters, round: &Aggregate) {
        let DampedSum { rate, devices } = *self;
        add_rows(shared, round, |count| rate * (devices / (devices + (count - 1) as f32)));
    }

    fn advice(&self) -> String {
        format!("take a learning_rate below {} or damped_devices below {}", self.rate, self.devices)
    }
}

fn add_rows(shared: &mut Parameters, round: &Aggregate, step: impl Fn(u32) -> f32) {
    for (table, sums) in shared.tables_mut().iter_mut().zip(round.tables()) {
        for (row, count, sum) in sums.rows() {
            math::add_scaled(table.row_mut(row), step(count), sum);
        }
    }
}
