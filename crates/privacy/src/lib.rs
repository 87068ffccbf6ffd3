//! What protects updates beyond their owner's policy: each mechanism with its device half and its server half.
//!
//! No I/O, no clock and no entropy of its own: who uses it brings 32 secret bytes for a [`Generator`].

mod anonymous;
pub mod dp;
mod generator;
pub mod he;
mod lock;
pub mod packing;
mod protected;
mod protection;
pub mod secagg;
pub mod tokens;

pub use anonymous::{anonymous_key, anonymous_layer};
pub use generator::Generator;
pub use lock::{Lock, LockedSum, key_digest};
pub use protected::Protected;
pub use protection::{
    ANONYMOUS, ENCRYPTION, Each, IDENTITIES, INTEGERS, Integers, KEPT_UPLOADS, NOISE, Noise, Placement,
    Protection, ProtectionError, SECURE_AGGREGATION, Scheme, Seal, Shape,
};
