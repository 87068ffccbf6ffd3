//! Tall matrices and small ones, in double precision, with the same bits on any number of threads.

use rayon::prelude::*;

/// Rows that one task works through, at least; the number of tasks depends on the matrix alone.
const ROWS: usize = 256;
/// Parts of a sum over rows, at most.
const PARTS: usize = 64;

/// A matrix by rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    rows: usize,
    cols: usize,
    values: Vec<f64>,
}

impl Matrix {
    /// So many rows and columns of zeros.
    pub fn zeros(rows: usize, cols: usize) -> Self {
        Self { rows, cols, values: vec![0.0; rows * cols] }
    }

    /// From values by rows.
    ///
    /// # Panics
    /// If they are not whole rows.
    pub fn new(cols: usize, values: Vec<f64>) -> Self {
        assert!(cols > 0 && values.len().is_multiple_of(cols), "whole rows of {cols} columns");
        Self { rows: values.len() / cols, cols, values }
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// One row.
    pub fn row(&self, row: usize) -> &[f64] {
        &self.values[row * self.cols..][..self.cols]
    }

    /// One row, to be changed.
    pub fn row_mut(&mut self, row: usize) -> &mut [f64] {
        &mut self.values[row * self.cols..][..self.cols]
    }

    /// A row and the next.
    pub(super) fn two_rows_mut(&mut self, row: usize) -> (&mut [f64], &mut [f64]) {
        self.values[row * self.cols..][..2 * self.cols].split_at_mut(self.cols)
    }

    /// The value at a row and a column.
    pub fn at(&self, row: usize, col: usize) -> f64 {
        self.values[row * self.cols + col]
    }

    /// All rows, to be changed on all cores, with their numbers.
    pub fn par_rows_mut(&mut self) -> impl IndexedParallelIterator<Item = (usize, &mut [f64])> {
        self.values.par_chunks_exact_mut(self.cols.max(1)).enumerate()
    }

    /// A'B, for two matrices of as many rows.
    ///
    /// # Panics
    /// If they have not.
    #[must_use]
    pub fn inner(&self, other: &Self) -> Self {
        assert_eq!(self.rows(), other.rows(), "as many rows");
        let mut all = Self::zeros(self.cols, other.cols);
        if self.cols == 0 || other.cols == 0 {
            return all;
        }
        let part = self.rows().div_ceil(PARTS).max(ROWS);
        let parts = self.values.par_chunks(part * self.cols).zip(other.values.par_chunks(part * other.cols));
        let sums: Vec<Vec<f64>> = parts
            .map(|(left, right)| {
                let mut sum = vec![0.0; self.cols * other.cols];
                for (left, right) in left.chunks_exact(self.cols).zip(right.chunks_exact(other.cols)) {
                    for (a, sums) in left.iter().zip(sum.chunks_exact_mut(other.cols)) {
                        add_scaled(sums, *a, right);
                    }
                }
                sum
            })
            .collect();
        sums.iter().for_each(|sum| add_scaled(&mut all.values, 1.0, sum));
        all
    }

    /// A B, for a small B.
    ///
    /// # Panics
    /// If B does not have as many rows as A has columns.
    #[must_use]
    pub fn times(&self, small: &Self) -> Self {
        assert_eq!(self.cols, small.rows(), "inner dimensions");
        let mut product = Self::zeros(self.rows(), small.cols);
        product.par_rows_mut().with_min_len(16).for_each(|(row, into)| {
            for (a, right) in self.row(row).iter().zip(small.values.chunks_exact(small.cols.max(1))) {
                add_scaled(into, *a, right);
            }
        });
        product
    }

    /// Multiplies each column by a factor of its own.
    pub fn scale_columns(&mut self, factors: &[f64]) {
        for row in self.values.chunks_exact_mut(self.cols.max(1)) {
            row.iter_mut().zip(factors).for_each(|(value, factor)| *value *= factor);
        }
    }

    /// Multiplies each row by a factor of its own.
    pub fn scale_rows(&mut self, factors: &[f64]) {
        for (row, factor) in self.values.chunks_exact_mut(self.cols.max(1)).zip(factors) {
            row.iter_mut().for_each(|value| *value *= factor);
        }
    }

    /// The mean of a square matrix and its transpose.
    #[must_use]
    pub fn symmetric(mut self) -> Self {
        for i in 0..self.rows() {
            for j in 0..i {
                let mean = 0.5 * (self.at(i, j) + self.at(j, i));
                self.values[i * self.cols + j] = mean;
                self.values[j * self.cols + i] = mean;
            }
        }
        self
    }
}

/// `y += a x`.
pub(super) fn add_scaled(y: &mut [f64], a: f64, x: &[f64]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y += a * x;
    }
}

/// The inner product, in four partial sums.
pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let (a4, a_rest) = a.as_chunks::<4>();
    let (b4, b_rest) = b.as_chunks::<4>();
    let mut sums = [0.0; 4];
    for (a, b) in a4.iter().zip(b4) {
        for lane in 0..4 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    (sums[0] + sums[1]) + (sums[2] + sums[3]) + rest
}
