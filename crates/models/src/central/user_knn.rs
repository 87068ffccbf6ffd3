//! User-kNN: items of the users with the most similar histories.
//!
//! P. Resnick, N. Iacovou, M. Suchak, P. Bergstrom, J. Riedl: GroupLens: An Open Architecture for Collaborative
//! Filtering of Netnews, CSCW 1994; here for histories without ratings.
//!
//! ```text
//! score(u, i) = sum of sim(u, v) over the k users v most similar to u who have i
//! ```
//! sim(u, v) is a count of the items that both have, over a denominator: each of these items is an equal part of it,
//! and so of the score.

use super::neighbours::{NeighbourConfig, Neighbours};
use crate::registry::{CentralModel, ModelInfo};
use crate::settings::Config;
use crate::{Fit, ModelError, Reason, ReasonKind, Recommender, Summary, Tensor};
use sottovoce_core::Histories;

/// The registry's entry.
pub(super) const MODEL: CentralModel = CentralModel {
    info: ModelInfo::new("user-knn", "User-kNN")
        .summary("What the users with the most similar histories have")
        .paper("Resnick, Iacovou, Suchak, Bergstrom, Riedl: GroupLens: An Open Architecture for Collaborative Filtering of Netnews. CSCW 1994"),
    // The best of five pairs for MovieLens 1M and 100K together, on a validation set.
    schema: || NeighbourConfig { k: 100, shrinkage: 20.0, ..NeighbourConfig::default() }.schema(),
    build: |settings| Box::new(UserKnn { config: NeighbourConfig::read(settings), ..UserKnn::default() }),
};

#[derive(Default)]
struct UserKnn {
    config: NeighbourConfig,
    users: Histories,
    neighbours: Neighbours,
}

impl Recommender for UserKnn {
    fn fit(&mut self, train: &Histories, _: &mut Fit<'_>) -> Result<Summary, ModelError> {
        self.users = train.deduplicated();
        self.neighbours = Neighbours::nearest(&self.users, &self.users.transposed(), &self.config);
        Ok(Summary::default())
    }

    fn score(&self, user: usize, into: &mut [f32]) {
        assert_eq!(into.len(), self.users.catalog_size(), "one score per item");
        into.fill(0.0);
        for (neighbour, similarity) in self.neighbours.of(user) {
            for &item in self.users.of(neighbour as usize) {
                into[item as usize] += similarity;
            }
        }
    }

    fn reason_kind(&self) -> ReasonKind {
        ReasonKind::Shares
    }

    fn reasons(&self, user: usize, items: &[u32]) -> Vec<Vec<Reason>> {
        let own = self.users.of(user);
        let mut weights = vec![vec![0.0; own.len()]; items.len()];
        for (neighbour, similarity) in self.neighbours.of(user) {
            let theirs = self.users.of(neighbour as usize);
            let common: Vec<usize> =
                (0..own.len()).filter(|&place| theirs.binary_search(&own[place]).is_ok()).collect();
            let part = similarity / common.len().max(1) as f32;
            let reached = items.iter().zip(&mut weights).filter(|(item, _)| theirs.binary_search(item).is_ok());
            for (_, weights) in reached {
                common.iter().for_each(|&place| weights[place] += part);
            }
        }
        let reasons = |weights: Vec<f32>| {
            let weighted = own.iter().zip(weights).filter(|(_, weight)| *weight > 0.0);
            weighted.map(|(&item, weight)| Reason::had(item, weight)).collect()
        };
        weights.into_iter().map(reasons).collect()
    }

    fn tensors(&self) -> Vec<Tensor> {
        self.neighbours.tensors()
    }

    fn restore(&mut self, tensors: &[Tensor], train: &Histories) -> Result<(), ModelError> {
        self.neighbours = Neighbours::restore(tensors, train.users())?;
        self.users = train.deduplicated();
        Ok(())
    }
}
