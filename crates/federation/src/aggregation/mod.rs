//! How the updates of a round are added up: how much each counts, and what one device can do to the sum.

mod buffered;
mod config;
mod criteria_sums;
mod robust;
mod weighting;

pub(crate) use buffered::{BufferedUpdate, BufferedUpdates};
pub(crate) use config::AggregationConfig;
pub(crate) use criteria_sums::CriteriaSums;
pub use robust::RobustAggregator;
pub(crate) use robust::{BufferedRows, clipping};
pub use weighting::{CriteriaScore, Weighting};

use crate::privacy::QuantizedSumConfig;
use sottovoce_privacy::PrivacyMechanism;
use std::sync::Arc;

/// How the updates of a round are added up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Aggregation {
    pub(crate) robust: RobustAggregator,
    pub(crate) weighting: Weighting,
    /// Whether each update is kept with its device until the round is over.
    pub(crate) identified: bool,
    /// As integers, where rounds are protected.
    pub(crate) quantized_sum: Option<Arc<QuantizedSumConfig>>,
}

/// A guard and a weighting that do not go together, or not with protected updates; each by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AggregationError {
    /// The guard does not know weights.
    #[error(
        "robust_aggregation = {0} counts all updates equally: it does not go with weighting = {1}, only with equal"
    )]
    Unweighted(&'static str, &'static str),
    /// Updates are protected.
    #[error(
        "protected updates are added as they are: robust_aggregation = {0} and weighting = {1} would have to look at each; take robust_aggregation = none and weighting = equal"
    )]
    Protected(&'static str, &'static str),
    /// Single updates are looked at, and protected.
    #[error(
        "assignment = sampler has the server look at single updates, which noise and seals prevent: take assignment = projection, loss or single"
    )]
    Identified,
    /// Single updates are looked at, and combined.
    #[error(
        "assignment = sampler takes means of single updates: robust_aggregation = {0} and weighting = {1} do not go with it; take robust_aggregation = none or clip-update and weighting = equal"
    )]
    Clustered(&'static str, &'static str),
}

impl Aggregation {
    /// With this guard, each update weighed so.
    ///
    /// # Errors
    /// If the guard does not know weights: a median, a trimmed mean, Krum.
    pub fn new(robust: RobustAggregator, weighting: Weighting) -> Result<Self, AggregationError> {
        if weighting != Weighting::Equal && (robust.buffers_rows() || robust.buffers_updates()) {
            return Err(AggregationError::Unweighted(robust.name(), weighting.name()));
        }
        Ok(Self { robust, weighting, identified: false, quantized_sum: None })
    }

    /// The same, where the strategy needs to know which device sent what.
    ///
    /// # Errors
    /// If updates do not count alike, or are more than clipped.
    pub(crate) fn identifying(self) -> Result<Self, AggregationError> {
        match (self.robust, &self.weighting) {
            (RobustAggregator::None | RobustAggregator::ClipUpdate(_), Weighting::Equal) => {
                Ok(Self { identified: true, ..self })
            }
            (robust, weighting) => Err(AggregationError::Clustered(robust.name(), weighting.name())),
        }
    }

    /// The same for updates that are protected so. All count alike: what each says cannot be looked at.
    ///
    /// # Errors
    /// If they are to be guarded or weighed.
    pub(crate) fn protected(self, protected: Arc<QuantizedSumConfig>) -> Result<Self, AggregationError> {
        if self.identified {
            return Err(AggregationError::Identified);
        }
        if self.robust != RobustAggregator::None || self.weighting != Weighting::Equal {
            return Err(AggregationError::Protected(self.robust.name(), self.weighting.name()));
        }
        Ok(Self { quantized_sum: Some(protected), ..self })
    }

    /// How updates are protected, if they are.
    pub(crate) fn privacy(&self) -> Option<&PrivacyMechanism> {
        self.quantized_sum.as_ref().map(|sum| &sum.mechanism)
    }

    /// Whether updates are simply added.
    pub(crate) fn is_plain(&self) -> bool {
        self.robust == RobustAggregator::None && self.weighting == Weighting::Equal && self.quantized_sum.is_none()
    }

    /// Whether whole updates are buffered until the round is over.
    pub(crate) fn buffers_updates(&self) -> bool {
        self.robust.buffers_updates() || self.weighting.buffers_updates()
    }
}

impl From<RobustAggregator> for Aggregation {
    fn from(robust: RobustAggregator) -> Self {
        Self { robust, weighting: Weighting::Equal, identified: false, quantized_sum: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guards_that_know_no_weights_are_refused_with_weights() {
        for robust in [
            RobustAggregator::Median,
            RobustAggregator::Trimmed(0.1),
            RobustAggregator::Krum(0.1),
            RobustAggregator::MultiKrum(0.1),
        ] {
            assert!(Aggregation::new(robust, Weighting::Equal).is_ok());
            assert!(Aggregation::new(robust, Weighting::Samples).is_err());
        }
        for robust in [RobustAggregator::None, RobustAggregator::Clip(1.0), RobustAggregator::ClipUpdate(1.0)] {
            assert!(Aggregation::new(robust, Weighting::Samples).is_ok());
        }
        let error = Aggregation::new(RobustAggregator::Krum(0.1), Weighting::Samples).unwrap_err();
        assert_eq!(
            error.to_string(),
            "robust_aggregation = krum counts all updates equally: it does not go with weighting = samples, only with equal"
        );
    }
}
