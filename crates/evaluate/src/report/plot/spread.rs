//! Distributions: histograms and five-number summaries.

use super::Canvas;
use super::axis::{Axis, Padding, PixelScale};
use super::frame::{self, PlotArea, Swatch};
use super::labels::{fit, text_width};
use super::series::{Counts, Summary};
use super::svg::{Svg, polyline};
use super::theme::Appearance;

/// Height of a line of summaries, and of its box.
const BAND: f64 = 34.0;
const BOX: f64 = 16.0;

pub(super) fn histogram(canvas: &Canvas<'_>, edges: &[f64], series: &[Counts]) -> (f64, String) {
    let plot = canvas.plot;
    let heights: Vec<f64> = series.iter().flat_map(|s| s.heights.iter().copied()).collect();
    let across = if canvas.narrow() { 6 } else { (canvas.width / 80.0) as usize };
    let axes = PixelScale::new(&plot.x, edges, Padding::None, across).zip(PixelScale::new(
        &plot.y.clone().from_zero(),
        &heights,
        Padding::ToTick,
        5,
    ));
    let Some((x, y)) = axes.filter(|_| edges.len() > 1) else { return canvas.empty() };
    let legend = frame::legend(canvas, series.len() != 1);
    let mut svg = Svg::default();
    let top = frame::draw_header(&mut svg, canvas, &legend, Swatch::Stroke, &plot.y.title);
    let left = frame::margin_left(&y.ticks);
    let area = PlotArea { left, right: canvas.width - 12.0, top, bottom: top + canvas.area_height() };
    let (x, y) = (x.along(area.left, area.right), y.along(area.bottom, area.top));
    frame::draw_y_axis(&mut svg, &area, &y);
    frame::draw_x_axis(&mut svg, &area, &x, false);
    for s in series {
        outline(&mut svg, canvas, edges, s, (&x, &y), area.bottom);
    }
    hover_bins(&mut svg, canvas, edges, series, (&x, &y));
    let height = frame::draw_footer(&mut svg, canvas, &area, &plot.x.title, 0);
    (height, svg.finish())
}

/// The steps of one series, filled lightly.
fn outline(
    svg: &mut Svg,
    canvas: &Canvas<'_>,
    edges: &[f64],
    series: &Counts,
    on: (&PixelScale, &PixelScale),
    base: f64,
) {
    let appearance = canvas.colours.appearance(&series.name);
    let mut steps: Vec<(f64, f64)> = vec![(on.0.at(edges[0]), base)];
    for (pair, &height) in edges.windows(2).zip(&series.heights) {
        let y = on.1.at(if height.is_finite() { height } else { 0.0 });
        steps.extend([(on.0.at(pair[0]), y), (on.0.at(pair[1]), y)]);
    }
    let last = steps.last().map_or(0.0, |s| s.0);
    steps.push((last, base));
    svg.path(&format!("pl-band {}", appearance.class()), &(polyline(&steps) + "Z"));
    svg.path(&format!("pl-line {}", appearance.class()), &polyline(&steps));
}

/// One hover target per bin, with the heights of all series.
fn hover_bins(svg: &mut Svg, canvas: &Canvas<'_>, edges: &[f64], series: &[Counts], on: (&PixelScale, &PixelScale)) {
    let (x, y) = (&canvas.plot.x, &canvas.plot.y);
    for (at, pair) in edges.windows(2).enumerate() {
        let highest = series.iter().filter_map(|s| s.heights.get(at)).fold(0.0, |a: f64, &b| a.max(b));
        let mut words = vec![format!("{} to {}", x.format_value(pair[0]), x.format_value(pair[1]))];
        let told = series.iter().filter_map(|s| Some((s, s.heights.get(at)?)));
        words.extend(told.map(|(s, height)| match s.name.is_empty() {
            true => y.format_value(*height),
            false => format!("{}: {}", s.name, y.format_value(*height)),
        }));
        let (left, right, top) = (on.0.at(pair[0]), on.0.at(pair[1]), on.1.at(highest));
        svg.open_mark("", ((left + right) / 2.0, top), &words.join("\n"));
        svg.rect("pl-hit", (left, top), (right - left, (on.1.at(0.0) - top).max(1.0)));
        svg.close("g");
    }
}

pub(super) fn boxes(canvas: &Canvas<'_>, boxes: &[Summary]) -> (f64, String) {
    let axis = &canvas.plot.x;
    let values: Vec<f64> = boxes.iter().flat_map(|b| [b.low, b.high, b.mean, b.median]).collect();
    let most = (canvas.width / 95.0) as usize;
    let Some(scale) = PixelScale::new(axis, &values, Padding::ToTick, most) else { return canvas.empty() };
    let mut svg = Svg::default();
    let top = frame::draw_header(&mut svg, canvas, &[], Swatch::Block, &canvas.plot.y.title);
    let names = boxes.iter().map(|b| text_width(&b.name)).fold(0.0, f64::max);
    let left = names.min(canvas.width * 0.34) + 14.0;
    let area = PlotArea { left, right: canvas.width - 24.0, top, bottom: top + BAND * boxes.len() as f64 + 4.0 };
    let scale = scale.along(area.left, area.right);
    frame::draw_x_axis(&mut svg, &area, &scale, true);
    let appearances = canvas.colours.all_or_plain(boxes.iter().map(|b| b.name.as_str()));
    let mut hidden = 0;
    for (at, summary) in boxes.iter().enumerate() {
        let middle = area.top + BAND * (at as f64 + 0.5) + 2.0;
        let name = fit(&summary.name, area.left - 10.0);
        svg.text("pl-label", area.left - 10.0, middle + 4.0, "end", &name);
        let parts = [summary.low, summary.quarter, summary.median, summary.three_quarters, summary.high, summary.mean];
        if !parts.iter().all(|v| axis.holds(*v)) {
            hidden += 1;
            continue;
        }
        draw_box(&mut svg, appearances[at], parts.map(|v| scale.at(scale.clamp(v))), middle, &tooltip(axis, summary));
    }
    let height = frame::draw_footer(&mut svg, canvas, &area, &axis.title, hidden);
    (height, svg.finish())
}

/// Whiskers, box, median and mean, at pixels along the line.
fn draw_box(svg: &mut Svg, appearance: Appearance, at: [f64; 6], middle: f64, words: &str) {
    let [low, quarter, median, three_quarters, high, mean] = at;
    let class = |kind: &str| format!("{kind} {}", appearance.class());
    svg.open_mark("", (median, middle), words);
    svg.rect("pl-hit", (low, middle - BAND / 2.0), ((high - low).max(1.0), BAND));
    svg.line(&class("pl-whisker"), (low, middle), (quarter, middle));
    svg.line(&class("pl-whisker"), (three_quarters, middle), (high, middle));
    svg.rect(&class("pl-box"), (quarter, middle - BOX / 2.0), ((three_quarters - quarter).max(1.0), BOX));
    svg.line(&class("pl-median"), (median, middle - BOX / 2.0), (median, middle + BOX / 2.0));
    let diamond = [(mean, middle - 4.0), (mean + 4.0, middle), (mean, middle + 4.0), (mean - 4.0, middle)];
    svg.path(&class("pl-mark"), &(polyline(&diamond) + "Z"));
    svg.close("g");
}

fn tooltip(axis: &Axis, summary: &Summary) -> String {
    let say = |value| axis.format_value(value);
    format!(
        "{} ({} values)\nmean {}, median {}\nmiddle half {} to {}\nmiddle 90% {} to {}",
        summary.name,
        summary.count,
        say(summary.mean),
        say(summary.median),
        say(summary.quarter),
        say(summary.three_quarters),
        say(summary.low),
        say(summary.high)
    )
}
