//! Lists of numbers, one after the other, in two bytes a number where that is enough.

/// A list of ascending numbers.
#[derive(Clone, Copy, Debug)]
pub enum SortedIndices<'a> {
    /// All below 65,536.
    Short(&'a [u16]),
    /// Any.
    Long(&'a [u32]),
}

impl<'a> SortedIndices<'a> {
    /// How many there are.
    #[inline]
    pub fn len(self) -> usize {
        match self {
            SortedIndices::Short(list) => list.len(),
            SortedIndices::Long(list) => list.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Whether a number is among them.
    #[inline]
    pub fn contains(self, number: u32) -> bool {
        match self {
            SortedIndices::Short(list) => {
                u16::try_from(number).is_ok_and(|number| list.binary_search(&number).is_ok())
            }
            SortedIndices::Long(list) => list.binary_search(&number).is_ok(),
        }
    }

    /// Does something with each: the fastest way through, since it is asked only once how they are written.
    #[inline(always)]
    pub fn each(self, mut with: impl FnMut(u32)) {
        match self {
            SortedIndices::Short(list) => list.iter().for_each(|&number| with(u32::from(number))),
            SortedIndices::Long(list) => list.iter().for_each(|&number| with(number)),
        }
    }

    /// One after the other.
    #[inline]
    pub fn iter(self) -> impl ExactSizeIterator<Item = u32> + 'a {
        (0..self.len()).map(move |place| match self {
            SortedIndices::Short(list) => u32::from(list[place]),
            SortedIndices::Long(list) => list[place],
        })
    }

    /// The same in a list of its own.
    pub fn to_vec(self) -> Vec<u32> {
        self.iter().collect()
    }
}

/// Many such lists.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lists {
    ends: Vec<u32>,
    members: Members,
}

#[derive(Clone, Debug, PartialEq)]
enum Members {
    Short(Vec<u16>),
    Long(Vec<u32>),
}

impl Default for Lists {
    fn default() -> Self {
        Self::below(0)
    }
}

impl Lists {
    /// None yet, of numbers below `bound`.
    pub(crate) fn below(bound: usize) -> Self {
        let short = bound <= usize::from(u16::MAX) + 1;
        let members = if short { Members::Short(Vec::new()) } else { Members::Long(Vec::new()) };
        Self { ends: Vec::new(), members }
    }

    /// Appends a list of ascending numbers, all below the bound.
    pub(crate) fn push(&mut self, list: &[u32]) {
        match &mut self.members {
            Members::Short(members) => members.extend(list.iter().map(|&number| number as u16)),
            Members::Long(members) => members.extend_from_slice(list),
        }
        self.ends.push(self.all() as u32);
    }

    pub(crate) fn shrink(&mut self) {
        self.ends.shrink_to_fit();
        match &mut self.members {
            Members::Short(members) => members.shrink_to_fit(),
            Members::Long(members) => members.shrink_to_fit(),
        }
    }

    /// How many lists.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// How many numbers in all of them.
    pub(crate) fn all(&self) -> usize {
        match &self.members {
            Members::Short(members) => members.len(),
            Members::Long(members) => members.len(),
        }
    }

    #[inline]
    pub(crate) fn of(&self, place: usize) -> SortedIndices<'_> {
        let start = if place == 0 { 0 } else { self.ends[place - 1] as usize };
        let range = start..self.ends[place] as usize;
        match &self.members {
            Members::Short(members) => SortedIndices::Short(&members[range]),
            Members::Long(members) => SortedIndices::Long(&members[range]),
        }
    }

    /// The same the other way round: for each number below `numbers`, the places of the lists that hold it.
    pub(crate) fn turned(&self, numbers: usize) -> Lists {
        let mut ends = vec![0u32; numbers];
        let every = || (0..self.len()).map(|place| (place, self.of(place)));
        every().for_each(|(_, list)| list.each(|number| ends[number as usize] += 1));
        let mut sum = 0;
        for end in &mut ends {
            // For the moment where the list begins; filling moves it to its end.
            (*end, sum) = (sum, sum + *end);
        }
        let mut turned = Lists::below(self.len());
        match &mut turned.members {
            Members::Short(members) => members.resize(self.all(), 0),
            Members::Long(members) => members.resize(self.all(), 0),
        }
        for (place, list) in every() {
            list.each(|number| {
                let at = &mut ends[number as usize];
                match &mut turned.members {
                    Members::Short(members) => members[*at as usize] = place as u16,
                    Members::Long(members) => members[*at as usize] = place as u32,
                }
                *at += 1;
            });
        }
        Lists { ends, ..turned }
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
    fn short_and_long_lists_tell_the_same() {
        for bound in [70_000, 10] {
            let mut lists = Lists::below(bound);
            lists.push(&[0, 3, 9]);
            lists.push(&[]);
            lists.push(&[3]);
            assert_eq!((lists.len(), lists.all()), (3, 4));
            let first = lists.of(0);
            assert_eq!((first.to_vec(), first.len(), lists.of(1).is_empty()), (vec![0, 3, 9], 3, true));
            assert!(first.contains(9) && !first.contains(4) && !first.contains(65_536 + 9));
            let mut seen = Vec::new();
            first.each(|number| seen.push(number));
            assert_eq!(seen, first.to_vec());
            let turned = lists.turned(bound);
            assert_eq!((turned.of(3).to_vec(), turned.of(1).to_vec()), (vec![0, 2], vec![]));
        }
        assert!(matches!(Lists::below(65_536).members, Members::Short(_)));
        assert!(matches!(Lists::below(65_537).members, Members::Long(_)));
    }
}
