//! Eigenvalues and eigenvectors of a symmetric matrix of up to a few hundred rows.
//!
//! G. H. Golub, C. F. Van Loan: Matrix Computations, 4th edition, sections 8.3.1 (tridiagonal form by Householder
//! reflections) and 8.3.3 (implicit symmetric QR steps with Wilkinson's shift, here from the bottom up). Nothing
//! depends on the processor or on the number of threads: only `+ - * /` and the square root are used, in one order.

use super::matrix::{Matrix, add_scaled, dot};

/// Steps for one eigenvalue, at most: two are usual.
const STEPS: usize = 60;

/// Eigenvalues, the largest first, and their eigenvectors as columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Eigen {
    /// Eigenvalues.
    pub values: Vec<f64>,
    /// One column an eigenvalue.
    pub vectors: Matrix,
}

impl Eigen {
    /// Of a symmetric matrix with finite values.
    ///
    /// # Panics
    /// If it is not square.
    pub fn symmetric(matrix: Matrix) -> Self {
        assert_eq!(matrix.rows(), matrix.cols(), "a square matrix");
        let n = matrix.rows();
        let Tridiagonal { mut diagonal, mut beside, mut basis } = Tridiagonal::of(matrix);
        for low in 0..n {
            for _ in 0..STEPS {
                let high = (low..n - 1).find(|&i| is_small(beside[i], diagonal[i], diagonal[i + 1])).unwrap_or(n - 1);
                if high == low {
                    break;
                }
                step(low, high, &mut diagonal, &mut beside, &mut basis);
            }
        }
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|&a, &b| diagonal[b].total_cmp(&diagonal[a]));
        let mut vectors = Matrix::zeros(n, n);
        for (col, &index) in order.iter().enumerate() {
            for (row, value) in basis.row(index).iter().enumerate() {
                vectors.row_mut(row)[col] = *value;
            }
        }
        Self { values: order.iter().map(|&index| diagonal[index]).collect(), vectors }
    }
}

fn is_small(value: f64, one: f64, other: f64) -> bool {
    value.abs() <= f64::EPSILON * (one.abs() + other.abs())
}

/// A = Q T Q' with T tridiagonal.
struct Tridiagonal {
    diagonal: Vec<f64>,
    /// Beside the diagonal, and a last 0.
    beside: Vec<f64>,
    /// Q', so that rotations of its columns are of rows.
    basis: Matrix,
}

impl Tridiagonal {
    fn of(mut a: Matrix) -> Self {
        let n = a.rows();
        let (mut beside, mut reflections) = (vec![0.0; n], Vec::new());
        for k in 0..n.saturating_sub(1) {
            let mut v: Vec<f64> = (k + 1..n).map(|i| a.at(i, k)).collect();
            let norm = dot(&v, &v).sqrt();
            let rest = dot(&v[1..], &v[1..]);
            if rest == 0.0 {
                beside[k] = v[0];
                continue;
            }
            beside[k] = if v[0] > 0.0 { -norm } else { norm };
            v[0] -= beside[k];
            let scale = 2.0 / dot(&v, &v);
            let mut w: Vec<f64> = (k + 1..n).map(|i| scale * dot(&a.row(i)[k + 1..], &v)).collect();
            let along = -0.5 * scale * dot(&w, &v);
            add_scaled(&mut w, along, &v);
            for (i, (vi, wi)) in v.iter().zip(&w).enumerate() {
                let row = &mut a.row_mut(k + 1 + i)[k + 1..];
                for ((value, v), w) in row.iter_mut().zip(&v).zip(&w) {
                    *value -= vi * w + wi * v;
                }
            }
            reflections.push((k + 1, scale, v));
        }
        let diagonal = (0..n).map(|i| a.at(i, i)).collect();
        Self { diagonal, beside, basis: product(n, &reflections) }
    }
}

/// The transposed product of reflections I - scale v v', each from a row on.
fn product(n: usize, reflections: &[(usize, f64, Vec<f64>)]) -> Matrix {
    let mut basis = Matrix::zeros(n, n);
    (0..n).for_each(|i| basis.row_mut(i)[i] = 1.0);
    for (from, scale, v) in reflections.iter().rev() {
        for row in *from..n {
            let row = &mut basis.row_mut(row)[*from..];
            let along = -scale * dot(row, v);
            add_scaled(row, along, v);
        }
    }
    basis
}

/// One implicit step with a shift between two rows, from the bottom up; rotates the rows of the basis along.
fn step(low: usize, high: usize, diagonal: &mut [f64], beside: &mut [f64], basis: &mut Matrix) {
    let half = (diagonal[low + 1] - diagonal[low]) / (2.0 * beside[low]);
    let root = (half * half + 1.0).sqrt();
    let away = if half < 0.0 { half - root } else { half + root };
    let mut g = diagonal[high] - diagonal[low] + beside[low] / away;
    let (mut sine, mut cosine, mut moved) = (1.0, 1.0, 0.0);
    for i in (low..high).rev() {
        let (f, b) = (sine * beside[i], cosine * beside[i]);
        let r = (f * f + g * g).sqrt();
        beside[i + 1] = r;
        if r == 0.0 {
            // The matrix falls apart here: the next step sees that.
            diagonal[i + 1] -= moved;
            beside[high] = 0.0;
            return;
        }
        (sine, cosine) = (f / r, g / r);
        g = diagonal[i + 1] - moved;
        let turn = (diagonal[i] - g) * sine + 2.0 * cosine * b;
        moved = sine * turn;
        diagonal[i + 1] = g + moved;
        g = cosine * turn - b;
        rotate(basis, i, sine, cosine);
    }
    diagonal[low] -= moved;
    beside[low] = g;
    beside[high] = 0.0;
}

/// Rotates row i and the next.
fn rotate(basis: &mut Matrix, i: usize, sine: f64, cosine: f64) {
    let n = basis.cols();
    let (upper, lower) = basis.two_rows_mut(i);
    for col in 0..n {
        let (a, b) = (upper[col], lower[col]);
        lower[col] = sine * a + cosine * b;
        upper[col] = cosine * a - sine * b;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sottovoce_core::Rng;

    #[test]
    fn vectors_are_orthonormal_and_give_the_matrix_back() {
        for n in [1, 2, 3, 10, 47] {
            let mut rng = Rng::new(n as u64);
            let mut a = Matrix::zeros(n, n);
            (0..n).for_each(|i| a.row_mut(i).fill_with(|| rng.normal()));
            let a = a.symmetric();
            let Eigen { values, vectors } = Eigen::symmetric(a.clone());
            assert!(values.is_sorted_by(|a, b| a >= b));
            let identity = vectors.inner(&vectors);
            let mut scaled = vectors.clone();
            scaled.scale_columns(&values);
            for i in 0..n {
                for j in 0..n {
                    assert!((identity.at(i, j) - f64::from(u8::from(i == j))).abs() < 1e-12);
                    let found = dot(scaled.row(i), vectors.row(j));
                    assert!((found - a.at(i, j)).abs() < 1e-11 * n as f64, "{n}: {found} {}", a.at(i, j));
                }
            }
        }
    }

    #[test]
    fn matrices_with_equal_or_no_eigenvalues_are_taken() {
        let zero = Eigen::symmetric(Matrix::zeros(4, 4));
        assert_eq!(zero.values, [0.0; 4]);
        // All ones: n once, and 0 otherwise.
        let ones = Eigen::symmetric(Matrix::new(5, vec![1.0; 25]));
        assert!((ones.values[0] - 5.0).abs() < 1e-12 && ones.values[1..].iter().all(|v| v.abs() < 1e-12));
        assert!((0..5).all(|i| (ones.vectors.at(i, 0).abs() - 0.2f64.sqrt()).abs() < 1e-12));
    }
}
