//! How much each update of a round counts.
//!
//! By criteria c_1..c_m that devices report (V. W. Anelli, Y. Deldjoo, T. Di Noia, A. Ferrara: Prioritized
//! multi-criteria federated learning, Intelligenza Artificiale 14, 2020), with each criterion brought to a sum of 1
//! over the cohort, x_j = c_j / S_j:
//! ```text
//! prioritised      f(x) = x_1 + x_1 x_2 + ... + x_1 x_2 ... x_m        most important first
//! mean             f(x) = (x_1 + ... + x_m) / m
//! weighted mean    f(x) = a_1 x_1 + ... + a_m x_m
//! OWA              f(x) = a_1 x_(1) + ... + a_m x_(m)                   x_(1) the largest of a device's
//! weight of device u = f(x_u) / sum of f over the cohort
//! ```
//! All but the last are sums of products that need no S_j to be taken: a device's update is added to one sum for each
//! of m products of its own criteria, and the S_j come in at the end. So memory does not grow with the cohort.
//!
//! FedFast's active aggregation (K. Muhammad and others: FedFast, KDD 2020) weighs each row by the length of its
//! change, so that devices for which an item matters move it most.
//!
//! If f comes to 0 for everybody, all count alike. Whoever does not report all that is asked for counts as the mean of
//! those who do: keeping figures to oneself neither costs influence nor brings any.

use sottovoce_protocol::Update;
use std::sync::Arc;

/// The largest value of a criterion; a larger one counts as not reported.
const MOST: f64 = 1e9;

/// How much each update counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Weighting {
    /// All alike.
    #[default]
    Equal,
    /// By the number of samples learnt from.
    Samples,
    /// Each row by the length of its change.
    Active,
    /// By the first so many criteria of the round terms.
    Criteria {
        /// What is made of them.
        score: CriteriaScore,
        /// How many.
        count: usize,
    },
}

/// What is made of a device's criteria.
#[derive(Clone, Debug, PartialEq)]
pub enum CriteriaScore {
    /// In the order in which they are asked for, each as far as those before it allow.
    Prioritised,
    /// Their mean.
    Mean,
    /// Their mean with a weight for each.
    Weighted(Arc<[f64]>),
    /// Their mean with weights by rank: the first is for the largest (OWA). Needs all of a round's updates in memory.
    Ordered(Arc<[f64]>),
}

impl CriteriaScore {
    /// The score of criteria that are brought to a sum of 1 over the cohort.
    pub fn of(&self, criteria: &[f64]) -> f64 {
        match self {
            Self::Prioritised => {
                let mut product = 1.0;
                let products = criteria.iter().map(|x| {
                    product *= x;
                    product
                });
                products.sum()
            }
            Self::Mean => criteria.iter().sum::<f64>() / criteria.len().max(1) as f64,
            Self::Weighted(weights) => weighted(weights, criteria),
            Self::Ordered(weights) => {
                let mut sorted = criteria.to_vec();
                sorted.sort_unstable_by(|a, b| b.total_cmp(a));
                weighted(weights, &sorted)
            }
        }
    }
}

fn weighted(weights: &[f64], values: &[f64]) -> f64 {
    weights.iter().zip(values).map(|(weight, value)| weight * value).sum()
}

impl Weighting {
    /// The name for settings.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Equal => "equal",
            Self::Samples => "samples",
            Self::Active => "active",
            Self::Criteria { score: CriteriaScore::Prioritised, .. } => "prioritised",
            Self::Criteria { score: CriteriaScore::Mean, .. } => "mean",
            Self::Criteria { score: CriteriaScore::Weighted(_), .. } => "weighted-mean",
            Self::Criteria { score: CriteriaScore::Ordered(_), .. } => "owa",
        }
    }

    /// Whether it needs all of a round's updates at once.
    pub(crate) fn buffers_updates(&self) -> bool {
        matches!(self, Self::Criteria { score: CriteriaScore::Ordered(_), .. })
    }

    /// How many values it goes by.
    pub(crate) fn values(&self) -> usize {
        match self {
            Self::Equal | Self::Active => 0,
            Self::Samples => 1,
            Self::Criteria { count, .. } => *count,
        }
    }

    /// Takes what an update says; whether that is all that is asked for.
    pub(crate) fn reported(&self, update: &Update, into: &mut Vec<f64>) -> bool {
        into.clear();
        match self {
            Self::Equal | Self::Active => {}
            Self::Samples => into.extend((update.samples() > 0).then(|| update.samples() as f64)),
            Self::Criteria { count, .. } => {
                let asked = update.criteria().iter().take_while(|(index, _)| (*index as usize) < *count);
                into.extend(asked.map(|(_, value)| *value));
            }
        }
        into.len() == self.values() && into.iter().all(|value| (0.0..=MOST).contains(value))
    }

    /// The products of a device's own values; `into` is as long as there are values.
    pub(crate) fn products(&self, values: &[f64], into: &mut [f64]) {
        into.copy_from_slice(values);
        if let Self::Criteria { score: CriteriaScore::Prioritised, .. } = self {
            let mut product = 1.0;
            for value in into {
                product *= *value;
                *value = product;
            }
        }
    }

    /// What makes scores of products, given the values' sums over the cohort. A criterion that is 0 for everybody adds
    /// nothing.
    pub(crate) fn multipliers(&self, sums: &[f64]) -> Vec<f64> {
        let inverse = |sum: &f64| if *sum > 0.0 { 1.0 / sum } else { 0.0 };
        match self {
            Self::Equal | Self::Active => Vec::new(),
            Self::Samples => vec![1.0],
            Self::Criteria { score: CriteriaScore::Prioritised, .. } => {
                let mut product = 1.0;
                let products = sums.iter().map(|sum| {
                    product *= inverse(sum);
                    product
                });
                products.collect()
            }
            Self::Criteria { score: CriteriaScore::Weighted(weights), .. } => {
                sums.iter().zip(weights.iter()).map(|(sum, weight)| weight * inverse(sum)).collect()
            }
            Self::Criteria { .. } => sums.iter().map(inverse).collect(),
        }
    }

    /// The weights of devices by what each says, `None` for those that do not say all; their mean is 1.
    pub(crate) fn weights(&self, reported: &[Option<Vec<f64>>]) -> Vec<f64> {
        let sums: Vec<f64> =
            (0..self.values()).map(|index| reported.iter().flatten().map(|values| values[index]).sum()).collect();
        let score = |values: &Vec<f64>| match self {
            Self::Criteria { score, .. } => {
                let share = |(value, sum): (&f64, &f64)| if *sum > 0.0 { value / sum } else { 0.0 };
                score.of(&values.iter().zip(&sums).map(share).collect::<Vec<_>>())
            }
            _ => values.first().copied().unwrap_or(1.0),
        };
        let scores: Vec<Option<f64>> = reported.iter().map(|reported| reported.as_ref().map(score)).collect();
        let total: f64 = scores.iter().flatten().sum();
        let mean = total / scores.iter().flatten().count().max(1) as f64;
        let weight = |score: &Option<f64>| score.filter(|_| total > 0.0).map_or(1.0, |score| score / mean);
        scores.iter().map(weight).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_worked_example_of_the_thesis() {
        for (criteria, expected) in [([0.9, 0.2, 0.4], 1.152), ([0.4, 0.2, 0.9], 0.552)] {
            let found = CriteriaScore::Prioritised.of(&criteria);
            assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        }
    }

    #[test]
    fn an_ordered_mean_goes_by_rank() {
        let weights = [0.5, 0.3, 0.2];
        let found = CriteriaScore::Ordered(weights.into()).of(&[0.1, 0.9, 0.4]);
        assert!((found - (0.5 * 0.9 + 0.3 * 0.4 + 0.2 * 0.1)).abs() < 1e-12);
        let found = CriteriaScore::Weighted(weights.into()).of(&[0.1, 0.9, 0.4]);
        assert!((found - (0.5 * 0.1 + 0.3 * 0.9 + 0.2 * 0.4)).abs() < 1e-12);
        assert!((CriteriaScore::Mean.of(&[0.1, 0.9, 0.5]) - 0.5).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn prioritised_scores_have_the_properties_of_the_thesis(
            mut criteria in prop::collection::vec(0f64..=1.0, 1..6), index in 0usize..6, more in 0f64..1.0,
        ) {
            let (f, m) = (CriteriaScore::Prioritised, criteria.len());
            let index = index % m;
            prop_assert_eq!(f.of(&vec![0.0; m]), 0.0);
            prop_assert_eq!(f.of(&vec![1.0; m]), m as f64);
            let before = f.of(&criteria);
            let mut larger = criteria.clone();
            larger[index] += more * (1.0 - larger[index]);
            prop_assert!(f.of(&larger) >= before);
            // A zero cuts off everything after it.
            criteria[index] = 0.0;
            prop_assert_eq!(f.of(&criteria), f.of(&criteria[..index]));
        }

        #[test]
        fn products_and_multipliers_come_to_the_score(
            devices in prop::collection::vec(prop::collection::vec(0f64..=10.0, 3), 1..8),
        ) {
            let weights: Arc<[f64]> = [0.5, 0.2, 0.3].into();
            for score in [CriteriaScore::Prioritised, CriteriaScore::Mean, CriteriaScore::Weighted(weights)] {
                let weighting = Weighting::Criteria { score: score.clone(), count: 3 };
                let sums: Vec<f64> = (0..3).map(|j| devices.iter().map(|c| c[j]).sum()).collect();
                let multipliers = weighting.multipliers(&sums);
                let scores: Vec<(f64, f64)> = devices.iter().map(|values| {
                    let mut products = [0.0; 3];
                    weighting.products(values, &mut products);
                    let shares: Vec<f64> = values.iter().zip(&sums)
                        .map(|(value, sum)| if *sum > 0.0 { value / sum } else { 0.0 }).collect();
                    (products.iter().zip(&multipliers).map(|(p, m)| p * m).sum(), score.of(&shares))
                }).collect();
                let [one, other] = [0, 1].map(|which| {
                    scores.iter().map(|pair| if which == 0 { pair.0 } else { pair.1 }).sum::<f64>()
                });
                for (product, score) in scores {
                    // A mean and a sum weigh alike.
                    prop_assert!((product * other - score * one).abs() < 1e-9, "{} {}", product, score);
                }
            }
        }
    }

    #[test]
    fn who_says_nothing_counts_as_the_mean_and_zeros_count_alike() {
        let weighting = Weighting::Criteria { score: CriteriaScore::Prioritised, count: 1 };
        let weights = weighting.weights(&[Some(vec![1.0]), None, Some(vec![3.0])]);
        assert_eq!(weights, [0.5, 1.0, 1.5]);
        assert_eq!(weighting.weights(&[Some(vec![0.0]), None, Some(vec![0.0])]), [1.0; 3]);
        assert_eq!(weighting.weights(&[None, None]), [1.0; 2]);
    }
}
