//! Tables for a terminal.

use super::number::Format;
use super::table::{Cell, Standing, Table};

impl Table {
    /// The table as aligned text, at most `width` columns wide where labels can be shortened to make it so.
    ///
    /// The best value of a column carries `*`. There are no colour codes.
    pub fn to_text(&self, width: usize) -> String {
        Layout::new(self, width).render(false)
    }

    /// The same with the best values and the caption in bold, by ANSI codes.
    pub fn to_text_styled(&self, width: usize) -> String {
        Layout::new(self, width).render(true)
    }
}

const GAP: usize = 2;
/// Labels are not shortened below this.
const SHORTEST_LABEL: usize = 12;

struct Layout<'a> {
    table: &'a Table,
    cells: Vec<Vec<String>>,
    standings: Vec<Vec<Standing>>,
    label_width: usize,
    widths: Vec<usize>,
}

impl<'a> Layout<'a> {
    fn new(table: &'a Table, width: usize) -> Layout<'a> {
        let standings = table.standings();
        let empty = Cell::default();
        let cells: Vec<Vec<String>> = table
            .rows
            .iter()
            .zip(&standings)
            .map(|(row, stands)| {
                let cell = |at: usize| row.cells.get(at).unwrap_or(&empty);
                (0..table.columns.len())
                    .map(|at| show(cell(at), table.columns[at].format, stands[at]))
                    .collect()
            })
            .collect();
        let widths: Vec<usize> = (0..table.columns.len())
            .map(|at| {
                cells.iter().map(|row| columns(&row[at])).max().unwrap_or(0).max(heading_width(table, at))
            })
            .collect();
        let taken: usize = widths.iter().map(|w| w + GAP).sum();
        let longest = table.rows.iter().map(|row| columns(&row.label) + indent(row.group.is_empty())).max();
        let wanted = longest.unwrap_or(0).max(columns(&table.stub));
        let label_width = wanted.min(width.saturating_sub(taken).max(SHORTEST_LABEL));
        Layout { table, cells, standings, label_width, widths }
    }

    fn render(&self, styled: bool) -> String {
        let table = self.table;
        let mut out = String::new();
        if !table.caption.is_empty() {
            let label = table.label.as_ref().map(|label| format!(" [{label}]")).unwrap_or_default();
            line(&mut out, &format!("{}{label}", bold(&table.caption, styled)));
        }
        line(&mut out, &self.heading());
        line(&mut out, &"─".repeat(self.label_width + self.widths.iter().map(|w| w + GAP).sum::<usize>()));
        for (group, rows) in table.groups() {
            if !group.is_empty() {
                line(&mut out, group);
            }
            for row in rows {
                line(&mut out, &self.row(row, indent(group.is_empty()), styled));
            }
        }
        self.footer(&mut out);
        out
    }

    fn heading(&self) -> String {
        let mut text = pad_right(&self.table.stub, self.label_width);
        for (column, width) in self.table.columns.iter().zip(&self.widths) {
            let (title, room) = (&column.title, width + GAP);
            text += &match column.format {
                Format::Text => " ".repeat(GAP) + &pad_right(title, *width),
                // One place is kept for the star, so that digits stand under the heading's end.
                _ => pad_left(&format!("{title} "), room),
            };
        }
        text
    }

    fn row(&self, at: usize, indent: usize, styled: bool) -> String {
        let label = shorten(&self.table.rows[at].label, self.label_width.saturating_sub(indent));
        let mut text = pad_right(&format!("{}{label}", " ".repeat(indent)), self.label_width);
        for (column, cell) in self.cells[at].iter().enumerate() {
            let padded = match self.table.columns[column].format {
                Format::Text => pad_right(cell, self.widths[column]),
                _ => pad_left(cell, self.widths[column]),
            };
            text += &" ".repeat(GAP);
            text += &bold(&padded, styled && self.standings[at][column] == Standing::Best);
        }
        text
    }

    fn footer(&self, out: &mut String) {
        if self.standings.iter().flatten().any(|s| *s == Standing::Best) {
            line(out, "* best of its column");
        }
        for (symbol, meaning) in self.table.legend() {
            line(out, &format!("{symbol} {meaning}"));
        }
        for note in &self.table.notes {
            line(out, &super::markup::plain(note));
        }
    }
}

fn indent(top_level: bool) -> usize {
    if top_level { 0 } else { 2 }
}

fn heading_width(table: &Table, at: usize) -> usize {
    columns(&table.columns[at].title) + usize::from(table.columns[at].format != Format::Text)
}

/// A cell as text; numbers end in one place for the star.
fn show(cell: &Cell, format: Format, standing: Standing) -> String {
    let mut text = cell.shown(format);
    let spread = cell.spread.filter(|s| s.is_finite()).filter(|_| cell.text.is_none());
    if let Some(spread) = spread {
        text += &format!(" ±{}", format.show(spread));
    }
    text.extend(cell.marks.iter().map(|mark| mark.symbol.as_str()));
    if format != Format::Text {
        text.push(if standing == Standing::Best { '*' } else { ' ' });
    }
    text
}

fn line(out: &mut String, text: &str) {
    out.push_str(text.trim_end());
    out.push('\n');
}

fn bold(text: &str, styled: bool) -> String {
    if styled { format!("\x1b[1m{text}\x1b[0m") } else { text.into() }
}

fn pad_left(text: &str, width: usize) -> String {
    " ".repeat(width.saturating_sub(columns(text))) + text
}

fn pad_right(text: &str, width: usize) -> String {
    text.to_string() + &" ".repeat(width.saturating_sub(columns(text)))
}

fn shorten(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.into();
    }
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars() {
        let more = columns(c.encode_utf8(&mut [0; 4]));
        if used + more + 1 > width {
            break;
        }
        used += more;
        out.push(c);
    }
    out + "…"
}

/// The columns a text takes on a terminal: two for wide characters, none for combining marks.
fn columns(text: &str) -> usize {
    unicode_width::UnicodeWidthStr::width(text)
}
