//! Valid and invalid updates.

use sottovoce_core::Rng;
use sottovoce_protocol::{
    CriterionRequest, DisclosureSeeds, FederationId, Layout, Ledger, ModelVersion, Policy, Refusal, Reportable,
    RoundId, RoundTerms, RowOrigin, Trained, ValueEncoding, codec,
};

/// A device that has enrolled.
#[derive(Clone, Debug)]
pub(crate) struct Phone {
    pub(crate) federation: String,
    pub(crate) number: u32,
    pub(crate) credential: String,
}

/// A value that is easily found in the bytes.
const MARKER: f32 = 0.123_456_79;

fn trained(layout: &Layout, value: f32) -> Trained {
    let mut trained = Trained::new(layout);
    trained.push_row(0, 2, RowOrigin::Other).unwrap().fill(value);
    trained.push_row(0, 3, RowOrigin::Other).unwrap().fill(0.01);
    trained
}

fn policy() -> Policy {
    let mut policy = Policy::new(1.0).unwrap();
    (policy.samples, policy.criteria, policy.least_cohort) = (true, Reportable::All, 0);
    policy
}

fn encoded(trained: Trained, terms: &RoundTerms) -> Vec<u8> {
    let mut bytes = Vec::new();
    let disclosed =
        trained.disclose(&policy(), terms, 0, &mut Ledger::new(), DisclosureSeeds::once(&mut Rng::new(1))).unwrap();
    codec::encode_update(&disclosed, &mut bytes);
    bytes
}

/// A valid update.
pub(crate) fn honest(layout: &Layout, terms: &RoundTerms) -> Vec<u8> {
    let mut trained = trained(layout, MARKER);
    if terms.samples {
        trained.set_samples(7);
    }
    for criterion in 0..terms.criteria.len() as u32 {
        trained.report(criterion, 0.5).unwrap();
    }
    encoded(trained, terms)
}

/// An update with other values in one row.
pub(crate) fn with_value(layout: &Layout, terms: &RoundTerms, value: f32) -> Vec<u8> {
    encoded(trained(layout, value), terms)
}

/// An update with a value that no device can disclose.
pub(crate) fn with_bits(layout: &Layout, terms: &RoundTerms, bits: u32) -> Vec<u8> {
    let mut bytes = honest(layout, terms);
    let place = bytes.windows(4).position(|four| four == MARKER.to_le_bytes()).unwrap();
    bytes[place..place + 4].copy_from_slice(&bits.to_le_bytes());
    mend(&mut bytes);
    bytes
}

pub(crate) fn for_round(layout: &Layout, terms: &RoundTerms, round: u64) -> Vec<u8> {
    honest(layout, &terms.clone().for_round(RoundId(round), ModelVersion(0), 3))
}

pub(crate) fn for_federation(layout: &Layout, terms: &RoundTerms, federation: u64) -> Vec<u8> {
    let mut terms = terms.clone().into_draft();
    terms.federation = FederationId(federation);
    honest(layout, &RoundTerms::freeze(terms).unwrap())
}

pub(crate) fn written_as(layout: &Layout, terms: &RoundTerms, values: ValueEncoding) -> Vec<u8> {
    let mut terms = terms.clone().into_draft();
    terms.values = values;
    honest(layout, &RoundTerms::freeze(terms).unwrap())
}

/// An update with a sample count or a criterion that was not asked for.
pub(crate) fn talkative(layout: &Layout, terms: &RoundTerms, samples: bool) -> Vec<u8> {
    let mut terms = terms.clone().into_draft();
    if samples {
        terms.samples = true;
    } else {
        terms.criteria = vec![CriterionRequest { name: "auc".into(), purpose: String::new() }];
    }
    honest(layout, &RoundTerms::freeze(terms).unwrap())
}

pub(crate) fn refusal(federation: u64, round: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    codec::encode_refusal(FederationId(federation), RoundId(round), &Refusal::Paused, &mut bytes);
    bytes
}

/// Changes one byte and leaves the checksum wrong.
pub(crate) fn flipped(mut bytes: Vec<u8>, place: usize) -> Vec<u8> {
    bytes[place] ^= 0x55;
    bytes
}

/// Changes one byte and corrects the checksum.
pub(crate) fn patched(mut bytes: Vec<u8>, place: usize, value: u8) -> Vec<u8> {
    bytes[place] = value;
    mend(&mut bytes);
    bytes
}

/// Sets the right length and checksum.
fn mend(bytes: &mut [u8]) {
    let payload = bytes.len() - 14;
    bytes[6..10].copy_from_slice(&(payload as u32).to_le_bytes());
    let end = bytes.len() - 4;
    let checksum = crc32fast::hash(&bytes[..end]);
    bytes[end..].copy_from_slice(&checksum.to_le_bytes());
}
