//! Curves: learning curves, a metric against a setting, frequency by rank.

use super::Canvas;
use super::axis::{Axis, Padding, PixelScale};
use super::frame::{self, Swatch};
use super::labels::{Area, Placer, fit, stagger, text_width};
use super::series::{Point, Series, Style};
use super::svg::{Svg, polyline};
use super::theme::Appearance;

/// With more points than this a curve shows markers at intervals only.
const MOST_MARKED: usize = 16;
/// The distance between the markers of such a curve, in pixels.
const INTERVAL: f64 = 70.0;
/// The distance between hover targets, in pixels.
const REACH: f64 = 9.0;
/// Names at the ends of curves may take this much of the picture's width.
const END_LABEL_SHARE: f64 = 0.24;

pub(super) fn draw(canvas: &Canvas<'_>, series: &[Series]) -> (f64, String) {
    let plot = canvas.plot;
    let Some((x, y)) = scales(canvas, series) else { return canvas.empty() };
    let x = x.along(0.0, 1.0);
    let ends = end_labels_fit(canvas, series, &x);
    let legend = frame::legend(canvas, !ends);
    let mut svg = Svg::default();
    let top = frame::draw_header(&mut svg, canvas, &legend, Swatch::Marked, &plot.y.title);
    let longest = series.iter().map(|s| text_width(&s.name)).fold(0.0, f64::max);
    let margin = if ends { longest + 28.0 } else { 12.0 };
    let left = frame::margin_left(&y.ticks);
    let area = Area { left, right: canvas.width - margin, top, bottom: top + canvas.area_height() };
    // A label over the highest point needs a little room.
    let labelled = series.iter().flat_map(|s| &s.points).any(|p| p.label.is_some());
    let lift = if labelled { 10.0 } else { 0.0 };
    let (x, y) = (x.along(area.left, area.right), y.along(area.bottom, area.top + lift));
    frame::draw_y_axis(&mut svg, &area, &y);
    frame::draw_x_axis(&mut svg, &area, &x, false);
    frame::draw_references(&mut svg, canvas, &area, &y);
    let curves: Vec<Curve<'_>> = series.iter().map(|s| Curve::new(canvas, s, &x, &y)).collect();
    curves.iter().for_each(|curve| curve.band(&mut svg));
    curves.iter().for_each(|curve| curve.stroke(&mut svg));
    curves.iter().for_each(|curve| curve.marks(&mut svg, canvas));
    let mut placer = point_labels(&mut svg, &area, &curves, frame::reference_strokes(canvas, &area, &y));
    frame::draw_reference_names(&mut svg, canvas, &area, &y, &mut placer);
    if ends {
        end_labels(&mut svg, &area, &curves);
    }
    let height = frame::draw_footer(&mut svg, canvas, &area, &plot.x.title, hidden_points(&plot.x, &plot.y, series));
    (height, svg.finish())
}

/// Both axes, or none if no point can be shown.
pub(super) fn scales(canvas: &Canvas<'_>, series: &[Series]) -> Option<(PixelScale, PixelScale)> {
    let plot = canvas.plot;
    let points = || series.iter().flat_map(|s| &s.points).filter(|p| plot.x.holds(p.x) && plot.y.holds(p.y));
    let xs: Vec<f64> = points().map(|p| p.x).collect();
    let mut ys: Vec<f64> = points().map(|p| p.y).collect();
    if ys.is_empty() {
        return None;
    }
    ys.extend(points().filter_map(|p| p.bounds).flat_map(|(low, high)| [low, high]));
    ys.extend(plot.references.iter().map(|r| r.value));
    let across = if canvas.narrow() { 6 } else { (canvas.width / 80.0) as usize };
    Some((PixelScale::new(&plot.x, &xs, Padding::Small, across)?, PixelScale::new(&plot.y, &ys, Padding::ToTick, 5)?))
}

/// How many points cannot be shown.
pub(super) fn hidden_points(x: &Axis, y: &Axis, series: &[Series]) -> usize {
    series.iter().flat_map(|s| &s.points).filter(|p| !(x.holds(p.x) && y.holds(p.y))).count()
}

/// Whether the names of curves can rank at their ends: there is room, and all curves end at the right.
fn end_labels_fit(canvas: &Canvas<'_>, series: &[Series], x: &PixelScale) -> bool {
    let held = |p: &&Point| canvas.plot.x.holds(p.x) && canvas.plot.y.holds(p.y);
    let end = |s: &Series| s.points.iter().rev().find(held).map(|p| x.at(p.x));
    let room = (canvas.width * END_LABEL_SHARE).min(190.0);
    let fits = |s: &Series| text_width(&s.name) <= room && end(s).is_none_or(|share| share > 0.85);
    let named = series.iter().any(|s| !s.name.is_empty());
    named && !canvas.narrow() && series.len() <= 10 && series.iter().all(fits)
}

/// A series laid out in pixels, in runs between gaps.
struct Curve<'a> {
    series: &'a Series,
    appearance: Appearance,
    /// Whether markers are shown at intervals only.
    sparse: bool,
    runs: Vec<Vec<Placed<'a>>>,
}

#[derive(Clone, Copy)]
struct Placed<'a> {
    at: (f64, f64),
    bounds: Option<(f64, f64)>,
    point: &'a Point,
}

impl<'a> Curve<'a> {
    fn new(canvas: &Canvas<'_>, series: &'a Series, x: &PixelScale, y: &PixelScale) -> Curve<'a> {
        let held = |p: &Point| canvas.plot.x.holds(p.x) && canvas.plot.y.holds(p.y);
        // A bound that cannot be placed lies at the end of the axis.
        let edge = |value: f64| y.at(y.clamp(value));
        let place = |point: &'a Point| Placed {
            at: (x.at(point.x), y.at(point.y)),
            bounds: point.bounds.map(|(low, high)| (edge(low), edge(high))),
            point,
        };
        let runs = series.points.split(|p| !held(p)).filter(|run| !run.is_empty());
        Curve {
            series,
            appearance: canvas.colours.appearance_of(&series.name, series.style),
            sparse: series.points.len() > MOST_MARKED,
            runs: runs.map(|run| thin(run.iter().map(place).collect())).collect(),
        }
    }

    fn class(&self, kind: &str) -> String {
        format!("{kind} {}", self.appearance.class())
    }

    fn band(&self, svg: &mut Svg) {
        for run in &self.runs {
            let bounded = || run.iter().filter_map(|p| p.bounds.map(|(low, high)| (p.at.0, low, high)));
            if bounded().count() < 2 {
                continue;
            }
            let mut around: Vec<(f64, f64)> = bounded().map(|(x, _, high)| (x, high)).collect();
            let mut lower: Vec<(f64, f64)> = bounded().map(|(x, low, _)| (x, low)).collect();
            lower.reverse();
            around.extend(lower);
            svg.path(&self.class("pl-band"), &(polyline(&around) + "Z"));
        }
    }

    fn stroke(&self, svg: &mut Svg) {
        for run in self.runs.iter().filter(|run| run.len() > 1) {
            let points: Vec<(f64, f64)> = run.iter().map(|p| p.at).collect();
            svg.path(&self.class("pl-line"), &polyline(&points));
        }
    }

    /// Draws the markers; those between the intervals of a dense curve appear under the pointer only.
    fn marks(&self, svg: &mut Svg, canvas: &Canvas<'_>) {
        let (mut target, mut shown) = (None, None);
        for run in &self.runs {
            for placed in run {
                let must = !self.sparse || placed.point.label.is_some() || run.len() == 1;
                if !must && (within(target, placed.at, REACH) || beside(target, placed.at)) {
                    continue;
                }
                target = Some(placed.at);
                // Curves of a ramp are close together; their order distinguishes them better than markers.
                let quiet = !must && (self.series.style != Style::Named || within(shown, placed.at, INTERVAL));
                if !quiet {
                    shown = Some(placed.at);
                }
                let class = if quiet { "pl-quiet" } else { "" };
                svg.open_mark(class, placed.at, &tooltip(canvas, &self.series.name, placed.point));
                svg.path(&self.class("pl-mark"), &self.appearance.marker(placed.at, 4.0));
                svg.close("g");
            }
        }
    }

    fn end(&self) -> Option<(f64, f64)> {
        self.runs.last().and_then(|run| run.last()).map(|p| p.at)
    }
}

fn within(last: Option<(f64, f64)>, at: (f64, f64), reach: f64) -> bool {
    last.is_some_and(|last| (last.0 - at.0).hypot(last.1 - at.1) < reach)
}

/// Whether a place lies over or under the last: one hover target in a pixel or two is enough, however wild the curve.
fn beside(last: Option<(f64, f64)>, at: (f64, f64)) -> bool {
    last.is_some_and(|last| (last.0 - at.0).abs() < 2.0)
}

/// The words that appear over a point.
pub(super) fn tooltip(canvas: &Canvas<'_>, name: &str, point: &Point) -> String {
    let (x, y) = (&canvas.plot.x, &canvas.plot.y);
    let mut lines: Vec<String> = Vec::new();
    let label = point.label.as_deref().unwrap_or_default();
    match (name.is_empty(), label.is_empty() || label == name) {
        (false, true) => lines.push(name.into()),
        (false, false) => lines.push(format!("{name}, {label}")),
        (true, false) => lines.push(label.into()),
        (true, true) => {}
    }
    lines.push(format!("{}: {}", or(&x.title, "x"), x.format_value(point.x)));
    let bounds = point.bounds.map(|(low, high)| format!(" ({} to {})", y.format_value(low), y.format_value(high)));
    lines.push(format!("{}: {}{}", or(&y.title, "y"), y.format_value(point.y), bounds.unwrap_or_default()));
    lines.join("\n")
}

fn or<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.is_empty() { otherwise } else { text }
}

/// Keeps of each pixel column the first, lowest, highest and last point, which draws the same picture.
fn thin(run: Vec<Placed<'_>>) -> Vec<Placed<'_>> {
    if run.len() <= 400 {
        return run;
    }
    let mut out: Vec<Placed<'_>> = Vec::new();
    for column in run.chunk_by(|a, b| a.at.0.floor() == b.at.0.floor()) {
        let by_height = |&a: &usize, &b: &usize| column[a].at.1.total_cmp(&column[b].at.1);
        let mut kept = vec![0, column.len() - 1];
        kept.extend((0..column.len()).min_by(by_height));
        kept.extend((0..column.len()).max_by(by_height));
        kept.extend((0..column.len()).filter(|&at| column[at].point.label.is_some()));
        kept.sort_unstable();
        kept.dedup();
        out.extend(kept.into_iter().map(|at| column[at]));
    }
    out
}

/// Writes the labels of points; returns the placer, which knows what is taken.
fn point_labels(svg: &mut Svg, area: &Area, curves: &[Curve<'_>], lines: Vec<Vec<(f64, f64)>>) -> Placer {
    let mut strokes = lines;
    strokes.extend(curves.iter().flat_map(|c| &c.runs).map(|run| run.iter().map(|p| p.at).collect::<Vec<_>>()));
    let marked = curves.iter().filter(|c| !c.sparse).flat_map(|c| &c.runs).flatten();
    let taken = marked.map(|p| Area::around(p.at, 4.0)).collect();
    let mut placer = Placer::new(area.label_area(), taken, &strokes);
    for placed in curves.iter().flat_map(|c| &c.runs).flatten() {
        let Some(label) = &placed.point.label else { continue };
        if let Some(spot) = placer.place(placed.at, label) {
            svg.text("pl-label pl-halo", spot.x, spot.y, spot.anchor, label);
        }
    }
    placer
}

/// Writes the names at the ends of the curves, moved apart, each tied to its end by a thin line.
fn end_labels(svg: &mut Svg, area: &Area, curves: &[Curve<'_>]) {
    let named: Vec<(&Curve<'_>, (f64, f64))> = curves.iter().filter_map(|c| Some((c, c.end()?))).collect();
    let heights: Vec<f64> = named.iter().map(|(_, end)| end.1).collect();
    let placed = stagger(&heights, 16.0, area.top, area.bottom);
    for ((curve, end), y) in named.iter().zip(placed) {
        let x = area.right + 18.0;
        if (end.1 - y).abs() > 2.0 || x - end.0 > 36.0 {
            let leader = polyline(&[(end.0 + 6.0, end.1), (x - 10.0, y), (x - 4.0, y)]);
            svg.path(&curve.class("pl-leader"), &leader);
        }
        svg.text(&curve.class("pl-name"), x, y + 4.0, "start", &fit(&curve.series.name, 190.0));
    }
}
