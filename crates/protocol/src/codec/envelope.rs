//! The frame around every message.

use super::primitives::Reader;
use crate::error::{DecodeError, Result};
use crate::limits;

const MAGIC: [u8; 4] = *b"SOTV";
/// Magic, version, kind, payload length.
const HEAD: usize = 10;
const CHECKSUM: usize = 4;
/// Bytes of an envelope around its payload.
pub(crate) const ENVELOPE_BYTES: u64 = (HEAD + CHECKSUM) as u64;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A device's disclosed update.
    Update = 1,
    /// A whole shared model.
    Model = 2,
    /// Changes from one version of a shared model to another.
    Difference = 3,
    /// The terms of a round.
    Terms = 4,
    /// A device's refusal of a round.
    Refusal = 5,
    /// One entry of a ledger; stored on the device, never sent.
    LedgerEntry = 6,
    /// A ledger's totals of entries too old to be stored one by one; never sent.
    LedgerSummary = 7,
    /// A device's quantised update with noise.
    Quantized = 8,
}

impl Kind {
    const ALL: [Kind; 8] = {
        use Kind::*;
        [Update, Model, Difference, Terms, Refusal, LedgerEntry, LedgerSummary, Quantized]
    };

    /// The version of this kind of message that this build reads and writes.
    pub(crate) fn version(self) -> u8 {
        match self {
            // 2: models' settings are called as the literature calls them (`learning_rate`, `user_regularisation`).
            Kind::Terms => 2,
            _ => 1,
        }
    }
}

/// Appends a message whose payload `write` appends.
///
/// # Panics
/// Never: whatever can be built fits 32 bits, because constructors keep to [`limits`].
pub(crate) fn seal(kind: Kind, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&[kind.version(), kind as u8, 0, 0, 0, 0]);
    write(out);
    let length = (out.len() - start - HEAD) as u32;
    out[start + 6..start + HEAD].copy_from_slice(&length.to_le_bytes());
    let checksum = crc32fast::hash(&out[start..]);
    out.extend_from_slice(&checksum.to_le_bytes());
}

/// Checks an envelope that may be followed by others and gives kind, payload and the message's whole length.
pub(crate) fn next(bytes: &[u8]) -> Result<(Kind, &[u8], usize)> {
    let mut head = Reader::new(bytes);
    let found = head.array("magic")?;
    if found != MAGIC {
        return Err(DecodeError::Magic(found));
    }
    let version = head.byte("version")?;
    let kind = head.code("kind", |code| Kind::ALL.into_iter().find(|&kind| kind as u8 == code))?;
    if version != kind.version() {
        return Err(DecodeError::Version(version, kind.version()));
    }
    let at = head.at();
    let stated = u64::from(head.u32("length")?);
    let most = limits::MESSAGE_BYTES - ENVELOPE_BYTES;
    if stated > most {
        return Err(DecodeError::Limit("length", at, stated, most));
    }
    let payload = head.bytes("payload", stated)?;
    let computed = crc32fast::hash(&bytes[..head.at()]);
    let stated = head.u32("checksum")?;
    if stated != computed {
        return Err(DecodeError::Checksum(stated, computed));
    }
    Ok((kind, payload, head.at()))
}

/// The payload of one whole message of the kind expected.
pub(crate) fn open(bytes: &[u8], expected: Kind) -> Result<Reader<'_>> {
    let (kind, payload, length) = next(bytes)?;
    if length != bytes.len() {
        let found = bytes.len() as u64 - ENVELOPE_BYTES;
        return Err(DecodeError::Length(payload.len() as u64, found));
    }
    if kind != expected {
        return Err(DecodeError::Kind(kind as u8, expected as u8));
    }
    Ok(Reader::new(payload))
}
