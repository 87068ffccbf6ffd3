//! The idx format of MNIST: two zero bytes, the type of values, the number of sides, each side in four bytes (the highest
//! first), then the values.

use super::error::{ImageDataError, Result};
use crate::files::unpack;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The code of unsigned bytes, the only type that images and labels have.
const BYTES: u8 = 0x08;

/// Values of an idx file and their shape.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Idx {
    pub(super) sides: Vec<usize>,
    pub(super) values: Vec<u8>,
}

/// Reads a file, plain or packed, that must have so many sides.
pub(super) fn read(path: &Path, sides: usize) -> Result<Idx> {
    let file = File::open(path).map_err(|error| ImageDataError::io(path.display(), error))?;
    let unpacked = unpack(Box::new(file)).map_err(|error| ImageDataError::io(path.display(), error))?;
    parse(&path.display().to_string(), unpacked, sides)
}

fn parse(file: &str, mut from: impl Read, sides: usize) -> Result<Idx> {
    let mut take = |most: u64| {
        let mut bytes = Vec::new();
        let read = from.by_ref().take(most).read_to_end(&mut bytes);
        read.map(|_| bytes).map_err(|error| ImageDataError::io(file, error))
    };
    let wrong = |place: String, problem: String| Err(ImageDataError::content(file, place, problem));
    let header = 4 + 4 * sides;
    let start = take(header as u64)?;
    if let [first, second, kind, count, ..] = start[..]
        && ([first, second, kind] != [0, 0, BYTES] || usize::from(count) != sides)
    {
        let problem = format!(
            "the file begins with {first:02x} {second:02x} {kind:02x} {count:02x}, \
             expected 00 00 {BYTES:02x} {sides:02x} (bytes in {sides} sides)"
        );
        return wrong("byte 0".to_owned(), problem);
    }
    if start.len() < header {
        return wrong(format!("byte {}", start.len()), format!("the file ends in its header of {header} bytes"));
    }
    let lengths: Vec<usize> =
        start[4..].as_chunks::<4>().0.iter().map(|bytes| u32::from_be_bytes(*bytes) as usize).collect();
    let Some(expected) = lengths.iter().try_fold(1usize, |all, &side| all.checked_mul(side)) else {
        return wrong("byte 4".to_owned(), format!("sides of {lengths:?} are too large"));
    };
    let mut values = take(expected as u64)?;
    if values.len() < expected {
        let place = format!("byte {}", header + values.len());
        return wrong(place, format!("the file ends; its header says {expected} values, {} are there", values.len()));
    }
    if !take(1)?.is_empty() {
        return wrong(format!("byte {}", header + expected), "the file goes on after its last value".to_owned());
    }
    values.shrink_to_fit();
    Ok(Idx { sides: lengths, values })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_dimensions_and_values_and_names_errors() {
        let fine = [0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6];
        let idx = parse("f", &fine[..], 2).unwrap();
        assert_eq!(idx, Idx { sides: vec![2, 3], values: vec![1, 2, 3, 4, 5, 6] });
        let error = |bytes: &[u8]| parse("f", bytes, 2).unwrap_err().to_string();
        assert_eq!(error(&fine[..15]), "f, byte 15: the file ends; its header says 6 values, 3 are there");
        assert_eq!(error(&fine[..7]), "f, byte 7: the file ends in its header of 12 bytes");
        assert_eq!(error(&[]), "f, byte 0: the file ends in its header of 12 bytes");
        assert_eq!(error(&[&fine[..], &[7]].concat()), "f, byte 18: the file goes on after its last value");
        let mut floats = fine;
        floats[2] = 0x0d;
        assert!(error(&floats).starts_with("f, byte 0: the file begins with 00 00 0d 02, expected 00 00 08 02"));
        assert!(parse("f", &fine[..], 1).is_err());
        let huge = [0, 0, 8, 2, 255, 255, 255, 255, 255, 255, 255, 255];
        assert!(error(&huge).contains("the file ends"));
    }
}
