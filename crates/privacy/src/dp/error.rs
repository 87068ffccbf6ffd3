//! Errors of differential privacy.

use super::accountant::{Budget, Spent};

/// Why something was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DpError {
    /// A number out of range. Fields: which number; what was given; what is allowed.
    #[error("{0} is {1}, but must be {2}")]
    Range(&'static str, f64, &'static str),
    /// The round would spend more than is allowed. Fields: what has been spent already; epsilon after the round; what
    /// is allowed.
    #[error(
        "the round would bring epsilon to {1:.4} (it is {spent:.4}), past the budget of {epsilon} at delta {delta:e}",
        spent = .0.tight, epsilon = .2.epsilon, delta = .2.delta
    )]
    OverBudget(Spent, f64, Budget),
    /// Losses under add/remove and under replace-one adjacency do not compose. Fields: how the round's sampling is
    /// accounted for; how the accounts are kept.
    #[error("a round whose sampling is {0} cannot be added to accounts that are kept by {1}")]
    Neighbours(&'static str, &'static str),
    /// No noise reaches the budget. Fields: the epsilon asked for; at which delta; the largest multiplier tried.
    #[error("no noise multiplier up to {2} reaches epsilon {0} at delta {1:e}")]
    OutOfReach(f64, f64, f64),
    /// Stored bytes that are malformed. Fields: what the bytes should be; what is wrong with them.
    #[error("stored {0}: {1}")]
    Stored(&'static str, String),
}

/// `value`, if `allowed` holds of it; NaN is never allowed.
pub(super) fn check(
    what: &'static str,
    value: f64,
    must: &'static str,
    allowed: impl FnOnce(f64) -> bool,
) -> Result<f64, DpError> {
    if value.is_finite() && allowed(value) { Ok(value) } else { Err(DpError::Range(what, value, must)) }
}

/// A finite number above 0.
pub(super) fn positive(what: &'static str, value: f64) -> Result<f64, DpError> {
    check(what, value, "a finite number above 0", |v| v > 0.0)
}

/// A delta: between 0 and 1, neither.
pub(super) fn delta(value: f64) -> Result<f64, DpError> {
    check("delta", value, "above 0 and below 1", |v| v > 0.0 && v < 1.0)
}
