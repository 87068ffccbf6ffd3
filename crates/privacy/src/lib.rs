//! Privacy layers over updates: each mechanism with its device half and its server half.
//!
//! - [`dp`]: differential privacy: noise on integers, adaptive clipping, and the accountant of what was spent;
//! - [`secagg`]: secure aggregation (SecAgg+): the server learns sums only;
//! - [`he`]: additively homomorphic encryption (BFV, CKKS) under keys that the server does not hold;
//! - [`tokens`]: one-time tokens (RFC 9497) for uploads that do not identify their sender;
//! - [`quantize`]: updates as integers, which the others work on.
//!
//! A [`PrivacyConfig`] says which layers a round has; round terms carry it. A [`PrivacyMechanism`] applies it to the
//! updates of a layout, on devices and on the server. No I/O, no clock and no entropy of its own: the caller brings 32
//! secret bytes for a [`SecureRng`].
//!
//! ```
//! use sottovoce_privacy::quantize::{Packing, RowLayout};
//! use sottovoce_privacy::{Noise, Placement, PrivacyConfig, PrivacyMechanism, Quantization, SecureRng};
//! use sottovoce_protocol::{Keyed, Layout, RowOrigin, Shape, Trained};
//!
//! // Local differential privacy: each of 10 devices clips its update to norm 1 and adds Gaussian noise.
//! let (rows, packing) = (RowLayout::Dense, Packing::Words);
//! let quantization = Quantization { range: 1.0, clip: Some(1.0), devices: 10, rows, packing };
//! let noise = Noise::new(Placement::Local, 0.5);
//! let config = PrivacyConfig { quantization: Some(quantization), noise: Some(noise), seal: None };
//! assert_eq!(PrivacyConfig::read(&config.terms())?, config, "as round terms carry it");
//!
//! let layout = Layout::new(vec![Shape::new("items", 5, 2, Keyed::Items)])?;
//! let mechanism = PrivacyMechanism::new(&config, &layout, 10)?.expect("updates are quantised");
//! let (mut sum, mut words) = (vec![0u32; mechanism.quantizer().length()], Vec::new());
//! for device in 0..10 {
//!     let mut trained = Trained::new(&layout);
//!     trained.push_row(0, 3, RowOrigin::Consumed)?.copy_from_slice(&[0.6, -0.8]);
//!     mechanism.quantize(trained.update(), &mut SecureRng::new([device; 32]), &mut words);
//!     sum.iter_mut().zip(&words).for_each(|(sum, word)| *sum = sum.wrapping_add(*word));
//! }
//! let mut rows = 0;
//! mechanism.read(&sum, 10, &mut SecureRng::new([99; 32]), |_table, _row, _count, _values| rows += 1)?;
//! assert_eq!(rows, 5, "with noise, every row is there");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod config;
pub mod dp;
#[cfg(feature = "he")]
mod encryption;
#[cfg(not(feature = "he"))]
#[path = "encryption_absent.rs"]
mod encryption;
mod floors;
pub mod he;
mod key_digest;
mod mechanism;
mod pinned;
pub mod quantize;
mod rng;
pub mod secagg;
mod spending;
pub mod tokens;

pub use config::{
    ACCEPTABLE, ANONYMOUS, BudgetPart, ENCRYPTION, IDENTITIES, NOISE, Noise, NoiseDistribution, PerExample, Placement,
    PrivacyConfig, PrivacyError, QUANTIZATION, Quantization, SECURE_AGGREGATION, Scheme, Seal, UPLOAD_RETENTION,
};
pub use encryption::{EncryptedSum, SumEncryption};
pub use floors::{FloorError, LEAST_NOISE_MULTIPLIER};
pub use key_digest::key_digest;
pub use mechanism::PrivacyMechanism;
pub use pinned::{commitment, lasting, weaker};
pub use rng::SecureRng;
pub use tokens::{anonymous_key, anonymous_layer};
