//! Who is asked into a round: the server's choice, whether devices are simulated or real.

mod weights;

use sottovoce_core::Rng;
use weights::Weights;
pub use weights::WeightsError;

/// Devices asked into a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectedCohort<'a> {
    /// Those asked, ascending.
    pub cohort: &'a [u32],
    /// Devices that were drawn and could not be reached, so that others were drawn instead.
    pub unavailable: u64,
}

/// Draws cohorts without repetition. A cohort depends on the random stream it is given and on nothing drawn before, and
/// takes work for the devices drawn, not for the population.
#[derive(Debug)]
pub struct CohortSelector {
    /// The devices that may be asked, ascending; in other order only while a cohort is drawn.
    population: Vec<u32>,
    /// One a device of the population; `None` if all are as likely.
    weights: Option<Weights>,
    /// Places drawn, to be put back.
    drawn_indices: Vec<usize>,
    cohort: Vec<u32>,
    /// Whether the cohort is the whole population, which is not copied then.
    everyone: bool,
}

impl CohortSelector {
    /// Of these devices, ascending, all as likely.
    pub fn new(population: Vec<u32>) -> Self {
        Self { population, weights: None, drawn_indices: Vec::new(), cohort: Vec::new(), everyone: false }
    }

    /// The same with a weight for each device: of those not drawn yet, the next is one with probability proportional to
    /// its weight. Devices of weight 0 are never asked.
    ///
    /// # Errors
    /// If there is not one weight a device, or a weight is negative or not finite, or all are 0.
    pub fn weighted(self, weights: &[f64]) -> Result<Self, WeightsError> {
        let weights = Some(Weights::new(weights, self.population.len())?);
        Ok(Self { weights, ..self })
    }

    /// The devices that may be asked, ascending.
    pub fn population(&self) -> &[u32] {
        &self.population
    }

    /// The cohort drawn last, ascending.
    pub fn drawn(&self) -> &[u32] {
        if self.everyone { &self.population } else { &self.cohort }
    }

    /// So many devices, or all if there are fewer.
    pub fn draw(&mut self, count: usize, rng: &mut Rng) -> &[u32] {
        self.everyone = self.weights.is_none() && count >= self.population.len();
        if self.everyone {
            return &self.population;
        }
        self.draw_reachable(count, rng, &|_| true).cohort
    }

    /// So many of the devices that can be reached, or all of those if there are fewer.
    pub fn draw_reachable(
        &mut self,
        count: usize,
        rng: &mut Rng,
        reachable: &dyn Fn(u32) -> bool,
    ) -> SelectedCohort<'_> {
        self.everyone = false;
        self.cohort.clear();
        let unavailable = match self.weights.take() {
            Some(mut weights) => {
                let unavailable = self.draw_weighted(&mut weights, count, rng, reachable);
                self.weights = Some(weights);
                unavailable
            }
            None => self.draw_uniform(count, rng, reachable),
        };
        self.cohort.sort_unstable();
        SelectedCohort { cohort: &self.cohort, unavailable }
    }

    /// Those of one of so many groups that can be reached, at most so many. Groups do not overlap; `order` says who is
    /// in which, and people who come later move few others to another group.
    pub(crate) fn take_group(
        &mut self,
        (index, groups): (u64, u64),
        most: usize,
        order: &Rng,
        reachable: &dyn Fn(u32) -> bool,
    ) -> SelectedCohort<'_> {
        self.everyone = false;
        self.cohort.clear();
        let draw = |device: u32| order.stream("device", u64::from(device)).next_u64();
        let mut by_draw: Vec<(u64, u32)> = self.population.iter().map(|&device| (draw(device), device)).collect();
        by_draw.sort_unstable();
        let end = |index: u64| (by_draw.len() as u64 * index / groups) as usize;
        let mut unavailable = 0;
        for &(_, device) in &by_draw[end(index)..end(index + 1)] {
            if self.cohort.len() < most {
                unavailable += self.ask(device, reachable);
            }
        }
        self.cohort.sort_unstable();
        SelectedCohort { cohort: &self.cohort, unavailable }
    }

    /// The first steps of a shuffle, undone afterwards.
    fn draw_uniform(&mut self, count: usize, rng: &mut Rng, reachable: &dyn Fn(u32) -> bool) -> u64 {
        let all = self.population.len();
        let (mut index, mut unavailable) = (0, 0);
        self.drawn_indices.clear();
        while self.cohort.len() < count && index < all {
            let other = index + rng.index(all - index);
            self.population.swap(index, other);
            self.drawn_indices.push(other);
            unavailable += self.ask(self.population[index], reachable);
            index += 1;
        }
        for index in (0..index).rev() {
            self.population.swap(index, self.drawn_indices[index]);
        }
        unavailable
    }

    fn draw_weighted(
        &mut self,
        weights: &mut Weights,
        count: usize,
        rng: &mut Rng,
        reachable: &dyn Fn(u32) -> bool,
    ) -> u64 {
        let mut unavailable = 0;
        self.drawn_indices.clear();
        while self.cohort.len() < count
            && let Some(index) = weights.take(rng)
        {
            self.drawn_indices.push(index);
            unavailable += self.ask(self.population[index], reachable);
        }
        self.drawn_indices.iter().for_each(|&index| weights.put_back(index));
        unavailable
    }

    /// Adds a device to the cohort or counts it as unavailable.
    fn ask(&mut self, device: u32, reachable: &dyn Fn(u32) -> bool) -> u64 {
        if reachable(device) {
            self.cohort.push(device);
            return 0;
        }
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{Just, ProptestConfig, any, prop, prop_assert, prop_assume, prop_oneof, proptest};

    #[test]
    fn cohorts_are_uniform_ascending_and_do_not_depend_on_earlier_ones() {
        let population: Vec<u32> = (0..12).map(|n| 3 * n + 1).collect();
        let mut selector = CohortSelector::new(population.clone());
        let root = Rng::new(4);
        let mut times = [0u32; 12];
        for round in 0..6000 {
            let cohort = selector.draw(3, &mut root.stream("round", round)).to_vec();
            assert!(cohort.len() == 3 && cohort.is_sorted_by(|a, b| a < b), "{cohort:?}");
            cohort.iter().for_each(|&device| times[(device as usize - 1) / 3] += 1);
        }
        assert!(times.iter().all(|&count| count.abs_diff(1500) < 170), "{times:?}");
        assert_eq!(selector.population, population);
        let again = CohortSelector::new(population).draw(3, &mut root.stream("round", 9)).to_vec();
        assert_eq!(selector.draw(3, &mut root.stream("round", 9)), again);
    }

    #[test]
    fn who_cannot_be_reached_is_counted_and_others_are_drawn() {
        let root = Rng::new(7);
        for selector in [CohortSelector::new((0..40).collect()), with_weights(40)] {
            let mut selector = selector;
            let before = format!("{selector:?}");
            for round in 0..50 {
                let even = |device: u32| device.is_multiple_of(2);
                let drawn = selector.draw_reachable(6, &mut root.stream("round", round), &even);
                assert!(drawn.cohort.len() == 6 && drawn.cohort.iter().all(|&device| even(device)));
                assert!(drawn.cohort.is_sorted_by(|a, b| a < b) && drawn.unavailable <= 20);
            }
            let none = selector.draw_reachable(6, &mut root.stream("round", 0), &|_| false);
            assert_eq!(none, SelectedCohort { cohort: &[], unavailable: 40 });
            selector.drawn_indices.clear();
            selector.cohort.clear();
            let fresh = format!("{selector:?}");
            assert_eq!(fresh, before, "something was not put back");
        }
    }

    fn with_weights(devices: usize) -> CohortSelector {
        let weights: Vec<f64> = (0..devices).map(|device| 0.5 + device as f64).collect();
        CohortSelector::new((0..devices as u32).collect()).weighted(&weights).unwrap()
    }

    /// Probability that each device is among the first `count` of a draw without replacement, by enumeration.
    fn inclusion(weights: &[f64], count: usize) -> Vec<f64> {
        fn go(weights: &[f64], taken: &mut Vec<usize>, left: usize, chance: f64, into: &mut [f64]) {
            if left == 0 {
                taken.iter().for_each(|&device| into[device] += chance);
                return;
            }
            let rest: f64 = (0..weights.len()).filter(|i| !taken.contains(i)).map(|i| weights[i]).sum();
            for device in (0..weights.len()).filter(|&i| weights[i] > 0.0) {
                if !taken.contains(&device) {
                    taken.push(device);
                    go(weights, taken, left - 1, chance * weights[device] / rest, into);
                    taken.pop();
                }
            }
        }
        let mut all = vec![0.0; weights.len()];
        go(weights, &mut Vec::new(), count, 1.0, &mut all);
        all
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// 4,000 draws have a standard error of at most 0.008.
        #[test]
        fn weighted_cohorts_have_the_frequencies_of_their_weights(
            weights in prop::collection::vec(prop_oneof![Just(0.0), 0.1f64..9.0], 3..7),
            count in 1usize..4,
            seed in any::<u64>(),
        ) {
            let positive = weights.iter().filter(|&&weight| weight > 0.0).count();
            prop_assume!(positive > 0);
            let count = count.min(positive);
            let population: Vec<u32> = (0..weights.len() as u32).collect();
            let mut selector = CohortSelector::new(population).weighted(&weights).unwrap();
            let mut times = vec![0u32; weights.len()];
            for round in 0..4000 {
                for &device in selector.draw(count, &mut Rng::new(seed).stream("round", round)) {
                    times[device as usize] += 1;
                }
            }
            for (device, expected) in inclusion(&weights, count).into_iter().enumerate() {
                let found = f64::from(times[device]) / 4000.0;
                prop_assert!((found - expected).abs() < 0.045, "{device}: {found} for {expected}");
                prop_assert!(expected > 0.0 || found == 0.0);
            }
        }
    }

    #[test]
    fn groups_share_the_population_and_pass_over_who_cannot_be_reached() {
        let mut selector = CohortSelector::new((10..33).collect());
        let order = Rng::new(3);
        let mut all = Vec::new();
        for index in 0..4 {
            let group = selector.take_group((index, 4), 9, &order, &|_| true);
            assert!((5..=6).contains(&group.cohort.len()) && group.cohort.is_sorted() && group.unavailable == 0);
            all.extend_from_slice(group.cohort);
        }
        all.sort_unstable();
        assert_eq!(all, (10..33).collect::<Vec<u32>>());
        let odd = selector.take_group((0, 1), 23, &order, &|device| device % 2 == 1);
        assert_eq!((odd.cohort.len(), odd.unavailable), (11, 12));
        assert_eq!(selector.take_group((0, 1), 4, &order, &|_| true).cohort.len(), 4, "no more than are wanted");
    }

    #[test]
    fn cohort_sizes() {
        use crate::Cohort;
        let sizes = [Cohort::One, Cohort::Count(7), Cohort::Fraction(0.04), Cohort::Fraction(0.3), Cohort::All];
        assert_eq!(sizes.map(|cohort| cohort.size(10)), [1, 7, 1, 3, 10]);
        assert_eq!(sizes.map(|cohort| cohort.size(0)), [0; 5]);
    }
}
