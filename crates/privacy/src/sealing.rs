//! What seals cost on the wire.

use crate::{Protection, Scheme, Seal, he, secagg};

/// Bytes of a message around its words: names of federation and round, lengths, a check.
const FRAME: u64 = 64;

/// Bytes of the message that holds a device's words, at most.
pub(crate) fn message_bytes(protection: &Protection, words: usize) -> u64 {
    let words_bytes = 4 * words as u64;
    FRAME
        + match &protection.seal {
            Some(Seal::Encryption { scheme: Scheme::Bfv, .. }) => he::bfv::ciphertext_bytes(words),
            Some(Seal::Encryption { scheme: Scheme::Ckks, .. }) => he::ckks::ciphertext_bytes(words),
            Some(Seal::SecureAggregation { .. }) | None => words_bytes,
        }
}

/// Bytes that a device of a cohort of this size sends in a round, all messages together.
pub(crate) fn upload_bytes(protection: &Protection, words: usize, cohort: u32) -> u64 {
    let beside = match protection.seal {
        Some(Seal::SecureAggregation { dropout, colluding }) => {
            secagg::bytes_beside(cohort, dropout, colluding)
        }
        _ => 0,
    };
    message_bytes(protection, words) + beside
}
