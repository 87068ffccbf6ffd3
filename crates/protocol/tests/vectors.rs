//! Fixed bytes with a comment for every field, deliberately broken ones with the error each must give, and the worked
//! example of the format's description.

mod common;

use common::{difference, disclosed, layout, model, terms};
use sottovoce_protocol::*;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors")
}

/// Hex digits up to `#`, line after line.
fn parse(text: &str) -> Vec<u8> {
    let codes = text.lines().flat_map(|line| line.split('#').next().unwrap().split_whitespace());
    codes.map(|code| u8::from_str_radix(code, 16).unwrap_or_else(|_| panic!("not hex: {code}"))).collect()
}

fn vector(name: &str) -> Vec<u8> {
    let path = folder().join(name).with_extension("hex");
    parse(&std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

#[test]
fn updates_match_their_vectors() {
    for (name, encoding) in ["f32", "f16", "i8-row", "i8-table"].into_iter().zip(ValueEncoding::ALL) {
        let expected = vector(&format!("update-{name}"));
        let sent = disclosed(encoding, &mut Ledger::new());
        let mut bytes = Vec::new();
        codec::encode_update(&sent, &mut bytes);
        assert_eq!(bytes, expected, "{name}");
        let mut received = Received::new(&layout());
        codec::decode_update(&expected, &mut received).unwrap();
        received.check(&terms(encoding)).unwrap();
        assert_eq!(received.update(), sent.into_received().update(), "{name}");
    }
}

#[test]
fn models_and_differences_match_their_vectors() {
    let mut bytes = Vec::new();
    codec::encode_model(&model(), ValueEncoding::F32, &mut bytes).unwrap();
    assert_eq!(bytes, vector("model-f32"));
    assert_eq!(codec::decode_model(&bytes).unwrap(), model());

    let mut bytes = Vec::new();
    codec::encode_difference(&difference(ValueEncoding::F32), &mut bytes).unwrap();
    assert_eq!(bytes, vector("difference-replace-f32"));
    for name in ["difference-replace-f32", "difference-add-i8-row"] {
        let mut held = model();
        let read = codec::decode_difference(&vector(name), &held.parameters.layout()).unwrap();
        let mut bytes = Vec::new();
        codec::encode_difference(&read, &mut bytes).unwrap();
        assert_eq!(bytes, vector(name), "{name}");
        codec::apply_difference(&bytes, &mut held).unwrap();
        let row = held.parameters.tables()[0].row(1);
        assert!((row[0] + 1.5).abs() < 1e-4 && (row[1] - 0.75).abs() < 2e-3, "{name}: {row:?}");
    }
}

#[test]
fn terms_refusals_and_ledgers_match_their_vectors() {
    let mut bytes = Vec::new();
    codec::encode_terms(&terms(ValueEncoding::F16), &mut bytes);
    assert_eq!(bytes, vector("terms"));
    assert_eq!(codec::decode_terms(&bytes).unwrap(), terms(ValueEncoding::F16));

    let refusal = Refusal::CohortTooSmall(500);
    let mut bytes = Vec::new();
    codec::encode_refusal(FederationId(7), RoundId(300), &refusal, &mut bytes);
    assert_eq!(bytes, vector("refusal"));
    assert_eq!(codec::decode_refusal(&bytes).unwrap(), (FederationId(7), RoundId(300), refusal));

    let mut ledger = Ledger::new();
    disclosed(ValueEncoding::F32, &mut ledger);
    let mut bytes = Vec::new();
    ledger.encode(&mut bytes);
    assert_eq!(bytes, vector("ledger-entry-with-layers"));
    assert_eq!(Ledger::decode(&bytes).unwrap(), ledger);
    // One of before entries named privacy layers.
    let older = Ledger::decode(&vector("ledger-entry")).unwrap();
    let without = |ledger: &Ledger| -> Vec<LedgerEntry> {
        ledger.entries().map(|entry| LedgerEntry { layers: Vec::new(), ..entry }).collect()
    };
    assert_eq!(without(&older), without(&ledger));
    assert!(older.entries().all(|entry| entry.layers.is_empty()));
    assert!(ledger.entries().all(|entry| entry.layers == ["noise"]));
}

/// Reads a broken vector as what its name says it was meant to be.
fn read_as_meant(name: &str, bytes: &[u8]) -> Result<(), DecodeError> {
    match name.split('-').next().unwrap() {
        "model" => codec::decode_model(bytes).map(drop),
        "terms" => codec::decode_terms(bytes).map(drop),
        "refusal" => codec::decode_refusal(bytes).map(drop),
        "difference" => codec::apply_difference(bytes, &mut model()),
        _ => codec::decode_update(bytes, &mut Received::new(&layout())),
    }
}

#[test]
fn broken_vectors_give_their_error() {
    let (mut seen, mut wrong) = (0, Vec::new());
    for file in std::fs::read_dir(folder().join("broken")).unwrap() {
        let path = file.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let expected = text.lines().find_map(|line| line.strip_prefix("# error: ")).expect(name);
        let error = read_as_meant(name, &parse(&text)).expect_err(name);
        if error.to_string() != expected {
            wrong.push(format!("{name}: {error}"));
        }
        seen += 1;
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(seen >= 40, "{seen} broken vectors");
}

#[test]
fn worked_example_in_the_docs_is_a_vector() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/wire-format.md");
    let text = std::fs::read_to_string(path).unwrap();
    let example = text.split("<!-- vector: update-f32 -->").nth(1).expect("the example's mark");
    let block = example.split("```").nth(1).expect("the example's block");
    assert_eq!(parse(block.strip_prefix("text").unwrap_or(block)), vector("update-f32"));
}
