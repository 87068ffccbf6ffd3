//! The binary form of a trial's columns: compressed, exact.
//!
//! A zstd frame around: `SVV1`; then sections, each a length and that many bytes, all little-endian. The first section
//! is a JSON header with the order of the columns; then the users (u32), the recommendation counts (u32), one column of
//! f64 for each entry of the header, and, for federated models, how often each item's row was sent (u64).

use crate::outcome::Values;
use serde::{Deserialize, Serialize};
use sottovoce_evaluate::Metric;
use std::collections::BTreeMap;
use std::io::Read;
use thiserror::Error;

const MAGIC: &[u8] = b"SVV1";

/// Larger files are rejected as damaged instead of allocated.
const LIMIT: u64 = 1 << 32;

/// Why columns cannot be read.
#[derive(Debug, Error)]
#[error("not the values of a trial: {0}")]
pub(crate) struct ValuesError(String);

#[derive(Serialize, Deserialize)]
struct Header {
    columns: Vec<(usize, Metric)>,
}

pub(crate) fn encode(values: &Values) -> Vec<u8> {
    let columns: Vec<(usize, Metric)> =
        values.per_user.iter().flat_map(|(cutoff, columns)| columns.keys().map(|key| (*cutoff, *key))).collect();
    let mut plain = MAGIC.to_vec();
    section(&mut plain, &serde_json::to_vec(&Header { columns }).unwrap_or_default());
    section(&mut plain, &words(&values.users));
    section(&mut plain, &words(&values.recommended));
    for column in values.per_user.values().flat_map(BTreeMap::values) {
        section(&mut plain, &column.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>());
    }
    if !values.updates.is_empty() {
        section(&mut plain, &values.updates.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>());
    }
    // Writing to memory does not fail; if it did, decoding would say so.
    zstd::encode_all(&plain[..], 3).unwrap_or_default()
}

pub(crate) fn decode(bytes: &[u8]) -> Result<Values, ValuesError> {
    let wrong = |error: std::io::Error| ValuesError(error.to_string());
    let mut plain = Vec::new();
    zstd::Decoder::new(bytes).map_err(wrong)?.take(LIMIT).read_to_end(&mut plain).map_err(wrong)?;
    let mut rest = plain.strip_prefix(MAGIC).ok_or_else(|| ValuesError("it does not start with SVV1".to_owned()))?;
    let header: Header = serde_json::from_slice(take(&mut rest)?).map_err(|error| ValuesError(error.to_string()))?;
    let mut values =
        Values { users: numbers(take(&mut rest)?), recommended: numbers(take(&mut rest)?), ..Values::default() };
    for (cutoff, key) in header.columns {
        let (column, _) = take(&mut rest)?.as_chunks::<8>();
        let column = column.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect();
        values.per_user.entry(cutoff).or_default().insert(key, column);
    }
    if !rest.is_empty() {
        let (counts, _) = take(&mut rest)?.as_chunks::<8>();
        values.updates = counts.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
    }
    Ok(values)
}

fn words(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn numbers(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect()
}

fn section(into: &mut Vec<u8>, bytes: &[u8]) {
    into.extend((bytes.len() as u64).to_le_bytes());
    into.extend(bytes);
}

fn take<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], ValuesError> {
    let short = || ValuesError("it ends too early".to_owned());
    let (length, after) = rest.split_first_chunk::<8>().ok_or_else(short)?;
    let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| short())?;
    let (section, after) = after.split_at_checked(length).ok_or_else(short)?;
    *rest = after;
    Ok(section)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn some_values() -> Values {
        let columns = |shift: f64| {
            let column = |factor: f64| (0..50).map(|i| (f64::from(i) * factor + shift).sin()).collect();
            BTreeMap::from([(Metric::Ndcg, column(0.3)), (Metric::Recall, column(1.7))])
        };
        Values {
            users: (0..50).map(|u| u * 3 + 1).collect(),
            per_user: BTreeMap::from([(5, columns(0.1)), (10, columns(0.9))]),
            recommended: vec![7, 0, 3],
            updates: vec![1, 1 << 40, 0],
        }
    }

    #[test]
    fn values_are_restored_bit_for_bit() {
        let values = some_values();
        assert_eq!(decode(&encode(&values)).unwrap(), values);
        let central = Values { updates: Vec::new(), ..values };
        assert_eq!(decode(&encode(&central)).unwrap(), central);
    }

    proptest! {
        #[test]
        fn damage_never_panics(at in 0usize..300, to: u8, cut in 0usize..300) {
            let mut plain = zstd::decode_all(&encode(&some_values())[..]).unwrap();
            plain[at] = to;
            plain.truncate(plain.len() - cut);
            drop(decode(&zstd::encode_all(&plain[..], 1).unwrap()));
            drop(decode(&plain));
        }
    }
}
