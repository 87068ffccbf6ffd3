//! The inverse of a symmetric positive definite matrix, with the same bits on every machine and number of threads.
//!
//! Block sweeps: for each block K of columns, with D = A_KK as it then is,
//! ```text
//! A_ij -= A_iK D^-1 A_Kj        A_iK = A_iK D^-1        A_KK = -D^-1        for i, j outside of K
//! ```
//! After all blocks A is minus its inverse. Only the lower triangle is kept up to date, so the work is n^3 / 2
//! multiplications, shared out by rows.

use rayon::prelude::*;

/// Columns swept together: their panel stays in a near cache for catalogs of a few thousand items.
const BLOCK: usize = 32;

/// A square matrix of which the lower triangle counts, row after row.
pub(crate) struct Symmetric {
    n: usize,
    values: Vec<f64>,
}

/// The matrix was not positive definite, as far as rounding lets see.
#[derive(Debug)]
pub(crate) struct NotPositive;

impl Symmetric {
    /// Row by row: `fill(i, row)` writes the first i + 1 values of row i.
    pub(crate) fn from_rows(n: usize, fill: impl Fn(usize, &mut [f64]) + Sync) -> Self {
        let mut values = vec![0.0; n * n];
        values.par_chunks_exact_mut(n.max(1)).enumerate().for_each(|(i, row)| fill(i, row));
        Self { n, values }
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.n
    }

    /// The value at row i and column j, in any order.
    pub(crate) fn at(&self, i: usize, j: usize) -> f64 {
        self.values[i.max(j) * self.n + i.min(j)]
    }

    /// Turns the matrix into its inverse.
    pub(crate) fn invert(mut self) -> Result<Self, NotPositive> {
        for start in (0..self.n).step_by(BLOCK) {
            self.sweep(start, BLOCK.min(self.n - start))?;
        }
        self.values.par_iter_mut().for_each(|value| *value = -*value);
        Ok(self)
    }

    fn sweep(&mut self, start: usize, width: usize) -> Result<(), NotPositive> {
        let n = self.n;
        // The panel A_:K by columns, so that rows of the update run along memory.
        let panel: Vec<f64> =
            (0..width * n).into_par_iter().map(|place| self.at(place % n, start + place / n)).collect();
        let inverse = small_inverse(width, |i, j| panel[j * n + start + i])?;
        let within = start..start + width;
        self.values.par_chunks_exact_mut(n).enumerate().for_each(|(i, row)| {
            let mut weights = [0.0; BLOCK];
            for (k, weight) in weights[..width].iter_mut().enumerate() {
                *weight = (0..width).map(|m| panel[m * n + i] * inverse[m][k]).sum();
            }
            if within.contains(&i) {
                // Row of the block itself: D^-1 times what the columns before it held.
                for j in 0..start {
                    row[j] = (0..width).map(|m| inverse[i - start][m] * panel[m * n + j]).sum();
                }
                for j in start..=i {
                    row[j] = -inverse[i - start][j - start];
                }
                return;
            }
            subtract_product(&mut row[..=i], &weights[..width], &panel, n);
            if i >= within.end {
                row[within.clone()].copy_from_slice(&weights[..width]);
            }
        });
        Ok(())
    }
}

/// `row -= sum_k weights_k panel_k`, four columns of the panel at a time.
fn subtract_product(row: &mut [f64], weights: &[f64], panel: &[f64], n: usize) {
    let length = row.len();
    let column = |k: usize| &panel[k * n..][..length];
    let (fours, rest) = weights.as_chunks::<4>();
    for (four, w) in fours.iter().enumerate() {
        let [a, b, c, d] = [0, 1, 2, 3].map(|k| column(4 * four + k));
        for ((((value, a), b), c), d) in row.iter_mut().zip(a).zip(b).zip(c).zip(d) {
            *value -= (w[0] * a + w[1] * b) + (w[2] * c + w[3] * d);
        }
    }
    for (k, weight) in rest.iter().enumerate() {
        for (value, x) in row.iter_mut().zip(column(4 * fours.len() + k)) {
            *value -= weight * x;
        }
    }
}

/// The inverse of a matrix of at most [`BLOCK`] rows, column after column of sweeps.
fn small_inverse(n: usize, at: impl Fn(usize, usize) -> f64) -> Result<[[f64; BLOCK]; BLOCK], NotPositive> {
    let mut a = [[0.0; BLOCK]; BLOCK];
    for i in 0..n {
        for j in 0..n {
            a[i][j] = at(i, j);
        }
    }
    for k in 0..n {
        let pivot = a[k][k];
        if !(pivot.is_finite() && pivot > 0.0) {
            return Err(NotPositive);
        }
        let pivot_row = a[k];
        for (_, row) in a.iter_mut().enumerate().take(n).filter(|(i, _)| *i != k) {
            let scale = row[k] / pivot;
            for j in 0..n {
                row[j] -= scale * pivot_row[j];
            }
            row[k] = scale;
        }
        a[k] = pivot_row.map(|value| value / pivot);
        a[k][k] = -1.0 / pivot;
    }
    a.iter_mut().flatten().for_each(|value| *value = -*value);
    Ok(a)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sottovoce_core::Rng;

    /// X'X + I / 2 of random numbers: positive definite and not symmetric in any other way.
    fn problem(n: usize) -> Vec<Vec<f64>> {
        let mut rng = Rng::new(n as u64);
        let x: Vec<Vec<f64>> = (0..n + 3).map(|_| (0..n).map(|_| rng.normal()).collect()).collect();
        let product = |i: usize, j: usize| x.iter().map(|row| row[i] * row[j]).sum::<f64>();
        (0..n).map(|i| (0..n).map(|j| product(i, j) + if i == j { 0.5 } else { 0.0 }).collect()).collect()
    }

    #[test]
    fn the_product_with_the_inverse_is_the_identity() {
        for n in [1, 2, 7, 31, 32, 33, 64, 75, 101] {
            let a = problem(n);
            let inverse =
                Symmetric::from_rows(n, |i, row| row[..=i].copy_from_slice(&a[i][..=i])).invert().unwrap();
            for i in 0..n {
                for j in 0..n {
                    let product: f64 = (0..n).map(|k| a[i][k] * inverse.at(k, j)).sum();
                    let expected = if i == j { 1.0 } else { 0.0 };
                    assert!((product - expected).abs() < 1e-7, "{n}: {i} {j} {product}");
                }
            }
        }
    }

    #[test]
    fn a_matrix_that_is_not_positive_definite_is_refused() {
        let rows = [vec![1.0], vec![2.0, 1.0]];
        let matrix = Symmetric::from_rows(2, |i, row| row[..=i].copy_from_slice(&rows[i]));
        assert!(matrix.invert().is_err());
    }
}
