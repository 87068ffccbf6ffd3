//! The recommenders, one folder each.
//!
//! [`central`] holds the baselines that see all data; a federated model has a folder with the server's and the device's
//! half beside each other ([`fpl`], [`fcf`], [`gmf`], [`autoencoder`], [`kgflex`]). Every model is described once, by a
//! [`registry::Model`], with its paper and its
//! settings (name, meaning, default, range); programs build models through that and never by name tests of their own.

pub mod autoencoder;
mod bounded;
pub mod central;
pub mod classifier;
pub mod criteria;
pub mod fcf;
mod federated;
pub mod fpl;
pub mod gmf;
pub mod kgflex;
mod knowing;
pub mod learner;
mod loss;
mod negatives;
mod recommender;
pub mod registry;
pub mod settings;
mod spec;
pub mod stored;

pub use bounded::Bounds;
pub use federated::{DevicePart, Lesson, SharedPart, Task};
pub use knowing::facts_of;
pub use negatives::Negatives;
pub use recommender::{
    Because, Fit, Flow, Milestone, ModelError, Privacy, Progress, Quiet, Reason, Recommender, Summary,
    Tensor, TensorData, Traffic, Turnout, Watch,
};
pub use spec::SpecError;
