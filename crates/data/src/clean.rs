//! Cleaning: rating threshold, repeated pairs, k-core, minimum history length, random sample of users.

use crate::interactions::{Interactions, group};
use serde::Serialize;
use sottovoce_core::Rng;

/// How to clean. The steps: threshold, repeated pairs, k-core, minimum number of interactions, sample of users.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Cleaning {
    /// Keep users with at least this many interactions. ("More than 20" is 21.)
    pub min_interactions: Option<usize>,
    /// Keep the largest part in which every user and every item has at least this many interactions.
    pub k_core: Option<usize>,
    /// Keep interactions with at least this rating; without ratings in the set, all are kept.
    pub threshold: Option<f32>,
    /// Which interactions of a repeated (user, item) pair stay.
    pub repeats: Repeats,
    /// Keep a random sample of the users who are left; all of them if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_sample: Option<UserSample>,
}

/// Which interactions of a repeated (user, item) pair stay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Repeats {
    /// The earliest; of equal times, the first in the input.
    #[default]
    Earliest,
    /// The latest; of equal times, the last in the input.
    Latest,
    /// All of them, for sequences.
    Keep,
}

impl Repeats {
    /// Its names in files and on the command line.
    pub const NAMES: [(&'static str, Repeats); 3] =
        [("earliest", Repeats::Earliest), ("latest", Repeats::Latest), ("keep", Repeats::Keep)];
}

/// A random sample of users. Samples with one seed are nested: a smaller share keeps some of the users of a larger one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct UserSample {
    /// The share of the users that is kept, above 0 and up to 1; at least one user is.
    pub share: f64,
    /// Determines the draw.
    pub seed: u64,
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
    /// Interactions of repeated pairs, but for the one that stays.
    pub repeated: usize,
    /// Which one stays.
    pub repeats: Repeats,
    /// Interactions outside the k-core.
    pub outside_core: usize,
    /// Interactions of users with too few.
    pub of_sparse_users: usize,
    /// Interactions of users who are not in the random sample.
    pub outside_sample: usize,
    /// The random sample: users in it, and users it was drawn from.
    pub sampled: Option<(usize, usize)>,
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
        let kept = if self.repeats == Repeats::Latest { "latest" } else { "earliest" };
        say(self.repeated, &format!("a repeated pair of user and item, of which the {kept} is kept"));
        say(self.outside_core, "outside the core");
        say(self.of_sparse_users, "of users with too few");
        if let Some((sampled, of)) = self.sampled {
            say(self.outside_sample, &format!("the random sample has {sampled} of {of} users"));
        }
        if self.threshold_without_ratings {
            lines.push("the threshold does nothing: the set has no ratings".to_owned());
        }
        lines
    }
}

/// Cleans interactions: threshold, repeated pairs, k-core, sparse users, sample of users; then drops users and items
/// without any.
///
/// The interactions that are left keep their order; users and items keep theirs, which is canonical.
pub fn clean(interactions: Interactions, how: &Cleaning) -> (Interactions, CleaningReport) {
    let (before, repeats) = (interactions.len(), how.repeats);
    let mut report = CleaningReport { before, repeats, ..CleaningReport::default() };
    let mut keep = vec![true; interactions.len()];
    if let Some(threshold) = how.threshold {
        report.threshold_without_ratings = interactions.rating.is_empty();
        report.below_threshold = drop_below(&interactions, threshold, &mut keep);
    }
    if how.repeats != Repeats::Keep {
        report.repeated = drop_repeats(&interactions, how.repeats, &mut keep);
    }
    if let Some(k) = how.k_core {
        report.outside_core = drop_outside_core(&interactions, k, &mut keep);
    }
    if let Some(least) = how.min_interactions {
        report.of_sparse_users = drop_sparse_users(&interactions, least, &mut keep);
    }
    if let Some(sample) = how.user_sample {
        let (sampled, of, interactions) = drop_outside_sample(&interactions, sample, &mut keep);
        report.sampled = Some((sampled, of));
        report.outside_sample = interactions;
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

/// Linear: one pass over each user's rows, with the row that stays so far noted at the item.
fn drop_repeats(all: &Interactions, repeats: Repeats, keep: &mut [bool]) -> usize {
    const NONE: u32 = u32::MAX;
    let (starts, rows) = group(&all.user, all.users.len());
    let mut owner = vec![NONE; all.catalog.len()];
    let mut best = vec![0u32; all.catalog.len()];
    let mut dropped = 0;
    for user in 0..all.users.len() {
        for &row in &rows[starts[user]..starts[user + 1]] {
            if !keep[row as usize] {
                continue;
            }
            let item = all.item[row as usize] as usize;
            if owner[item] != user as u32 {
                owner[item] = user as u32;
                best[item] = row;
                continue;
            }
            // Rows come in input order: of equal times the one before is the earliest, this one the latest.
            let (time, other) = (all.time_at(row as usize), all.time_at(best[item] as usize));
            let better = if repeats == Repeats::Latest { time >= other } else { time < other };
            let loser = if better { std::mem::replace(&mut best[item], row) } else { row };
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

/// Keeps the users with the smallest random numbers: users in the sample, users before, interactions dropped. A user's
/// number depends on the seed and the id alone, which makes the samples nested.
fn drop_outside_sample(all: &Interactions, sample: UserSample, keep: &mut [bool]) -> (usize, usize, usize) {
    let rng = Rng::new(sample.seed).stream("user sample", 0);
    let degrees = degrees(&all.user, all.users.len(), keep);
    let left = (0..all.users.len()).filter(|&user| degrees[user] > 0);
    let mut drawn: Vec<(u64, usize)> = left.map(|user| (rng.stream(&all.users[user], 0).next_u64(), user)).collect();
    drawn.sort_unstable();
    let of = drawn.len();
    let sampled = ((sample.share * of as f64).round() as usize).clamp(1.min(of), of);
    let mut is_in = vec![false; all.users.len()];
    drawn[..sampled].iter().for_each(|&(_, user)| is_in[user] = true);
    let mut dropped = 0;
    for (keep, &user) in keep.iter_mut().zip(&all.user) {
        if *keep && !is_in[user as usize] {
            *keep = false;
            dropped += 1;
        }
    }
    (sampled, of, dropped)
}
