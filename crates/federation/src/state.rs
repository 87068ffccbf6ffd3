//! Numbers written to a checkpoint and read back, little-endian.
//!
//! What is read goes into memory that is there already, so that a damaged length cannot ask for more.

use std::io::{self, Read, Write};

/// Values turned into bytes at a time.
const CHUNK: usize = 4096;

macro_rules! number_lists {
    ($put:ident, $take:ident, $number:ty, $bytes:literal) => {
        pub(crate) fn $put(out: &mut dyn Write, values: &[$number]) -> io::Result<()> {
            let mut bytes = [0; $bytes * CHUNK];
            for chunk in values.chunks(CHUNK) {
                let slots = bytes.as_chunks_mut::<$bytes>().0;
                slots.iter_mut().zip(chunk).for_each(|(slot, value)| *slot = value.to_le_bytes());
                out.write_all(&bytes[..$bytes * chunk.len()])?;
            }
            Ok(())
        }

        pub(crate) fn $take(from: &mut dyn Read, values: &mut [$number]) -> io::Result<()> {
            let mut bytes = [0; $bytes * CHUNK];
            for chunk in values.chunks_mut(CHUNK) {
                from.read_exact(&mut bytes[..$bytes * chunk.len()])?;
                let slots = bytes.as_chunks::<$bytes>().0;
                chunk
                    .iter_mut()
                    .zip(slots)
                    .for_each(|(value, slot)| *value = <$number>::from_le_bytes(*slot));
            }
            Ok(())
        }
    };
}

number_lists!(put_f32s, take_f32s, f32, 4);
number_lists!(put_f64s, take_f64s, f64, 8);
number_lists!(put_u64s, take_u64s, u64, 8);

/// So many whole numbers.
pub(crate) fn take_numbers<const N: usize>(from: &mut dyn Read) -> io::Result<[u64; N]> {
    let mut numbers = [0; N];
    take_u64s(from, &mut numbers)?;
    Ok(numbers)
}

/// So many floating-point numbers.
pub(crate) fn take_reals<const N: usize>(from: &mut dyn Read) -> io::Result<[f64; N]> {
    let mut reals = [0.0; N];
    take_f64s(from, &mut reals)?;
    Ok(reals)
}

/// What is read does not fit.
pub(crate) fn unfit(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_come_back_bit_for_bit() {
        let values: Vec<f32> = (0..10_001u32).map(|n| f32::from_bits(n.wrapping_mul(0x9E37_79B9))).collect();
        let mut bytes = Vec::new();
        put_f32s(&mut bytes, &values).unwrap();
        put_u64s(&mut bytes, &[7, u64::MAX]).unwrap();
        assert_eq!(bytes.len(), 4 * 10_001 + 16);
        let (mut back, mut rest) = (vec![0.0; 10_001], &bytes[..]);
        take_f32s(&mut rest, &mut back).unwrap();
        assert!(values.iter().zip(&back).all(|(a, b)| a.to_bits() == b.to_bits()));
        assert_eq!(take_numbers(&mut rest).unwrap(), [7, u64::MAX]);
        assert!(take_numbers::<1>(&mut rest).is_err());
    }
}
