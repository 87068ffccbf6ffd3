//! Each user's own values, for significance tests, confidence intervals and slices.

use crate::Metric;
use crate::accuracy::Row;
use std::collections::BTreeMap;

/// The values of every user with test items; all columns are parallel to [`users`](Self::users).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PerUser {
    /// Users with test items, ascending. Two evaluations of one input have the same, so their columns pair up.
    pub users: Vec<u32>,
    /// By cutoff.
    pub at: BTreeMap<usize, Columns>,
    /// Area under the curve; NaN for a user without a pair to compare. `None` if it was not taken.
    pub auc: Option<Vec<f64>>,
}

impl PerUser {
    /// One measure's column; `None` if users have no value of it or the cutoff was not evaluated.
    pub fn column(&self, key: Metric, cutoff: usize) -> Option<&[f64]> {
        let at = self.at.get(&cutoff)?;
        let column = match key {
            Metric::Precision => &at.precision,
            Metric::Recall => &at.recall,
            Metric::Ndcg => &at.ndcg,
            Metric::HitRate => &at.hit,
            Metric::Map => &at.map,
            Metric::Mrr => &at.mrr,
            Metric::Auc => self.auc.as_ref()?,
            _ => return None,
        };
        Some(column)
    }
}

/// Users' values at one cutoff.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Columns {
    /// Hits / k.
    pub precision: Vec<f64>,
    /// Hits / test items.
    pub recall: Vec<f64>,
    /// Normalised discounted gain.
    pub ndcg: Vec<f64>,
    /// 1 with a hit, else 0.
    pub hit: Vec<f64>,
    /// Average precision.
    pub map: Vec<f64>,
    /// 1 / place of the first hit, or 0.
    pub mrr: Vec<f64>,
}

impl Columns {
    pub(crate) fn push(&mut self, row: Row) {
        self.precision.push(row.precision);
        self.recall.push(row.recall);
        self.ndcg.push(row.ndcg);
        self.hit.push(row.hit);
        self.map.push(row.map);
        self.mrr.push(row.mrr);
    }

    pub(crate) fn append(&mut self, other: &Columns) {
        self.precision.extend_from_slice(&other.precision);
        self.recall.extend_from_slice(&other.recall);
        self.ndcg.extend_from_slice(&other.ndcg);
        self.hit.extend_from_slice(&other.hit);
        self.map.extend_from_slice(&other.map);
        self.mrr.extend_from_slice(&other.mrr);
    }

    pub(crate) fn row(&self, index: usize) -> Row {
        Row {
            precision: self.precision[index],
            recall: self.recall[index],
            ndcg: self.ndcg[index],
            hit: self.hit[index],
            map: self.map[index],
            mrr: self.mrr[index],
        }
    }
}

/// Mean of the values that are numbers; `None` without any.
pub(crate) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values
        .filter(|value| !value.is_nan())
        .fold((0.0, 0u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}
