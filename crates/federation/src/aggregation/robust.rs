//! Adding up updates of which some may be lies.
//!
//! By default every update counts as it is. A guard bounds what one device can do: by cutting rows or whole updates down to
//! a norm; by putting a median or a trimmed mean instead of the mean, value by value over the devices that sent the
//! row (Yin, Chen, Ramchandran, Bartlett: Byzantine-robust distributed learning, ICML 2018); or by going by the update, or the
//! updates, that lie nearest to the others (Krum: Blanchard, El Mhamdi, Guerraoui, Stainer, NIPS 2017). A sum is then that mean
//! times the number of devices, so that any strategy can follow. All but cutting down keep a round's updates in memory.

use sottovoce_protocol::Rows;

/// What one device can do to the sum.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum RobustAggregator {
    /// Anything.
    #[default]
    None,
    /// At most this norm: longer rows are partition down to it.
    Clip(f32),
    /// The median of each value counts.
    Median,
    /// The mean of each value without this share of the largest and of the smallest.
    Trimmed(f32),
    /// At most this norm: whole updates that are longer are partition down to it.
    ClipUpdate(f32),
    /// The one update that is nearest to its neighbours counts, if this share of devices lies.
    Krum(f32),
    /// The mean of all updates but this share, those farthest from their neighbours.
    MultiKrum(f32),
}

impl RobustAggregator {
    /// The name for settings.
    pub fn name(self) -> &'static str {
        match self {
            RobustAggregator::None => "none",
            RobustAggregator::Clip(_) => "clip",
            RobustAggregator::Median => "median",
            RobustAggregator::Trimmed(_) => "trimmed-mean",
            RobustAggregator::ClipUpdate(_) => "clip-update",
            RobustAggregator::Krum(_) => "krum",
            RobustAggregator::MultiKrum(_) => "multi-krum",
        }
    }

    /// Whether all rows are buffered until the round is over.
    pub(crate) fn buffers_rows(self) -> bool {
        matches!(self, RobustAggregator::Median | RobustAggregator::Trimmed(_))
    }

    /// Whether whole updates are buffered until the round is over.
    pub(crate) fn buffers_updates(self) -> bool {
        matches!(self, RobustAggregator::Krum(_) | RobustAggregator::MultiKrum(_))
    }

    /// The mean that counts; changes the order of values.
    fn mean(self, values: &mut [f32]) -> f32 {
        values.sort_unstable_by(f32::total_cmp);
        let count = values.len();
        let middle = match self {
            RobustAggregator::Trimmed(share) => {
                let partition = ((count as f32 * share) as usize).min((count - 1) / 2);
                &values[partition..count - partition]
            }
            _ => &values[(count - 1) / 2..=count / 2],
        };
        (middle.iter().map(|&value| f64::from(value)).sum::<f64>() / middle.len() as f64) as f32
    }
}

/// The factor that brings a row down to a norm.
pub(crate) fn clipping<'a>(values: impl IntoIterator<Item = &'a f32>, norm: f32) -> Option<f32> {
    let square: f64 = values.into_iter().map(|&value| f64::from(value) * f64::from(value)).sum();
    let found = square.sqrt();
    (found > f64::from(norm)).then(|| (f64::from(norm) / found) as f32)
}

/// Buffered rows of one table.
#[derive(Clone, Debug, Default)]
pub(crate) struct BufferedRows {
    rows: Vec<u32>,
    values: Vec<f32>,
}

impl BufferedRows {
    pub(crate) fn add(&mut self, rows: &Rows) {
        match rows.indices() {
            Some(indices) => self.rows.extend_from_slice(indices),
            None => self.rows.extend(0..rows.len() as u32),
        }
        self.values.extend_from_slice(rows.values());
    }

    /// Moves the rows of another buffer here.
    pub(crate) fn append(&mut self, other: &mut BufferedRows) {
        self.rows.append(&mut other.rows);
        self.values.append(&mut other.values);
    }

    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.values.clear();
    }

    /// Goes through the rows: which, how many devices sent it, and the guarded mean times that number.
    pub(crate) fn sums(
        &self,
        robust: RobustAggregator,
        cols: usize,
        mut each: impl FnMut(usize, u32, &[f32]),
    ) {
        let mut order: Vec<u32> = (0..self.rows.len() as u32).collect();
        order.sort_by_key(|&index| self.rows[index as usize]);
        let (mut column, mut sum) = (Vec::new(), vec![0.0; cols]);
        for same in order.chunk_by(|&a, &b| self.rows[a as usize] == self.rows[b as usize]) {
            for (col, sum) in sum.iter_mut().enumerate() {
                column.clear();
                column.extend(same.iter().map(|&index| self.values[index as usize * cols + col]));
                *sum = robust.mean(&mut column) * same.len() as f32;
            }
            each(self.rows[same[0] as usize] as usize, same.len() as u32, &sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Aggregate;
    use proptest::prelude::*;
    use sottovoce_protocol::{Keyed, Layout, RowOrigin, Shape, Trained};

    fn layout() -> Layout {
        Layout::new(vec![Shape::new("items", 3, 2, Keyed::Items)]).unwrap()
    }

    /// A round in which each device sends these rows.
    fn aggregate(robust: RobustAggregator, devices: &[&[(u32, [f32; 2])]]) -> Vec<(usize, u32, Vec<f32>)> {
        let layout = layout();
        let mut parts: Vec<Aggregate> = (0..2).map(|_| Aggregate::with(&layout, &robust.into())).collect();
        for (index, rows) in devices.iter().enumerate() {
            let mut trained = Trained::new(&layout);
            for (row, values) in *rows {
                trained.push_row(0, *row, RowOrigin::Other).unwrap().copy_from_slice(values);
            }
            parts[index * 2 / devices.len()].add(trained.update());
        }
        let [mut all, mut other] = <[Aggregate; 2]>::try_from(parts).unwrap();
        all.merge(&mut other);
        all.finish();
        let mut rows: Vec<_> =
            all.tables()[0].rows().map(|(row, count, sum)| (row, count, sum.to_vec())).collect();
        rows.sort_by_key(|row| row.0);
        assert_eq!(all.updates, devices.len() as u64);
        rows
    }

    #[test]
    fn one_liar_among_five_moves_the_sum_and_not_the_median() {
        let honest: &[(u32, [f32; 2])] = &[(0, [1.0, -2.0]), (2, [0.5, 0.5])];
        let liar: &[(u32, [f32; 2])] = &[(0, [1e6, 1e6])];
        let devices = [honest, honest, liar, honest, honest];
        let sum = aggregate(RobustAggregator::None, &devices);
        assert!(sum[0].2[0] > 1e5);
        let expected = vec![(0, 5, vec![5.0, -10.0]), (2, 4, vec![2.0, 2.0])];
        assert_eq!(aggregate(RobustAggregator::Median, &devices), expected);
        assert_eq!(aggregate(RobustAggregator::Trimmed(0.2), &devices), expected);
        let clipped = aggregate(RobustAggregator::Clip(5f32.sqrt()), &devices);
        assert!((clipped[0].2[0] - (4.0 + 2.5f32.sqrt())).abs() < 1e-4, "{clipped:?}");
        assert_eq!(clipped[1], expected[1]);
    }

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_two() {
        let rows: Vec<[(u32, [f32; 2]); 1]> = [1.0, 8.0, 2.0, 4.0].map(|v| [(1, [v, -v])]).to_vec();
        let devices: Vec<&[(u32, [f32; 2])]> = rows.iter().map(|row| &row[..]).collect();
        assert_eq!(aggregate(RobustAggregator::Median, &devices), [(1, 4, vec![12.0, -12.0])]);
    }

    proptest! {
        #[test]
        fn without_trimming_and_with_a_wide_bound_it_is_the_sum(
            values in prop::collection::vec((0u32..3, [-8i8..8, -8i8..8]), 1..20),
        ) {
            let rows: Vec<[(u32, [f32; 2]); 1]> =
                values.iter().map(|&(row, [a, b])| [(row, [f32::from(a), f32::from(b)])]).collect();
            let devices: Vec<&[(u32, [f32; 2])]> = rows.iter().map(|row| &row[..]).collect();
            let sum = aggregate(RobustAggregator::None, &devices);
            prop_assert_eq!(&aggregate(RobustAggregator::Clip(100.0), &devices), &sum);
            let trimmed = aggregate(RobustAggregator::Trimmed(0.0), &devices);
            for ((row, count, sum), (other, others, mean)) in sum.iter().zip(&trimmed) {
                prop_assert_eq!((row, count), (other, others));
                prop_assert!(sum.iter().zip(mean).all(|(a, b)| (a - b).abs() < 1e-3));
            }
        }
    }
}
