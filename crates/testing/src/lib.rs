//! What tests, fuzz targets, proofs and `sottovoce bench` share, and no library needs.
//!
//! Libraries use this crate in their tests only; the program uses it for `sottovoce bench`. Each module with
//! dependencies is a feature.

pub mod allocation;
#[cfg(feature = "he")]
pub mod he_cost;
#[cfg(feature = "secagg")]
pub mod keeper_cost;
#[cfg(feature = "mutation")]
pub mod mutation;
#[cfg(feature = "reference")]
pub mod reference;
#[cfg(feature = "secagg")]
pub mod secagg_cost;
