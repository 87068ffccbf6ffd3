//! Names of metrics as experiment files write them: `ndcg@10`.

use serde::{Serialize, Serializer};
use sottovoce_models::settings::nearest;
use std::fmt;

/// The metrics that rows can be chosen and plotted by, as they are called in every output.
pub const NAMES: &[&str] = &[
    "precision",
    "recall",
    "ndcg",
    "hit_rate",
    "map",
    "mrr",
    "f1",
    "auc",
    "item_coverage",
    "item_coverage_share",
    "gini",
    "shannon_entropy",
    "aclt",
    "pop_reo",
    "pop_rsp",
];

/// A metric at a cutoff.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MetricAt {
    /// One of [`NAMES`].
    pub name: String,
    /// Length of the lists.
    pub cutoff: usize,
}

impl MetricAt {
    /// Reads `ndcg@10`; without a cutoff, `main` is meant.
    ///
    /// # Errors
    /// If there is no such metric, in words for the person who wrote it.
    pub fn parse(text: &str, main: usize) -> Result<Self, String> {
        let (name, cutoff) = text.split_once('@').map_or((text, None), |(name, k)| (name, Some(k)));
        let cutoff = match cutoff.map(str::parse) {
            None => main,
            Some(Ok(k)) if k > 0 => k,
            _ => return Err(format!("expected a metric and a cutoff like ndcg@10, found `{text}`")),
        };
        if NAMES.contains(&name) {
            return Ok(Self { name: name.to_owned(), cutoff });
        }
        let hint = nearest(name, NAMES.iter().copied())
            .map_or_else(String::new, |near| format!(" (did you mean `{near}`?)"));
        Err(format!("there is no metric `{name}`{hint}; metrics are: {}", NAMES.join(", ")))
    }

    /// The value turned so that more is better.
    pub fn worth(&self, value: f64) -> f64 {
        if lower_is_better(&self.name) { -value } else { value }
    }
}

/// Whether a smaller value of this metric is the better one (popularity bias).
pub fn lower_is_better(name: &str) -> bool {
    matches!(name, "pop_reo" | "pop_rsp")
}

impl fmt::Display for MetricAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.name, self.cutoff)
    }
}

impl Serialize for MetricAt {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
