//! What devices and server say to each other: shared models, updates, the owner's disclosure policy, round terms, and
//! the bytes that carry them.
//!
//! An update passes through four types, and the compiler keeps the order:
//!
//! ```text
//! training -> Trained --(owner's policy, ledger)--> Disclosed --encode--> bytes --decode--> Received -> strategy
//! ```
//!
//! [`Trained`] is fresh from training and knows which rows concern consumed items; it cannot be encoded. Only
//! [`Trained::disclose`] turns it into a [`Disclosed`]: it applies the owner's [`Policy`] and writes the [`Ledger`].
//! The codec takes nothing else, so nothing leaves a device by accident. [`Received`] is what came from outside.
//!
//! ```
//! use sottovoce_core::Rng;
//! use sottovoce_protocol::*;
//!
//! // The server: a model with one row an item, and a round of it.
//! let layout = Layout::new(vec![Shape::new("items", 5, 2, Keyed::Items)])?;
//! let terms = RoundTerms::freeze(TermsDraft { round: RoundId(3), cohort_size: 100, ..TermsDraft::default() })?;
//!
//! // The device: two rows changed, one because of something its owner consumed. The policy discloses no such row.
//! let mut trained = Trained::new(&layout);
//! trained.push_row(0, 1, RowOrigin::Consumed)?.copy_from_slice(&[0.5, -0.25]);
//! trained.push_row(0, 4, RowOrigin::Other)?.copy_from_slice(&[0.0, 0.25]);
//! let (policy, mut ledger) = (Policy::new(0.0)?, Ledger::new());
//! let seeds = DisclosureSeeds::once(&mut Rng::new(1));
//! let disclosed = trained.disclose(&policy, &terms, 1_700_000_000, &mut ledger, seeds)?;
//! let mut bytes = Vec::new();
//! codec::encode_update(&disclosed, &mut bytes);
//!
//! // The server again.
//! let mut received = Received::new(&layout);
//! codec::decode_update(&bytes, &mut received)?;
//! received.check(&terms)?;
//! assert_eq!(received.update().tables()[0].indices(), Some(&[4][..]));
//! assert_eq!(ledger.totals().rows, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! All of these types own reusable buffers: a loop over devices that recycles them allocates nothing once they have
//! grown. The crate does no I/O, reads no clock, starts no thread and draws no randomness of its own (the caller passes
//! an [`Rng`](sottovoce_core::Rng) and the time as a number). It builds for wasm32. `docs/wire-format.md` describes the
//! bytes.
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

mod audience;
pub mod codec;
mod difference;
mod disclosure;
mod error;
mod ids;
mod ledger;
pub mod limits;
mod parameters;
mod policy;
mod requirement;
mod rows;
mod terms;
mod update;
mod values;

pub use audience::{AUDIENCE_DELTA, AudiencePolicy, AudienceRefusal, LEAST_PUBLISHED};
pub use difference::{Difference, DifferenceKind};
pub use disclosure::DisclosureSeeds;
pub use error::{DecodeError, DisclosureError, ModelError, PolicyError, TermsError, UpdateError, ValueError};
pub use ids::{FederationId, ModelVersion, RoundId};
pub use ledger::{DisclosedTable, Ledger, LedgerEntry, RowDisclosures, Totals};
pub use parameters::{Keyed, Layout, Parameters, Shape, SharedModel, Table};
pub use policy::{DisclosureMode, Participation, Policy, Reportable, SealedDisclosure};
pub use requirement::LayerRequirement;
pub use rows::Rows;
pub use terms::{
    CriterionRequest, ModelSpec, PrivacyLayer, PrivacyTerms, Refusal, RoundTerms, Settings, Spec, TermsDraft,
};
pub use update::{AddressedUpdate, AtDevice, AtServer, Disclosed, Received, RowOrigin, Trained, Update};
pub use values::ValueEncoding;
