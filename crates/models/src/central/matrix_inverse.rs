//! The inverse of a symmetric positive definite matrix, bit for bit the same on every machine and number of threads.
//!
//! Block sweeps: for each block K of columns, with D = A_KK as it then is,
//! ```text
//! A_ij -= A_iK D^-1 A_Kj        A_iK = A_iK D^-1        A_KK = -D^-1        for i, j outside of K
//! ```
//! After all blocks A is minus its inverse. Only the lower triangle is computed, by n^3 / 2 multiplications that
//! threads divide by rows.

use rayon::prelude::*;

/// Columns swept together.
const BLOCK: usize = 32;

/// A symmetric matrix, row by row; only the lower triangle is used.
pub(crate) struct SymmetricMatrix {
    n: usize,
    values: Vec<f64>,
}

/// The matrix is not positive definite, up to rounding.
#[derive(Debug)]
pub(crate) struct NotPositiveDefinite;

impl SymmetricMatrix {
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

    /// The inverse.
    pub(crate) fn invert(mut self) -> Result<Self, NotPositiveDefinite> {
        for start in (0..self.n).step_by(BLOCK) {
            self.sweep(start, BLOCK.min(self.n - start))?;
        }
        self.values.par_iter_mut().for_each(|value| *value = -*value);
        Ok(self)
    }

    fn sweep(&mut self, start: usize, width: usize) -> Result<(), NotPositiveDefinite> {
        let n = self.n;
        // A_:K by columns, so that updates of rows read consecutive memory.
        let columns: Vec<f64> =
            (0..width * n).into_par_iter().map(|index| self.at(index % n, start + index / n)).collect();
        let inverse = small_inverse(width, |i, j| columns[j * n + start + i])?;
        let panel = Panel { n, start, width, columns, inverse };
        self.values.par_chunks_mut(n * ROWS).enumerate().for_each(|(group, rows)| panel.update(group * ROWS, rows));
        Ok(())
    }
}

/// Rows updated together by one task.
const ROWS: usize = 16;
/// Columns updated together: the panel's part of them (32 KiB) stays in the L1 cache for all rows of a task.
const TILE: usize = 128;

/// What a sweep needs of the matrix before it.
struct Panel {
    n: usize,
    start: usize,
    width: usize,
    /// A_:K, one column after the other.
    columns: Vec<f64>,
    /// D^-1.
    inverse: [[f64; BLOCK]; BLOCK],
}

impl Panel {
    /// Sweeps some whole rows, from row `first` on.
    fn update(&self, first: usize, rows: &mut [f64]) {
        let last = first + rows.len() / self.n - 1;
        let weights: Vec<_> = (first..=last).map(|i| self.weights(i)).collect();
        for tile in (0..=last).step_by(TILE) {
            for ((i, row), weights) in (first..).zip(rows.chunks_exact_mut(self.n)).zip(&weights) {
                if !self.contains(i) && tile <= i {
                    let end = (tile + TILE).min(i + 1);
                    self.subtract_product(tile, &mut row[tile..end], &weights[..self.width]);
                }
            }
        }
        for ((i, row), weights) in (first..).zip(rows.chunks_exact_mut(self.n)).zip(&weights) {
            self.replace(i, row, weights);
        }
    }

    fn contains(&self, i: usize) -> bool {
        (self.start..self.start + self.width).contains(&i)
    }

    /// A_iK D^-1.
    fn weights(&self, i: usize) -> [f64; BLOCK] {
        let mut weights = [0.0; BLOCK];
        for (m, row) in self.inverse.iter().enumerate().take(self.width) {
            let value = self.columns[m * self.n + i];
            for k in 0..BLOCK {
                weights[k] += value * row[k];
            }
        }
        weights
    }

    /// Writes the columns of K in row i, and all of the row if it is one of K.
    fn replace(&self, i: usize, row: &mut [f64], weights: &[f64; BLOCK]) {
        if self.contains(i) {
            // (D^-1 A_K:) of this row; D^-1 is symmetric.
            row[..self.start].fill(0.0);
            let weights = self.inverse[i - self.start].map(|value| -value);
            self.subtract_product(0, &mut row[..self.start], &weights[..self.width]);
            for j in self.start..=i {
                row[j] = -self.inverse[i - self.start][j - self.start];
            }
        } else if i > self.start {
            row[self.start..self.start + self.width].copy_from_slice(&weights[..self.width]);
        }
    }

    /// `part -= sum_k weights_k column_k`, from column `from` on, four k at a time.
    fn subtract_product(&self, from: usize, part: &mut [f64], weights: &[f64]) {
        let length = part.len();
        let column = |k: usize| &self.columns[k * self.n + from..][..length];
        let (fours, rest) = weights.as_chunks::<4>();
        for (four, w) in fours.iter().enumerate() {
            let [a, b, c, d] = [0, 1, 2, 3].map(|k| column(4 * four + k));
            for ((((value, a), b), c), d) in part.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                *value -= (w[0] * a + w[1] * b) + (w[2] * c + w[3] * d);
            }
        }
        for (k, weight) in rest.iter().enumerate() {
            for (value, x) in part.iter_mut().zip(column(4 * fours.len() + k)) {
                *value -= weight * x;
            }
        }
    }
}

/// The inverse of a matrix of at most [`BLOCK`] rows, by sweeps of one column.
fn small_inverse(n: usize, at: impl Fn(usize, usize) -> f64) -> Result<[[f64; BLOCK]; BLOCK], NotPositiveDefinite> {
    let mut a = [[0.0; BLOCK]; BLOCK];
    for i in 0..n {
        for j in 0..n {
            a[i][j] = at(i, j);
        }
    }
    for k in 0..n {
        let pivot = a[k][k];
        if !(pivot.is_finite() && pivot > 0.0) {
            return Err(NotPositiveDefinite);
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

    /// X'X + I / 2 of random numbers: positive definite.
    fn random_matrix(n: usize) -> Vec<Vec<f64>> {
        let mut rng = Rng::new(n as u64);
        let x: Vec<Vec<f64>> = (0..n + 3).map(|_| (0..n).map(|_| rng.normal()).collect()).collect();
        let product = |i: usize, j: usize| x.iter().map(|row| row[i] * row[j]).sum::<f64>();
        (0..n).map(|i| (0..n).map(|j| product(i, j) + if i == j { 0.5 } else { 0.0 }).collect()).collect()
    }

    #[test]
    fn product_with_inverse_is_identity() {
        for n in [1, 2, 7, 31, 32, 33, 64, 75, 101] {
            let a = random_matrix(n);
            let inverse =
                SymmetricMatrix::from_rows(n, |i, row| row[..=i].copy_from_slice(&a[i][..=i])).invert().unwrap();
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
    fn rejects_matrix_that_is_not_positive_definite() {
        let rows = [vec![1.0], vec![2.0, 1.0]];
        let matrix = SymmetricMatrix::from_rows(2, |i, row| row[..=i].copy_from_slice(&rows[i]));
        assert!(matrix.invert().is_err());
    }
}
