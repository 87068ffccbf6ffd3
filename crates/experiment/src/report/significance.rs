//! Significance tests between rows.

use super::SIGNIFICANT;
use crate::file::Experiment;
use crate::metric::MetricAt;
use crate::results::{DataResults, Row};
use sottovoce_evaluate::Metric;
use sottovoce_evaluate::report::Mark;
use sottovoce_evaluate::significance::{Against, Comparison, compare};

/// The comparisons of one table, p corrected over them.
pub(super) struct Differences {
    /// What was compared.
    pub(super) metric: MetricAt,
    /// Each row against the reference.
    pub(super) found: Vec<Comparison>,
    named: bool,
}

impl Differences {
    /// Compares the rows of a data set with the row the file names, or with the best.
    pub(super) fn of(experiment: &Experiment, data: &DataResults) -> Self {
        let main = experiment.selection.metric;
        // Only metrics that every user has a value of can be tested.
        let key = if Metric::PER_USER.contains(&main.key) { main.key } else { Metric::Ndcg };
        let metric = MetricAt { key, cutoff: main.cutoff };
        let columns: Vec<(&Row, Vec<f64>)> =
            data.rows.iter().filter_map(|row| Some((row, row.per_user(metric.key, metric.cutoff)?.1))).collect();
        let pairs: Vec<(&str, &[f64])> =
            columns.iter().map(|(row, values)| (row.label.as_str(), values.as_slice())).collect();
        let named = experiment.compare.as_deref().filter(|name| pairs.iter().any(|(label, _)| label == name));
        let against = named.map_or(Against::Best, Against::Named);
        // Rows without users in common cannot be compared.
        Self { metric, found: compare(&pairs, against).unwrap_or_default(), named: named.is_some() }
    }

    /// The comparison of two rows, if it was made.
    pub(super) fn between(&self, a: &str, b: &str) -> Option<&Comparison> {
        self.found.iter().find(|one| (one.model == a && one.reference == b) || (one.model == b && one.reference == a))
    }

    /// The mark of a row that differs significantly from the reference.
    pub(super) fn mark(&self, label: &str) -> Option<Mark> {
        let one = self.found.iter().find(|one| one.model == label && one.student.p_holm < SIGNIFICANT)?;
        let reference = if self.named { format!("**{}**", one.reference) } else { "the best row".to_owned() };
        let (symbol, direction) = if one.difference > 0.0 { ("▲", "above") } else { ("▼", "below") };
        let meaning = format!("significantly {direction} {reference} (paired t-test, Holm, p < {SIGNIFICANT})");
        Some(Mark::new(symbol, meaning).detail(format!("p = {:.2e}, d = {:.2}", one.student.p_holm, one.d)))
    }
}
