//! The terms of one round after the other.

use sottovoce_protocol::{
    FederationId, ModelSpec, ModelVersion, PrivacyTerms, RoundId, RoundTerms, TermsDraft, TermsError, codec,
};

/// The terms of the next round, and their length on the wire.
pub(crate) struct RoundAnnouncement {
    draft: TermsDraft,
    /// The draft, checked once: what changes from round to round needs no check. Out while a round goes on.
    checked: Option<RoundTerms>,
    pub(crate) round: RoundId,
    cohort: u32,
    /// The terms frozen last, as encoded; empty if their length must be found anew.
    encoded: Vec<u8>,
}

impl RoundAnnouncement {
    pub(crate) fn new(draft: TermsDraft) -> Self {
        Self { draft, checked: None, round: RoundId(0), cohort: 0, encoded: Vec::new() }
    }

    /// The federation, and the model with its settings.
    pub(crate) fn model(&self) -> (FederationId, &ModelSpec) {
        (self.draft.federation, &self.draft.model)
    }

    /// Updates are protected so from the next round on.
    pub(crate) fn protect(&mut self, privacy: PrivacyTerms) {
        self.draft.privacy = privacy;
        self.checked = None;
        self.encoded.clear();
    }

    /// Goes on with another round than the first.
    pub(crate) fn set_round(&mut self, round: RoundId) {
        self.round = round;
        self.encoded.clear();
    }

    /// Bytes of the terms frozen last.
    pub(crate) fn bytes(&self) -> u64 {
        self.encoded.len() as u64
    }

    /// The round's terms, taken out until [`thaw`](Self::thaw) gives them back.
    pub(crate) fn freeze(&mut self, version: ModelVersion, cohort: usize) -> Result<RoundTerms, TermsError> {
        let terms = match self.checked.take() {
            Some(terms) => terms,
            None => RoundTerms::freeze(self.draft.clone())?,
        };
        let cohort = cohort as u32;
        let terms = terms.for_round(self.round, version, cohort);
        // Their length changes only with the cohort's size and where a round's number gets longer.
        let round = self.round.0;
        let longer = round.is_power_of_two() && round.trailing_zeros().is_multiple_of(7);
        if self.encoded.is_empty() || self.cohort != cohort || longer {
            self.encoded.clear();
            codec::encode_terms(&terms, &mut self.encoded);
        }
        self.cohort = cohort;
        Ok(terms)
    }

    /// Gives the terms back while their round goes on.
    pub(crate) fn put_back(&mut self, terms: RoundTerms) {
        self.checked = Some(terms);
    }
}
