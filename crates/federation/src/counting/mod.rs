//! How the updates of a round are added up: how much each counts, and what one device can do to the sum.

mod chosen;
mod guard;
mod kept;
mod layers;
mod weighing;

pub(crate) use chosen::Chosen;
pub use guard::Guard;
pub(crate) use guard::{Kept, clipping};
pub(crate) use kept::KeptUpdates;
pub(crate) use layers::Layers;
pub use weighing::{Score, Weighing};

use crate::protecting::Summed;
use sottovoce_privacy::PrivacyMechanism;
use std::sync::Arc;

/// How the updates of a round are added up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counting {
    guard: Guard,
    weighing: Weighing,
    /// As integers, where rounds are protected.
    protected: Option<Arc<Summed>>,
}

/// A guard and a weighing that do not go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "guard = {guard} counts all updates alike: it does not go with weighing = {weighing}, only with equal"
)]
pub struct CountingError {
    guard: &'static str,
    weighing: &'static str,
}

/// A guard or a weighing for updates that are protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "protected updates are added as they are: guard = {guard} and weighing = {weighing} would have to look at each; take guard = none and weighing = equal"
)]
pub struct ProtectedCounting {
    guard: &'static str,
    weighing: &'static str,
}

impl Counting {
    /// With this guard, each update weighed so.
    ///
    /// # Errors
    /// If the guard does not know weights: a median, a trimmed mean, Krum.
    pub fn new(guard: Guard, weighing: Weighing) -> Result<Self, CountingError> {
        if weighing != Weighing::Equal && (guard.keeps_rows() || guard.keeps_updates()) {
            return Err(CountingError { guard: guard.name(), weighing: weighing.name() });
        }
        Ok(Self { guard, weighing, protected: None })
    }

    /// The same for updates that are protected so. All count alike: what each says cannot be looked at.
    ///
    /// # Errors
    /// If they are to be guarded or weighed.
    pub(crate) fn protected(self, protected: Arc<Summed>) -> Result<Self, ProtectedCounting> {
        if self.guard != Guard::None || self.weighing != Weighing::Equal {
            return Err(ProtectedCounting { guard: self.guard.name(), weighing: self.weighing.name() });
        }
        Ok(Self { protected: Some(protected), ..self })
    }

    /// How updates are protected, if they are.
    pub(crate) fn protects(&self) -> Option<&PrivacyMechanism> {
        self.protected.as_ref().map(|summed| &summed.protected)
    }

    /// How words are added up, if they are.
    pub(crate) fn protection(&self) -> Option<&Arc<Summed>> {
        self.protected.as_ref()
    }

    /// What one device can do to the sum.
    pub fn guard(&self) -> Guard {
        self.guard
    }

    /// How much each update counts.
    pub fn weighing(&self) -> &Weighing {
        &self.weighing
    }

    /// Whether updates are simply added.
    pub(crate) fn is_plain(&self) -> bool {
        self.guard == Guard::None && self.weighing == Weighing::Equal && self.protected.is_none()
    }

    /// Whether whole updates are kept until the round is over.
    pub(crate) fn keeps_updates(&self) -> bool {
        self.guard.keeps_updates() || self.weighing.keeps_updates()
    }
}

impl From<Guard> for Counting {
    fn from(guard: Guard) -> Self {
        Self { guard, weighing: Weighing::Equal, protected: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guards_that_know_no_weights_are_refused_with_weights() {
        for guard in [Guard::Median, Guard::Trimmed(0.1), Guard::Krum(0.1), Guard::MultiKrum(0.1)] {
            assert!(Counting::new(guard, Weighing::Equal).is_ok());
            assert!(Counting::new(guard, Weighing::Samples).is_err());
        }
        for guard in [Guard::None, Guard::Clip(1.0), Guard::ClipUpdate(1.0)] {
            assert!(Counting::new(guard, Weighing::Samples).is_ok());
        }
        let error = Counting::new(Guard::Krum(0.1), Weighing::Samples).unwrap_err();
        assert_eq!(
            error.to_string(),
            "guard = krum counts all updates alike: it does not go with weighing = samples, only with equal"
        );
    }
}
