//! Metrics at a cutoff, as experiment files write them: `ndcg@10`.

use crate::file::did_you_mean;
use serde::{Serialize, Serializer};
use sottovoce_evaluate::report::Direction;
use sottovoce_evaluate::{Metric, Metrics};
use std::collections::BTreeMap;
use std::fmt;

/// A metric at a cutoff.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MetricAt {
    /// The metric.
    pub key: Metric,
    /// Length of the lists.
    pub cutoff: usize,
}

impl MetricAt {
    /// Reads `ndcg@10`; the cutoff is `main` if there is none.
    ///
    /// # Errors
    /// If there is no such metric; the message is for the author of the file.
    pub fn parse(text: &str, main: usize) -> Result<Self, String> {
        let (name, cutoff) = text.split_once('@').map_or((text, None), |(name, k)| (name, Some(k)));
        let cutoff = match cutoff.map(str::parse) {
            None => main,
            Some(Ok(k)) if k > 0 => k,
            _ => return Err(format!("expected a metric and a cutoff like ndcg@10, found `{text}`")),
        };
        name.parse().map(|key| Self { key, cutoff }).map_err(|_| {
            let names = Metric::ALL.map(Metric::name);
            let hint = did_you_mean(name, &names);
            format!("there is no metric `{name}`{hint}; metrics are: {}", names.join(", "))
        })
    }

    /// Its value among others, if it is there and defined.
    pub fn of(&self, metrics: &BTreeMap<usize, Metrics>) -> Option<f64> {
        metrics.get(&self.cutoff)?.get(self.key)
    }

    /// The value turned so that more is better.
    pub fn objective(&self, value: f64) -> f64 {
        if self.key.direction() == Direction::LowerBetter { -value } else { value }
    }
}

impl fmt::Display for MetricAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.key, self.cutoff)
    }
}

impl Serialize for MetricAt {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
