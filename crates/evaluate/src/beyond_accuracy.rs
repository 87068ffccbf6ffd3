//! Metrics beyond accuracy, over all lists together: coverage, concentration, popularity bias, category bias.

use crate::popularity::{HEAD, Popularity, TAIL};
use sottovoce_core::{Categories, Histories, math};
use std::collections::BTreeMap;

/// Counts that do not depend on the lists, over any number of users: a zero and a merge.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct GroundTruth {
    pub(crate) users: u64,
    /// Test items, by group.
    pub(crate) test: [u64; 2],
    /// Items that the user does not have, by group.
    pub(crate) unseen: [u64; 2],
}

impl GroundTruth {
    pub(crate) fn merge(&mut self, other: GroundTruth) {
        self.users += other.users;
        for group in [HEAD, TAIL] {
            self.test[group] += other.test[group];
            self.unseen[group] += other.unseen[group];
        }
    }
}

/// Recommendations at one cutoff over any number of users: a zero, a merge and results.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RecommendationCounts {
    /// How often each item was recommended.
    pub(crate) recommended: Vec<u32>,
    /// Users with at least one recommendation.
    pub(crate) users: u64,
    /// Recommendations to users with test items.
    pub(crate) answered: u64,
    /// Hits, by group.
    hits: [u64; 2],
}

impl RecommendationCounts {
    pub(crate) fn zero(items: usize) -> Self {
        Self { recommended: vec![0; items], users: 0, answered: 0, hits: [0; 2] }
    }

    /// Adds a user's top-k list.
    pub(crate) fn add(&mut self, list: &[u32], popularity: &Popularity, is_hit: impl Fn(u32) -> bool) {
        self.users += u64::from(!list.is_empty());
        for &item in list {
            self.recommended[item as usize] += 1;
            self.hits[popularity.group(item)] += u64::from(is_hit(item));
        }
    }

    pub(crate) fn merge(&mut self, other: &RecommendationCounts) {
        self.users += other.users;
        self.answered += other.answered;
        for (count, more) in self.recommended.iter_mut().zip(&other.recommended) {
            *count += more;
        }
        for group in [HEAD, TAIL] {
            self.hits[group] += other.hits[group];
        }
    }

    /// Recommendations of head and tail.
    fn by_group(&self, popularity: &Popularity) -> [u64; 2] {
        let mut counts = [0; 2];
        for (item, &count) in self.recommended.iter().enumerate() {
            counts[popularity.group(item as u32)] += u64::from(count);
        }
        counts
    }

    /// Distinct items.
    pub(crate) fn coverage(&self) -> usize {
        self.recommended.iter().filter(|&&count| count > 0).count()
    }

    /// Mean number of long-tail items in a user's list.
    pub(crate) fn aclt(&self, truth: &GroundTruth, popularity: &Popularity) -> f64 {
        self.by_group(popularity)[TAIL] as f64 / truth.users as f64
    }

    /// Of head and tail, the share of test items that were found: relative difference.
    pub(crate) fn pop_reo(&self, truth: &GroundTruth) -> Option<f64> {
        relative_deviation(self.hits, truth.test)
    }

    /// Of head and tail, the share of unseen items that were recommended: relative difference.
    pub(crate) fn pop_rsp(&self, truth: &GroundTruth, popularity: &Popularity) -> Option<f64> {
        relative_deviation(self.by_group(popularity), truth.unseen)
    }

    /// Bias disparity by category; `None` where a category does not occur in training or nothing was recommended.
    pub(crate) fn bias_disparity(
        &self,
        popularity: &Popularity,
        categories: &Categories,
    ) -> BTreeMap<String, Option<f64>> {
        let (before, after) = (biases(&popularity.counts, categories), biases(&self.recommended, categories));
        let disparity = |(before, after): (f64, f64)| Some((after - before) / before).filter(|value| value.is_finite());
        by_category(categories, before.into_iter().zip(after).map(disparity))
    }
}

/// Source bias B_T by category: its share of the training interactions / its share of the catalog. Above 1, people
/// choose its items more often than others. `None` where no item of the catalog has the category.
pub fn source_bias(train: &Histories, categories: &Categories) -> BTreeMap<String, Option<f64>> {
    by_category(
        categories,
        biases(&train.popularity(), categories).into_iter().map(|bias| Some(bias).filter(|b| b.is_finite())),
    )
}

fn by_category(categories: &Categories, values: impl Iterator<Item = Option<f64>>) -> BTreeMap<String, Option<f64>> {
    categories.names().iter().map(str::to_owned).zip(values).collect()
}

/// Of each category, its share of items counted so many times / its share of the catalog.
fn biases(counts: &[u32], categories: &Categories) -> Vec<f64> {
    let catalog = shares(&vec![1; counts.len()], categories);
    shares(counts, categories).into_iter().zip(catalog).map(|(share, of_catalog)| share / of_catalog).collect()
}

/// Share of each category among items counted so many times; an item with several counts for each of them.
fn shares(counts: &[u32], categories: &Categories) -> Vec<f64> {
    let mut sums = vec![0; categories.names().len()];
    for (item, &count) in counts.iter().enumerate() {
        for &category in categories.of(item) {
            sums[category as usize] += u64::from(count);
        }
    }
    let total: u64 = counts.iter().map(|&count| u64::from(count)).sum();
    sums.into_iter().map(|sum| sum as f64 / total as f64).collect()
}

/// Population standard deviation of the two ratios / their mean; `None` if a group is empty or both ratios are 0.
fn relative_deviation(parts: [u64; 2], wholes: [u64; 2]) -> Option<f64> {
    let ratio = |group: usize| parts[group] as f64 / wholes[group] as f64;
    let (head, tail) = (ratio(HEAD), ratio(TAIL));
    // Of two numbers, the deviation is half their distance.
    let deviation = (head - tail).abs() / 2.0;
    let value = deviation / ((head + tail) / 2.0);
    value.is_finite().then_some(value)
}

/// 1 - Gini index over the whole catalog; NaN if nothing was recommended or there is one item only.
///
/// With counts ascending m_1..m_N: Gini = sum((2i - N - 1) m_i) / ((N - 1) sum m_i).
pub(crate) fn evenness(ascending: &[u32]) -> f64 {
    let items = ascending.len() as i64;
    let (mut weighted, mut total) = (0i128, 0u64);
    for (index, &count) in ascending.iter().enumerate() {
        let weight = 2 * (index as i64 + 1) - items - 1;
        weighted += i128::from(weight) * i128::from(count);
        total += u64::from(count);
    }
    1.0 - weighted as f64 / ((items - 1) as f64 * total as f64)
}

/// Shannon entropy of the counts in bits; NaN if all are 0.
pub(crate) fn entropy(counts: &[u32]) -> f64 {
    let total = counts.iter().map(|&count| f64::from(count)).sum::<f64>();
    if total == 0.0 {
        return f64::NAN;
    }
    let terms = counts.iter().filter(|&&count| count > 0).map(|&count| f64::from(count) / total);
    -terms.map(|share| share * math::log2(share)).sum::<f64>() + 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evenness_and_entropy_computed_by_hand() {
        assert_eq!(evenness(&[2, 2, 2, 2]), 1.0);
        assert_eq!(evenness(&[0, 0, 0, 7]), 0.0);
        // (-3 * 0 - 1 * 1 + 1 * 1 + 3 * 2) / (3 * 4) = 1 / 2
        assert_eq!(evenness(&[0, 1, 1, 2]), 0.5);
        assert_eq!(entropy(&[2, 1, 0, 1]), 1.5);
        assert!(entropy(&[5, 0]).is_sign_positive() && entropy(&[5, 0]) == 0.0);
        assert!(entropy(&[0, 0]).is_nan() && evenness(&[0, 0]).is_nan() && evenness(&[3]).is_nan());
    }

    #[test]
    fn source_bias_computed_by_hand() {
        // Four items, one of them in category a, two in b, none in c; 3 of 4 interactions with a, 1 with b.
        let mut categories = Categories::new(["a", "b", "c"].into_iter().collect());
        [&[0][..], &[1], &[1], &[]].into_iter().for_each(|of| categories.push(of.iter().copied()));
        let train = Histories::from_lists(&[vec![0u32, 1], vec![0], vec![0]], 4).unwrap();
        let expected = [("a", Some(3.0)), ("b", Some(0.5)), ("c", None)];
        assert_eq!(source_bias(&train, &categories), expected.map(|(name, bias)| (name.to_owned(), bias)).into());
    }

    #[test]
    fn relative_deviation_is_undefined_for_empty_groups() {
        assert_eq!(relative_deviation([1, 0], [2, 0]), None);
        assert_eq!(relative_deviation([0, 0], [2, 5]), None);
        assert_eq!(relative_deviation([0, 3], [2, 5]), Some(1.0));
        // 1/2 and 1/4: deviation 1/8, mean 3/8.
        let value = relative_deviation([1, 1], [2, 4]).unwrap();
        assert!((value - 1.0 / 3.0).abs() < 1e-15);
    }
}
