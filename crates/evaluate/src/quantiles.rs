//! Who is served well: accuracy by groups of users.

use crate::accuracy::{self, Sums};
use crate::per_user::mean;
use crate::{Evaluation, EvaluationInput};
use serde::Serialize;
use std::collections::BTreeMap;

/// A group of users and its means.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Slice {
    /// Smallest value of the trait in the group.
    pub from: f64,
    /// Greatest value of the trait in the group.
    pub to: f64,
    /// Number of users, all with test items.
    pub users: usize,
    /// Accuracy by cutoff.
    pub at: BTreeMap<usize, Accuracy>,
}

/// Means over a group of users; the names are those of [`Metrics`](crate::Metrics).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Accuracy {
    /// P@k.
    pub precision: f64,
    /// R@k.
    pub recall: f64,
    /// nDCG@k.
    pub ndcg: f64,
    /// HR@k.
    pub hit_rate: f64,
    /// MAP@k.
    pub map: f64,
    /// MRR@k.
    pub mrr: f64,
    /// Harmonic mean of the group's mean precision and mean recall.
    pub f1: f64,
    /// Area under the curve, where it was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auc: Option<f64>,
}

/// By activity: the length of the user's training history. 3 groups are terciles, 4 quartiles.
pub fn by_activity(input: &EvaluationInput<'_>, evaluation: &Evaluation, groups: usize) -> Vec<Slice> {
    by_trait(evaluation, groups, |user| input.train.of(user).len() as f64)
}

/// By taste: the share of short-head items in the user's training history (0 without one).
pub fn by_taste(input: &EvaluationInput<'_>, evaluation: &Evaluation, groups: usize) -> Vec<Slice> {
    by_trait(evaluation, groups, |user| {
        let history = input.train.of(user);
        let popular = history.iter().filter(|&&item| evaluation.popularity.is_head(item)).count();
        popular as f64 / history.len().max(1) as f64
    })
}

/// By any trait of users, ascending, in the groups of [`partition`].
pub fn by_trait(evaluation: &Evaluation, groups: usize, value: impl Fn(usize) -> f64) -> Vec<Slice> {
    let values: Vec<f64> = evaluation.per_user.users.iter().map(|&user| value(user as usize)).collect();
    partition(&values, groups).iter().map(|members| slice(evaluation, members, &values)).collect()
}

/// Places of values in ascending groups, as equal in size as can be without parting equal values; groups that this
/// leaves empty are left out.
pub fn partition(values: &[f64], groups: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut parts = Vec::new();
    let mut start = 0;
    for group in 1..=groups {
        let mut end = order.len() * group / groups;
        while end > start
            && end < order.len()
            && values[order[end]].total_cmp(&values[order[end - 1]]).is_eq()
        {
            end += 1;
        }
        if end > start {
            parts.push(order[start..end].to_vec());
            start = end;
        }
    }
    parts
}

fn slice(evaluation: &Evaluation, members: &[usize], values: &[f64]) -> Slice {
    let per_user = &evaluation.per_user;
    let places = || members.iter().copied();
    let auc = per_user.auc.as_ref().and_then(|auc| mean(places().map(|place| auc[place])));
    let means = |columns: &crate::Columns| {
        let mut sums = Sums::default();
        places().for_each(|place| sums.add(columns.row(place)));
        let means = sums.means();
        Accuracy {
            precision: means.precision,
            recall: means.recall,
            ndcg: means.ndcg,
            hit_rate: means.hit,
            map: means.map,
            mrr: means.mrr,
            f1: accuracy::f1(means.precision, means.recall),
            auc,
        }
    };
    Slice {
        from: values[members[0]],
        to: values[members[members.len() - 1]],
        users: members.len(),
        at: per_user.at.iter().map(|(&k, columns)| (k, means(columns))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Protocol, evaluate};
    use sottovoce_core::Histories;

    #[test]
    fn groups_keep_equal_users_together_and_have_their_own_means() {
        // History lengths 1 2 2 2 3; the last user has no test items. Items 6 and 7 are at the top of every list.
        let train = [vec![0], vec![1, 2], vec![0, 1], vec![2, 0], vec![0, 1, 2], vec![3, 4, 5, 1]];
        let test = [vec![7], vec![6, 5], vec![3], vec![7, 6], vec![4], vec![]];
        let [train, test] = [train, test].map(|lists| Histories::from_lists(&lists, 8).unwrap());
        let input = EvaluationInput::new(&train, &test);
        let score = |_: usize, into: &mut [f32]| (0..8).for_each(|item| into[item] = item as f32);
        let evaluation = evaluate(&input, &Protocol::all_unrated([2]), score).unwrap();
        let slices = by_activity(&input, &evaluation, 3);
        let shape: Vec<_> = slices.iter().map(|slice| (slice.from, slice.to, slice.users)).collect();
        assert_eq!(shape, [(1.0, 1.0, 1), (2.0, 2.0, 3), (3.0, 3.0, 1)]);
        let recalls: Vec<_> = slices.iter().map(|slice| slice.at[&2].recall).collect();
        assert_eq!(recalls, [1.0, 0.5, 0.0]);
        assert_eq!(slices[1].at[&2].precision, (0.5 + 0.0 + 1.0) / 3.0);
        let whole = by_activity(&input, &evaluation, 1).remove(0);
        let metrics = &evaluation.at[&2];
        assert_eq!((whole.users, whole.at[&2].ndcg, whole.at[&2].f1), (5, metrics.ndcg, metrics.f1));
        assert!((whole.at[&2].auc.unwrap() - metrics.auc.unwrap()).abs() < 1e-15);
        assert_eq!(by_taste(&input, &evaluation, 2).iter().map(|slice| slice.users).sum::<usize>(), 5);
    }
}
