//! What a round asks of a device, and how a device refuses.

use crate::error::TermsError;
use crate::{FederationId, ModelVersion, RoundId, ValueEncoding, limits};
use std::collections::BTreeMap;
use std::ops::Deref;
use thiserror::Error;

/// Settings by name, as text.
pub type Settings = BTreeMap<String, String>;

/// A model or a mechanism, and how it is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spec {
    /// Its name: `fpl`.
    pub name: String,
    /// Its settings, all of them.
    pub settings: Settings,
}

/// Which model to train, by its name in the registry, and how.
pub type ModelSpec = Spec;

/// One privacy layer of a round: a mechanism and its settings, such as epsilon, clipping norm, threshold.
pub type PrivacyLayer = Spec;

/// How a round protects updates, outermost layer last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrivacyTerms {
    /// The layers, in the order in which a device applies them.
    pub layers: Vec<PrivacyLayer>,
}

/// A criterion that the server asks devices to report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CriterionRequest {
    /// Its name.
    pub name: String,
    /// What it will be used for, for the owner to read.
    pub purpose: String,
}

/// The terms of a round, while the server writes them. [`RoundTerms`] are these, frozen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TermsDraft {
    /// The federation.
    pub federation: FederationId,
    /// The round.
    pub round: RoundId,
    /// The version of the shared model to train on.
    pub version: ModelVersion,
    /// How many devices are asked.
    pub cohort_size: u32,
    /// Which model, and its settings.
    pub model: ModelSpec,
    /// How updates are protected.
    pub privacy: PrivacyTerms,
    /// How values are to be written.
    pub values: ValueEncoding,
    /// Seconds after check-in within which an update is taken; 0: no deadline.
    pub deadline: u32,
    /// Whether the sample count is asked for.
    pub samples: bool,
    /// Criteria asked for.
    pub criteria: Vec<CriterionRequest>,
}

/// The terms of a round: frozen, for the device to read and refuse.
///
/// ```
/// use sottovoce_protocol::{RoundId, RoundTerms, TermsDraft};
/// let terms = RoundTerms::freeze(TermsDraft { round: RoundId(3), cohort_size: 100, ..TermsDraft::default() })?;
/// assert_eq!(terms.cohort_size, 100);
/// # Ok::<(), sottovoce_protocol::TermsError>(())
/// ```
/// ```compile_fail,E0594
/// # use sottovoce_protocol::{RoundTerms, TermsDraft};
/// let mut terms = RoundTerms::freeze(TermsDraft::default()).unwrap();
/// terms.cohort_size = 1;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundTerms(TermsDraft);

impl Deref for RoundTerms {
    type Target = TermsDraft;

    fn deref(&self) -> &TermsDraft {
        &self.0
    }
}

impl RoundTerms {
    /// Checks that the terms can be sent, and fixes them.
    ///
    /// # Errors
    /// Names what is too long.
    pub fn freeze(terms: TermsDraft) -> Result<Self, TermsError> {
        within("the model's name", terms.model.name.len(), limits::NAME_BYTES)?;
        check_settings(&terms.model.settings)?;
        within("the list of privacy layers", terms.privacy.layers.len(), limits::LAYERS)?;
        for layer in &terms.privacy.layers {
            within("a privacy layer's name", layer.name.len(), limits::NAME_BYTES)?;
            check_settings(&layer.settings)?;
        }
        within("the list of criteria", terms.criteria.len(), limits::CRITERIA)?;
        for asked in &terms.criteria {
            within("a criterion's name", asked.name.len(), limits::NAME_BYTES)?;
            within("a criterion's purpose", asked.purpose.len(), limits::TEXT_BYTES)?;
        }
        Ok(Self(terms))
    }

    /// The same terms for another round, without checking them again.
    #[must_use]
    pub fn for_round(mut self, round: RoundId, version: ModelVersion, cohort_size: u32) -> Self {
        (self.0.round, self.0.version, self.0.cohort_size) = (round, version, cohort_size);
        self
    }

    /// The same terms with another deadline, in seconds.
    #[must_use]
    pub fn with_deadline(mut self, seconds: u32) -> Self {
        self.0.deadline = seconds;
        self
    }

    /// The terms, to be changed for another round.
    pub fn into_draft(self) -> TermsDraft {
        self.0
    }
}

fn within(field: &'static str, found: usize, most: u64) -> Result<(), TermsError> {
    let found = found as u64;
    if found > most { Err(TermsError { field, found, most }) } else { Ok(()) }
}

fn check_settings(settings: &Settings) -> Result<(), TermsError> {
    within("the list of settings", settings.len(), limits::SETTINGS)?;
    for (key, value) in settings {
        within("a setting's name", key.len(), limits::NAME_BYTES)?;
        within("a setting's value", value.len(), limits::TEXT_BYTES)?;
    }
    Ok(())
}

/// Why a device does not take part in a round. Whether to say why is the owner's choice too: [`Refusal::NoReason`] is
/// always allowed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Refusal {
    /// No reason given.
    #[error("no reason given")]
    NoReason,
    /// The owner has paused.
    #[error("paused")]
    Paused,
    /// The owner has withdrawn.
    #[error("withdrawn")]
    Withdrawn,
    /// The owner requires a larger cohort. Fields: the smallest cohort the owner agrees to.
    #[error("the cohort is smaller than {0}")]
    CohortTooSmall(u32),
    /// The owner requires a privacy layer that the round does not have. Fields: its name.
    #[error("privacy layer {0:?} is missing")]
    LayerMissing(String),
    /// The round has a layer that the owner refuses. Fields: its name.
    #[error("layer {0:?} is not wanted")]
    LayerRefused(String),
    /// The device cannot train this model. Fields: the model asked for.
    #[error("model {0:?} is not known here")]
    UnknownModel(String),
    /// The deadline cannot be met. Fields: seconds needed.
    #[error("at least {0} seconds are needed")]
    DeadlineTooShort(u32),
    /// There is no history to train on.
    #[error("nothing to learn from")]
    NoHistory,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_terms_past_the_limits() {
        let asked = |name: &str| CriterionRequest { name: name.to_owned(), purpose: String::new() };
        let many = TermsDraft { criteria: vec![asked("size"); 33], ..TermsDraft::default() };
        let expected = TermsError { field: "the list of criteria", found: 33, most: limits::CRITERIA };
        assert_eq!(RoundTerms::freeze(many), Err(expected));
        let long = TermsDraft { criteria: vec![asked(&"x".repeat(129))], ..TermsDraft::default() };
        assert_eq!(
            RoundTerms::freeze(long).unwrap_err().to_string(),
            "round terms: a criterion's name is 129 long, at most 128 can be sent"
        );
    }
}
