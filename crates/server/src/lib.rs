//! The coordinator service: the server's half of federated training, between devices that come and go.
//!
//! The working state is in memory; the database is its durable record, written by one thread ([`commit_queue`]). A
//! check-in reads and writes memory only. An update is acknowledged when it is durable, and aggregated when its round
//! closes, in order of the devices' numbers: so the sum does not depend on who answered first, and a server killed at
//! any moment resumes to the same bytes. [`federation`] holds the state machine of rounds, [`storage`] the databases,
//! [`versions`] the shared models, [`http`] the interfaces for devices and operators.
//!
//! # Example
//!
//! A server on a free port, and a federation on it:
//!
//! ```
//! use sottovoce_server::{Config, FederationConfig, RunningServer};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! let config =
//!     Config { listen: "127.0.0.1:0".to_owned(), data: folder.path().join("server"), ..Config::default() };
//! tokio::runtime::Runtime::new()?.block_on(async {
//!     let running = RunningServer::start(&config).await?;
//!     assert_ne!(running.address.port(), 0);
//!     let catalog = "item\ttitle\nheat\tHeat\nronin\tRonin\n".to_owned();
//!     let federation = running.server.create_federation("films", FederationConfig::new("fcf"), catalog).await?;
//!     assert_eq!((federation.items, federation.public().version), (2, 0));
//!     running.stop().await?;
//!     Ok(())
//! })
//! # }
//! ```

pub mod commit_queue;
mod config;
mod date;
mod error;
pub mod federation;
pub mod http;
mod metrics;
mod private_file;
mod run;
mod secret;
mod server;
pub mod storage;
pub mod versions;

pub use config::{Config, ConfigFileError, Tls};
pub use date::utc;
pub use error::ServerError;
pub use federation::FederationConfig;
pub use run::{RunError, RunningServer, run};
pub use secret::NoRandomness;
pub use server::{CreateError, EnrolError, Enrolled, Role, Server};

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970.
pub fn now() -> storage::Millis {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// What a thread that panicked held is as usable as before: each change to it is a few assignments, and a transaction
/// that did not commit is rolled back.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
