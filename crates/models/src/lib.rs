//! The recommenders, one folder each.
//!
//! [`central`] holds the baselines that see all data. Every model is listed once in the [`registry`], with its paper
//! and its settings (name, meaning, default, range); programs build models through it and never by name tests of
//! their own.

pub mod central;
mod recommender;
pub mod registry;
pub mod settings;

pub use recommender::{
    Because, Fit, Flow, ModelError, Progress, Quiet, Reason, Recommender, Summary, Tensor, TensorData, Watch,
};
