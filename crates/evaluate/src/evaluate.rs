//! The two ways to an evaluation: from scores, and from lists.

use crate::compute::compute_metrics;
use crate::input::{ascending, same};
use crate::per_user::mean;
use crate::ranking::rank;
use crate::{Candidates, EvaluateError, Evaluation, EvaluationInput, Protocol, RankedLists};

/// Ranks the catalog for every user and measures the lists.
///
/// `score` writes a score for each item, higher is better; it is called once a user, from several threads. Ties go to
/// the lower item. A score that is not a number is worse than any other. With sampled candidates, all of a user's test
/// items and the sample are ranked together (leave-one-out has one test item a user), and a user without test items
/// has a list of the sample.
///
/// # Errors
/// If the parts of the input do not fit together, or the protocol asks for nothing.
pub fn evaluate<S>(
    input: &EvaluationInput<'_>,
    protocol: &Protocol,
    score: S,
) -> Result<Evaluation, EvaluateError>
where
    S: Fn(usize, &mut [f32]) + Sync,
{
    input.check()?;
    let cutoffs = ascending(&protocol.cutoffs)?;
    if matches!(protocol.candidates, Candidates::Sampled { negatives: 0, .. }) {
        return Err(EvaluateError::NoNegatives);
    }
    let longest = cutoffs.last().copied().unwrap_or(1).min(input.items().max(1));
    let (lists, areas) = rank(input, protocol.candidates, longest, &score);
    let mut evaluation = compute_metrics(input, &cutoffs, lists);
    evaluation.candidates = Some(protocol.candidates);
    if protocol.candidates == Candidates::AllUnrated {
        add_areas(&mut evaluation, &areas);
    }
    Ok(evaluation)
}

/// Measures lists that came from anywhere, as they are: items of the training part are not taken out.
///
/// # Errors
/// If the parts of the input or the lists do not fit together, or there is no cutoff.
pub fn evaluate_lists(
    input: &EvaluationInput<'_>,
    cutoffs: &[usize],
    lists: &RankedLists,
) -> Result<Evaluation, EvaluateError> {
    input.check()?;
    same("the set of lists", "users", lists.users(), input.users())?;
    same("the set of lists", "items", lists.catalog_size(), input.items())?;
    Ok(compute_metrics(input, &ascending(cutoffs)?, lists.clone()))
}

/// Keeps the areas of users with test items, and their mean.
fn add_areas(evaluation: &mut Evaluation, areas: &[f64]) {
    let evaluated: Vec<f64> = evaluation.per_user.users.iter().map(|&user| areas[user as usize]).collect();
    let auc = mean(evaluated.iter().copied());
    evaluation.at.values_mut().for_each(|metrics| metrics.auc = auc);
    evaluation.per_user.auc = Some(evaluated);
}
