//! The terms of one round after the other.

use sottovoce_protocol::{
    ModelSpec, ModelVersion, RoundId, RoundTerms, Terms, TermsError, ValueEncoding, codec,
};

/// The terms of the next round, and their length on the wire.
pub(crate) struct Announcement {
    terms: Terms,
    bytes: u64,
}

impl Announcement {
    pub(crate) fn new(model: ModelSpec, values: ValueEncoding) -> Self {
        Self { terms: Terms { model, values, ..Terms::default() }, bytes: 0 }
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
        self.bytes = 0;
    }

    /// Bytes of the terms frozen last.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
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
        if self.bytes == 0 || resized || longer {
            let mut bytes = Vec::new();
            codec::encode_terms(&terms, &mut bytes);
            self.bytes = bytes.len() as u64;
        }
        Ok(terms)
    }

    /// After the round: the next one's.
    pub(crate) fn thaw(&mut self, terms: RoundTerms) {
        let terms = terms.thaw();
        self.terms = Terms { round: RoundId(terms.round.0 + 1), ..terms };
    }
}
