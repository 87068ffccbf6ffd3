//! Each user's own values, for significance tests and confidence intervals.

use crate::Metric;
use std::collections::BTreeMap;

/// The values of every user with test items; all columns are parallel to [`users`](Self::users).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PerUser {
    /// Users with test items, ascending. Two evaluations of one input have the same, so their columns pair up.
    pub users: Vec<u32>,
    /// By cutoff: a column for each of [`Metric::PER_USER`] but AUC.
    pub at: BTreeMap<usize, [Vec<f64>; 6]>,
    /// Area under the ROC curve; NaN for a user without a pair to compare. `None` if it was not computed.
    pub auc: Option<Vec<f64>>,
}

impl PerUser {
    /// One metric's column; `None` if users have no value of it or the cutoff was not evaluated.
    pub fn column(&self, metric: Metric, cutoff: usize) -> Option<&[f64]> {
        let at = self.at.get(&cutoff)?;
        let index = Metric::PER_USER.iter().position(|of_user| *of_user == metric)?;
        at.get(index).or(self.auc.as_ref()).map(Vec::as_slice)
    }
}

/// Mean of the values that are numbers; `None` without any.
pub(crate) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) =
        values.filter(|value| !value.is_nan()).fold((0.0, 0u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}
