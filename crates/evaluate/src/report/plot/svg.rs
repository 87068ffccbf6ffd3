//! The little of SVG that the plots need.

use crate::report::markup::escape;
use std::fmt::{self, Write};

/// A coordinate with at most two decimals, so that pictures stay small and the same everywhere.
#[derive(Clone, Copy)]
pub(super) struct Px(pub(super) f64);

impl fmt::Display for Px {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rounded = (self.0 * 100.0).round() / 100.0;
        // Adding zero turns -0 into 0.
        write!(f, "{}", rounded + 0.0)
    }
}

/// A picture's body in the making. Texts and attributes are escaped here and nowhere else.
#[derive(Default)]
pub(super) struct Svg {
    out: String,
}

/// Attributes: names and values.
pub(super) type Attributes<'a> = &'a [(&'a str, &'a dyn fmt::Display)];

impl Svg {
    /// The body written so far.
    pub(super) fn finish(self) -> String {
        self.out
    }

    /// Opens an element.
    pub(super) fn open(&mut self, tag: &str, attributes: Attributes<'_>) {
        self.start(tag, attributes);
        self.out.push('>');
    }

    /// Closes an element.
    pub(super) fn close(&mut self, tag: &str) {
        self.out.extend(["</", tag, ">"]);
    }

    /// An element without content.
    pub(super) fn empty(&mut self, tag: &str, attributes: Attributes<'_>) {
        self.start(tag, attributes);
        self.out.push_str("/>");
    }

    fn start(&mut self, tag: &str, attributes: Attributes<'_>) {
        self.out.extend(["<", tag]);
        for (name, value) in attributes {
            self.out.extend([" ", name, "=\"", &escape(&value.to_string()), "\""]);
        }
    }

    /// A line of text; `anchor` is start, middle or end.
    pub(super) fn text(&mut self, class: &str, x: f64, y: f64, anchor: &str, text: &str) {
        match anchor {
            "start" => self.open("text", &[("class", &class), ("x", &Px(x)), ("y", &Px(y))]),
            _ => self.open("text", &[("class", &class), ("x", &Px(x)), ("y", &Px(y)), ("text-anchor", &anchor)]),
        }
        self.out.push_str(&escape(text));
        self.close("text");
    }

    /// A straight line.
    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let (x1, y1, x2, y2) = (Px(from.0), Px(from.1), Px(to.0), Px(to.1));
        self.empty("line", &[("class", &class), ("x1", &x1), ("y1", &y1), ("x2", &x2), ("y2", &y2)]);
    }

    /// A path.
    pub(super) fn path(&mut self, class: &str, d: &str) {
        self.empty("path", &[("class", &class), ("d", &d)]);
    }

    /// A rectangle.
    pub(super) fn rect(&mut self, class: &str, corner: (f64, f64), size: (f64, f64)) {
        let (x, y, width, height) = (Px(corner.0), Px(corner.1), Px(size.0), Px(size.1));
        self.empty("rect", &[("class", &class), ("x", &x), ("y", &y), ("width", &width), ("height", &height)]);
    }

    /// A group that the pointer can find at a place, with the words to show there.
    pub(super) fn open_mark(&mut self, class: &str, at: (f64, f64), words: &str) {
        self.open("g", &[("class", &format!("pl-tip {class}")), ("data-x", &Px(at.0)), ("data-y", &Px(at.1))]);
        self.open("title", &[]);
        self.out.push_str(&escape(words));
        self.close("title");
    }
}

/// A path through points: `M` to the first, `L` to the others.
pub(super) fn polyline(points: &[(f64, f64)]) -> String {
    let mut d = String::new();
    for (at, (x, y)) in points.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = write!(d, "{}{} {}", if at == 0 { "M" } else { "L" }, Px(*x), Px(*y));
    }
    d
}

/// The whole picture: with a style it ranks alone, without one it belongs in a page.
pub(super) fn document(aria_label: &str, width: f64, height: f64, style: Option<&str>, body: &str) -> String {
    let mut svg = Svg::default();
    let view = format!("0 0 {} {}", Px(width), Px(height));
    match style {
        None => {
            svg.open("svg", &[("class", &"pl"), ("viewBox", &view), ("role", &"img"), ("aria-label", &aria_label)]);
        }
        Some(style) => {
            // A margin around the picture, which a page would bring.
            let view = format!("-20 -16 {} {}", Px(width + 40.0), Px(height + 32.0));
            let (w, h) = (Px(width + 40.0), Px(height + 32.0));
            let namespace = "http://www.w3.org/2000/svg";
            svg.open(
                "svg",
                &[
                    ("xmlns", &namespace),
                    ("class", &"pl pl-alone"),
                    ("viewBox", &view),
                    ("width", &w),
                    ("height", &h),
                    ("role", &"img"),
                    ("aria-label", &aria_label),
                ],
            );
            svg.out.extend(["<style>", style, "</style>"]);
            svg.rect("pl-paper", (-20.0, -16.0), (width + 40.0, height + 32.0));
        }
    }
    svg.out.push_str(body);
    svg.close("svg");
    svg.finish()
}
