//! GF-CF: a linear and an ideal low-pass filter on the graph of users and items, in closed form.
//!
//! Y. Shen, Y. Wu, Y. Zhang, C. Shan, J. Zhang, K. B. Letaief, D. Li: How Powerful is Graph Convolution for
//! Recommendation?, CIKM 2021.
//!
//! With R the binary matrix of users and items, D_U and D_I the numbers of interactions of users and items, and U the
//! largest right singular vectors of S = D_U^(-1/2) R D_I^(-1/2):
//! ```text
//! score(u, j) = sum_{i of u} ( S'S + alpha D_I^(-1/2) U U' D_I^(1/2) )_ij
//! ```

use super::item_weights::ItemWeights;
use super::low_rank::gram_times;
use crate::registry::{CentralModel, ModelInfo};
use crate::settings::Config;
use crate::spectral::{Matrix, Spectrum};
use crate::{Fit, ModelError, Reason, ReasonKind, Recommender, Summary, Tensor, config};
use rayon::prelude::*;
use sottovoce_core::{Histories, History, Rng};

/// The registry's entry.
pub(super) const MODEL: CentralModel = CentralModel {
    info: ModelInfo::new("gf-cf", "GF-CF")
        .summary("Graph filters on users and items: neighbours, and the largest singular vectors")
        .paper("Shen, Wu, Zhang, Shan, Zhang, Letaief, Li: How Powerful is Graph Convolution for Recommendation? CIKM 2021"),
    schema: || GfCfConfig::default().schema(),
    build: |settings| Box::new(GfCf { config: GfCfConfig::read(settings), model: ItemWeights::default() }),
};

config! {
    /// Settings of GF-CF.
    struct GfCfConfig {
        /// Singular vectors of the ideal low-pass filter
        factors: usize = 256, in 1..=2048 => [log];
        /// Weight of the ideal low-pass filter beside the linear one
        alpha: f64 = 0.3, in 0.0..=100.0;
    }
}

#[derive(Default)]
struct GfCf {
    config: GfCfConfig,
    model: ItemWeights,
}

/// Vectors beyond those that are used, so that these converge.
const OVERSAMPLING: usize = 16;
/// Rounds of subspace iteration.
const ROUNDS: usize = 8;

impl Recommender for GfCf {
    fn fit(&mut self, train: &Histories, fit: &mut Fit<'_>) -> Result<Summary, ModelError> {
        let items = train.catalog_size();
        ItemWeights::check_size("GF-CF", items)?;
        let users = train.deduplicated();
        let by_item = users.transposed();
        let per_user: Vec<f64> = users.iter().map(|history| 1.0 / history.len().max(1) as f64).collect();
        let roots: Vec<f64> = by_item.iter().map(|people| (people.len().max(1) as f64).sqrt()).collect();
        let scaled = |mut matrix: Matrix| {
            matrix.par_rows_mut().for_each(|(item, row)| row.iter_mut().for_each(|value| *value /= roots[item]));
            matrix
        };
        let rng = Rng::new(fit.seed).stream("spectral", 0);
        let product = |basis: &Matrix| scaled(gram_times(&users, &by_item, &per_user, &scaled(basis.clone())));
        let spectrum = Spectrum::iterated(items, self.config.factors + OVERSAMPLING, ROUNDS, &rng, product);
        let used = self.config.factors.min(spectrum.values.len());
        let vector = |item: usize| &spectrum.vectors.row(item)[..used];
        let mut weights = vec![0.0; items * items];
        weights.par_chunks_exact_mut(items.max(1)).enumerate().for_each(|(i, into)| {
            let mut linear = vec![0.0; items];
            for &user in by_item.of(i) {
                users.of(user as usize).iter().for_each(|&j| linear[j as usize] += per_user[user as usize]);
            }
            for (j, (to, sum)) in into.iter_mut().zip(linear).enumerate() {
                let ideal: f64 = vector(i).iter().zip(vector(j)).map(|(a, b)| a * b).sum();
                *to = (sum / (roots[i] * roots[j]) + self.config.alpha * ideal * roots[j] / roots[i]) as f32;
            }
        });
        self.model = ItemWeights { users, weights };
        Ok(Summary { triples: self.model.users.interactions() as u64, ..Summary::default() })
    }

    fn score(&self, user: usize, into: &mut [f32]) {
        self.model.score(self.model.users.of(user), into);
    }

    fn score_newcomer(&self, history: History<'_>, into: &mut [f32]) -> bool {
        self.model.score(&history, into);
        true
    }

    fn reason_kind(&self) -> ReasonKind {
        ReasonKind::Shares
    }

    fn reasons(&self, user: usize, of: &[u32]) -> Vec<Vec<Reason>> {
        self.model.reasons(user, of)
    }

    fn tensors(&self) -> Vec<Tensor> {
        self.model.tensors()
    }

    fn restore(&mut self, tensors: &[Tensor], train: &Histories) -> Result<(), ModelError> {
        self.model.restore(tensors, train)
    }
}
