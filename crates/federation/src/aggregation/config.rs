//! Settings of how updates are added up, the same for every model trained in a federation.

use super::{Aggregation, RobustAggregator, CriteriaScore, Weighting};
use crate::FederationError;
use sottovoce_models::criteria;
use sottovoce_models::settings::{Setting, Settings};
use sottovoce_protocol::CriterionRequest;

/// How updates are added up, as it was set.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Chosen {
    guard: RobustAggregator,
    weighting: String,
    criteria: String,
    weights: String,
}

impl Chosen {
    /// Their definitions.
    pub(crate) fn settings() -> Vec<Setting> {
        let mut all = guards();
        all.extend(weighings());
        all
    }

    /// From checked settings.
    pub(crate) fn read(settings: &Settings) -> Self {
        let (norm, share) = (settings.real("guard_norm") as f32, settings.real("guard_share") as f32);
        let word = |key| settings.word(key).to_owned();
        Self {
            guard: match settings.word("guard") {
                "clip" => RobustAggregator::Clip(norm),
                "clip-update" => RobustAggregator::ClipUpdate(norm),
                "median" => RobustAggregator::Median,
                "trimmed-mean" => RobustAggregator::Trimmed(share),
                "krum" => RobustAggregator::Krum(share),
                "multi-krum" => RobustAggregator::MultiKrum(share),
                _ => RobustAggregator::None,
            },
            weighting: word("weighting"),
            criteria: word("criteria"),
            weights: word("criteria_weights"),
        }
    }

    /// How updates are added up.
    ///
    /// # Errors
    /// If criteria and their weights do not fit, or the guard does not know weights.
    pub(crate) fn with_aggregation(&self) -> Result<Aggregation, FederationError> {
        let count = self.names()?.len();
        let of = |score| Weighting::Criteria { score, count };
        let weighting = match self.weighting.as_str() {
            "samples" => Weighting::Samples,
            "prioritised" => of(CriteriaScore::Prioritised),
            "mean" => of(CriteriaScore::Mean),
            "weighted-mean" => of(CriteriaScore::Weighted(self.weights(count)?.into())),
            "owa" => of(CriteriaScore::Ordered(self.weights(count)?.into())),
            _ => Weighting::Equal,
        };
        Ok(Aggregation::new(self.guard, weighting)?)
    }

    /// What devices are asked for so that updates can be weighed, the most important first.
    ///
    /// # Errors
    /// If it is not a list of different names.
    pub(crate) fn asked(&self) -> Result<Vec<CriterionRequest>, FederationError> {
        let asked = |name: &str| CriterionRequest { name: name.to_owned(), purpose: criteria::why(name).to_owned() };
        Ok(self.names()?.into_iter().map(asked).collect())
    }

    /// Whether devices are asked how many samples they learnt from.
    pub(crate) fn samples(&self) -> bool {
        self.weighting == "samples"
    }

    fn names(&self) -> Result<Vec<&str>, FederationError> {
        if ["equal", "samples"].contains(&self.weighting.as_str()) {
            return Ok(Vec::new());
        }
        let names: Vec<&str> = list(&self.criteria).collect();
        let wrong = |expected: &str| FederationError::Setting {
            key: "criteria",
            found: self.criteria.clone(),
            expected: format!("{expected}, because weighting = {}", self.weighting),
        };
        if names.is_empty() || names.contains(&"") {
            return Err(wrong("names with commas between them, the most important first"));
        }
        let twice = |(place, name): (usize, &&str)| names[..place].contains(name);
        if names.iter().enumerate().any(twice) {
            return Err(wrong("each name once"));
        }
        Ok(names)
    }

    fn weights(&self, count: usize) -> Result<Vec<f64>, FederationError> {
        let weights: Option<Vec<f64>> = list(&self.weights).map(|weight| weight.parse().ok()).collect();
        let fits = |weights: &Vec<f64>| {
            let all = weights.iter().all(|weight| (0.0..=1e6).contains(weight));
            all && weights.len() == count && weights.iter().any(|&weight| weight > 0.0)
        };
        weights.filter(fits).ok_or_else(|| FederationError::Setting {
            key: "criteria_weights",
            found: self.weights.clone(),
            expected: format!("{count} numbers from 0 on with commas between them, not all 0"),
        })
    }
}

/// The parts of a list with commas; none of an empty text.
fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(move |_| !text.trim().is_empty())
}

fn guards() -> Vec<Setting> {
    vec![
        Setting::choice(
            "guard",
            RobustAggregator::NAMES,
            "Against updates that lie: rows or whole updates partition down to a norm, the median or trimmed mean of what devices send for a row, or the updates nearest to the others",
        ),
        Setting::real(
            "guard_norm",
            1.0,
            1e-6..=1e6,
            "With guard = clip or clip-update: the longest row, or update",
        )
        .on_log_scale(),
        Setting::real(
            "guard_share",
            0.1,
            0.0..=0.49,
            "With guard = trimmed-mean: the share left out at either end; with krum and multi-krum: the share that may lie",
        ),
    ]
}

fn weighings() -> Vec<Setting> {
    vec![
        Setting::choice(
            "weighting",
            Weighting::NAMES,
            "How much each update counts: all alike, by samples learnt from, or by criteria: in order of priority, or by their mean, weighted mean or ordered weighted average",
        ),
        Setting::text(
            "criteria",
            "With weighting by criteria: their names with commas between, the most important first; size, diversity, closeness, recency, loss",
        ),
        Setting::text(
            "criteria_weights",
            "With weighting = weighted-mean or owa: a number for each criterion, or rank, with commas between",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(weighting: &str, criteria: &str, weights: &str) -> Chosen {
        let [weighting, criteria, weights] = [weighting, criteria, weights].map(str::to_owned);
        Chosen { guard: RobustAggregator::None, weighting, criteria, weights }
    }

    #[test]
    fn lists_are_read_and_what_is_wrong_is_named() {
        let fine = chosen("owa", "size, closeness", "0.7,0.3");
        let score = CriteriaScore::Ordered([0.7, 0.3].into());
        assert_eq!(*fine.with_aggregation().unwrap().weighting(), Weighting::Criteria { score, count: 2 });
        assert_eq!(fine.asked().unwrap()[1].name, "closeness");
        assert!(chosen("equal", "size", "").asked().unwrap().is_empty());
        for (wrong, said) in [
            (chosen("mean", "", ""), "names with commas"),
            (chosen("mean", "size,,loss", ""), "names with commas"),
            (chosen("prioritised", "size,size", ""), "each name once, because weighting = prioritised"),
            (chosen("owa", "size,loss", "1"), "criteria_weights = \"1\": expected 2 numbers"),
            (chosen("weighted-mean", "size", "NaN"), "expected 1 numbers"),
            (chosen("weighted-mean", "size", "0"), "not all 0"),
        ] {
            let error = wrong.with_aggregation().unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
