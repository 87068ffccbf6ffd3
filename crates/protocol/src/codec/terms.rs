//! Round terms and refusals.

use super::envelope::{Kind, open, seal};
use super::wire::{Reader, write_number, write_text};
use crate::error::DecodeError;
use crate::terms::{CriterionRequest, ModelSpec, PrivacyLayer, PrivacyTerms, Refusal, RoundTerms, Settings, TermsDraft};
use crate::{FederationId, ModelVersion, RoundId, ValueEncoding, limits};

/// Appends the terms.
pub fn encode_terms(terms: &RoundTerms, out: &mut Vec<u8>) {
    seal(Kind::Terms, out, |out| {
        write_number(terms.federation.0, out);
        write_number(terms.round.0, out);
        write_number(terms.version.0, out);
        write_number(terms.cohort_size.into(), out);
        write_named(&terms.model.name, &terms.model.settings, out);
        write_number(terms.privacy.layers.len() as u64, out);
        for layer in &terms.privacy.layers {
            write_named(&layer.name, &layer.settings, out);
        }
        out.push(terms.values as u8);
        write_number(terms.deadline.into(), out);
        out.push(terms.samples.into());
        write_number(terms.criteria.len() as u64, out);
        for asked in &terms.criteria {
            write_text(&asked.name, out);
            write_text(&asked.purpose, out);
        }
    });
}

fn write_named(name: &str, settings: &Settings, out: &mut Vec<u8>) {
    write_text(name, out);
    write_number(settings.len() as u64, out);
    for (key, value) in settings {
        write_text(key, out);
        write_text(value, out);
    }
}

/// Reads terms.
///
/// # Errors
/// Says what is wrong and where.
pub fn decode_terms(bytes: &[u8]) -> Result<RoundTerms, DecodeError> {
    let mut from = open(bytes, Kind::Terms)?;
    // Fields are read in the order in which they are written here.
    let terms = TermsDraft {
        federation: FederationId(from.number("federation")?),
        round: RoundId(from.number("round")?),
        version: ModelVersion(from.number("version")?),
        cohort_size: from.number_to("cohort size", u32::MAX.into())? as u32,
        model: read_named(&mut from).map(|(name, settings)| ModelSpec { name, settings })?,
        privacy: PrivacyTerms { layers: read_layers(&mut from)? },
        values: from.code("values", ValueEncoding::from_code)?,
        deadline: from.number_to("deadline", u32::MAX.into())? as u32,
        samples: from.code("samples", |code| (code < 2).then_some(code == 1))?,
        criteria: read_asked(&mut from)?,
    };
    from.end()?;
    RoundTerms::freeze(terms).map_err(|error| DecodeError::Content(error.to_string()))
}

fn read_named(from: &mut Reader<'_>) -> Result<(String, Settings), DecodeError> {
    let name = from.name("name")?;
    let count = from.number_to("settings", limits::SETTINGS)?;
    let mut settings = Settings::new();
    for _ in 0..count {
        let at = from.at();
        let key = from.name("setting's name")?;
        if settings.last_key_value().is_some_and(|(last, _)| *last >= key) {
            return Err(DecodeError::Order { field: "setting's name", at });
        }
        let value = from.text("setting's value", limits::TEXT_BYTES)?;
        settings.insert(key, value.to_owned());
    }
    Ok((name, settings))
}

fn read_layers(from: &mut Reader<'_>) -> Result<Vec<PrivacyLayer>, DecodeError> {
    let count = from.number_to("privacy layers", limits::LAYERS)?;
    let named = |from: &mut Reader<'_>| read_named(from);
    (0..count).map(|_| named(from).map(|(name, settings)| PrivacyLayer { name, settings })).collect()
}

fn read_asked(from: &mut Reader<'_>) -> Result<Vec<CriterionRequest>, DecodeError> {
    let count = from.number_to("criteria", limits::CRITERIA)?;
    let mut asked = Vec::new();
    for _ in 0..count {
        let name = from.name("criterion's name")?;
        let purpose = from.text("criterion's reason", limits::TEXT_BYTES)?.to_owned();
        asked.push(CriterionRequest { name, purpose });
    }
    Ok(asked)
}

/// Appends a refusal of a round.
pub fn encode_refusal(federation: FederationId, round: RoundId, refusal: &Refusal, out: &mut Vec<u8>) {
    seal(Kind::Refusal, out, |out| {
        write_number(federation.0, out);
        write_number(round.0, out);
        write_reason(refusal, out);
    });
}

fn write_reason(refusal: &Refusal, out: &mut Vec<u8>) {
    let cut = |text: &str| text[..text.floor_char_boundary(limits::NAME_BYTES as usize)].to_owned();
    match refusal {
        Refusal::NoReason => out.push(0),
        Refusal::Paused => out.push(1),
        Refusal::Withdrawn => out.push(2),
        Refusal::CohortTooSmall { least } => {
            out.push(3);
            write_number((*least).into(), out);
        }
        Refusal::LayerMissing { layer } => {
            out.push(4);
            write_text(&cut(layer), out);
        }
        Refusal::UnknownModel { name } => {
            out.push(5);
            write_text(&cut(name), out);
        }
        Refusal::DeadlineTooShort { needed } => {
            out.push(6);
            write_number((*needed).into(), out);
        }
        Refusal::NoHistory => out.push(7),
        Refusal::LayerRefused { layer } => {
            out.push(8);
            write_text(&cut(layer), out);
        }
    }
}

/// Reads a refusal: which federation, which round, why.
///
/// # Errors
/// Says what is wrong and where.
pub fn decode_refusal(bytes: &[u8]) -> Result<(FederationId, RoundId, Refusal), DecodeError> {
    let mut from = open(bytes, Kind::Refusal)?;
    let federation = FederationId(from.number("federation")?);
    let round = RoundId(from.number("round")?);
    let at = from.at();
    let refusal = match from.byte("reason")? {
        0 => Refusal::NoReason,
        1 => Refusal::Paused,
        2 => Refusal::Withdrawn,
        3 => Refusal::CohortTooSmall { least: from.number_to("cohort size", u32::MAX.into())? as u32 },
        4 => Refusal::LayerMissing { layer: from.name("privacy layer")? },
        5 => Refusal::UnknownModel { name: from.name("model")? },
        6 => Refusal::DeadlineTooShort { needed: from.number_to("seconds", u32::MAX.into())? as u32 },
        7 => Refusal::NoHistory,
        8 => Refusal::LayerRefused { layer: from.name("layer")? },
        found => return Err(DecodeError::Code { field: "reason", at, found }),
    };
    from.end()?;
    Ok((federation, round, refusal))
}
