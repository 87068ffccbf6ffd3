//! Half of a symmetric matrix in a table without gaps but one.
//!
//! Row i has the values at (i, i), (i, i + 1), ..., (i, i + n / 2), columns modulo n: each pair once, but for n / 2
//! unused cells where n is even. So a sum over people of x x' takes half the bytes, in rows of one length.

use super::Matrix;
use rayon::prelude::*;

/// Columns of the table of a matrix of n rows.
pub fn packed_cols(n: usize) -> usize {
    n / 2 + 1
}

/// Row and column of the table for the value at (i, j).
///
/// # Panics
/// If there is no such value.
pub fn packed_cell(i: usize, j: usize, n: usize) -> (usize, usize) {
    assert!(i < n && j < n, "({i}, {j}) of {n}");
    let (forward, back) = ((j + n - i) % n, (i + n - j) % n);
    if forward < back || forward == back && i <= j { (i, forward) } else { (j, back) }
}

/// The whole matrix, of values as the table has them.
pub fn unpacked(n: usize, table: &[f32]) -> Matrix {
    let mut matrix = Matrix::zeros(n, n);
    matrix.par_rows_mut().for_each(|(i, row)| {
        for (j, value) in row.iter_mut().enumerate() {
            let (row, col) = packed_cell(i, j, n);
            *value = f64::from(table[row * packed_cols(n) + col]);
        }
    });
    matrix
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pair_has_one_cell() {
        for n in 1..12 {
            let mut used = vec![0; n * packed_cols(n)];
            for i in 0..n {
                for j in 0..=i {
                    let (row, col) = packed_cell(i, j, n);
                    assert_eq!(packed_cell(j, i, n), (row, col));
                    used[row * packed_cols(n) + col] += 1;
                }
            }
            assert!(used.iter().all(|&times| times <= 1));
            assert_eq!(used.iter().sum::<i32>() as usize, n * (n + 1) / 2);
        }
    }
}
