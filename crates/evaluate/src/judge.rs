//! The two ways to an evaluation: from scores, and from lists.

use crate::desk::rank;
use crate::measure::measure;
use crate::per_user::mean;
use crate::question::{ascending, same};
use crate::{Candidates, EvaluateError, Evaluation, Lists, Protocol, Question};

/// Ranks the catalog for every user and measures the lists.
///
/// `score` writes a score for each item, higher is better; it is called once a user, from several threads. Ties go to
/// the lower item. A score that is not a number is worse than any other. With sampled candidates, all of a user's test
/// items and the sample are ranked together (leave-one-out has one test item a user), and a user without test items
/// has a list of the sample.
///
/// # Errors
/// If the parts of the question do not fit together, or the protocol asks for nothing.
pub fn judge<S>(question: &Question<'_>, protocol: &Protocol, score: S) -> Result<Evaluation, EvaluateError>
where
    S: Fn(usize, &mut [f32]) + Sync,
{
    question.check()?;
    let cutoffs = ascending(&protocol.cutoffs)?;
    if matches!(protocol.candidates, Candidates::Sampled { negatives: 0, .. }) {
        return Err(EvaluateError::NoNegatives);
    }
    let longest = cutoffs.last().copied().unwrap_or(1).min(question.items().max(1));
    let (lists, areas) = rank(question, protocol.candidates, longest, &score);
    let mut evaluation = measure(question, &cutoffs, lists);
    evaluation.candidates = Some(protocol.candidates);
    if protocol.candidates == Candidates::AllUnrated {
        add_areas(&mut evaluation, &areas);
    }
    Ok(evaluation)
}

/// Measures lists that came from anywhere, as they are: items of the training part are not taken out.
///
/// # Errors
/// If the parts of the question or the lists do not fit together, or there is no cutoff.
pub fn judge_lists(
    question: &Question<'_>,
    cutoffs: &[usize],
    lists: &Lists,
) -> Result<Evaluation, EvaluateError> {
    question.check()?;
    same("the set of lists", "users", lists.users(), question.users())?;
    same("the set of lists", "items", lists.catalog_size(), question.items())?;
    Ok(measure(question, &ascending(cutoffs)?, lists.clone()))
}

/// Keeps the areas of users with test items, and their mean.
fn add_areas(evaluation: &mut Evaluation, areas: &[f64]) {
    let judged: Vec<f64> = evaluation.per_user.users.iter().map(|&user| areas[user as usize]).collect();
    let auc = mean(judged.iter().copied());
    evaluation.at.values_mut().for_each(|metrics| metrics.auc = auc);
    evaluation.per_user.auc = Some(judged);
}
