//! Random: a score for each user and item drawn by the seed. The floor below which no model should fall.
//!
//! score(u, i) is uniform in [0, 1), a hash of (seed, u, i): any user can be scored alone and always gets the same.

use crate::registry::Model;
use crate::settings::Settings;
use crate::stored;
use crate::{Fit, ModelError, Recommender, Summary, Tensor};
use sottovoce_core::{Histories, Rng};

/// The registry's entry.
pub(super) const MODEL: Model = Model {
    name: "random",
    title: "Random",
    what: "Scores drawn at random: the floor",
    paper: "none",
    settings: Vec::new,
    build: |_: &Settings| Box::new(Random::default()),
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
        assert_eq!(into.len(), self.items, "one score an item");
        let mut rng = Rng::new(self.seed).stream("random", user as u64);
        // 24 bits are all that an f32 below 1 can tell apart.
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
