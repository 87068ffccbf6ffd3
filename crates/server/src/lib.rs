//! The coordinator service: what the simulator does in one process, between a server and devices that come and go.
//!
//! Memory is the working state; the database is the durable record of it, written by one [`clerk`] thread. A check-in reads
//! and writes memory only. An update is acknowledged when it is durable, and summed when its round is over, in order of the
//! devices' numbers: so the sum does not depend on who answered first, and a server killed at any moment goes on to the
//! same bytes. [`federation`] holds the state machine of rounds, [`storage`] the databases, [`versions`] the shared models,
//! [`http`] the two interfaces, for devices and for operators.

pub mod clerk;
pub mod config;
pub mod federation;
pub mod http;
pub mod metrics;
pub mod run;
pub mod secret;
mod server;
pub mod storage;
mod tokens;
pub mod versions;

pub use server::{EnrolError, Found, FoundingError, OpenError, Server};
pub use tokens::{Role, TokenView};

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970.
pub fn now() -> storage::Millis {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
