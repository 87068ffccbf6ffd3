//! The frame around every message.

use super::wire::Reader;
use crate::error::DecodeError;
use crate::limits;

const MAGIC: [u8; 4] = *b"SOTV";
/// The version of the format this build speaks.
pub const VERSION: u8 = 1;
/// Magic, version, kind, payload length.
const HEAD: usize = 10;
const CHECKSUM: usize = 4;
/// Bytes of an envelope around its payload.
pub(crate) const ENVELOPE_BYTES: u64 = (HEAD + CHECKSUM) as u64;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A device's disclosed update.
    Update = 1,
    /// A whole shared model.
    Model = 2,
    /// Changes from one version of a shared model to another.
    Difference = 3,
    /// The terms of a round.
    Terms = 4,
    /// A device's no to a round.
    Refusal = 5,
    /// One entry of a ledger; never sent, but stored in the same form.
    LedgerEntry = 6,
    /// What a ledger keeps of entries too old to be kept one by one; never sent.
    LedgerSummary = 7,
    /// A device's update as integers with noise.
    Quantized = 8,
}

impl Kind {
    const ALL: [Kind; 8] = [
        Kind::Update,
        Kind::Model,
        Kind::Difference,
        Kind::Terms,
        Kind::Refusal,
        Kind::LedgerEntry,
        Kind::LedgerSummary,
        Kind::Quantized,
    ];

    fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|&kind| kind as u8 == code)
    }
}

/// Appends a message whose payload `write` appends.
///
/// # Panics
/// Never: whatever can be built fits 32 bits, because constructors keep to [`limits`].
pub(crate) fn seal(kind: Kind, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&[VERSION, kind as u8, 0, 0, 0, 0]);
    write(out);
    let length = (out.len() - start - HEAD) as u32;
    out[start + 6..start + HEAD].copy_from_slice(&length.to_le_bytes());
    let checksum = crc32fast::hash(&out[start..]);
    out.extend_from_slice(&checksum.to_le_bytes());
}

/// Checks an envelope that may be followed by others and gives kind, payload and the message's whole length.
pub(crate) fn next(bytes: &[u8]) -> Result<(Kind, &[u8], usize), DecodeError> {
    let mut head = Reader::new(bytes);
    let magic = head.bytes("magic", 4)?;
    if magic != MAGIC {
        return Err(DecodeError::Magic { found: [magic[0], magic[1], magic[2], magic[3]] });
    }
    let version = head.byte("version")?;
    if version != VERSION {
        return Err(DecodeError::Version { found: version, spoken: VERSION });
    }
    let kind = head.code("kind", Kind::from_code)?;
    let at = head.at();
    let stated = u64::from(head.u32("length")?);
    let most = limits::MESSAGE_BYTES - ENVELOPE_BYTES;
    if stated > most {
        return Err(DecodeError::Limit { field: "length", at, found: stated, most });
    }
    let payload = head.bytes("payload", stated)?;
    let computed = crc32fast::hash(&bytes[..head.at()]);
    let stated = head.u32("checksum")?;
    if stated != computed {
        return Err(DecodeError::Checksum { stated, computed });
    }
    Ok((kind, payload, head.at()))
}

fn whole(bytes: &[u8]) -> Result<(Kind, &[u8]), DecodeError> {
    let (kind, payload, length) = next(bytes)?;
    if length != bytes.len() {
        let found = bytes.len() as u64 - ENVELOPE_BYTES;
        return Err(DecodeError::Length { stated: payload.len() as u64, found });
    }
    Ok((kind, payload))
}

/// Checks the envelope of one whole message and gives its kind.
///
/// # Errors
/// If it is not a message of this version, or was damaged.
pub fn kind_of(bytes: &[u8]) -> Result<Kind, DecodeError> {
    Ok(whole(bytes)?.0)
}

/// The payload of one whole message of the kind expected.
pub(crate) fn open(bytes: &[u8], expected: Kind) -> Result<Reader<'_>, DecodeError> {
    let (kind, payload) = whole(bytes)?;
    if kind != expected {
        return Err(DecodeError::Kind { found: kind as u8, expected: expected as u8 });
    }
    Ok(Reader::new(payload))
}
