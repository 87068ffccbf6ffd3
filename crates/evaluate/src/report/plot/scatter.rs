//! Points by two values, with the Pareto front marked.

use super::Canvas;
use super::frame::{self, Swatch};
use super::labels::{Area, Placer};
use super::line::{hidden_points, scales, tooltip};
use super::pareto::pareto_front;
use super::series::{ParetoAxes, Point, Series};
use super::svg::{Svg, polyline};
use super::theme::Appearance;
use crate::report::table::Direction;

struct Dot<'a> {
    at: (f64, f64),
    appearance: Appearance,
    point: &'a Point,
    name: &'a str,
    label: &'a str,
    on_front: bool,
}

/// Whether every series is one point, named beside it: a legend would only repeat the names.
pub(super) fn labelled_directly(series: &[Series]) -> bool {
    series.iter().all(|s| s.points.len() <= 1)
}

pub(super) fn draw(canvas: &Canvas<'_>, series: &[Series], front: Option<ParetoAxes>) -> (f64, String) {
    let plot = canvas.plot;
    let Some((x, y)) = scales(canvas, series) else { return canvas.empty() };
    let legend = frame::legend(canvas, !labelled_directly(series));
    let mut svg = Svg::default();
    let top = frame::draw_header(&mut svg, canvas, &legend, Swatch::Point, &plot.y.title);
    let left = frame::margin_left(&y.ticks);
    let area = Area { left, right: canvas.width - 12.0, top, bottom: top + canvas.area_height() };
    let (x, y) = (x.along(area.left, area.right), y.along(area.bottom, area.top + 10.0));
    frame::draw_y_axis(&mut svg, &area, &y);
    frame::draw_x_axis(&mut svg, &area, &x, false);
    frame::draw_references(&mut svg, canvas, &area, &y);
    let mut dots = dots(canvas, series, |point| (x.at(point.x), y.at(point.y)));
    let path = front.map(|front| draw_front(&mut svg, &mut dots, front)).unwrap_or_default();
    whiskers(&mut svg, &dots, |value| y.at(y.clamp(value)));
    marks(&mut svg, canvas, &dots, front.is_some());
    let mut placer = labels(&mut svg, &area, &dots, &path, frame::reference_strokes(canvas, &area, &y));
    frame::draw_reference_names(&mut svg, canvas, &area, &y, &mut placer);
    let height = frame::draw_footer(&mut svg, canvas, &area, &plot.x.title, hidden_points(&plot.x, &plot.y, series));
    (height, svg.finish())
}

fn dots<'a>(canvas: &Canvas<'_>, series: &'a [Series], at: impl Fn(&Point) -> (f64, f64)) -> Vec<Dot<'a>> {
    let single = labelled_directly(series);
    let appearances = match single {
        true => canvas.colours.all_or_plain(series.iter().map(|s| s.name.as_str())),
        false => series.iter().map(|s| canvas.colours.appearance_of(&s.name, s.style)).collect(),
    };
    let mut dots = Vec::new();
    for (s, &appearance) in series.iter().zip(&appearances) {
        let held = s.points.iter().filter(|p| canvas.plot.x.holds(p.x) && canvas.plot.y.holds(p.y));
        dots.extend(held.map(|point| {
            let label = point.label.as_deref().unwrap_or(if single { &s.name } else { "" });
            Dot { at: at(point), appearance, point, name: &s.name, label, on_front: false }
        }));
    }
    dots
}

/// Marks the dots of the front and draws it as steps: between two points nothing better is known than the nearer one.
fn draw_front(svg: &mut Svg, dots: &mut [Dot<'_>], front: ParetoAxes) -> Vec<(f64, f64)> {
    let values: Vec<(f64, f64)> = dots.iter().map(|d| (d.point.x, d.point.y)).collect();
    let mut path: Vec<(f64, f64)> = Vec::new();
    for at in pareto_front(&values, front) {
        dots[at].on_front = true;
        let (x, y) = dots[at].at;
        if let Some(&(before_x, before_y)) = path.last() {
            // The corner lies on the worse side of both points.
            path.push(if front.x == Direction::LowerBetter { (x, before_y) } else { (before_x, y) });
        }
        path.push((x, y));
    }
    if path.len() > 1 {
        svg.path("pl-front", &polyline(&path));
    }
    path
}

fn whiskers(svg: &mut Svg, dots: &[Dot<'_>], height: impl Fn(f64) -> f64) {
    for dot in dots {
        let Some((low, high)) = dot.point.bounds else { continue };
        let class = format!("pl-whisker {}", dot.appearance.class());
        svg.line(&class, (dot.at.0, height(low)), (dot.at.0, height(high)));
    }
}

fn marks(svg: &mut Svg, canvas: &Canvas<'_>, dots: &[Dot<'_>], fronted: bool) {
    for dot in dots {
        let mut words = tooltip(canvas, dot.name, dot.point);
        if dot.on_front {
            words += "\non the Pareto front";
        }
        svg.open_mark("", dot.at, &words);
        let kind = if fronted && !dot.on_front { "pl-hollow" } else { "pl-mark" };
        svg.path(&format!("{kind} {}", dot.appearance.class()), &dot.appearance.marker(dot.at, 5.0));
        svg.close("g");
    }
}

/// Writes labels where they fit, those on the front first, then the name of the front beside its longest piece.
fn labels(svg: &mut Svg, area: &Area, dots: &[Dot<'_>], path: &[(f64, f64)], lines: Vec<Vec<(f64, f64)>>) -> Placer {
    let taken = dots.iter().map(|d| Area::around(d.at, 6.0)).collect();
    let strokes: Vec<Vec<(f64, f64)>> = lines.into_iter().chain([path.to_vec()]).collect();
    let mut placer = Placer::new(area.label_area(), taken, &strokes);
    let (first, rest): (Vec<&Dot<'_>>, Vec<&Dot<'_>>) = dots.iter().partition(|d| d.on_front);
    for dot in first.into_iter().chain(rest).filter(|d| !d.label.is_empty()) {
        if let Some(spot) = placer.place(dot.at, dot.label) {
            svg.text("pl-label pl-halo", spot.x, spot.y, spot.anchor, dot.label);
        }
    }
    let mut pieces: Vec<&[(f64, f64)]> = path.windows(2).collect();
    let length = |piece: &[(f64, f64)]| (piece[1].0 - piece[0].0).hypot(piece[1].1 - piece[0].1);
    pieces.sort_by(|a, b| length(b).total_cmp(&length(a)));
    let middles = pieces.iter().map(|p| ((p[0].0 + p[1].0) / 2.0, (p[0].1 + p[1].1) / 2.0));
    if let Some(spot) = middles.into_iter().find_map(|middle| placer.place(middle, "Pareto front")) {
        svg.text("pl-aside pl-halo", spot.x, spot.y, spot.anchor, "Pareto front");
    }
    placer
}
