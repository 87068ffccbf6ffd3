//! Round terms and refusals.

use super::envelope::{Kind, open, seal};
use super::primitives::{Reader, write_number, write_text};
use crate::error::{DecodeError, Result};
use crate::terms::{CriterionRequest, PrivacyTerms, Refusal, RoundTerms, Spec, TermsDraft};
use crate::{FederationId, ModelVersion, RoundId, ValueEncoding, limits};

/// Appends the terms.
pub fn encode_terms(terms: &RoundTerms, out: &mut Vec<u8>) {
    seal(Kind::Terms, out, |out| {
        for number in [terms.federation.0, terms.round.0, terms.version.0, terms.cohort_size.into()] {
            write_number(number, out);
        }
        write_spec(&terms.model, out);
        write_number(terms.privacy.layers.len() as u64, out);
        terms.privacy.layers.iter().for_each(|layer| write_spec(layer, out));
        out.push(terms.values as u8);
        write_number(terms.deadline.into(), out);
        out.push(terms.samples.into());
        write_number(terms.criteria.len() as u64, out);
        for CriterionRequest { name, purpose } in &terms.criteria {
            write_text(name, out);
            write_text(purpose, out);
        }
    });
}

fn write_spec(Spec { name, settings }: &Spec, out: &mut Vec<u8>) {
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
pub fn decode_terms(bytes: &[u8]) -> Result<RoundTerms> {
    let mut from = open(bytes, Kind::Terms)?;
    // Fields are read in the order in which they are written here.
    let terms = TermsDraft {
        federation: FederationId(from.number("federation")?),
        round: RoundId(from.number("round")?),
        version: ModelVersion(from.number("version")?),
        cohort_size: from.number_u32("cohort size")?,
        model: read_spec(&mut from)?,
        privacy: PrivacyTerms { layers: from.list("privacy layers", limits::LAYERS, read_spec)? },
        values: from.code("values", ValueEncoding::from_code)?,
        deadline: from.number_u32("deadline")?,
        samples: from.flag("samples")?,
        criteria: from.list("criteria", limits::CRITERIA, |from| {
            let name = from.name("criterion's name")?;
            let purpose = from.text("criterion's purpose", limits::TEXT_BYTES)?.to_owned();
            Ok(CriterionRequest { name, purpose })
        })?,
    };
    from.end()?;
    RoundTerms::freeze(terms).map_err(|error| DecodeError::Content(error.to_string()))
}

fn read_spec(from: &mut Reader<'_>) -> Result<Spec> {
    let name = from.name("name")?;
    let mut last = None;
    let settings = from.list("settings", limits::SETTINGS, |from| {
        let at = from.at();
        let key = from.name("setting's name")?;
        if last.as_ref().is_some_and(|last| *last >= key) {
            return Err(DecodeError::Order("setting's name", at));
        }
        last = Some(key.clone());
        Ok((key, from.text("setting's value", limits::TEXT_BYTES)?.to_owned()))
    })?;
    Ok(Spec { name, settings: settings.into_iter().collect() })
}

/// Appends a refusal of a round.
pub fn encode_refusal(federation: FederationId, round: RoundId, refusal: &Refusal, out: &mut Vec<u8>) {
    seal(Kind::Refusal, out, |out| {
        write_number(federation.0, out);
        write_number(round.0, out);
        write_reason(refusal, out);
    });
}

/// A code, and the number or text that goes with it.
fn write_reason(refusal: &Refusal, out: &mut Vec<u8>) {
    let mut number = |code, number: u32| {
        out.push(code);
        write_number(number.into(), out);
    };
    let (code, text) = match refusal {
        Refusal::NoReason => (0, None),
        Refusal::Paused => (1, None),
        Refusal::Withdrawn => (2, None),
        Refusal::CohortTooSmall(least) => return number(3, *least),
        Refusal::LayerMissing(layer) => (4, Some(layer)),
        Refusal::UnknownModel(name) => (5, Some(name)),
        Refusal::DeadlineTooShort(needed) => return number(6, *needed),
        Refusal::NoHistory => (7, None),
        Refusal::LayerRefused(layer) => (8, Some(layer)),
    };
    out.push(code);
    if let Some(text) = text {
        write_text(&text[..text.floor_char_boundary(limits::NAME_BYTES as usize)], out);
    }
}

/// Reads a refusal: which federation, which round, why.
///
/// # Errors
/// Says what is wrong and where.
pub fn decode_refusal(bytes: &[u8]) -> Result<(FederationId, RoundId, Refusal)> {
    let mut from = open(bytes, Kind::Refusal)?;
    let federation = FederationId(from.number("federation")?);
    let round = RoundId(from.number("round")?);
    let at = from.at();
    let refusal = match from.byte("reason")? {
        0 => Refusal::NoReason,
        1 => Refusal::Paused,
        2 => Refusal::Withdrawn,
        3 => Refusal::CohortTooSmall(from.number_u32("cohort size")?),
        4 => Refusal::LayerMissing(from.name("privacy layer")?),
        5 => Refusal::UnknownModel(from.name("model")?),
        6 => Refusal::DeadlineTooShort(from.number_u32("seconds")?),
        7 => Refusal::NoHistory,
        8 => Refusal::LayerRefused(from.name("layer")?),
        found => return Err(DecodeError::Code("reason", at, found)),
    };
    from.end()?;
    Ok((federation, round, refusal))
}
