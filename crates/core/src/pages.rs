//! Web pages that a person read lately, as vectors.

use crate::ShapeError;
use std::ops::Deref;
use std::sync::Arc;

/// Pages as vectors of one length, each with the categories that it is about.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PageTable {
    dim: usize,
    vectors: Vec<f32>,
    categories: Vec<u32>,
    ends: Vec<usize>,
}

impl PageTable {
    /// An empty table of vectors of this length.
    pub fn new(dim: usize) -> Self {
        Self { dim, ..Self::default() }
    }

    /// Adds a page and returns its number.
    ///
    /// # Panics
    /// If the vector has another length.
    pub fn push(&mut self, vector: &[f32], categories: &[u32]) -> u32 {
        assert_eq!(vector.len(), self.dim, "a vector of this table's length");
        self.vectors.extend_from_slice(vector);
        self.categories.extend_from_slice(categories);
        self.ends.push(self.categories.len());
        self.ends.len() as u32 - 1
    }

    /// Number of pages.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Length of the vectors.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// A page's vector.
    pub fn vector(&self, page: u32) -> &[f32] {
        &self.vectors[page as usize * self.dim..][..self.dim]
    }

    /// A page's categories.
    pub fn categories(&self, page: u32) -> &[u32] {
        let page = page as usize;
        let start = if page == 0 { 0 } else { self.ends[page - 1] };
        &self.categories[start..self.ends[page]]
    }
}

/// Which pages each person read last, oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecentPages {
    table: Arc<PageTable>,
    offsets: Vec<usize>,
    pages: Vec<u32>,
}

impl RecentPages {
    /// From a list of pages for each person.
    ///
    /// # Errors
    /// If a page is not in the table.
    pub fn from_lists<L: AsRef<[u32]>>(table: Arc<PageTable>, lists: &[L]) -> Result<Self, ShapeError> {
        let (mut offsets, mut pages) = (vec![0], Vec::new());
        for (user, list) in lists.iter().enumerate() {
            if let Some(&item) = list.as_ref().iter().find(|&&page| page as usize >= table.len()) {
                return Err(ShapeError::ItemOutOfRange { user, item, items: table.len() });
            }
            pages.extend_from_slice(list.as_ref());
            offsets.push(pages.len());
        }
        Ok(Self { table, offsets, pages })
    }

    /// What one person read; nothing for people beyond the last.
    #[inline]
    pub fn of(&self, user: usize) -> Pages<'_> {
        match self.offsets.get(user..user + 2) {
            Some(&[start, end]) => Pages { table: Some(&self.table), pages: &self.pages[start..end] },
            _ => Pages::default(),
        }
    }

    /// Number of people.
    pub fn users(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// The pages.
    pub fn table(&self) -> &Arc<PageTable> {
        &self.table
    }
}

/// The pages that one person read last, oldest first; none by default.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pages<'a> {
    table: Option<&'a PageTable>,
    pages: &'a [u32],
}

impl<'a> Pages<'a> {
    /// These pages of a table.
    ///
    /// # Errors
    /// If a page is not in the table.
    pub fn new(table: &'a PageTable, pages: &'a [u32]) -> Result<Self, ShapeError> {
        match pages.iter().find(|&&page| page as usize >= table.len()) {
            Some(&item) => Err(ShapeError::ItemOutOfRange { user: 0, item, items: table.len() }),
            None => Ok(Self { table: Some(table), pages }),
        }
    }

    /// Length of the vectors; 0 where there are none.
    pub fn dim(&self) -> usize {
        self.table.map_or(0, PageTable::dim)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Vectors and categories, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&'a [f32], &'a [u32])> + use<'a> {
        let Self { table, pages } = *self;
        pages.iter().filter_map(move |&page| table.map(|table| (table.vector(page), table.categories(page))))
    }

    /// Those without any category that `excluded` names; `kept` lends the memory.
    #[must_use]
    pub fn without(self, mut excluded: impl FnMut(u32) -> bool, kept: &'a mut Vec<u32>) -> Self {
        let Some(table) = self.table else { return self };
        kept.clear();
        let is_kept = |page: &u32| !table.categories(*page).iter().any(|&category| excluded(category));
        kept.extend(self.pages.iter().copied().filter(is_kept));
        Self { table: Some(table), pages: kept }
    }
}

/// One person's history: their items and, for models that go by more, the order in which they came and the pages read
/// last. It is the list of items where a list is expected.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct History<'a> {
    /// The items: in time order for models that go by it, ascending and each once for others.
    pub items: &'a [u32],
    /// The same items in time order, repetitions included; empty for models that do not ask for it.
    pub sequence: &'a [u32],
    /// Pages read last.
    pub pages: Pages<'a>,
}

impl Deref for History<'_> {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        self.items
    }
}

impl<'a> From<&'a [u32]> for History<'a> {
    fn from(items: &'a [u32]) -> Self {
        Self { items, sequence: &[], pages: Pages::default() }
    }
}

impl<'a, const N: usize> From<&'a [u32; N]> for History<'a> {
    fn from(items: &'a [u32; N]) -> Self {
        Self::from(&items[..])
    }
}

impl<'a> From<&'a Vec<u32>> for History<'a> {
    fn from(items: &'a Vec<u32>) -> Self {
        Self::from(&items[..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_kept_by_person_and_left_out_by_category() {
        let mut table = PageTable::new(2);
        table.push(&[1.0, 2.0], &[4]);
        table.push(&[3.0, 4.0], &[5, 6]);
        table.push(&[5.0, 6.0], &[]);
        let recent = RecentPages::from_lists(Arc::new(table.clone()), &[vec![0, 1], vec![], vec![2, 1, 0]]).unwrap();
        assert_eq!((recent.users(), recent.of(0).iter().count(), recent.of(9)), (3, 2, Pages::default()));
        let mut kept = Vec::new();
        let without = recent.of(2).without(|category| category == 6, &mut kept);
        let vectors: Vec<&[f32]> = without.iter().map(|(vector, _)| vector).collect();
        assert_eq!(vectors, [&[5.0, 6.0], &[1.0, 2.0]]);
        assert!(Pages::new(&table, &[3]).is_err());
        assert!(RecentPages::from_lists(Arc::new(table), &[vec![3]]).is_err());
    }
}
