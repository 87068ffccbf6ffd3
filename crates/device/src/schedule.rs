//! When a device works, and how long it rests.

use sottovoce_client::Secret;
use std::fmt;
use std::time::Duration;

/// What the embedder allows at the moment: a phone's says no unless it charges, is idle and pays nothing for bytes.
pub trait Conditions: Send {
    /// Whether the device may take up rounds: download, learn.
    fn may_train(&self) -> bool {
        true
    }

    /// Whether the device may use the network, also to bring out an update that is ready.
    fn may_connect(&self) -> bool {
        true
    }
}

/// Allows everything at all times.
#[derive(Clone, Copy, Debug, Default)]
pub struct Always;

impl Conditions for Always {}

/// How long a device rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// After a first failure; doubled after each further one.
    pub first: Duration,
    /// At most, after failures.
    pub most: Duration,
    /// Where a server says "not now" and not when.
    pub check_in: Duration,
    /// Until conditions are looked at again.
    pub conditions: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { first: seconds(2), most: seconds(3600), check_in: seconds(60), conditions: seconds(60) }
    }
}

impl Timing {
    /// The rest after so many failures in a row: doubled each time, bounded, and spread from half to one and a half of it, so
    /// that devices that failed together do not come back together.
    pub(crate) fn after_failures(&self, failures: u32, secret: &Secret, now: Duration) -> Duration {
        let doubled = self.first.saturating_mul(1 << failures.saturating_sub(1).min(24));
        let detail = [now.as_nanos().to_le_bytes().as_slice(), &failures.to_le_bytes()].concat();
        let spread = 0.5 + secret.rng("jitter", &detail).unit();
        doubled.min(self.most).mul_f64(spread).min(self.most)
    }
}

/// What a device told its caller to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Come back after this long; earlier is no harm, but nothing happens.
    After(Duration, Rest),
    /// There is nothing more to do for this device.
    Never(End),
}

/// Why a device rests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rest {
    /// The server has taken the update of this round.
    Done {
        /// The round.
        round: u64,
    },
    /// The server did not take the update of this round, and will not.
    Dropped {
        /// The round.
        round: u64,
        /// What it said.
        why: String,
    },
    /// The device did not take part in this round and has said so.
    Declined {
        /// The round.
        round: u64,
        /// Why.
        why: String,
    },
    /// The server has no work: `waiting`, `done`, `paused` or `finished`, as it said.
    Idle {
        /// What it said.
        state: String,
    },
    /// Something went wrong that may go right another time.
    Failed {
        /// What.
        what: String,
        /// How often in a row.
        times: u32,
    },
    /// The embedder's conditions do not allow work.
    Conditions,
    /// The owner has paused.
    Paused,
}

/// Why a device is through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The owner has withdrawn, and the server knows.
    Withdrawn,
    /// The server will not have this device: its credential or token is not, or no longer, good, or there is no such
    /// federation.
    TurnedAway {
        /// HTTP's status.
        status: u16,
        /// The server's code.
        code: String,
        /// What it says.
        detail: String,
    },
}

impl fmt::Display for Rest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done { round } => write!(f, "took part in round {round}"),
            Self::Dropped { round, why } => write!(f, "round {round} did not take the update: {why}"),
            Self::Declined { round, why } => write!(f, "stayed out of round {round}: {why}"),
            Self::Idle { state } if state == "done" => {
                f.write_str("this round is answered; the next is not open yet")
            }
            Self::Idle { state } if state == "paused" => f.write_str("the federation is paused"),
            Self::Idle { state } if state == "finished" => f.write_str("the federation has finished"),
            Self::Idle { .. } => f.write_str("no round for this device yet"),
            Self::Failed { what, times: 1 } => f.write_str(what),
            Self::Failed { what, times } => write!(f, "{what} ({times} times in a row)"),
            Self::Conditions => f.write_str("waiting for conditions to work in"),
            Self::Paused => f.write_str("paused by the owner"),
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Withdrawn => f.write_str("withdrawn"),
            Self::TurnedAway { status, code, detail } => {
                write!(f, "the server turned this device away ({status} {code}): {detail}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_grow_are_spread_and_bounded() {
        let (timing, secret) = (Timing::default(), Secret::new([1; 32]));
        let rest = |failures, second| timing.after_failures(failures, &secret, Duration::from_secs(second));
        for failures in 1..9 {
            let base = Duration::from_secs(2 << (failures - 1));
            for second in 0..50 {
                let rest = rest(failures, second);
                assert!(rest >= base / 2 && rest < base * 3 / 2, "{failures}: {rest:?}");
            }
        }
        assert_ne!(rest(3, 1), rest(3, 2));
        assert!((0..50).all(|second| rest(u32::MAX, second) <= timing.most));
    }
}
