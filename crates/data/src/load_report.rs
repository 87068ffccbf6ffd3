//! The report of loading: nothing is dropped silently.

use crate::error::BadLine;
use serde::Serialize;

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
