//! What protects updates beyond their owner's policy: each mechanism with its device half and its server half.
//!
//! No I/O, no clock and no entropy of its own: who uses it brings 32 secret bytes for a [`Generator`].

mod anonymous;
pub mod dp;
mod generator;
pub mod he;
mod key_digest;
#[cfg(feature = "he")]
mod lock;
#[cfg(not(feature = "he"))]
mod lock_absent;
pub mod packing;
mod protected;
mod protection;
pub mod secagg;
pub mod tokens;

pub use anonymous::{anonymous_key, anonymous_layer};
pub use generator::Generator;
pub use key_digest::key_digest;
#[cfg(feature = "he")]
pub use lock::{Lock, LockedSum};
#[cfg(not(feature = "he"))]
pub use lock_absent::{Lock, LockedSum};
pub use protected::Protected;
pub use protection::{
    ANONYMOUS, ENCRYPTION, Each, IDENTITIES, INTEGERS, Integers, KEPT_UPLOADS, NOISE, Noise, Placement,
    Protection, ProtectionError, SECURE_AGGREGATION, Scheme, Seal, Shape,
};
