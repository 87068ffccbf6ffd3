//! Most popular: every user gets the items with the most interactions.
//!
//! score(u, i) = number of interactions with i in the training set.

use crate::registry::{CentralModel, ModelInfo};
use crate::{Because, Fit, ModelError, Reason, ReasonKind, Recommender, Summary, Tensor, stored};
use sottovoce_core::{Histories, History};

/// The registry's entry.
pub(super) const MODEL: CentralModel = CentralModel {
    info: ModelInfo::new("mostpop", "MostPop")
        .summary("The items with the most interactions, the same for everyone")
        .paper("none"),
    schema: Vec::new,
    build: |_| Box::new(MostPop::default()),
};

#[derive(Default)]
struct MostPop {
    users: usize,
    counts: Vec<u32>,
}

impl Recommender for MostPop {
    fn fit(&mut self, train: &Histories, _: &mut Fit<'_>) -> Result<Summary, ModelError> {
        *self = Self { users: train.users(), counts: train.popularity() };
        Ok(Summary::default())
    }

    fn score(&self, user: usize, into: &mut [f32]) {
        assert!(user < self.users, "user {user} of {}", self.users);
        self.score_newcomer(History::default(), into);
    }

    fn score_newcomer(&self, _: History<'_>, into: &mut [f32]) -> bool {
        assert_eq!(into.len(), self.counts.len(), "one score per item");
        for (score, &count) in into.iter_mut().zip(&self.counts) {
            *score = count as f32;
        }
        true
    }

    fn reason_kind(&self) -> ReasonKind {
        ReasonKind::Shares
    }

    fn reasons(&self, _: usize, items: &[u32]) -> Vec<Vec<Reason>> {
        let people = items.iter().map(|&item| self.counts[item as usize]);
        people.map(|people| vec![Reason { because: Because::Popular { people }, weight: people as f32 }]).collect()
    }

    fn tensors(&self) -> Vec<Tensor> {
        vec![stored::indices("counts", [self.counts.len()], self.counts.clone())]
    }

    fn restore(&mut self, tensors: &[Tensor], train: &Histories) -> Result<(), ModelError> {
        let counts = stored::take_indices(tensors, "counts", &[train.catalog_size()])?.to_vec();
        *self = Self { users: train.users(), counts };
        Ok(())
    }
}
