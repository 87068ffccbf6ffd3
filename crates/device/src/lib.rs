//! The device runtime: one owner's device in one federation.
//!
//! A [`Device`] holds its owner's history, private model, disclosure policy and ledger in a [`Store`], takes part in rounds
//! and recommends without the network. It reads no clock, starts no thread and needs no async runtime: the embedder calls it.
//!
//! # A round
//!
//! Check in, check_terms the terms, download the shared model or what changed in it, learn, disclose; then *new private model,
//! ledger and encoded update are kept in one step*; only then the update is sent, the same bytes under the same key until the
//! server has acknowledged it or refused it for good. Killed before that step, a device learns again from the same random
//! numbers to the same bytes; killed after it, it sends what it kept. So an update counts once and a private model advances once
//! a round, whatever fails.
//!
//! # Driving it
//!
//! [`Device::step`] does all there is to do over a [`Transport`] and says when to come back. Who has requests of their own kind
//! asks [`Device::next`] for an [`Action`] and gives [`Device::answer`] what came back; learning, [`Device::train`], is an
//! action by itself, to be done where computing is welcome. An embedder's [`Conditions`] say when it is.
//!
//! ```
//! use sottovoce_device::{Device, Enrolment, MemoryStore, Next, Options, Request, Response, Secret, Transport, TransportError};
//! use sottovoce_protocol::Policy;
//! use std::time::Duration;
//!
//! // Over HTTP this is `HttpTransport::new("https://example.org", &HttpOptions::default())?`.
//! struct OutOfReach;
//! impl Transport for OutOfReach {
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
//! // In a loop, as long as the device is there; the clock is the caller's.
//! let Next::After(pause, why) = device.step(&OutOfReach, Duration::from_secs(1_700_000_100))? else { return Ok(()) };
//! assert_eq!(why.to_string(), "no network");
//! assert!(pause > Duration::ZERO);
//! assert!(device.recommend(10).is_err(), "there is no model yet");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it holds
//!
//! All is bounded by [`Bounds`]. In the store: the state (history, policy, ledger, private model, credential, an update that is
//! on its way), one shared model, one catalog. With the default bounds that is at most: history 100,000 interactions, some 16
//! bytes and the id for each; single ledger entries 256 KiB and then some 10 bytes for each row that ever left; private model
//! some 2 KiB; an update no larger than the model; model 64 MiB; catalog 32 MiB. In memory the same, the model twice while a
//! difference is applied, a download before it is decoded, and a model's working memory (for FPL 42 bytes a triple and 12 an
//! item; for FCF the factors once more) while it learns.
//!
//! [`FileStore`] seals its files with a key of the embedder's; `docs/device.md` tells who can read what.
//!
//! # Features
//!
//! `files` ([`FileStore`]) and `http` ([`HttpTransport`]) are on by default; without them the crate builds for wasm32.

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
mod schedule;
mod state;
mod store;
mod transport;
mod upload_credential;

pub use bounds::{Bounds, ID_BYTES};
pub use device::{
    Action, Device, Enrolment, Explanation, ItemLeft, Options, OwnerReport, Recommendation, Recommended,
};
pub use error::DeviceError;
#[cfg(feature = "files")]
pub use files::{FileStore, Key};
pub use history::{History, ImportError, Imported, read_history};
#[cfg(feature = "http")]
pub use http::{HttpError, HttpOptions, HttpTransport};
pub use items::{CatalogError, Items};
pub use model_cache::{Digest, ModelCache, NoCache, SharedCache};
pub use schedule::{Always, Conditions, End, Next, Rest, Timing};
pub use sottovoce_client::{Secret, Seeds, criteria};
pub use sottovoce_privacy::secagg::{IdentityKey, Roster, RosterError, read_roster};
pub use state::Membership;
#[cfg(feature = "files")]
pub use store::random_secret;
pub use store::{MemoryStore, Store, StoreError};
pub use transport::{HEADERS, Method, Request, Response, Transport, TransportError, WIRE};
