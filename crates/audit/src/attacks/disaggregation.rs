//! Disaggregation (Lam, Wei, Brooks, Reddi, Mitzenmacher: Gradient Disaggregation. ICML 2021): every round is one equation in
//! what its people send, and enough of them can be solved.
//!
//! Each person is taken to send the mean of all plus something of their own, the same in every round but for chance. With A
//! who was in which round, c how many were in it and Y the sums less c times the mean, the estimate of what is a person's own
//! is by least squares
//! ```text
//! X = A' (A A' + v diag(c))^-1 Y
//! ```
//! where v is how much larger the variance of chance is than that of what people differ by.

use crate::sums::{Round, Sums};
use sottovoce_core::math;

/// v above. Triples drawn anew each round make chance about as large as the difference between people.
const CHANCE: f64 = 2.0;

/// Rounds taken apart at most: the last ones. The work grows with the third power.
const MOST_ROUNDS: usize = 1500;

/// Rounds ready to be taken apart.
pub(crate) struct Disaggregation<'a> {
    rounds: Vec<&'a Round>,
    /// What everybody sends in the mean.
    mean: Vec<f32>,
    solver: Cholesky,
}

impl<'a> Disaggregation<'a> {
    pub(crate) fn of(sums: &'a Sums) -> Self {
        let mut rounds: Vec<&Round> = sums.rounds().rev().take(MOST_ROUNDS).collect();
        rounds.reverse();
        let people: usize = rounds.iter().map(|round| round.present.len()).sum();
        let mut mean = vec![0.0; sums.values()];
        for round in &rounds {
            math::add_scaled(&mut mean, 1.0 / people as f32, &round.values);
        }
        let solver = Cholesky::of(overlaps(&rounds), rounds.len());
        Self { rounds, mean, solver }
    }

    /// What the person is taken to have sent.
    pub(crate) fn sent(&self, person: u32) -> Vec<f32> {
        let present = |round: &&Round| f64::from(u8::from(round.present.binary_search(&person).is_ok()));
        let weights = self.solver.solve(self.rounds.iter().map(present).collect());
        let mut sent = self.mean.clone();
        for (round, weight) in self.rounds.iter().zip(weights) {
            math::add_scaled(&mut sent, weight as f32, &round.values);
            math::add_scaled(&mut sent, -(weight * round.present.len() as f64) as f32, &self.mean);
        }
        sent
    }
}

/// A A' + v diag(c): how many people two rounds have in common.
fn overlaps(rounds: &[&Round]) -> Vec<f64> {
    let mut matrix = vec![0.0; rounds.len() * rounds.len()];
    let people =
        rounds.iter().flat_map(|round| round.present.last()).max().map_or(0, |&last| last as usize + 1);
    let mut here = vec![false; people];
    for (one, round) in rounds.iter().enumerate() {
        round.present.iter().for_each(|&person| here[person as usize] = true);
        for (other, with) in rounds[..=one].iter().enumerate() {
            let both = with.present.iter().filter(|&&person| here[person as usize]).count();
            matrix[one * rounds.len() + other] = both as f64;
        }
        matrix[one * rounds.len() + one] += CHANCE * round.present.len() as f64;
        round.present.iter().for_each(|&person| here[person as usize] = false);
    }
    matrix
}

/// L of a symmetric matrix L L', by rows.
struct Cholesky {
    lower: Vec<f64>,
    size: usize,
}

impl Cholesky {
    /// Of a matrix that is positive by its diagonal, of which the lower half is read.
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
        for place in 0..self.size {
            by[place] = (by[place] - dot(&by[..place], &row(place)[..place])) / row(place)[place];
        }
        for place in (0..self.size).rev() {
            by[place] /= row(place)[place];
            let value = by[place];
            by[..place].iter_mut().zip(row(place)).for_each(|(by, l)| *by -= value * l);
        }
        by
    }
}

/// In lanes, which compilers turn into vector instructions.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let (a, a_rest) = a.as_chunks::<8>();
    let (b, b_rest) = b.as_chunks::<8>();
    let mut lanes = [0.0; 8];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..8 {
            lanes[lane] += a[lane] * b[lane];
        }
    }
    lanes.iter().sum::<f64>() + a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sottovoce_core::Rng;

    #[test]
    fn equations_are_solved() {
        let (size, mut rng) = (23, Rng::new(4));
        let half: Vec<f64> = (0..size * size).map(|_| rng.normal()).collect();
        let at = |row: usize, col: usize| {
            let sum: f64 = (0..size).map(|k| half[row * size + k] * half[col * size + k]).sum();
            sum + if row == col { 1.0 } else { 0.0 }
        };
        let matrix: Vec<f64> = (0..size * size).map(|place| at(place / size, place % size)).collect();
        let by: Vec<f64> = (0..size).map(|_| rng.normal()).collect();
        let found = Cholesky::of(matrix.clone(), size).solve(by.clone());
        for row in 0..size {
            let sum: f64 = (0..size).map(|col| matrix[row * size + col] * found[col]).sum();
            assert!((sum - by[row]).abs() < 1e-9, "{row}: {sum} {}", by[row]);
        }
    }
}
