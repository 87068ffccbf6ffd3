//! Evaluation of recommenders: metrics, significance tests, tables, plots and the HTML report.
//!
//! [`evaluate`](fn@evaluate) ranks the catalog for each user by a model's scores and computes the metrics of the lists;
//! [`evaluate_lists`] does the same for lists that any other system made, with the same code. An [`Evaluation`] holds
//! each user's values beside the means; [`significance`] compares models on them. [`report`] turns results into tables,
//! plots and a page.
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
mod hidden_interest;
mod input;
mod lists;
pub mod metric;
mod per_user;
mod popularity;
mod quantiles;
mod ranking;
pub mod report;
mod sampling;
pub mod significance;
mod top_k;

pub use beyond_accuracy::source_bias;
pub use evaluate::{Evaluation, evaluate, evaluate_lists};
pub use hidden_interest::{HiddenInterestMetrics, HiddenInterests};
pub use input::{Candidates, EvaluateError, EvaluationInput, Protocol, Sampling};
pub use lists::{Order, RankedLists, RankedListsBuilder, RankedListsError};
pub use metric::{Metric, Metrics};
pub use per_user::PerUser;
pub use quantiles::{quantile, quantile_groups};
