//! Accuracy of one user's list, and means over users.

use sottovoce_core::math;

/// One user's values at one cutoff, or sums of them, in the order of [`Metric::PER_USER`](crate::Metric::PER_USER):
/// precision, recall, nDCG, hit, average precision, reciprocal rank.
pub(crate) type Accuracy = [f64; 6];

/// Accuracy of any number of users: a zero, a merge and a result.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sums {
    users: usize,
    sum: Accuracy,
}

impl Sums {
    pub(crate) fn add(&mut self, values: Accuracy) {
        self.merge(Sums { users: 1, sum: values });
    }

    pub(crate) fn merge(&mut self, other: Sums) {
        self.users += other.users;
        self.sum.iter_mut().zip(other.sum).for_each(|(sum, more)| *sum += more);
    }

    /// The means; NaN without users.
    pub(crate) fn means(self) -> Accuracy {
        self.sum.map(|sum| sum / self.users as f64)
    }
}

/// Harmonic mean of precision and recall; 0 if both are.
pub(crate) fn f1(precision: f64, recall: f64) -> f64 {
    let sum = precision + recall;
    if sum == 0.0 { 0.0 } else { 2.0 * precision * recall / sum }
}

/// Precision of a recommender that may leave places empty, given the share of places that it filled: c@1 of Peñas and
/// Rodrigo (2011), (n_R + n_U n_R / n) / n, over the n = k places of each user with test items. An empty place counts
/// as if it were right as often as a place is on average; a wrong item counts as wrong.
pub(crate) fn correctness(precision: f64, answered: f64) -> f64 {
    precision * (2.0 - answered)
}

/// The discount of each rank, from 0, and the ideal gain of the first ranks.
#[derive(Clone, Debug)]
pub(crate) struct Discounts {
    gain: Vec<f64>,
    ideal: Vec<f64>,
}

impl Discounts {
    /// For lists of up to `k` items.
    pub(crate) fn new(k: usize) -> Self {
        let gain: Vec<f64> = (0..k).map(|rank| 1.0 / math::log2(rank as f64 + 2.0)).collect();
        let mut ideal = vec![0.0];
        let mut sum = 0.0;
        for gain in &gain {
            sum += gain;
            ideal.push(sum);
        }
        Self { gain, ideal }
    }
}

/// Goes down one user's list; gives its accuracy at each cutoff on the way.
#[derive(Debug)]
pub(crate) struct ListScan<'a> {
    discounts: &'a Discounts,
    test: usize,
    items: usize,
    hits: usize,
    gain: f64,
    precisions: f64,
    first_hit: Option<usize>,
}

impl<'a> ListScan<'a> {
    /// For a user with `test` test items, at least one.
    pub(crate) fn new(discounts: &'a Discounts, test: usize) -> Self {
        Self { discounts, test, items: 0, hits: 0, gain: 0.0, precisions: 0.0, first_hit: None }
    }

    /// Takes the next item of the list.
    pub(crate) fn step(&mut self, hit: bool) {
        if hit {
            self.hits += 1;
            self.gain += self.discounts.gain[self.items];
            self.precisions += self.hits as f64 / (self.items + 1) as f64;
            self.first_hit.get_or_insert(self.items + 1);
        }
        self.items += 1;
    }

    /// The accuracy at cutoff `k`, of the items taken so far.
    pub(crate) fn at(&self, k: usize) -> Accuracy {
        let reachable = self.test.min(k);
        [
            self.hits as f64 / k as f64,
            self.hits as f64 / self.test as f64,
            self.gain / self.discounts.ideal[reachable],
            f64::from(self.hits > 0),
            self.precisions / reachable as f64,
            self.first_hit.map_or(0.0, |rank| 1.0 / rank as f64),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accuracy_of_a_list_computed_by_hand() {
        // Ranks 2 and 3 of 3 are hits; 4 test items; k = 5.
        let discounts = Discounts::new(5);
        let mut scan = ListScan::new(&discounts, 4);
        [false, true, true].into_iter().for_each(|hit| scan.step(hit));
        let log2 = f64::log2;
        let ideal = 1.0 + 1.0 / log2(3.0) + 0.5 + 1.0 / log2(5.0);
        let expected =
            [2.0 / 5.0, 2.0 / 4.0, (1.0 / log2(3.0) + 0.5) / ideal, 1.0, (1.0 / 2.0 + 2.0 / 3.0) / 4.0, 1.0 / 2.0];
        for (found, expected) in scan.at(5).into_iter().zip(expected) {
            assert!((found - expected).abs() < 1e-15, "{found} {expected}");
        }
    }

    #[test]
    fn an_empty_place_is_worth_an_average_place() {
        // Two users with five places each: one has 2 hits in 5 places, the other no list.
        assert!((correctness(0.2, 0.5) - (2.0 + 5.0 * 2.0 / 10.0) / 10.0).abs() < 1e-15);
        assert_eq!(correctness(0.2, 1.0), 0.2);
    }

    #[test]
    fn means_without_users_are_nan() {
        assert!(Sums::default().means()[2].is_nan());
        assert_eq!(f1(0.0, 0.0), 0.0);
        assert!(f1(f64::NAN, f64::NAN).is_nan());
    }
}
