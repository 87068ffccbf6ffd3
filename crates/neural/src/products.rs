//! Products of matrices: the three that forward and backward of every layer consist of.
//!
//! With rows that follow each other in memory, `into += a b`, `into += a b'` and `into += a' b` (a prime for transposed) all
//! run along rows. The plain versions skip zeros of `a`: with one sample a step, inputs of a few interests among hundreds
//! and ReLU's zeros make half of the work or more disappear. Large products gain more from blocks in registers
//! and cache than from skipping, and go to `gemm` where [`Arithmetic::Machine`] allows it.

use crate::error::{Result, expect_len, rows_of};
use crate::kernels::{add_scaled, dots, kernel};
use crate::{Arithmetic, NeuralError, Real};

/// Below this many multiplications, or this many rows on the short side, plain loops are used instead of `gemm`. From a
/// sweep over dense products (docs/performance.md): from here on `gemm` takes half the time or less of loops that find no
/// zero to skip, so that it loses nothing where half of the values are zero.
const LARGE: usize = 1 << 13;
const MANY_ROWS: usize = 4;
/// The same for `a b'`: `gemm` must first transpose b, which pays off only for more rows of a.
const MANY_ROWS_BY_TRANSPOSED: usize = 8;

/// A matrix in row order: row `r` starts at `r * stride`.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a, R> {
    values: &'a [R],
    rows: usize,
    columns: usize,
    stride: usize,
}

/// A matrix to be written.
#[derive(Debug)]
pub struct MatrixMut<'a, R> {
    values: &'a mut [R],
    rows: usize,
    columns: usize,
    stride: usize,
}

/// The invariant of both: the last row ends within the values.
fn check(len: usize, rows: usize, columns: usize, stride: usize) -> Result<()> {
    if rows == 0 || columns == 0 {
        return Err(NeuralError::Empty("matrix"));
    }
    let last = (rows - 1).checked_mul(stride).and_then(|start| start.checked_add(columns));
    let end = last.ok_or(NeuralError::TooLarge("matrix"))?;
    if end > len || columns > stride {
        return Err(NeuralError::Length("matrix", end.max(columns), len.min(stride)));
    }
    Ok(())
}

impl<'a, R: Real> Matrix<'a, R> {
    /// All of these values, in rows of this width.
    ///
    /// # Errors
    /// If they are not a whole number of rows.
    pub fn new(values: &'a [R], columns: usize) -> Result<Self> {
        let rows = rows_of("matrix", values.len(), columns)?;
        Ok(Self { values, rows, columns, stride: columns })
    }

    /// Some columns of rows that are `stride` apart.
    ///
    /// # Errors
    /// If the values do not reach that far.
    pub fn strided(values: &'a [R], rows: usize, columns: usize, stride: usize) -> Result<Self> {
        check(values.len(), rows, columns, stride)?;
        Ok(Self { values, rows, columns, stride })
    }

    #[inline(always)]
    fn row(&self, row: usize) -> &'a [R] {
        &self.values[row * self.stride..][..self.columns]
    }

    /// All rows.
    #[inline(always)]
    pub fn iter_rows(self) -> impl Iterator<Item = &'a [R]> {
        (0..self.rows).map(move |row| self.row(row))
    }
}

impl<'a, R: Real> MatrixMut<'a, R> {
    /// All of these values, in rows of this width.
    ///
    /// # Errors
    /// If they are not a whole number of rows.
    pub fn new(values: &'a mut [R], columns: usize) -> Result<Self> {
        let rows = rows_of("matrix", values.len(), columns)?;
        Ok(Self { values, rows, columns, stride: columns })
    }

    /// Some columns of rows that are `stride` apart.
    ///
    /// # Errors
    /// If the values do not reach that far.
    pub fn strided(values: &'a mut [R], rows: usize, columns: usize, stride: usize) -> Result<Self> {
        check(values.len(), rows, columns, stride)?;
        Ok(Self { values, rows, columns, stride })
    }

    #[inline(always)]
    fn row(&mut self, row: usize) -> &mut [R] {
        &mut self.values[row * self.stride..][..self.columns]
    }
}

/// Compares the depths of two factors, and the rows and columns of their product with those of `into`.
fn check_shapes<R>(depths: (usize, usize), product: (usize, usize), into: &MatrixMut<'_, R>) -> Result<()> {
    expect_len("depth of a product's second factor", depths.1, depths.0)?;
    expect_len("rows of a product", into.rows, product.0)?;
    expect_len("columns of a product", into.columns, product.1)
}

fn is_large(arithmetic: Arithmetic, rows: usize, columns: usize, depth: usize) -> bool {
    arithmetic == Arithmetic::Machine
        && rows.min(depth) >= MANY_ROWS
        && rows.saturating_mul(columns).saturating_mul(depth) >= LARGE
}

/// `into += a b`.
///
/// # Errors
/// If the shapes do not fit.
pub fn add_product<R: Real>(
    arithmetic: Arithmetic,
    a: Matrix<'_, R>,
    b: Matrix<'_, R>,
    mut into: MatrixMut<'_, R>,
) -> Result<()> {
    check_shapes((a.columns, b.rows), (a.rows, b.columns), &into)?;
    if is_large(arithmetic, a.rows, b.columns, a.columns) {
        by_gemm(&mut into, a.columns, (a.values, a.stride, 1), (b.values, b.stride, 1));
    } else {
        plain_product(a, b, into);
    }
    Ok(())
}

/// `into += a b'`.
///
/// # Errors
/// If the shapes do not fit.
pub fn add_product_by_transposed<R: Real>(
    arithmetic: Arithmetic,
    a: Matrix<'_, R>,
    b: Matrix<'_, R>,
    mut into: MatrixMut<'_, R>,
) -> Result<()> {
    check_shapes((a.columns, b.columns), (a.rows, b.rows), &into)?;
    if a.rows >= MANY_ROWS_BY_TRANSPOSED && is_large(arithmetic, a.rows, b.rows, a.columns) {
        by_gemm(&mut into, a.columns, (a.values, a.stride, 1), (b.values, 1, b.stride));
    } else {
        product_by_transposed(a, b, into);
    }
    Ok(())
}

/// `into += a' b`.
///
/// # Errors
/// If the shapes do not fit.
pub fn add_transposed_product<R: Real>(
    arithmetic: Arithmetic,
    a: Matrix<'_, R>,
    b: Matrix<'_, R>,
    mut into: MatrixMut<'_, R>,
) -> Result<()> {
    check_shapes((a.rows, b.rows), (a.columns, b.columns), &into)?;
    if is_large(arithmetic, a.columns, b.columns, a.rows) {
        by_gemm(&mut into, a.rows, (a.values, 1, a.stride), (b.values, b.stride, 1));
    } else {
        transposed_product(a, b, into);
    }
    Ok(())
}

/// Four rows and what they are multiplied with, gathered so that a sum is loaded and stored once for all of them.
struct Gathered<'a, R> {
    factors: [R; 4],
    rows: [&'a [R]; 4],
    count: usize,
}

impl<'a, R: Real> Gathered<'a, R> {
    #[inline(always)]
    fn new() -> Self {
        Self { factors: [R::ZERO; 4], rows: [&[]; 4], count: 0 }
    }

    #[inline(always)]
    fn add(&mut self, factor: R, row: &'a [R], into: &mut [R]) {
        self.factors[self.count] = factor;
        self.rows[self.count] = row;
        self.count += 1;
        if self.count == 4 {
            add_scaled(into, self.factors, self.rows);
            self.count = 0;
        }
    }

    #[inline(always)]
    fn finish(&mut self, into: &mut [R]) {
        for n in 0..self.count {
            add_scaled(into, [self.factors[n]], [self.rows[n]]);
        }
        self.count = 0;
    }
}

kernel! {
    fn plain_product<'a, 'i, R>(a: Matrix<'a, R>, b: Matrix<'a, R>, into: MatrixMut<'i, R>) {
        let mut into = into;
        let mut gathered = Gathered::new();
        for r in 0..a.rows {
            let sum = into.row(r);
            for (k, &factor) in a.row(r).iter().enumerate() {
                if factor != R::ZERO {
                    gathered.add(factor, b.row(k), sum);
                }
            }
            gathered.finish(sum);
        }
    }
}

kernel! {
    fn product_by_transposed<'a, 'i, R>(a: Matrix<'a, R>, b: Matrix<'a, R>, into: MatrixMut<'i, R>) {
        let mut into = into;
        for r in 0..a.rows {
            let row = a.row(r);
            let (fours, rest) = into.row(r).as_chunks_mut::<4>();
            for (n, four) in fours.iter_mut().enumerate() {
                let found = dots(row, [b.row(4 * n), b.row(4 * n + 1), b.row(4 * n + 2), b.row(4 * n + 3)]);
                for k in 0..4 {
                    four[k] += found[k];
                }
            }
            let done = 4 * fours.len();
            for (n, sum) in rest.iter_mut().enumerate() {
                *sum += dots(row, [b.row(done + n)])[0];
            }
        }
    }
}

kernel! {
    fn transposed_product<'a, 'i, R>(a: Matrix<'a, R>, b: Matrix<'a, R>, into: MatrixMut<'i, R>) {
        let mut into = into;
        let mut gathered = Gathered::new();
        for r in 0..a.columns {
            let sum = into.row(r);
            for k in 0..a.rows {
                let factor = a.values[k * a.stride + r];
                if factor != R::ZERO {
                    gathered.add(factor, b.row(k), sum);
                }
            }
            gathered.finish(sum);
        }
    }
}

/// A factor for `gemm`: values, distance of rows, distance of columns.
type Factor<'a, R> = (&'a [R], usize, usize);

/// `into += a b` with factors of any strides; single-threaded, so that the bits do not depend on threads.
fn by_gemm<R: Real>(into: &mut MatrixMut<'_, R>, depth: usize, a: Factor<'_, R>, b: Factor<'_, R>) {
    let (rows, columns) = (into.rows, into.columns);
    debug_assert!((rows - 1) * a.1 + (depth - 1) * a.2 < a.0.len());
    debug_assert!((depth - 1) * b.1 + (columns - 1) * b.2 < b.0.len());
    // SAFETY: every matrix keeps the invariant of `check`: its last row ends within its values. The callers have compared
    // the shapes, so that `rows x depth`, `depth x columns` and `rows x columns` are exactly the three matrices, and all
    // places that `gemm` reads or writes by these strides are within their slices. `into` is borrowed mutably,
    // so it overlaps neither factor. Strides are at most the length of a slice and fit an isize.
    #[allow(unsafe_code)]
    unsafe {
        gemm::gemm(
            rows,
            columns,
            depth,
            into.values.as_mut_ptr(),
            1,
            into.stride as isize,
            true,
            a.0.as_ptr(),
            a.2 as isize,
            a.1 as isize,
            b.0.as_ptr(),
            b.2 as isize,
            b.1 as isize,
            R::ONE,
            R::ONE,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sottovoce_core::Rng;

    fn random(len: usize, rng: &mut Rng) -> Vec<f64> {
        (0..len).map(|_| if rng.chance(0.3) { 0.0 } else { rng.normal() }).collect()
    }

    /// All three products of strided matrices against three nested loops, plain and by `gemm`.
    #[test]
    fn products_agree_with_nested_loops() {
        let mut rng = Rng::new(5);
        for (rows, depth, columns) in [(1, 1, 1), (1, 7, 19), (3, 5, 2), (6, 13, 11), (40, 33, 37)] {
            let (a_stride, b_stride, c_stride) = (depth + 2, columns + 1, columns + 3);
            let a = random(rows * a_stride, &mut rng);
            let b = random(depth * b_stride, &mut rng);
            let start = random(rows * c_stride, &mut rng);
            let at = transposed(&a, rows, a_stride);
            let bt = transposed(&b, depth, b_stride);
            let mut expected = start.clone();
            for r in 0..rows {
                for c in 0..columns {
                    let dot: f64 = (0..depth).map(|k| a[r * a_stride + k] * b[k * b_stride + c]).sum();
                    expected[r * c_stride + c] += dot;
                }
            }
            for arithmetic in [Arithmetic::Portable, Arithmetic::Machine] {
                for kind in 0..3 {
                    let mut found = start.clone();
                    let into = MatrixMut::strided(&mut found, rows, columns, c_stride).unwrap();
                    let a = Matrix::strided(&a, rows, depth, a_stride).unwrap();
                    let b = Matrix::strided(&b, depth, columns, b_stride).unwrap();
                    match kind {
                        0 => add_product(arithmetic, a, b, into),
                        1 => {
                            let b = Matrix::strided(&bt, columns, depth, depth).unwrap();
                            add_product_by_transposed(arithmetic, a, b, into)
                        }
                        _ => {
                            let a = Matrix::strided(&at, depth, rows, rows).unwrap();
                            add_transposed_product(arithmetic, a, b, into)
                        }
                    }
                    .unwrap();
                    let far = found.iter().zip(&expected).map(|(f, e)| (f - e).abs()).fold(0.0, f64::max);
                    assert!(far < 1e-12, "{kind} {rows} {depth} {columns}: {far}");
                }
            }
        }
    }

    fn transposed(values: &[f64], rows: usize, stride: usize) -> Vec<f64> {
        (0..stride * rows).map(|n| values[n % rows * stride + n / rows]).collect()
    }

    #[test]
    fn rejects_shapes_that_do_not_fit() {
        let values = [0.0f32; 12];
        assert!(Matrix::new(&values, 5).is_err() && Matrix::new(&values, 0).is_err());
        assert!(Matrix::strided(&values, 4, 3, 4).is_err() && Matrix::strided(&values, 2, 3, 2).is_err());
        assert!(Matrix::strided(&values, usize::MAX, 3, usize::MAX).is_err());
        let (a, b) = (Matrix::new(&values, 4).unwrap(), Matrix::new(&values, 3).unwrap());
        let mut into = [0.0f32; 9];
        let mut product = |a, b| {
            let into = MatrixMut::new(&mut into, 3).unwrap();
            add_product(Arithmetic::Machine, a, b, into)
        };
        assert_eq!(product(a, b), Ok(()));
        assert!(product(a, a).is_err() && product(b, a).is_err());
    }
}
