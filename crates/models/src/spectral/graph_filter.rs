//! The filters of GF-CF from a few eigenvectors.
//!
//! With D the numbers of people who have each item, R = D^(1/2) up to a factor, and U, L eigenvectors and eigenvalues
//! of S'S = D^(-1/2) (sum_u x_u x_u' / n_u) D^(-1/2), GF-CF scores by S'S + alpha D^(-1/2) U U' D^(1/2). A table has
//! V = R^(-1) U sqrt(L) and, in its last column, R, so that the weight of item i for item j is
//! ```text
//! R_i R_j V_i . V_j + alpha R_j^2 sum_k V_ik V_jk / L_k
//! ```
//! of which the first part is S'S as far as the vectors have it.

use crate::Reason;
use sottovoce_core::math;

/// The vectors V of all items, their roots R, and what scores are computed with.
#[derive(Clone, Copy, Debug)]
pub struct GraphFilter<'a> {
    /// V by rows, with R in the last column.
    pub values: &'a [f32],
    /// Columns of the table.
    pub cols: usize,
    /// Columns of V that are used.
    pub factors: usize,
    /// L, for each column of V.
    pub eigenvalues: &'a [f32],
    /// Weight of the ideal low-pass filter beside the linear one.
    pub alpha: f32,
}

impl GraphFilter<'_> {
    fn row(&self, item: u32) -> (&[f32], f32) {
        let row = &self.values[item as usize * self.cols..][..self.cols];
        (&row[..self.factors], row[self.cols - 1])
    }

    /// What the history adds to each column, for both filters together: for an item with root r, the score is its
    /// vector's product with r linear + r^2 ideal.
    fn columns(&self, history: &[u32]) -> (Vec<f32>, Vec<f32>) {
        let (mut linear, mut ideal) = (vec![0.0; self.factors], vec![0.0; self.factors]);
        for &item in history {
            let (vector, root) = self.row(item);
            math::add(&mut ideal, vector);
            linear.iter_mut().zip(vector).for_each(|(to, value)| *to += root * value);
        }
        for (value, &eigenvalue) in ideal.iter_mut().zip(self.eigenvalues) {
            *value = if eigenvalue > 0.0 { self.alpha * *value / eigenvalue } else { 0.0 };
        }
        (linear, ideal)
    }

    fn of(&self, item: u32, (linear, ideal): &(Vec<f32>, Vec<f32>)) -> f32 {
        let (vector, root) = self.row(item);
        root * (math::dot(vector, linear) + root * math::dot(vector, ideal))
    }

    /// Scores all items for a history without repetition. As in GF-CF, an item of the history speaks for itself too.
    ///
    /// # Panics
    /// If `into` is not as long as the catalog, or the history has an item outside of it.
    pub fn score(&self, history: &[u32], into: &mut [f32]) {
        assert_eq!(into.len() * self.cols, self.values.len(), "one score per item");
        let columns = self.columns(history);
        (0..).zip(into.iter_mut()).for_each(|(item, score)| *score = self.of(item, &columns));
    }

    /// What each item of the history adds to the scores of some items.
    ///
    /// # Panics
    /// If an item is not in the catalog.
    pub fn reasons(&self, history: &[u32], of: &[u32]) -> Vec<Vec<Reason>> {
        let each = |&had: &u32| (had, self.columns(&[had]));
        let parts: Vec<_> = history.iter().map(each).collect();
        let of_item =
            |&item: &u32| parts.iter().map(|(had, columns)| Reason::had(*had, self.of(item, columns))).collect();
        of.iter().map(of_item).collect()
    }
}
