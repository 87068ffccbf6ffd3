//! Facts about items: the features that a knowledge graph, or plain attributes, give them.

use crate::Names;
use crate::front_coding::FrontCoded;
use crate::sorted_indices::{IndexLists, SortedIndices};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::OnceLock;

/// Which features each item has, by item and by feature.
///
/// A feature is a chain of predicates and its object: `director: Federico Fellini`, or, two hops away,
/// `director > birth place: Rimini`. A fact takes two to four bytes in each direction; names are front coded.
///
/// ```
/// use sottovoce_core::Facts;
/// let facts = Facts::of_lists(&[("type: park", 1), ("city > country: Italy", 2)], &[vec![0], vec![], vec![1, 0]]);
/// assert_eq!((facts.of(2).to_vec(), facts.items_with(0).to_vec()), (vec![0, 1], vec![0, 2]));
/// assert_eq!((facts.name(1).as_str(), facts.hops(1)), ("city > country: Italy", 2));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Facts {
    names: FrontCoded,
    hops: Vec<u8>,
    /// By item: its features, ascending.
    by_item: IndexLists,
    /// By feature: the items that have it, ascending. Computed on first use: training does not need it.
    by_feature: OnceLock<IndexLists>,
}

impl PartialEq for Facts {
    fn eq(&self, other: &Self) -> bool {
        (&self.names, &self.hops, &self.by_item) == (&other.names, &other.hops, &other.by_item)
    }
}

impl Facts {
    /// Features by name and by their distance from an item in hops, and each item's features in any order.
    ///
    /// # Panics
    /// If names and hops differ in number, an item has a feature that does not exist, or there are 2^32 facts.
    pub fn new<'a>(
        names: &Names,
        hops: Vec<u8>,
        items: impl IntoIterator<Item = impl IntoIterator<Item = &'a u32>>,
    ) -> Self {
        let mut facts = Self::of_features(names, hops);
        items.into_iter().for_each(|features| facts.push(features.into_iter().copied().collect()));
        facts.shrink();
        facts
    }

    /// Features without items.
    pub(crate) fn of_features(names: &Names, hops: Vec<u8>) -> Self {
        assert_eq!(names.len(), hops.len(), "hops of each feature");
        let by_item = IndexLists::below(names.len());
        Self { names: FrontCoded::new(names.iter()), hops, by_item, by_feature: OnceLock::new() }
    }

    /// The next item's features, in any order.
    pub(crate) fn push(&mut self, mut features: Vec<u32>) {
        features.sort_unstable();
        features.dedup();
        let last = features.last().copied();
        assert!(last.is_none_or(|last| (last as usize) < self.features()), "feature of {}", self.features());
        self.by_item.push(&features);
        assert!(u32::try_from(self.len()).is_ok(), "facts hold at most 2^32");
    }

    pub(crate) fn shrink(&mut self) {
        self.by_item.shrink();
        self.hops.shrink_to_fit();
    }

    /// No facts about so many items.
    pub fn none(items: usize) -> Self {
        let mut by_item = IndexLists::below(0);
        (0..items).for_each(|_| by_item.push(&[]));
        by_item.shrink();
        Self { by_item, ..Self::default() }
    }

    /// Items' categories and titles as facts, in order of their names: the same facts wherever the two come from. Of a
    /// title that ends in a year, as in `Cabiria (1957)`, the year and its decade count.
    pub fn of_content<'a, I>(items: impl Iterator<Item = (I, Option<&'a str>)> + Clone) -> Self
    where
        I: Iterator<Item = &'a str>,
    {
        let facts_of = |(categories, title): (I, Option<&'a str>)| {
            let year = title.and_then(year);
            let named = year.map(|year| [format!("year: {year}"), format!("decade: {}s", year / 10 * 10)]);
            categories.map(Cow::Borrowed).chain(named.into_iter().flatten().map(Cow::Owned))
        };
        let names: BTreeSet<Cow<'_, str>> = items.clone().flat_map(facts_of).collect();
        let names: Vec<Cow<'_, str>> = names.into_iter().collect();
        let number = |name| names.binary_search(&name).unwrap_or_default() as u32;
        let mut facts = Self::of_features(&names.iter().collect(), vec![1; names.len()]);
        items.for_each(|item| facts.push(facts_of(item).map(number).collect()));
        facts.shrink();
        facts
    }

    /// From lists; for examples and tests.
    ///
    /// # Panics
    /// As [`new`](Self::new).
    pub fn of_lists(features: &[(&str, u8)], items: &[Vec<u32>]) -> Self {
        let names: Names = features.iter().map(|(name, _)| name).collect();
        Self::new(&names, features.iter().map(|(_, hops)| *hops).collect(), items)
    }

    /// Number of items.
    pub fn items(&self) -> usize {
        self.by_item.len()
    }

    /// Number of features.
    pub fn features(&self) -> usize {
        self.hops.len()
    }

    /// Number of facts: pairs of an item and a feature.
    pub fn len(&self) -> usize {
        self.by_item.total()
    }

    /// Whether there is no fact.
    pub fn is_empty(&self) -> bool {
        self.by_item.total() == 0
    }

    /// The features of an item, ascending.
    ///
    /// # Panics
    /// If there is no such item.
    #[inline]
    pub fn of(&self, item: usize) -> SortedIndices<'_> {
        self.by_item.of(item)
    }

    /// The items that have a feature, ascending.
    ///
    /// # Panics
    /// If there is no such feature.
    #[inline]
    pub fn items_with(&self, feature: usize) -> SortedIndices<'_> {
        self.by_feature.get_or_init(|| self.by_item.transposed(self.features())).of(feature)
    }

    /// The name of a feature.
    ///
    /// # Panics
    /// If there is no such feature.
    pub fn name(&self, feature: usize) -> String {
        self.names.get(feature)
    }

    /// The names of all features.
    pub fn names(&self) -> Names {
        self.names.iter().collect()
    }

    /// The distance of a feature from an item in hops, from 1.
    ///
    /// # Panics
    /// If there is no such feature.
    #[inline]
    pub fn hops(&self, feature: usize) -> u8 {
        self.hops[feature]
    }

    /// The facts of the items in `items`, in that order; features keep their indices.
    pub fn select(&self, items: &[u32]) -> Facts {
        let mut by_item = IndexLists::below(self.features());
        items.iter().for_each(|&item| by_item.push(&self.of(item as usize).to_vec()));
        by_item.shrink();
        Facts { by_item, by_feature: OnceLock::new(), ..self.clone() }
    }

    /// A copy without the features that no item has; the others are renumbered.
    pub fn without_unused_features(&self) -> Facts {
        let kept: Vec<u32> = (0..self.features() as u32).filter(|&f| !self.items_with(f as usize).is_empty()).collect();
        let mut numbers = vec![0; self.features()];
        kept.iter().zip(0..).for_each(|(&old, new)| numbers[old as usize] = new);
        let lists: Vec<Vec<u32>> =
            (0..self.items()).map(|item| self.of(item).iter().map(|f| numbers[f as usize]).collect()).collect();
        let hops = kept.iter().map(|&feature| self.hops(feature as usize)).collect();
        Facts::new(&self.names().select(&kept), hops, &lists)
    }

    /// Bytes held on the heap.
    pub fn heap_bytes(&self) -> usize {
        let transposed = self.by_feature.get().map_or(0, IndexLists::heap_bytes);
        self.names.heap_bytes() + self.hops.capacity() + self.by_item.heap_bytes() + transposed
    }
}

/// The year in parentheses at the end of a title.
fn year(title: &str) -> Option<u16> {
    let digits = title.trim_end().strip_suffix(')')?.rsplit_once('(')?.1;
    digits.parse().ok().filter(|year| (1000..3000).contains(year))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn years_are_those_at_the_end_of_titles() {
        let none = ["1984", "Up (300)", "A (1990) B", ""].map(|title| (title, None));
        let cases = [("Cabiria (1957) ", Some(1957))].into_iter().chain(none);
        cases.for_each(|(title, expected)| assert_eq!(year(title), expected, "{title}"));
        let items = [(vec!["b", "a"], Some("X (1957)")), (vec![], Some("Y (1951)")), (vec!["b"], None)];
        let facts = Facts::of_content(items.iter().map(|(categories, title)| (categories.iter().copied(), *title)));
        let names: Vec<String> = (0..facts.features()).map(|feature| facts.name(feature)).collect();
        assert_eq!(names, ["a", "b", "decade: 1950s", "year: 1951", "year: 1957"]);
        assert_eq!((facts.of(0).to_vec(), facts.of(1).to_vec()), (vec![0, 1, 2, 4], vec![2, 3]));
    }

    #[test]
    fn items_and_features_stay_consistent_after_selecting() {
        let facts = Facts::of_lists(
            &[("a", 1), ("b", 2), ("c", 1), ("nobody has it", 1)],
            &[vec![2, 0, 2], vec![], vec![1], vec![1, 0]],
        );
        assert_eq!((facts.items(), facts.features(), facts.len()), (4, 4, 5));
        let lists = |facts: &Facts, items: [usize; 2]| items.map(|item| facts.of(item).to_vec());
        let holding = |facts: &Facts, features: [usize; 2]| features.map(|feature| facts.items_with(feature).to_vec());
        assert_eq!(lists(&facts, [0, 1]), [vec![0, 2], vec![]]);
        assert_eq!(holding(&facts, [1, 3]), [vec![2, 3], vec![]]);
        let fewer = facts.select(&[3, 0]);
        assert_eq!(lists(&fewer, [0, 1]), [vec![0, 1], vec![0, 2]]);
        assert_eq!(holding(&fewer, [0, 1]), [vec![0, 1], vec![0]]);
        assert_eq!(fewer.name(2), "c");
        let held = facts.select(&[0, 1]).without_unused_features();
        assert_eq!(lists(&held, [0, 1]), [vec![0, 1], vec![]]);
        assert_eq!((held.name(1).as_str(), held.hops(1), held.features()), ("c", 1, 2));
        assert_eq!(holding(&held, [0, 1]), [vec![0], vec![0]]);
    }

    #[test]
    fn none_know_their_items() {
        let none = Facts::none(3);
        assert_eq!((none.items(), none.features(), none.of(2).to_vec()), (3, 0, vec![]));
    }

    #[test]
    #[should_panic(expected = "feature of 1")]
    fn rejects_a_feature_that_does_not_exist() {
        Facts::of_lists(&[("a", 1)], &[vec![1]]);
    }
}
