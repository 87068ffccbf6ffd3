//! Differential privacy: clipping, noise on integers, and the accounts of what was spent.
//!
//! One person's whole update is clipped and turned into integers ([`packing`](crate::quantize)) and noised on them ([`noise`]); the [`accountant`]
//! adds up what the rounds that really happened have spent. Noise is drawn on integers because the doubles that a
//! floating-point sampler can reach depend on what was to be hidden (Mironov 2012).

pub mod accountant;
mod adaptive;
mod bernoulli;
mod error;
mod gaussian;
pub mod noise;
mod normal;

pub use adaptive::AdaptiveClip;
pub use error::DpError;
