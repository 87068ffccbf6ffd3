//! Figures that a round may ask for and the owner may let out.

pub use sottovoce_models::criteria::{AUC, CLOSENESS, DIVERSITY, LOSS, RECENCY, SIZE};

/// The share of items not in `history` that score less than `item`, ties counting half; `None` if there are none.
/// `history` ascends; the item is one of it.
pub(crate) fn auc(scores: &[f32], item: u32, history: &[u32]) -> Option<f64> {
    let score = scores[item as usize];
    let mut had = history.iter().copied().peekable();
    let (mut halves, mut others) = (0u64, 0u64);
    for (row, other) in (0..).zip(scores) {
        if had.next_if_eq(&row).is_some() {
            continue;
        }
        others += 1;
        halves += match other.partial_cmp(&score) {
            Some(std::cmp::Ordering::Less) => 2,
            Some(std::cmp::Ordering::Equal) => 1,
            _ => 0,
        };
    }
    (others > 0).then(|| halves as f64 / (2 * others) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_beats_what_scores_less_and_half_of_what_scores_the_same() {
        let scores = [0.5, 0.1, 0.5, 0.9, 7.0];
        assert_eq!(auc(&scores, 0, &[0, 4]), Some(0.5));
        assert_eq!(auc(&scores, 4, &[0, 4]), Some(1.0));
        assert_eq!(auc(&scores, 0, &[0, 1, 2, 3, 4]), None);
    }
}
