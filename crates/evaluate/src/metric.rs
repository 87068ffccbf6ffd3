//! Metrics: their names and their values at one cutoff.

use crate::report::Direction;
use serde::{Deserialize, Deserializer, Serialize};
use std::{collections::BTreeMap, fmt, str::FromStr};
use thiserror::Error;

/// All metrics of the lists at one cutoff k.
///
/// Accuracy is the mean over users with test items; the rest is over all users' lists. A number that is not defined
/// (no user has test items, nothing was recommended) is NaN here and `null` in JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// Hits / k, also where the list is shorter.
    #[serde(deserialize_with = "number")]
    pub precision: f64,
    /// Hits / number of test items.
    #[serde(deserialize_with = "number")]
    pub recall: f64,
    /// Sum of 1 / log2(place + 1) over hits, divided by its greatest possible value with min(k, test items) hits.
    #[serde(deserialize_with = "number")]
    pub ndcg: f64,
    /// Share of users with a hit.
    #[serde(deserialize_with = "number")]
    pub hit_rate: f64,
    /// Sum of the precision at each hit, divided by min(k, test items).
    #[serde(deserialize_with = "number")]
    pub map: f64,
    /// 1 / place of the first hit; 0 without one.
    #[serde(deserialize_with = "number")]
    pub mrr: f64,
    /// Harmonic mean of the mean precision and the mean recall; 0 if both are.
    #[serde(deserialize_with = "number")]
    pub f1: f64,
    /// Area under the ROC curve of the full ranking, the same at each cutoff; unknown for lists and for sampled
    /// candidates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auc: Option<f64>,
    /// Precision where a recommender may leave places empty: an empty place counts as an average place (c@1).
    #[serde(default = "undefined", deserialize_with = "number")]
    pub correctness: f64,
    /// Share of users with at least one recommendation.
    #[serde(default = "undefined", deserialize_with = "number")]
    pub user_coverage: f64,
    /// Number of users with a hit.
    #[serde(default)]
    pub users_with_hit: usize,
    /// Number of distinct items recommended.
    pub item_coverage: usize,
    /// The same as a share of the catalog.
    #[serde(deserialize_with = "number")]
    pub item_coverage_share: f64,
    /// 1 - Gini index of the recommendation counts of the whole catalog: 1 is even, 0 is all on one item.
    #[serde(deserialize_with = "number")]
    pub gini: f64,
    /// Shannon entropy of the recommendation counts, in bits.
    #[serde(deserialize_with = "number")]
    pub shannon_entropy: f64,
    /// Mean number of long-tail items in a list; users without a list count.
    #[serde(deserialize_with = "number")]
    pub aclt: f64,
    /// Difference of the hit shares of short head and long tail: standard deviation / mean of the two.
    pub pop_reo: Option<f64>,
    /// Difference of the recommended shares of short head and long tail: standard deviation / mean of the two.
    pub pop_rsp: Option<f64>,
    /// By category, (B_R - B_T) / B_T: how much more (or less) it is recommended than it was chosen.
    pub bias_disparity: BTreeMap<String, Option<f64>>,
}

/// The value of metrics that earlier versions did not compute.
fn undefined() -> f64 {
    f64::NAN
}

/// A number in JSON, where `null` is NaN.
fn number<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}

impl Metrics {
    /// One metric; `None` if it is not defined or was not computed.
    pub fn get(&self, key: Metric) -> Option<f64> {
        let value = match key {
            Metric::Precision => self.precision,
            Metric::Recall => self.recall,
            Metric::Ndcg => self.ndcg,
            Metric::HitRate => self.hit_rate,
            Metric::Map => self.map,
            Metric::Mrr => self.mrr,
            Metric::F1 => self.f1,
            Metric::Auc => self.auc?,
            Metric::Correctness => self.correctness,
            Metric::UserCoverage => self.user_coverage,
            Metric::UsersWithHit => self.users_with_hit as f64,
            Metric::ItemCoverage => self.item_coverage as f64,
            Metric::ItemCoverageShare => self.item_coverage_share,
            Metric::Gini => self.gini,
            Metric::ShannonEntropy => self.shannon_entropy,
            Metric::Aclt => self.aclt,
            Metric::PopReo => self.pop_reo?,
            Metric::PopRsp => self.pop_rsp?,
        };
        (!value.is_nan()).then_some(value)
    }
}

macro_rules! metrics {
    ($($(#[$doc:meta])* $variant:ident $name:literal,)+) => {
        /// The name of a metric, in files and on the command line.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Metric {
            $($(#[$doc])* $variant),+
        }

        impl Metric {
            /// Every metric, in the order of tables.
            pub const ALL: [Metric; 18] = [$(Metric::$variant),+];

            /// The name in files: the field of [`Metrics`].
            pub const fn name(self) -> &'static str {
                match self {
                    $(Metric::$variant => $name),+
                }
            }
        }
    };
}

metrics! {
    /// P@k.
    Precision "precision",
    /// R@k.
    Recall "recall",
    /// nDCG@k.
    Ndcg "ndcg",
    /// HR@k.
    HitRate "hit_rate",
    /// MAP@k.
    Map "map",
    /// MRR@k.
    Mrr "mrr",
    /// F1@k.
    F1 "f1",
    /// AUC.
    Auc "auc",
    /// Correctness: precision of a recommender that may abstain.
    Correctness "correctness",
    /// User coverage.
    UserCoverage "user_coverage",
    /// Users with a hit.
    UsersWithHit "users_with_hit",
    /// IC@k.
    ItemCoverage "item_coverage",
    /// IC@k as a share of the catalog.
    ItemCoverageShare "item_coverage_share",
    /// G@k.
    Gini "gini",
    /// SE@k.
    ShannonEntropy "shannon_entropy",
    /// ACLT@k.
    Aclt "aclt",
    /// PopREO@k.
    PopReo "pop_reo",
    /// PopRSP@k.
    PopRsp "pop_rsp",
}

/// There is no metric of this name.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("there is no metric `{name}`; metrics are: {}", Metric::ALL.map(Metric::name).join(" "))]
pub struct UnknownMetric {
    /// What was asked for.
    pub name: String,
}

impl Metric {
    /// Metrics with a value per user, which can be tested for significance.
    pub const PER_USER: [Metric; 7] =
        [Metric::Precision, Metric::Recall, Metric::Ndcg, Metric::HitRate, Metric::Map, Metric::Mrr, Metric::Auc];

    /// Which way it improves. Of the long tail and of evenness, more counts as better.
    pub const fn direction(self) -> Direction {
        match self {
            Metric::PopReo | Metric::PopRsp => Direction::LowerBetter,
            _ => Direction::HigherBetter,
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Metric {
    type Err = UnknownMetric;

    fn from_str(name: &str) -> Result<Self, UnknownMetric> {
        let found = Metric::ALL.into_iter().find(|key| key.name() == name);
        found.ok_or_else(|| UnknownMetric { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Metrics {
        Metrics {
            precision: 0.1,
            recall: 0.2,
            ndcg: 0.3,
            hit_rate: 0.4,
            map: 0.5,
            mrr: 0.6,
            f1: 0.7,
            auc: Some(0.8),
            correctness: 0.15,
            user_coverage: 0.9,
            users_with_hit: 4,
            item_coverage: 9,
            item_coverage_share: 1.0,
            gini: f64::NAN,
            shannon_entropy: 1.2,
            aclt: 1.3,
            pop_reo: None,
            pop_rsp: Some(1.5),
            bias_disparity: [("b".to_owned(), None), ("a".to_owned(), Some(0.1 + 0.2))].into(),
        }
    }

    #[test]
    fn json_round_trips_in_order() {
        let text = serde_json::to_string(&sample()).unwrap();
        assert_eq!(
            text,
            r#"{"precision":0.1,"recall":0.2,"ndcg":0.3,"hit_rate":0.4,"map":0.5,"mrr":0.6,"f1":0.7,"auc":0.8,"#
                .to_owned()
                + r#""correctness":0.15,"user_coverage":0.9,"users_with_hit":4,"item_coverage":9,"item_coverage_share":1.0,"gini":null,"shannon_entropy":1.2,"aclt":1.3,"#
                + r#""pop_reo":null,"pop_rsp":1.5,"bias_disparity":{"a":0.30000000000000004,"b":null}}"#
        );
        let back: Metrics = serde_json::from_str(&text).unwrap();
        assert!(back.gini.is_nan());
        assert_eq!(serde_json::to_string(&back).unwrap(), text);
        let without = serde_json::to_string(&Metrics { auc: None, ..sample() }).unwrap();
        assert!(!without.contains("auc"));
        assert_eq!(serde_json::from_str::<Metrics>(&without).unwrap().auc, None);
    }

    #[test]
    fn metric_names_are_the_fields() {
        let json = serde_json::to_value(sample()).unwrap();
        for key in Metric::ALL {
            assert_eq!(key.name().parse(), Ok(key));
            assert_eq!(sample().get(key), json[key.name()].as_f64(), "{key}");
            assert_eq!(serde_json::to_value(key).unwrap(), key.name());
        }
        let error = "ngcd".parse::<Metric>().unwrap_err().to_string();
        assert!(error.starts_with("there is no metric `ngcd`; metrics are: precision recall"), "{error}");
    }
}
