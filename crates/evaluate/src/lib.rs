//! How good are the recommendations, for whom, and is the difference real?
//!
//! [`evaluate`](fn) ranks the catalog for each user by a model's scores and measures the lists; [`evaluate_lists`] measures lists
//! that came from anywhere. Both end in the same code, so a model and somebody else's file are evaluated alike. An
//! [`Evaluation`] keeps each user's values beside the means: [`significance`] compares models on them, [`slices`] shows
//! who is served well.
//!
//! ```
//! use sottovoce_core::Histories;
//! use sottovoce_evaluate::{EvaluationInput, Protocol, evaluate};
//!
//! let train = Histories::from_lists(&[vec![0], vec![1, 2]], 5)?;
//! let test = Histories::from_lists(&[vec![4], vec![3]], 5)?;
//! let input = EvaluationInput::new(&train, &test);
//! // This model likes items with high numbers.
//! let score = |_user: usize, into: &mut [f32]| (0..5).for_each(|item| into[item] = item as f32);
//! let evaluation = evaluate(&input, &Protocol::all_unrated([1, 2]), score)?;
//! assert_eq!(evaluation.at[&1].precision, 0.5);
//! assert_eq!(evaluation.at[&2].recall, 1.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod accuracy;
mod auc;
mod beyond_accuracy;
pub mod communication;
mod compute;
mod evaluate;
mod evaluation;
mod input;
mod lists;
pub mod metric;
mod per_user;
mod popularity;
mod ranking;
pub mod report;
mod sampling;
pub mod significance;
pub mod slices;
mod top_k;

pub use evaluate::{evaluate, evaluate_lists};
pub use evaluation::{Evaluation, Summary};
pub use input::{Candidates, EvaluateError, EvaluationInput, Protocol};
pub use lists::{Order, RankedLists, RankedListsBuilder, RankedListsError};
pub use metric::{Better, Metric, Metrics};
pub use per_user::{Columns, PerUser};
pub use popularity::Popularity;
