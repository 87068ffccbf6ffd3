//! Errors of differential privacy.

use super::accountant::{Budget, Spent};

/// Why something was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DpError {
    /// A number out of range.
    #[error("{what} is {value}, but must be {must}")]
    Range {
        /// Which number.
        what: &'static str,
        /// What was given.
        value: f64,
        /// What is allowed.
        must: &'static str,
    },
    /// The round would spend more than is allowed.
    #[error(
        "the round would bring epsilon to {asked:.4} (it is {:.4}), past the budget of {} at delta {:e}",
        spent.tight, budget.epsilon, budget.delta
    )]
    OverBudget {
        /// What has been spent already.
        spent: Spent,
        /// Epsilon after the round.
        asked: f64,
        /// What is allowed.
        budget: Budget,
    },
    /// Losses under add/remove and under replace-one adjacency do not compose.
    #[error("a round whose sampling is {round} cannot be added to accounts that are kept by {accounts}")]
    Neighbours {
        /// How the round's sampling is accounted for.
        round: &'static str,
        /// How the accounts are kept.
        accounts: &'static str,
    },
    /// No noise reaches the budget.
    #[error("no noise multiplier up to {most} reaches epsilon {epsilon} at delta {delta:e}")]
    OutOfReach {
        /// The epsilon asked for.
        epsilon: f64,
        /// At which delta.
        delta: f64,
        /// The largest multiplier tried.
        most: f64,
    },
    /// Stored bytes that are malformed.
    #[error("stored {what}: {problem}")]
    Stored {
        /// What the bytes should be.
        what: &'static str,
        /// What is wrong with them.
        problem: String,
    },
}

/// `value`, if `allowed` holds of it; NaN is never allowed.
pub(super) fn check(
    what: &'static str,
    value: f64,
    must: &'static str,
    allowed: impl FnOnce(f64) -> bool,
) -> Result<f64, DpError> {
    if value.is_finite() && allowed(value) { Ok(value) } else { Err(DpError::Range { what, value, must }) }
}

/// A finite number above 0.
pub(super) fn positive(what: &'static str, value: f64) -> Result<f64, DpError> {
    check(what, value, "a finite number above 0", |v| v > 0.0)
}

/// A delta: between 0 and 1, neither.
pub(super) fn delta(value: f64) -> Result<f64, DpError> {
    check("delta", value, "above 0 and below 1", |v| v > 0.0 && v < 1.0)
}
