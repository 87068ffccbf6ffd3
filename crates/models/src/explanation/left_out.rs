//! Leaving items out, for models that score from the history alone (autoencoders).
//!
//! With s(H) the scores by history H, and the mean over all items j of the catalog,
//! ```text
//! weight of h for item i = [s_i(H) - mean_j s_j(H)] - [s_i(H without h) - mean_j s_j(H without h)]
//! ```
//! The mean is taken off because a score counts only beside other items' scores: an item of the history that raises
//! all scores alike speaks for none of them.

use super::Reason;

/// Reasons for the items `of`, for somebody who has `own`; `score` writes scores by a history, for a catalog of this
/// size.
pub(crate) fn by_leaving_out(
    own: &[u32],
    of: &[u32],
    catalog: usize,
    mut score: impl FnMut(&[u32], &mut [f32]),
) -> Vec<Vec<Reason>> {
    let mut scores = vec![0.0; catalog];
    let mut relative = |history: &[u32]| -> Vec<f64> {
        score(history, &mut scores);
        let mean = scores.iter().copied().map(f64::from).sum::<f64>() / catalog.max(1) as f64;
        of.iter().map(|&item| f64::from(scores[item as usize]) - mean).collect()
    };
    let whole = relative(own);
    let mut reasons = vec![Vec::with_capacity(own.len()); of.len()];
    for (place, &left_out) in own.iter().enumerate() {
        let others = [&own[..place], &own[place + 1..]].concat();
        for ((reasons, whole), without) in reasons.iter_mut().zip(&whole).zip(relative(&others)) {
            reasons.push(Reason::had(left_out, (whole - without) as f32));
        }
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scores are sums over the history of a row of this matrix, plus 5 an item of the history for all items alike.
    const WEIGHTS: [[f32; 4]; 4] = [[0.0, 2.0, 0.0, 0.0], [0.0; 4], [1.0, -1.0, 0.0, 0.0], [0.0; 4]];

    #[test]
    fn an_item_weighs_what_its_absence_costs_beside_all_items() {
        let score = |history: &[u32], into: &mut [f32]| {
            for (item, score) in into.iter_mut().enumerate() {
                *score = history.iter().map(|&had| 5.0 + WEIGHTS[had as usize][item]).sum();
            }
        };
        // Row 0 has a mean of 0.5, row 2 of 0, row 3 of 0.
        let expected = [vec![(0, 1.5), (2, -1.0), (3, 0.0)], vec![(0, -0.5), (2, 1.0), (3, 0.0)]];
        let expected =
            expected.map(|of| of.into_iter().map(|(item, weight)| Reason::had(item, weight)).collect::<Vec<_>>());
        assert_eq!(by_leaving_out(&[0, 2, 3], &[1, 0], 4, score), expected);
    }
}
