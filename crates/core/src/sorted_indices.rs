//! IndexLists of numbers, one after the other, in two bytes a number where that is enough.

/// A sorted list of indices.
#[derive(Clone, Copy, Debug)]
pub enum SortedIndices<'a> {
    /// All below 65,536.
    Short(&'a [u16]),
    /// Any.
    Long(&'a [u32]),
}

impl<'a> SortedIndices<'a> {
    /// Length of the list.
    #[inline]
    pub fn len(self) -> usize {
        match self {
            SortedIndices::Short(list) => list.len(),
            SortedIndices::Long(list) => list.len(),
        }
    }

    /// Whether the list is empty.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Whether the list contains an index.
    #[inline]
    pub fn contains(self, number: u32) -> bool {
        match self {
            SortedIndices::Short(list) => u16::try_from(number).is_ok_and(|number| list.binary_search(&number).is_ok()),
            SortedIndices::Long(list) => list.binary_search(&number).is_ok(),
        }
    }

    /// Calls `with` for each index; the fastest loop, since the width is checked once.
    #[inline(always)]
    pub fn each(self, mut with: impl FnMut(u32)) {
        match self {
            SortedIndices::Short(list) => list.iter().for_each(|&number| with(u32::from(number))),
            SortedIndices::Long(list) => list.iter().for_each(|&number| with(number)),
        }
    }

    /// All indices in order.
    #[inline]
    pub fn iter(self) -> impl ExactSizeIterator<Item = u32> + 'a {
        (0..self.len()).map(move |n| match self {
            SortedIndices::Short(list) => u32::from(list[n]),
            SortedIndices::Long(list) => list[n],
        })
    }

    /// A copy as a vector.
    pub fn to_vec(self) -> Vec<u32> {
        self.iter().collect()
    }
}

/// Many sorted lists of indices, one after the other.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct IndexLists {
    ends: Vec<u32>,
    members: Members,
}

#[derive(Clone, Debug, PartialEq)]
enum Members {
    Short(Vec<u16>),
    Long(Vec<u32>),
}

impl Default for IndexLists {
    fn default() -> Self {
        Self::below(0)
    }
}

impl IndexLists {
    /// No list yet, of indices below `bound`.
    pub(crate) fn below(bound: usize) -> Self {
        let short = bound <= usize::from(u16::MAX) + 1;
        let members = if short { Members::Short(Vec::new()) } else { Members::Long(Vec::new()) };
        Self { ends: Vec::new(), members }
    }

    /// Appends a sorted list of indices below the bound.
    pub(crate) fn push(&mut self, list: &[u32]) {
        match &mut self.members {
            Members::Short(members) => members.extend(list.iter().map(|&number| number as u16)),
            Members::Long(members) => members.extend_from_slice(list),
        }
        self.ends.push(self.total() as u32);
    }

    pub(crate) fn shrink(&mut self) {
        self.ends.shrink_to_fit();
        match &mut self.members {
            Members::Short(members) => members.shrink_to_fit(),
            Members::Long(members) => members.shrink_to_fit(),
        }
    }

    /// Number of lists.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Number of indices in all lists.
    pub(crate) fn total(&self) -> usize {
        match &self.members {
            Members::Short(members) => members.len(),
            Members::Long(members) => members.len(),
        }
    }

    #[inline]
    pub(crate) fn of(&self, list_index: usize) -> SortedIndices<'_> {
        let start = if list_index == 0 { 0 } else { self.ends[list_index - 1] as usize };
        let range = start..self.ends[list_index] as usize;
        match &self.members {
            Members::Short(members) => SortedIndices::Short(&members[range]),
            Members::Long(members) => SortedIndices::Long(&members[range]),
        }
    }

    /// For each index below `numbers`, the lists that contain it.
    pub(crate) fn transposed(&self, numbers: usize) -> IndexLists {
        let mut ends = vec![0u32; numbers];
        let every = || (0..self.len()).map(|list_index| (list_index, self.of(list_index)));
        every().for_each(|(_, list)| list.each(|number| ends[number as usize] += 1));
        let mut sum = 0;
        for end in &mut ends {
            // First the start of the list; filling moves it to its end.
            (*end, sum) = (sum, sum + *end);
        }
        let mut transposed = IndexLists::below(self.len());
        match &mut transposed.members {
            Members::Short(members) => members.resize(self.total(), 0),
            Members::Long(members) => members.resize(self.total(), 0),
        }
        for (list_index, list) in every() {
            list.each(|number| {
                let at = &mut ends[number as usize];
                match &mut transposed.members {
                    Members::Short(members) => members[*at as usize] = list_index as u16,
                    Members::Long(members) => members[*at as usize] = list_index as u32,
                }
                *at += 1;
            });
        }
        IndexLists { ends, ..transposed }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let members = match &self.members {
            Members::Short(members) => members.capacity() * size_of::<u16>(),
            Members::Long(members) => members.capacity() * size_of::<u32>(),
        };
        self.ends.capacity() * size_of::<u32>() + members
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_lists_agree() {
        for bound in [70_000, 10] {
            let mut lists = IndexLists::below(bound);
            lists.push(&[0, 3, 9]);
            lists.push(&[]);
            lists.push(&[3]);
            assert_eq!((lists.len(), lists.total()), (3, 4));
            let first = lists.of(0);
            assert_eq!((first.to_vec(), first.len(), lists.of(1).is_empty()), (vec![0, 3, 9], 3, true));
            assert!(first.contains(9) && !first.contains(4) && !first.contains(65_536 + 9));
            let mut seen = Vec::new();
            first.each(|number| seen.push(number));
            assert_eq!(seen, first.to_vec());
            let transposed = lists.transposed(bound);
            assert_eq!((transposed.of(3).to_vec(), transposed.of(1).to_vec()), (vec![0, 2], vec![]));
        }
        assert!(matches!(IndexLists::below(65_536).members, Members::Short(_)));
        assert!(matches!(IndexLists::below(65_537).members, Members::Long(_)));
    }
}
