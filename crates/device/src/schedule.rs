//! When a device works, and how long it waits.

use sottovoce_client::Secret;
use std::fmt;
use std::time::Duration;

/// What the embedder allows at the moment. A phone may forbid work unless it charges, is idle and has an unmetered
/// network.
pub trait Conditions: Send {
    /// Whether the device may take part in rounds: download models and train.
    fn may_train(&self) -> bool {
        true
    }

    /// Whether the device may use the network, also to upload an update that is ready.
    fn may_connect(&self) -> bool {
        true
    }
}

/// Allows everything at all times.
#[derive(Clone, Copy, Debug, Default)]
pub struct Always;

impl Conditions for Always {}

/// How long a device waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Back-off after a first failure; doubled after each further one.
    pub initial_backoff: Duration,
    /// Longest back-off.
    pub max_backoff: Duration,
    /// Time between check-ins where the server sets none.
    pub check_in_interval: Duration,
    /// Time until conditions are checked again.
    pub conditions_interval: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            initial_backoff: seconds(2),
            max_backoff: seconds(3600),
            check_in_interval: seconds(60),
            conditions_interval: seconds(60),
        }
    }
}

impl Timing {
    /// Exponential back-off after so many failures in a row, with jitter from half to one and a half of it, so that
    /// devices that failed together do not come back together.
    pub(crate) fn after_failures(&self, failures: u32, secret: &Secret, now: Duration) -> Duration {
        let doubled = self.initial_backoff.saturating_mul(1 << failures.saturating_sub(1).min(24));
        let detail = [now.as_nanos().to_le_bytes().as_slice(), &failures.to_le_bytes()].concat();
        let jitter = 0.5 + secret.rng("jitter", &detail).unit();
        doubled.min(self.max_backoff).mul_f64(jitter).min(self.max_backoff)
    }
}

/// When the caller should come back.
#[derive(Clone, Debug, PartialEq)]
pub enum NextStep {
    /// After this long; earlier does no harm, but nothing happens.
    Wait(Duration, WaitReason),
    /// Never: there is nothing more to do for this device.
    Stop(StopReason),
}

/// Why a device waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// The server has accepted the update of this round.
    UpdateAccepted {
        /// The round.
        round: u64,
    },
    /// The server has rejected the update of this round for good.
    UpdateRejected {
        /// The round.
        round: u64,
        /// The server's reason.
        why: String,
    },
    /// The device does not take part in this round, and the server knows.
    Declined {
        /// The round.
        round: u64,
        /// Why.
        why: String,
    },
    /// The server has no round for this device.
    NoRound {
        /// The server's state: `waiting`, `done`, `paused` or `finished`; `sealing` within a sealed round.
        state: String,
    },
    /// A failure that may pass.
    Failed {
        /// What failed.
        what: String,
        /// Failures in a row.
        times: u32,
    },
    /// The embedder's conditions do not allow work.
    Conditions,
    /// The owner has paused.
    Paused,
}

/// Why there is nothing more to do for a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The owner has withdrawn, and the server knows.
    Withdrawn,
    /// The server rejects this device: its credential or token is not valid (any more), or there is no such federation.
    Rejected {
        /// HTTP status.
        status: u16,
        /// The server's error code.
        code: String,
        /// The server's explanation.
        detail: String,
    },
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UpdateAccepted { round } => write!(f, "took part in round {round}"),
            Self::UpdateRejected { round, why } => {
                write!(f, "the server rejected the update of round {round}: {why}")
            }
            Self::Declined { round, why } => write!(f, "declined round {round}: {why}"),
            Self::NoRound { state } if state == "done" => {
                f.write_str("the update of this round is in; the next round is not open yet")
            }
            Self::NoRound { state } if state == "paused" => f.write_str("the federation is paused"),
            Self::NoRound { state } if state == "finished" => f.write_str("the federation has finished"),
            Self::NoRound { .. } => f.write_str("no round for this device yet"),
            Self::Failed { what, times: 1 } => f.write_str(what),
            Self::Failed { what, times } => write!(f, "{what} ({times} times in a row)"),
            Self::Conditions => f.write_str("waiting until conditions allow work"),
            Self::Paused => f.write_str("paused by the owner"),
        }
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Withdrawn => f.write_str("withdrawn"),
            // The federation is archived or deleted.
            Self::Rejected { status: 410, detail, .. } => f.write_str(detail),
            Self::Rejected { status, code, detail } => {
                write!(f, "the server rejects this device ({status} {code}): {detail}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_with_jitter_up_to_its_limit() {
        let (timing, secret) = (Timing::default(), Secret::new([1; 32]));
        let backoff = |failures, second| timing.after_failures(failures, &secret, Duration::from_secs(second));
        for failures in 1..9 {
            let base = Duration::from_secs(2 << (failures - 1));
            for second in 0..50 {
                let backoff = backoff(failures, second);
                assert!(backoff >= base / 2 && backoff < base * 3 / 2, "{failures}: {backoff:?}");
            }
        }
        assert_ne!(backoff(3, 1), backoff(3, 2));
        assert!((0..50).all(|second| backoff(u32::MAX, second) <= timing.max_backoff));
    }
}
