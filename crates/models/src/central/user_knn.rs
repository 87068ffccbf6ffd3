//! User-kNN: what people with a similar history have.
//!
//! P. Resnick, N. Iacovou, M. Suchak, P. Bergstrom, J. Riedl: GroupLens: An Open Architecture for Collaborative
//! Filtering of Netnews, CSCW 1994; here for histories without ratings.
//!
//! ```text
//! score(u, i) = sum of sim(u, v) over the k users v most similar to u who have i
//! ```

use super::neighbours::{self, Neighbours, Similarity};
use crate::registry::Model;
use crate::settings::Settings;
use crate::{Because, Fit, ModelError, Reason, Recommender, Summary, Tensor};
use sottovoce_core::Histories;

/// The registry's entry.
pub(super) const MODEL: Model = Model {
    name: "user-knn",
    title: "User-kNN",
    what: "What the users with the most similar histories have",
    paper: "Resnick, Iacovou, Suchak, Bergstrom, Riedl: GroupLens: An Open Architecture for Collaborative Filtering of Netnews. CSCW 1994",
    // The best of five pairs for MovieLens 1M and 100K together, on a validation part.
    settings: || neighbours::settings(100, 20.0),
    build: |settings| Box::new(UserKnn::new(settings)),
};

struct UserKnn {
    k: usize,
    similarity: Similarity,
    users: Histories,
    neighbours: Neighbours,
}

impl UserKnn {
    fn new(settings: &Settings) -> Self {
        Self {
            k: settings.integer("k"),
            similarity: Similarity::new(settings),
            users: neighbours::nobody(),
            neighbours: Neighbours::default(),
        }
    }
}

impl Recommender for UserKnn {
    fn fit(&mut self, train: &Histories, _: &mut Fit<'_>) -> Result<Summary, ModelError> {
        self.users = neighbours::distinct(train);
        self.neighbours = Neighbours::nearest(&self.users, &self.users.transposed(), self.k, self.similarity);
        Ok(Summary::default())
    }

    fn score(&self, user: usize, into: &mut [f32]) {
        assert_eq!(into.len(), self.users.catalog_size(), "one score an item");
        into.fill(0.0);
        for (neighbour, similarity) in self.neighbours.of(user) {
            for &item in self.users.of(neighbour as usize) {
                into[item as usize] += similarity;
            }
        }
    }

    fn reasons(&self, user: usize, item: u32) -> Vec<Reason> {
        let near = self.neighbours.of(user);
        let with_it = near.filter(|(near, _)| self.users.of(*near as usize).binary_search(&item).is_ok());
        let (people, weight) =
            with_it.fold((0, 0.0), |(people, sum), (_, weight)| (people + 1, sum + weight));
        if people == 0 {
            Vec::new()
        } else {
            vec![Reason { because: Because::Neighbours { people }, weight }]
        }
    }

    fn tensors(&self) -> Vec<Tensor> {
        self.neighbours.tensors()
    }

    fn restore(&mut self, tensors: &[Tensor], train: &Histories) -> Result<(), ModelError> {
        self.neighbours = Neighbours::restore(tensors, train.users())?;
        self.users = neighbours::distinct(train);
        Ok(())
    }
}
