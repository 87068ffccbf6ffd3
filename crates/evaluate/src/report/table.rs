//! Tables of results: typed columns, values with their uncertainty, and which of them is best.

use super::number::Format;
use serde::Serialize;

/// Which way a column's values get better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Larger is better.
    HigherBetter,
    /// Smaller is better.
    LowerBetter,
    /// Neither is; no value is marked.
    #[default]
    None,
}

impl Direction {
    /// Whether `a` is strictly better than `b`.
    pub fn prefers(self, a: f64, b: f64) -> bool {
        match self {
            Direction::HigherBetter => a > b,
            Direction::LowerBetter => a < b,
            Direction::None => false,
        }
    }

    pub(super) fn words(self) -> &'static str {
        match self {
            Direction::HigherBetter => "Higher is better.",
            Direction::LowerBetter => "Lower is better.",
            Direction::None => "",
        }
    }

    pub(super) fn arrow(self) -> &'static str {
        match self {
            Direction::HigherBetter => "↑",
            Direction::LowerBetter => "↓",
            Direction::None => "",
        }
    }
}

/// A column: what it is called, what it means and how its values are shown.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Column {
    /// The name in CSV and JSON.
    pub key: String,
    /// The heading.
    pub title: String,
    /// What the values mean, in a sentence.
    pub help: String,
    /// Which way the values get better.
    pub direction: Direction,
    /// How the values are shown.
    pub format: Format,
}

impl Column {
    /// A column of numbers with four decimals and no direction.
    pub fn new(key: impl Into<String>, title: impl Into<String>) -> Column {
        let (help, direction) = (String::new(), Direction::None);
        Column { key: key.into(), title: title.into(), help, direction, format: Format::Digits(4) }
    }

    setters! {
        /// Explains the values.
        fn help(self, help: impl Into<String>) { self.help = help.into() }
        /// Larger values are better.
        fn higher(self) { self.direction = Direction::HigherBetter }
        /// Smaller values are better.
        fn lower(self) { self.direction = Direction::LowerBetter }
        /// Sets which way values get better.
        fn direction(self, direction: Direction) { self.direction = direction }
        /// Shows this many decimals.
        fn digits(self, digits: u8) { self.format = Format::Digits(digits) }
        /// Sets how values are shown.
        fn format(self, format: Format) { self.format = format }
    }
}

/// A sign beside a value, explained in the table's legend.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mark {
    /// The sign, such as †.
    pub symbol: String,
    /// What it says, the same for every cell that carries it.
    pub meaning: String,
    /// What it says of this cell, such as "p = 0.003, d = 0.21"; shown on hover.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl Mark {
    /// A sign and its meaning.
    pub fn new(symbol: impl Into<String>, meaning: impl Into<String>) -> Mark {
        Mark { symbol: symbol.into(), meaning: meaning.into(), detail: None }
    }

    setters! {
        /// Adds what the sign says of this one cell.
        fn detail(self, detail: impl Into<String>) { self.detail = Some(detail.into()) }
    }
}

/// One value, or words, or nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Cell {
    /// The value; absent and NaN are both shown as a dash and never win.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Standard deviation (over seeds, say), shown as ±.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread: Option<f64>,
    /// Confidence interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<(f64, f64)>,
    /// Signs, such as that of a significant difference.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<Mark>,
    /// Words, shown in place of the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl Cell {
    /// A number.
    pub fn number(value: f64) -> Cell {
        Cell { value: Some(value), ..Cell::default() }
    }

    /// A number that may be missing.
    pub fn maybe(value: Option<f64>) -> Cell {
        Cell { value, ..Cell::default() }
    }

    /// Words.
    pub fn text(text: impl Into<String>) -> Cell {
        Cell { text: Some(text.into()), ..Cell::default() }
    }

    setters! {
        /// Adds a standard deviation.
        fn spread(self, spread: f64) { self.spread = Some(spread) }
        /// Adds a confidence interval.
        fn interval(self, low: f64, high: f64) { self.interval = Some((low, high)) }
        /// Adds a sign.
        fn mark(self, mark: Mark) { self.marks.push(mark) }
    }

    /// The value, if it is a number that can be compared.
    pub fn finite(&self) -> Option<f64> {
        self.value.filter(|x| x.is_finite())
    }

    /// What is shown in the place of the value, with an ASCII minus.
    pub(super) fn shown(&self, format: Format) -> String {
        match (&self.text, self.finite()) {
            (Some(text), _) => text.clone(),
            (None, Some(value)) => format.show(value),
            (None, None) => "–".into(),
        }
    }
}

/// One line of a table.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Row {
    /// What the line is about: a model, say.
    pub label: String,
    /// A word or two under the label, such as the chosen setting.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// One cell a column; missing ones at the end are shown as dashes.
    pub cells: Vec<Cell>,
    /// Lines with the same group rank together under it: a data set, say.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Whether the line is set off as the one the report is about.
    pub highlight: bool,
    /// Whether the line is shown for reference only (published figures, say) and cannot be best.
    pub reference: bool,
}

impl Row {
    /// A line without cells.
    pub fn new(label: impl Into<String>) -> Row {
        Row { label: label.into(), ..Row::default() }
    }

    setters! {
        /// Adds a cell.
        fn cell(self, cell: Cell) { self.cells.push(cell) }
        /// Adds a number for each value.
        fn numbers(self, values: impl IntoIterator<Item = f64>) {
            self.cells.extend(values.into_iter().map(Cell::number))
        }
        /// Adds words under the label.
        fn detail(self, detail: impl Into<String>) { self.detail = detail.into() }
        /// Puts the line in a group.
        fn group(self, group: impl Into<String>) { self.group = group.into() }
        /// Sets the line off.
        fn highlight(self) { self.highlight = true }
        /// Makes the line one for reference only.
        fn reference(self) { self.reference = true }
    }
}

/// A table with its caption, columns and lines.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Table {
    /// What the table shows; its CSV file is named after it.
    pub caption: String,
    /// The heading of the lines' labels: "Model", say.
    pub stub: String,
    /// The columns after the labels.
    pub columns: Vec<Column>,
    /// The lines.
    pub rows: Vec<Row>,
    /// Sentences under the table.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// A condition that holds for the whole table, such as "sampled: 99 negatives".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Whether each group has a best value of its own (groups are data sets) or the table has one.
    pub best_in_group: bool,
}

/// Where a value ranks in its column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CellRank {
    /// The best, alone or with others that print alike.
    Best,
    /// The next after a single best of three or more.
    Second,
    /// Any other, and every value of a column without a direction.
    #[default]
    Other,
}

impl Table {
    /// A table without columns and lines.
    pub fn new(caption: impl Into<String>, stub: impl Into<String>) -> Table {
        Table { caption: caption.into(), stub: stub.into(), ..Table::default() }
    }

    setters! {
        /// Adds a column.
        fn column(self, column: Column) { self.columns.push(column) }
        /// Adds a line.
        fn row(self, row: Row) { self.rows.push(row) }
        /// Adds a sentence under the table.
        fn note(self, note: impl Into<String>) { self.notes.push(note.into()) }
        /// Labels the whole table.
        fn label(self, label: impl Into<String>) { self.label = Some(label.into()) }
        /// Looks for the best value in each group by itself.
        fn best_in_group(self) { self.best_in_group = true }
    }

    /// The groups in order of first appearance, each with the numbers of its lines.
    pub fn groups(&self) -> Vec<(&str, Vec<usize>)> {
        let mut groups: Vec<(&str, Vec<usize>)> = Vec::new();
        for (at, row) in self.rows.iter().enumerate() {
            match groups.iter_mut().find(|(name, _)| *name == row.group) {
                Some((_, rows)) => rows.push(at),
                None => groups.push((&row.group, vec![at])),
            }
        }
        groups
    }

    /// Where each value ranks, line by line, column by column.
    ///
    /// What prints alike is marked alike. Nothing is marked where there is nothing to choose: a single value, or all
    /// values alike.
    pub fn cell_ranks(&self) -> Vec<Vec<CellRank>> {
        let mut out = vec![vec![CellRank::Other; self.columns.len()]; self.rows.len()];
        let scopes: Vec<Vec<usize>> = if self.best_in_group {
            self.groups().into_iter().map(|(_, rows)| rows).collect()
        } else {
            vec![(0..self.rows.len()).collect()]
        };
        for rows in &scopes {
            for column in 0..self.columns.len() {
                self.rank(rows, column, &mut out);
            }
        }
        out
    }

    fn rank(&self, rows: &[usize], column: usize, out: &mut [Vec<CellRank>]) {
        let Column { direction, format, .. } = self.columns[column];
        if direction == Direction::None || format == Format::Text {
            return;
        }
        let mut entries: Vec<(usize, f64)> =
            rows.iter().filter_map(|&r| Some((r, self.contender(r, column)?))).collect();
        entries.sort_by(|a, b| match direction {
            Direction::LowerBetter => a.1.total_cmp(&b.1),
            _ => b.1.total_cmp(&a.1),
        });
        let Some(&(_, best)) = entries.first() else { return };
        let like = |value: f64, other: f64| format.show(value) == format.show(other);
        let winners = entries.iter().take_while(|e| like(e.1, best)).count();
        if winners == entries.len() {
            return;
        }
        for &(row, _) in &entries[..winners] {
            out[row][column] = CellRank::Best;
        }
        if winners > 1 || entries.len() < 3 {
            return;
        }
        let second = entries[1].1;
        for &(row, _) in entries[1..].iter().take_while(|e| like(e.1, second)) {
            out[row][column] = CellRank::Second;
        }
    }

    /// The value of a cell that takes part in the search for the best.
    fn contender(&self, row: usize, column: usize) -> Option<f64> {
        let row = &self.rows[row];
        if row.reference { None } else { row.cells.get(column).and_then(Cell::finite) }
    }

    /// The signs used in the table and what they mean, in order of first appearance.
    pub fn legend(&self) -> Vec<(&str, &str)> {
        let mut out: Vec<(&str, &str)> = Vec::new();
        for mark in self.rows.iter().flat_map(|r| &r.cells).flat_map(|c| &c.marks) {
            let entry = (mark.symbol.as_str(), mark.meaning.as_str());
            if !out.contains(&entry) {
                out.push(entry);
            }
        }
        out
    }
}
