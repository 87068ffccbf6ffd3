//! The frame of a plot: title, legend, axes with grid, and the area where data is drawn.

use super::Canvas;
use super::axis::{PixelScale, Tick};
use super::labels::{Area, LABEL_SIZE, Placer, fit, text_width};
use super::series::Reference;
use super::svg::Svg;
use super::theme::Appearance;

/// Height of the title line of a picture that ranks alone.
pub(super) const TITLE: f64 = 34.0;
const LEGEND_LINE: f64 = 22.0;
const AXIS_TITLE: f64 = 28.0;
const TICKS_BELOW: f64 = 24.0;
/// What a name between two lines across the plot takes.
const NAME_HEIGHT: f64 = 18.0;

/// What a legend shows before a name.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Swatch {
    /// A stroke with the series' marker.
    Marked,
    /// The marker alone.
    Point,
    /// A small block.
    Block,
}

/// Draws title, legend and the title of the vertical axis; returns the height they take.
pub(super) fn draw_header(
    svg: &mut Svg,
    canvas: &Canvas<'_>,
    legend: &[(&str, Appearance)],
    swatch: Swatch,
    title: &str,
) -> f64 {
    let mut y = 0.0;
    if canvas.titled {
        svg.text("pl-title", 0.0, 16.0, "start", &canvas.plot.title);
        y += TITLE;
    }
    y += draw_legend(svg, legend, swatch, y, canvas.width);
    if !title.is_empty() {
        svg.text("pl-axis", 0.0, y + 12.0, "start", &fit(title, canvas.width));
        y += AXIS_TITLE;
    }
    y.max(8.0)
}

/// The entries of a legend: names, but not empty ones, with their appearances.
pub(super) fn legend<'a>(canvas: &Canvas<'a>, shown: bool) -> Vec<(&'a str, Appearance)> {
    let named = canvas.plot.series().into_iter().filter(|(name, _)| shown && !name.is_empty());
    named.map(|(name, style)| (name, canvas.colours.appearance_of(name, style))).collect()
}

fn draw_legend(svg: &mut Svg, legend: &[(&str, Appearance)], swatch: Swatch, top: f64, width: f64) -> f64 {
    let (mut x, mut y) = (0.0, top + 12.0);
    for (name, appearance) in legend {
        let name = fit(name, width - 30.0);
        let room = 26.0 + text_width(&name);
        if x > 0.0 && x + room > width {
            (x, y) = (0.0, y + LEGEND_LINE);
        }
        draw_swatch(svg, *appearance, swatch, (x, y - 4.0));
        svg.text("pl-label", x + 26.0, y, "start", &name);
        x += room + 20.0;
    }
    if legend.is_empty() { 0.0 } else { y - top + 14.0 }
}

fn draw_swatch(svg: &mut Svg, appearance: Appearance, swatch: Swatch, (x, y): (f64, f64)) {
    let class = appearance.class();
    match swatch {
        Swatch::Marked if !matches!(appearance, Appearance::Palette(_) | Appearance::Plain) => {
            svg.line(&format!("pl-line {class}"), (x, y), (x + 20.0, y));
        }
        Swatch::Block => svg.rect(&format!("pl-fill {class}"), (x + 4.0, y - 6.0), (14.0, 12.0)),
        Swatch::Point => svg.path(&format!("pl-mark {class}"), &appearance.marker((x + 10.0, y), 4.5)),
        Swatch::Marked => {
            svg.line(&format!("pl-line {class}"), (x, y), (x + 20.0, y));
            svg.path(&format!("pl-mark {class}"), &appearance.marker((x + 10.0, y), 4.0));
        }
    }
}

/// The room that the labels of a vertical axis take to its left.
pub(super) fn margin_left(ticks: &[Tick]) -> f64 {
    ticks.iter().map(|tick| text_width(&tick.label)).fold(0.0, f64::max) + 10.0
}

/// Draws the vertical axis: a grid line and a label a tick.
pub(super) fn draw_y_axis(svg: &mut Svg, area: &Area, scale: &PixelScale) {
    for tick in &scale.ticks {
        let y = scale.at(tick.value);
        let class = if tick.value == 0.0 { "pl-zero" } else { "pl-grid" };
        svg.line(class, (area.left, y), (area.right, y));
        svg.text("pl-tick", area.left - 8.0, y + 4.0, "end", &tick.label);
    }
}

/// Draws the horizontal axis below: labels that do not touch, a grid line each if asked for.
pub(super) fn draw_x_axis(svg: &mut Svg, area: &Area, scale: &PixelScale, grid: bool) {
    for tick in apart(scale) {
        let x = scale.at(tick.value);
        if grid {
            let class = if tick.value == 0.0 { "pl-zero" } else { "pl-grid" };
            svg.line(class, (x, area.top), (x, area.bottom));
        } else {
            svg.line("pl-stub", (x, area.bottom), (x, area.bottom + 4.0));
        }
        svg.text("pl-tick", x, area.bottom + 18.0, "middle", &tick.label);
    }
    if !grid {
        svg.line("pl-base", (area.left, area.bottom), (area.right, area.bottom));
    }
}

/// The ticks whose labels keep apart: all of them, or every second, or every third.
fn apart(scale: &PixelScale) -> Vec<&Tick> {
    let fits = |every: usize| {
        let kept: Vec<&Tick> = scale.ticks.iter().step_by(every).collect();
        kept.windows(2).all(|pair| {
            let between = (scale.at(pair[1].value) - scale.at(pair[0].value)).abs();
            between >= (text_width(&pair[0].label) + text_width(&pair[1].label)) / 2.0 + 8.0
        })
    };
    let every = (1..=scale.ticks.len().max(1)).find(|&every| fits(every)).unwrap_or(1);
    scale.ticks.iter().step_by(every).collect()
}

/// Draws the title of the horizontal axis and a count of what could not be shown; returns the height of the picture.
pub(super) fn draw_footer(svg: &mut Svg, canvas: &Canvas<'_>, area: &Area, title: &str, hidden: usize) -> f64 {
    let mut y = area.bottom + TICKS_BELOW;
    if !title.is_empty() {
        y += LABEL_SIZE + 6.0;
        svg.text("pl-axis", (area.left + area.right) / 2.0, y, "middle", &fit(title, canvas.width));
    }
    if hidden > 0 {
        y += LABEL_SIZE + 6.0;
        let words = match hidden {
            1 => "Not shown: 1 value that is missing or not positive on a logarithmic axis.".to_string(),
            n => format!("Not shown: {n} values that are missing or not positive on a logarithmic axis."),
        };
        svg.text("pl-note", 0.0, y, "start", &fit(&words, canvas.width));
    }
    y + 8.0
}

/// Draws the lines across the plot that mark a level.
pub(super) fn draw_references(svg: &mut Svg, canvas: &Canvas<'_>, area: &Area, scale: &PixelScale) {
    for reference in shown(canvas, scale) {
        let y = scale.at(reference.value);
        let words = format!("{}: {}", reference.label, canvas.plot.y.format_value(reference.value));
        svg.open_mark("", (area.left, y), &words);
        svg.line("pl-reference", (area.left, y), (area.right, y));
        svg.close("g");
    }
}

/// The lines across the plot as strokes, which other labels avoid.
pub(super) fn reference_strokes(canvas: &Canvas<'_>, area: &Area, scale: &PixelScale) -> Vec<Vec<(f64, f64)>> {
    let heights = shown(canvas, scale).map(|reference| scale.at(reference.value));
    heights.map(|y| vec![(area.left, y), (area.right, y)]).collect()
}

/// Names the lines across the plot, at whichever end there is room. Lines that are too near each other for a name
/// between them are named together, from the uppermost down, so that no line goes through a name.
pub(super) fn draw_reference_names(
    svg: &mut Svg,
    canvas: &Canvas<'_>,
    area: &Area,
    scale: &PixelScale,
    placer: &mut Placer,
) {
    let mut lines: Vec<(f64, &str)> =
        shown(canvas, scale).map(|reference| (scale.at(reference.value), reference.label.as_str())).collect();
    lines.sort_by(|a, b| a.0.total_cmp(&b.0));
    for near in lines.chunk_by(|upper, lower| lower.0 - upper.0 < NAME_HEIGHT) {
        let (top, bottom) = (near[0].0, near[near.len() - 1].0);
        let (left, right, above, below) = (area.left + 4.0, area.right - 4.0, top - 5.0, bottom + 14.0);
        let spots = [(right, above, "end"), (left, above, "start"), (right, below, "end"), (left, below, "start")];
        let names: Vec<&str> = near.iter().map(|(_, name)| *name).collect();
        let words = fit(&names.join(", "), area.right - area.left - 8.0);
        if let Some(spot) = placer.first_free(&spots, &words) {
            svg.text("pl-aside pl-halo", spot.x, spot.y, spot.anchor, &words);
        }
    }
}

fn shown<'a>(canvas: &Canvas<'a>, scale: &PixelScale) -> impl Iterator<Item = &'a Reference> {
    canvas.plot.references.iter().filter(|r| r.value.is_finite() && scale.spans(r.value))
}
