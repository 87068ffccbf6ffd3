//! Experiments: from an experiment file to results and a report.
//!
//! An [`Experiment`] file names data sets, models, settings and seeds. [`engine::run`] expands it into trials, runs
//! those that the run folder does not have yet, selects settings on the validation part and collects
//! [`results::Results`] that do not depend on order, threads or interruptions. [`report::compose`] makes the report.
//!
//! Recommenders ([`recommender::Recommenders`]) and image classifiers ([`classifier::Classifiers`]) go through the same
//! engine, journal and report: they differ in the [`engine::Trials`] that train them. [`training`] trains a single
//! recommender without an experiment file.
//!
//! ```
//! use sottovoce_experiment::engine::{self, Options};
//! use sottovoce_experiment::recommender::Recommenders;
//! use sottovoce_experiment::{Experiment, report};
//! use sottovoce_federation::registry;
//!
//! let file = r#"
//!     title = "Popularity against neighbours"
//!     data = ["synth:town:users=60"]
//!     [[model]]
//!     name = "mostpop"
//!     [[model]]
//!     name = "item-knn"
//!     grid = { k = [5, 20] }
//! "#;
//! let experiment = Experiment::parse("small.toml", file, &registry::all())?;
//! let folder = tempfile::tempdir()?;
//! let trials = Recommenders::new(Default::default(), || None);
//! let results = engine::run(&experiment, &trials, &Options::new(folder.path()))?;
//! assert_eq!(results.data[0].rows.len(), 2);
//! assert_eq!(results.data[0].rows[1].tried.len(), 2);
//! let report = report::compose(&experiment, file, &results, &[]);
//! assert!(report.summary[0].contains("ranks best"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cache;
pub mod checkpoint;
pub mod classifier;
pub mod engine;
mod feature_retention;
pub mod file;
pub mod journal;
pub mod lookalike;
pub mod metric;
mod monitor;
pub mod outcome;
pub mod people;
pub mod plan;
pub mod prepare;
pub mod recommender;
pub mod report;
pub mod results;
pub mod search;
pub mod training;
pub mod unlearning;
mod values;

pub use file::{Experiment, FileError, ReadError};
