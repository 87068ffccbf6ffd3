//! Cleaning: rating threshold, repeated pairs, k-core, minimum history length.

use crate::interactions::{Interactions, group};
use serde::Serialize;

/// How to clean. The steps: threshold, repeated pairs, k-core, minimum number of interactions.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Cleaning {
    /// Keep users with at least this many interactions. ("More than 20" is 21.)
    pub min_interactions: Option<usize>,
    /// Keep the largest part in which every user and every item has at least this many interactions.
    pub k_core: Option<usize>,
    /// Keep interactions with at least this rating; without ratings in the set, all are kept.
    pub threshold: Option<f32>,
    /// Whether all interactions of a repeated (user, item) pair stay, for sequences; otherwise the earliest does (by
    /// time, then input order), for top-N models.
    pub keep_repeats: bool,
}

/// How much each step removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CleaningReport {
    /// Interactions before cleaning.
    pub before: usize,
    /// Interactions below the threshold.
    pub below_threshold: usize,
    /// Whether a threshold was asked for although the set has no ratings.
    pub threshold_without_ratings: bool,
    /// Later interactions of repeated pairs.
    pub repeated: usize,
    /// Interactions outside the k-core.
    pub outside_core: usize,
    /// Interactions of users with too few.
    pub of_sparse_users: usize,
    /// Users who are left with nothing.
    pub users_dropped: usize,
    /// Items without interactions.
    pub items_dropped: usize,
    /// Interactions that are left.
    pub after: usize,
}

impl CleaningReport {
    /// What was removed and why, one sentence each; empty if nothing was.
    pub fn messages(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut say = |count: usize, why: &str| {
            if count > 0 {
                lines.push(format!("{count} interactions left out: {why}"));
            }
        };
        say(self.below_threshold, "rated below the threshold");
        say(self.repeated, "a repeated pair of user and item, of which the earliest is kept");
        say(self.outside_core, "outside the core");
        say(self.of_sparse_users, "of users with too few");
        if self.threshold_without_ratings {
            lines.push("the threshold does nothing: the set has no ratings".to_owned());
        }
        lines
    }
}

/// Cleans interactions: threshold, repeated pairs, k-core, sparse users; then drops users and items without any.
///
/// The interactions that are left keep their order; users and items keep theirs, which is canonical.
pub fn clean(interactions: Interactions, how: &Cleaning) -> (Interactions, CleaningReport) {
    let mut report = CleaningReport { before: interactions.len(), ..CleaningReport::default() };
    let mut keep = vec![true; interactions.len()];
    if let Some(threshold) = how.threshold {
        report.threshold_without_ratings = interactions.rating.is_empty();
        report.below_threshold = drop_below(&interactions, threshold, &mut keep);
    }
    if !how.keep_repeats {
        report.repeated = drop_repeats(&interactions, &mut keep);
    }
    if let Some(k) = how.k_core {
        report.outside_core = drop_outside_core(&interactions, k, &mut keep);
    }
    if let Some(least) = how.min_interactions {
        report.of_sparse_users = drop_sparse_users(&interactions, least, &mut keep);
    }
    let rows: Vec<u32> = (0..keep.len() as u32).filter(|&row| keep[row as usize]).collect();
    let (users, items) = (interactions.users.len(), interactions.catalog.len());
    let left = interactions.select(&rows);
    drop(interactions);
    report.users_dropped = users - left.users.len();
    report.items_dropped = items - left.catalog.len();
    report.after = left.len();
    (left, report)
}

fn drop_below(all: &Interactions, threshold: f32, keep: &mut [bool]) -> usize {
    let mut dropped = 0;
    for (keep, &rating) in keep.iter_mut().zip(&all.rating) {
        *keep = rating >= threshold;
        dropped += usize::from(!*keep);
    }
    dropped
}

/// Linear: one pass over each user's rows, with the best row so far noted at the item.
fn drop_repeats(all: &Interactions, keep: &mut [bool]) -> usize {
    const NONE: u32 = u32::MAX;
    let (starts, rows) = group(&all.user, all.users.len());
    let mut owner = vec![NONE; all.catalog.len()];
    let mut earliest = vec![0u32; all.catalog.len()];
    let mut dropped = 0;
    for user in 0..all.users.len() {
        for &row in &rows[starts[user]..starts[user + 1]] {
            if !keep[row as usize] {
                continue;
            }
            let item = all.item[row as usize] as usize;
            if owner[item] != user as u32 {
                owner[item] = user as u32;
                earliest[item] = row;
                continue;
            }
            // Rows come in input order, so an equal time leaves the one before.
            let sooner = all.time_at(row as usize) < all.time_at(earliest[item] as usize);
            let loser = if sooner { std::mem::replace(&mut earliest[item], row) } else { row };
            keep[loser as usize] = false;
            dropped += 1;
        }
    }
    dropped
}

/// Removes users and items with fewer than `k` until there are none. Every interaction is visited at most twice.
fn drop_outside_core(all: &Interactions, k: usize, keep: &mut [bool]) -> usize {
    let (by_user, by_item) = (group(&all.user, all.users.len()), group(&all.item, all.catalog.len()));
    let mut degrees = [degrees(&all.user, all.users.len(), keep), degrees(&all.item, all.catalog.len(), keep)];
    let mut waiting: Vec<(usize, u32)> = Vec::new();
    for side in 0..2 {
        let few = degrees[side].iter().enumerate().filter(|(_, degree)| (1..k).contains(*degree));
        waiting.extend(few.map(|(node, _)| (side, node as u32)));
    }
    let mut dropped = 0;
    while let Some((side, node)) = waiting.pop() {
        let (starts, rows) = if side == 0 { &by_user } else { &by_item };
        let others = if side == 0 { &all.item } else { &all.user };
        for &row in &rows[starts[node as usize]..starts[node as usize + 1]] {
            if !std::mem::replace(&mut keep[row as usize], false) {
                continue;
            }
            dropped += 1;
            let degree = &mut degrees[1 - side][others[row as usize] as usize];
            *degree -= 1;
            // Only the step below k puts a node on the list, so each is there once.
            if *degree + 1 == k {
                waiting.push((1 - side, others[row as usize]));
            }
        }
    }
    dropped
}

fn degrees(column: &[u32], nodes: usize, keep: &[bool]) -> Vec<usize> {
    let mut degrees = vec![0; nodes];
    for (&node, _) in column.iter().zip(keep).filter(|(_, keep)| **keep) {
        degrees[node as usize] += 1;
    }
    degrees
}

fn drop_sparse_users(all: &Interactions, least: usize, keep: &mut [bool]) -> usize {
    let degrees = degrees(&all.user, all.users.len(), keep);
    let mut dropped = 0;
    for (keep, &user) in keep.iter_mut().zip(&all.user) {
        if *keep && degrees[user as usize] < least {
            *keep = false;
            dropped += 1;
        }
    }
    dropped
}
