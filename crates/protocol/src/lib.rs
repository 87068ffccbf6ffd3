//! The language between device and server.
//!
//! What a device proposes to the shared model passes through four types, and the compiler keeps the order:
//!
//! ```text
//! training -> Trained --(owner's policy, ledger)--> Disclosed --encode--> bytes --decode--> Received -> strategy
//! ```
//!
//! [`Trained`] is fresh from training and knows which rows concern consumed items; it cannot be encoded. Only
//! [`Trained::disclose`] makes a [`Disclosed`] of it: it applies the owner's [`Policy`] and writes the [`Ledger`]. The
//! codec takes nothing else, so nothing leaves a device by accident. [`Received`] is what came from outside.
//!
//! All of them own reusable buffers: a loop over devices that recycles them allocates nothing once they have grown.
//!
//! This crate does no I/O, reads no clock, starts no thread and draws no randomness of its own (the caller hands in an
//! [`Rng`](sottovoce_core::Rng) and the time as a number). It builds for wasm32. The bytes are described in
//! `docs/wire-format.md`.
//!
//! A `Disclosed` has no other constructor:
//!
//! ```compile_fail,E0423
//! use sottovoce_protocol::{Disclosed, Layout, Trained};
//! let trained = Trained::new(&Layout::default());
//! let leaked = Disclosed(trained); // no tuple constructor
//! ```
//! ```compile_fail,E0451
//! use sottovoce_protocol::{Disclosed, Update};
//! fn leak(update: Update) -> Disclosed {
//!     Disclosed { update, ..panic!() } // fields are private
//! }
//! ```
//! ```compile_fail,E0277
//! use sottovoce_protocol::{Disclosed, Trained};
//! fn leak(trained: Trained) -> Disclosed {
//!     trained.into() // no conversion
//! }
//! ```
//! and the codec takes nothing that was not disclosed:
//!
//! ```compile_fail,E0308
//! use sottovoce_protocol::{codec, Layout, Trained};
//! let trained = Trained::new(&Layout::default());
//! codec::encode_update(&trained, &mut Vec::new()); // expected `&Disclosed`
//! ```

pub mod codec;
mod demand;
mod difference;
mod disclosure;
mod error;
mod ids;
mod ledger;
pub mod limits;
mod parameters;
mod policy;
mod rows;
mod terms;
mod update;
mod values;

pub use demand::LayerRequirement;
pub use difference::{Difference, DifferenceKind, DifferenceOptions};
pub use disclosure::DisclosureSeeds;
pub use error::{DecodeError, DisclosureError, ModelError, PolicyError, TermsError, UpdateError, ValueError};
pub use ids::{DeviceId, FederationId, ModelVersion, RoundId};
pub use ledger::{LedgerEntry, Ledger, RowDisclosures, DisclosedTable, Totals};
pub use parameters::{Keyed, Layout, Parameters, Shape, SharedModel, Table};
pub use policy::{Participation, DisclosureMode, Policy, Reportable};
pub use rows::Rows;
pub use terms::{CriterionRequest, ModelSpec, PrivacyLayer, PrivacyTerms, Refusal, RoundTerms, Settings, TermsDraft};
pub use update::{Disclosed, RowOrigin, Received, Trained, Update};
pub use values::ValueEncoding;
