//! Errors of loading and writing data; each names file, line, field and what was expected.

use std::fmt;
use std::path::PathBuf;
use thiserror::Error;

/// A line, row or object of a file that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// The file's name.
    pub file: String,
    /// Line number from 1 (row number for Parquet).
    pub line: u64,
    /// The field that is wrong.
    pub field: &'static str,
    /// What was expected there.
    pub expected: String,
    /// What was found, shortened and with control characters escaped.
    pub text: String,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, field, expected, text } = self;
        write!(f, "{file}, line {line}, field {field}: expected {expected}, found `{text}`")
    }
}

/// Why data could not be loaded or written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DataError {
    /// Neither a path nor a set that is present under the data folder. Fields: what was asked for; where it was looked
    /// for, ready to print; where to get the set and under which terms, or what may have been meant.
    #[error("{0}: no such file, folder or data set{1}{2}")]
    NotFound(String, String, String),
    /// The operating system refused. Fields: the file or folder; the reason.
    #[error("{0}: {1}")]
    Io(String, #[source] std::io::Error),
    /// A line that is not as its format asks.
    #[error("{0}; bad lines can be skipped and counted on request")]
    BadLine(Box<BadLine>),
    /// A file of no bytes. Fields: the file.
    #[error("{0}: the file is empty")]
    Empty(String),
    /// A file without one usable interaction. Fields: the file; lines read; bad lines among them.
    #[error("{0}: no interactions in it ({1} lines, {2} bad ones skipped)")]
    NoRows(String, u64, u64),
    /// The content fits no known format. Fields: the file or folder; what was missing.
    #[error("{0}: cannot tell its format: {1}")]
    Unrecognised(String, String),
    /// A folder with several sets. Fields: the folder; the files that could have been meant.
    #[error("{0}: several data sets in one folder; name one of: {candidates}", candidates = .1.join(", "))]
    Ambiguous(String, Vec<String>),
    /// A column that is asked for and not there. Fields: the file; the column that is missing; those that are there.
    #[error("{0}: no column {1}; the columns are: {2}")]
    NoColumn(String, String, String),
    /// Columns that cannot be users and items, or that say two things. Fields: the file; what is wrong.
    #[error("{0}: {1}")]
    Columns(String, String),
    /// Files of one set that do not have the same columns. Fields: the file; what differs.
    #[error("{0}: {1}")]
    Mismatch(String, String),
    /// A Parquet file that cannot be read or written. Fields: the file; the message of the Parquet library.
    #[error("{0}: Parquet: {1}")]
    Parquet(String, String),
    /// More users, items or id text than the 32-bit indices hold. Fields: the file; what there is too much of.
    #[error("{0}: too large: {1}")]
    TooLarge(String, &'static str),
    /// A synthetic set that does not exist, or a setting it does not have. Fields: the specification after `synth:`;
    /// what is wrong with it.
    #[error("synth:{0}: {1}")]
    Synthetic(String, String),
    /// An id that the output format cannot hold. Fields: the file to be written; `user` or `item`; the id, escaped.
    #[error("{0}: {1} id `{2}` has a tab or line break, which delimited text cannot hold; write Parquet")]
    Unwritable(PathBuf, &'static str, String),
    /// A format, column or split specification that cannot be understood. Fields: what is being specified; the text
    /// given; what is accepted.
    #[error("{0} `{1}`: expected {2}")]
    Specification(&'static str, String, String),
}

/// What this crate returns.
pub(crate) type Result<T, E = DataError> = std::result::Result<T, E>;

/// What a user can do about an error; each program has its own words for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// Ask for bad lines to be skipped and counted.
    SkipBad,
    /// Say which columns hold what.
    Columns,
    /// Name the format.
    Format,
}

impl DataError {
    /// What helps, where an option does.
    pub fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::BadLine(_) => Some(Remedy::SkipBad),
            Self::NoColumn(..) | Self::Columns(..) => Some(Remedy::Columns),
            Self::Unrecognised(..) => Some(Remedy::Format),
            _ => None,
        }
    }

    pub(crate) fn io(path: impl fmt::Display, source: std::io::Error) -> Self {
        Self::Io(path.to_string(), source)
    }

    #[cfg(not(feature = "parquet"))]
    pub(crate) fn without_parquet(file: &str) -> Self {
        let reason = "needs the cargo feature `parquet`, which this build leaves out".to_owned();
        Self::Parquet(file.to_owned(), reason)
    }
}

/// Bytes made fit to show: at most 60 characters, control characters and quotes escaped.
pub(crate) fn shorten(bytes: &[u8]) -> String {
    const SHOWN: usize = 60;
    let (text, _) = crate::text::decode(&bytes[..bytes.len().min(4 * SHOWN)]);
    let mut shown = String::new();
    for (count, character) in text.chars().enumerate() {
        if count == SHOWN {
            shown.push('…');
            break;
        }
        match character {
            '\t' | '\n' | '\r' => shown.extend(character.escape_default()),
            _ if character.is_control() => shown.extend(character.escape_unicode()),
            _ => shown.push(character),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortens_and_escapes_text() {
        assert_eq!(shorten(b"a\tb\x00\xe9"), "a\\tb\\u{0}é");
        let long = shorten("ä".repeat(500).as_bytes());
        assert_eq!(long.chars().count(), 61);
        assert!(long.ends_with('…'));
    }
}
