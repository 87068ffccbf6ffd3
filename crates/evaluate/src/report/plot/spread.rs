//! Distributions: five-number summaries.

use super::Canvas;
use super::axis::{Axis, Padding, PixelScale};
use super::frame::{self, Swatch};
use super::labels::{Area, fit, text_width};
use super::series::Summary;
use super::svg::{Svg, polyline};
use super::theme::Appearance;

/// Height of a line of summaries, and of its box.
const BAND: f64 = 34.0;
const BOX: f64 = 16.0;

pub(super) fn boxes(canvas: &Canvas<'_>, boxes: &[Summary]) -> (f64, String) {
    let axis = &canvas.plot.x;
    let values: Vec<f64> = boxes.iter().flat_map(|b| [b.low, b.high, b.mean, b.median]).collect();
    let most = (canvas.width / 95.0) as usize;
    let Some(scale) = PixelScale::new(axis, &values, Padding::ToTick, most) else { return canvas.empty() };
    let mut svg = Svg::default();
    let top = frame::draw_header(&mut svg, canvas, &[], Swatch::Block, &canvas.plot.y.title);
    let names = boxes.iter().map(|b| text_width(&b.name)).fold(0.0, f64::max);
    let left = names.min(canvas.width * 0.34) + 14.0;
    let area = Area { left, right: canvas.width - 24.0, top, bottom: top + BAND * boxes.len() as f64 + 4.0 };
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
