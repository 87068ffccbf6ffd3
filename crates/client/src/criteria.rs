//! Criteria that a round may ask for and the owner may report.

pub use sottovoce_models::criteria::{AUC, CLOSENESS, DIVERSITY, KERNEL_CLOSENESS, LOSS, RECENCY, SIZE};

use crate::Round;
use crate::round::{Buffers, Device};
use sottovoce_models::{TrainStats, criteria};
use sottovoce_protocol::UpdateError;
use std::cmp::Ordering;

/// What a device knows of its items beside which they are.
pub trait Figures {
    /// The most recent of these items, ascending; held out to compute [`AUC`].
    fn latest(&self, items: &[u32]) -> Option<u32>;

    /// The value of a criterion that depends on more than training, such as [`DIVERSITY`] and [`RECENCY`], for these
    /// items.
    fn value(&self, criterion: &str, items: &[u32]) -> Option<f64>;
}

/// Nothing is known.
pub struct NoFigures;

impl Figures for NoFigures {
    fn latest(&self, _: &[u32]) -> Option<u32> {
        None
    }

    fn value(&self, _: &str, _: &[u32]) -> Option<f64> {
        None
    }
}

impl Round<'_> {
    /// The AUC of the latest item, which training must then leave out; `None` unless it is asked for and can be
    /// computed.
    pub(crate) fn held_out_auc(
        &self,
        device: &Device<'_>,
        private: &[f32],
        items: &[u32],
        scores: &mut Vec<f32>,
    ) -> Option<(u32, f64)> {
        let asked = self.terms.criteria.iter().any(|request| request.name == AUC) && device.policy.reports(AUC);
        let item = device.figures.latest(items).filter(|_| asked && items.len() > 1)?;
        let others: Vec<u32> = items.iter().copied().filter(|&other| other != item).collect();
        scores.clear();
        scores.resize(self.items, 0.0);
        self.client.score(self.shared, private, (&others).into(), scores);
        auc(scores, item, items).map(|auc| (item, auc))
    }

    /// Reports what the terms ask for and the device knows; the owner's policy decides later what leaves.
    pub(crate) fn report_criteria(
        &self,
        device: &Device<'_>,
        auc: Option<f64>,
        stats: &TrainStats,
        items: &[u32],
        buffers: &mut Buffers,
    ) -> Result<(), UpdateError> {
        for (index, request) in (0..).zip(&self.terms.criteria) {
            let value = match request.name.as_str() {
                SIZE => Some(items.len() as f64),
                CLOSENESS => Some(criteria::closeness(buffers.trained.update())),
                KERNEL_CLOSENESS => Some(criteria::kernel_closeness(buffers.trained.update())),
                LOSS => Some(stats.loss / stats.samples as f64),
                AUC => auc,
                name => device.figures.value(name, items),
            };
            if let Some(value) = value {
                buffers.trained.report(index, value)?;
            }
        }
        Ok(())
    }
}

/// The fraction of items outside `history` that score less than `item`, ties counting half; `None` if there are none.
/// `history` ascends and contains the item.
fn auc(scores: &[f32], item: u32, history: &[u32]) -> Option<f64> {
    let score = scores.get(item as usize)?;
    let mut own = history.iter().copied().peekable();
    let (mut halves, mut others) = (0u64, 0u64);
    for (row, other) in (0..).zip(scores) {
        if own.next_if_eq(&row).is_some() {
            continue;
        }
        others += 1;
        halves += match other.partial_cmp(score) {
            Some(Ordering::Less) => 2,
            Some(Ordering::Equal) => 1,
            _ => 0,
        };
    }
    (others > 0).then(|| halves as f64 / (2 * others) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auc_counts_lower_scores_and_half_of_ties() {
        let scores = [0.5, 0.1, 0.5, 0.9, 7.0];
        assert_eq!(auc(&scores, 0, &[0, 4]), Some(0.5));
        assert_eq!(auc(&scores, 4, &[0, 4]), Some(1.0));
        assert_eq!(auc(&scores, 0, &[0, 1, 2, 3, 4]), None);
        assert_eq!(auc(&scores, 9, &[9]), None);
    }
}
