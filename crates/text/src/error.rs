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
