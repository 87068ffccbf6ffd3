//! Curves: learning curves, a metric against a setting, frequency by rank.

use super::Canvas;
use super::axis::{Axis, Ruler, Slack};
use super::frame::{self, Plane, Swatch};
use super::labels::{Area, Placer, fit, stagger, text_width};
use super::series::{Point, Series};
use super::svg::{Svg, polyline};
use super::theme::Look;

/// With more points than this a curve is drawn without markers.
const MOST_MARKED: usize = 24;
/// Names at the ends of curves may take this much of the picture's width.
const END_LABEL_SHARE: f64 = 0.24;

pub(super) fn draw(canvas: &Canvas<'_>, series: &[Series]) -> (f64, String) {
    let plot = canvas.plot;
    let Some((x, y)) = rulers(canvas, series) else { return canvas.empty() };
    let ends = end_labels_fit(canvas, series);
    let marked = series.iter().all(|s| s.points.len() <= MOST_MARKED);
    let swatch = if marked { Swatch::Marked } else { Swatch::Dashed };
    let legend: Vec<(&str, Look)> = match ends {
        true => Vec::new(),
        false => series
            .iter()
            .filter(|s| !s.name.is_empty())
            .map(|s| (s.name.as_str(), canvas.colours.look(&s.name)))
            .collect(),
    };
    let mut svg = Svg::default();
    let top = frame::head(&mut svg, canvas, &legend, swatch, &plot.y.title);
    let margin = if ends { end_margin(series) } else { 12.0 };
    let plane = Plane {
        left: frame::margin_left(&y.ticks),
        right: canvas.width - margin,
        top,
        bottom: top + canvas.area_height(),
    };
    let (x, y) = (x.along(plane.left, plane.right), y.along(plane.bottom, plane.top));
    frame::rows(&mut svg, &plane, &y);
    frame::columns(&mut svg, &plane, &x, false);
    frame::references(&mut svg, canvas, &plane, &y);
    let curves: Vec<Curve<'_>> = series.iter().map(|s| Curve::new(canvas, s, &x, &y, marked)).collect();
    curves.iter().for_each(|curve| curve.band(&mut svg));
    curves.iter().for_each(|curve| curve.stroke(&mut svg));
    curves.iter().for_each(|curve| curve.marks(&mut svg, canvas));
    point_labels(&mut svg, &plane, &curves);
    if ends {
        end_labels(&mut svg, &plane, &curves);
    }
    let height = frame::foot(&mut svg, canvas, &plane, &plot.x.title, hidden(&plot.x, &plot.y, series));
    (height, svg.finish())
}

/// Both axes, or none if no point can be shown.
pub(super) fn rulers(canvas: &Canvas<'_>, series: &[Series]) -> Option<(Ruler, Ruler)> {
    let plot = canvas.plot;
    let shown = || series.iter().flat_map(|s| &s.points).filter(|p| plot.x.holds(p.x) && plot.y.holds(p.y));
    let xs: Vec<f64> = shown().map(|p| p.x).collect();
    let mut ys: Vec<f64> =
        shown().flat_map(|p| [p.y, p.bounds.map_or(p.y, |b| b.0), p.bounds.map_or(p.y, |b| b.1)]).collect();
    if ys.is_empty() {
        return None;
    }
    ys.extend(plot.references.iter().map(|r| r.value));
    let across = if canvas.narrow() { 5 } else { (canvas.width / 80.0) as usize };
    Some((Ruler::new(&plot.x, &xs, Slack::Little, across)?, Ruler::new(&plot.y, &ys, Slack::Round, 5)?))
}

/// How many points cannot be shown.
pub(super) fn hidden(x: &Axis, y: &Axis, series: &[Series]) -> usize {
    series.iter().flat_map(|s| &s.points).filter(|p| !(x.holds(p.x) && y.holds(p.y))).count()
}

/// Whether the names of curves can stand at their ends.
fn end_labels_fit(canvas: &Canvas<'_>, series: &[Series]) -> bool {
    let room = (canvas.width * END_LABEL_SHARE).min(190.0);
    let fits = series.iter().all(|s| text_width(&s.name) <= room);
    fits && !canvas.narrow() && series.len() <= 10 && series.iter().any(|s| !s.name.is_empty())
}

fn end_margin(series: &[Series]) -> f64 {
    series.iter().map(|s| text_width(&s.name)).fold(0.0, f64::max) + 28.0
}

/// A series laid out in pixels, in runs between gaps.
struct Curve<'a> {
    series: &'a Series,
    look: Look,
    marked: bool,
    runs: Vec<Vec<Placed<'a>>>,
}

#[derive(Clone, Copy)]
struct Placed<'a> {
    at: (f64, f64),
    bounds: Option<(f64, f64)>,
    point: &'a Point,
}

impl<'a> Curve<'a> {
    fn new(canvas: &Canvas<'_>, series: &'a Series, x: &Ruler, y: &Ruler, marked: bool) -> Curve<'a> {
        let plot = canvas.plot;
        let mut runs: Vec<Vec<Placed<'a>>> = vec![Vec::new()];
        for point in &series.points {
            if !(plot.x.holds(point.x) && plot.y.holds(point.y)) {
                runs.push(Vec::new());
                continue;
            }
            let edge = |value: f64| {
                if plot.y.holds(value) { y.at(y.clamp(value)) } else { y.at(y.clamp(f64::MIN_POSITIVE)) }
            };
            let bounds = point.bounds.map(|(low, high)| (edge(low), edge(high)));
            let placed = Placed { at: (x.at(point.x), y.at(point.y)), bounds, point };
            if let Some(run) = runs.last_mut() {
                run.push(placed);
            }
        }
        let runs = runs.into_iter().filter(|run| !run.is_empty()).map(thin).collect();
        Curve { series, look: canvas.colours.look(&series.name), marked, runs }
    }

    fn class(&self, kind: &str) -> String {
        format!("{kind} {}", self.look.class())
    }

    fn band(&self, svg: &mut Svg) {
        for run in &self.runs {
            let edges: Vec<(f64, f64, f64)> =
                run.iter().filter_map(|p| p.bounds.map(|(l, h)| (p.at.0, l, h))).collect();
            if edges.len() < 2 {
                continue;
            }
            let upper = edges.iter().map(|e| (e.0, e.2));
            let around: Vec<(f64, f64)> = upper.chain(edges.iter().rev().map(|e| (e.0, e.1))).collect();
            svg.path(&self.class("pl-band"), &(polyline(&around) + "Z"));
        }
    }

    fn stroke(&self, svg: &mut Svg) {
        let dash = if self.marked { String::new() } else { format!(" {}", self.look.dash()) };
        for run in self.runs.iter().filter(|run| run.len() > 1) {
            let points: Vec<(f64, f64)> = run.iter().map(|p| p.at).collect();
            svg.path(&(self.class("pl-line") + &dash), &polyline(&points));
        }
    }

    fn marks(&self, svg: &mut Svg, canvas: &Canvas<'_>) {
        let mut last: Option<(f64, f64)> = None;
        for run in &self.runs {
            for placed in run {
                let labelled = placed.point.label.is_some();
                // Hover targets of dense curves keep a finger's breadth apart.
                let near = last.is_some_and(|l| (l.0 - placed.at.0).hypot(l.1 - placed.at.1) < 9.0);
                let lone = run.len() == 1;
                if !self.marked && near && !labelled && !lone {
                    continue;
                }
                last = Some(placed.at);
                let class = if self.marked || labelled || lone { "" } else { "pl-quiet" };
                svg.open_mark(class, placed.at, &tell(canvas, &self.series.name, placed.point));
                svg.path(&self.class("pl-mark"), &self.look.marker(placed.at, 4.0));
                svg.close("g");
            }
        }
    }

    fn end(&self) -> Option<(f64, f64)> {
        self.runs.last().and_then(|run| run.last()).map(|p| p.at)
    }
}

/// The words that appear over a point.
pub(super) fn tell(canvas: &Canvas<'_>, name: &str, point: &Point) -> String {
    let Axes { x, y } = Axes { x: &canvas.plot.x, y: &canvas.plot.y };
    let mut lines: Vec<String> = Vec::new();
    let label = point.label.as_deref().unwrap_or_default();
    match (name.is_empty(), label.is_empty() || label == name) {
        (false, true) => lines.push(name.into()),
        (false, false) => lines.push(format!("{name}, {label}")),
        (true, false) => lines.push(label.into()),
        (true, true) => {}
    }
    lines.push(format!("{}: {}", or(&x.title, "x"), x.say(point.x)));
    let bounds =
        point.bounds.map(|(low, high)| format!(" ({} to {})", y.say(low), y.say(high))).unwrap_or_default();
    lines.push(format!("{}: {}{bounds}", or(&y.title, "y"), y.say(point.y)));
    lines.join("\n")
}

struct Axes<'a> {
    x: &'a Axis,
    y: &'a Axis,
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

fn point_labels(svg: &mut Svg, plane: &Plane, curves: &[Curve<'_>]) {
    let marks = || curves.iter().flat_map(|c| &c.runs).flatten();
    let taken = marks().map(|p| Area::around(p.at, 4.0)).collect();
    let mut placer = Placer::new(plane.room(), taken);
    for placed in marks() {
        let Some(label) = &placed.point.label else { continue };
        if let Some(spot) = placer.place(placed.at, label) {
            svg.text("pl-label pl-halo", spot.x, spot.y, spot.anchor, label);
        }
    }
}

/// Writes the names at the ends of the curves, moved apart, each tied to its end by a thin line.
fn end_labels(svg: &mut Svg, plane: &Plane, curves: &[Curve<'_>]) {
    let named: Vec<(&Curve<'_>, (f64, f64))> = curves.iter().filter_map(|c| Some((c, c.end()?))).collect();
    let heights: Vec<f64> = named.iter().map(|(_, end)| end.1).collect();
    let placed = stagger(&heights, 16.0, plane.top, plane.bottom);
    for ((curve, end), y) in named.iter().zip(placed) {
        let x = plane.right + 18.0;
        if (end.1 - y).abs() > 2.0 || x - end.0 > 30.0 {
            svg.path(
                &curve.class("pl-leader"),
                &polyline(&[(end.0 + 6.0, end.1), (x - 10.0, y), (x - 4.0, y)]),
            );
        }
        svg.text(&curve.class("pl-name"), x, y + 4.0, "start", &fit(&curve.series.name, 190.0));
    }
}
