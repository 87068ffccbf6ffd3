//! Colours, markers and dashes, chosen by the names of series.

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

/// How many colours there are; markers and dashes tell further series apart.
const COLOURS: usize = 8;
const MARKERS: usize = 7;

/// The places of series names in the palette.
pub(in crate::report) struct Colours {
    names: Vec<String>,
}

impl Colours {
    /// Gives each new name the next place.
    pub(in crate::report) fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Colours {
        let mut known: Vec<String> = Vec::new();
        for name in names {
            if !known.iter().any(|other| other == name) {
                known.push(name.into());
            }
        }
        Colours { names: known }
    }

    /// The look of a name; one never seen has the plain look.
    pub(super) fn look(&self, name: &str) -> Look {
        self.names.iter().position(|other| other == name).map_or(Look::PLAIN, |place| Look { place })
    }

    /// The looks of names that are written beside their data: their own if all have one, otherwise plain ones.
    pub(super) fn all_or_plain<'a>(&self, names: impl Iterator<Item = &'a str> + Clone) -> Vec<Look> {
        let known = names.clone().all(|name| self.names.iter().any(|other| other == name));
        names.map(|name| if known { self.look(name) } else { Look::PLAIN }).collect()
    }
}

/// The colour, marker and dash of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Look {
    place: usize,
}

impl Look {
    /// A dot in the accent colour.
    pub(super) const PLAIN: Look = Look { place: usize::MAX };

    /// The class that sets the colour, and the dash once the colours start over.
    pub(super) fn class(self) -> String {
        match self.place / COLOURS {
            _ if self == Look::PLAIN => "pl-accent".into(),
            0 => format!("pl-c{}", self.place + 1),
            again => format!("pl-c{} pl-d{}", self.place % COLOURS + 1, again.min(3)),
        }
    }

    /// The outline of the marker around a place.
    pub(super) fn marker(self, (x, y): (f64, f64), r: f64) -> String {
        let corners = |points: &[(f64, f64)]| -> String {
            let placed: Vec<(f64, f64)> = points.iter().map(|(dx, dy)| (x + dx * r, y + dy * r)).collect();
            super::svg::polyline(&placed) + "Z"
        };
        match self.place % MARKERS {
            _ if self == Look::PLAIN => circle(x, y, r),
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
