//! Adaptive steps of the server along the mean of what devices propose: FedAdagrad, FedAdam, FedYogi (S. J. Reddi and
//! others: Adaptive federated optimization, ICLR 2021).
//!
//! With d the mean of a round's changes, by value:
//! ```text
//! m = b1 m + (1 - b1) d
//! v = v + d^2                                 FedAdagrad
//!     v - (1 - b2) d^2 sign(v - d^2)          FedYogi
//!     b2 v + (1 - b2) d^2                     FedAdam
//! w = w + rate m / (sqrt(v) + tau)
//! ```
//! m begins at 0, v at tau^2. As in the paper there is no correction for that. A row that nobody sent stays as it is,
//! and so do its m and v.

use super::Strategy;
use super::mean::mean_share;
use super::moments::Moments;
use crate::Aggregate;
use crate::state::{put_u64s, take_numbers, unfit};
use sottovoce_models::federated::{AdaptiveMeanSettings, SecondMoment};
use sottovoce_protocol::Parameters;
use std::io::{self, Read, Write};

/// FedAdagrad, FedAdam, FedYogi.
#[derive(Clone, Debug, PartialEq)]
pub struct AdaptiveMean {
    settings: AdaptiveMeanSettings,
    /// By table: m and v.
    memory: Moments,
}

impl AdaptiveMean {
    /// Before the first round.
    pub fn new(settings: AdaptiveMeanSettings) -> Self {
        Self { settings, memory: Moments::default() }
    }
}

impl Strategy for AdaptiveMean {
    fn apply(&mut self, shared: &mut Parameters, round: &Aggregate) {
        self.memory.grow(shared, [0.0, self.settings.tau * self.settings.tau]);
        let AdaptiveMeanSettings { second_moment, over, learning_rate: rate, beta1, beta2, tau } = self.settings;
        let accumulated = |v: f32, square: f32| match second_moment {
            SecondMoment::Adagrad => v + square,
            SecondMoment::Adam => beta2 * v + (1.0 - beta2) * square,
            SecondMoment::Yogi if v > square => v - (1.0 - beta2) * square,
            SecondMoment::Yogi if v < square => v + (1.0 - beta2) * square,
            SecondMoment::Yogi => v,
        };
        for ((table, sums), means) in shared.tables_mut().iter_mut().zip(round.tables()).zip(&mut self.memory.0) {
            let cols = table.shape().cols as usize;
            for (row, _, sum) in sums.rows() {
                let share = mean_share(over, round, sums, row);
                let means = &mut means[row * cols..][..cols];
                for ((value, sum), [m, v]) in table.row_mut(row).iter_mut().zip(sum).zip(means) {
                    let change = share * sum;
                    *m = beta1 * *m + (1.0 - beta1) * change;
                    *v = accumulated(*v, change * change);
                    *value += rate * *m / (v.sqrt() + tau);
                }
            }
        }
    }

    fn advice(&self) -> String {
        format!(
            "take a smaller learning_rate on the devices, or a server_learning_rate below {}",
            self.settings.learning_rate
        )
    }

    fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        put_u64s(out, &[self.memory.0.len() as u64])?;
        self.memory.save(out)
    }

    fn restore(&mut self, shared: &Parameters, from: &mut dyn Read) -> io::Result<()> {
        let [tables] = take_numbers(from)?;
        if tables != 0 && tables != shared.tables().len() as u64 {
            return Err(unfit(format!("means of {tables} tables, where there are {}", shared.tables().len())));
        }
        self.memory.restore(tables > 0, shared, from)
    }
}

#[cfg(test)]
mod tests {
    use super::super::example::{aggregate, shared};
    use super::*;
    use sottovoce_models::federated::MeanOver;

    fn settings(second_moment: SecondMoment) -> AdaptiveMeanSettings {
        let over = MeanOver::All;
        AdaptiveMeanSettings { second_moment, over, learning_rate: 0.1, beta1: 0.9, beta2: 0.99, tau: 0.001 }
    }

    /// Means of one row in four rounds of two devices; nobody sends it in the second.
    const MEANS: [Option<[f32; 2]>; 4] = [Some([0.5, -2.0]), None, Some([0.25, 1.0]), Some([-0.125, 0.0])];

    fn run(strategy: &mut AdaptiveMean, shared: &mut Parameters, means: &[Option<[f32; 2]>]) {
        for mean in means {
            let rows: Vec<_> = mean.map(|mean| (3, mean)).into_iter().collect();
            strategy.apply(shared, &aggregate(&rows, 2));
        }
    }

    #[test]
    fn steps_follow_the_paper() {
        for squares in [SecondMoment::Adagrad, SecondMoment::Adam, SecondMoment::Yogi] {
            let (mut strategy, mut found) = (AdaptiveMean::new(settings(squares)), shared());
            run(&mut strategy, &mut found, &MEANS);
            for column in [0, 1] {
                let (mut w, mut m, mut v) = (f64::from(shared().tables()[0].row(3)[column]), 0.0, 1e-6);
                for mean in MEANS.into_iter().flatten() {
                    let d = f64::from(mean[column]);
                    m = 0.9 * m + 0.1 * d;
                    v = match squares {
                        SecondMoment::Adagrad => v + d * d,
                        SecondMoment::Adam => 0.99 * v + 0.01 * d * d,
                        SecondMoment::Yogi => v - 0.01 * d * d * (v - d * d).signum(),
                    };
                    w += 0.1 * m / (v.sqrt() + 0.001);
                }
                let found = f64::from(found.tables()[0].row(3)[column]);
                assert!((found - w).abs() < 1e-5, "{squares:?} {found} {w}");
            }
            assert_eq!(found.tables()[0].row(0), shared().tables()[0].row(0));
        }
    }

    #[test]
    fn a_restored_strategy_continues_as_if_never_interrupted() {
        let (mut strategy, mut one) = (AdaptiveMean::new(settings(SecondMoment::Yogi)), shared());
        run(&mut strategy, &mut one, &MEANS[..2]);
        let (mut state, mut other, mut restored) =
            (Vec::new(), one.clone(), AdaptiveMean::new(settings(SecondMoment::Yogi)));
        strategy.save(&mut state).unwrap();
        restored.restore(&one, &mut &state[..]).unwrap();
        run(&mut strategy, &mut one, &MEANS[2..]);
        run(&mut restored, &mut other, &MEANS[2..]);
        assert_eq!((one, strategy), (other, restored));
        assert!(AdaptiveMean::new(settings(SecondMoment::Adam)).restore(&shared(), &mut &state[..9]).is_err());
    }
}
