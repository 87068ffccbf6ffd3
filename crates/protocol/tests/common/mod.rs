//! Models, terms and updates that several tests use.
#![allow(dead_code, unreachable_pub)]

use sottovoce_core::Rng;
use sottovoce_protocol::*;

/// A table by item (300 x 2) and a dense one (1 x 3).
pub fn layout() -> Layout {
    let shapes = vec![Shape::new("items", 300, 2, Keyed::Items), Shape::new("net", 1, 3, Keyed::Dense)];
    Layout::new(shapes).unwrap()
}

/// TermsDraft of round 300 that ask for the sample count and two criteria.
pub fn terms(values: ValueEncoding) -> RoundTerms {
    let asked = |name: &str, why: &str| CriterionRequest { name: name.to_owned(), purpose: why.to_owned() };
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let settings = Settings::from([pair("factors", "20"), pair("triples", "100")]);
    let noise = PrivacyLayer { name: "noise".to_owned(), settings: Settings::from([pair("epsilon", "1.5")]) };
    RoundTerms::freeze(TermsDraft {
        federation: FederationId(7),
        round: RoundId(300),
        version: ModelVersion(299),
        cohort_size: 1000,
        model: ModelSpec { name: "fpl".to_owned(), settings },
        privacy: PrivacyTerms { layers: vec![noise] },
        values,
        deadline: 3600,
        samples: true,
        criteria: vec![asked("size", "weights"), asked("labels", "città")],
    })
    .unwrap()
}

/// A policy that lets everything go.
pub fn open_policy() -> Policy {
    let mut policy = Policy::new(1.0).unwrap();
    policy.criteria = Reportable::All;
    policy
}

/// The update of the test vectors.
pub fn trained() -> Trained {
    let mut trained = Trained::new(&layout());
    trained.push_row(0, 3, RowOrigin::Other).unwrap().copy_from_slice(&[0.5, -0.25]);
    trained.push_row(0, 200, RowOrigin::Consumed).unwrap().copy_from_slice(&[1.0, 0.3]);
    trained.whole(1).unwrap().copy_from_slice(&[0.1, -2.0, 0.0]);
    trained.set_samples(12);
    trained.report(1, 0.5).unwrap();
    trained
}

/// The same, disclosed by an open policy.
pub fn disclosed(values: ValueEncoding, ledger: &mut Ledger) -> Disclosed {
    trained()
        .disclose(&open_policy(), &terms(values), 1_700_000_000, ledger, DisclosureSeeds::once(&mut Rng::new(1)))
        .unwrap()
}

/// Version 41 of a model of one table (3 x 2).
pub fn model() -> SharedModel {
    let table = Table::new(Shape::new("items", 3, 2, Keyed::Items), vec![0.0, 1.0, -1.0, 0.5, 2.0, -0.0]).unwrap();
    let parameters = Parameters::new(vec![table]).unwrap();
    SharedModel { federation: FederationId(7), version: ModelVersion(41), parameters }
}

/// Version 42: row 1 is another.
pub fn next_model() -> SharedModel {
    let mut next = model();
    next.version = ModelVersion(42);
    next.parameters.tables_mut()[0].row_mut(1).copy_from_slice(&[-1.5, 0.75]);
    next
}

/// From version 41 to version 42.
pub fn difference(encoding: ValueEncoding) -> Difference {
    let base = (model().version, model().parameters.checksum());
    Difference::since_version(&next_model(), base, encoding, |_, row| row == 1).unwrap()
}

/// One message of each kind and encoding.
pub fn messages() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut ledger = Ledger::new();
    for encoding in ValueEncoding::ALL {
        let mut bytes = Vec::new();
        codec::encode_update(&disclosed(encoding, &mut ledger), &mut bytes);
        all.push(std::mem::take(&mut bytes));
        codec::encode_model(&model(), encoding, &mut bytes).unwrap();
        all.push(std::mem::take(&mut bytes));
        let difference = difference(encoding);
        codec::encode_difference(&difference, &mut bytes).unwrap();
        all.push(bytes);
    }
    let mut bytes = Vec::new();
    codec::encode_terms(&terms(ValueEncoding::F16), &mut bytes);
    all.push(std::mem::take(&mut bytes));
    let refusal = Refusal::LayerMissing("secagg".to_owned());
    codec::encode_refusal(FederationId(7), RoundId(300), &refusal, &mut bytes);
    all.push(std::mem::take(&mut bytes));
    let refusal = Refusal::LayerRefused("kept-uploads".to_owned());
    codec::encode_refusal(FederationId(7), RoundId(300), &refusal, &mut bytes);
    all.push(std::mem::take(&mut bytes));
    ledger.encode(&mut bytes);
    all.push(std::mem::take(&mut bytes));
    ledger.bound_to(100).encode(&mut bytes);
    all.push(bytes);
    all
}

/// Lets every decoder read the bytes; says whether any took them.
pub fn decode_as_everything(bytes: &[u8], received: &mut Received) -> bool {
    let mut held = model();
    let taken = [
        codec::decode_update(bytes, received).is_ok(),
        codec::decode_model(bytes).is_ok(),
        codec::apply_difference(bytes, &mut held).is_ok(),
        codec::decode_terms(bytes).is_ok(),
        codec::decode_refusal(bytes).is_ok(),
        Ledger::decode(bytes).is_ok(),
    ];
    taken.contains(&true)
}

/// Corrects length and checksum, so that changes to the payload get past the envelope.
pub fn mend(bytes: &mut [u8]) {
    let Some(payload) = bytes.len().checked_sub(14) else { return };
    bytes[6..10].copy_from_slice(&(payload as u32).to_le_bytes());
    let end = bytes.len() - 4;
    let checksum = crc32fast::hash(&bytes[..end]);
    bytes[end..].copy_from_slice(&checksum.to_le_bytes());
}
