//! What is known of the items as facts: the features that a knowledge graph, or plain attributes, give them.

use crate::Names;

/// Which features each item has, by item and by feature.
///
/// A feature is a chain of predicates and what it leads to: `director: Federico Fellini`, or, two hops away,
/// `director > birth place: Rimini`. Features are numbered from 0; memory is a few bytes for each fact and each feature.
///
/// ```
/// use sottovoce_core::Facts;
/// let facts = Facts::of_lists(&[("type: park", 1), ("city > country: Italy", 2)], &[vec![0], vec![], vec![1, 0]]);
/// assert_eq!((facts.of(2), facts.holders(0)), (&[0, 1][..], &[0, 2][..]));
/// assert_eq!((facts.name(1), facts.hops(1)), ("city > country: Italy", 2));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    names: Names,
    hops: Vec<u8>,
    /// By item: its features, ascending.
    by_item: Lists,
    /// By feature: the items that have it, ascending.
    by_feature: Lists,
}

/// Lists of numbers, one after the other.
#[derive(Clone, Debug, Default, PartialEq)]
struct Lists {
    ends: Vec<u32>,
    members: Vec<u32>,
}

impl Lists {
    fn push(&mut self, list: &[u32]) {
        self.members.extend_from_slice(list);
        self.ends.push(self.members.len() as u32);
    }

    #[inline]
    fn of(&self, place: usize) -> &[u32] {
        let start = if place == 0 { 0 } else { self.ends[place - 1] as usize };
        &self.members[start..self.ends[place] as usize]
    }

    /// The same the other way round: for each number below `numbers`, the places of the lists that hold it.
    fn turned(&self, numbers: usize) -> Lists {
        let mut ends = vec![0u32; numbers];
        self.members.iter().for_each(|&number| ends[number as usize] += 1);
        let mut sum = 0;
        for end in &mut ends {
            // For the moment where the list begins; filling moves it to its end.
            (*end, sum) = (sum, sum + *end);
        }
        let mut members = vec![0; self.members.len()];
        for place in 0..self.ends.len() {
            for &number in self.of(place) {
                let at = &mut ends[number as usize];
                members[*at as usize] = place as u32;
                *at += 1;
            }
        }
        Lists { ends, members }
    }

    fn heap_bytes(&self) -> usize {
        (self.ends.capacity() + self.members.capacity()) * size_of::<u32>()
    }
}

impl Facts {
    /// Features by their words and by how many hops away from an item they are, and each item's features in any order.
    ///
    /// # Panics
    /// If there is not one number of hops a feature, an item has a feature that is not there, or there are 2^32 facts.
    pub fn new<'a>(
        names: Names,
        hops: Vec<u8>,
        items: impl IntoIterator<Item = impl IntoIterator<Item = &'a u32>>,
    ) -> Self {
        assert_eq!(names.len(), hops.len(), "hops of each feature");
        let (mut by_item, mut own) = (Lists::default(), Vec::new());
        for features in items {
            own.clear();
            own.extend(features.into_iter().copied());
            own.sort_unstable();
            own.dedup();
            let last = own.last().copied();
            assert!(last.is_none_or(|last| (last as usize) < names.len()), "feature of {}", names.len());
            by_item.push(&own);
        }
        assert!(u32::try_from(by_item.members.len()).is_ok(), "facts hold at most 2^32");
        by_item.members.shrink_to_fit();
        let by_feature = by_item.turned(names.len());
        Self { names, hops, by_item, by_feature }
    }

    /// The same from lists; for examples and tests.
    ///
    /// # Panics
    /// As [`new`](Self::new).
    pub fn of_lists(features: &[(&str, u8)], items: &[Vec<u32>]) -> Self {
        let names = features.iter().map(|(name, _)| name).collect();
        Self::new(names, features.iter().map(|(_, hops)| *hops).collect(), items)
    }

    /// Number of items.
    pub fn items(&self) -> usize {
        self.by_item.ends.len()
    }

    /// Number of features.
    pub fn features(&self) -> usize {
        self.hops.len()
    }

    /// Number of facts: pairs of an item and a feature.
    pub fn len(&self) -> usize {
        self.by_item.members.len()
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.by_item.members.is_empty()
    }

    /// The features of an item, ascending.
    ///
    /// # Panics
    /// If there is no such item.
    #[inline]
    pub fn of(&self, item: usize) -> &[u32] {
        self.by_item.of(item)
    }

    /// The items that have a feature, ascending.
    ///
    /// # Panics
    /// If there is no such feature.
    #[inline]
    pub fn holders(&self, feature: usize) -> &[u32] {
        self.by_feature.of(feature)
    }

    /// A feature in words.
    ///
    /// # Panics
    /// If there is no such feature.
    pub fn name(&self, feature: usize) -> &str {
        &self.names[feature]
    }

    /// All features in words.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// How many hops away from an item a feature is, from 1.
    ///
    /// # Panics
    /// If there is no such feature.
    #[inline]
    pub fn hops(&self, feature: usize) -> u8 {
        self.hops[feature]
    }

    /// The same for the items in `items`, in that order; features keep their numbers.
    pub fn select(&self, items: &[u32]) -> Facts {
        let lists = items.iter().map(|&item| self.of(item as usize));
        Facts::new(self.names.clone(), self.hops.clone(), lists)
    }

    /// Bytes held on the heap.
    pub fn heap_bytes(&self) -> usize {
        let lists = self.by_item.heap_bytes() + self.by_feature.heap_bytes();
        self.names.heap_bytes() + self.hops.capacity() + lists
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_and_features_find_each_other_also_after_selecting() {
        let facts = Facts::of_lists(
            &[("a", 1), ("b", 2), ("c", 1), ("nobody has it", 1)],
            &[vec![2, 0, 2], vec![], vec![1], vec![1, 0]],
        );
        assert_eq!((facts.items(), facts.features(), facts.len()), (4, 4, 5));
        assert_eq!((facts.of(0), facts.of(1)), (&[0, 2][..], &[][..]));
        assert_eq!((facts.holders(1), facts.holders(3)), (&[2, 3][..], &[][..]));
        let fewer = facts.select(&[3, 0]);
        assert_eq!((fewer.of(0), fewer.of(1)), (&[0, 1][..], &[0, 2][..]));
        assert_eq!((fewer.holders(0), fewer.holders(1)), (&[0, 1][..], &[0][..]));
        assert_eq!(fewer.name(2), "c");
    }

    #[test]
    #[should_panic(expected = "feature of 1")]
    fn a_feature_that_is_not_there_is_refused() {
        Facts::of_lists(&[("a", 1)], &[vec![1]]);
    }
}
