//! The daily batch pipeline of look-alike modelling, for operators who hold consented click logs.
//!
//! Two jobs run once a day. [`interests`] turns the day's clicks into interests of all who were active, by the rules of
//! [`sottovoce_data::interests`] and with its results, bit for bit, and embeds titles that are new. [`lookalikes`] lets
//! a model score those people and counts the audiences. Both cost in proportion to the day, not to the history: see
//! [`tables`]. Plans are SQL on DataFusion; the same plans run in this process or on a cluster of Ballista's, whose
//! scheduler and executors are this program too (`cluster`).
//!
//! The crate is a workspace of its own: its dependencies are more than those of all others together, and neither the
//! default build nor its profile should pay for them.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that reports to people")]

pub mod cli;
#[cfg(feature = "cluster")]
pub mod cluster;
pub mod day;
pub mod engine;
pub mod functions;
pub mod generate;
pub mod input;
pub mod interests;
pub mod lookalikes;
pub mod merged;
mod packed;
pub mod pages;
pub mod scorer;
pub mod store;
pub mod tables;
pub mod trained;
mod visits;
