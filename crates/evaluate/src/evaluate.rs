//! The two entry points: evaluate a model's scores, or ranked lists.

use crate::compute::compute_metrics;
use crate::input::{ascending, expect_same};
use crate::per_user::mean;
use crate::ranking::rank;
use crate::{Candidates, EvaluateError, EvaluationInput, Metrics, PerUser, Protocol, RankedLists};
use std::collections::BTreeMap;

/// The result of an evaluation.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// The metrics, by cutoff.
    pub at: BTreeMap<usize, Metrics>,
    /// Each user's values.
    pub per_user: PerUser,
    /// The lists that were evaluated; those of a model are as long as the largest cutoff.
    pub lists: RankedLists,
    /// How often each item was recommended, by cutoff.
    pub recommended: BTreeMap<usize, Vec<u32>>,
    /// Which items competed; `None` for lists that were given.
    pub candidates: Option<Candidates>,
}

impl Evaluation {
    /// Whether test items competed with a sample only.
    pub fn is_sampled(&self) -> bool {
        matches!(self.candidates, Some(Candidates::Sampled { .. }))
    }
}

/// Ranks the catalog for every user by a model's scores and computes the metrics of the lists.
///
/// `score` writes a score for each item, higher is better; it is called once per user, from several threads. Ties go to
/// the lower item. NaN is worse than any other score. With sampled candidates, all of a user's test
/// items and the sample are ranked together (leave-one-out has one test item a user), and a user without test items
/// has a list of the sample.
///
/// # Errors
/// If the histories of the input have different users or items, or the protocol is empty.
pub fn evaluate<S>(input: &EvaluationInput<'_>, protocol: &Protocol, score: S) -> Result<Evaluation, EvaluateError>
where
    S: Fn(usize, &mut [f32]) + Sync,
{
    input.check()?;
    let cutoffs = ascending(&protocol.cutoffs)?;
    if matches!(protocol.candidates, Candidates::Sampled { negatives: 0, .. }) {
        return Err(EvaluateError::NoNegatives);
    }
    let longest = cutoffs.last().copied().unwrap_or(1).min(input.items().max(1));
    let (lists, aucs) = rank(input, protocol.candidates, longest, &score);
    let mut evaluation = compute_metrics(input, &cutoffs, lists);
    evaluation.candidates = Some(protocol.candidates);
    if protocol.candidates == Candidates::AllUnrated {
        // Of users with test items.
        let evaluated: Vec<f64> = evaluation.per_user.users.iter().map(|&user| aucs[user as usize]).collect();
        let auc = mean(evaluated.iter().copied());
        evaluation.at.values_mut().for_each(|metrics| metrics.auc = auc);
        evaluation.per_user.auc = Some(evaluated);
    }
    Ok(evaluation)
}

/// Computes the metrics of given lists as they are: items of the training part are not removed.
///
/// # Errors
/// If the histories and the lists have different users or items, or there is no cutoff.
pub fn evaluate_lists(
    input: &EvaluationInput<'_>,
    cutoffs: &[usize],
    lists: &RankedLists,
) -> Result<Evaluation, EvaluateError> {
    input.check()?;
    expect_same("the set of lists", "users", lists.users(), input.users())?;
    expect_same("the set of lists", "items", lists.catalog_size(), input.items())?;
    Ok(compute_metrics(input, &ascending(cutoffs)?, lists.clone()))
}
