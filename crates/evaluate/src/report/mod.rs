//! Reports: one self-contained HTML file, with the same tables as CSV and everything as JSON.
//!
//! A [`Report`] is plain data: sentences, [`Table`]s, [`Plot`]s, [`DataCard`]s, the exact configuration. Whoever has
//! results fills one in; this module turns it into pages and knows nothing of models or protocols. The page needs no
//! network, follows the reader's light or dark preference, and keeps its content with scripts turned off: the script
//! only adds sorting, hover values and the theme switch.
//!
//! ```
//! use sottovoce_evaluate::report::{Cell, Column, Report, Row, Table};
//!
//! let table = Table::new("Accuracy at 10", "Model")
//!     .column(Column::new("ndcg", "nDCG").higher().digits(4).help("Discounted gain over the ideal order."))
//!     .row(Row::new("mostpop").cell(Cell::number(0.1203)))
//!     .row(Row::new("ials").cell(Cell::number(0.1894)));
//! assert!(table.to_text(80).contains("0.1894*"));
//!
//! let report = Report::new("A first comparison").sentence("**ials** is ahead.").table("Accuracy", table);
//! assert!(report.to_html().starts_with("<!doctype html>"));
//! ```

/// Methods of a builder: each changes one thing and returns the builder.
macro_rules! setters {
    ($($(#[$doc:meta])* fn $name:ident($self:ident $(, $arg:ident: $type:ty)*) { $change:expr })+) => {$(
        $(#[$doc])*
        pub fn $name(mut $self $(, $arg: $type)*) -> Self {
            $change;
            $self
        }
    )+};
}

mod csv;
mod date;
mod html;
mod markup;
mod model;
mod number;
pub mod plot;
mod table;
mod text;
mod write;

pub use model::{Block, DataCard, KeyFigure, Report, Section};
pub use number::Format;
pub use plot::Plot;
pub use table::{Cell, CellRank, Column, Direction, Mark, Row, Table};
pub use write::WriteError;
