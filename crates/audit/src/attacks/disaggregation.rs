//! Disaggregation (Lam, Wei, Brooks, Reddi, Mitzenmacher: Gradient Disaggregation. ICML 2021): every round is one
//! linear equation in the updates of its users, and enough of them can be solved.
//!
//! A user's update is modelled as the mean of all users plus a deviation of their own, equal in every round up to
//! noise. With A who was in which round, c how many were in it and Y the sums less c times the mean, the least-squares
//! estimate of the deviations is
//! ```text
//! X = A' (A A' + v diag(c))^-1 Y
//! ```
//! where v is the variance of the noise over that of the deviations.

use crate::sums::{Round, Sums};
use sottovoce_core::math;

/// v above: triples drawn anew in each round make the noise about as large as the deviations.
const NOISE_RATIO: f64 = 2.0;

/// Most rounds to solve, the latest ones. The work grows with the third power.
const MOST_ROUNDS: usize = 1500;

/// The factorised equations.
pub(crate) struct Disaggregation<'a> {
    rounds: Vec<&'a Round>,
    /// The mean update.
    mean: Vec<f32>,
    solver: Cholesky,
}

impl<'a> Disaggregation<'a> {
    pub(crate) fn of(sums: &'a Sums) -> Self {
        let mut rounds: Vec<&Round> = sums.rounds().rev().take(MOST_ROUNDS).collect();
        rounds.reverse();
        let updates: usize = rounds.iter().map(|round| round.users.len()).sum();
        let mut mean = vec![0.0; sums.values()];
        for round in &rounds {
            math::add_scaled(&mut mean, 1.0 / updates as f32, &round.values);
        }
        let solver = Cholesky::of(overlaps(&rounds), rounds.len());
        Self { rounds, mean, solver }
    }

    /// The estimate of a user's update.
    pub(crate) fn estimate(&self, user: u32) -> Vec<f32> {
        let is_in = |round: &&Round| f64::from(u8::from(round.has(user)));
        let weights = self.solver.solve(self.rounds.iter().map(is_in).collect());
        let mut estimate = self.mean.clone();
        for (round, weight) in self.rounds.iter().zip(weights) {
            math::add_scaled(&mut estimate, weight as f32, &round.values);
            math::add_scaled(&mut estimate, -(weight * round.users.len() as f64) as f32, &self.mean);
        }
        estimate
    }
}

/// A A' + v diag(c): the number of users that two rounds share.
fn overlaps(rounds: &[&Round]) -> Vec<f64> {
    let mut matrix = vec![0.0; rounds.len() * rounds.len()];
    let users = rounds.iter().flat_map(|round| round.users.last()).max().map_or(0, |&last| last as usize + 1);
    let mut here = vec![false; users];
    for (one, round) in rounds.iter().enumerate() {
        round.users.iter().for_each(|&user| here[user as usize] = true);
        for (other, with) in rounds[..=one].iter().enumerate() {
            let both = with.users.iter().filter(|&&user| here[user as usize]).count();
            matrix[one * rounds.len() + other] = both as f64;
        }
        matrix[one * rounds.len() + one] += NOISE_RATIO * round.users.len() as f64;
        round.users.iter().for_each(|&user| here[user as usize] = false);
    }
    matrix
}

/// The Cholesky factor L of a symmetric matrix L L', by rows.
struct Cholesky {
    lower: Vec<f64>,
    size: usize,
}

impl Cholesky {
    /// Of a positive definite matrix, of which the lower half is read.
    fn of(mut lower: Vec<f64>, size: usize) -> Self {
        for row in 0..size {
            let (before, this) = lower.split_at_mut(row * size);
            let this = &mut this[..size];
            for col in 0..row {
                let other = &before[col * size..][..=col];
                this[col] = (this[col] - dot(&this[..col], &other[..col])) / other[col];
            }
            this[row] = (this[row] - dot(&this[..row], &this[..row])).max(f64::MIN_POSITIVE).sqrt();
        }
        Self { lower, size }
    }

    fn solve(&self, mut by: Vec<f64>) -> Vec<f64> {
        let row = |row: usize| &self.lower[row * self.size..][..=row];
        for index in 0..self.size {
            by[index] = (by[index] - dot(&by[..index], &row(index)[..index])) / row(index)[index];
        }
        for index in (0..self.size).rev() {
            by[index] /= row(index)[index];
            let value = by[index];
            by[..index].iter_mut().zip(row(index)).for_each(|(by, l)| *by -= value * l);
        }
        by
    }
}

/// In eight partial sums, which compilers turn into SIMD instructions.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let (a, a_rest) = a.as_chunks::<8>();
    let (b, b_rest) = b.as_chunks::<8>();
    let mut sums = [0.0; 8];
    for (a, b) in a.iter().zip(b) {
        for index in 0..8 {
            sums[index] += a[index] * b[index];
        }
    }
    sums.iter().sum::<f64>() + a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sottovoce_core::Rng;

    #[test]
    fn solves_linear_equations() {
        let (size, mut rng) = (23, Rng::new(4));
        let half: Vec<f64> = (0..size * size).map(|_| rng.normal()).collect();
        let at = |row: usize, col: usize| {
            let sum: f64 = (0..size).map(|k| half[row * size + k] * half[col * size + k]).sum();
            sum + if row == col { 1.0 } else { 0.0 }
        };
        let matrix: Vec<f64> = (0..size * size).map(|index| at(index / size, index % size)).collect();
        let by: Vec<f64> = (0..size).map(|_| rng.normal()).collect();
        let found = Cholesky::of(matrix.clone(), size).solve(by.clone());
        for row in 0..size {
            let sum: f64 = (0..size).map(|col| matrix[row * size + col] * found[col]).sum();
            assert!((sum - by[row]).abs() < 1e-9, "{row}: {sum} {}", by[row]);
        }
    }
}
