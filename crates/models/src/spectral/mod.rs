//! Recommenders that depend on people through a sum only, by its largest eigenvalues.
//!
//! With x_u the history of a person as a vector of zeros and ones and w_u their weight, that sum is
//! G = sum_u w_u x_u x_u'. What is here serves the centralised models, the server and the devices of federated ones:
//!
//! - **Nystroem's approximation** from Z = G Q, whatever basis Q has: with Q'Z = W S W' and C = Z W S^(-1/2), G is
//!   about C C' = U L U'. Z as the next Q is a step of subspace iteration (N. Halko, P. G. Martinsson, J. A. Tropp:
//!   Finding Structure with Randomness, SIAM Review 53(2), 2011).
//! - **Low-rank EASE** (H. Steck: Embarrassingly Shallow Autoencoders for Sparse Data, WWW 2019) from U and L: with
//!   V = U sqrt(L / (L + l)) the inverse (G + l I)^-1 is (I - V V') / l, so that EASE's weights are
//!   B_ij = V_i . V_j / (1 - |V_j|^2). Neither G nor B is ever formed: a device holds V.
//! - **Pure SVD** (P. Cremonesi, Y. Koren, R. Turrin: Performance of Recommender Algorithms on Top-N Recommendation
//!   Tasks, RecSys 2010): V = U, and scores x' V V_j as they are.
//! - **GF-CF** (Y. Shen et al.: How Powerful is Graph Convolution for Recommendation?, CIKM 2021): [`GraphFilter`].

mod eigen;
mod graph_filter;
mod matrix;
mod packed;

pub use eigen::Eigen;
pub use graph_filter::GraphFilter;
pub use matrix::Matrix;
pub use packed::{packed_cell, packed_cols, unpacked};

use crate::{Reason, choices};
use sottovoce_core::{Rng, math};

choices! {
    /// How scores are read from eigenvectors.
    #[derive(Default)]
    pub enum Readout {
        /// Low-rank EASE.
        #[default]
        Ease => "ease",
        /// Pure SVD.
        Svd => "svd",
        /// The graph filters of GF-CF.
        GfCf => "gf-cf",
    }
}

/// Eigenvalues of G, the largest first, and their eigenvectors as columns: as many as are above rounding.
#[derive(Clone, Debug, PartialEq)]
pub struct Spectrum {
    /// Eigenvalues, all positive.
    pub values: Vec<f64>,
    /// One column an eigenvalue.
    pub vectors: Matrix,
}

/// Eigenvalues of Q'GQ below this fraction of the largest are rounding: Q and Z have travelled in single precision.
const LEAST: f64 = 1e-9;

impl Spectrum {
    /// Nystroem's approximation from a basis and Z = G Q.
    pub fn nystroem(basis: &Matrix, z: &Matrix) -> Self {
        let small = Eigen::symmetric(basis.inner(z).symmetric());
        let half = z.times(&inverse_roots(&small));
        let inner = Eigen::symmetric(half.inner(&half));
        let rank = rank(&inner);
        let vectors = half.times(&inverse_roots(&inner));
        Self { values: inner.values[..rank].to_vec(), vectors }
    }

    /// The spectrum of G, by so many rounds of subspace iteration with `width` vectors; `product` computes G Q.
    pub fn iterated(items: usize, width: usize, rounds: usize, rng: &Rng, product: impl Fn(&Matrix) -> Matrix) -> Self {
        let width = width.min(items);
        let mut spectrum = Self { values: Vec::new(), vectors: Matrix::zeros(items, 0) };
        for round in 0..rounds.max(1) {
            let basis = spectrum.basis(width, &rng.stream("basis", round as u64));
            spectrum = Self::nystroem(&basis, &product(&basis));
        }
        spectrum
    }

    /// The vectors as so many columns, with random ones of length about 1 in place of those that are missing.
    fn basis(&self, width: usize, rng: &Rng) -> Matrix {
        let (items, rank) = (self.vectors.rows(), self.values.len().min(width));
        let deviation = 1.0 / (items.max(1) as f64).sqrt();
        let mut basis = Matrix::zeros(items, width);
        for item in 0..items {
            let row = basis.row_mut(item);
            row[..rank].copy_from_slice(&self.vectors.row(item)[..rank]);
            let mut rng = rng.stream("item", item as u64);
            row[rank..].fill_with(|| deviation * rng.normal());
        }
        basis
    }

    /// What each of the first `factors` vectors is multiplied with for a readout: sqrt(L / (L + l)), where l is the
    /// smallest eigenvalue used times `regularisation`; 1 for pure SVD; sqrt(L) for GF-CF.
    pub fn weights(&self, factors: usize, readout: Readout, regularisation: f64) -> Vec<f64> {
        let used = &self.values[..factors.min(self.values.len())];
        let l = regularisation * used.last().copied().unwrap_or(0.0);
        let weight = |value: &f64| match readout {
            Readout::Ease => (value / (value + l)).sqrt(),
            Readout::Svd => 1.0,
            Readout::GfCf => value.sqrt(),
        };
        used.iter().map(weight).collect()
    }
}

/// How many eigenvalues are above rounding.
fn rank(eigen: &Eigen) -> usize {
    let least = LEAST * eigen.values.first().copied().unwrap_or(0.0);
    eigen.values.iter().take_while(|&&value| value > least && value > 0.0).count()
}

/// W S^(-1/2) of the eigenvalues above rounding.
fn inverse_roots(eigen: &Eigen) -> Matrix {
    let (n, rank) = (eigen.values.len(), rank(eigen));
    let mut roots = Matrix::zeros(n, rank);
    for row in 0..n {
        for (col, value) in roots.row_mut(row).iter_mut().enumerate() {
            *value = eigen.vectors.at(row, col) / eigen.values[col].sqrt();
        }
    }
    roots
}

/// The vectors V of all items, as many columns of a table of which the first are theirs.
#[derive(Clone, Copy, Debug)]
pub struct ItemVectors<'a> {
    /// The table by rows.
    pub values: &'a [f32],
    /// Columns of the table.
    pub cols: usize,
    /// Columns that are used.
    pub factors: usize,
    /// How scores are read.
    pub readout: Readout,
}

impl ItemVectors<'_> {
    fn row(&self, item: u32) -> &[f32] {
        &self.values[item as usize * self.cols..][..self.factors]
    }

    /// By what scores of an item are divided: EASE's 1 - |V_j|^2, above zero whatever the table holds.
    fn divisor(&self, own: f32) -> f32 {
        match self.readout {
            Readout::Ease => (1.0 - own).max(1e-3),
            Readout::Svd | Readout::GfCf => 1.0,
        }
    }

    /// Scores all items for a history without repetition; an item says nothing for itself.
    ///
    /// # Panics
    /// If `into` is not as long as the catalog, or the history has an item outside of it.
    pub fn score(&self, history: &[u32], into: &mut [f32]) {
        assert_eq!(into.len() * self.cols, self.values.len(), "one score per item");
        let mut sum = vec![0.0; self.factors];
        history.iter().for_each(|&item| math::add(&mut sum, self.row(item)));
        for (item, score) in (0..).zip(into.iter_mut()) {
            let row = self.row(item);
            *score = math::dot(&sum, row) / self.divisor(math::dot(row, row));
        }
        for &item in history {
            let own = math::dot(self.row(item), self.row(item));
            into[item as usize] -= own / self.divisor(own);
        }
    }

    /// What each item of the history adds to the scores of some items: exactly the score, but for rounding.
    ///
    /// # Panics
    /// If an item is not in the catalog.
    pub fn reasons(&self, history: &[u32], of: &[u32]) -> Vec<Vec<Reason>> {
        let of_item = |&item: &u32| {
            let row = self.row(item);
            let divisor = self.divisor(math::dot(row, row));
            let others = history.iter().filter(|&&had| had != item);
            others.map(|&had| Reason::had(had, math::dot(self.row(had), row) / divisor)).collect()
        };
        of.iter().map(of_item).collect()
    }
}

#[cfg(test)]
mod tests;
