//! The client's half of a round: the only implementation there is.
//!
//! The simulator's workers, the native device and the browser all call this crate, so that simulated equals deployed by
//! construction. A round goes through three steps:
//!
//! 1. [`Round::train`]: the owner's policy accepts the terms, the private models are trained, criteria are computed;
//! 2. [`Round::disclose`]: the policy decides what leaves, and the ledger records it;
//! 3. [`Round::quantize`] and [`Sealing`]: noise, secure aggregation or encryption, where the terms ask for them.
//!
//! The simulator calls the steps one by one, because a simulated device may be lost in between;
//! [`LoadedModel::run_round`] does all of them for a device. Buffers are the caller's ([`Buffers`]). Random numbers
//! come from a [`Randomness`]; the names of all random streams are in [`streams`]. There is no I/O and no clock here,
//! and the crate builds for wasm32.
//!
//! ```
//! use sottovoce_client::{DeviceRound, Digest, LoadedModel, NoFigures, Randomness, Secret, Seeds, Upload};
//! use sottovoce_core::Rng;
//! use sottovoce_protocol::{FederationId, Ledger, ModelSpec, ModelVersion, Policy, RoundTerms};
//! use sottovoce_protocol::{SharedModel, TermsDraft};
//! use std::sync::Arc;
//!
//! // What a server announces.
//! let settings = [
//!     ("factors", "4"), ("triples", "10"), ("learning_rate", "0.05"), ("user_regularisation", "0.05"),
//!     ("positive_regularisation", "0.05"), ("negative_regularisation", "0.005"), ("init_deviation", "0.1"),
//!     ("negatives", "decoys"), ("regularise_biases", "false"), ("scale_regularisation", "false"),
//!     ("mean_history", "10"), ("steps", "together"),
//! ];
//! let settings = settings.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
//! let spec = ModelSpec { name: "fpl".to_owned(), settings };
//! let terms = RoundTerms::freeze(TermsDraft { model: spec.clone(), cohort_size: 1, ..TermsDraft::default() })?;
//!
//! // What a device does with it.
//! let mut model = LoadedModel::load(&spec, None)?;
//! let parameters = model.model().server().init(20, &mut Rng::new(1))?;
//! let shared = Arc::new(SharedModel { federation: FederationId(0), version: ModelVersion(0), parameters });
//! let (secret, mut ledger) = (Secret::new([7; 32]), Ledger::totals_only());
//! let outcome = model.run_round(
//!     &DeviceRound {
//!         terms: &terms,
//!         digest: Digest::of(&shared.parameters),
//!         shared: &shared,
//!         history: (&[2, 3, 11]).into(),
//!         figures: &NoFigures,
//!         policy: &Policy::new(0.5)?,
//!         randomness: &Seeds::Own.in_round((&secret, &secret), "fpl", terms.round, [8; 32]),
//!         key: None,
//!         identity: None,
//!         client_index: None,
//!         when: 1_700_000_000,
//!     },
//!     (None, None),
//!     &mut ledger,
//! )?;
//! assert!(matches!(outcome.upload, Upload::Message(_) | Upload::Nothing));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod audiences;
pub mod bytes;
mod candidates;
pub mod criteria;
mod digest;
mod error;
mod fitting;
mod loaded;
mod randomness;
mod round;
mod sealing;
pub mod streams;

pub use audiences::{RANDOMISED_RESPONSE, category_scores, measurement_epsilon, question_score, record_report};
pub use candidates::LeftOut;
pub use criteria::{Figures, NoFigures};
pub use digest::Digest;
pub use error::{ClientError, Declined};
pub use fitting::Fitting;
pub use loaded::{DeviceRound, LoadedModel, Outcome, Upload};
pub use randomness::{InRound, Randomness, Secret, Seeds, SimulatedRandomness};
pub use round::{Buffers, Device, Round, Session, Training, check_decoys, policy_in};
pub use sealing::{Sealing, SealingError};
