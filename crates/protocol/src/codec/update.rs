//! Updates: the one message that says something about a person.

use super::envelope::{ENVELOPE_BYTES, Kind, open, seal};
use super::primitives::{Reader, number_bytes, write_number};
use crate::error::{DecodeError, Result};
use crate::update::Update;
use crate::{Disclosed, FederationId, Received, RoundId, ValueEncoding, limits, rows};

/// Appends the message. Values were checked when they were disclosed, so nothing can fail.
pub fn encode_update(disclosed: &Disclosed, out: &mut Vec<u8>) {
    out.reserve(update_bytes(disclosed) as usize);
    let Disclosed { update, encoding, .. } = disclosed;
    seal(Kind::Update, out, |out| {
        write_address(disclosed, out);
        out.push(*encoding as u8);
        write_number(update.samples, out);
        write_number(update.criteria.len() as u64, out);
        for (index, value) in &update.criteria {
            write_number(u64::from(*index), out);
            out.extend_from_slice(&value.to_le_bytes());
        }
        rows::write_all(&update.tables, *encoding, out);
    });
}

/// Federation, round and layout: what every form of an update begins with.
pub(super) fn write_address(disclosed: &Disclosed, out: &mut Vec<u8>) {
    write_number(disclosed.federation.0, out);
    write_number(disclosed.round.0, out);
    out.extend_from_slice(&disclosed.update.layout.to_le_bytes());
}

pub(super) fn address_bytes(federation: FederationId, round: RoundId) -> u64 {
    ENVELOPE_BYTES + number_bytes(federation.0) + number_bytes(round.0) + 4
}

/// Reads what [`write_address`] wrote for a layout.
pub(super) fn read_address(from: &mut Reader<'_>, layout: u32) -> Result<(FederationId, RoundId)> {
    let address = (FederationId(from.number("federation")?), RoundId(from.number("round")?));
    check_layout(from, layout)?;
    Ok(address)
}

/// Bytes that [`encode_update`] appends.
pub fn update_bytes(disclosed: &Disclosed) -> u64 {
    let Update { tables, samples, criteria, .. } = &disclosed.update;
    let reported: u64 = criteria.iter().map(|(index, _)| 8 + number_bytes(u64::from(*index))).sum();
    let said = 1 + number_bytes(*samples) + number_bytes(criteria.len() as u64) + reported;
    address_bytes(disclosed.federation, disclosed.round) + said + rows::all_bytes(tables, disclosed.encoding)
}

/// Reads one whole message into buffers for its layout.
///
/// # Errors
/// Says what is wrong and where; the buffers' content means nothing then.
pub fn decode_update(bytes: &[u8], into: &mut Received) -> Result<()> {
    let mut from = open(bytes, Kind::Update)?;
    (into.federation, into.round) = read_address(&mut from, into.update.layout)?;
    into.encoding = from.code("encoding", ValueEncoding::from_code)?;
    into.update.samples = from.number("samples")?;
    read_criteria(&mut from, &mut into.update.criteria)?;
    rows::read_all(&mut into.update.tables, into.encoding, &mut from)?;
    from.end()
}

pub(super) fn check_layout(from: &mut Reader<'_>, expected: u32) -> Result<()> {
    let stated = from.u32("layout")?;
    if stated == expected { Ok(()) } else { Err(DecodeError::Layout(stated, expected)) }
}

fn read_criteria(from: &mut Reader<'_>, into: &mut Vec<(u32, f64)>) -> Result<()> {
    into.clear();
    let count = from.number_to("criteria", limits::CRITERIA)?;
    for _ in 0..count {
        let at = from.at();
        let index = from.number_to("criterion", limits::CRITERIA - 1)? as u32;
        if into.last().is_some_and(|&(last, _)| last >= index) {
            return Err(DecodeError::Order("criterion", at));
        }
        into.push((index, from.f64("criterion's value")?));
    }
    Ok(())
}
