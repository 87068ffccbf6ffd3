//! How the updates of a round are added up: how much each counts, and what one device can do to the sum.

mod buffered;
mod config;
mod criteria_sums;
mod robust;
mod weighting;

pub(crate) use buffered::BufferedUpdates;
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
    robust: RobustAggregator,
    weighting: Weighting,
    /// As integers, where rounds are protected.
    quantized_sum: Option<Arc<QuantizedSumConfig>>,
}

/// A guard and a weighting that do not go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "robust_aggregation = {robust} counts all updates equally: it does not go with weighting = {weighting}, only with equal"
)]
pub struct AggregationError {
    robust: &'static str,
    weighting: &'static str,
}

/// A guard or a weighting for updates that are protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "protected updates are added as they are: robust_aggregation = {robust} and weighting = {weighting} would have to look at each; take robust_aggregation = none and weighting = equal"
)]
pub struct ProtectedAggregationError {
    robust: &'static str,
    weighting: &'static str,
}

impl Aggregation {
    /// With this guard, each update weighed so.
    ///
    /// # Errors
    /// If the guard does not know weights: a median, a trimmed mean, Krum.
    pub fn new(robust: RobustAggregator, weighting: Weighting) -> Result<Self, AggregationError> {
        if weighting != Weighting::Equal && (robust.buffers_rows() || robust.buffers_updates()) {
            return Err(AggregationError { robust: robust.name(), weighting: weighting.name() });
        }
        Ok(Self { robust, weighting, quantized_sum: None })
    }

    /// The same for updates that are protected so. All count alike: what each says cannot be looked at.
    ///
    /// # Errors
    /// If they are to be guarded or weighed.
    pub(crate) fn protected(
        self,
        protected: Arc<QuantizedSumConfig>,
    ) -> Result<Self, ProtectedAggregationError> {
        if self.robust != RobustAggregator::None || self.weighting != Weighting::Equal {
            return Err(ProtectedAggregationError {
                robust: self.robust.name(),
                weighting: self.weighting.name(),
            });
        }
        Ok(Self { quantized_sum: Some(protected), ..self })
    }

    /// How updates are protected, if they are.
    pub(crate) fn privacy(&self) -> Option<&PrivacyMechanism> {
        self.quantized_sum.as_ref().map(|sum| &sum.mechanism)
    }

    /// How words are added up, if they are.
    pub(crate) fn quantized_sum(&self) -> Option<&Arc<QuantizedSumConfig>> {
        self.quantized_sum.as_ref()
    }

    /// What one device can do to the sum.
    pub fn robust(&self) -> RobustAggregator {
        self.robust
    }

    /// How much each update counts.
    pub fn weighting(&self) -> &Weighting {
        &self.weighting
    }

    /// Whether updates are simply added.
    pub(crate) fn is_plain(&self) -> bool {
        self.robust == RobustAggregator::None
            && self.weighting == Weighting::Equal
            && self.quantized_sum.is_none()
    }

    /// Whether whole updates are buffered until the round is over.
    pub(crate) fn buffers_updates(&self) -> bool {
        self.robust.buffers_updates() || self.weighting.buffers_updates()
    }
}

impl From<RobustAggregator> for Aggregation {
    fn from(robust: RobustAggregator) -> Self {
        Self { robust, weighting: Weighting::Equal, quantized_sum: None }
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
        for robust in [RobustAggregator::None, RobustAggregator::Clip(1.0), RobustAggregator::ClipUpdate(1.0)]
        {
            assert!(Aggregation::new(robust, Weighting::Samples).is_ok());
        }
        let error = Aggregation::new(RobustAggregator::Krum(0.1), Weighting::Samples).unwrap_err();
        assert_eq!(
            error.to_string(),
            "robust_aggregation = krum counts all updates equally: it does not go with weighting = samples, only with equal"
        );
    }
}
