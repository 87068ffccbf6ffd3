//! All users' interactions as one compressed sparse row matrix.

use crate::{History, Pages, RecentPages};
use std::sync::Arc;
use thiserror::Error;

/// Columns that do not form histories.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ShapeError {
    /// An item index is not below the number of items.
    #[error("user {user} has item {item}, but there are only {items} items")]
    ItemOutOfRange {
        /// The user's index.
        user: usize,
        /// The offending item.
        item: u32,
        /// Size of the catalog.
        items: usize,
    },
    /// Offsets do not start at 0, fall, or do not end at the number of interactions.
    #[error("offsets do not describe {interactions} interactions")]
    Offsets {
        /// Number of interactions.
        interactions: usize,
    },
    /// A column has another length than the items.
    #[error("{column} has {found} entries for {interactions} interactions")]
    Column {
        /// Name of the column.
        column: &'static str,
        /// Its length.
        found: usize,
        /// Number of interactions.
        interactions: usize,
    },
}

/// All users' histories: for each user the items in time order, with ratings and timestamps where there are any.
///
/// A compressed sparse row matrix. A row may be empty (all interactions of the user are held out) and may repeat an
/// item (sequences); `data` cleans. Training, validation and test parts of one data set are three `Histories` with the
/// same users and items.
#[derive(Clone, Debug, PartialEq)]
pub struct Histories {
    offsets: Vec<usize>,
    items: Vec<u32>,
    ratings: Vec<f32>,
    times: Vec<i64>,
    pages: Option<Arc<RecentPages>>,
    sequences: Option<Arc<Histories>>,
    catalog_size: usize,
}

impl Default for Histories {
    /// No users and no items.
    fn default() -> Self {
        Self::of_items(vec![0], Vec::new(), 0)
    }
}

impl Histories {
    /// Without ratings and times; the offsets must fit.
    fn of_items(offsets: Vec<usize>, items: Vec<u32>, catalog_size: usize) -> Self {
        Self { offsets, items, ratings: Vec::new(), times: Vec::new(), pages: None, sequences: None, catalog_size }
    }

    /// From raw columns. `ratings` and `times` may be empty.
    ///
    /// # Errors
    /// If the columns do not fit together.
    pub fn from_columns(
        offsets: Vec<usize>,
        items: Vec<u32>,
        ratings: Vec<f32>,
        times: Vec<i64>,
        catalog_size: usize,
    ) -> Result<Self, ShapeError> {
        let interactions = items.len();
        let rises = offsets.is_sorted() && offsets.first() == Some(&0) && offsets.last() == Some(&interactions);
        if !rises {
            return Err(ShapeError::Offsets { interactions });
        }
        for (column, found) in [("ratings", ratings.len()), ("times", times.len())] {
            if found != 0 && found != interactions {
                return Err(ShapeError::Column { column, found, interactions });
            }
        }
        if let Some(position) = items.iter().position(|&item| item as usize >= catalog_size) {
            let user = offsets.partition_point(|&offset| offset <= position) - 1;
            return Err(ShapeError::ItemOutOfRange { user, item: items[position], items: catalog_size });
        }
        Ok(Self { offsets, items, ratings, times, pages: None, sequences: None, catalog_size })
    }

    /// From one list of items a user: for tests and examples.
    ///
    /// # Errors
    /// If an item is not below `catalog_size`.
    pub fn from_lists<L: AsRef<[u32]>>(lists: &[L], catalog_size: usize) -> Result<Self, ShapeError> {
        let mut offsets = vec![0];
        let mut items = Vec::new();
        for list in lists {
            items.extend_from_slice(list.as_ref());
            offsets.push(items.len());
        }
        Self::from_columns(offsets, items, Vec::new(), Vec::new(), catalog_size)
    }

    /// Number of users.
    pub fn users(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Number of items in the catalog, whether anyone has them or not.
    pub fn catalog_size(&self) -> usize {
        self.catalog_size
    }

    /// Number of interactions of all users.
    pub fn interactions(&self) -> usize {
        self.items.len()
    }

    /// One user's items in time order.
    #[inline]
    pub fn of(&self, user: usize) -> &[u32] {
        &self.items[self.range(user)]
    }

    /// The same with the pages that each user read last.
    ///
    /// # Errors
    /// If they are not of as many users.
    pub fn with_pages(self, pages: Arc<RecentPages>) -> Result<Self, ShapeError> {
        match pages.users() {
            found if found == self.users() => Ok(Self { pages: Some(pages), ..self }),
            found => Err(ShapeError::Column { column: "pages by user", found, interactions: self.users() }),
        }
    }

    /// The pages that users read last, where they are known.
    pub fn pages(&self) -> Option<&Arc<RecentPages>> {
        self.pages.as_ref()
    }

    /// One user's items, with their sequence and the pages they read last where these are known.
    #[inline]
    pub fn history(&self, user: usize) -> History<'_> {
        let pages = self.pages.as_ref().map_or_else(Pages::default, |pages| pages.of(user));
        let sequence = self.sequences.as_ref().map_or(&[][..], |sequences| sequences.of(user));
        History { items: self.of(user), sequence, pages }
    }

    /// One user's ratings, parallel to [`of`](Self::of); empty if the set has none.
    pub fn ratings_of(&self, user: usize) -> &[f32] {
        if self.ratings.is_empty() { &[] } else { &self.ratings[self.range(user)] }
    }

    /// One user's timestamps, parallel to [`of`](Self::of); empty if the set has none.
    pub fn times_of(&self, user: usize) -> &[i64] {
        if self.times.is_empty() { &[] } else { &self.times[self.range(user)] }
    }

    /// Where a user's interactions lie in [`items`](Self::items).
    pub fn range(&self, user: usize) -> std::ops::Range<usize> {
        self.offsets[user]..self.offsets[user + 1]
    }

    /// Users' items, one user at a time.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u32]> + '_ {
        (0..self.users()).map(|user| self.of(user))
    }

    /// Row starts, and the number of interactions at the end.
    pub fn offsets(&self) -> &[usize] {
        &self.offsets
    }

    /// All items, user after user.
    pub fn items(&self) -> &[u32] {
        &self.items
    }

    /// All ratings, user after user; empty if the set has none.
    pub fn ratings(&self) -> &[f32] {
        &self.ratings
    }

    /// All timestamps, user after user; empty if the set has none.
    pub fn times(&self) -> &[i64] {
        &self.times
    }

    /// How many interactions each item has.
    pub fn popularity(&self) -> Vec<u32> {
        let mut counts = vec![0; self.catalog_size];
        for &item in &self.items {
            counts[item as usize] += 1;
        }
        counts
    }

    /// The matrix by item: for each item the users who have it, ascending.
    pub fn transposed(&self) -> Histories {
        let mut offsets = vec![0; self.catalog_size + 1];
        for &item in &self.items {
            offsets[item as usize + 1] += 1;
        }
        for item in 0..self.catalog_size {
            offsets[item + 1] += offsets[item];
        }
        let mut next = offsets.clone();
        let mut users = vec![0; self.items.len()];
        for user in 0..self.users() {
            for &item in self.of(user) {
                let slot = &mut next[item as usize];
                users[*slot] = user as u32;
                *slot += 1;
            }
        }
        Self::of_items(offsets, users, self.users())
    }

    /// A copy with each user's items ascending, without ratings and timestamps: for binary search.
    pub fn sorted(&self) -> Histories {
        let mut items = self.items.clone();
        for user in 0..self.users() {
            items[self.range(user)].sort_unstable();
        }
        Self { pages: self.pages.clone(), ..Self::of_items(self.offsets.clone(), items, self.catalog_size) }
    }

    /// A copy with each user's items ascending and distinct, without ratings and timestamps.
    pub fn deduplicated(&self) -> Histories {
        let sorted = self.sorted();
        let mut offsets = Vec::with_capacity(sorted.users() + 1);
        let mut items: Vec<u32> = Vec::with_capacity(sorted.interactions());
        offsets.push(0);
        for user in sorted.iter() {
            items.extend(user.chunk_by(|a, b| a == b).map(|same| same[0]));
            offsets.push(items.len());
        }
        Histories { offsets, items, ..sorted }
    }

    /// The same as [`deduplicated`](Self::deduplicated) gives, with each user's items in this order, repetitions
    /// included, as their [`sequence`](History::sequence).
    pub fn with_sequences(self) -> Histories {
        let items = self.deduplicated();
        Histories { sequences: Some(Arc::new(self)), ..items }
    }
}

/// Builds [`Histories`] user after user, in order.
#[derive(Debug)]
pub struct HistoriesBuilder {
    histories: Histories,
    with_ratings: bool,
    with_times: bool,
}

impl HistoriesBuilder {
    /// For a catalog of this size; states which of the other columns are stored.
    pub fn new(catalog_size: usize, with_ratings: bool, with_times: bool) -> Self {
        let histories = Histories::of_items(vec![0], Vec::new(), catalog_size);
        Self { histories, with_ratings, with_times }
    }

    /// Adds an interaction to the current user; a column that is not stored is ignored.
    ///
    /// # Errors
    /// If the item is not in the catalog.
    pub fn push(&mut self, item: u32, rating: f32, time: i64) -> Result<(), ShapeError> {
        let all = &mut self.histories;
        if item as usize >= all.catalog_size {
            return Err(ShapeError::ItemOutOfRange { user: all.users(), item, items: all.catalog_size });
        }
        all.items.push(item);
        if self.with_ratings {
            all.ratings.push(rating);
        }
        if self.with_times {
            all.times.push(time);
        }
        Ok(())
    }

    /// Ends the current user, who may have no interaction, and begins the next.
    pub fn end_user(&mut self) {
        self.histories.offsets.push(self.histories.items.len());
    }

    /// The histories of all users that were ended.
    pub fn finish(mut self) -> Histories {
        let ended = self.histories.offsets[self.histories.users()];
        self.histories.items.truncate(ended);
        self.histories.ratings.truncate(ended);
        self.histories.times.truncate(ended);
        self.histories
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rejects_columns_that_do_not_fit() {
        let wrong = Histories::from_lists(&[vec![0], vec![1, 7]], 3);
        assert_eq!(wrong, Err(ShapeError::ItemOutOfRange { user: 1, item: 7, items: 3 }));
        let wrong = Histories::from_columns(vec![0, 2, 1], vec![0], vec![], vec![], 1);
        assert_eq!(wrong, Err(ShapeError::Offsets { interactions: 1 }));
        let wrong = Histories::from_columns(vec![0, 1], vec![0], vec![1.0, 2.0], vec![], 1);
        assert_eq!(wrong, Err(ShapeError::Column { column: "ratings", found: 2, interactions: 1 }));
    }

    #[test]
    fn drops_a_user_that_was_not_ended() {
        let mut builder = HistoriesBuilder::new(3, true, false);
        builder.push(2, 4.0, 0).unwrap();
        builder.end_user();
        builder.end_user();
        builder.push(1, 5.0, 0).unwrap();
        let all = builder.finish();
        assert_eq!((all.users(), all.interactions()), (2, 1));
        assert_eq!((all.of(0), all.of(1)), (&[2][..], &[][..]));
        assert_eq!(all.ratings_of(0), [4.0]);
    }

    proptest! {
        #[test]
        fn transposing_twice_sorts_rows(lists in prop::collection::vec(prop::collection::vec(0u32..9, 0..12), 0..10)) {
            let all = Histories::from_lists(&lists, 9).unwrap();
            prop_assert_eq!(all.transposed().transposed(), all.sorted());
            let counts = all.popularity();
            for item in 0..9 {
                prop_assert_eq!(counts[item] as usize, all.transposed().of(item).len());
            }
        }
    }
}
