//! Low-rank EASE and pure SVD: linear models of the largest eigenvalues of the items' Gram matrix.
//!
//! H. Steck: Embarrassingly Shallow Autoencoders for Sparse Data, WWW 2019; P. Cremonesi, Y. Koren, R. Turrin:
//! Performance of Recommender Algorithms on Top-N Recommendation Tasks, RecSys 2010. [`crate::spectral`] has the
//! equations; the federated model `fed-spectral` learns the same vectors from sealed sums.

use crate::registry::{CentralModel, ModelInfo};
use crate::settings::Config;
use crate::spectral::{ItemVectors, Matrix, Readout, Spectrum};
use crate::{Fit, ModelError, Reason, ReasonKind, Recommender, Summary, Tensor, config, stored};
use rayon::prelude::*;
use sottovoce_core::{Histories, History, Rng, math};

/// The registry's entry of low-rank EASE.
pub(super) const EASE: CentralModel = CentralModel {
    info: ModelInfo::new("ease-low-rank", "EASE (low rank)")
        .summary("EASE from the largest eigenvalues of the items' Gram matrix, for large catalogs")
        .paper("Steck: Embarrassingly Shallow Autoencoders for Sparse Data. WWW 2019"),
    schema: || EaseConfig::default().schema(),
    build: |settings| {
        let EaseConfig { factors, regularisation, user_exponent } = EaseConfig::read(settings);
        Box::new(LowRank::new(factors, user_exponent, Readout::Ease, regularisation))
    },
};

/// The registry's entry of pure SVD.
pub(super) const PURE_SVD: CentralModel = CentralModel {
    info: ModelInfo::new("pure-svd", "PureSVD")
        .summary("The projection of a history on the largest singular vectors")
        .paper("Cremonesi, Koren, Turrin: Performance of Recommender Algorithms on Top-N Recommendation Tasks. RecSys 2010"),
    schema: || SvdConfig::default().schema(),
    build: |settings| Box::new(LowRank::new(SvdConfig::read(settings).factors, 0.0, Readout::Svd, 0.0)),
};

config! {
    /// Settings of low-rank EASE.
    struct EaseConfig {
        /// Length of items' vectors: eigenvalues that are used
        factors: usize = 64, in 1..=2048 => [log];
        /// L2 regularisation, in multiples of the smallest eigenvalue that is used
        regularisation: f64 = 10.0, in 1e-3..=1e4 => [log];
        /// How much less each interaction of a long history weighs: one of n items counts n^-a times (a)
        user_exponent: f64 = 0.0, in 0.0..=1.0;
    }
}

config! {
    /// Settings of pure SVD.
    struct SvdConfig {
        /// Length of items' vectors: singular values that are used
        factors: usize = 32, in 1..=2048 => [log];
    }
}

/// Vectors beyond those that are used, so that these converge.
const OVERSAMPLING: usize = 16;
/// Rounds of subspace iteration.
const ROUNDS: usize = 8;

struct LowRank {
    factors: usize,
    user_exponent: f64,
    readout: Readout,
    regularisation: f64,
    users: Histories,
    /// V by rows.
    vectors: Vec<f32>,
    cols: usize,
}

impl LowRank {
    fn new(factors: usize, user_exponent: f64, readout: Readout, regularisation: f64) -> Self {
        let (users, vectors, cols) = Default::default();
        Self { factors, user_exponent, readout, regularisation, users, vectors, cols }
    }

    fn items(&self) -> ItemVectors<'_> {
        ItemVectors { values: &self.vectors, cols: self.cols, factors: self.cols, readout: self.readout }
    }
}

impl Recommender for LowRank {
    fn fit(&mut self, train: &Histories, fit: &mut Fit<'_>) -> Result<Summary, ModelError> {
        self.users = train.deduplicated();
        let (by_item, items) = (self.users.transposed(), train.catalog_size());
        let weight = |history: &[u32]| math::pow(history.len().max(1) as f64, -self.user_exponent);
        let weights: Vec<f64> = self.users.iter().map(weight).collect();
        let rng = Rng::new(fit.seed).stream("spectral", 0);
        let width = self.factors + OVERSAMPLING;
        let product = |basis: &Matrix| gram_times(&self.users, &by_item, &weights, basis);
        let spectrum = Spectrum::iterated(items, width, ROUNDS, &rng, product);
        let scales = spectrum.weights(self.factors, self.readout, self.regularisation);
        // At least one column, so that an empty catalog has a shape too.
        self.cols = scales.len().max(1);
        self.vectors = vec![0.0; items * self.cols];
        for (item, into) in self.vectors.chunks_exact_mut(self.cols).enumerate() {
            let row = spectrum.vectors.row(item).iter().zip(&scales);
            into.iter_mut().zip(row).for_each(|(to, (value, scale))| *to = (value * scale) as f32);
        }
        Ok(Summary { triples: self.users.interactions() as u64, ..Summary::default() })
    }

    fn score(&self, user: usize, into: &mut [f32]) {
        self.items().score(self.users.of(user), into);
    }

    fn score_newcomer(&self, history: History<'_>, into: &mut [f32]) -> bool {
        self.items().score(&history, into);
        true
    }

    fn reason_kind(&self) -> ReasonKind {
        ReasonKind::Shares
    }

    fn reasons(&self, user: usize, of: &[u32]) -> Vec<Vec<Reason>> {
        self.items().reasons(self.users.of(user), of)
    }

    fn tensors(&self) -> Vec<Tensor> {
        vec![stored::floats("vectors", [self.users.catalog_size(), self.cols], self.vectors.clone())]
    }

    fn restore(&mut self, tensors: &[Tensor], train: &Histories) -> Result<(), ModelError> {
        let items = train.catalog_size();
        let cols = stored::length(tensors, "vectors")?.checked_div(items).unwrap_or(1);
        self.vectors = stored::take_floats(tensors, "vectors", &[items, cols])?.to_vec();
        self.cols = cols;
        self.users = train.deduplicated();
        Ok(())
    }
}

/// G Q = sum_u w_u x_u (x_u' Q): first a row for each user, then a row for each item.
pub(super) fn gram_times(users: &Histories, by_item: &Histories, weights: &[f64], basis: &Matrix) -> Matrix {
    let add = |into: &mut [f64], scale: f64, row: &[f64]| {
        into.iter_mut().zip(row).for_each(|(to, value)| *to += scale * value);
    };
    let mut by_user = Matrix::zeros(users.users(), basis.cols());
    by_user.par_rows_mut().for_each(|(user, into)| {
        users.of(user).iter().for_each(|&item| add(into, weights[user], basis.row(item as usize)));
    });
    let mut product = Matrix::zeros(basis.rows(), basis.cols());
    product.par_rows_mut().for_each(|(item, into)| {
        by_item.of(item).iter().for_each(|&user| add(into, 1.0, by_user.row(user as usize)));
    });
    product
}
