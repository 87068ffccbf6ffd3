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
    /// Neither a path nor a set that is present under the data folder.
    #[error("{name}: no such file, folder or data set{searched}{advice}")]
    NotFound {
        /// What was asked for.
        name: String,
        /// Where it was looked for, ready to print.
        searched: String,
        /// Where to get the set and under which terms, or what may have been meant.
        advice: String,
    },
    /// The operating system refused.
    #[error("{path}: {source}")]
    Io {
        /// The file or folder.
        path: String,
        /// The reason.
        source: std::io::Error,
    },
    /// A line that is not as its format asks.
    #[error("{0}; bad lines can be skipped and counted on request")]
    BadLine(Box<BadLine>),
    /// A file of no bytes.
    #[error("{file}: the file is empty")]
    Empty {
        /// The file.
        file: String,
    },
    /// A file without one usable interaction.
    #[error("{file}: no interactions in it ({lines} lines, {skipped} bad ones skipped)")]
    NoRows {
        /// The file.
        file: String,
        /// Lines read.
        lines: u64,
        /// Bad lines among them.
        skipped: u64,
    },
    /// The content fits no known format.
    #[error("{file}: cannot tell its format: {reason}")]
    Unrecognised {
        /// The file or folder.
        file: String,
        /// What was missing.
        reason: String,
    },
    /// A folder with several sets.
    #[error("{folder}: several data sets in one folder; name one of: {}", candidates.join(", "))]
    Ambiguous {
        /// The folder.
        folder: String,
        /// The files that could have been meant.
        candidates: Vec<String>,
    },
    /// A column that is asked for and not there.
    #[error("{file}: no column {column}; the columns are: {found}")]
    NoColumn {
        /// The file.
        file: String,
        /// The column that is missing.
        column: String,
        /// Those that are there.
        found: String,
    },
    /// Files of one set that do not have the same columns.
    #[error("{file}: {problem}")]
    Mismatch {
        /// The file.
        file: String,
        /// What differs.
        problem: String,
    },
    /// A Parquet file that cannot be read or written.
    #[error("{file}: Parquet: {reason}")]
    Parquet {
        /// The file.
        file: String,
        /// The message of the Parquet library.
        reason: String,
    },
    /// More users, items or id text than the 32-bit indices hold.
    #[error("{file}: too large: {what}")]
    TooLarge {
        /// The file.
        file: String,
        /// What there is too much of.
        what: &'static str,
    },
    /// A synthetic set that does not exist, or a setting it does not have.
    #[error("synth:{name}: {reason}")]
    Synthetic {
        /// The specification after `synth:`.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An id that the output format cannot hold.
    #[error(
        "{path}: {kind} id `{id}` has a tab or line break, which delimited text cannot hold; write Parquet"
    )]
    Unwritable {
        /// The file to be written.
        path: PathBuf,
        /// `user` or `item`.
        kind: &'static str,
        /// The id, escaped.
        id: String,
    },
    /// A format, column or split specification that cannot be understood.
    #[error("{what} `{text}`: expected {expected}")]
    Specification {
        /// What is being specified.
        what: &'static str,
        /// The text given.
        text: String,
        /// What is accepted.
        expected: String,
    },
}

impl DataError {
    pub(crate) fn io(path: impl fmt::Display, source: std::io::Error) -> Self {
        Self::Io { path: path.to_string(), source }
    }

    #[cfg(not(feature = "parquet"))]
    pub(crate) fn without_parquet(file: &str) -> Self {
        let reason = "needs the cargo feature `parquet`, which this build leaves out".to_owned();
        Self::Parquet { file: file.to_owned(), reason }
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
