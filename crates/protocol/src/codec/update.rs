//! Updates: the one message that says something about a person.

use super::envelope::{ENVELOPE_BYTES, Kind, open, seal};
use super::wire::{Reader, number_bytes, write_number};
use crate::error::DecodeError;
use crate::update::Update;
use crate::{Disclosed, FederationId, Received, RoundId, ValueEncoding, limits, rows};

/// Appends the message. Values were checked when they were disclosed, so nothing can fail.
pub fn encode_update(disclosed: &Disclosed, out: &mut Vec<u8>) {
    out.reserve(update_bytes(disclosed) as usize);
    seal(Kind::Update, out, |out| write(disclosed, out));
}

fn write(disclosed: &Disclosed, out: &mut Vec<u8>) {
    let Update { layout, tables, samples, criteria } = &disclosed.update;
    write_number(disclosed.federation.0, out);
    write_number(disclosed.round.0, out);
    out.extend_from_slice(&layout.to_le_bytes());
    out.push(disclosed.encoding as u8);
    write_number(*samples, out);
    write_number(criteria.len() as u64, out);
    for (index, value) in criteria {
        write_number(u64::from(*index), out);
        out.extend_from_slice(&value.to_le_bytes());
    }
    rows::write_all(tables, disclosed.encoding, out);
}

/// Bytes that [`encode_update`] appends.
pub fn update_bytes(disclosed: &Disclosed) -> u64 {
    let Update { tables, samples, criteria, .. } = &disclosed.update;
    let reported: u64 = criteria.iter().map(|(index, _)| 8 + number_bytes(u64::from(*index))).sum();
    let head = number_bytes(disclosed.federation.0) + number_bytes(disclosed.round.0) + 5;
    let said = number_bytes(*samples) + number_bytes(criteria.len() as u64) + reported;
    ENVELOPE_BYTES + head + said + rows::all_bytes(tables, disclosed.encoding)
}

/// Reads one whole message into buffers for its layout.
///
/// # Errors
/// Says what is wrong and where; the buffers' content means nothing then.
pub fn decode_update(bytes: &[u8], into: &mut Received) -> Result<(), DecodeError> {
    let mut from = open(bytes, Kind::Update)?;
    into.federation = FederationId(from.number("federation")?);
    into.round = RoundId(from.number("round")?);
    check_layout(&mut from, into.update.layout)?;
    into.encoding = from.code("encoding", ValueEncoding::from_code)?;
    into.update.samples = from.number("samples")?;
    read_criteria(&mut from, &mut into.update.criteria)?;
    rows::read_all(&mut into.update.tables, into.encoding, &mut from)?;
    from.end()
}

pub(super) fn check_layout(from: &mut Reader<'_>, expected: u32) -> Result<(), DecodeError> {
    let stated = from.u32("layout")?;
    if stated == expected { Ok(()) } else { Err(DecodeError::Layout { stated, expected }) }
}

fn read_criteria(from: &mut Reader<'_>, into: &mut Vec<(u32, f64)>) -> Result<(), DecodeError> {
    into.clear();
    let count = from.number_to("criteria", limits::CRITERIA)?;
    for _ in 0..count {
        let at = from.at();
        let index = from.number_to("criterion", limits::CRITERIA - 1)? as u32;
        if into.last().is_some_and(|&(last, _)| last >= index) {
            return Err(DecodeError::Order { field: "criterion", at });
        }
        into.push((index, from.f64("criterion's value")?));
    }
    Ok(())
}
