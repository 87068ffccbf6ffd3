//! Colours, markers and dashes, chosen by the names of series.

use super::series::Style;
use super::svg::Px;

/// The rules of plots, for pages and for pictures that stand alone.
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
/// Markers and dashes tell further series apart.
const COLOURS: usize = 8;
const MARKERS: usize = 7;

/// The last step of the ramp, from 0: enough for every tenth between 0 and 1. Lightness falls (rises, on a dark page)
/// from step to step, so that the order is seen without colours as well.
const TONES: usize = 10;

/// The places of series names in the palette; `None` is a place that is free.
pub(in crate::report) struct Colours {
    names: Vec<Option<String>>,
}

impl Colours {
    /// Reserves a place for each name that several plots use, so that it looks the same in all of them; names that more
    /// plots use come first.
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

    /// The places for one plot: its shared names keep theirs, its others take the first that the plot leaves free.
    pub(super) fn settle(&self, names: &[&str]) -> Colours {
        let used = |name: &Option<String>| name.as_deref().is_some_and(|name| names.contains(&name));
        let mut places: Vec<Option<String>> =
            self.names.iter().map(|name| if used(name) { name.clone() } else { None }).collect();
        for name in names.iter().filter(|name| !name.is_empty()) {
            if places.iter().any(|place| place.as_deref() == Some(*name)) {
                continue;
            }
            match places.iter().position(Option::is_none) {
                Some(free) => places[free] = Some((*name).to_string()),
                None => places.push(Some((*name).to_string())),
            }
        }
        Colours { names: places }
    }

    /// The look of a name; one never seen has the plain look.
    pub(super) fn look(&self, name: &str) -> Look {
        self.names.iter().position(|other| other.as_deref() == Some(name)).map_or(Look::Plain, Look::Place)
    }

    /// The look of a series: by its name, unless it has a style of its own.
    pub(super) fn look_of(&self, name: &str, style: Style) -> Look {
        match style {
            Style::Named => self.look(name),
            Style::Tone(share) => Look::Tone((share.clamp(0.0, 1.0) * TONES as f64).round() as usize),
            Style::Reference => Look::Reference,
        }
    }

    /// The looks of names that are written beside their data: their own if all have one, otherwise plain ones.
    pub(super) fn all_or_plain<'a>(&self, names: impl Iterator<Item = &'a str> + Clone) -> Vec<Look> {
        let known = names.clone().all(|name| self.names.iter().any(|other| other.as_deref() == Some(name)));
        names.map(|name| if known { self.look(name) } else { Look::Plain }).collect()
    }
}

/// The colour, marker and dash of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Look {
    /// A dot in the accent colour.
    Plain,
    /// A place in the palette.
    Place(usize),
    /// A step of the ramp.
    Tone(usize),
    /// The colour of text, dashed.
    Reference,
}

impl Look {
    /// The class that sets the colour, and the dash once the colours start over.
    pub(super) fn class(self) -> String {
        match self {
            Look::Plain => "pl-accent".into(),
            Look::Place(place) if place < COLOURS => format!("pl-c{}", place + 1),
            Look::Place(place) => format!("pl-c{} pl-d{}", place % COLOURS + 1, (place / COLOURS).min(3)),
            Look::Tone(step) => format!("pl-r{step}"),
            Look::Reference => "pl-ink pl-d1".into(),
        }
    }

    /// The outline of the marker around a place.
    pub(super) fn marker(self, (x, y): (f64, f64), r: f64) -> String {
        let corners = |points: &[(f64, f64)]| -> String {
            let placed: Vec<(f64, f64)> = points.iter().map(|(dx, dy)| (x + dx * r, y + dy * r)).collect();
            super::svg::polyline(&placed) + "Z"
        };
        let Look::Place(place) = self else { return circle(x, y, r) };
        match place % MARKERS {
            0 => circle(x, y, r),
            1 => corners(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]),
            2 => corners(&[(0.0, -1.2), (1.1, 0.8), (-1.1, 0.8)]),
            3 => corners(&[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)]),
            4 => corners(&[(0.0, 1.2), (1.1, -0.8), (-1.1, -0.8)]),
            5 => corners(&CROSS),
            _ => corners(&PENTAGON),
        }
    }
}

/// A plus sign with thick arms.
const CROSS: [(f64, f64); 12] = [
    (-0.5, -1.3),
    (0.5, -1.3),
    (0.5, -0.5),
    (1.3, -0.5),
    (1.3, 0.5),
    (0.5, 0.5),
    (0.5, 1.3),
    (-0.5, 1.3),
    (-0.5, 0.5),
    (-1.3, 0.5),
    (-1.3, -0.5),
    (-0.5, -0.5),
];

const PENTAGON: [(f64, f64); 5] = [(0.0, -1.2), (1.14, -0.37), (0.71, 0.97), (-0.71, 0.97), (-1.14, -0.37)];

fn circle(x: f64, y: f64, r: f64) -> String {
    let (left, y, r, span) = (Px(x - r), Px(y), Px(r), Px(2.0 * r));
    format!("M{left} {y}a{r} {r} 0 1 0 {span} 0a{r} {r} 0 1 0 -{span} 0Z")
}
