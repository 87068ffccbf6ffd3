//! The types that data, models and evaluation share: histories, catalogs, item features, seeded randomness and
//! deterministic mathematics.
//!
//! `data` reads files into [`Histories`] and a [`Catalog`]; `models` train on [`Histories`]; `evaluate` compares with
//! other [`Histories`] of the same users. None of the three depends on another.
//!
//! This crate does no I/O, starts no threads and builds for wasm32. It uses no platform mathematics library, so the
//! same seed gives the same bits on every machine and in the browser.
//!
//! ```
//! use sottovoce_core::{Histories, Rng};
//! let histories = Histories::from_lists(&[vec![2, 0], vec![1], vec![0]], 3)?;
//! assert_eq!((histories.users(), histories.popularity()), (3, vec![2, 1, 1]));
//! let mut rng = Rng::new(7).stream("negatives", 1);
//! assert!(rng.below(3) < 3);
//! # Ok::<(), sottovoce_core::ShapeError>(())
//! ```

mod catalog;
mod facts;
mod facts_text;
mod front_coding;
mod histories;
mod images;
pub mod math;
mod names;
mod pages;
mod rng;
mod simd;
mod sorted_indices;

pub use catalog::{Catalog, Categories};
pub use facts::Facts;
pub use facts_text::{CATALOG_HEADER, FactsError};
pub use histories::{Histories, HistoriesBuilder, ShapeError};
pub use images::{Images, ImagesError};
pub use names::Names;
pub use pages::{History, PageTable, Pages, RecentPages};
pub use rng::Rng;
pub use simd::{SimdKernel, simd_dispatch};
pub use sorted_indices::SortedIndices;
