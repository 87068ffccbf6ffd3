//! How the updates of a round are added up: how much each counts, and what one device can do to the sum.

mod chosen;
mod guard;
mod kept;
mod layers;
mod weighting;

pub(crate) use chosen::Chosen;
pub use guard::RobustAggregator;
pub(crate) use guard::{Kept, clipping};
pub(crate) use kept::BufferedUpdates;
pub(crate) use layers::CriteriaSums;
pub use weighting::{CriteriaScore, Weighting};

use crate::privacy::QuantizedSumConfig;
use sottovoce_privacy::PrivacyMechanism;
use std::sync::Arc;

/// How the updates of a round are added up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Aggregation {
    guard: RobustAggregator,
    weighting: Weighting,
    /// As integers, where rounds are protected.
    protected: Option<Arc<QuantizedSumConfig>>,
}

/// A guard and a weighting that do not go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "guard = {guard} counts all updates alike: it does not go with weighting = {weighting}, only with equal"
)]
pub struct AggregationError {
    guard: &'static str,
    weighting: &'static str,
}

/// A guard or a weighting for updates that are protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "protected updates are added as they are: guard = {guard} and weighting = {weighting} would have to look at each; take guard = none and weighting = equal"
)]
pub struct ProtectedAggregationError {
    guard: &'static str,
    weighting: &'static str,
}

impl Aggregation {
    /// With this guard, each update weighed so.
    ///
    /// # Errors
    /// If the guard does not know weights: a median, a trimmed mean, Krum.
    pub fn new(guard: RobustAggregator, weighting: Weighting) -> Result<Self, AggregationError> {
        if weighting != Weighting::Equal && (guard.keeps_rows() || guard.keeps_updates()) {
            return Err(AggregationError { guard: guard.name(), weighting: weighting.name() });
        }
        Ok(Self { guard, weighting, protected: None })
    }

    /// The same for updates that are protected so. All count alike: what each says cannot be looked at.
    ///
    /// # Errors
    /// If they are to be guarded or weighed.
    pub(crate) fn protected(self, protected: Arc<QuantizedSumConfig>) -> Result<Self, ProtectedAggregationError> {
        if self.guard != RobustAggregator::None || self.weighting != Weighting::Equal {
            return Err(ProtectedAggregationError { guard: self.guard.name(), weighting: self.weighting.name() });
        }
        Ok(Self { protected: Some(protected), ..self })
    }

    /// How updates are protected, if they are.
    pub(crate) fn protects(&self) -> Option<&PrivacyMechanism> {
        self.protected.as_ref().map(|summed| &summed.protected)
    }

    /// How words are added up, if they are.
    pub(crate) fn protection(&self) -> Option<&Arc<QuantizedSumConfig>> {
        self.protected.as_ref()
    }

    /// What one device can do to the sum.
    pub fn guard(&self) -> RobustAggregator {
        self.guard
    }

    /// How much each update counts.
    pub fn weighting(&self) -> &Weighting {
        &self.weighting
    }

    /// Whether updates are simply added.
    pub(crate) fn is_plain(&self) -> bool {
        self.guard == RobustAggregator::None && self.weighting == Weighting::Equal && self.protected.is_none()
    }

    /// Whether whole updates are kept until the round is over.
    pub(crate) fn keeps_updates(&self) -> bool {
        self.guard.keeps_updates() || self.weighting.keeps_updates()
    }
}

impl From<RobustAggregator> for Aggregation {
    fn from(guard: RobustAggregator) -> Self {
        Self { guard, weighting: Weighting::Equal, protected: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guards_that_know_no_weights_are_refused_with_weights() {
        for guard in [RobustAggregator::Median, RobustAggregator::Trimmed(0.1), RobustAggregator::Krum(0.1), RobustAggregator::MultiKrum(0.1)] {
            assert!(Aggregation::new(guard, Weighting::Equal).is_ok());
            assert!(Aggregation::new(guard, Weighting::Samples).is_err());
        }
        for guard in [RobustAggregator::None, RobustAggregator::Clip(1.0), RobustAggregator::ClipUpdate(1.0)] {
            assert!(Aggregation::new(guard, Weighting::Samples).is_ok());
        }
        let error = Aggregation::new(RobustAggregator::Krum(0.1), Weighting::Samples).unwrap_err();
        assert_eq!(
            error.to_string(),
            "guard = krum counts all updates alike: it does not go with weighting = samples, only with equal"
        );
    }
}
