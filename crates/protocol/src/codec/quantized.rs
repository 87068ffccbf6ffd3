//! Quantised updates: what devices send that add noise themselves.

use super::envelope::{Kind, open, seal};
use super::primitives::{number_bytes, write_number};
use super::update::{address_bytes, read_address, write_address};
use crate::error::{DecodeError, Result};
use crate::{Disclosed, FederationId, RoundId, limits};

/// A quantised update as it came in: only its length is checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuantizedUpdate {
    /// The federation it says it is for.
    pub federation: FederationId,
    /// The round it says it is for.
    pub round: RoundId,
    /// Its integers, to be added modulo 2^32.
    pub words: Vec<u32>,
}

/// Appends the message: the integers to which a disclosed update was quantised.
pub fn encode_quantized(disclosed: &Disclosed, words: &[u32], out: &mut Vec<u8>) {
    seal(Kind::Quantized, out, |out| {
        write_address(disclosed, out);
        write_number(words.len() as u64, out);
        words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    });
}

/// Bytes that [`encode_quantized`] appends for so many integers.
pub fn quantized_bytes(federation: FederationId, round: RoundId, words: usize) -> u64 {
    address_bytes(federation, round) + number_bytes(words as u64) + 4 * words as u64
}

/// Reads one whole message of exactly so many integers for a layout.
///
/// # Errors
/// Says what is wrong and where.
pub fn decode_quantized(bytes: &[u8], layout: u32, expected: usize) -> Result<QuantizedUpdate> {
    let mut from = open(bytes, Kind::Quantized)?;
    let (federation, round) = read_address(&mut from, layout)?;
    let found = from.number_to("words", limits::MESSAGE_BYTES / 4)?;
    if found != expected as u64 {
        return Err(DecodeError::Content(format!("{found} words, expected {expected}")));
    }
    let words = from.bytes("words", 4 * found)?.as_chunks().0;
    let words = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
    from.end()?;
    Ok(QuantizedUpdate { federation, round, words })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DisclosureSeeds, Keyed, Layout, Ledger, Policy, RoundTerms, Shape, TermsDraft, Trained};
    use sottovoce_core::Rng;

    fn message(words: &[u32]) -> (Vec<u8>, u32) {
        let layout = Layout::new(vec![Shape::new("items", 3, 2, Keyed::Items)]).unwrap();
        let terms = TermsDraft { federation: FederationId(7), round: RoundId(300), ..TermsDraft::default() };
        let terms = RoundTerms::freeze(terms).unwrap();
        let (policy, mut ledger) = (Policy::new(1.0).unwrap(), Ledger::new());
        let disclosed = Trained::new(&layout)
            .disclose(&policy, &terms, 0, &mut ledger, DisclosureSeeds::once(&mut Rng::new(1)))
            .unwrap();
        let mut bytes = Vec::new();
        encode_quantized(&disclosed, words, &mut bytes);
        assert_eq!(bytes.len() as u64, quantized_bytes(FederationId(7), RoundId(300), words.len()));
        (bytes, layout.fingerprint())
    }

    #[test]
    fn round_trips_and_rejects_other_lengths() {
        let words = [0, 1, u32::MAX, 7];
        let (bytes, layout) = message(&words);
        let found = decode_quantized(&bytes, layout, 4).unwrap();
        assert_eq!(found, QuantizedUpdate { federation: FederationId(7), round: RoundId(300), words: words.to_vec() });
        let error = decode_quantized(&bytes, layout, 5).unwrap_err().to_string();
        assert!(error.contains("4 words, expected 5"), "{error}");
        assert!(matches!(decode_quantized(&bytes, layout ^ 1, 4), Err(DecodeError::Layout(..))));
        for length in 0..bytes.len() {
            assert!(decode_quantized(&bytes[..length], layout, 4).is_err(), "{length}");
        }
    }
}
