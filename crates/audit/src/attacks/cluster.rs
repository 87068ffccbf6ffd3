//! What a device's cluster says about its owner, where devices are clustered by their models and uploads are not
//! sealed.
//!
//! The attacker has accounts of its own in the federation and knows their histories. With f_u(c) the fraction of u's
//! uploads that are of cluster c, an item scores
//! ```text
//! sum over c of f_u(c) (sum over own accounts a with the item of f_a(c) + w popularity) / (sum over a of f_a(c) + w)
//! ```
//! where popularity is how many users have the item, as a fraction of those who have the most popular one, with the
//! weight w of a few accounts. A subject that is an own account itself does not count for its own score.

use crate::Subjects;
use std::collections::BTreeMap;

/// Uploads of one subject by cluster.
pub(crate) type Memberships = BTreeMap<u32, u32>;

/// Accounts that popularity weighs as much as.
const PRIOR: f32 = 5.0;

/// Scores of all items for each subject that uploaded anything.
pub(crate) fn scores(
    subjects: &Subjects,
    memberships: &[Memberships],
    is_own: fn(usize) -> bool,
) -> Vec<Option<Vec<f32>>> {
    let mut clusters: BTreeMap<u32, (f32, Vec<f32>)> = BTreeMap::new();
    for (index, of_subject) in memberships.iter().enumerate().filter(|(index, _)| is_own(*index)) {
        for (cluster, share) in shares(of_subject) {
            let (accounts, items) = clusters.entry(cluster).or_insert_with(|| (0.0, vec![0.0; subjects.items()]));
            *accounts += share;
            subjects.history(index).iter().for_each(|&item| items[item as usize] += share);
        }
    }
    let most = subjects.popularity.iter().fold(1.0f32, |most, &users| most.max(users));
    let score = |(index, of_subject): (usize, &Memberships)| {
        if of_subject.is_empty() {
            return None;
        }
        let mut scores = vec![0.0; subjects.items()];
        for (cluster, share) in shares(of_subject) {
            let known = clusters.get(&cluster);
            let own = if is_own(index) { share } else { 0.0 };
            let accounts = known.map_or(0.0, |(accounts, _)| accounts - own);
            for (item, score) in scores.iter_mut().enumerate() {
                let have = known.map_or(0.0, |(_, items)| items[item]);
                *score += share * (have + PRIOR * subjects.popularity[item] / most) / (accounts + PRIOR);
            }
            for &item in subjects.history(index).iter().filter(|_| own > 0.0) {
                scores[item as usize] -= share * own / (accounts + PRIOR);
            }
        }
        Some(scores)
    };
    memberships.iter().enumerate().map(score).collect()
}

/// Fractions of uploads by cluster.
fn shares(memberships: &Memberships) -> impl Iterator<Item = (u32, f32)> {
    let all: u32 = memberships.values().sum();
    memberships.iter().map(move |(&cluster, &uploads)| (cluster, uploads as f32 / all.max(1) as f32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sottovoce_core::Histories;

    /// Two tastes: even users have items below 10, odd ones the rest.
    fn subjects() -> Subjects {
        let lists: Vec<Vec<u32>> =
            (0..40u32).map(|user| (0..5).map(|n| (user % 2) * 10 + (user / 2 + 2 * n) % 10).collect()).collect();
        Subjects::draw(&Histories::from_lists(&lists, 20).unwrap(), None, 40, 1)
    }

    #[test]
    fn clusters_that_follow_taste_tell_it_and_others_do_not() {
        let (subjects, own) = (subjects(), (|index| index % 4 < 2) as fn(usize) -> bool);
        let of = |cluster: &dyn Fn(u32) -> u32| -> Vec<Memberships> {
            (0..40).map(|user| Memberships::from([(cluster(user), 3)])).collect()
        };
        let right = |scores: &[f32], user: usize| {
            let (low, high) = scores.split_at(10);
            let [low, high] = [low, high].map(|half| half.iter().sum::<f32>());
            if user.is_multiple_of(2) { low - high } else { high - low }
        };
        let telling = scores(&subjects, &of(&|user| user % 2), own);
        assert!((0..40).all(|user| right(telling[user].as_ref().unwrap(), user) > 2.0));
        let silent = scores(&subjects, &of(&|_| 7), own);
        // An own account's history does not count for itself.
        assert!((0..40).all(|user| right(silent[user].as_ref().unwrap(), user).abs() < 0.5), "{silent:?}");
        let nobody = scores(&subjects, &vec![Memberships::new(); 40], own);
        assert!(nobody.iter().all(Option::is_none));
    }
}
