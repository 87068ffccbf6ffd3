//! Experiments: many trials and one answer.
//!
//! An [`Experiment`] file says which models, settings, data sets and seeds are compared and how settings are chosen.
//! The [`engine`] expands it into [`plan::Trial`]s, runs those that the [`journal`] does not have yet, chooses on
//! the validation part, and gathers [`results::Results`] that do not depend on order, threads or interruptions.

pub mod checkpoint;
pub mod compose;
pub mod engine;
pub mod file;
pub mod grid;
pub mod journal;
pub mod kept;
pub mod metric;
pub mod outcome;
pub mod plan;
pub mod results;
pub mod runner;
pub mod search;
pub mod study;
pub mod trial;
pub mod unlearning;
mod values;
mod watching;
mod witness;

pub use file::{Experiment, FileError, ReadError};
