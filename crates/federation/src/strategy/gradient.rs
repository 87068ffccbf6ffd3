//! Steps down the gradient of a loss with regularisation, of which devices send their part.
//!
//! Devices send f = -1/2 of the gradient of their part of the loss, so that with l the pull of a row to zero that belongs to
//! one device the gradient of a round's part of the loss is
//! ```text
//! g = -2 (sum of f over the devices that sent the row - n l q),     n devices in all that sent something
//! ```

use super::Strategy;
use crate::Collected;
use sottovoce_protocol::Parameters;

/// Gradient descent: `q -= rate * g`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Descent {
    /// The step.
    pub rate: f32,
    /// Pull of a row to zero that belongs to one device (l).
    pub pull: f32,
}

impl Strategy for Descent {
    fn absorb(&mut self, shared: &mut Parameters, round: &Collected) {
        let back = self.pull * round.updates as f32;
        for (table, sums) in shared.tables_mut().iter_mut().zip(round.tables()) {
            for (row, _, sum) in sums.rows() {
                for (value, sum) in table.row_mut(row).iter_mut().zip(sum) {
                    *value += 2.0 * self.rate * (sum - back * *value);
                }
            }
        }
    }

    fn advice(&self) -> String {
        format!(
            "the step grows with the number of devices; take a learning_rate below {} or server = adam",
            self.rate
        )
    }
}

/// Adam (D. P. Kingma, J. Ba, ICLR 2015): steps of about `rate`, whatever the size of the gradient and so whatever the number
/// of devices. A row that nobody sent stays as it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Adam {
    settings: AdamSettings,
    /// Rounds absorbed.
    steps: i32,
    /// By table: the means of the gradient and of its square, without the factors -2 and 4.
    means: Vec<Vec<[f32; 2]>>,
}

/// Settings of [`Adam`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamSettings {
    /// The step.
    pub rate: f32,
    /// Share of the old mean of the gradient that is kept (beta 1).
    pub momentum: f32,
    /// Share of the old mean of its square that is kept (beta 2).
    pub memory: f32,
    /// Pull of a row to zero that belongs to one device (l).
    pub pull: f32,
}

/// Keeps the division from zero (the paper's epsilon).
const LEAST: f32 = 1e-8;

impl Adam {
    /// Before the first round.
    pub fn new(settings: AdamSettings) -> Self {
        Self { settings, steps: 0, means: Vec::new() }
    }

    fn grow(&mut self, shared: &Parameters) {
        if self.means.is_empty() {
            self.means = shared.tables().iter().map(|table| vec![[0.0; 2]; table.shape().values()]).collect();
        }
    }
}

impl Strategy for Adam {
    fn absorb(&mut self, shared: &mut Parameters, round: &Collected) {
        self.grow(shared);
        self.steps = self.steps.saturating_add(1);
        let AdamSettings { rate, momentum, memory, pull } = self.settings;
        let back = pull * round.updates as f32;
        // What the means lack because they began at zero.
        let (first, second) = (1.0 - momentum.powi(self.steps), 1.0 - memory.powi(self.steps));
        for ((table, sums), means) in shared.tables_mut().iter_mut().zip(round.tables()).zip(&mut self.means)
        {
            let cols = table.shape().cols as usize;
            for (row, _, sum) in sums.rows() {
                let means = &mut means[row * cols..][..cols];
                for ((value, sum), [mean, square]) in table.row_mut(row).iter_mut().zip(sum).zip(means) {
                    let uphill = sum - back * *value;
                    *mean += (1.0 - momentum) * (uphill - *mean);
                    *square += (1.0 - memory) * (uphill * uphill - *square);
                    *value += rate * (*mean / first) / ((*square / second).sqrt() + LEAST);
                }
            }
        }
    }

    fn advice(&self) -> String {
        format!("take a learning_rate below {}", self.settings.rate)
    }
}
