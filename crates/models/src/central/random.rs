//! Random scores, which every model should beat.
//!
//! score(u, i) is uniform in [0, 1), a function of (seed, u, i): any user can be scored alone, with the same result
//! each time.

use crate::registry::{CentralModel, ModelInfo};
use crate::{Fit, ModelError, Recommender, Summary, Tensor, stored};
use sottovoce_core::{Histories, Rng};

/// The registry's entry.
pub(super) const MODEL: CentralModel = CentralModel {
    info: ModelInfo::new("random", "Random").summary("Random scores, which every model should beat").paper("none"),
    schema: Vec::new,
    build: |_| Box::new(Random::default()),
};

#[derive(Default)]
struct Random {
    users: usize,
    items: usize,
    seed: u64,
}

impl Recommender for Random {
    fn fit(&mut self, train: &Histories, fit: &mut Fit<'_>) -> Result<Summary, ModelError> {
        *self = Self { users: train.users(), items: train.catalog_size(), seed: fit.seed };
        Ok(Summary::default())
    }

    fn score(&self, user: usize, into: &mut [f32]) {
        assert!(user < self.users, "user {user} of {}", self.users);
        assert_eq!(into.len(), self.items, "one score per item");
        let mut rng = Rng::new(self.seed).stream("random", user as u64);
        // An f32 below 1 has 24 significant bits.
        into.fill_with(|| (rng.next_u32() >> 8) as f32 / (1 << 24) as f32);
    }

    fn tensors(&self) -> Vec<Tensor> {
        vec![stored::indices("seed", [2], vec![(self.seed >> 32) as u32, self.seed as u32])]
    }

    fn restore(&mut self, tensors: &[Tensor], train: &Histories) -> Result<(), ModelError> {
        let halves = stored::take_indices(tensors, "seed", &[2])?;
        let seed = u64::from(halves[0]) << 32 | u64::from(halves[1]);
        *self = Self { users: train.users(), items: train.catalog_size(), seed };
        Ok(())
    }
}
