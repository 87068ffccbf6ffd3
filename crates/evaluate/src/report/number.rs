//! How numbers are shown: digits, thousands, percentages, SI prefixes, durations.

use serde::Serialize;

/// The typographic minus of pages and plots; terminals and CSV keep the ASCII hyphen.
pub(super) const MINUS: char = '\u{2212}';

/// How the values of a column are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// A fixed number of decimals.
    Digits(u8),
    /// A share shown times 100, with this many decimals and a percent sign.
    Percent(u8),
    /// A whole number with thousands separated by commas.
    Integer,
    /// Three significant digits with an SI prefix: 12.3k, 4.56M.
    Si,
    /// Bytes in powers of 1000: 1.50 MB.
    Bytes,
    /// Seconds, shown in the unit that suits: 12 ms, 3.4 s, 2 min 5 s.
    Seconds,
    /// Words; cells hold text and take no part in the search for the best value.
    Text,
}

impl Format {
    /// The value as text, with an ASCII minus.
    pub fn show(self, value: f64) -> String {
        if !value.is_finite() {
            return "–".into();
        }
        match self {
            Format::Digits(digits) => fixed(value, digits.into()),
            Format::Percent(digits) => fixed(value * 100.0, digits.into()) + "%",
            Format::Integer => fixed(value, 0),
            Format::Si => si(value, ""),
            Format::Bytes => bytes(value),
            Format::Seconds => seconds(value),
            Format::Text => format!("{value}"),
        }
    }

    /// The value as text, with a typographic minus.
    pub(super) fn show_fine(self, value: f64) -> String {
        typographic(&self.show(value))
    }
}

/// Replaces the ASCII minus of a formatted number.
pub(super) fn typographic(number: &str) -> String {
    number.replace('-', MINUS.encode_utf8(&mut [0; 4]))
}

/// Fixed decimals with thousands separated; never "-0.00".
pub(super) fn fixed(value: f64, digits: usize) -> String {
    let plain = format!("{:.digits$}", value.abs());
    let negative = value < 0.0 && plain.bytes().any(|b| (b'1'..=b'9').contains(&b));
    let (whole, rest) = plain.split_at(plain.find('.').unwrap_or(plain.len()));
    format!("{}{}{}", if negative { "-" } else { "" }, thousands(whole), rest)
}

fn thousands(digits: &str) -> String {
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Three significant digits and an SI prefix, followed by `unit`.
pub(super) fn si(value: f64, unit: &str) -> String {
    const PREFIXES: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
    let mut scaled = value;
    let mut prefix = 0;
    // 999.5 would print as 1000, so it already belongs to the next prefix.
    while scaled.abs() >= 999.5 && prefix + 1 < PREFIXES.len() {
        scaled /= 1000.0;
        prefix += 1;
    }
    format!("{}{}{}", significant(scaled), PREFIXES[prefix], unit)
}

/// About three significant digits, without trailing zeros after the point.
pub(super) fn significant(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 {
        return "0".into();
    }
    if size < 1e-4 {
        return format!("{value:.1e}");
    }
    let digits = (2 - size.log10().floor() as i32).clamp(0, 7);
    trim(&fixed(value, digits as usize))
}

fn trim(number: &str) -> String {
    match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.').into(),
        false => number.into(),
    }
}

/// Bytes with a decimal unit: 512 B, 1.5 kB, 20.4 MB.
pub(super) fn bytes(value: f64) -> String {
    if value.abs() < 999.5 {
        return format!("{} B", fixed(value, 0));
    }
    let text = si(value, "");
    let (number, prefix) = text.split_at(text.len() - 1);
    format!("{number} {prefix}B")
}

/// A duration in the unit that suits.
pub(super) fn seconds(value: f64) -> String {
    if value.abs() < 1.0 {
        format!("{} ms", significant(value * 1000.0))
    } else if value.abs() < 99.95 {
        format!("{value:.1} s")
    } else if value.abs() < 3600.0 {
        let whole = value.round() as i64;
        format!("{} min {} s", whole / 60, (whole % 60).abs())
    } else {
        let minutes = (value / 60.0).round() as i64;
        format!("{} h {} min", minutes / 60, (minutes % 60).abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separates_thousands_and_drops_the_sign_of_zero() {
        assert_eq!(Format::Integer.show(1_000_209.0), "1,000,209");
        assert_eq!(Format::Integer.show(-999.0), "-999");
        assert_eq!(Format::Digits(2).show(-0.004), "0.00");
        assert_eq!(Format::Digits(4).show(-1234.5), "-1,234.5000");
        assert_eq!(Format::Digits(1).show_fine(-2.0), "\u{2212}2.0");
        assert_eq!(Format::Percent(1).show(0.1234), "12.3%");
        assert_eq!(Format::Digits(3).show(f64::NAN), "–");
    }

    #[test]
    fn si_prefixes_carry_over_when_rounding() {
        assert_eq!(si(999.4, ""), "999");
        assert_eq!(si(999.6, ""), "1k");
        assert_eq!(si(12_345.0, "/s"), "12.3k/s");
        assert_eq!(si(-2_500_000.0, ""), "-2.5M");
        assert_eq!(bytes(512.0), "512 B");
        assert_eq!(bytes(20_400_000.0), "20.4 MB");
        assert_eq!(significant(0.0), "0");
        assert_eq!(significant(0.025), "0.025");
    }

    #[test]
    fn durations_use_a_suitable_unit() {
        assert_eq!(seconds(0.0123), "12.3 ms");
        assert_eq!(seconds(3.44), "3.4 s");
        assert_eq!(seconds(125.0), "2 min 5 s");
        assert_eq!(seconds(3720.0), "1 h 2 min");
    }
}
