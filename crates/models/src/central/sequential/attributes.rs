//! Attributes of items: features of a knowledge graph where there is one, categories otherwise.

use crate::ModelError;
use crate::features;
use sottovoce_core::Catalog;
use std::sync::Arc;

/// Which attributes each item has.
#[derive(Debug, Default)]
pub(super) struct Attributes {
    offsets: Vec<usize>,
    attributes: Vec<u32>,
    count: usize,
}

impl Attributes {
    /// Of a catalog.
    ///
    /// # Errors
    /// If it has neither features nor categories.
    pub(super) fn of_catalog(model: &str, catalog: Option<&Catalog>) -> Result<Arc<Self>, ModelError> {
        let categories =
            catalog.filter(|catalog| catalog.facts.is_none()).and_then(|catalog| catalog.categories.as_ref());
        let mut all = Self { offsets: vec![0], ..Self::default() };
        if let Some(categories) = categories.filter(|categories| !categories.names().is_empty()) {
            all.count = categories.names().len();
            (0..categories.items()).for_each(|item| all.push(categories.of(item).iter().copied()));
        } else {
            let facts = features::of_catalog(model, catalog)?;
            all.count = facts.features();
            (0..facts.items()).for_each(|item| all.push(facts.of(item).iter()));
        }
        Ok(Arc::new(all))
    }

    fn push(&mut self, attributes: impl Iterator<Item = u32>) {
        self.attributes.extend(attributes);
        self.offsets.push(self.attributes.len());
    }

    /// An item's attributes; none of an item that the catalog does not have.
    pub(super) fn of(&self, item: u32) -> &[u32] {
        match self.offsets.get(item as usize..item as usize + 2) {
            Some(range) => &self.attributes[range[0]..range[1]],
            None => &[],
        }
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.count
    }
}
