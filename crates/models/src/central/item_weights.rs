//! Models that score an item by the sum of weights from the items of a history: a dense matrix of items by items.

use crate::{ModelError, Reason, Tensor, stored};
use sottovoce_core::Histories;

/// Largest catalog: a matrix in double precision and its weights then take 10 GiB.
const MAX_ITEMS: usize = 30_000;

/// The weights, and the histories that are scored.
#[derive(Default)]
pub(super) struct ItemWeights {
    pub(super) users: Histories,
    /// By rows: weights of item i for all items j.
    pub(super) weights: Vec<f32>,
}

impl ItemWeights {
    /// That a catalog is small enough for the model of this name.
    pub(super) fn check_size(name: &str, items: usize) -> Result<(), ModelError> {
        if items <= MAX_ITEMS {
            return Ok(());
        }
        let bytes = items as f64 * items as f64 * (size_of::<f64>() + size_of::<f32>()) as f64;
        let gib = bytes / f64::from(1 << 30);
        Err(ModelError::Data(format!(
            "{name} needs a dense matrix of {items} x {items} items, about {gib:.0} GiB; it takes at most {MAX_ITEMS} \
             items: raise --k-core or choose ease-low-rank, item-knn or ials"
        )))
    }

    pub(super) fn score(&self, history: &[u32], into: &mut [f32]) {
        let items = self.users.catalog_size();
        assert_eq!(into.len(), items, "one score per item");
        into.fill(0.0);
        for &item in history {
            for (score, weight) in into.iter_mut().zip(&self.weights[item as usize * items..][..items]) {
                *score += weight;
            }
        }
    }

    pub(super) fn reasons(&self, user: usize, of: &[u32]) -> Vec<Vec<Reason>> {
        let items = self.users.catalog_size();
        let weight = |owned: u32, item: u32| self.weights[owned as usize * items + item as usize];
        let reason = |&owned: &u32, item| Reason::had(owned, weight(owned, item));
        of.iter().map(|&item| self.users.of(user).iter().map(|owned| reason(owned, item)).collect()).collect()
    }

    pub(super) fn tensors(&self) -> Vec<Tensor> {
        let items = self.users.catalog_size();
        vec![stored::floats("weights", [items, items], self.weights.clone())]
    }

    pub(super) fn restore(&mut self, tensors: &[Tensor], train: &Histories) -> Result<(), ModelError> {
        let items = train.catalog_size();
        self.weights = stored::take_floats(tensors, "weights", &[items, items])?.to_vec();
        self.users = train.deduplicated();
        Ok(())
    }
}
