//! User-kNN: items of the users with the most similar histories.
//!
//! P. Resnick, N. Iacovou, M. Suchak, P. Bergstrom, J. Riedl: GroupLens: An Open Architecture for Collaborative
//! Filtering of Netnews, CSCW 1994; here for histories without ratings.
//!
//! ```text
//! score(u, i) = sum of sim(u, v) over the k users v most similar to u who have i
//! ```

use super::neighbours::{NeighbourConfig, Neighbours};
use crate::registry::{CentralModel, ModelInfo};
use crate::settings::Config;
use crate::{Because, Fit, ModelError, Reason, Recommender, Summary, Tensor};
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

    fn reasons(&self, user: usize, item: u32) -> Vec<Reason> {
        let neighbours = self.neighbours.of(user);
        let owners = neighbours.filter(|(near, _)| self.users.of(*near as usize).binary_search(&item).is_ok());
        let (people, weight) = owners.fold((0, 0.0), |(people, sum), (_, weight)| (people + 1, sum + weight));
        if people == 0 { Vec::new() } else { vec![Reason { because: Because::Neighbours { people }, weight }] }
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
