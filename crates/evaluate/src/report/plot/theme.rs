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

    /// The look of a name; one never seen has the first place.
    pub(super) fn look(&self, name: &str) -> Look {
        Look { place: self.names.iter().position(|other| other == name).unwrap_or(0) }
    }
}

/// The colour, marker and dash of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Look {
    place: usize,
}

impl Look {
    /// The class that sets the colour.
    pub(super) fn class(self) -> String {
        format!("pl-c{}", self.place % COLOURS + 1)
    }

    /// The class that sets the dash of a curve without markers.
    pub(super) fn dash(self) -> String {
        format!("pl-d{}", (self.place + self.place / COLOURS) % 5)
    }

    /// The outline of the marker around a place.
    pub(super) fn marker(self, (x, y): (f64, f64), r: f64) -> String {
        let corners = |points: &[(f64, f64)]| -> String {
            let placed: Vec<(f64, f64)> = points.iter().map(|(dx, dy)| (x + dx * r, y + dy * r)).collect();
            super::svg::polyline(&placed) + "Z"
        };
        match self.place % MARKERS {
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
    (-0.4, -1.2),
    (0.4, -1.2),
    (0.4, -0.4),
    (1.2, -0.4),
    (1.2, 0.4),
    (0.4, 0.4),
    (0.4, 1.2),
    (-0.4, 1.2),
    (-0.4, 0.4),
    (-1.2, 0.4),
    (-1.2, -0.4),
    (-0.4, -0.4),
];

const PENTAGON: [(f64, f64); 5] = [(0.0, -1.2), (1.14, -0.37), (0.71, 0.97), (-0.71, 0.97), (-1.14, -0.37)];

fn circle(x: f64, y: f64, r: f64) -> String {
    let (left, y, r, span) = (Px(x - r), Px(y), Px(r), Px(2.0 * r));
    format!("M{left} {y}a{r} {r} 0 1 0 {span} 0a{r} {r} 0 1 0 -{span} 0Z")
}
