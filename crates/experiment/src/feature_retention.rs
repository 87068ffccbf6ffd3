//! Feature retention: which informative item features of a user's history their recommendations have too.

use serde::{Deserialize, Serialize};
use sottovoce_core::{Facts, Histories, Rng};
use sottovoce_evaluate::{RankedLists, quantile};
use sottovoce_models::federated::kgflex::FeatureRanking;
use std::collections::BTreeMap;

/// How many of a user's most informative features are looked for; the last are all.
pub(crate) const FIRST: [usize; 5] = [5, 10, 50, 100, usize::MAX];

/// Features that are listed.
const CLOUD: usize = 100;

/// A feature and its information gain, summed over users.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FeatureWeight {
    /// Its name.
    pub feature: String,
    /// Its share of the information gain of all features in histories.
    pub before: f64,
    /// The same in recommendations.
    pub after: f64,
}

/// What recommendations retain.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Retention {
    /// Quartiles over users of the share of their first features that a recommended item has, by name.
    pub(crate) figures: BTreeMap<String, f64>,
    /// The most informative features of histories and of recommendations, by their weight in histories.
    pub(crate) cloud: Vec<FeatureWeight>,
}

/// The name of a figure: the quartile (1 to 3) for the first so many features.
pub(crate) fn name(first: usize, quartile: usize) -> String {
    let first = if first == usize::MAX { "all".to_owned() } else { first.to_string() };
    format!("kept_{first}_q{quartile}")
}

/// The share of the most informative features of histories that are among those of recommendations.
pub(crate) const IN_BOTH: &str = "kept_in_cloud";

/// Evaluates the first `cutoff` items of each list.
pub(crate) fn retention(facts: &Facts, train: &Histories, lists: &RankedLists, cutoff: usize, seed: u64) -> Retention {
    let mut informative = FeatureRanking::new(facts);
    let mut clouds = [vec![0.0; facts.features()], vec![0.0; facts.features()]];
    let mut shares: [Vec<f64>; FIRST.len()] = Default::default();
    let mut listed = vec![false; facts.features()];
    let rng = Rng::new(seed).stream("kept", 0);
    for (user, history) in train.deduplicated().iter().enumerate() {
        let list = lists.top(user, cutoff);
        let draw = |which| rng.stream(which, user as u64);
        mark(&mut listed, facts, list, true);
        let own = informative.of(facts, history, &mut draw("history"));
        for (shares, first) in shares.iter_mut().zip(FIRST) {
            let own = &own[..first.min(own.len())];
            let found = own.iter().filter(|(feature, _)| listed[*feature as usize]).count();
            shares.extend((!own.is_empty()).then(|| found as f64 / own.len() as f64));
        }
        add(&mut clouds[0], own);
        add(&mut clouds[1], informative.of(facts, list, &mut draw("list")));
        mark(&mut listed, facts, list, false);
    }
    let mut figures = quartiles(shares);
    let (cloud, in_both) = cloud(facts, clouds);
    figures.extend(in_both.map(|share| (IN_BOTH.to_owned(), share)));
    Retention { figures, cloud }
}

fn mark(listed: &mut [bool], facts: &Facts, list: &[u32], value: bool) {
    list.iter().for_each(|&item| facts.of(item as usize).each(|feature| listed[feature as usize] = value));
}

fn add(cloud: &mut [f64], informative: &[(u32, f32)]) {
    informative.iter().for_each(|&(feature, gain)| cloud[feature as usize] += f64::from(gain));
}

fn quartiles(shares: [Vec<f64>; FIRST.len()]) -> BTreeMap<String, f64> {
    let mut figures = BTreeMap::new();
    for (mut shares, first) in shares.into_iter().zip(FIRST).filter(|(shares, _)| !shares.is_empty()) {
        shares.sort_unstable_by(f64::total_cmp);
        let at = |quartile| (name(first, quartile), quantile(&shares, quartile as f64 / 4.0));
        figures.extend((1..=3).map(at));
    }
    figures
}

/// The most informative features of both, and the share of those of the first that are among those of the second.
fn cloud(facts: &Facts, [before, after]: [Vec<f64>; 2]) -> (Vec<FeatureWeight>, Option<f64>) {
    let [first, second] = [&before, &after].map(|gains| top(gains));
    let both = first.iter().filter(|feature| second.contains(feature)).count();
    let in_both = (!first.is_empty()).then(|| both as f64 / first.len() as f64);
    let all = |cloud: &[f64]| cloud.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    let sums = [all(&before), all(&after)];
    let mut features: Vec<usize> = first.into_iter().chain(second).collect();
    features.sort_unstable_by(|&a, &b| before[b].total_cmp(&before[a]).then(a.cmp(&b)));
    features.dedup();
    let weighed = |feature: usize| FeatureWeight {
        feature: facts.name(feature),
        before: before[feature] / sums[0],
        after: after[feature] / sums[1],
    };
    (features.into_iter().map(weighed).collect(), in_both)
}

/// The most informative features, of those with any information gain.
fn top(cloud: &[f64]) -> Vec<usize> {
    let mut features: Vec<usize> = (0..cloud.len()).filter(|&feature| cloud[feature] > 0.0).collect();
    features.sort_unstable_by(|&a, &b| cloud[b].total_cmp(&cloud[a]).then(a.cmp(&b)));
    features.truncate(CLOUD);
    features
}

#[cfg(test)]
mod tests {
    use super::*;
    use sottovoce_evaluate::{Order, RankedListsBuilder};

    /// Six items of two kinds, and one that is neither.
    fn facts() -> Facts {
        let kinds = [("kind: a", 1), ("kind: b", 1), ("maker: c", 2)];
        Facts::of_lists(&kinds, &[vec![0], vec![0, 2], vec![0], vec![1], vec![1], vec![1], vec![]])
    }

    fn lists(items: &[&[u32]]) -> RankedLists {
        let mut lists = RankedListsBuilder::new(items.len(), 7, Order::Rank);
        for (user, list) in items.iter().enumerate() {
            for (rank, &item) in list.iter().enumerate() {
                lists.push(user, item, rank as f64).unwrap();
            }
        }
        lists.finish().unwrap()
    }

    #[test]
    fn recommendations_of_the_same_kind_retain_it() {
        let train = Histories::from_lists(&[vec![0, 1], vec![3, 4], vec![6]], 7).unwrap();
        let of = |first: &[u32], second: &[u32]| retention(&facts(), &train, &lists(&[first, second, &[0]]), 10, 1);
        let same = of(&[2], &[5]);
        // The first user has a maker too, which the list has not; the third has no informative feature.
        assert_eq!(same.figures[&name(5, 2)], 0.75);
        let other = of(&[5], &[2]);
        assert_eq!(other.figures[&name(usize::MAX, 3)], 0.0);
        let first = &same.cloud[0];
        assert!(first.before > 0.0 && first.feature.starts_with("kind: "), "{first:?}");
        let sum: f64 = same.cloud.iter().map(|one| one.before).sum();
        assert!((sum - 1.0).abs() < 1e-12, "{sum}");
    }
}
