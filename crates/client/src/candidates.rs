//! A client's half of a choice between candidates for a model: what it leaves out, and how good a candidate is.
//!
//! The device leaves the newest items of its history out of what it trains on; when the candidates are there, it ranks
//! these items under each of them. What it finds goes into a round of the model `candidate-scores`
//! ([`sottovoce_models::federated::candidate_scores`]).

use sottovoce_core::{History, math};
use sottovoce_models::federated::DynClient;
use sottovoce_models::federated::candidate_scores::NEUTRAL;
use sottovoce_protocol::{Parameters, Policy};

/// The list whose quality counts has so many items.
const LIST: usize = 10;

/// One of so many items of a history is left out, rounded down, and at least one of two.
const ONE_OF: usize = 5;

/// A history without its newest items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// What is trained on, in the order in which it came, repetitions included.
    pub kept: Vec<u32>,
    /// What is kept, ascending, each once.
    pub items: Vec<u32>,
    /// What is left out, ascending, each once.
    pub newest: Vec<u32>,
}

impl LeftOut {
    /// Of a history in the order in which it came. Items count as new when they first come.
    pub fn of(sequence: &[u32]) -> Self {
        let mut firsts: Vec<(u32, usize)> = sequence.iter().copied().zip(0..).collect();
        firsts.sort_unstable();
        firsts.dedup_by_key(|(item, _)| *item);
        firsts.sort_unstable_by_key(|(_, position)| *position);
        let out = if firsts.len() < 2 { 0 } else { (firsts.len() / ONE_OF).max(1) };
        let (items, newest) = firsts.split_at(firsts.len() - out);
        let ascending = |part: &[(u32, usize)]| {
            let mut part: Vec<u32> = part.iter().map(|(item, _)| *item).collect();
            part.sort_unstable();
            part
        };
        let (items, newest) = (ascending(items), ascending(newest));
        let kept = sequence.iter().copied().filter(|item| newest.binary_search(item).is_err()).collect();
        Self { kept, items, newest }
    }

    /// Of what of a history the owner's policy ever discloses: nothing that leaves depends on the rest.
    pub fn of_disclosed(sequence: &[u32], policy: &Policy, fixed: u64) -> Self {
        match policy.withholds_items() {
            true => {
                let disclosed = sequence.iter().copied().filter(|&item| policy.discloses(item, fixed));
                Self::of(&disclosed.collect::<Vec<_>>())
            }
            false => Self::of(sequence),
        }
    }

    /// How good a candidate is for this person: nDCG@10 of the newest items, among all that the person does not have
    /// yet; one half where there are none. `scores` is working memory.
    ///
    /// # Panics
    /// If the candidate is of another catalog than the history.
    pub fn value(
        &self,
        client: &DynClient,
        (shared, private): (&Parameters, &[f32]),
        items: usize,
        scores: &mut Vec<f32>,
    ) -> f32 {
        if self.newest.is_empty() || self.items.is_empty() {
            return NEUTRAL;
        }
        scores.clear();
        scores.resize(items, 0.0);
        let history = History { sequence: &self.kept, ..(&self.items[..]).into() };
        client.score(shared, private, history, scores);
        ndcg(scores, &self.items, &self.newest)
    }
}

/// nDCG of the best items that are not in `had`; of equal scores the first in the catalog is the better.
fn ndcg(scores: &[f32], had: &[u32], wanted: &[u32]) -> f32 {
    let mut best: Vec<(f32, u32)> = Vec::with_capacity(LIST + 1);
    let mut had = had.iter().copied().peekable();
    for (item, &score) in (0..).zip(scores) {
        if had.next_if_eq(&item).is_some() || score.is_nan() {
            continue;
        }
        if best.len() == LIST && best[LIST - 1].0 >= score {
            continue;
        }
        let place = best.partition_point(|(other, _)| *other >= score);
        best.insert(place, (score, item));
        best.truncate(LIST);
    }
    let gain = |rank: usize| 1.0 / math::log2(rank as f64 + 2.0);
    let found = best.iter().enumerate().filter(|(_, (_, item))| wanted.binary_search(item).is_ok());
    let found: f64 = found.map(|(rank, _)| gain(rank)).sum();
    (found / (0..wanted.len().min(LIST)).map(gain).sum::<f64>()) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifth_is_left_out_and_items_are_new_when_they_first_come() {
        let left = LeftOut::of(&[7, 3, 7, 9, 1, 3, 4, 3]);
        assert_eq!((left.items, left.newest), (vec![1, 3, 7, 9], vec![4]));
        assert_eq!(left.kept, [7, 3, 7, 9, 1, 3, 3]);
        let ten: Vec<u32> = (0..10).rev().collect();
        assert_eq!(LeftOut::of(&ten).newest, [0, 1]);
        assert_eq!(LeftOut::of(&[5, 5]), LeftOut { kept: vec![5, 5], items: vec![5], newest: Vec::new() });
        assert_eq!(LeftOut::of(&[]), LeftOut::default());
    }

    #[test]
    fn hidden_items_have_no_say() {
        let mut policy = Policy::new(1.0).unwrap();
        policy.hide(4);
        policy.hide(3);
        let left = LeftOut::of_disclosed(&[7, 3, 9, 1, 4], &policy, 0);
        assert_eq!(left, LeftOut { kept: vec![7, 9], items: vec![7, 9], newest: vec![1] });
    }

    #[test]
    fn ndcg_is_what_the_evaluation_computes() {
        // Item 0 is had; the best list is 3, 1, 4, 2, 5.
        let scores = [9.0, 2.0, 1.0, 3.0, 2.0, f32::NEG_INFINITY, f32::NAN];
        let log2 = f64::log2;
        let found = ndcg(&scores, &[0], &[1, 6]);
        let expected = (1.0 / log2(3.0)) / (1.0 + 1.0 / log2(3.0));
        assert!((f64::from(found) - expected).abs() < 1e-7, "{found}");
        assert_eq!(ndcg(&scores, &[0], &[1, 3]), 1.0);
        assert_eq!(ndcg(&scores, &[0], &[0]), 0.0);
    }
}
