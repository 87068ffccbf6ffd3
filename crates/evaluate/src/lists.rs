//! Ranked lists of items, one a user: a model's, or read from anybody's file.

use thiserror::Error;

/// Everyone's recommendations, best first; a list may be short or empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankedLists {
    offsets: Vec<usize>,
    items: Vec<u32>,
    catalog_size: usize,
}

impl RankedLists {
    /// From rows of `width` places of which the first `lengths[user]` are taken.
    pub(crate) fn from_rows(mut items: Vec<u32>, width: usize, lengths: &[u32], catalog_size: usize) -> Self {
        let mut offsets = Vec::with_capacity(lengths.len() + 1);
        offsets.push(0);
        let mut end = 0;
        for (user, &length) in lengths.iter().enumerate() {
            let start = user * width;
            items.copy_within(start..start + length as usize, end);
            end += length as usize;
            offsets.push(end);
        }
        items.truncate(end);
        Self { offsets, items, catalog_size }
    }

    /// Number of users.
    pub fn users(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Number of items in the catalog.
    pub fn catalog_size(&self) -> usize {
        self.catalog_size
    }

    /// One user's list, best first.
    pub fn of(&self, user: usize) -> &[u32] {
        &self.items[self.offsets[user]..self.offsets[user + 1]]
    }

    /// The first `k` of one user's list.
    pub fn top(&self, user: usize, k: usize) -> &[u32] {
        let list = self.of(user);
        &list[..k.min(list.len())]
    }

    /// All lists, user after user.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u32]> + '_ {
        (0..self.users()).map(|user| self.of(user))
    }
}

/// A line that does not belong into [`RankedLists`].
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum RankedListsError {
    /// A user beyond the last. Fields: the user's index; number of users.
    #[error("user {0} of {1}")]
    User(usize, usize),
    /// An item that is not in the catalog. Fields: the item's index; size of the catalog.
    #[error("item {0} of {1}")]
    Item(u32, usize),
    /// An item twice in one list. Fields: the user's index; the item's index.
    #[error("item {1} comes more than once in the list of user {0}")]
    Repeated(usize, u32),
}

/// What the numbers beside the items mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Higher is better.
    Score,
    /// Lower is better, from 0 or 1.
    Rank,
}

/// Collects [`RankedLists`] from lines in any order.
///
/// Equal values are ordered by ascending item; a value that is not a number comes last.
#[derive(Clone, Debug)]
pub struct RankedListsBuilder {
    order: Order,
    users: usize,
    catalog_size: usize,
    lines: Vec<(u32, u32, f64)>,
}

impl RankedListsBuilder {
    /// For this many users (at most 2^32) and items.
    pub fn new(users: usize, catalog_size: usize, order: Order) -> Self {
        Self { order, users, catalog_size, lines: Vec::new() }
    }

    /// Adds an item to a user's list.
    ///
    /// # Errors
    /// If there is no such user or item.
    pub fn push(&mut self, user: usize, item: u32, value: f64) -> Result<(), RankedListsError> {
        if user >= self.users {
            return Err(RankedListsError::User(user, self.users));
        }
        if item as usize >= self.catalog_size {
            return Err(RankedListsError::Item(item, self.catalog_size));
        }
        let worth = if self.order == Order::Rank { -value } else { value };
        self.lines.push((user as u32, item, worth));
        Ok(())
    }

    /// The lists, each best first.
    ///
    /// # Errors
    /// If a list has an item twice.
    pub fn finish(mut self) -> Result<RankedLists, RankedListsError> {
        self.lines.sort_unstable_by_key(|&(user, item, _)| (user, item));
        if let Some(pair) = self.lines.windows(2).find(|pair| (pair[0].0, pair[0].1) == (pair[1].0, pair[1].1)) {
            return Err(RankedListsError::Repeated(pair[0].0 as usize, pair[0].1));
        }
        // Not-a-number last; 0 and -0 are equal. The sort is stable: of equal values, the lower item comes first.
        let best_first = |a: f64, b: f64| b.partial_cmp(&a).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()));
        self.lines.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| best_first(a.2, b.2)));
        let mut offsets = vec![0; self.users + 1];
        for &(user, _, _) in &self.lines {
            offsets[user as usize + 1] += 1;
        }
        for user in 0..self.users {
            offsets[user + 1] += offsets[user];
        }
        let items = self.lines.iter().map(|line| line.1).collect();
        Ok(RankedLists { offsets, items, catalog_size: self.catalog_size })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(order: Order, lines: &[(usize, u32, f64)]) -> Result<RankedLists, RankedListsError> {
        let mut builder = RankedListsBuilder::new(3, 10, order);
        for &(user, item, value) in lines {
            builder.push(user, item, value)?;
        }
        builder.finish()
    }

    #[test]
    fn builder_sorts_lines_and_breaks_ties_by_item() {
        let nan = f64::NAN;
        let lines =
            [(2, 7, 0.5), (0, 4, nan), (0, 9, -0.0), (2, 1, 0.5), (0, 3, f64::NEG_INFINITY), (0, 8, 0.0), (2, 2, 0.9)];
        let lists = build(Order::Score, &lines).unwrap();
        assert_eq!(lists.of(0), [8, 9, 3, 4]);
        assert_eq!(lists.of(1), [0u32; 0]);
        assert_eq!(lists.of(2), [2, 1, 7]);
        assert_eq!(lists.top(2, 2), [2, 1]);
    }

    #[test]
    fn lower_ranks_are_better() {
        let lists = build(Order::Rank, &[(1, 5, 3.0), (1, 6, 1.0), (1, 2, 2.0)]).unwrap();
        assert_eq!(lists.of(1), [6, 2, 5]);
    }

    #[test]
    fn rejects_unknown_users_and_items_and_repeats() {
        let refused = |lines: &[_]| build(Order::Score, lines).unwrap_err();
        assert_eq!(refused(&[(3, 0, 1.0)]), RankedListsError::User(3, 3));
        assert_eq!(refused(&[(0, 10, 1.0)]), RankedListsError::Item(10, 10));
        let twice = [(1, 4, 1.0), (0, 4, 1.0), (1, 4, 0.5)];
        assert_eq!(refused(&twice), RankedListsError::Repeated(1, 4));
    }

    #[test]
    fn from_rows_packs_rows() {
        let lists = RankedLists::from_rows(vec![1, 2, 3, 9, 4, 9, 9, 9, 5, 9, 9, 9], 4, &[3, 1, 0 /* none */], 10);
        assert_eq!(lists.iter().collect::<Vec<_>>(), [&[1, 2, 3][..], &[4], &[]]);
    }
}
