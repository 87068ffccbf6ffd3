//! Steps whose length a table's values find by themselves.

use super::Strategy;
use crate::Aggregate;
use crate::state::{put_f32s, put_f64s, put_u64s, take_f32s, take_f64s, take_numbers, unfit};
use sottovoce_models::federated::AdaptiveSum;
use sottovoce_protocol::{Parameters, Table};
use std::io::{self, Read, Write};

/// Stable at any cohort size and population: AdaGrad (J. Duchi, E. Hazan, Y. Singer, JMLR 2011) on the sums of rounds,
/// ```text
/// value += step * sum / sqrt(own + mean)
/// ```
/// where `own` adds up the squares of the value's sums so far, this round's included, and `mean` is the mean of `own`
/// over its column.
///
/// Twice as many devices make twice the sum and twice the root, so that a step does not grow with the population. The
/// mean keeps rows that few devices send from running as fast as those that many agree on.
#[derive(Clone, Debug, PartialEq)]
pub struct AdaptiveSumStrategy {
    settings: AdaptiveSum,
    tables: Vec<Squares>,
}

/// Squares of one table's sums.
#[derive(Clone, Debug, PartialEq)]
struct Squares {
    /// As long as the table.
    own: Vec<f32>,
    /// One a column; in double precision, because small squares are added to large sums of very many.
    columns: Vec<f64>,
    means: Vec<f32>,
}

impl AdaptiveSumStrategy {
    /// Before the first round. No single step is longer than the settings say.
    pub fn new(settings: AdaptiveSum) -> Self {
        Self { settings, tables: Vec::new() }
    }
}

impl Squares {
    fn of(table: &Table) -> Self {
        let columns = table.shape().cols as usize;
        Self { own: vec![0.0; table.shape().values()], columns: vec![0.0; columns], means: vec![0.0; columns] }
    }

    fn add(&mut self, row: usize, sum: &[f32]) {
        let own = &mut self.own[row * sum.len()..][..sum.len()];
        for ((own, column), sum) in own.iter_mut().zip(&mut self.columns).zip(sum) {
            *own += sum * sum;
            *column += f64::from(sum * sum);
        }
    }

    /// `last` is how many times as long steps in the last column may be.
    fn step(&self, (max_step, last): (f32, f32), row: usize, sum: &[f32], values: &mut [f32]) {
        let own = &self.own[row * sum.len()..][..sum.len()];
        // Squares of sums under 1e-19 are lost: those values stay where they are.
        let along = |step: f32, sum: f32, own: f32, mean: f32| step * sum / (own + mean).max(f32::MIN_POSITIVE).sqrt();
        for (((value, &sum), &own), &mean) in values.iter_mut().zip(sum).zip(own).zip(&self.means) {
            *value += along(max_step, sum, own, mean);
        }
        if let [.., value] = values
            && let ([.., sum], [.., own], [.., mean]) = (sum, own, &self.means[..])
            && last != 1.0
        {
            *value += along((last - 1.0) * max_step, *sum, *own, *mean);
        }
    }
}

impl Strategy for AdaptiveSumStrategy {
    fn apply(&mut self, shared: &mut Parameters, round: &Aggregate) {
        if self.tables.is_empty() {
            self.tables = shared.tables().iter().map(Squares::of).collect();
        }
        for ((table, sums), squares) in shared.tables_mut().iter_mut().zip(round.tables()).zip(&mut self.tables) {
            sums.rows().for_each(|(row, _, sum)| squares.add(row, sum));
            for (mean, column) in squares.means.iter_mut().zip(&squares.columns) {
                *mean = (column / f64::from(table.shape().rows)) as f32;
            }
            let steps = (self.settings.max_step, self.settings.last_column.times(table.shape().rows as usize));
            sums.rows().for_each(|(row, _, sum)| squares.step(steps, row, sum, table.row_mut(row)));
        }
    }

    fn advice(&self) -> String {
        format!("take an adaptive_step below {} or a smaller learning_rate", self.settings.max_step)
    }

    /// Means are taken anew in each round and not written.
    fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        put_u64s(out, &[self.tables.len() as u64])?;
        self.tables.iter().try_for_each(|squares| {
            put_f32s(out, &squares.own)?;
            put_f64s(out, &squares.columns)
        })
    }

    fn restore(&mut self, shared: &Parameters, from: &mut dyn Read) -> io::Result<()> {
        let [tables] = take_numbers(from)?;
        if tables != 0 && tables != shared.tables().len() as u64 {
            return Err(unfit(format!("squares of {tables} tables, where there are {}", shared.tables().len())));
        }
        self.tables = shared.tables().iter().take(tables as usize).map(Squares::of).collect();
        self.tables.iter_mut().try_for_each(|squares| {
            take_f32s(from, &mut squares.own)?;
            take_f64s(from, &mut squares.columns)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::example::{aggregate, shared};
    use super::*;
    use sottovoce_models::federated::LastColumn;

    fn new_strategy() -> AdaptiveSumStrategy {
        AdaptiveSumStrategy::new(AdaptiveSum { max_step: 0.2, last_column: LastColumn::Times(3.0) })
    }

    /// Three rounds in which everything is sent by so many devices; values whose sums are exact.
    fn after(devices: usize) -> Parameters {
        let (mut strategy, mut shared) = (new_strategy(), shared());
        for rows in [&[(0, [0.5, -0.25]), (2, [3.0, 1.5])][..], &[(2, [-0.375, 2.0])], &[(0, [1.0, 0.0])]] {
            strategy.apply(&mut shared, &aggregate(rows, devices));
        }
        shared
    }

    #[test]
    fn steps_do_not_depend_on_the_number_of_equal_updates() {
        assert_eq!(after(1), after(64));
        assert_ne!(after(1), shared());
    }

    #[test]
    fn a_restored_strategy_continues_as_if_never_interrupted() {
        let (mut strategy, mut shared) = (new_strategy(), shared());
        let round = |strategy: &mut AdaptiveSumStrategy, shared: &mut Parameters, first| {
            strategy.apply(shared, &aggregate(&[(0, [first, -0.25]), (3, [3.0, 1.5])], 2));
        };
        round(&mut strategy, &mut shared, 0.5);
        let mut state = Vec::new();
        strategy.save(&mut state).unwrap();
        let (mut other, mut other_shared) = (new_strategy(), shared.clone());
        other.restore(&shared, &mut &state[..]).unwrap();
        round(&mut strategy, &mut shared, -2.0);
        round(&mut other, &mut other_shared, -2.0);
        assert_eq!((shared, strategy), (other_shared, other));
        assert!(new_strategy().restore(&after(1), &mut &state[..20]).is_err());
    }

    #[test]
    fn steps_follow_the_equations() {
        let found = after(3);
        // Row 0, column 0: sums 1.5, then 3; row 2: 9, -1.125. Four rows.
        let [first, last] = [(1.5f64, 1.5f64 * 1.5, 2.25 + 81.0), (3.0, 2.25 + 9.0, 2.25 + 81.0 + 1.265_625 + 9.0)]
            .map(|(sum, own, column)| 0.2 * sum / (own + column / 4.0).sqrt());
        // Column 1, the last one, three times as fast: row 2 has 4.5, then 6.
        let own = [4.5f64 * 4.5, 4.5 * 4.5 + 36.0];
        let column = [own[0] + 0.75 * 0.75, own[1] + 0.75 * 0.75];
        let steps = (0..2).map(|n| 0.6 * [4.5, 6.0][n] / (own[n] + column[n] / 4.0).sqrt());
        let expected = f64::from(shared().tables()[0].row(2)[1]) + steps.sum::<f64>();
        assert!((f64::from(found.tables()[0].row(2)[1]) - expected).abs() < 1e-6, "{found:?} {expected}");
        let expected = f64::from(shared().tables()[0].row(0)[0]) + first + last;
        assert!((f64::from(found.tables()[0].row(0)[0]) - expected).abs() < 1e-6, "{found:?} {expected}");
        assert_eq!(found.tables()[0].row(1), shared().tables()[0].row(1));
    }
}
