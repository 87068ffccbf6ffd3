//! The space a search looks through: a box of numeric ranges and short lists.

use serde::Serialize;
use sottovoce_core::{Rng, math};
use sottovoce_models::settings::{Domain, Setting, Value};

/// One setting of a search and the values it may take.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Dimension {
    /// The setting.
    pub key: String,
    /// Its values.
    pub range: Range,
}

/// The values a search tries for one setting.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Range {
    /// Whole numbers.
    Integer(Bounds<i64>),
    /// Numbers.
    Real(Bounds<f64>),
    /// These values, without an order.
    Choice(Vec<Value>),
}

/// The ends of a range, both included.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bounds<T> {
    /// Smallest.
    pub low: T,
    /// Largest.
    pub high: T,
    /// Whether equal ratios, not equal differences, are equally far.
    pub log: bool,
}

impl Range {
    /// All that a setting takes.
    pub fn of(setting: &Setting) -> Range {
        match setting.domain {
            // A logarithmic scale cannot reach 0: the search then starts at 1, or a millionth of the range.
            Domain::Integer { low, high, log } => {
                Range::Integer(Bounds { low: if log { low.max(1) } else { low }, high, log })
            }
            Domain::Real { low, high, log } => {
                Range::Real(Bounds { low: if log && low <= 0.0 { high * 1e-6 } else { low }, high, log })
            }
            Domain::Choice(words) => Range::Choice(words.iter().map(|word| Value::Word((*word).to_owned())).collect()),
            Domain::Switch => Range::Choice(vec![Value::Switch(false), Value::Switch(true)]),
            // Texts cannot be thought up: a search keeps the one that is there.
            Domain::Text => Range::Choice(vec![setting.default.clone()]),
        }
    }

    /// How many values there are, if they can be counted.
    fn size(&self) -> Option<u128> {
        match self {
            Range::Integer(Bounds { low, high, .. }) => Some((i128::from(*high) - i128::from(*low) + 1) as u128),
            Range::Real(Bounds { low, high, .. }) => (low == high).then_some(1),
            Range::Choice(values) => Some(values.len() as u128),
        }
    }

    /// The ends on the scale on which distances are measured; whole numbers own half a step to each side.
    fn ends(&self) -> (f64, f64) {
        let scale = |x: f64, log: bool| if log { math::ln(x) } else { x };
        match *self {
            Range::Integer(Bounds { low, high, log }) => (scale(low as f64 - 0.5, log), scale(high as f64 + 0.5, log)),
            Range::Real(Bounds { low, high, log }) => (scale(low, log), scale(high, log)),
            Range::Choice(_) => (0.0, 1.0),
        }
    }

    /// The value at a position between 0 and 1, or at an index for choices.
    pub(super) fn value(&self, position: Position) -> Value {
        let (start, end) = self.ends();
        let at = |unit: f64, log: bool| {
            let x = start + unit * (end - start);
            if log { math::exp(x) } else { x }
        };
        match (self, position) {
            (Range::Integer(Bounds { low, high, log }), Position::Unit(unit)) => {
                Value::Integer((at(unit, *log).round() as i64).clamp(*low, *high))
            }
            (Range::Real(Bounds { low, high, log }), Position::Unit(unit)) => {
                Value::Real(four_digits(at(unit, *log)).clamp(*low, *high))
            }
            (Range::Choice(values), Position::Index(index)) => values[index].clone(),
            (range, position) => unreachable!("{position:?} is no position in {range:?}"),
        }
    }

    /// Where a value lies; `None` if it is not of this range.
    pub(super) fn position(&self, value: &Value) -> Option<Position> {
        let (start, end) = self.ends();
        let unit = |x: f64, log: bool| {
            let x = if log { math::ln(x) } else { x };
            Position::Unit(if end > start { ((x - start) / (end - start)).clamp(0.0, 1.0) } else { 0.5 })
        };
        match (self, value) {
            (Range::Integer(Bounds { log, .. }), Value::Integer(x)) => Some(unit(*x as f64, *log)),
            (Range::Real(Bounds { log, .. }), Value::Real(x)) => Some(unit(*x, *log)),
            (Range::Choice(values), value) => values.iter().position(|v| v == value).map(Position::Index),
            _ => None,
        }
    }

    /// The stretch of positions that give the same value as this one, for whole numbers.
    pub(super) fn cell(&self, value: &Value) -> Option<(f64, f64)> {
        let (Range::Integer(Bounds { log, .. }), Value::Integer(x)) = (self, value) else { return None };
        let (start, end) = self.ends();
        let unit = |x: f64| ((if *log { math::ln(x) } else { x }) - start) / (end - start);
        Some((unit(*x as f64 - 0.5).max(0.0), unit(*x as f64 + 0.5).min(1.0)))
    }

    pub(super) fn random(&self, rng: &mut Rng) -> Position {
        match self {
            Range::Choice(values) => Position::Index(rng.index(values.len())),
            _ => Position::Unit(rng.unit()),
        }
    }
}

/// Where a value lies in its range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Position {
    /// Between the ends, 0 to 1.
    Unit(f64),
    /// In a list.
    Index(usize),
}

/// A value for each dimension.
pub type Point = Vec<Value>;

/// What is searched.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Space {
    /// In the order of the file.
    pub dimensions: Vec<Dimension>,
}

impl Space {
    /// The number of points, if it is finite.
    pub fn size(&self) -> Option<u128> {
        self.dimensions
            .iter()
            .try_fold(1u128, |product, dimension| Some(product.saturating_mul(dimension.range.size()?)))
    }

    /// A point drawn evenly.
    pub fn random(&self, rng: &mut Rng) -> Point {
        self.dimensions.iter().map(|d| d.range.value(d.range.random(rng))).collect()
    }

    pub(super) fn positions(&self, point: &[Value]) -> Option<Vec<Position>> {
        self.dimensions.iter().zip(point).map(|(d, value)| d.range.position(value)).collect()
    }
}

/// Four significant digits: what a search found should be fit to be typed into a file.
fn four_digits(x: f64) -> f64 {
    format!("{x:.3e}").parse().unwrap_or(x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    #[test]
    fn every_whole_number_is_about_equally_likely_also_at_the_ends() {
        let range = Range::Integer(Bounds { low: 2, high: 6, log: false });
        let mut counts = [0; 7];
        let mut rng = Rng::new(4);
        for _ in 0..5000 {
            let Value::Integer(n) = range.value(range.random(&mut rng)) else { panic!("not whole") };
            counts[n as usize] += 1;
        }
        assert!(counts[2..].iter().all(|count| (900..1100).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_logarithmic_range_gives_each_decade_its_share() {
        let range = Range::Real(Bounds { low: 1e-4, high: 1.0, log: true });
        let mut rng = Rng::new(5);
        let small =
            (0..4000).filter(|_| matches!(range.value(range.random(&mut rng)), Value::Real(x) if x < 1e-2)).count();
        assert!((1850..2150).contains(&small), "{small}");
    }

    #[test]
    fn the_size_is_a_product_and_infinite_with_a_real() {
        let whole = Dimension { key: "a".into(), range: Range::Integer(Bounds { low: 1, high: 10, log: true }) };
        let word = Dimension { key: "b".into(), range: Range::Choice(vec![Value::Integer(1); 3]) };
        let real = Dimension { key: "c".into(), range: Range::Real(Bounds { low: 0.0, high: 1.0, log: false }) };
        assert_eq!(Space { dimensions: vec![whole.clone(), word] }.size(), Some(30));
        assert_eq!(Space { dimensions: vec![whole, real] }.size(), None);
    }

    proptest! {
        #[test]
        fn values_stay_in_range_and_return_to_their_place(unit in 0.0..1.0f64, low in 1i64..50, width in 0i64..900, log: bool) {
            let high = low + width;
            let whole = Range::Integer(Bounds { low, high, log });
            let value = whole.value(Position::Unit(unit));
            prop_assert!(matches!(value, Value::Integer(n) if (low..=high).contains(&n)));
            let position = whole.position(&value).unwrap();
            prop_assert_eq!(whole.value(position), value);

            let real = Range::Real(Bounds { low: low as f64, high: high as f64, log });
            let value = real.value(Position::Unit(unit));
            let position = real.position(&value).unwrap();
            prop_assert_eq!(real.value(position), value);
        }
    }
}
