//! Labels in a plot: their width, and positions where they do not overlap.

/// The size of labels, in pixels.
pub(super) const LABEL_SIZE: f64 = 12.0;

/// The width of a text in pixels, estimated for common sans-serif faces and a little generous.
pub(super) fn text_width(text: &str) -> f64 {
    text.chars().map(|c| char_width(c) * LABEL_SIZE).sum()
}

fn char_width(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | ' ' | '\u{a0}' => 0.29,
        'f' | 'r' | 't' | '(' | ')' | '[' | ']' | '-' | 'I' | '/' => 0.38,
        'm' | 'w' | 'M' | 'W' | '@' | '%' => 0.9,
        'A'..='Z' => 0.68,
        '0'..='9' => 0.62,
        c if (c as u32) >= 0x1100 && !('\u{2000}'..='\u{2BFF}').contains(&c) => 1.0,
        _ => 0.57,
    }
}

/// Shortens a text to a width, with an ellipsis where something is cut.
pub(super) fn fit(text: &str, width: f64) -> String {
    if text_width(text) <= width {
        return text.into();
    }
    let mut kept = String::new();
    for c in text.chars() {
        if text_width(&kept) + char_width(c) * LABEL_SIZE + LABEL_SIZE * 0.8 > width {
            break;
        }
        kept.push(c);
    }
    kept.trim_end().to_string() + "…"
}

/// A rectangle, in pixels: where data is drawn, or what a label takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
}

impl Area {
    /// The square around a marker.
    pub(super) fn around((x, y): (f64, f64), r: f64) -> Area {
        Area { left: x - r, top: y - r, right: x + r, bottom: y + r }
    }

    /// Of the area where data is drawn, the area that its labels may use.
    pub(super) fn label_area(&self) -> Area {
        Area { left: self.left, top: self.top - 12.0, right: self.right + 8.0, bottom: self.bottom + 8.0 }
    }

    fn overlaps(&self, other: &Area) -> bool {
        self.left < other.right && other.left < self.right && self.top < other.bottom && other.top < self.bottom
    }

    fn inside(&self, other: &Area) -> bool {
        self.left >= other.left && self.right <= other.right && self.top >= other.top && self.bottom <= other.bottom
    }
}

/// The position of a label.
pub(super) struct Placed {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) anchor: &'static str,
}

/// Finds free positions for labels, one after the other.
pub(super) struct Placer {
    room: Area,
    taken: Vec<Area>,
    /// Strokes, which labels avoid if possible.
    crossed: Vec<Area>,
}

impl Placer {
    /// Labels stay within `room`, outside the areas given and, if possible, off the strokes given.
    pub(super) fn new(room: Area, taken: Vec<Area>, strokes: &[Vec<(f64, f64)>]) -> Placer {
        Placer { room, taken, crossed: strokes.iter().flat_map(|stroke| along(stroke)).collect() }
    }

    /// The first free position around a point: the four sides, then the corners; `None` if all are taken.
    pub(super) fn place(&mut self, (x, y): (f64, f64), text: &str) -> Option<Placed> {
        let spots = [
            (9.0, 4.0, "start"),
            (0.0, -9.0, "middle"),
            (-9.0, 4.0, "end"),
            (0.0, 18.0, "middle"),
            (7.0, -7.0, "start"),
            (7.0, 16.0, "start"),
            (-7.0, -7.0, "end"),
            (-7.0, 16.0, "end"),
        ];
        self.first_free(&spots.map(|(dx, dy, anchor)| (x + dx, y + dy, anchor)), text)
    }

    /// The first free position, off all strokes if there is one.
    pub(super) fn first_free(&mut self, spots: &[(f64, f64, &'static str)], text: &str) -> Option<Placed> {
        let width = text_width(text);
        let open = |area: &Area| area.inside(&self.room) && !self.taken.iter().any(|other| other.overlaps(area));
        let clear = |area: &Area| !self.crossed.iter().any(|other| other.overlaps(area));
        let areas: Vec<(Area, Placed)> = spots
            .iter()
            .map(|&(x, y, anchor)| (extent(x, y, anchor, width), Placed { x, y, anchor }))
            .filter(|(area, _)| open(area))
            .collect();
        let at = areas.iter().position(|(area, _)| clear(area)).unwrap_or(0);
        let (area, placed) = areas.into_iter().nth(at)?;
        self.taken.push(area);
        Some(placed)
    }
}

/// The area of a text on its base line.
fn extent(x: f64, y: f64, anchor: &str, width: f64) -> Area {
    let left = match anchor {
        "start" => x,
        "end" => x - width,
        _ => x - width / 2.0,
    };
    Area { left: left - 3.0, right: left + width + 3.0, top: y - 10.0, bottom: y + 3.0 }
}

/// Small squares along a stroke.
fn along(stroke: &[(f64, f64)]) -> Vec<Area> {
    let mut out = Vec::new();
    for pair in stroke.windows(2) {
        let (dx, dy) = (pair[1].0 - pair[0].0, pair[1].1 - pair[0].1);
        let steps = (dx.hypot(dy) / 5.0).ceil().clamp(1.0, 400.0) as usize;
        out.extend((0..=steps).map(|at| {
            let share = at as f64 / steps as f64;
            Area::around((pair[0].0 + dx * share, pair[0].1 + dy * share), 1.5)
        }));
    }
    out
}

/// Moves heights apart until neighbours are `gap` away from each other, within `low` to `high`; order is kept.
pub(super) fn stagger(wanted: &[f64], gap: f64, low: f64, high: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|&a, &b| wanted[a].total_cmp(&wanted[b]).then(a.cmp(&b)));
    let mut out = wanted.to_vec();
    let mut floor = low;
    for &at in &order {
        out[at] = out[at].max(floor);
        floor = out[at] + gap;
    }
    let mut ceiling = high;
    for &at in order.iter().rev() {
        out[at] = out[at].min(ceiling);
        ceiling = out[at] - gap;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stagger_keeps_distance_and_order() {
        let out = stagger(&[50.0, 48.0, 49.0, 99.0], 10.0, 0.0, 100.0);
        assert_eq!(out, [68.0, 48.0, 58.0, 99.0]);
        let low = stagger(&[98.0, 97.0, 99.0], 10.0, 0.0, 100.0);
        assert_eq!(low, [90.0, 80.0, 100.0]);
    }

    #[test]
    fn labels_do_not_overlap() {
        let room = Area { left: 0.0, top: 0.0, right: 200.0, bottom: 100.0 };
        let mut placer = Placer::new(room, vec![Area::around((100.0, 50.0), 5.0)], &[]);
        let first = placer.place((100.0, 50.0), "one label").unwrap();
        let second = placer.place((100.0, 50.0), "one label").unwrap();
        assert_eq!((first.anchor, second.anchor), ("start", "middle"));
        assert!(placer.place((100.0, 50.0), &"far too long to fit anywhere".repeat(3)).is_none());
    }

    #[test]
    fn labels_avoid_strokes() {
        let room = Area { left: 0.0, top: 0.0, right: 200.0, bottom: 100.0 };
        let level = vec![vec![(0.0, 50.0), (200.0, 50.0)]];
        let above = Placer::new(room, Vec::new(), &level).place((100.0, 50.0), "label").unwrap();
        assert_eq!((above.anchor, above.y), ("middle", 41.0));
        let everywhere: Vec<Vec<(f64, f64)>> =
            (0..100).map(|y| vec![(0.0, f64::from(y)), (200.0, f64::from(y))]).collect();
        assert_eq!(Placer::new(room, Vec::new(), &everywhere).place((100.0, 50.0), "label").unwrap().anchor, "start");
    }

    #[test]
    fn long_labels_are_shortened() {
        assert_eq!(fit("short", 100.0), "short");
        let cut = fit("a rather long name for a category", 90.0);
        assert!(cut.ends_with('…') && text_width(&cut) <= 90.0, "{cut}");
    }
}
