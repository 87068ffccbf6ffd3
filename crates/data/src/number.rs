//! Ratings and times parsed from text.

use crate::builder::RowError;
use crate::text::trim;

/// A finite rating. Short decimals take a fast path that rounds as the slow one does: both the digits and the power of
/// ten are exact in `f32`, so the one division rounds correctly.
#[inline]
pub(crate) fn rating(field: &[u8]) -> Option<f32> {
    short_decimal(field).or_else(|| any_decimal(field))
}

#[inline]
fn short_decimal(field: &[u8]) -> Option<f32> {
    const POWERS: [f32; 8] = [1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6, 1e7];
    if field.is_empty() || field.len() > 7 {
        return None;
    }
    let (mut value, mut point) = (0u32, None);
    for (place, &byte) in field.iter().enumerate() {
        match byte {
            b'0'..=b'9' => value = value * 10 + u32::from(byte - b'0'),
            b'.' if point.is_none() && field.len() > 1 => point = Some(place),
            _ => return None,
        }
    }
    let decimals = point.map_or(0, |place| field.len() - 1 - place);
    Some(value as f32 / POWERS[decimals])
}

#[cold]
fn any_decimal(field: &[u8]) -> Option<f32> {
    let value: f32 = std::str::from_utf8(trim(field)).ok()?.parse().ok()?;
    // Adding 0 turns -0 into 0, which is the same rating.
    value.is_finite().then_some(value + 0.0)
}

/// A point in time: a whole number, a decimal number (its whole part), or a date with or without a time of day, which
/// gives seconds since 1970.
#[inline]
pub(crate) fn time(field: &[u8]) -> Option<i64> {
    digits(field).or_else(|| slow_time(trim(field)))
}

#[inline]
fn digits(field: &[u8]) -> Option<i64> {
    if field.is_empty() || field.len() > 18 {
        return None;
    }
    let mut value = 0i64;
    for &byte in field {
        if !byte.is_ascii_digit() {
            return None;
        }
        value = value * 10 + i64::from(byte - b'0');
    }
    Some(value)
}

#[cold]
fn slow_time(field: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(field).ok()?;
    if let Ok(value) = text.parse::<i64>() {
        return Some(value);
    }
    if let Ok(value) = text.parse::<f64>() {
        return whole(value);
    }
    crate::date::parse(text)
}

/// The whole part of a number of seconds; `None` if it is not finite or passes 64 bits.
pub(crate) fn whole(value: f64) -> Option<i64> {
    (value.is_finite() && value.abs() < 9.2e18).then(|| value.floor() as i64)
}

/// A rating, or the error that names the field.
#[inline]
pub(crate) fn expect_rating(field: &'static str, text: &[u8]) -> Result<f32, RowError> {
    rating(text).ok_or_else(|| RowError::bad(field, "a finite number", text))
}

/// A time, or the error that names the field.
#[inline]
pub(crate) fn expect_time(field: &'static str, text: &[u8]) -> Result<i64, RowError> {
    time(text).ok_or_else(|| RowError::bad(field, "a number or a date", text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rejects_ratings_that_are_not_finite_numbers() {
        assert_eq!(rating(b"4.5"), Some(4.5));
        assert_eq!(rating(b"-3"), Some(-3.0));
        assert_eq!(rating(b" 3 "), Some(3.0));
        assert_eq!(rating(b"1e2"), Some(100.0));
        for wrong in ["", ".", "nan", "inf", "-infinity", "1e60", "4,5", "five", "1..2"] {
            assert_eq!(rating(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn parses_times_as_numbers_or_dates() {
        assert_eq!(time(b"978300760"), Some(978_300_760));
        assert_eq!(time(b"-1"), Some(-1));
        assert_eq!(time(b"978300760.9"), Some(978_300_760));
        assert_eq!(time(b"1.5e9"), Some(1_500_000_000));
        assert_eq!(time(b"2012-04-03 18:00:09"), Some(1_333_476_009));
        assert_eq!(time(b"9999999999999999999999"), None);
        assert_eq!(time(b""), None);
    }

    proptest! {
        #[test]
        fn fast_and_slow_paths_round_alike(whole in 0u32..9999, part in 0u32..99) {
            let text = format!("{whole}.{part:02}");
            prop_assert_eq!(rating(text.as_bytes()), any_decimal(text.as_bytes()));
        }
    }
}
