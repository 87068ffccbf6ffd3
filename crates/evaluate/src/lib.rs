//! How good are the recommendations, for whom, and is the difference real?
//!
//! [`judge`] ranks the catalog for each user by a model's scores and measures the lists; [`judge_lists`] measures lists
//! that came from anywhere. Both end in the same code, so a model and somebody else's file are judged alike. An
//! [`Evaluation`] keeps each user's values beside the means: [`significance`] compares models on them, [`slices`] shows
//! who is served well.
//!
//! ```
//! use sottovoce_core::Histories;
//! use sottovoce_evaluate::{Protocol, Question, judge};
//!
//! let train = Histories::from_lists(&[vec![0], vec![1, 2]], 5)?;
//! let test = Histories::from_lists(&[vec![4], vec![3]], 5)?;
//! let question = Question::new(&train, &test);
//! // This model likes items with high numbers.
//! let score = |_user: usize, into: &mut [f32]| (0..5).for_each(|item| into[item] = item as f32);
//! let evaluation = judge(&question, &Protocol::all_unrated([1, 2]), score)?;
//! assert_eq!(evaluation.at[&1].precision, 0.5);
//! assert_eq!(evaluation.at[&2].recall, 1.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod accuracy;
mod auc;
pub mod communication;
mod desk;
mod evaluation;
mod exposure;
mod judge;
mod lists;
mod measure;
pub mod metric;
mod per_user;
mod popularity;
mod question;
mod ranking;
pub mod report;
mod sampling;
pub mod significance;
pub mod slices;

pub use evaluation::{Evaluation, Summary};
pub use judge::{judge, judge_lists};
pub use lists::{Lists, ListsBuilder, ListsError, Order};
pub use metric::{Better, Key, Metrics};
pub use per_user::{Columns, PerUser};
pub use popularity::Popularity;
pub use question::{Candidates, EvaluateError, Protocol, Question};
