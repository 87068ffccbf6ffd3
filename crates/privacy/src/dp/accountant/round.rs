//! One round as the accountant sees it: mechanism and sampling.

use crate::dp::DpError;
use crate::dp::error::{check, positive};

/// One application of a mechanism to a sample of the population.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Round {
    /// Everybody takes part with probability `rate`, independently; Gaussian noise of standard deviation `multiplier`
    /// times the clipping bound on the sum. `rate` 1 is a round of all, or one device's own rounds when the noise is
    /// added on the device.
    Poisson {
        /// Probability of taking part, above 0 and at most 1.
        rate: f64,
        /// Noise in clipping bounds.
        multiplier: f64,
    },
    /// A cohort of fixed size, drawn without replacement; Gaussian noise as above. The guarantee is under *replace-one*
    /// adjacency, with a sensitivity of two clipping bounds.
    FixedCohort {
        /// How many are drawn.
        cohort: u64,
        /// From how many.
        population: u64,
        /// Noise in clipping bounds (not in sensitivities).
        multiplier: f64,
    },
    /// As `Poisson`, with Laplace noise; the clipping bound is on the L1 norm.
    ///
    /// The accountant takes the whole change to be in one value, which is the worst case: shifts of several values
    /// distinguish two data sets no better than a chain of such shifts, and with Laplace noise on one value, whose
    /// likelihood ratio is monotone, such a chain is the shift by their sum.
    Laplace {
        /// Probability of taking part, above 0 and at most 1.
        rate: f64,
        /// Scale in clipping bounds: 1 / epsilon of one use on everybody.
        scale: f64,
    },
}

/// The adjacency of neighbouring data sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Neighbours {
    /// One person more or fewer.
    AddRemove,
    /// One person replaced by another.
    ReplaceOne,
}

impl Neighbours {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::AddRemove => "by adding or removing one person",
            Self::ReplaceOne => "by replacing one person",
        }
    }
}

impl Round {
    /// # Errors
    /// If a number is out of range.
    pub(super) fn check(&self) -> Result<(), DpError> {
        match *self {
            Self::Poisson { rate, multiplier } => {
                checked_rate(rate)?;
                checked_multiplier(multiplier)
            }
            Self::FixedCohort { cohort, population, multiplier } => {
                check("the cohort", cohort as f64, "from 1 to the population", |_| (1..=population).contains(&cohort))?;
                checked_multiplier(multiplier)
            }
            Self::Laplace { rate, scale } => {
                checked_rate(rate)?;
                positive("the scale of Laplace noise", scale)?;
                check("the scale of Laplace noise", scale, "from 0.01 to 1e6", |v| (0.01..=1e6).contains(&v))?;
                Ok(())
            }
        }
    }

    /// The same with other noise.
    #[must_use]
    pub fn with_noise(self, noise: f64) -> Self {
        match self {
            Self::Poisson { rate, .. } => Self::Poisson { rate, multiplier: noise },
            Self::FixedCohort { cohort, population, .. } => Self::FixedCohort { cohort, population, multiplier: noise },
            Self::Laplace { rate, .. } => Self::Laplace { rate, scale: noise },
        }
    }

    /// The adjacency it is accounted under; `None` if both.
    pub(super) fn neighbours(&self) -> Option<Neighbours> {
        match *self {
            Self::Laplace { rate, .. } if rate >= 1.0 => None,
            Self::Poisson { .. } | Self::Laplace { .. } => Some(Neighbours::AddRemove),
            Self::FixedCohort { .. } => Some(Neighbours::ReplaceOne),
        }
    }

    /// Sensitivity over sigma, if the round is a plain Gaussian mechanism without sampling.
    pub(super) fn plain_gaussian(&self) -> Option<f64> {
        match *self {
            Self::Poisson { rate, multiplier } if rate >= 1.0 => Some(1.0 / multiplier),
            Self::FixedCohort { cohort, population, multiplier } if cohort == population => Some(2.0 / multiplier),
            _ => None,
        }
    }
}

fn checked_rate(rate: f64) -> Result<(), DpError> {
    check("the sampling rate", rate, "above 0 and at most 1", |v| v > 0.0 && v <= 1.0).map(|_| ())
}

fn checked_multiplier(multiplier: f64) -> Result<(), DpError> {
    check("the noise multiplier", multiplier, "from 0.05 to 1e6", |v| (0.05..=1e6).contains(&v)).map(|_| ())
}
