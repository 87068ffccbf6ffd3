//! The catalog: items with their ids, titles, categories and facts.

use crate::{Facts, Names};
use std::sync::Arc;

/// The items of a data set or a server: their ids and, where the set has them, titles, categories and facts.
///
/// Everything is by item index, the same index that [`Histories`](crate::Histories) use.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Catalog {
    /// The items' ids as the data set writes them.
    pub ids: Names,
    /// Titles by item, empty where an item has none; `None` if the set has no titles.
    pub titles: Option<Names>,
    /// Categories (genres, venue types, tags) by item; `None` if the set has none.
    pub categories: Option<Categories>,
    /// Features from a knowledge graph; `None` if there is none. Shared, because it is large.
    pub facts: Option<Arc<Facts>>,
}

impl Catalog {
    /// A catalog with ids only.
    pub fn of_ids(ids: Names) -> Self {
        Self { ids, ..Self::default() }
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there is no item.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The title of an item, if it has one that is not empty.
    pub fn title(&self, item: usize) -> Option<&str> {
        self.titles.as_ref()?.get(item).filter(|title| !title.is_empty())
    }

    /// What is known of the items' content: the facts, or else categories and titles as facts, or else no fact about
    /// any item.
    pub fn content(&self) -> Arc<Facts> {
        if let Some(facts) = self.facts.as_ref().filter(|facts| facts.features() > 0) {
            return Arc::clone(facts);
        }
        let names = |item| {
            let categories = self.categories.iter().filter(move |categories| item < categories.items());
            categories.flat_map(move |of| of.of(item).iter().filter_map(|&name| of.names().get(name as usize)))
        };
        Arc::new(Facts::of_content((0..self.len()).map(|item| (names(item), self.title(item)))))
    }

    /// The catalog of the items in `items`, in that order; categories and features keep their indices.
    pub fn select(&self, items: &[u32]) -> Catalog {
        Catalog {
            ids: self.ids.select(items),
            titles: self.titles.as_ref().map(|titles| titles.select(items)),
            categories: self.categories.as_ref().map(|categories| categories.select(items)),
            facts: self.facts.as_ref().map(|facts| Arc::new(facts.select(items))),
        }
    }
}

/// Which categories each item has; an item may have several or none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Categories {
    names: Names,
    ends: Vec<u32>,
    members: Vec<u32>,
}

impl Categories {
    /// No item yet; the categories have these names.
    pub fn new(names: Names) -> Self {
        Self { names, ends: Vec::new(), members: Vec::new() }
    }

    /// Appends the next item's categories (repeats are dropped).
    ///
    /// # Panics
    /// If a category is not below the number of names.
    pub fn push(&mut self, categories: impl IntoIterator<Item = u32>) {
        let start = self.members.len();
        for category in categories {
            assert!((category as usize) < self.names.len(), "category {category} of {}", self.names.len());
            if !self.members[start..].contains(&category) {
                self.members.push(category);
            }
        }
        self.members[start..].sort_unstable();
        self.ends.push(self.members.len() as u32);
    }

    /// The categories of an item, ascending.
    pub fn of(&self, item: usize) -> &[u32] {
        let start = if item == 0 { 0 } else { self.ends[item - 1] as usize };
        &self.members[start..self.ends[item] as usize]
    }

    /// The categories' names.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Number of items.
    pub fn items(&self) -> usize {
        self.ends.len()
    }

    /// The categories of the items in `items`, in that order.
    pub fn select(&self, items: &[u32]) -> Categories {
        let mut chosen = Categories::new(self.names.clone());
        for &item in items {
            chosen.push(self.of(item as usize).iter().copied());
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn select_keeps_titles_categories_and_facts() {
        let mut categories = Categories::new(["drama", "comedy"].into_iter().collect());
        categories.push([1, 0, 1]);
        categories.push([]);
        categories.push([1]);
        let catalog = Catalog {
            ids: ["a", "b", "c"].into_iter().collect(),
            titles: Some(["A", "", "C"].into_iter().collect()),
            categories: Some(categories),
            facts: Some(Arc::new(Facts::of_lists(&[("x", 1)], &[vec![], vec![0], vec![]]))),
        };
        let chosen = catalog.select(&[2, 1]);
        assert_eq!(chosen.title(0), Some("C"));
        assert_eq!(chosen.title(1), None);
        assert_eq!(chosen.content(), chosen.facts.clone().unwrap());
        let content = Catalog { facts: None, ..chosen.clone() }.content();
        assert_eq!((content.of(0).to_vec(), content.name(0), content.items()), (vec![0], "comedy".to_owned(), 2));
        assert_eq!(Catalog::of_ids(chosen.ids.clone()).content().items(), 2);
        assert_eq!(chosen.facts.unwrap().items_with(0).to_vec(), [1]);
        let categories = chosen.categories.unwrap();
        assert_eq!(categories.of(0), [1]);
        assert_eq!(categories.of(1), [0u32; 0]);
        assert_eq!(catalog.categories.unwrap().of(0), [0, 1]);
    }
}
