//! Colours, markers and dashes, chosen by the names of series.

use super::series::Style;
use super::svg::Px;

/// The rules of plots, for pages and for pictures that rank alone.
pub(in crate::report) const PLOT_CSS: &str = include_str!("plot.css");

/// The colours of a light page, as CSS properties.
pub(in crate::report) fn light_colours() -> &'static str {
    include_str!("light.css").trim()
}

/// The colours of a dark page, as CSS properties.
pub(in crate::report) fn dark_colours() -> &'static str {
    include_str!("dark.css").trim()
}

/// How many colours there are, chosen to stay apart for readers with any colour vision, the first four the most: in
/// OKLab, times 100, at least 12 among the first four and 7 among all, also as seen without one of the three cones.
/// Markers and dashes distinguish further series.
const COLOURS: usize = 8;
const MARKERS: usize = 7;

/// The last step of the ramp, from 0: enough for every tenth between 0 and 1. Lightness falls (rises, on a dark page)
/// from step to step, so that the order is seen without colours as well.
const TONES: usize = 10;

/// The palette index of each series name; `None` is free.
pub(in crate::report) struct Colours {
    names: Vec<Option<String>>,
}

impl Colours {
    /// Reserves a index for each name that several plots use, so that it appearances the same in all of them; names
    /// that more plots use come first.
    pub(in crate::report) fn shared<'a>(plots: impl Iterator<Item = Vec<&'a str>>) -> Colours {
        let mut seen: Vec<(&str, usize)> = Vec::new();
        for names in plots {
            let first = |at: &usize| !names[*at].is_empty() && !names[..*at].contains(&names[*at]);
            for name in (0..names.len()).filter(first).map(|at| names[at]) {
                match seen.iter_mut().find(|(other, _)| *other == name) {
                    Some((_, plots)) => *plots += 1,
                    None => seen.push((name, 1)),
                }
            }
        }
        seen.sort_by_key(|(_, plots)| std::cmp::Reverse(*plots));
        let names = seen.into_iter().filter(|(_, plots)| *plots > 1).map(|(name, _)| Some(name.to_string()));
        Colours { names: names.collect() }
    }

    /// The indices of one plot: shared names keep theirs, the others take the first that are free.
    pub(super) fn assign(&self, names: &[&str]) -> Colours {
        let used = |name: &Option<String>| name.as_deref().is_some_and(|name| names.contains(&name));
        let mut indices: Vec<Option<String>> =
            self.names.iter().map(|name| if used(name) { name.clone() } else { None }).collect();
        for name in names.iter().filter(|name| !name.is_empty()) {
            if indices.iter().any(|index| index.as_deref() == Some(*name)) {
                continue;
            }
            match indices.iter().position(Option::is_none) {
                Some(free) => indices[free] = Some((*name).to_string()),
                None => indices.push(Some((*name).to_string())),
            }
        }
        Colours { names: indices }
    }

    /// The appearance of a name; plain if it has no index.
    pub(super) fn appearance(&self, name: &str) -> Appearance {
        self.names
            .iter()
            .position(|other| other.as_deref() == Some(name))
            .map_or(Appearance::Plain, Appearance::Palette)
    }

    /// The appearance of a series: by its name, unless it has a style of its own.
    pub(super) fn appearance_of(&self, name: &str, style: Style) -> Appearance {
        match style {
            Style::Named => self.appearance(name),
            Style::Tone(share) => Appearance::Tone((share.clamp(0.0, 1.0) * TONES as f64).round() as usize),
            Style::Reference => Appearance::Reference,
        }
    }

    /// The appearances of directly labelled series: their own if all have one, otherwise plain.
    pub(super) fn all_or_plain<'a>(&self, names: impl Iterator<Item = &'a str> + Clone) -> Vec<Appearance> {
        let known = names.clone().all(|name| self.names.iter().any(|other| other.as_deref() == Some(name)));
        names.map(|name| if known { self.appearance(name) } else { Appearance::Plain }).collect()
    }
}

/// The colour, marker and dash of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Appearance {
    /// A dot in the accent colour.
    Plain,
    /// A index in the palette.
    Palette(usize),
    /// A step of the ramp.
    Tone(usize),
    /// The colour of text, dashed.
    Reference,
}

impl Appearance {
    /// The class that sets the colour, and the dash once the colours start over.
    pub(super) fn class(self) -> String {
        match self {
            Appearance::Plain => "pl-accent".into(),
            Appearance::Palette(index) if index < COLOURS => format!("pl-c{}", index + 1),
            Appearance::Palette(index) => {
                format!("pl-c{} pl-d{}", index % COLOURS + 1, (index / COLOURS).min(3))
            }
            Appearance::Tone(step) => format!("pl-r{step}"),
            Appearance::Reference => "pl-ink pl-d1".into(),
        }
    }

    /// The outline of the marker around a index.
    pub(super) fn marker(self, (x, y): (f64, f64), r: f64) -> String {
        let corners = |points: &[(f64, f64)]| -> String {
            let placed: Vec<(f64, f64)> = points.iter().map(|(dx, dy)| (x + dx * r, y + dy * r)).collect();
            super::svg::polyline(&placed) + "Z"
        };
        let Appearance::Palette(index) = self else { return circle(x, y, r) };
        match index % MARKERS {
            0 => circle(x, y, r),
            1 => corners(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]),
            2 => corners(&[(0.0, -1.2), (1.1, 0.8), (-1.1, 0.8)]),
            3 => corners(&[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)]),
            4 => corners(&[(0.0, 1.2), (1.1, -0.8), (-1.1, -0.8)]),
            5 => corners(&cross()),
            _ => corners(&PENTAGON),
        }
    }
}

/// A plus sign with thick arms: one arm, turned.
fn cross() -> Vec<(f64, f64)> {
    let arm = [(-0.5, -1.3), (0.5, -1.3), (0.5, -0.5)];
    let turned = |arm: &[(f64, f64); 3]| Some(arm.map(|(x, y)| (-y, x)));
    std::iter::successors(Some(arm), turned).take(4).flatten().collect()
}

const PENTAGON: [(f64, f64); 5] = [(0.0, -1.2), (1.14, -0.37), (0.71, 0.97), (-0.71, 0.97), (-1.14, -0.37)];

fn circle(x: f64, y: f64, r: f64) -> String {
    let (left, y, r, span) = (Px(x - r), Px(y), Px(r), Px(2.0 * r));
    format!("M{left} {y}a{r} {r} 0 1 0 {span} 0a{r} {r} 0 1 0 -{span} 0Z")
}
