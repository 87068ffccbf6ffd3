//! Settings of robust and weighted aggregation, the same for every federated model.

use super::{Aggregation, CriteriaScore, RobustAggregator, Weighting};
use crate::FederationError;
use sottovoce_models::settings::Choice as _;
use sottovoce_models::{choices, config, criteria};
use sottovoce_protocol::CriterionRequest;

choices! {
    /// Kinds of robust aggregation.
    #[derive(Default)]
    pub(crate) enum RobustKind {
        /// None.
        #[default]
        None => "none",
        /// Rows clipped.
        Clip => "clip",
        /// Median.
        Median => "median",
        /// Trimmed mean.
        TrimmedMean => "trimmed-mean",
        /// Updates clipped.
        ClipUpdate => "clip-update",
        /// Krum.
        Krum => "krum",
        /// Multi-Krum.
        MultiKrum => "multi-krum",
    }
}

choices! {
    /// Kinds of weighting.
    #[derive(Default)]
    pub(crate) enum WeightingKind {
        /// Equal.
        #[default]
        Equal => "equal",
        /// By samples.
        Samples => "samples",
        /// By the length of a row's change.
        Active => "active",
        /// By criteria in order of priority.
        Prioritised => "prioritised",
        /// By their mean.
        Mean => "mean",
        /// By their weighted mean.
        WeightedMean => "weighted-mean",
        /// By their ordered weighted average.
        Owa => "owa",
    }
}

config! {
    /// How updates are weighted, and how robustly they are aggregated.
    pub(crate) struct AggregationConfig in Aggregation {
        /// Against malicious updates: clip rows or whole updates to a norm, take the median or trimmed mean of what
        /// devices send for a row, or the updates nearest to the others
        robust_aggregation: RobustKind = RobustKind::None => [was("guard")];
        /// With robust_aggregation = clip or clip-update: the largest norm of a row, or of an update
        robust_norm: f64 = 1.0, in 1e-6..=1e6 => [log was("guard_norm")];
        /// With robust_aggregation = trimmed-mean: the fraction left out at either end; with krum and multi-krum: the
        /// fraction of devices that may be malicious
        robust_fraction: f64 = 0.1, in 0.0..=0.49 => [was("guard_share")];
        /// How much each update counts: all equally, by samples trained on, each row by the length of its change
        /// (active, as FedFast), or by criteria: in order of priority, or by their mean, weighted mean or ordered
        /// weighted average
        weighting: WeightingKind = WeightingKind::Equal => [was("weighing")];
        /// With weighting by criteria: their names with commas between, the most important first; size, diversity,
        /// closeness, recency, loss, auc
        criteria: String = String::new();
        /// With weighting = weighted-mean or owa: a number for each criterion, or rank, with commas between
        criteria_weights: String = String::new();
    }
}

impl AggregationConfig {
    /// How updates are aggregated.
    ///
    /// # Errors
    /// If criteria and their weights do not fit, or robust aggregation does not support weights.
    pub(crate) fn aggregation(&self) -> Result<Aggregation, FederationError> {
        let (norm, fraction) = (self.robust_norm as f32, self.robust_fraction as f32);
        let robust = match self.robust_aggregation {
            RobustKind::None => RobustAggregator::None,
            RobustKind::Clip => RobustAggregator::Clip(norm),
            RobustKind::Median => RobustAggregator::Median,
            RobustKind::TrimmedMean => RobustAggregator::Trimmed(fraction),
            RobustKind::ClipUpdate => RobustAggregator::ClipUpdate(norm),
            RobustKind::Krum => RobustAggregator::Krum(fraction),
            RobustKind::MultiKrum => RobustAggregator::MultiKrum(fraction),
        };
        let count = self.names()?.len();
        let of = |score| Weighting::Criteria { score, count };
        let weighting = match self.weighting {
            WeightingKind::Equal => Weighting::Equal,
            WeightingKind::Samples => Weighting::Samples,
            WeightingKind::Active => Weighting::Active,
            WeightingKind::Prioritised => of(CriteriaScore::Prioritised),
            WeightingKind::Mean => of(CriteriaScore::Mean),
            WeightingKind::WeightedMean => of(CriteriaScore::Weighted(self.weights(count)?.into())),
            WeightingKind::Owa => of(CriteriaScore::Ordered(self.weights(count)?.into())),
        };
        Ok(Aggregation::new(robust, weighting)?)
    }

    /// The criteria that devices are asked for, the most important first.
    ///
    /// # Errors
    /// If it is not a list of different names.
    pub(crate) fn requests(&self) -> Result<Vec<CriterionRequest>, FederationError> {
        let request =
            |name: &str| CriterionRequest { name: name.to_owned(), purpose: criteria::purpose(name).to_owned() };
        Ok(self.names()?.into_iter().map(request).collect())
    }

    /// Whether devices are asked how many samples they trained on.
    pub(crate) fn asks_samples(&self) -> bool {
        self.weighting == WeightingKind::Samples
    }

    fn names(&self) -> Result<Vec<&str>, FederationError> {
        if matches!(self.weighting, WeightingKind::Equal | WeightingKind::Samples | WeightingKind::Active) {
            return Ok(Vec::new());
        }
        let names: Vec<&str> = list(&self.criteria).collect();
        let wrong = |expected: &str| {
            let expected = format!("{expected}, because weighting = {}", self.weighting.name());
            FederationError::setting("criteria", &self.criteria, expected)
        };
        if names.is_empty() || names.contains(&"") {
            return Err(wrong("names with commas between them, the most important first"));
        }
        let twice = |(index, name): (usize, &&str)| names[..index].contains(name);
        if names.iter().enumerate().any(twice) {
            return Err(wrong("each name once"));
        }
        Ok(names)
    }

    fn weights(&self, count: usize) -> Result<Vec<f64>, FederationError> {
        let weights: Option<Vec<f64>> = list(&self.criteria_weights).map(|weight| weight.parse().ok()).collect();
        let fits = |weights: &Vec<f64>| {
            let all = weights.iter().all(|weight| (0.0..=1e6).contains(weight));
            all && weights.len() == count && weights.iter().any(|&weight| weight > 0.0)
        };
        weights.filter(fits).ok_or_else(|| {
            let expected = format!("{count} numbers of at least 0 with commas between them, not all 0");
            FederationError::setting("criteria_weights", &self.criteria_weights, expected)
        })
    }
}

/// The parts of a list with commas; none of an empty text.
fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(move |_| !text.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(weighting: &str, criteria: &str, weights: &str) -> AggregationConfig {
        AggregationConfig {
            weighting: WeightingKind::named(weighting).unwrap(),
            criteria: criteria.to_owned(),
            criteria_weights: weights.to_owned(),
            ..AggregationConfig::default()
        }
    }

    #[test]
    fn reads_lists_and_names_what_is_wrong() {
        let fine = config("owa", "size, closeness", "0.7,0.3");
        let score = CriteriaScore::Ordered([0.7, 0.3].into());
        assert_eq!(fine.aggregation().unwrap().weighting, Weighting::Criteria { score, count: 2 });
        assert_eq!(fine.requests().unwrap()[1].name, "closeness");
        assert!(config("equal", "size", "").requests().unwrap().is_empty());
        for (wrong, message) in [
            (config("mean", "", ""), "names with commas"),
            (config("mean", "size,,loss", ""), "names with commas"),
            (config("prioritised", "size,size", ""), "each name once, because weighting = prioritised"),
            (config("owa", "size,loss", "1"), "criteria_weights = \"1\": expected 2 numbers"),
            (config("weighted-mean", "size", "NaN"), "expected 1 numbers"),
            (config("weighted-mean", "size", "0"), "not all 0"),
        ] {
            let error = wrong.aggregation().unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
