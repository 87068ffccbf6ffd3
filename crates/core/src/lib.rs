//! The few types that data, models and evaluation all speak.
//!
//! `data` reads files and produces [`Histories`] and a [`Catalog`]; `models` learn from [`Histories`]; `evaluate`
//! judges against other [`Histories`] of the same people. None of the three depends on another: they meet here.
//!
//! This crate does no I/O, starts no threads and builds for wasm32. Its arithmetic uses no platform mathematics
//! library, so the same seed gives the same bits on every machine and in the browser.

mod catalog;
mod facts;
mod facts_text;
mod front_coding;
mod histories;
mod images;
pub mod math;
mod names;
mod rng;
mod simd;
mod sorted_indices;

pub use catalog::{Catalog, Categories};
pub use facts::Facts;
pub use facts_text::{CATALOG_HEADER, FactsError};
pub use histories::{Histories, HistoriesBuilder, ShapeError};
pub use images::{Images, ImagesError};
pub use names::Names;
pub use rng::Rng;
pub use simd::{SimdKernel, simd_dispatch};
pub use sorted_indices::SortedIndices;
