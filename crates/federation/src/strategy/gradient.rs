//! Steps down the gradient of a loss with regularisation, of which devices send their part.
//!
//! Devices send f = -1/2 of the gradient of their part of the loss, so that with l the regularisation of a row
//! for each device the gradient of a round's part of the loss is
//! ```text
//! g = -2 (sum of f over the devices that sent the row - n l q),     n devices in all that sent something
//! ```

use super::Strategy;
use super::moments::Moments;
use crate::Aggregate;
use crate::state::{put_u64s, take_numbers, unfit};
use sottovoce_models::federated::{AdamSettings, Sgd};
use sottovoce_protocol::Parameters;
use std::io::{self, Read, Write};

impl Strategy for Sgd {
    fn apply(&mut self, shared: &mut Parameters, round: &Aggregate) {
        let back = self.regularisation * round.updates as f32;
        for (table, sums) in shared.tables_mut().iter_mut().zip(round.tables()) {
            for (row, _, sum) in sums.rows() {
                for (value, sum) in table.row_mut(row).iter_mut().zip(sum) {
                    *value += 2.0 * self.learning_rate * (sum - back * *value);
                }
            }
        }
    }

    fn advice(&self) -> String {
        format!(
            "the step grows with the number of devices; take a learning_rate below {} or server = adam",
            self.learning_rate
        )
    }
}

/// Adam (D. P. Kingma, J. Ba, ICLR 2015): steps of about `rate`, whatever the size of the gradient and so whatever the
/// number of devices. A row that nobody sent stays as it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Adam {
    settings: AdamSettings,
    /// Rounds absorbed.
    steps: i32,
    /// By table: the means of the gradient and of its square, without the factors -2 and 4.
    means: Moments,
}

/// Keeps the division from zero (the paper's epsilon).
const LEAST: f32 = 1e-8;

impl Adam {
    /// Before the first round.
    pub fn new(settings: AdamSettings) -> Self {
        Self { settings, steps: 0, means: Moments::default() }
    }
}

impl Strategy for Adam {
    fn apply(&mut self, shared: &mut Parameters, round: &Aggregate) {
        self.means.grow(shared, [0.0; 2]);
        self.steps = self.steps.saturating_add(1);
        let AdamSettings { learning_rate: rate, beta1, beta2, regularisation } = self.settings;
        let back = regularisation * round.updates as f32;
        // What the means lack because they began at zero.
        let (first, second) = (1.0 - beta1.powi(self.steps), 1.0 - beta2.powi(self.steps));
        for ((table, sums), means) in shared.tables_mut().iter_mut().zip(round.tables()).zip(&mut self.means.0) {
            let cols = table.shape().cols as usize;
            for (row, _, sum) in sums.rows() {
                let means = &mut means[row * cols..][..cols];
                for ((value, sum), [mean, square]) in table.row_mut(row).iter_mut().zip(sum).zip(means) {
                    let uphill = sum - back * *value;
                    *mean += (1.0 - beta1) * (uphill - *mean);
                    *square += (1.0 - beta2) * (uphill * uphill - *square);
                    *value += rate * (*mean / first) / ((*square / second).sqrt() + LEAST);
                }
            }
        }
    }

    fn advice(&self) -> String {
        format!("take a learning_rate below {}", self.settings.learning_rate)
    }

    fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        put_u64s(out, &[self.steps as u64])?;
        self.means.save(out)
    }

    fn restore(&mut self, shared: &Parameters, from: &mut dyn Read) -> io::Result<()> {
        let [steps] = take_numbers(from)?;
        self.steps = i32::try_from(steps).map_err(|_| unfit(format!("{steps} steps of Adam")))?;
        self.means.restore(self.steps > 0, shared, from)
    }
}

#[cfg(test)]
mod tests {
    use super::super::example::{aggregate, shared};
    use super::*;

    /// Sums of one row in three rounds of two devices; nobody sends it in the second.
    const SUMS: [Option<[f32; 2]>; 3] = [Some([0.5, -2.0]), None, Some([0.25, 1.0])];

    fn rounds(strategy: &mut dyn Strategy) -> Vec<f32> {
        let mut shared = shared();
        for sum in SUMS {
            let rows: Vec<_> = sum.map(|sum| (3, sum.map(|value| value / 2.0))).into_iter().collect();
            strategy.apply(&mut shared, &aggregate(&rows, 2));
        }
        shared.tables()[0].row(3).to_vec()
    }

    fn agree(found: &[f32], expected: [f64; 2]) {
        let near = found.iter().zip(expected).all(|(found, expected)| (f64::from(*found) - expected).abs() < 1e-5);
        assert!(near, "{found:?} {expected:?}");
    }

    #[test]
    fn adam_follows_the_paper() {
        let settings = AdamSettings { learning_rate: 0.1, beta1: 0.3, beta2: 0.9, regularisation: 0.05 };
        let expected = [0, 1].map(|column| {
            let (mut q, mut m, mut v) = (f64::from(shared().tables()[0].row(3)[column]), 0.0, 0.0);
            for (t, sum) in (1..).zip(SUMS) {
                let Some(sum) = sum else { continue };
                let g = -2.0 * (f64::from(sum[column]) - 2.0 * 0.05 * q);
                (m, v) = (0.3 * m + 0.7 * g, 0.9 * v + 0.1 * g * g);
                let (m_hat, v_hat) = (m / (1.0 - 0.3f64.powi(t)), v / (1.0 - 0.9f64.powi(t)));
                q -= 0.1 * m_hat / (v_hat.sqrt() + 1e-8);
            }
            q
        });
        agree(&rounds(&mut Adam::new(settings)), expected);
    }

    #[test]
    fn sgd_steps_against_the_gradient() {
        let expected = [0, 1].map(|column| {
            SUMS.into_iter().flatten().fold(f64::from(shared().tables()[0].row(3)[column]), |q, sum| {
                q + 0.1 * 2.0 * (f64::from(sum[column]) - 2.0 * 0.05 * q)
            })
        });
        agree(&rounds(&mut Sgd { learning_rate: 0.1, regularisation: 0.05 }), expected);
    }
}
