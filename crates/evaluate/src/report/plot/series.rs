//! The data that plots are made of.

use crate::quantiles::quantile;
use crate::report::table::Direction;
use serde::Serialize;

/// How a series is told from others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Style {
    /// By a colour and marker of its name's own.
    #[default]
    Named,
    /// By its place, 0 to 1, on a ramp of colours: for series that are steps of one quantity.
    Tone(f64),
    /// Dashed, in the colour of text: what the others are held against.
    Reference,
}

impl Style {
    fn is_named(&self) -> bool {
        *self == Style::Named
    }
}

/// A named run of points.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Series {
    /// Its name; series of one name share a colour throughout a report.
    pub name: String,
    /// Its points, in the order in which a curve passes them.
    pub points: Vec<Point>,
    /// How it is told from others.
    #[serde(skip_serializing_if = "Style::is_named")]
    pub style: Style,
}

impl Series {
    /// A series from pairs of x and y.
    pub fn new(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Series {
        Series::of(name, points.into_iter().map(|(x, y)| Point::new(x, y)).collect())
    }

    /// A series from points.
    pub fn of(name: impl Into<String>, points: Vec<Point>) -> Series {
        Series { name: name.into(), points, style: Style::Named }
    }

    setters! {
        /// Sets how it is told from others.
        fn style(self, style: Style) { self.style = style }
    }
}

/// A point; a coordinate that is not a number leaves a gap.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Horizontal value.
    pub x: f64,
    /// Vertical value.
    pub y: f64,
    /// Lower and upper bound of y.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bounds: Option<(f64, f64)>,
    /// Words beside the point, where there is room.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

impl Point {
    /// A point.
    pub fn new(x: f64, y: f64) -> Point {
        Point { x, y, bounds: None, label: None }
    }

    setters! {
        /// Adds bounds of y.
        fn bounds(self, low: f64, high: f64) { self.bounds = Some((low, high)) }
        /// Adds words beside the point.
        fn label(self, label: impl Into<String>) { self.label = Some(label.into()) }
    }
}

/// Which way the axes of a scatter plot get better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ParetoAxes {
    /// The horizontal axis.
    pub x: Direction,
    /// The vertical axis.
    pub y: Direction,
}

/// A line across a plot at a level of its values.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reference {
    /// The level.
    pub value: f64,
    /// What the level is.
    pub label: String,
}

/// A series of bars.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Bars {
    /// Its name.
    pub name: String,
    /// One value a category; one that is not a number leaves a gap.
    pub values: Vec<f64>,
    /// Lower and upper bounds, one a category, or none at all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bounds: Vec<(f64, f64)>,
    /// How it is told from others.
    #[serde(skip_serializing_if = "Style::is_named")]
    pub style: Style,
}

impl Bars {
    /// A series of bars.
    pub fn new(name: impl Into<String>, values: impl IntoIterator<Item = f64>) -> Bars {
        let values = values.into_iter().collect();
        Bars { name: name.into(), values, bounds: Vec::new(), style: Style::Named }
    }

    setters! {
        /// Sets how it is told from others.
        fn style(self, style: Style) { self.style = style }
        /// Adds lower and upper bounds.
        fn bounds(self, bounds: impl IntoIterator<Item = (f64, f64)>) { self.bounds = bounds.into_iter().collect() }
    }
}

/// Which way bars run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Orientation {
    /// Upright if the categories' names fit under the bars, otherwise horizontal.
    #[default]
    Auto,
    /// Upright.
    Vertical,
    /// Lying.
    Horizontal,
}

/// A distribution in five numbers, and its mean.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Whose distribution it is.
    pub name: String,
    /// How many values there are.
    pub count: usize,
    /// 5th percentile.
    pub low: f64,
    /// 25th percentile.
    pub quarter: f64,
    /// Median.
    pub median: f64,
    /// 75th percentile.
    pub three_quarters: f64,
    /// 95th percentile.
    pub high: f64,
    /// Mean.
    pub mean: f64,
}

impl Summary {
    /// Summarises values; those that are not numbers are left out.
    pub fn of(name: impl Into<String>, values: &[f64]) -> Summary {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|x| x.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let at = |share| quantile(&sorted, share);
        Summary {
            name: name.into(),
            count: sorted.len(),
            low: at(0.05),
            quarter: at(0.25),
            median: at(0.5),
            three_quarters: at(0.75),
            high: at(0.95),
            mean: sorted.iter().sum::<f64>() / sorted.len() as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_interpolates_and_ignores_nan() {
        let summary = Summary::of("a", &[4.0, f64::NAN, 1.0, 2.0, 10.0, 3.0]);
        assert_eq!((summary.count, summary.median, summary.quarter, summary.mean), (5, 3.0, 2.0, 4.0));
        assert!((summary.high - 8.8).abs() < 1e-12);
        assert!(Summary::of("none", &[]).median.is_nan());
    }
}
