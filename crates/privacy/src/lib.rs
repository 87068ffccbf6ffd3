//! What protects updates beyond their owner's policy: each mechanism with its device half and its server half.
//!
//! No I/O, no clock and no entropy of its own: who uses it brings 32 secret bytes for a [`SecureRng`].

mod anonymous;
pub mod dp;
mod generator;
pub mod he;
mod lock;
pub mod quantize;
mod protected;
mod protection;
pub mod secagg;
pub mod tokens;

pub use anonymous::{anonymous_key, anonymous_layer};
pub use generator::SecureRng;
pub use lock::{SumEncryption, EncryptedSum, key_digest};
pub use protected::PrivacyMechanism;
pub use protection::{
    ANONYMOUS, ENCRYPTION, PerExample, IDENTITIES, QUANTIZATION, Quantization, UPLOAD_RETENTION, NOISE, Noise, Placement,
    PrivacyConfig, PrivacyError, SECURE_AGGREGATION, Scheme, Seal, NoiseDistribution,
};
