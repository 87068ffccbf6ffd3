//! The native device runtime: one owner's device in one federation.
//!
//! A [`Device`] holds its owner's history, private model, disclosure policy and ledger in a [`Store`], takes part in
//! rounds and recommends without the network. It reads no clock, starts no thread and needs no async runtime: the
//! embedder calls it.
//!
//! # A round
//!
//! The device checks in, checks the terms against the owner's policy, downloads the shared model or its difference to
//! the last one, trains and discloses (`sottovoce-client` does the latter two). It then *stores private model, ledger
//! and encoded update in one atomic step*. Only then does it upload, the same bytes under the same idempotency key
//! until the server has acknowledged or rejected them. A device that is killed before that step trains again, from the
//! same random numbers but under masks and noise of its own; killed after it, it uploads what it has stored. So an
//! update counts once and a private model advances once a round, whatever fails.
//!
//! # How to drive it
//!
//! [`Device::step`] does all there is to do over a [`Transport`] and returns when to come back. An embedder that sends
//! requests in its own way asks [`Device::next_action`] for an [`Action`] and passes the response to
//! [`Device::handle_response`]; training, [`Device::train`], is an action by itself, so that it can run on another
//! thread. The embedder's [`Conditions`] say when the device may work.
//!
//! ```
//! use sottovoce_device::{
//!     Device, Enrolment, MemoryStore, NextStep, Options, Request, Response, Secret, Transport, TransportError,
//! };
//! use sottovoce_protocol::Policy;
//! use std::time::Duration;
//!
//! // Over HTTP this is `HttpTransport::new("https://example.org", &HttpOptions::default())?`.
//! struct Offline;
//! impl Transport for Offline {
//!     fn send(&self, _: &Request) -> Result<Response, TransportError> {
//!         Err(TransportError("no network".to_owned()))
//!     }
//! }
//!
//! let secret = Secret::new([7; 32]); // random_secret()? on a real device
//! let enrolment = Enrolment::new("https://example.org", "films", "sve_token", secret, Policy::new(0.5)?);
//! let mut device = Device::enrol(Box::new(MemoryStore::new()), enrolment, Options::default())?;
//! device.import([("tt0050083", Some(1_700_000_000)), ("tt0047478", None)])?;
//! device.hide("tt0050083")?;
//!
//! // In a loop, for as long as the program runs; the clock is the caller's.
//! let NextStep::Wait(pause, why) = device.step(&Offline, Duration::from_secs(1_700_000_100))? else { return Ok(()) };
//! assert_eq!(why.to_string(), "no network");
//! assert!(pause > Duration::ZERO);
//! assert!(device.recommend(10).is_err(), "there is no model yet");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Limits
//!
//! [`Bounds`] limits what a device holds. The store has the state (history, policy, ledger, private model, credential,
//! a pending update), one shared model and one catalog. By default these are at most 100,000 interactions of some 16
//! bytes and the id; 10,000 pages with 4 MiB of titles; 256 KiB of single ledger entries and then some 10 bytes for
//! each row that ever left; a private model of some 2 KiB; an update no larger than the model; a model of 64 MiB; a
//! catalog of 32 MiB. Memory holds the same, the model twice while a difference is applied, a download before it is
//! decoded, and a model's working memory during training (for FPL 42 bytes a triple and 12 an item; for FCF the
//! factors once more).
//!
//! [`FileStore`] encrypts its files under a key of the embedder; `docs/device.md` says who can read what.
//!
//! # Features
//!
//! `files` ([`FileStore`]) and `http` ([`HttpTransport`]) are on by default; without them the crate builds for wasm32.

mod account;
mod audiences;
mod bounds;
mod device;
mod error;
#[cfg(feature = "files")]
mod files;
mod history;
#[cfg(feature = "http")]
mod http;
mod items;
mod model_cache;
mod protection;
mod reading;
mod schedule;
mod state;
mod store;
mod transport;
mod upload_credential;

pub use account::ACCOUNT_DELTA;
pub use audiences::{Segment, Spending};
pub use bounds::Bounds;
pub use device::{
    Action, AudienceMembership, Device, DisclosedItem, Enrolment, Entropy, Explanation, Options, Recommendation,
    RecommendedItem,
};
pub use error::DeviceError;
#[cfg(feature = "files")]
pub use files::{FileStore, Key};
pub use history::{History, ImportError, ImportSummary, read_history};
#[cfg(feature = "http")]
pub use http::{HttpError, HttpOptions, HttpTransport, check_address};
pub use items::{CatalogError, Items, Lookup};
pub use model_cache::{ModelCache, NoCache, SharedCache};
pub use reading::{ClickImport, ReadPage, Reading};
pub use schedule::{Always, Conditions, NextStep, StopReason, Timing, WaitReason};
pub use sottovoce_client::{Digest, Secret, Seeds};
pub use sottovoce_privacy::secagg::{IdentityKey, Roster, RosterError, read_roster};
pub use state::Membership;
#[cfg(feature = "files")]
pub use store::random_secret;
pub use store::{MemoryStore, Store, StoreError};
pub use transport::{HEADERS, Method, Request, Response, Transport, TransportError, WIRE};
