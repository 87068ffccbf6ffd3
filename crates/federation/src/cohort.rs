//! Who is asked into a round.

use sottovoce_core::Rng;

/// How many devices a round asks, drawn uniformly without repetition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cohort {
    /// One.
    One,
    /// So many, or all if there are fewer.
    Count(usize),
    /// This share of the population, at least one.
    Fraction(f64),
    /// Everyone.
    All,
}

impl Cohort {
    /// Its size in a population.
    pub fn size(self, population: usize) -> usize {
        match self {
            Cohort::One => population.min(1),
            Cohort::Count(count) => population.min(count),
            Cohort::Fraction(share) => {
                let some = (population as f64 * share).round() as usize;
                some.max(1).min(population)
            }
            Cohort::All => population,
        }
    }
}

/// Draws cohorts. A cohort depends on the random stream it is given and on nothing drawn before.
#[derive(Debug)]
pub(crate) struct Selector {
    /// The devices that may be asked, ascending; in other order only while a cohort is drawn.
    population: Vec<u32>,
    swaps: Vec<usize>,
    cohort: Vec<u32>,
}

impl Selector {
    /// Of these devices, ascending.
    pub(crate) fn new(population: Vec<u32>) -> Self {
        Self { population, swaps: Vec::new(), cohort: Vec::new() }
    }

    /// Number of devices that may be asked.
    pub(crate) fn len(&self) -> usize {
        self.population.len()
    }

    /// A cohort, ascending.
    pub(crate) fn draw(&mut self, cohort: Cohort, rng: &mut Rng) -> &[u32] {
        let (size, all) = (cohort.size(self.len()), self.len());
        if size == all {
            return &self.population;
        }
        // The first steps of a shuffle, undone afterwards: work for the cohort, not for the population.
        self.swaps.clear();
        for place in 0..size {
            let other = place + rng.index(all - place);
            self.population.swap(place, other);
            self.swaps.push(other);
        }
        self.cohort.clear();
        self.cohort.extend_from_slice(&self.population[..size]);
        self.cohort.sort_unstable();
        for place in (0..size).rev() {
            self.population.swap(place, self.swaps[place]);
        }
        &self.cohort
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cohorts_are_uniform_ascending_and_do_not_depend_on_earlier_ones() {
        let population: Vec<u32> = (0..12).map(|n| 3 * n + 1).collect();
        let mut selector = Selector::new(population.clone());
        let root = Rng::new(4);
        let mut times = [0u32; 12];
        for round in 0..6000 {
            let cohort = selector.draw(Cohort::Count(3), &mut root.stream("round", round)).to_vec();
            assert!(cohort.len() == 3 && cohort.is_sorted_by(|a, b| a < b), "{cohort:?}");
            cohort.iter().for_each(|&device| times[(device as usize - 1) / 3] += 1);
        }
        assert!(times.iter().all(|&count| count.abs_diff(1500) < 170), "{times:?}");
        assert_eq!(selector.population, population);
        let again = Selector::new(population).draw(Cohort::Count(3), &mut root.stream("round", 9)).to_vec();
        assert_eq!(selector.draw(Cohort::Count(3), &mut root.stream("round", 9)), again);
    }

    #[test]
    fn sizes() {
        let sizes =
            [Cohort::One, Cohort::Count(7), Cohort::Fraction(0.04), Cohort::Fraction(0.3), Cohort::All];
        assert_eq!(sizes.map(|cohort| cohort.size(10)), [1, 7, 1, 3, 10]);
        assert_eq!(sizes.map(|cohort| cohort.size(0)), [0; 5]);
    }
}
