//! Errors of layers, losses and optimisers.

use thiserror::Error;

/// Why a layer, a loss or an optimiser refused its input. Texts say what was expected and what was found.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum NeuralError {
    /// A slice has another length than the shapes around it ask for. Fields: which slice; the length asked for; the
    /// length it has.
    #[error("{0}: {1} values expected, {2} found")]
    Length(&'static str, usize, usize),
    /// A slice is not a whole number of rows. Fields: which slice; the width of a row; the length it has.
    #[error("{0}: {2} values are not a whole number of rows of {1}")]
    Rows(&'static str, usize, usize),
    /// There is nothing in it. Fields: in what.
    #[error("{0}: empty")]
    Empty(&'static str),
    /// An index is outside its table. Fields: the index of what; the index; the first that is too large.
    #[error("{0}: index {1} is not below {2}")]
    Index(&'static str, usize, usize),
    /// A setting has no meaning. Fields: which, what it is and what it may be.
    #[error("{0}")]
    Setting(String),
    /// The arena has not enough left. Fields: values asked for; values left.
    #[error("the arena has {1} values left, {0} were asked for; make it larger")]
    Arena(usize, usize),
    /// A size that no memory holds. Fields: the size of what.
    #[error("{0}: larger than any memory")]
    TooLarge(&'static str),
    /// Batch statistics of one sample: its variance is 0, and what comes out would not depend on what goes in.
    #[error(
        "batch statistics need two samples or more; normalise a single one by the running statistics, or take LayerNorm"
    )]
    BatchOfOne,
}

/// Result of this crate.
pub(crate) type Result<T, E = NeuralError> = std::result::Result<T, E>;

/// A product of sizes, none of which may be 0.
pub(crate) fn size(what: &'static str, factors: &[usize]) -> Result<usize> {
    if factors.contains(&0) {
        return Err(NeuralError::Empty(what));
    }
    let product = factors.iter().try_fold(1usize, |product, &factor| product.checked_mul(factor));
    product.ok_or(NeuralError::TooLarge(what))
}

/// Checks a length.
pub(crate) fn expect_len(what: &'static str, found: usize, expected: usize) -> Result<()> {
    if found == expected { Ok(()) } else { Err(NeuralError::Length(what, expected, found)) }
}

/// How many rows of this width a slice has; at least one.
pub(crate) fn rows_of(what: &'static str, len: usize, width: usize) -> Result<usize> {
    if len == 0 || width == 0 {
        return Err(NeuralError::Empty(what));
    }
    if len.is_multiple_of(width) { Ok(len / width) } else { Err(NeuralError::Rows(what, width, len)) }
}

/// A setting without meaning.
pub(crate) fn setting(reason: impl Into<String>) -> NeuralError {
    NeuralError::Setting(reason.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_rejects_zeros_and_overflow() {
        assert_eq!(size("x", &[3, 4, 5]), Ok(60));
        assert_eq!(size("x", &[3, 0]), Err(NeuralError::Empty("x")));
        assert_eq!(size("x", &[usize::MAX, 2]), Err(NeuralError::TooLarge("x")));
    }

    #[test]
    fn messages_state_expected_and_found() {
        let text = expect_len("bias", 3, 4).unwrap_err().to_string();
        assert_eq!(text, "bias: 4 values expected, 3 found");
        let text = rows_of("x", 7, 2).unwrap_err().to_string();
        assert_eq!(text, "x: 7 values are not a whole number of rows of 2");
    }
}
