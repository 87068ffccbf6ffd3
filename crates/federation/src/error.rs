//! What can go wrong in a federation.

use crate::{AggregationError, HistoryFileError, WeightsError};
use sottovoce_client::Declined;
use sottovoce_privacy::PrivacyError;
use sottovoce_privacy::dp::DpError;
use sottovoce_protocol::{DecodeError, DisclosureError, ModelError, PolicyError, TermsError};
use std::fmt::Display;
use thiserror::Error;

/// Why a round or a federation failed.
#[derive(Debug, Error)]
pub enum FederationError {
    /// A device's part failed.
    #[error("device {device}, {stage}: {reason}")]
    Device {
        /// The device.
        device: u32,
        /// Where on its way: `training`, `disclosing` or `receiving`.
        stage: &'static str,
        /// What was wrong.
        reason: String,
    },
    /// No device can be reached any more.
    #[error("round {round}: no device can be reached, neither now ({at:.0} s after the start) nor later")]
    Nobody {
        /// The round, from 0.
        round: u64,
        /// Virtual seconds since training began.
        at: f64,
    },
    /// A model that training should go on from, and cannot.
    #[error("{0}")]
    Start(String),
    /// A file that a setting names, or should.
    #[error("{0}")]
    File(String),
    /// A setting without which a server cannot schedule its rounds.
    #[error("setting {key} must be given: {why}")]
    NotHostable {
        /// The setting.
        key: &'static str,
        /// Why.
        why: &'static str,
    },
    /// Settings that do not fit together.
    #[error("{key} = {found:?}: expected {expected}")]
    Setting {
        /// The setting.
        key: &'static str,
        /// What was found.
        found: String,
        /// What would be right.
        expected: String,
    },
    /// Settings of which one undoes the other, and which to take instead.
    #[error("{0}")]
    Combination(String),
    /// A criterion that simulated devices cannot report.
    #[error("criterion {name:?} cannot be reported: {why}")]
    Criterion {
        /// Its name.
        name: String,
        /// What is missing.
        why: &'static str,
    },
    /// A robust aggregator that does not support weights, or one or a weighting for protected updates.
    #[error(transparent)]
    Aggregation(#[from] AggregationError),
    /// Privacy layers that do not go together.
    #[error(transparent)]
    Protection(#[from] PrivacyError),
    /// The privacy accountant failed.
    #[error(transparent)]
    PrivacyAccountant(#[from] DpError),
    /// A sum that could not be opened or read.
    #[error("round {round}: the sum of the updates cannot be read: {reason}")]
    Sealed {
        /// The round, from 0.
        round: u64,
        /// What is wrong.
        reason: String,
    },
    /// The privacy budget is spent.
    #[error("{0}")]
    Budget(String),
    /// The file that histories are in.
    #[error(transparent)]
    Histories(#[from] HistoryFileError),
    /// Weights that cohorts cannot be drawn by.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The shared model or a device's numbers grew without bound.
    #[error("diverged in round {round}: {what}")]
    Diverged {
        /// The round, from 0.
        round: u64,
        /// How it was seen.
        what: String,
    },
    /// The shared model cannot be sent.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The round's terms cannot be sent.
    #[error(transparent)]
    Terms(#[from] TermsError),
    /// An invalid policy.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// A bug in the server: devices that downloaded a version in different ways hold different models.
    #[error("devices that have version {0} do not hold the same model")]
    Parted(u64),
    /// A bug in the simulator: so many bytes were counted, and so many sent.
    #[error("a download was counted as {0} bytes and had {1}")]
    Counted(u64, u64),
    /// A bug in the wire format: what was encoded cannot be decoded.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

impl FederationError {
    /// A setting that does not fit the others, with what was found and what would be right.
    pub(crate) fn setting(key: &'static str, found: impl Into<String>, expected: impl Into<String>) -> Self {
        Self::Setting { key, found: found.into(), expected: expected.into() }
    }

    pub(crate) fn device(device: u32, stage: &'static str, error: &dyn Display) -> Self {
        Self::Device { device, stage, reason: error.to_string() }
    }

    /// An update whose values cannot be written is the first sign of divergence that a device sees.
    pub(crate) fn disclosing(device: u32, round: u64, error: &Declined) -> Self {
        match error {
            Declined::Disclosure(DisclosureError::Value(error)) => {
                Self::Diverged { round, what: format!("device {device}: {error}") }
            }
            other => Self::device(device, "disclosing", other),
        }
    }
}
