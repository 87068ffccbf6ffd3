//! Studies of aggregation on images: how many rounds it takes until how many devices are how well served.
//!
//! A study file has a `[study]` table where an experiment has models (docs/experiments.md). For each aggregation (a criterion,
//! or several in order of priority) and each seed, devices train a classifier in a federation, and after every round
//! each device's share of right answers on its own test images is taken with the shared model. What comes of it is the
//! tables and curves of chapter 5 of A. Ferrara's thesis (Politecnico di Bari, 2022).
//!
//! Configurations are independent of each other: they run side by side, each is written down when it is finished, and one that
//! was interrupted goes on from its last checkpoint.

mod compose;
mod configuration;
mod course;
mod data;
mod file;
mod results;
mod runner;
mod store;

pub use compose::compose;
pub use configuration::{Aggregation, Configuration};
pub use course::{Best, Course, Ending};
pub use file::{ImageSource, ImagesSpec, Partition, Study, Training, is_study};
pub use results::{Results, Row, Tried};
pub use runner::{Event, Options, StudyError, run};
