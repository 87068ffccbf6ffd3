//! Bar charts: bars by category, grouped by series; values may be negative.

use super::Canvas;
use super::axis::{Padding, PixelScale};
use super::frame::{self, Swatch};
use super::labels::{Area, fit, text_width};
use super::series::{Bars, Orientation};
use super::svg::Svg;

/// Thickness of a single horizontal bar, and of one in a group.
const LONE: f64 = 18.0;
const GROUPED: f64 = 10.0;
/// Maximum share of the width for the names of categories beside horizontal bars.
const NAME_SHARE: f64 = 0.34;

struct Chart<'a> {
    canvas: &'a Canvas<'a>,
    categories: &'a [String],
    series: &'a [Bars],
    scale: PixelScale,
    area: Area,
    /// Whether the bars are horizontal.
    horizontal: bool,
}

pub(super) fn draw(
    canvas: &Canvas<'_>,
    categories: &[String],
    series: &[Bars],
    orientation: Orientation,
) -> (f64, String) {
    let mut values: Vec<f64> = series.iter().flat_map(|s| s.values.iter().copied().take(categories.len())).collect();
    values.extend(series.iter().flat_map(|s| &s.bounds).flat_map(|b| [b.0, b.1]));
    values.extend(canvas.plot.references.iter().map(|r| r.value));
    let axis = canvas.plot.y.clone().from_zero();
    let horizontal = is_horizontal(canvas, categories, orientation);
    let most = if horizontal { (canvas.width / 75.0) as usize } else { 5 };
    let Some(scale) =
        PixelScale::new(&axis, &values, Padding::ToTick, most).filter(|_| values.iter().any(|v| axis.holds(*v)))
    else {
        return canvas.empty();
    };
    let mut svg = Svg::default();
    let legend = frame::legend(canvas, series.len() != 1);
    let title = if horizontal { "" } else { canvas.plot.y.title.as_str() };
    let top = frame::draw_header(&mut svg, canvas, &legend, Swatch::Block, title);
    let area = area(canvas, categories, series, &scale, horizontal, top);
    let scale = if horizontal { scale.along(area.left, area.right) } else { scale.along(area.bottom, area.top) };
    let chart = Chart { canvas, categories, series, scale, area, horizontal };
    let hidden = chart.series.iter().map(|s| chart.gaps(s)).sum();
    let height = chart.draw(&mut svg, hidden);
    (height, svg.finish())
}

/// Whether the bars are horizontal: as asked, or because the names would not fit under vertical ones.
fn is_horizontal(canvas: &Canvas<'_>, categories: &[String], orientation: Orientation) -> bool {
    match orientation {
        Orientation::Horizontal => true,
        Orientation::Vertical => false,
        Orientation::Auto => {
            let room = (canvas.width - 50.0) / categories.len().max(1) as f64;
            categories.iter().any(|name| text_width(name) > room - 8.0)
        }
    }
}

fn area(
    canvas: &Canvas<'_>,
    categories: &[String],
    series: &[Bars],
    scale: &PixelScale,
    horizontal: bool,
    top: f64,
) -> Area {
    if !horizontal {
        let left = frame::margin_left(&scale.ticks);
        return Area { left, right: canvas.width - 4.0, top, bottom: top + canvas.area_height() };
    }
    let names = categories.iter().map(|name| text_width(name)).fold(0.0, f64::max);
    let left = names.min(canvas.width * NAME_SHARE) + 14.0;
    let band = if series.len() <= 1 { LONE + 12.0 } else { GROUPED * series.len() as f64 + 14.0 };
    Area { left, right: canvas.width - 24.0, top, bottom: top + band * categories.len() as f64 + 6.0 }
}

impl Chart<'_> {
    fn draw(&self, svg: &mut Svg, hidden: usize) -> f64 {
        if self.horizontal {
            frame::draw_x_axis(svg, &self.area, &self.scale, true);
        } else {
            frame::draw_y_axis(svg, &self.area, &self.scale);
            frame::draw_references(svg, self.canvas, &self.area, &self.scale);
        }
        for at in 0..self.categories.len() {
            self.name(svg, at);
            for number in 0..self.series.len() {
                self.bar(svg, at, number);
            }
        }
        let title = if self.horizontal { &self.canvas.plot.y.title } else { &self.canvas.plot.x.title };
        frame::draw_footer(svg, self.canvas, &self.area, title, hidden)
    }

    /// Where a category begins and how wide it is, across the bars.
    fn band(&self, at: usize) -> (f64, f64) {
        let (from, to) = match self.horizontal {
            true => (self.area.top + 3.0, self.area.bottom - 3.0),
            false => (self.area.left, self.area.right),
        };
        let width = (to - from) / self.categories.len() as f64;
        (from + width * at as f64, width)
    }

    fn name(&self, svg: &mut Svg, at: usize) {
        let (from, width) = self.band(at);
        let middle = from + width / 2.0;
        match self.horizontal {
            true => {
                let name = fit(&self.categories[at], self.area.left - 10.0);
                svg.text("pl-label", self.area.left - 10.0, middle + 4.0, "end", &name);
            }
            false => {
                let name = fit(&self.categories[at], width - 4.0);
                svg.text("pl-label", middle, self.area.bottom + 18.0, "middle", &name);
            }
        }
    }

    /// Draws one bar, its bounds and, if it is the only series, its value.
    fn bar(&self, svg: &mut Svg, at: usize, number: usize) {
        let series = &self.series[number];
        let Some(&value) = series.values.get(at).filter(|v| v.is_finite()) else { return };
        let (from, width) = self.band(at);
        let most = if self.series.len() == 1 { 44.0 } else { 28.0 };
        let thickness = (width * 0.72 / self.series.len() as f64).min(most);
        let start = from + (width - thickness * self.series.len() as f64) / 2.0 + thickness * number as f64;
        let (zero, end) = (self.scale.at(self.scale.clamp(0.0)), self.scale.at(self.scale.clamp(value)));
        let (low, high) = (zero.min(end), zero.max(end));
        let inner = (thickness - 1.5).max(1.0);
        let middle = start + inner / 2.0;
        let appearance = self.appearance(series);
        let place = if self.horizontal { (end, middle) } else { (middle, end) };
        svg.open_mark("", place, &self.tooltip(at, series, value));
        match self.horizontal {
            true => svg.rect(&appearance, (low, start), ((high - low).max(0.75), inner)),
            false => svg.rect(&appearance, (start, low), (inner, (high - low).max(0.75))),
        }
        self.whisker(svg, series, at, middle);
        svg.close("g");
        if self.series.len() == 1 && series.bounds.is_empty() {
            self.value(svg, value, end, middle);
        }
    }

    fn appearance(&self, series: &Bars) -> String {
        match self.series.len() {
            1 => "pl-fill pl-accent".into(),
            _ => format!("pl-fill {}", self.canvas.colours.appearance_of(&series.name, series.style).class()),
        }
    }

    /// Writes the value past the end of its bar, or inside the bar near the edge of the picture.
    fn value(&self, svg: &mut Svg, value: f64, end: f64, middle: f64) {
        let values = || self.series.iter().flat_map(|s| &s.values).filter(|v| v.is_finite());
        let largest = values().fold(0.0, |a: f64, v| a.max(v.abs()));
        let text = self.canvas.plot.y.format_aligned(value, largest, values().all(|v| *v == v.round()));
        if !self.horizontal {
            let y = if value < 0.0 { end + 15.0 } else { end - 6.0 };
            return svg.text("pl-value pl-halo", middle, y, "middle", &text);
        }
        let room = text_width(&text) + 10.0;
        let (x, anchor, class) = match value < 0.0 {
            true if end - room > self.area.left => (end - 6.0, "end", "pl-value"),
            true => (end + 6.0, "start", "pl-value pl-within"),
            false if end + room < self.canvas.width => (end + 6.0, "start", "pl-value"),
            false => (end - 6.0, "end", "pl-value pl-within"),
        };
        svg.text(class, x, middle + 4.0, anchor, &text);
    }

    fn whisker(&self, svg: &mut Svg, series: &Bars, at: usize, middle: f64) {
        let Some(&(low, high)) = series.bounds.get(at).filter(|b| b.0.is_finite() && b.1.is_finite()) else {
            return;
        };
        let (a, b) = (self.scale.at(self.scale.clamp(low)), self.scale.at(self.scale.clamp(high)));
        match self.horizontal {
            true => svg.line("pl-bound", (a, middle), (b, middle)),
            false => svg.line("pl-bound", (middle, a), (middle, b)),
        }
    }

    fn tooltip(&self, at: usize, series: &Bars, value: f64) -> String {
        let axis = &self.canvas.plot.y;
        let bounds =
            series.bounds.get(at).map(|b| format!(" ({} to {})", axis.format_value(b.0), axis.format_value(b.1)));
        let name = if series.name.is_empty() { String::new() } else { format!("{}: ", series.name) };
        format!("{}\n{name}{}{}", self.categories[at], axis.format_value(value), bounds.unwrap_or_default())
    }

    fn gaps(&self, series: &Bars) -> usize {
        let given = series.values.iter().take(self.categories.len()).filter(|v| v.is_finite()).count();
        self.categories.len() - given
    }
}
