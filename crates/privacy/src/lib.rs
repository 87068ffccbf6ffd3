//! What protects updates beyond their owner's policy: each mechanism with its device half and its server half.
//!
//! No I/O, no clock and no entropy of its own: who uses it brings 32 secret bytes for a [`Generator`].

pub mod dp;
mod generator;
#[cfg(feature = "he")]
pub mod he;
pub mod packing;
pub mod secagg;
pub mod tokens;

pub use generator::Generator;
