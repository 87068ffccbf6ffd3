//! Whether lists keep what people decide by: the features of their histories beside those of what they are recommended.

use serde::{Deserialize, Serialize};
use sottovoce_core::{Facts, Histories, Rng};
use sottovoce_evaluate::Lists;
use sottovoce_models::kgflex::Telling;
use std::collections::BTreeMap;

/// How many of a person's most telling features are looked for; the last are all.
pub(crate) const FIRST: [usize; 5] = [5, 10, 50, 100, usize::MAX];

/// How many features a cloud has.
const CLOUD: usize = 100;

/// A feature and how much it tells of all people together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Weighed {
    /// The feature in words.
    pub feature: String,
    /// Its share of the information gain of all features in people's histories.
    pub before: f64,
    /// The same in their lists.
    pub after: f64,
}

/// What lists keep.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Kept {
    /// Quartiles over people of the share of their first features that an item of their list has, by name.
    pub(crate) figures: BTreeMap<String, f64>,
    /// The features that tell most of histories or of lists, by what they tell of histories.
    pub(crate) cloud: Vec<Weighed>,
}

/// The name of a figure: the quartile (1 to 3) for the first so many features.
pub(crate) fn name(first: usize, quartile: usize) -> String {
    let first = if first == usize::MAX { "all".to_owned() } else { first.to_string() };
    format!("kept_{first}_q{quartile}")
}

/// The share of the features in the cloud of histories that are in that of lists too.
pub(crate) const IN_BOTH_CLOUDS: &str = "kept_in_cloud";

/// Looks at the first `cutoff` items of each list.
pub(crate) fn kept(facts: &Facts, train: &Histories, lists: &Lists, cutoff: usize, seed: u64) -> Kept {
    let mut telling = Telling::new(facts);
    let mut clouds = [vec![0.0; facts.features()], vec![0.0; facts.features()]];
    let mut shares: [Vec<f64>; FIRST.len()] = Default::default();
    let mut listed = vec![false; facts.features()];
    let rng = Rng::new(seed).stream("kept", 0);
    for (user, history) in train.deduplicated().iter().enumerate() {
        let list = lists.top(user, cutoff);
        let draw = |which| rng.stream(which, user as u64);
        mark(&mut listed, facts, list, true);
        let own = telling.of(facts, history, &mut draw("history"));
        for (shares, first) in shares.iter_mut().zip(FIRST) {
            let own = &own[..first.min(own.len())];
            let found = own.iter().filter(|(feature, _)| listed[*feature as usize]).count();
            shares.extend((!own.is_empty()).then(|| found as f64 / own.len() as f64));
        }
        add(&mut clouds[0], own);
        add(&mut clouds[1], telling.of(facts, list, &mut draw("list")));
        mark(&mut listed, facts, list, false);
    }
    let mut figures = quartiles(shares);
    let (cloud, in_both) = cloud(facts, clouds);
    figures.extend(in_both.map(|share| (IN_BOTH_CLOUDS.to_owned(), share)));
    Kept { figures, cloud }
}

fn mark(listed: &mut [bool], facts: &Facts, list: &[u32], value: bool) {
    list.iter().for_each(|&item| facts.of(item as usize).each(|feature| listed[feature as usize] = value));
}

fn add(cloud: &mut [f64], telling: &[(u32, f32)]) {
    telling.iter().for_each(|&(feature, gain)| cloud[feature as usize] += f64::from(gain));
}

fn quartiles(shares: [Vec<f64>; FIRST.len()]) -> BTreeMap<String, f64> {
    let mut figures = BTreeMap::new();
    for (mut shares, first) in shares.into_iter().zip(FIRST) {
        shares.sort_unstable_by(f64::total_cmp);
        for quartile in 1..=3 {
            figures
                .extend(quantile(&shares, quartile as f64 / 4.0).map(|value| (name(first, quartile), value)));
        }
    }
    figures
}

/// Between the two values it falls between, if there is any.
fn quantile(ascending: &[f64], share: f64) -> Option<f64> {
    let place = share * ascending.len().checked_sub(1)? as f64;
    let (low, part) = (place as usize, place.fract());
    let high = (low + 1).min(ascending.len() - 1);
    Some(ascending[low] + part * (ascending[high] - ascending[low]))
}

/// The first of both clouds, and the share of those of the first that the second has.
fn cloud(facts: &Facts, [before, after]: [Vec<f64>; 2]) -> (Vec<Weighed>, Option<f64>) {
    let [first, second] = [&before, &after].map(|cloud| most(cloud));
    let both = first.iter().filter(|feature| second.contains(feature)).count();
    let in_both = (!first.is_empty()).then(|| both as f64 / first.len() as f64);
    let all = |cloud: &[f64]| cloud.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    let sums = [all(&before), all(&after)];
    let mut features: Vec<usize> = first.into_iter().chain(second).collect();
    features.sort_unstable_by(|&a, &b| before[b].total_cmp(&before[a]).then(a.cmp(&b)));
    features.dedup();
    let weighed = |feature: usize| Weighed {
        feature: facts.name(feature),
        before: before[feature] / sums[0],
        after: after[feature] / sums[1],
    };
    (features.into_iter().map(weighed).collect(), in_both)
}

/// The features that tell most, of those that tell anything.
fn most(cloud: &[f64]) -> Vec<usize> {
    let mut features: Vec<usize> = (0..cloud.len()).filter(|&feature| cloud[feature] > 0.0).collect();
    features.sort_unstable_by(|&a, &b| cloud[b].total_cmp(&cloud[a]).then(a.cmp(&b)));
    features.truncate(CLOUD);
    features
}

#[cfg(test)]
mod tests {
    use super::*;
    use sottovoce_evaluate::{ListsBuilder, Order};

    /// Six items of two kinds, and one that is neither.
    fn facts() -> Facts {
        let kinds = [("kind: a", 1), ("kind: b", 1), ("maker: c", 2)];
        Facts::of_lists(&kinds, &[vec![0], vec![0, 2], vec![0], vec![1], vec![1], vec![1], vec![]])
    }

    fn lists(items: &[&[u32]]) -> Lists {
        let mut lists = ListsBuilder::new(items.len(), 7, Order::Rank);
        for (user, list) in items.iter().enumerate() {
            for (place, &item) in list.iter().enumerate() {
                lists.push(user, item, place as f64).unwrap();
            }
        }
        lists.finish().unwrap()
    }

    #[test]
    fn lists_of_the_same_kind_keep_it_and_others_do_not() {
        let train = Histories::from_lists(&[vec![0, 1], vec![3, 4], vec![6]], 7).unwrap();
        let of =
            |first: &[u32], second: &[u32]| kept(&facts(), &train, &lists(&[first, second, &[0]]), 10, 1);
        let same = of(&[2], &[5]);
        // The first of the people has a maker too, which the list has not; the third has nothing that tells.
        assert_eq!(same.figures[&name(5, 2)], 0.75);
        let other = of(&[5], &[2]);
        assert_eq!(other.figures[&name(usize::MAX, 3)], 0.0);
        let first = &same.cloud[0];
        assert!(first.before > 0.0 && first.feature.starts_with("kind: "), "{first:?}");
        let sum: f64 = same.cloud.iter().map(|one| one.before).sum();
        assert!((sum - 1.0).abs() < 1e-12, "{sum}");
    }

    #[test]
    fn quantiles_lie_between_values() {
        assert_eq!(quantile(&[0.0, 1.0], 0.25), Some(0.25));
        assert_eq!((quantile(&[3.0], 0.75), quantile(&[], 0.5)), (Some(3.0), None));
    }
}
