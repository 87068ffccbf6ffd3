//! The result of evaluating.

use crate::{Candidates, Metrics, PerUser, Popularity, RankedLists};
use serde::Serialize;
use std::collections::BTreeMap;

/// Everything that was found out about a set of lists.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// The measures, by cutoff.
    pub at: BTreeMap<usize, Metrics>,
    /// Each user's values.
    pub per_user: PerUser,
    /// The lists that were evaluated; those of a model are as long as the greatest cutoff.
    pub lists: RankedLists,
    /// How often each item was recommended, by cutoff.
    pub recommended: BTreeMap<usize, Vec<u32>>,
    /// Popularity of the items in training.
    pub popularity: Popularity,
    /// Which items competed; `None` for lists that came from elsewhere.
    pub candidates: Option<Candidates>,
}

/// What goes into files and onto the screen.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary<'a> {
    /// Number of users.
    pub users: usize,
    /// Of them, users with test items: those that accuracy is the mean of.
    pub users_with_test: usize,
    /// Size of the catalog.
    pub items: usize,
    /// Which items competed, in words; always says when they were sampled.
    pub candidates: String,
    /// The measures, by cutoff.
    pub at: &'a BTreeMap<usize, Metrics>,
}

impl Evaluation {
    /// The part to be printed.
    pub fn summary(&self) -> Summary<'_> {
        Summary {
            users: self.lists.users(),
            users_with_test: self.per_user.users.len(),
            items: self.lists.catalog_size(),
            candidates: self.candidates.map_or_else(|| "given lists".to_owned(), |all| all.to_string()),
            at: &self.at,
        }
    }

    /// Whether test items competed with a sample only.
    pub fn is_sampled(&self) -> bool {
        matches!(self.candidates, Some(Candidates::Sampled { .. }))
    }

    /// Recommendation counts, greatest first: how far lists repeat themselves.
    pub fn frequency_curve(&self, cutoff: usize) -> Option<Vec<u32>> {
        let mut counts = self.recommended.get(&cutoff)?.clone();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        Some(counts)
    }

    /// (Training interactions, recommendations) by item, most popular item first: how far lists follow popularity.
    pub fn popularity_curve(&self, cutoff: usize) -> Option<Vec<(u32, u32)>> {
        let counts = self.recommended.get(&cutoff)?;
        let pair = |&item: &u32| (self.popularity.counts()[item as usize], counts[item as usize]);
        Some(self.popularity.order().iter().map(pair).collect())
    }

    /// Share of the recommendations that are short-head items; the rest is long tail. `None` without any.
    pub fn head_share(&self, cutoff: usize) -> Option<f64> {
        let counts = self.recommended.get(&cutoff)?;
        let (mut head, mut all) = (0u64, 0u64);
        for (item, &count) in counts.iter().enumerate() {
            all += u64::from(count);
            head += if self.popularity.is_head(item as u32) { u64::from(count) } else { 0 };
        }
        (all > 0).then(|| head as f64 / all as f64)
    }
}
