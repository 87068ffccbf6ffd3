//! Errors of encoders and of training.

use thiserror::Error;

/// Why something was refused. Texts say what was wrong, where, and what helps.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TextError {
    /// A setting has no meaning. Fields: which, what it is and what it may be.
    #[error("{0}")]
    Setting(String),
    /// Bytes are not an encoder. Fields: what is wrong with them.
    #[error("encoder: {0}")]
    Encoding(String),
    /// There is nothing to train on. Fields: why.
    #[error("{0}")]
    Corpus(String),
    /// A file is not what it should be. Fields: `line` of text or `word` of a binary file; its number from 1; what is
    /// wrong with it.
    #[error("{0} {1}: {2}")]
    Input(&'static str, u64, String),
    /// Words and vectors do not fit together. Fields: why.
    #[error("{0}")]
    Table(String),
    /// Reading or writing failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Result of this crate.
pub(crate) type Result<T, E = TextError> = std::result::Result<T, E>;

/// Checks a setting against its range.
pub(crate) fn expect_range<T: Copy + PartialOrd + std::fmt::Display>(
    name: &str,
    value: T,
    low: T,
    high: T,
) -> Result<()> {
    if value >= low && value <= high {
        return Ok(());
    }
    Err(TextError::Setting(format!("{name} is {value}; it must be from {low} to {high}")))
}
