//! Axes: scales, round ticks and their labels.

use crate::report::number::{self, typographic};
use serde::Serialize;

/// An axis: its title and how values are scaled and formatted.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Axis {
    /// What the values are.
    pub title: String,
    /// Linear or logarithmic.
    pub scale: Scale,
    /// How values are formatted.
    pub unit: Unit,
    /// Whether the axis reaches down (or up) to zero; ignored on a logarithmic scale.
    pub zero: bool,
}

/// The scale of an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Linear.
    #[default]
    Linear,
    /// Logarithmic; values at or below zero are not shown but counted under the plot.
    Log,
}

/// How values are formatted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// As numbers, large ones with an SI prefix.
    #[default]
    Number,
    /// As percentages of 1.
    Percent,
    /// As bytes.
    Bytes,
}

impl Axis {
    /// A linear axis of numbers.
    pub fn new(title: impl Into<String>) -> Axis {
        Axis { title: title.into(), ..Axis::default() }
    }

    setters! {
        /// Uses a logarithmic scale.
        fn log(self) { self.scale = Scale::Log }
        /// Sets the unit.
        fn unit(self, unit: Unit) { self.unit = unit }
        /// Includes zero.
        fn from_zero(self) { self.zero = true }
    }

    /// Whether a value can be shown: finite, not too large, and above zero on a logarithmic scale.
    pub(super) fn holds(&self, value: f64) -> bool {
        value.abs() < LARGEST && (self.scale == Scale::Linear || value > 1.0 / LARGEST)
    }

    /// A value formatted like others up to `largest`: with the same number of decimals.
    pub(super) fn format_aligned(&self, value: f64, largest: f64, whole: bool) -> String {
        let four = |largest: f64| if largest > 0.0 { (3 - exponent_of(largest)).clamp(0, 4) as usize } else { 0 };
        let text = match self.unit {
            Unit::Number if whole => number::fixed(value, 0),
            Unit::Number if largest >= 1e-3 => number::fixed(value, four(largest)),
            Unit::Percent => number::fixed(value * 100.0, four(largest * 1000.0)) + "%",
            _ => return self.format_value(value),
        };
        typographic(&text)
    }

    /// A value for tooltips.
    pub(super) fn format_value(&self, value: f64) -> String {
        let text = match self.unit {
            Unit::Number if value == value.round() && value.abs() < 1e15 => number::fixed(value, 0),
            Unit::Number if value.abs() >= 1000.0 => number::fixed(value, 1),
            Unit::Number => four_digits(value),
            Unit::Percent => number::significant(value * 100.0) + "%",
            Unit::Bytes => number::bytes(value),
        };
        typographic(&text)
    }
}

fn four_digits(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        size if size < 1e-4 => format!("{value:.2e}"),
        size if size < 1e-3 => number::significant(value),
        size if size < 1.0 => number::fixed(value, 4),
        size => number::fixed(value, (3 - size.log10().floor() as i32).clamp(0, 6) as usize),
    }
}

/// Beyond this, sums and powers of ten would overflow.
const LARGEST: f64 = 1e250;

/// A tick and its label.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    pub(super) value: f64,
    pub(super) label: String,
}

/// Maps the values of an axis to pixels.
pub(super) struct PixelScale {
    low: f64,
    high: f64,
    log: bool,
    from: f64,
    to: f64,
    pub(super) ticks: Vec<Tick>,
}

/// How far an axis extends past its data.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Padding {
    /// To the next round tick.
    ToTick,
    /// By a few hundredths of its length.
    Small,
}

impl PixelScale {
    /// A scale that covers `values`, with about `most` ticks.
    pub(super) fn new(axis: &Axis, values: &[f64], padding: Padding, most: usize) -> Option<PixelScale> {
        let (low, high) = extent(axis, values)?;
        let log = axis.scale == Scale::Log;
        let most = most.max(2);
        let (low, high) = match (padding, log) {
            (Padding::Small, false) => stretch(low, high, 0.03, axis.zero),
            (_, true) => {
                let (a, b) = stretch(low.ln(), high.ln(), 0.03, false);
                (a.exp(), b.exp())
            }
            (Padding::ToTick, false) => {
                let step = nice_step(high - low, most);
                ((low / step + 1e-9).floor() * step, (high / step - 1e-9).ceil() * step)
            }
        };
        let ticks = if log { log_ticks(low, high, most, axis.unit) } else { linear_ticks(low, high, most, axis.unit) };
        Some(PixelScale { low, high, log, from: 0.0, to: 1.0, ticks })
    }

    /// Sets the pixels of both ends.
    pub(super) fn along(mut self, from: f64, to: f64) -> PixelScale {
        (self.from, self.to) = (from, to);
        self
    }

    /// The pixel of a value.
    pub(super) fn at(&self, value: f64) -> f64 {
        let share = match self.log {
            true => (value.ln() - self.low.ln()) / (self.high.ln() - self.low.ln()),
            false => (value - self.low) / (self.high - self.low),
        };
        self.from + share * (self.to - self.from)
    }

    /// Whether a value lies between the ends.
    pub(super) fn spans(&self, value: f64) -> bool {
        value >= self.low && value <= self.high
    }

    /// The value nearest to `value` that lies between the ends.
    pub(super) fn clamp(&self, value: f64) -> f64 {
        value.clamp(self.low, self.high)
    }
}

/// The ends of the data, widened where they coincide.
fn extent(axis: &Axis, values: &[f64]) -> Option<(f64, f64)> {
    let held = || values.iter().copied().filter(|&x| axis.holds(x));
    let mut low = held().fold(f64::INFINITY, f64::min);
    let mut high = held().fold(f64::NEG_INFINITY, f64::max);
    if low > high {
        return None;
    }
    if axis.zero && axis.scale == Scale::Linear {
        (low, high) = (low.min(0.0), high.max(0.0));
    }
    if apart(low, high) {
        return Some((low, high));
    }
    Some(match axis.scale {
        Scale::Log => (low / 2.0, high * 2.0),
        Scale::Linear if low.abs() < 1.0 / LARGEST => (0.0, 1.0),
        Scale::Linear => (low - low.abs() * 0.1, high + high.abs() * 0.1),
    })
}

/// Whether two ends are far enough apart for ticks between them.
fn apart(low: f64, high: f64) -> bool {
    let span = high - low;
    span > 1.0 / LARGEST && span > low.abs().max(high.abs()) * 1e-9
}

/// Widens by a share of the length; an end at zero stays if the axis is to start there.
fn stretch(low: f64, high: f64, share: f64, zero: bool) -> (f64, f64) {
    let more = (high - low) * share;
    let keep = |end: f64| zero && end == 0.0;
    (if keep(low) { low } else { low - more }, if keep(high) { high } else { high + more })
}

/// 10^exponent, exactly rounded.
fn power_of_ten(exponent: i32) -> f64 {
    format!("1e{exponent}").parse().unwrap_or(f64::NAN)
}

/// floor(log10(x)), exact at the powers of ten.
fn exponent_of(x: f64) -> i32 {
    let text = format!("{x:e}");
    text.rsplit_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0)
}

/// The smallest step of 1, 2 or 5 times a power of ten that divides `span` into at most `most` pieces.
pub(super) fn nice_step(span: f64, most: usize) -> f64 {
    let raw = span / most as f64;
    let exponent = exponent_of(raw);
    let candidates = [(1, exponent), (2, exponent), (5, exponent), (1, exponent + 1)];
    let sizes = candidates.map(|(digit, e)| f64::from(digit) * power_of_ten(e));
    sizes.into_iter().find(|&step| step >= raw * (1.0 - 1e-9)).unwrap_or(sizes[3])
}

fn linear_ticks(low: f64, high: f64, most: usize, unit: Unit) -> Vec<Tick> {
    let step = nice_step(high - low, most);
    let first = (low / step - 1e-6).ceil() as i64;
    let last = (high / step + 1e-6).floor() as i64;
    let exponent = exponent_of(step);
    let largest = low.abs().max(high.abs());
    (first..=last)
        .map(|at| {
            // Dividing by an exact power of ten keeps 3 * 0.1 at 0.3.
            let value = match exponent < 0 {
                true => (at as f64 * (step * power_of_ten(-exponent)).round()) / power_of_ten(-exponent),
                false => at as f64 * step,
            };
            Tick { value, label: linear_label(value, exponent, largest, unit) }
        })
        .collect()
}

/// A label with as many decimals as the step needs, all labels of an axis with one prefix.
fn linear_label(value: f64, step_exponent: i32, largest: f64, unit: Unit) -> String {
    if value == 0.0 {
        return if unit == Unit::Percent { "0%".into() } else { "0".into() };
    }
    let (shift, suffix) = match unit {
        Unit::Percent => (-2, "%"),
        Unit::Bytes => prefix(largest, 1e3, ["B", "kB", "MB", "GB", "TB"]),
        Unit::Number => prefix(largest, 1e4, ["", "k", "M", "G", "T"]),
    };
    let decimals = (shift - step_exponent).max(0);
    if decimals > 7 || (decimals > 4 && unit == Unit::Number && largest < 1e-3) {
        return scientific(value);
    }
    let gap = if unit == Unit::Bytes { "\u{a0}" } else { "" };
    let scaled = if shift < 0 { value * power_of_ten(-shift) } else { value / power_of_ten(shift) };
    typographic(&format!("{}{gap}{suffix}", number::fixed(scaled, decimals as usize)))
}

/// The power of ten to divide by, and its name, for an axis up to `largest`; `from` is where prefixes begin.
fn prefix(largest: f64, from: f64, names: [&'static str; 5]) -> (i32, &'static str) {
    if largest < from {
        return (0, names[0]);
    }
    let step = (exponent_of(largest) / 3).clamp(0, 4);
    (step * 3, names[step as usize])
}

fn log_ticks(low: f64, high: f64, most: usize, unit: Unit) -> Vec<Tick> {
    let (first, last) = (exponent_of(low), exponent_of(high));
    let decades = (last - first + 1) as usize;
    let stride = decades.div_ceil(most.max(1)).max(1);
    let inside = |digits: &[u8]| -> Vec<f64> {
        let values = (first..=last).step_by(stride).flat_map(|e| digits.iter().map(move |&d| (d, e)));
        values.map(|(d, e)| f64::from(d) * power_of_ten(e)).filter(|v| *v >= low && *v <= high).collect()
    };
    let choices: [&[u8]; 3] = if stride == 1 { [&[1, 2, 5], &[1, 3], &[1]] } else { [&[1], &[1], &[1]] };
    let values = choices.iter().map(|digits| inside(digits)).find(|values| values.len() <= most);
    match values.filter(|values| values.len() >= 2) {
        Some(values) => values.into_iter().map(|value| Tick { value, label: log_label(value, unit) }).collect(),
        None => linear_ticks(low, high, most, unit).into_iter().filter(|tick| tick.value > 0.0).collect(),
    }
}

fn log_label(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Number if value < 1e-3 => scientific(value),
        Unit::Number => number::si(value, ""),
        Unit::Percent => number::significant(value * 100.0) + "%",
        Unit::Bytes => number::bytes(value).replace(' ', "\u{a0}"),
    }
}

/// Digits times a power of ten: 2.5·10⁻⁵.
fn scientific(value: f64) -> String {
    let text = format!("{value:.2e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let digits = digits.trim_end_matches('0').trim_end_matches('.');
    let lead = match digits {
        "1" => String::new(),
        "-1" => "-".into(),
        other => format!("{other}·"),
    };
    typographic(&format!("{lead}10{}", superscript(exponent)))
}

fn superscript(exponent: &str) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let raise = |c: char| c.to_digit(10).map_or('⁻', |d| DIGITS[d as usize]);
    exponent.chars().map(raise).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(ticks: &[Tick]) -> Vec<&str> {
        ticks.iter().map(|tick| tick.label.as_str()).collect()
    }

    #[test]
    fn steps_are_1_2_or_5_times_a_power_of_ten() {
        assert_eq!(nice_step(1.0, 5), 0.2);
        assert_eq!(nice_step(1.0, 2), 0.5);
        assert_eq!(nice_step(0.9, 10), 0.1);
        assert_eq!(nice_step(12.0, 4), 5.0);
        assert_eq!(nice_step(3000.0, 5), 1000.0);
    }

    #[test]
    fn linear_ticks_have_exact_labels() {
        assert_eq!(
            labels(&linear_ticks(-0.3, 0.3, 6, Unit::Number)),
            ["−0.3", "−0.2", "−0.1", "0", "0.1", "0.2", "0.3"]
        );
        assert_eq!(linear_ticks(0.0, 0.4, 4, Unit::Number)[3].value, 0.3);
        assert_eq!(labels(&linear_ticks(0.0, 15_000.0, 3, Unit::Number)), ["0", "5k", "10k", "15k"]);
        assert_eq!(labels(&linear_ticks(0.0, 0.1, 4, Unit::Percent)), ["0%", "5%", "10%"]);
        assert_eq!(labels(&linear_ticks(0.0, 2e6, 2, Unit::Bytes)), ["0", "1\u{a0}MB", "2\u{a0}MB"]);
        let far = linear_ticks(1_000_000.0, 1_000_400.0, 4, Unit::Number);
        assert_eq!(labels(&far)[..2], ["1.0000M", "1.0001M"]);
    }

    #[test]
    fn log_ticks_thin_out_over_many_decades() {
        assert_eq!(labels(&log_ticks(1.0, 10_000.0, 6, Unit::Number)), ["1", "10", "100", "1k", "10k"]);
        assert_eq!(labels(&log_ticks(1.0, 10.0, 6, Unit::Number)), ["1", "2", "5", "10"]);
        assert_eq!(labels(&log_ticks(1e-6, 1.0, 4, Unit::Number)), ["10⁻⁶", "10⁻⁴", "0.01", "1"]);
        assert!(log_ticks(3.1, 3.9, 5, Unit::Number).len() >= 2);
    }

    #[test]
    fn scales_cover_their_data() {
        let axis = Axis::new("y");
        let scale = PixelScale::new(&axis, &[0.13, 0.87, f64::NAN], Padding::ToTick, 5).unwrap().along(100.0, 0.0);
        assert_eq!((scale.at(0.0), scale.at(1.0)), (100.0, 0.0));
        let exact = PixelScale::new(&axis, &[0.0, 0.3], Padding::ToTick, 3).unwrap().along(0.0, 30.0);
        assert!((exact.at(0.1) - 10.0).abs() < 1e-9 && exact.ticks.len() == 4);
        let log = PixelScale::new(&axis.clone().log(), &[0.0, 1.0, 100.0], Padding::Small, 5).unwrap().along(0.0, 10.0);
        assert!((log.at(10.0) - 5.0).abs() < 1e-12);
        assert!(PixelScale::new(&axis, &[f64::NAN], Padding::ToTick, 5).is_none());
        assert!(PixelScale::new(&axis, &[2.0], Padding::ToTick, 5).unwrap().spans(2.0));
    }

    #[test]
    fn tooltips_have_four_digits() {
        let axis = Axis::new("");
        assert_eq!(axis.format_value(0.123_456), "0.1235");
        assert_eq!(
            (axis.format_aligned(3.0, 12.5, false), axis.format_aligned(3.0, 12.0, true)),
            ("3.00".into(), "3".into())
        );
        assert_eq!(axis.clone().unit(Unit::Percent).format_aligned(-0.025, 0.2, false), "−2.5%");
        assert_eq!((scientific(-2.5e-5), scientific(1e-7)), ("−2.5·10⁻⁵".into(), "10⁻⁷".into()));
        assert_eq!(axis.format_value(-12.0), "−12");
        assert_eq!(axis.format_value(1_234_567.0), "1,234,567");
        assert_eq!(axis.unit(Unit::Percent).format_value(0.051_23), "5.12%");
    }
}
