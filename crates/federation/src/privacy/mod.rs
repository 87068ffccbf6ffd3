//! What protects updates beyond their owners' policies, in the simulator and on a server alike.
//!
//! What both halves of a round go by is [`sottovoce_privacy::PrivacyMechanism`]; a [`PrivacyEngine`] is the server's:
//! it adds the noise that is the server's to add, opens sums, draws cohorts as the accountant assumes, and keeps that
//! accountant.

mod accountant;
mod config;
mod engine;
mod quantized_sum;

pub(crate) use accountant::PrivacyAccountant;
pub use config::{KeeperKeys, SEALED_FROM};
pub(crate) use config::{NoiseKind, NoiseShape, PrivacySettings, SealKeys, SealKind};
pub use engine::{PrivacyEngine, Sampling};
pub(crate) use quantized_sum::{QuantizedSum, QuantizedSumConfig};
