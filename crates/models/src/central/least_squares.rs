//! The small weighted least-squares problems of iALS, one per row: normal equations and two solvers.

use rayon::prelude::*;

/// Rows that one task of [`gram`] sums; fixed, so that sums do not depend on the number of threads.
const GRAM_ROWS: usize = 512;

/// Y'Y of all rows, both triangles.
pub(crate) fn gram<const N: usize>(rows: &[[f32; N]]) -> Vec<[f32; N]> {
    let parts: Vec<Vec<[f32; N]>> = rows
        .par_chunks(GRAM_ROWS)
        .map(|chunk| {
            let mut sum = vec![[0.0; N]; N];
            for four in chunk.chunks(4) {
                add_outer(&mut sum, four, 1.0);
            }
            sum
        })
        .collect();
    let mut total = vec![[0.0; N]; N];
    for part in parts {
        for (total, part) in total.iter_mut().zip(part) {
            for f in 0..N {
                total[f] += part[f];
            }
        }
    }
    for r in 0..N {
        for f in r + 1..N {
            total[r][f] = total[f][r];
        }
    }
    total
}

/// `sum += weight * y y'` for up to four rows y at a time; computes the lower triangle and a few values beside it.
fn add_outer<const N: usize>(sum: &mut [[f32; N]], rows: &[[f32; N]], weight: f32) {
    let empty = [0.0; N];
    let row = |index: usize| rows.get(index).unwrap_or(&empty);
    let (a, b, c, d) = (row(0), row(1), row(2), row(3));
    for r in 0..N {
        let [wa, wb, wc, wd] = [a[r], b[r], c[r], d[r]].map(|value| value * weight);
        let end = (r / 4 + 1) * 4;
        let target = &mut sum[r][..end];
        for f in 0..end {
            target[f] += (wa * a[f] + wb * b[f]) + (wc * c[f] + wd * d[f]);
        }
    }
}

/// The normal equations of one row at a time: (Y'Y + alpha sum y y' + penalty I) x = (1 + alpha) sum y.
pub(crate) struct Normal<'a, const N: usize> {
    gram: &'a [[f32; N]],
    other: &'a [[f32; N]],
    alpha: f32,
    /// Factors without padding.
    width: usize,
}

impl<'a, const N: usize> Normal<'a, N> {
    /// Given the vectors of the other side (items for users, users for items) and their Gram matrix.
    pub(crate) fn new(gram: &'a [[f32; N]], other: &'a [[f32; N]], alpha: f32, width: usize) -> Self {
        Self { gram, other, alpha, width }
    }

    /// Solves for a row that has these columns; `matrix` is scratch of N rows. Exactly, or by so many steps of
    /// conjugate gradients from the last solution in `solution` (Takacs, Pilaszy, Tikk: Applications of the conjugate
    /// gradient method for implicit feedback collaborative filtering, RecSys 2011), which is cheaper with many factors.
    pub(crate) fn solve(
        &self,
        cg_steps: Option<usize>,
        columns: &[u32],
        penalty: f32,
        matrix: &mut [[f32; N]],
        solution: &mut [f32; N],
    ) {
        if columns.is_empty() {
            solution.fill(0.0);
            return;
        }
        match cg_steps {
            None => self.cholesky(columns, penalty, matrix, solution),
            Some(steps) => self.conjugate_gradient(columns, penalty, steps, solution),
        }
    }

    /// The columns' parts of <x, y> for the vector y of `target`, where x is the exact solution for a row with these
    /// columns: (1 + alpha) y' A^-1 y_c, with A the matrix of the normal equations. They add up to it.
    pub(crate) fn parts(&self, columns: &[u32], penalty: f32, target: u32, matrix: &mut [[f32; N]]) -> Vec<f32> {
        self.fill(columns, penalty, matrix);
        let mut solution = self.other[target as usize].map(|value| (1.0 + self.alpha) * value);
        cholesky_solve(matrix, self.width, &mut solution);
        columns.iter().map(|&column| dot(&solution, &self.other[column as usize])).collect()
    }

    fn right_hand_side(&self, columns: &[u32]) -> [f32; N] {
        let mut sum = [0.0; N];
        for &column in columns {
            let y = &self.other[column as usize];
            for f in 0..N {
                sum[f] += y[f];
            }
        }
        sum.map(|value| (1.0 + self.alpha) * value)
    }

    fn cholesky(&self, columns: &[u32], penalty: f32, matrix: &mut [[f32; N]], solution: &mut [f32; N]) {
        self.fill(columns, penalty, matrix);
        *solution = self.right_hand_side(columns);
        cholesky_solve(matrix, self.width, solution);
    }

    /// The matrix of the normal equations, its lower triangle.
    fn fill(&self, columns: &[u32], penalty: f32, matrix: &mut [[f32; N]]) {
        matrix.copy_from_slice(self.gram);
        if self.alpha != 0.0 {
            for four in columns.chunks(4) {
                let mut rows = [[0.0; N]; 4];
                for (row, &column) in rows.iter_mut().zip(four) {
                    *row = self.other[column as usize];
                }
                add_outer(matrix, &rows, self.alpha);
            }
        }
        for f in 0..self.width {
            matrix[f][f] += penalty;
        }
    }

    /// A x without forming A: Y'Y x + penalty x + alpha sum y <y, x>.
    fn times(&self, columns: &[u32], penalty: f32, x: &[f32; N]) -> [f32; N] {
        let mut product = x.map(|value| penalty * value);
        for (row, &scale) in self.gram.iter().zip(x).take(self.width) {
            for f in 0..N {
                product[f] += scale * row[f];
            }
        }
        for &column in columns {
            let y = &self.other[column as usize];
            let scale = self.alpha * dot(y, x);
            for f in 0..N {
                product[f] += scale * y[f];
            }
        }
        product
    }

    fn conjugate_gradient(&self, columns: &[u32], penalty: f32, steps: usize, x: &mut [f32; N]) {
        let (target, product) = (self.right_hand_side(columns), self.times(columns, penalty, x));
        let mut residual: [f32; N] = std::array::from_fn(|f| target[f] - product[f]);
        let mut direction = residual;
        let mut norm = dot(&residual, &residual);
        for _ in 0..steps {
            if norm < 1e-20 {
                break;
            }
            let product = self.times(columns, penalty, &direction);
            let step = norm / dot(&direction, &product);
            for f in 0..N {
                x[f] += step * direction[f];
                residual[f] -= step * product[f];
            }
            let next = dot(&residual, &residual);
            for f in 0..N {
                direction[f] = residual[f] + next / norm * direction[f];
            }
            norm = next;
        }
    }
}

fn dot<const N: usize>(a: &[f32; N], b: &[f32; N]) -> f32 {
    let mut lanes = [0.0f32; 4];
    for block in (0..N).step_by(4) {
        for lane in 0..4 {
            lanes[lane] += a[block + lane] * b[block + lane];
        }
    }
    (lanes[0] + lanes[2]) + (lanes[1] + lanes[3])
}

/// Solves A x = b in place: A = L L' over the lower triangle of the first `n` rows, then forward and back substitution.
///
/// A pivot that rounding has made zero or negative (more factors than rows, hardly any regularisation) is raised to a
/// small positive one, which keeps the solution finite.
fn cholesky_solve<const N: usize>(a: &mut [[f32; N]], n: usize, x: &mut [f32; N]) {
    for column in 0..n {
        let (above, below) = a.split_at_mut(column + 1);
        let pivot_row = &mut above[column];
        let head = *pivot_row;
        let square = head[column] - prefix_dot(&head, &head, column);
        let pivot = square.max(1e-6 * head[column].max(f32::MIN_POSITIVE)).sqrt();
        pivot_row[column] = pivot;
        for row in &mut below[..n - column - 1] {
            row[column] = (row[column] - prefix_dot(row, &head, column)) / pivot;
        }
    }
    for row in 0..n {
        x[row] = (x[row] - prefix_dot(&a[row], x, row)) / a[row][row];
    }
    for row in (0..n).rev() {
        x[row] /= a[row][row];
        let value = x[row];
        for f in 0..row {
            x[f] -= a[row][f] * value;
        }
    }
}

/// Sum of products of the first `n` values.
fn prefix_dot<const N: usize>(a: &[f32; N], b: &[f32; N], n: usize) -> f32 {
    sottovoce_core::math::dot(&a[..n], &b[..n])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Solves A x = b in double precision by Gaussian elimination with pivoting.
    fn eliminate(mut a: Vec<Vec<f64>>, mut b: Vec<f64>) -> Vec<f64> {
        let n = b.len();
        for column in 0..n {
            let best = (column..n).max_by(|&x, &y| a[x][column].abs().total_cmp(&a[y][column].abs())).unwrap();
            a.swap(column, best);
            b.swap(column, best);
            for row in column + 1..n {
                let factor = a[row][column] / a[column][column];
                for f in column..n {
                    a[row][f] -= factor * a[column][f];
                }
                b[row] -= factor * b[column];
            }
        }
        for row in (0..n).rev() {
            let rest: f64 = (row + 1..n).map(|f| a[row][f] * b[f]).sum();
            b[row] = (b[row] - rest) / a[row][row];
        }
        b
    }

    /// The paper's x_u = (Y' C Y + l I)^-1 Y' C p with C and p written out over all items.
    fn dense(other: &[[f32; 8]], width: usize, columns: &[u32], alpha: f64, penalty: f64) -> Vec<f64> {
        let mut a = vec![vec![0.0; width]; width];
        let mut b = vec![0.0; width];
        for (item, y) in other.iter().enumerate() {
            let has = columns.contains(&(item as u32));
            let confidence = if has { 1.0 + alpha } else { 1.0 };
            for r in 0..width {
                for f in 0..width {
                    a[r][f] += confidence * f64::from(y[r]) * f64::from(y[f]);
                }
                b[r] += if has { confidence * f64::from(y[r]) } else { 0.0 };
            }
        }
        for f in 0..width {
            a[f][f] += penalty;
        }
        eliminate(a, b)
    }

    proptest! {
        #[test]
        fn both_solvers_solve_the_papers_equations(
            values in prop::collection::vec(prop::array::uniform8(-1.0f32..1.0), 1..30),
            chosen in prop::collection::btree_set(0u32..30, 1..12),
            width in 1usize..=8, alpha in prop::sample::select(vec![0.0f32, 0.7, 40.0]), penalty in 0.1f32..5.0,
        ) {
            let padded = |mut row: [f32; 8]| { row[width..].fill(0.0); row };
            let other: Vec<[f32; 8]> = values.into_iter().map(padded).collect();
            let columns: Vec<u32> = chosen.into_iter().filter(|&item| (item as usize) < other.len()).collect();
            prop_assume!(!columns.is_empty());
            let exact = dense(&other, width, &columns, f64::from(alpha), f64::from(penalty));
            let gram = gram(&other);
            let (normal, mut matrix) = (Normal::new(&gram, &other, alpha, width), [[0.0; 8]; 8]);
            // Conjugate gradients converge in as many steps as there are unknowns, up to rounding.
            for cg_steps in [None, Some(40)] {
                let mut solution = [0.0; 8];
                solution[0] = 0.3;
                normal.solve(cg_steps, &columns, penalty, &mut matrix, &mut solution);
                for f in 0..8 {
                    let exact = exact.get(f).copied().unwrap_or(0.0);
                    prop_assert!((f64::from(solution[f]) - exact).abs() < 2e-3, "{:?} {:?} {:?}", cg_steps, solution, exact);
                }
            }
        }
    }

    #[test]
    fn empty_row_is_zero_and_singular_system_stays_finite() {
        let other = [[1.0f32, 2.0, 0.0, 0.0], [2.0, 4.0, 0.0, 0.0]];
        let gram = gram(&other);
        let (normal, mut matrix) = (Normal::new(&gram, &other, 1.0, 4), [[0.0; 4]; 4]);
        let mut solution = [0.7; 4];
        normal.solve(None, &[], 1.0, &mut matrix, &mut solution);
        assert_eq!(solution, [0.0; 4]);
        normal.solve(None, &[0, 1], 0.0, &mut matrix, &mut solution);
        assert!(solution.iter().all(|value| value.is_finite()), "{solution:?}");
    }
}
