//! The report of loading: nothing is dropped silently.

use crate::error::BadLine;
use serde::Serialize;
use std::fmt;

/// What was read, skipped and assumed while loading.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LoadReport {
    /// The files that were read, interactions first.
    pub files: Vec<String>,
    /// Lines (rows) of the interactions files, header and blank lines included.
    pub lines: u64,
    /// Blank lines.
    pub blank: u64,
    /// Comment lines at the top of the files.
    pub comments: u64,
    /// Bad lines.
    #[serde(flatten)]
    pub bad: SkippedLines,
    /// Fields that were not UTF-8 and were read as Latin-1.
    pub latin1: u64,
    /// Items with metadata but without interactions.
    pub only_described: u64,
    /// Assumptions and conversions, as sentences: units of time, files joined.
    pub remarks: Vec<String>,
    /// Which columns were read as what; `None` for invented data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub columns: Option<ColumnReport>,
    /// Whether the rows are in the order of time without saying when they were: sequences, or lines that the user says
    /// are in order.
    pub in_order: bool,
    /// Lines that repeat the header, as in files put one behind the other. They are skipped.
    pub repeated_headers: u64,
}

/// Which columns (or fields) were read as what, by name, or by number from 0 where there are no names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ColumnReport {
    /// Who.
    pub user: String,
    /// What.
    pub item: String,
    /// How much they liked it.
    pub rating: Option<String>,
    /// When.
    pub timestamp: Option<String>,
    /// Columns that are not read.
    pub ignored: Vec<String>,
}

impl ColumnReport {
    /// Of a format that has its own names or places for everything.
    pub(crate) fn fixed(user: &str, item: &str, rating: Option<&str>, timestamp: Option<&str>) -> Self {
        let [rating, timestamp] = [rating, timestamp].map(|name| name.map(str::to_owned));
        Self { user: user.to_owned(), item: item.to_owned(), rating, timestamp, ignored: Vec::new() }
    }
}

impl fmt::Display for ColumnReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 12;
        write!(f, "user = {}, item = {}", self.user, self.item)?;
        for (role, column) in [("rating", &self.rating), ("timestamp", &self.timestamp)] {
            match column {
                Some(column) => write!(f, ", {role} = {column}")?,
                None => write!(f, ", no {role}")?,
            }
        }
        if !self.ignored.is_empty() {
            write!(f, "; ignored: {}", self.ignored[..self.ignored.len().min(SHOWN)].join(", "))?;
        }
        match self.ignored.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// How many bad lines are reported in full.
const EXAMPLES: usize = 5;

/// Bad lines that were skipped on request.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SkippedLines {
    /// How many there are.
    pub skipped: u64,
    /// The first of them, as messages.
    pub examples: Vec<String>,
}

impl SkippedLines {
    pub(crate) fn add(&mut self, bad: &BadLine) {
        self.skipped += 1;
        if self.examples.len() < EXAMPLES {
            self.examples.push(bad.to_string());
        }
    }
}
