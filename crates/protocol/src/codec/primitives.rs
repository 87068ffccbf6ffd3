//! Reading and writing the smallest pieces: bytes, variable-length numbers, texts.

use crate::error::{DecodeError, Result};
use crate::limits;
use sottovoce_core::SimdKernel;

/// A cursor over untrusted bytes. Every read names its field for the error message, checks its bounds and allocates
/// nothing that the bytes do not hold.
#[derive(Clone)]
pub struct Reader<'a> {
    all: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// At the first byte.
    pub fn new(all: &'a [u8]) -> Self {
        Self { all, at: 0 }
    }

    /// Bytes read so far.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Bytes left.
    pub fn left(&self) -> usize {
        self.all.len() - self.at
    }

    /// The next `count` bytes.
    ///
    /// # Errors
    /// If there are fewer.
    pub fn bytes(&mut self, field: &'static str, count: u64) -> Result<&'a [u8]> {
        let (at, left) = (self.at, self.left());
        if count > left as u64 {
            return Err(DecodeError::Truncated(field, at, count, left));
        }
        self.at += count as usize;
        Ok(&self.all[at..self.at])
    }

    /// The next `N` bytes.
    ///
    /// # Errors
    /// If there are fewer.
    pub fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(field, N as u64)?);
        Ok(array)
    }

    /// One byte.
    ///
    /// # Errors
    /// If there is none.
    pub fn byte(&mut self, field: &'static str) -> Result<u8> {
        Ok(self.array::<1>(field)?[0])
    }

    /// Four bytes, little-endian.
    ///
    /// # Errors
    /// If there are fewer.
    pub fn u32(&mut self, field: &'static str) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array(field)?))
    }

    /// Eight bytes, little-endian.
    ///
    /// # Errors
    /// If there are fewer.
    pub fn u64(&mut self, field: &'static str) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array(field)?))
    }

    /// A finite f64.
    pub(crate) fn f64(&mut self, field: &'static str) -> Result<f64> {
        let at = self.at;
        let value = f64::from_bits(self.u64(field)?);
        if value.is_finite() { Ok(value) } else { Err(DecodeError::Value(field, at)) }
    }

    /// A byte of 0 or 1.
    ///
    /// # Errors
    /// If it is another.
    pub fn flag(&mut self, field: &'static str) -> Result<bool> {
        self.code(field, |code| (code < 2).then_some(code == 1))
    }

    /// A number of entries of at least `size` bytes each, of which all must still lie ahead.
    ///
    /// # Errors
    /// If there are more than `most`, or fewer bytes than that many entries take.
    pub fn count(&mut self, field: &'static str, most: usize, size: usize) -> Result<usize> {
        let at = self.at;
        let (found, most) = (u64::from(self.u32(field)?), most as u64);
        if found > most {
            return Err(DecodeError::Limit(field, at, found, most));
        }
        let (at, needed, left) = (self.at, found * size as u64, self.left());
        if needed > left as u64 {
            return Err(DecodeError::Truncated(field, at, needed, left));
        }
        Ok(found as usize)
    }

    /// LEB128, in its shortest form only.
    #[inline]
    pub(crate) fn number(&mut self, field: &'static str) -> Result<u64> {
        match self.all.get(self.at) {
            Some(&byte) if byte < 0x80 => {
                self.at += 1;
                Ok(byte.into())
            }
            _ => self.long_number(field),
        }
    }

    fn long_number(&mut self, field: &'static str) -> Result<u64> {
        let at = self.at;
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte(field)?;
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                let overlong = byte == 0 && shift > 0;
                let overflow = shift == 63 && byte > 1;
                return if overlong || overflow { Err(DecodeError::Number(field, at)) } else { Ok(value) };
            }
        }
        Err(DecodeError::Number(field, at))
    }

    /// A number of at most `most`.
    #[inline]
    pub(crate) fn number_to(&mut self, field: &'static str, most: u64) -> Result<u64> {
        let at = self.at;
        let found = self.number(field)?;
        if found > most { Err(DecodeError::Limit(field, at, found, most)) } else { Ok(found) }
    }

    /// A number that fits 32 bits.
    pub(crate) fn number_u32(&mut self, field: &'static str) -> Result<u32> {
        self.number_to(field, u32::MAX.into()).map(|number| number as u32)
    }

    /// A text of at most `most` bytes.
    pub(crate) fn text(&mut self, field: &'static str, most: u64) -> Result<&'a str> {
        let length = self.number_to(field, most)?;
        let at = self.at;
        std::str::from_utf8(self.bytes(field, length)?).map_err(|_| DecodeError::Text(field, at))
    }

    pub(crate) fn name(&mut self, field: &'static str) -> Result<String> {
        self.text(field, limits::NAME_BYTES).map(str::to_owned)
    }

    /// So many entries, at most `most`, each as `read` has it. Memory grows with the bytes read, not with what they
    /// claim.
    pub(crate) fn list<T>(
        &mut self,
        field: &'static str,
        most: u64,
        mut read: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let count = self.number_to(field, most)?;
        (0..count).map(|_| read(self)).collect()
    }

    /// A code that `known` understands.
    pub(crate) fn code<T>(&mut self, field: &'static str, known: impl Fn(u8) -> Option<T>) -> Result<T> {
        let at = self.at;
        let found = self.byte(field)?;
        known(found).ok_or(DecodeError::Code(field, at, found))
    }

    /// That nothing follows.
    ///
    /// # Errors
    /// With the number of bytes that do.
    pub fn end(self) -> Result<()> {
        match self.left() {
            0 => Ok(()),
            bytes => Err(DecodeError::Trailing(bytes)),
        }
    }
}

/// Appends a number as LEB128: 7 bits a byte, lowest first, the high bit set on all but the last.
#[inline]
pub(crate) fn write_number(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Bytes that [`write_number`] appends.
#[inline]
pub(crate) fn number_bytes(value: u64) -> u64 {
    u64::from((70 - (value | 1).leading_zeros()) / 7)
}

pub(crate) fn write_text(text: &str, out: &mut Vec<u8>) {
    write_number(text.len() as u64, out);
    out.extend_from_slice(text.as_bytes());
}

/// Ascending numbers: the first, then each one's distance to the one before, less 1.
pub(crate) fn write_ascending(numbers: &[u32], out: &mut Vec<u8>) {
    let mut next = 0;
    for &number in numbers {
        write_number(u64::from(number) - next, out);
        next = u64::from(number) + 1;
    }
}

/// Counts the bytes that [`write_ascending`] appends.
pub(crate) struct AscendingBytes<'a>(pub(crate) &'a [u32]);

impl SimdKernel for AscendingBytes<'_> {
    type Output = u64;

    /// By thresholds instead of logarithms, in 32 bits: loops over that become vector instructions.
    #[inline(always)]
    fn run(self) -> u64 {
        let numbers = self.0;
        let mut more = numbers.first().map_or(0, |&first| number_bytes(u64::from(first)) - 1) as u32;
        for (one, next) in numbers.iter().zip(&numbers[numbers.len().min(1)..]) {
            let gap = next - one - 1;
            more += u32::from(gap >= 1 << 7)
                + u32::from(gap >= 1 << 14)
                + u32::from(gap >= 1 << 21)
                + u32::from(gap >= 1 << 28);
        }
        numbers.len() as u64 + u64::from(more)
    }
}

/// Reads `count` ascending numbers below `end` and appends them.
pub(crate) fn read_ascending(
    from: &mut Reader<'_>,
    field: &'static str,
    count: u64,
    end: u64,
    into: &mut Vec<u32>,
) -> Result<()> {
    let mut next = 0;
    for _ in 0..count {
        let at = from.at();
        let gap = from.number(field)?;
        let found = gap.saturating_add(next);
        if found >= end {
            return Err(DecodeError::Limit(field, at, found, end.saturating_sub(1)));
        }
        into.push(found as u32);
        next = found + 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_round_trip_with_the_stated_length(value in any::<u64>(), shift in 0u32..64) {
            let value = value >> shift;
            let mut bytes = Vec::new();
            write_number(value, &mut bytes);
            prop_assert_eq!(bytes.len() as u64, number_bytes(value));
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(reader.number("n").unwrap(), value);
            prop_assert_eq!(reader.left(), 0);
        }
    }

    #[test]
    fn rejects_overlong_numbers() {
        let read = |bytes: &[u8]| Reader::new(bytes).number("n");
        assert_eq!(read(&[0x80, 0x01]), Ok(128));
        assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]), Ok(u64::MAX));
        let wrong = Err(DecodeError::Number("n", 0));
        assert_eq!(read(&[0x80, 0x00]), wrong);
        assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]), wrong);
        assert_eq!(read(&[0xff; 11]), wrong);
        assert_eq!(read(&[0x80]), Err(DecodeError::Truncated("n", 1, 1, 0)));
    }
}
