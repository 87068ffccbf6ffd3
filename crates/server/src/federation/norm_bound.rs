//! A bound on rows of single updates, from the updates of the same round.
//!
//! For each table the bound is a multiple of the median of the devices' longest rows. Rows beyond it are clipped to it,
//! which does little to an honest device that happens to lie beyond; an update far beyond is left out. So fewer than
//! half of a round's devices can neither move the bound much nor put more into a row than the multiple allows, whatever
//! numbers they send.

use sottovoce_protocol::{Received, Update};

/// So many times the bound, and an update is left out altogether: no honest one is that long.
const FAR: f64 = 10.0;
/// With fewer updates to a table there is no median to speak of.
const LEAST: usize = 3;

/// The longest row of each table of an update.
pub(super) fn longest_rows(update: &Update) -> Vec<f64> {
    let norm = |values: &[f32]| values.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
    update.tables().iter().map(|rows| rows.iter().map(|(_, values)| norm(values)).fold(0.0, f64::max)).collect()
}

/// What becomes of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Within,
    Clipped,
    LeftOut,
}

/// The longest rows that count, by table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NormBound(Vec<f64>);

impl NormBound {
    /// A multiple of the median over updates, at most `largest`, whatever they say.
    pub(super) fn of(longest: &[Vec<f64>], multiple: f64, largest: f64) -> Self {
        let tables = longest.first().map_or(0, Vec::len);
        let bound = |table: usize| {
            let mut rows: Vec<f64> = longest.iter().map(|of| of[table]).filter(|norm| *norm > 0.0).collect();
            if rows.len() < LEAST {
                return largest;
            }
            let middle = (rows.len() - 1) / 2;
            let (_, median, _) = rows.select_nth_unstable_by(middle, f64::total_cmp);
            (multiple * *median).min(largest)
        };
        Self((0..tables).map(bound).collect())
    }

    /// How many times as long as allowed an update's longest row is.
    fn excess(&self, longest: &[f64]) -> f64 {
        longest.iter().zip(&self.0).map(|(norm, bound)| norm / bound).fold(0.0, f64::max)
    }

    /// The same of the longest update.
    pub(super) fn largest_excess(&self, longest: &[Vec<f64>]) -> f64 {
        longest.iter().map(|of| self.excess(of)).fold(0.0, f64::max)
    }

    /// Clips an update whose longest rows are these.
    pub(super) fn apply(&self, longest: &[f64], update: &mut Received) -> Verdict {
        match self.excess(longest) {
            ..=1.0 => Verdict::Within,
            ..=FAR => {
                update.clip_rows(&self.0);
                Verdict::Clipped
            }
            _ => Verdict::LeftOut,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_than_half_cannot_move_the_bound_beyond_the_multiple() {
        let honest = [0.5, 1.0, 2.0, 1.5, 1.0].map(|norm| vec![norm, 0.0]);
        let bound = NormBound::of(&honest, 10.0, f64::INFINITY);
        assert_eq!(bound, NormBound(vec![10.0, f64::INFINITY]));
        let lying: Vec<Vec<f64>> = honest.iter().cloned().chain(vec![vec![1e38, 3e38]; 4]).collect();
        let moved = NormBound::of(&lying, 10.0, f64::INFINITY);
        assert_eq!(moved.0[0], 20.0);
        assert_eq!((moved.largest_excess(&honest), moved.largest_excess(&[])), (0.1, 0.0));
        // A table that only liars wrote to is bounded by the model.
        assert_eq!(NormBound::of(&lying[3..], 10.0, 1e4).0[1], 1e4);
        assert_eq!(NormBound::of(&lying[..2], 10.0, 1e4).0, [1e4, 1e4]);
        assert_eq!(NormBound::of(&[], 10.0, 1e4).0, [0.0; 0]);
    }
}
