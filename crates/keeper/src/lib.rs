//! The keeper: a second party for secure aggregation in one visit, as a service.
//!
//! It holds a key for which devices seal the seeds of their masks, and a [journal](Journal) of the rounds that it has
//! opened. A server asks it once a round for the sum of the masks of the devices that came; it answers by the rules of
//! [`sottovoce_privacy::keeper`]. It sees no update, masked or not, and keeps nothing else. Run it with somebody other
//! than the server's operator: only both together can open single updates.
//!
//! # Example
//!
//! ```
//! use sottovoce_keeper::{Config, RunningKeeper};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! let config = Config { listen: "127.0.0.1:0".to_owned(), data: folder.path().join("keeper"), ..Config::default() };
//! tokio::runtime::Runtime::new()?.block_on(async {
//!     let running = RunningKeeper::start(&config).await?;
//!     assert_ne!(running.address.port(), 0);
//!     running.stop().await;
//!     Ok(())
//! })
//! # }
//! ```

mod journal;
mod key_file;
mod run;
mod service;

pub use journal::{Journal, JournalError};
pub use key_file::KeyError;
pub use run::{Config, RunError, RunningKeeper, Tls, run};
