//! Accuracy of one user's list, and means over users.

use sottovoce_core::math;

/// One user's values at one cutoff, or sums of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Row {
    pub(crate) precision: f64,
    pub(crate) recall: f64,
    pub(crate) ndcg: f64,
    pub(crate) hit: f64,
    pub(crate) map: f64,
    pub(crate) mrr: f64,
}

impl Row {
    fn map2(self, other: Row, f: impl Fn(f64, f64) -> f64) -> Row {
        Row {
            precision: f(self.precision, other.precision),
            recall: f(self.recall, other.recall),
            ndcg: f(self.ndcg, other.ndcg),
            hit: f(self.hit, other.hit),
            map: f(self.map, other.map),
            mrr: f(self.mrr, other.mrr),
        }
    }
}

/// Rows of any number of users: a zero, a merge and a result.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sums {
    users: usize,
    sum: Row,
}

impl Sums {
    pub(crate) fn add(&mut self, row: Row) {
        self.merge(Sums { users: 1, sum: row });
    }

    pub(crate) fn merge(&mut self, other: Sums) {
        self.users += other.users;
        self.sum = self.sum.map2(other.sum, |a, b| a + b);
    }

    /// The means; NaN without users.
    pub(crate) fn means(self) -> Row {
        let users = self.users as f64;
        self.sum.map2(Row::default(), |sum, _| sum / users)
    }
}

/// Harmonic mean of precision and recall; 0 if both are.
pub(crate) fn f1(precision: f64, recall: f64) -> f64 {
    let sum = precision + recall;
    if sum == 0.0 { 0.0 } else { 2.0 * precision * recall / sum }
}

/// What a hit at each place is worth, and the greatest possible sum: both by place, the first being 0.
#[derive(Clone, Debug)]
pub(crate) struct Discounts {
    gain: Vec<f64>,
    ideal: Vec<f64>,
}

impl Discounts {
    /// For lists of up to `k` places.
    pub(crate) fn new(k: usize) -> Self {
        let gain: Vec<f64> = (0..k).map(|place| 1.0 / math::log2(place as f64 + 2.0)).collect();
        let mut sum = 0.0;
        let ideal = std::iter::once(0.0).chain(gain.iter().map(|gain| {
            sum += gain;
            sum
        }));
        let ideal = ideal.collect();
        Self { gain, ideal }
    }
}

/// Goes down one user's list and takes its values at each cutoff.
#[derive(Debug)]
pub(crate) struct Walk<'a> {
    discounts: &'a Discounts,
    test: usize,
    places: usize,
    hits: usize,
    gain: f64,
    precisions: f64,
    first: Option<usize>,
}

impl<'a> Walk<'a> {
    /// For a user with `test` test items, at least one.
    pub(crate) fn new(discounts: &'a Discounts, test: usize) -> Self {
        Self { discounts, test, places: 0, hits: 0, gain: 0.0, precisions: 0.0, first: None }
    }

    /// The next place of the list.
    pub(crate) fn step(&mut self, hit: bool) {
        if hit {
            self.hits += 1;
            self.gain += self.discounts.gain[self.places];
            self.precisions += self.hits as f64 / (self.places + 1) as f64;
            self.first.get_or_insert(self.places + 1);
        }
        self.places += 1;
    }

    /// The values at cutoff `k` if the list went as far as it does up to there.
    pub(crate) fn row(&self, k: usize) -> Row {
        let reachable = self.test.min(k);
        Row {
            precision: self.hits as f64 / k as f64,
            recall: self.hits as f64 / self.test as f64,
            ndcg: self.gain / self.discounts.ideal[reachable],
            hit: f64::from(self.hits > 0),
            map: self.precisions / reachable as f64,
            mrr: self.first.map_or(0.0, |place| 1.0 / place as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_by_hand() {
        // Places 2 and 3 of 3 are hits; 4 test items; k = 5.
        let discounts = Discounts::new(5);
        let mut walk = Walk::new(&discounts, 4);
        [false, true, true].into_iter().for_each(|hit| walk.step(hit));
        let row = walk.row(5);
        let log2 = f64::log2;
        let ideal = 1.0 + 1.0 / log2(3.0) + 0.5 + 1.0 / log2(5.0);
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-15, "{a} {b}");
        close(row.precision, 2.0 / 5.0);
        close(row.recall, 2.0 / 4.0);
        close(row.ndcg, (1.0 / log2(3.0) + 0.5) / ideal);
        close(row.hit, 1.0);
        close(row.map, (1.0 / 2.0 + 2.0 / 3.0) / 4.0);
        close(row.mrr, 1.0 / 2.0);
    }

    #[test]
    fn means_of_nobody_are_not_a_number() {
        assert!(Sums::default().means().ndcg.is_nan());
        assert_eq!(f1(0.0, 0.0), 0.0);
        assert!(f1(f64::NAN, f64::NAN).is_nan());
    }
}
