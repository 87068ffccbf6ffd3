//! The terms of one round after the other.

use sottovoce_protocol::{
    ModelSpec, ModelVersion, RoundId, RoundTerms, Terms, TermsError, ValueEncoding, codec,
};

/// The terms of the next round, and their length on the wire.
pub(crate) struct Announcement {
    terms: Terms,
    /// The terms frozen last, as encoded; empty if their length must be found anew.
    encoded: Vec<u8>,
}

impl Announcement {
    pub(crate) fn new(model: ModelSpec, values: ValueEncoding) -> Self {
        Self { terms: Terms { model, values, ..Terms::default() }, encoded: Vec::new() }
    }

    pub(crate) fn terms(&self) -> &Terms {
        &self.terms
    }

    /// The round that is next.
    pub(crate) fn round(&self) -> RoundId {
        self.terms.round
    }

    /// Goes on with another round than the first.
    pub(crate) fn go_on_with(&mut self, round: RoundId) {
        self.terms.round = round;
        self.encoded.clear();
    }

    /// Bytes of the terms frozen last.
    pub(crate) fn bytes(&self) -> u64 {
        self.encoded.len() as u64
    }

    /// The round's terms, taken out until [`thaw`](Self::thaw) gives them back.
    pub(crate) fn freeze(&mut self, version: ModelVersion, cohort: usize) -> Result<RoundTerms, TermsError> {
        let mut terms = std::mem::take(&mut self.terms);
        let round = terms.round.0;
        // Their length changes only with the cohort's size and where a round's number gets longer.
        let resized = terms.cohort_size as usize != cohort;
        let longer = round.is_power_of_two() && round.trailing_zeros().is_multiple_of(7);
        terms.version = version;
        terms.cohort_size = cohort as u32;
        let terms = RoundTerms::freeze(terms)?;
        if self.encoded.is_empty() || resized || longer {
            self.encoded.clear();
            codec::encode_terms(&terms, &mut self.encoded);
        }
        Ok(terms)
    }

    /// After the round: the next one's.
    pub(crate) fn thaw(&mut self, terms: RoundTerms) {
        let terms = terms.thaw();
        self.terms = Terms { round: RoundId(terms.round.0 + 1), ..terms };
    }
}
