//! Tables for a terminal.

use super::markup::plain;
use super::number::Format;
use super::table::{Cell, CellRank, Table};
use std::collections::BTreeSet;

impl Table {
    /// The table as aligned text, at most `width` columns wide where labels can be shortened to make it so.
    ///
    /// The best value of a column carries `*`. There are no colour codes.
    pub fn to_text(&self, width: usize) -> String {
        Layout::new(self, width).render(false)
    }

    /// The same with the caption and the best values in bold, by ANSI codes.
    pub fn to_text_styled(&self, width: usize) -> String {
        Layout::new(self, width).render(true)
    }
}

const GAP: usize = 2;
/// Labels are not shortened below this.
const SHORTEST_LABEL: usize = 12;

/// A cell in three parts that are aligned by themselves: value, signs, spread.
struct Parts {
    value: String,
    signs: String,
    spread: String,
}

/// The widths of the parts of a column.
struct Widths {
    words: bool,
    value: usize,
    signs: usize,
    spread: usize,
}

impl Widths {
    fn total(&self) -> usize {
        self.value + self.signs + self.spread
    }

    fn lay(&self, parts: &Parts, bold: bool) -> String {
        let value = match self.words {
            true => pad_right(&parts.value, self.value),
            false => pad_left(&parts.value, self.value),
        };
        let main = embolden(&(value + &pad_right(&parts.signs, self.signs)), bold);
        " ".repeat(GAP) + &main + &pad_left(&parts.spread, self.spread)
    }
}

struct Layout<'a> {
    table: &'a Table,
    cells: Vec<Vec<Parts>>,
    cell_ranks: Vec<Vec<CellRank>>,
    label_width: usize,
    widths: Vec<Widths>,
}

impl<'a> Layout<'a> {
    fn new(table: &'a Table, width: usize) -> Layout<'a> {
        let cell_ranks = table.cell_ranks();
        let cells = parts(table, &cell_ranks);
        let widths: Vec<Widths> = (0..table.columns.len()).map(|at| widths(table, &cells, at)).collect();
        let taken: usize = widths.iter().map(|w| w.total() + GAP).sum();
        let longest = table.rows.iter().map(|row| columns(&row.label) + indent(&row.group)).max();
        let wanted = longest.unwrap_or(0).max(columns(&table.stub));
        let label_width = wanted.min(width.saturating_sub(taken).max(SHORTEST_LABEL));
        // Rows that nobody can tell apart are worse than lines that the terminal wraps.
        let label_width = (label_width..wanted).find(|&width| are_distinct(table, width)).unwrap_or(wanted);
        Layout { table, cells, cell_ranks, label_width, widths }
    }

    fn render(&self, styled: bool) -> String {
        let table = self.table;
        let mut out = String::new();
        if !table.caption.is_empty() {
            let label = table.label.as_ref().map(|label| format!(" [{label}]")).unwrap_or_default();
            line(&mut out, &format!("{}{label}", embolden(&table.caption, styled)));
        }
        line(&mut out, &self.heading());
        let full = self.label_width + self.widths.iter().map(|w| w.total() + GAP).sum::<usize>();
        line(&mut out, &"─".repeat(full));
        for (group, rows) in table.groups() {
            if !group.is_empty() {
                line(&mut out, group);
            }
            for row in rows {
                line(&mut out, &self.row(row, styled));
            }
        }
        self.footer(&mut out);
        out
    }

    fn heading(&self) -> String {
        let mut text = pad_right(&self.table.stub, self.label_width);
        for (column, widths) in self.table.columns.iter().zip(&self.widths) {
            let title = Parts { value: column.title.clone(), signs: String::new(), spread: String::new() };
            text += &widths.lay(&title, false);
        }
        text
    }

    fn row(&self, at: usize, styled: bool) -> String {
        let row = &self.table.rows[at];
        let indent = indent(&row.group);
        let label = shorten(&row.label, self.label_width.saturating_sub(indent));
        let mut text = pad_right(&format!("{}{label}", " ".repeat(indent)), self.label_width);
        for (column, parts) in self.cells[at].iter().enumerate() {
            let best = self.cell_ranks[at][column] == CellRank::Best;
            text += &self.widths[column].lay(parts, styled && best);
        }
        text
    }

    fn footer(&self, out: &mut String) {
        if self.cell_ranks.iter().flatten().any(|s| *s == CellRank::Best) {
            let scope = if self.table.best_in_group { "best of its column and group" } else { "best of its column" };
            line(out, &format!("* {scope}"));
        }
        for (symbol, meaning) in self.table.legend() {
            line(out, &format!("{symbol} {}", plain(meaning)));
        }
        for note in &self.table.notes {
            line(out, &plain(note));
        }
    }
}

/// Whether labels of rows that differ still do if they are shortened to this width.
fn are_distinct(table: &Table, width: usize) -> bool {
    let labels = table.rows.iter().map(|row| (row.group.as_str(), row.label.as_str()));
    let shortened = |(group, label): (_, &str)| (group, shorten(label, width.saturating_sub(indent(group))));
    labels.clone().map(shortened).collect::<BTreeSet<_>>().len() == labels.collect::<BTreeSet<_>>().len()
}

fn parts(table: &Table, cell_ranks: &[Vec<CellRank>]) -> Vec<Vec<Parts>> {
    let empty = Cell::default();
    let rows = table.rows.iter().zip(cell_ranks);
    rows.map(|(row, ranks)| {
        let cells = table.columns.iter().zip(ranks).enumerate();
        cells.map(|(at, (column, rank))| show(row.cells.get(at).unwrap_or(&empty), column.format, *rank)).collect()
    })
    .collect()
}

fn widths(table: &Table, cells: &[Vec<Parts>], at: usize) -> Widths {
    let widest = |part: fn(&Parts) -> &str| cells.iter().map(|row| columns(part(&row[at]))).max().unwrap_or(0);
    Widths {
        words: table.columns[at].format == Format::Text,
        value: widest(|p| &p.value).max(columns(&table.columns[at].title)),
        signs: widest(|p| &p.signs),
        spread: widest(|p| &p.spread),
    }
}

fn show(cell: &Cell, format: Format, rank: CellRank) -> Parts {
    let spread = cell.spread.filter(|s| s.is_finite() && cell.text.is_none());
    let star = if rank == CellRank::Best { "*" } else { "" };
    let signs = std::iter::once(star).chain(cell.marks.iter().map(|mark| mark.symbol.as_str()));
    Parts {
        value: cell.shown(format),
        signs: signs.collect(),
        spread: spread.map(|s| format!(" ±{}", format.show(s))).unwrap_or_default(),
    }
}

/// Lines of a group rank under its name.
fn indent(group: &str) -> usize {
    if group.is_empty() { 0 } else { 2 }
}

fn line(out: &mut String, text: &str) {
    out.push_str(text.trim_end());
    out.push('\n');
}

fn embolden(text: &str, styled: bool) -> String {
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
