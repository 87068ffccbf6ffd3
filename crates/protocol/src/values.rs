//! How values are written: as they are, in 16 bits, or in 8 bits with a scale.

use crate::codec::primitives::Reader;
use crate::error::{DecodeError, Result};
use half::f16;
use half::slice::HalfFloatSliceExt;
use sottovoce_core::math::all_finite;
use std::fmt;

/// How the values of a message are written. All rounding is to nearest, ties to even, the same on every machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ValueEncoding {
    /// IEEE 754 single: 4 bytes a value, exact.
    #[default]
    F32 = 0,
    /// IEEE 754 half: 2 bytes a value. Error at most 2^-11 of the value, or 2^-25 where that is more.
    F16 = 1,
    /// 8 bits a value and a 3-byte scale a row. Error at most 1/253 of the row's largest value, or 2^-119 where that
    /// is more.
    I8Row = 2,
    /// 8 bits a value and one 3-byte scale for all rows sent of a table. Error at most 1/253 of their largest value,
    /// or 2^-119 where that is more.
    I8Table = 3,
}

impl fmt::Display for ValueEncoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ValueEncoding::F32 => "f32",
            ValueEncoding::F16 => "f16",
            ValueEncoding::I8Row => "i8-row",
            ValueEncoding::I8Table => "i8-table",
        })
    }
}

const SIGN: u32 = 1 << 31;
/// Bits of the largest finite f32; infinities and NaNs compare above it once the sign is gone.
const LARGEST: u32 = 0x7F7F_FFFF;
/// From here on rounding to f16 gives infinity.
const TOO_LARGE_F16: f32 = 65520.0;
/// Below the smallest normal number a scale has too few bits for exact products: such blocks are written as zeros.
const SMALLEST_SCALE: f32 = f32::MIN_POSITIVE;

impl ValueEncoding {
    /// The four, for loops and help texts.
    pub const ALL: [ValueEncoding; 4] =
        [ValueEncoding::F32, ValueEncoding::F16, ValueEncoding::I8Row, ValueEncoding::I8Table];

    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|&encoding| encoding as u8 == code)
    }

    /// Bytes that `rows` rows of `cols` values take.
    pub fn block_bytes(self, rows: u64, cols: u64) -> u64 {
        let values = rows * cols;
        match self {
            ValueEncoding::F32 => 4 * values,
            ValueEncoding::F16 => 2 * values,
            ValueEncoding::I8Row => 3 * rows + values,
            ValueEncoding::I8Table => 3 * rows.min(1) + values,
        }
    }

    /// Whether these values can be written: finite, and within the encoding's range.
    pub fn carries(self, values: &[f32]) -> bool {
        if self == ValueEncoding::F32 {
            return all_finite(values);
        }
        let largest = largest_bits(values);
        match self {
            ValueEncoding::F16 => largest < TOO_LARGE_F16.to_bits(),
            _ => largest <= LARGEST && (127.0 * scale_for(f32::from_bits(largest))).is_finite(),
        }
    }

    /// Appends a block of rows.
    pub(crate) fn write(self, values: &[f32], cols: usize, out: &mut Vec<u8>) {
        match self {
            ValueEncoding::F32 => as_le_bytes(values, |bytes| out.extend_from_slice(bytes)),
            ValueEncoding::F16 => write_f16(values, out),
            ValueEncoding::I8Row => write_i8(values, cols, out),
            ValueEncoding::I8Table => write_i8(values, values.len().max(1), out),
        }
    }

    /// Appends to `into` what [`write`](Self::write) wrote for `rows` rows.
    pub(crate) fn read(self, rows: usize, cols: usize, from: &mut Reader<'_>, into: &mut Vec<f32>) -> Result<()> {
        let at = from.at();
        let bytes = from.bytes("values", self.block_bytes(rows as u64, cols as u64))?;
        let start = into.len();
        match self {
            ValueEncoding::F32 => into.extend(bytes.as_chunks().0.iter().map(|four| f32::from_le_bytes(*four))),
            ValueEncoding::F16 => read_f16(bytes, into),
            ValueEncoding::I8Row => read_i8(bytes, rows, cols, at, into)?,
            ValueEncoding::I8Table => read_i8(bytes, rows.min(1), (rows * cols).max(1), at, into)?,
        }
        if all_finite(&into[start..]) { Ok(()) } else { Err(DecodeError::Value("values", at)) }
    }

    /// Changes rows of `cols` values into what the other side will hold. Rounding again changes nothing.
    pub fn round(self, values: &mut [f32], cols: usize) {
        match self {
            ValueEncoding::F32 => (),
            ValueEncoding::F16 => round_f16(values),
            ValueEncoding::I8Row => values.chunks_exact_mut(cols).for_each(round_i8),
            ValueEncoding::I8Table => round_i8(values),
        }
    }
}

/// The largest magnitude as bits; a value that is not finite counts as larger than all that are.
fn largest_bits(values: &[f32]) -> u32 {
    values.iter().fold(0, |largest, value| largest.max(value.to_bits() & !SIGN))
}

/// Hands out values as little-endian bytes, without a copy where the machine stores them so.
pub(crate) fn as_le_bytes(values: &[f32], mut take: impl FnMut(&[u8])) {
    if cfg!(target_endian = "little") {
        take(bytemuck::cast_slice(values));
    } else {
        values.iter().for_each(|value| take(&value.to_le_bytes()));
    }
}

/// Values are converted in pieces of this many, on the stack.
const PIECE: usize = 256;

fn write_f16(values: &[f32], out: &mut Vec<u8>) {
    let mut piece = [f16::ZERO; PIECE];
    for values in values.chunks(PIECE) {
        let halves = &mut piece[..values.len()];
        halves.convert_from_f32_slice(values);
        if cfg!(target_endian = "little") {
            out.extend_from_slice(bytemuck::cast_slice(halves.reinterpret_cast()));
        } else {
            halves.iter().for_each(|half| out.extend_from_slice(&half.to_le_bytes()));
        }
    }
}

fn round_f16(values: &mut [f32]) {
    let mut piece = [f16::ZERO; PIECE];
    for values in values.chunks_mut(PIECE) {
        let halves = &mut piece[..values.len()];
        halves.convert_from_f32_slice(values);
        halves.convert_to_f32_slice(values);
    }
}

fn read_f16(bytes: &[u8], into: &mut Vec<f32>) {
    let mut piece = [f16::ZERO; PIECE];
    let mut single = [0.0; PIECE];
    for bytes in bytes.chunks(2 * PIECE) {
        let (twos, _) = bytes.as_chunks::<2>();
        for (half, two) in piece.iter_mut().zip(twos) {
            *half = f16::from_le_bytes(*two);
        }
        piece[..twos.len()].convert_to_f32_slice(&mut single[..twos.len()]);
        into.extend_from_slice(&single[..twos.len()]);
    }
}

/// The scale of a block whose largest magnitude is `largest`: largest / 127, rounded up to 17 significant bits.
///
/// With 17 bits the product with any of -127..127 is exact in f32, and the largest value always becomes 127. So
/// writing, reading and writing again gives the same bytes.
fn scale_for(largest: f32) -> f32 {
    let scale = f32::from_bits(((largest / 127.0).to_bits() + 0x7F) & !0x7F);
    if scale < SMALLEST_SCALE { 0.0 } else { scale }
}

fn scale_of(block: &[f32]) -> f32 {
    scale_for(f32::from_bits(largest_bits(block)))
}

/// 1.5 * 2^23: a small number added to it is rounded to an integer, ties to even, which ends up in the lowest bits.
const ROUNDER: f32 = 12_582_912.0;

/// The value in scales. The scale was made for a block with no larger value, so the result is from -127 to 127.
#[inline]
fn quantised(value: f32, scale: f32) -> i8 {
    (value / scale + ROUNDER).to_bits() as i8
}

/// First the scales of all blocks (bits 30 to 7 of the f32, little-endian), then all values.
fn write_i8(values: &[f32], block: usize, out: &mut Vec<u8>) {
    for block in values.chunks_exact(block) {
        out.extend_from_slice(&(scale_of(block).to_bits() >> 7).to_le_bytes()[..3]);
    }
    for block in values.chunks_exact(block) {
        let scale = scale_of(block);
        if scale == 0.0 {
            out.resize(out.len() + block.len(), 0);
        } else {
            out.extend(block.iter().map(|&value| quantised(value, scale) as u8));
        }
    }
}

fn round_i8(block: &mut [f32]) {
    let scale = scale_of(block);
    if scale == 0.0 {
        block.fill(0.0);
    } else {
        block.iter_mut().for_each(|value| *value = f32::from(quantised(*value, scale)) * scale);
    }
}

fn read_i8(bytes: &[u8], blocks: usize, block: usize, at: usize, into: &mut Vec<f32>) -> Result<()> {
    let (scales, values) = bytes.split_at(3 * blocks);
    if values.contains(&0x80) {
        return Err(DecodeError::Value("values", at));
    }
    for (scale, block) in scales.as_chunks::<3>().0.iter().zip(values.chunks_exact(block)) {
        let scale = f32::from_bits(u32::from_le_bytes([scale[0], scale[1], scale[2], 0]) << 7);
        // A scale within range keeps every product finite; NaN fails the comparison.
        if !((127.0 * scale).is_finite() && (scale == 0.0 || scale >= SMALLEST_SCALE)) {
            return Err(DecodeError::Value("scale", at));
        }
        into.extend(block.iter().map(|&value| f32::from(value as i8) * scale));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn there_and_back(encoding: ValueEncoding, values: &[f32], cols: usize) -> (Vec<u8>, Vec<f32>) {
        let mut bytes = Vec::new();
        encoding.write(values, cols, &mut bytes);
        let rows = values.len() / cols;
        assert_eq!(bytes.len() as u64, encoding.block_bytes(rows as u64, cols as u64));
        let mut read = Vec::new();
        encoding.read(rows, cols, &mut Reader::new(&bytes), &mut read).unwrap();
        (bytes, read)
    }

    fn bound(encoding: ValueEncoding, value: f32, row: &[f32], all: &[f32]) -> f64 {
        let most = |values: &[f32]| f64::from(f32::from_bits(largest_bits(values)));
        let tiny = 128.0 * f64::from(f32::MIN_POSITIVE);
        match encoding {
            ValueEncoding::F32 => 0.0,
            ValueEncoding::F16 => (f64::from(value).abs() / 2048.0).max(1.0 / f64::from(1 << 25)),
            ValueEncoding::I8Row => (most(row) / 253.0).max(tiny),
            ValueEncoding::I8Table => (most(all) / 253.0).max(tiny),
        }
    }

    proptest! {
        #[test]
        fn errors_stay_within_documented_bounds_and_rounding_is_idempotent(
            values in prop::collection::vec(prop_oneof![-65000f32..65000.0, -1e-3f32..1e-3, -1e-39f32..1e-39], 1..12),
            cols in 1usize..5,
        ) {
            let values: Vec<f32> = values.iter().copied().cycle().take(values.len() * cols).collect();
            for encoding in ValueEncoding::ALL {
                prop_assert!(encoding.carries(&values));
                let (bytes, read) = there_and_back(encoding, &values, cols);
                for (index, (&value, &back)) in values.iter().zip(&read).enumerate() {
                    let row = &values[index / cols * cols..][..cols];
                    let error = (f64::from(value) - f64::from(back)).abs();
                    prop_assert!(error <= bound(encoding, value, row, &values), "{encoding}: {value} -> {back}");
                }
                let mut rounded = values.clone();
                encoding.round(&mut rounded, cols);
                let same = rounded.iter().zip(&read).all(|(a, b)| a.to_bits() == b.to_bits());
                prop_assert!(same, "{encoding}: {rounded:?} {read:?}");
                prop_assert_eq!(there_and_back(encoding, &read, cols).0, bytes, "{}", encoding);
            }
        }

        #[test]
        fn encodable_rows_stay_finite(bits in prop::collection::vec(any::<u32>(), 6)) {
            let values: Vec<f32> = bits.iter().map(|&bits| f32::from_bits(bits)).collect();
            for encoding in ValueEncoding::ALL {
                if encoding.carries(&values) {
                    let (_, read) = there_and_back(encoding, &values, 3);
                    prop_assert!(all_finite(&read));
                } else {
                    prop_assert!(encoding != ValueEncoding::F32 || !all_finite(&values));
                }
            }
        }
    }

    #[test]
    fn rounds_ties_to_even() {
        // The largest value is 127 scales, so the scale is 1.
        let (bytes, read) = there_and_back(ValueEncoding::I8Row, &[127.0, 0.5, 1.5, -2.5], 4);
        assert_eq!(read, [127.0, 0.0, 2.0, -2.0]);
        assert_eq!(bytes, [0x00, 0x00, 0x7f, 127, 0, 2, 0xfe]);
        let (_, read) = there_and_back(ValueEncoding::F16, &[2049.0, 2051.0], 1);
        assert_eq!(read, [2048.0, 2052.0]);
    }

    #[test]
    fn carries_detects_values_out_of_range() {
        assert!(!ValueEncoding::F32.carries(&[0.0, f32::NEG_INFINITY]));
        assert!(!ValueEncoding::I8Row.carries(&[f32::NAN]));
        assert!(!ValueEncoding::F16.carries(&[-65520.0]) && ValueEncoding::F16.carries(&[-65519.0]));
        assert!(!ValueEncoding::I8Table.carries(&[f32::MAX]) && ValueEncoding::F32.carries(&[f32::MAX]));
    }

    #[test]
    fn rejects_values_no_encoder_writes() {
        let read = |encoding: ValueEncoding, bytes: &[u8]| {
            encoding.read(1, 1, &mut Reader::new(bytes), &mut Vec::new()).unwrap_err().to_string()
        };
        let finite = "not a finite number within the encoding's range";
        assert_eq!(read(ValueEncoding::F32, &f32::NAN.to_le_bytes()), format!("values at byte 0: {finite}"));
        assert_eq!(read(ValueEncoding::F16, &[0x00, 0x7c]), format!("values at byte 0: {finite}"));
        assert_eq!(read(ValueEncoding::I8Row, &[0, 0, 0x7f, 0x80]), format!("values at byte 0: {finite}"));
        assert_eq!(read(ValueEncoding::I8Row, &[0, 0, 0xff, 1]), format!("scale at byte 0: {finite}"));
        assert_eq!(read(ValueEncoding::I8Row, &[1, 0, 0, 1]), format!("scale at byte 0: {finite}"));
    }
}
