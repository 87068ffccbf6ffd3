//! Plots as SVG: axes with round ticks, direct labels, tooltips.
//!
//! A [`Plot`] is data; [`Plot::to_svg`] gives a picture that ranks alone, and a report places the same picture in its
//! page. Colours are chosen by series name, so that a model keeps its colour through a whole report, and every series
//! differs in marker or dash as well, for readers who do not see the colours apart.

mod axis;
mod bars;
mod frame;
mod labels;
mod line;
mod pareto;
mod scatter;
mod series;
mod spread;
mod svg;
mod theme;

pub use axis::{Axis, Scale, Unit};
pub use pareto::pareto_front;
pub use series::{Bars, Orientation, ParetoAxes, Point, Reference, Series, Style, Summary};
pub(super) use theme::{Colours, PLOT_CSS, dark_colours, light_colours};

use serde::Serialize;
use svg::Svg;

/// A plot: what it shows, its axes and its data.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plot {
    /// What the plot shows.
    pub title: String,
    /// A sentence or two on how to read it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub caption: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The data.
    pub shape: Shape,
    /// Lines across the plot that mark a level: a baseline's accuracy, say.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<Reference>,
    /// Whether the plot takes the full width of the page.
    pub full_width: bool,
}

/// The data of a plot and the way it is drawn.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// Curves through points, with a band where points have bounds.
    Lines(Vec<Series>),
    /// Points, with the Pareto front marked if one is asked for.
    Scatter {
        /// The points.
        series: Vec<Series>,
        /// Which way the axes get better, if the front is to be marked.
        #[serde(skip_serializing_if = "Option::is_none")]
        front: Option<ParetoAxes>,
    },
    /// Bars by category, grouped where there are several series; values may be negative.
    Bars {
        /// The categories, in order.
        categories: Vec<String>,
        /// One value a category and series.
        series: Vec<Bars>,
        /// Which way the bars run.
        orientation: Orientation,
    },
    /// Five-number summaries, one a line.
    Boxes(Vec<Summary>),
}

impl Plot {
    fn new(title: impl Into<String>, x: Axis, y: Axis, shape: Shape) -> Plot {
        let (title, caption) = (title.into(), String::new());
        Plot { title, caption, x, y, shape, references: Vec::new(), full_width: false }
    }

    /// Curves: learning curves, a metric against a setting, frequency by rank.
    pub fn lines(title: impl Into<String>, x: Axis, y: Axis, series: Vec<Series>) -> Plot {
        Plot::new(title, x, y, Shape::Lines(series))
    }

    /// Points by two values.
    pub fn scatter(title: impl Into<String>, x: Axis, y: Axis, series: Vec<Series>) -> Plot {
        Plot::new(title, x, y, Shape::Scatter { series, front: None })
    }

    /// Points by two values with the Pareto front marked.
    pub fn pareto(title: impl Into<String>, x: Axis, y: Axis, series: Vec<Series>, front: ParetoAxes) -> Plot {
        Plot::new(title, x, y, Shape::Scatter { series, front: Some(front) })
    }

    /// Bars by category; `value` is the axis of the values, whichever way the bars run.
    pub fn bars(
        title: impl Into<String>,
        value: Axis,
        categories: impl IntoIterator<Item = impl Into<String>>,
        series: Vec<Bars>,
    ) -> Plot {
        let categories = categories.into_iter().map(Into::into).collect();
        let shape = Shape::Bars { categories, series, orientation: Orientation::Auto };
        Plot::new(title, Axis::new(""), value, shape)
    }

    /// Five-number summaries, one a line; `value` is the axis of the values.
    pub fn boxes(title: impl Into<String>, value: Axis, boxes: Vec<Summary>) -> Plot {
        Plot::new(title, value, Axis::new(""), Shape::Boxes(boxes))
    }

    setters! {
        /// Adds a sentence on how to read the plot.
        fn caption(self, caption: impl Into<String>) { self.caption = caption.into() }
        /// Adds a line across the plot at a height.
        fn reference(self, value: f64, label: impl Into<String>) {
            self.references.push(Reference { value, label: label.into() })
        }
        /// Lets the plot take the full width of the page.
        fn full_width(self) { self.full_width = true }
    }

    /// Sets which way bars run; other plots stay as they are.
    pub fn orientation(mut self, wanted: Orientation) -> Plot {
        if let Shape::Bars { orientation, .. } = &mut self.shape {
            *orientation = wanted;
        }
        self
    }

    /// The plot as an SVG file of its own, with its title, light or dark as the viewer prefers.
    pub fn to_svg(&self) -> String {
        let width = if self.full_width { 920.0 } else { 640.0 };
        let style = format!(
            "svg{{{}}}@media (prefers-color-scheme:dark){{svg{{{}}}}}{}",
            light_colours(),
            dark_colours(),
            PLOT_CSS
        );
        self.draw(&Colours::shared(std::iter::empty()), width, Some(&style))
    }

    /// The plot for a page that brings the styles.
    pub(super) fn inline(&self, colours: &Colours, width: f64) -> String {
        self.draw(colours, width, None)
    }

    fn draw(&self, colours: &Colours, width: f64, style: Option<&str>) -> String {
        // Names that are written beside their data have a colour only if other plots gave them one.
        let assigned = match self.coloured_names() {
            names if names.is_empty() => None,
            names => Some(colours.assign(&names)),
        };
        let colours = assigned.as_ref().unwrap_or(colours);
        let canvas = Canvas { plot: self, colours, width, titled: style.is_some() };
        let (height, body) = match &self.shape {
            Shape::Lines(series) => line::draw(&canvas, series),
            Shape::Scatter { series, front } => scatter::draw(&canvas, series, *front),
            Shape::Bars { categories, series, orientation } => bars::draw(&canvas, categories, series, *orientation),
            Shape::Boxes(boxes) => spread::boxes(&canvas, boxes),
        };
        svg::document(&self.aria_label(), width, height, style, &body)
    }

    /// The names that need a colour, in order: not those labelled directly, nor those with a style of their own.
    pub(super) fn coloured_names(&self) -> Vec<&str> {
        let labelled_directly = match &self.shape {
            Shape::Scatter { series, .. } => scatter::labelled_directly(series),
            Shape::Bars { series, .. } => series.len() == 1,
            Shape::Boxes(_) => true,
            Shape::Lines(_) => false,
        };
        let named = self.series().into_iter().filter(|(_, style)| *style == Style::Named && !labelled_directly);
        named.map(|(name, _)| name).collect()
    }

    /// The names and styles of all series.
    fn series(&self) -> Vec<(&str, Style)> {
        match &self.shape {
            Shape::Lines(series) | Shape::Scatter { series, .. } => {
                series.iter().map(|s| (s.name.as_str(), s.style)).collect()
            }
            Shape::Bars { series, .. } => series.iter().map(|s| (s.name.as_str(), s.style)).collect(),
            Shape::Boxes(boxes) => boxes.iter().map(|b| (b.name.as_str(), Style::Named)).collect(),
        }
    }

    /// The text for screen readers.
    fn aria_label(&self) -> String {
        let axes = match (self.x.title.is_empty(), self.y.title.is_empty()) {
            (false, false) => format!(" {} against {}.", self.y.title, self.x.title),
            (true, false) => format!(" {}.", self.y.title),
            (false, true) => format!(" {}.", self.x.title),
            (true, true) => String::new(),
        };
        let names: Vec<&str> =
            self.series().into_iter().map(|(name, _)| name).filter(|name| !name.is_empty()).collect();
        let names = if names.is_empty() { String::new() } else { format!(" Series: {}.", names.join(", ")) };
        format!("{}.{axes}{names}", self.title.trim_end_matches('.'))
    }
}

/// What every drawing needs to know.
struct Canvas<'a> {
    plot: &'a Plot,
    colours: &'a Colours,
    width: f64,
    /// Whether the picture carries its own title.
    titled: bool,
}

impl Canvas<'_> {
    /// Whether the picture is made for a phone.
    fn narrow(&self) -> bool {
        self.width < 440.0
    }

    /// The height of the plot area of curves and points.
    fn area_height(&self) -> f64 {
        (self.width * 0.5).clamp(210.0, 360.0)
    }

    /// The picture of a plot without data.
    fn empty(&self) -> (f64, String) {
        let mut svg = Svg::default();
        let top = if self.titled { frame::TITLE } else { 0.0 };
        if self.titled {
            svg.text("pl-title", 0.0, 16.0, "start", &self.plot.title);
        }
        svg.text("pl-empty", self.width / 2.0, top + 64.0, "middle", "No data to show");
        (top + 128.0, svg.finish())
    }
}
