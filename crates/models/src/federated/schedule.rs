//! How an epoch is divided into rounds.

use crate::{choices, config};
use sottovoce_core::Histories;

/// How many updates a round wants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cohort {
    /// One.
    One,
    /// So many, or all if there are fewer.
    Count(usize),
    /// This fraction of the population, at least one.
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
            Cohort::Fraction(fraction) => {
                let some = (population as f64 * fraction).round() as usize;
                some.max(1).min(population)
            }
            Cohort::All => population,
        }
    }
}

choices! {
    /// The four ways of the FPL papers to divide an epoch into rounds.
    #[derive(Default)]
    pub enum Configuration {
        /// pFPL+: all devices, as many triples each as there are interactions a device.
        #[default]
        ParallelPlus => "pfpl+",
        /// pFPL: all devices, one triple each.
        Parallel => "pfpl",
        /// sFPL+: one device, as many triples as there are interactions a device.
        SequentialPlus => "sfpl+",
        /// sFPL: one device, one triple.
        Sequential => "sfpl",
    }
}

choices! {
    /// How many rounds an epoch of the configurations with + has.
    #[derive(Default)]
    pub enum RoundsPerEpoch {
        /// As the papers' text has it: so many that an epoch has as many triples as there are interactions.
        #[default]
        Text => "text",
        /// As the program that was published with the papers: as many as without +, each with the triples of +, which
        /// is as many times the training as there are interactions a device.
        Published => "published",
    }
}

config! {
    /// How much a device does in a round, for models that train on triples.
    #[derive(PartialEq)]
    pub struct TripleSchedule {
        /// One device per round (s) or all (p); one triple, or with + as many as interactions per device
        pub configuration: Configuration = Configuration::ParallelPlus;
        /// Triples a device draws in a round; 0: as the configuration says
        pub triples: Option<usize> = None, in 0..=1_000_000 => [device(1..=1_000_000)];
    }
}

impl TripleSchedule {
    /// How an epoch of a population is divided into rounds.
    pub fn schedule(&self, cohort: Option<Cohort>, population: &Population) -> Schedule {
        Schedule::of(self.configuration, population).with(cohort, self.triples, population)
    }

    /// The same with the number of triples that a schedule came to.
    #[must_use]
    pub fn scheduled(self, schedule: &Schedule) -> Self {
        Self { triples: Some(schedule.triples), ..self }
    }
}

/// The devices that can learn, and how much there is to learn from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Population {
    /// Devices whose owner has something and not everything, ascending.
    pub devices: Vec<u32>,
    /// Their interactions, each item once (X+).
    pub interactions: usize,
}

impl Population {
    /// Of histories in which each item comes once.
    pub fn of(histories: &Histories) -> Self {
        let lengths: Vec<u32> = histories.iter().map(|history| history.len() as u32).collect();
        Self::of_lengths(&lengths, histories.catalog_size())
    }

    /// Of people who have so many items each, of a catalog of this size.
    pub fn of_lengths(lengths: &[u32], catalog_size: usize) -> Self {
        let learns = |length: u32| length > 0 && (length as usize) < catalog_size;
        let learners = || (0..).zip(lengths).filter(|&(_, &length)| learns(length));
        let devices = learners().map(|(user, _)| user).collect();
        let interactions = learners().map(|(_, &length)| length as usize).sum();
        Self { devices, interactions }
    }
}

/// Who is asked, for how much work, and how many rounds are an epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    /// Who is asked into a round.
    pub cohort: Cohort,
    /// Triples a device draws in a round (T).
    pub triples: usize,
    /// Rounds of an epoch (rpe).
    pub rounds: usize,
    /// Interactions a device, at least one (X+/|U|).
    pub mean_history: usize,
    /// Devices that can learn.
    pub devices: usize,
}

impl Population {
    /// Interactions a device, rounded down, at least one.
    pub fn mean_history(&self) -> usize {
        (self.interactions / self.devices.len().max(1)).max(1)
    }
}

impl Schedule {
    /// As many rounds an epoch as it takes to ask each device once, on average, for all that it has.
    pub fn in_turn(cohort: Cohort, population: &Population) -> Self {
        let devices = population.devices.len();
        let rounds = (devices / cohort.size(devices).max(1)).max(1);
        let (triples, mean_history) = (population.interactions / devices.max(1), population.mean_history());
        Self { cohort, triples, rounds, mean_history, devices }
    }

    /// The same with cohorts as large as it takes that everybody is in one of them.
    pub fn once(cohort: Cohort, population: &Population) -> Self {
        let in_turn = Self::in_turn(cohort, population);
        let each = Cohort::Count(population.devices.len().div_ceil(in_turn.rounds));
        Self { cohort: if in_turn.rounds == 1 { cohort } else { each }, ..in_turn }
    }

    /// The same with everybody asked so many times an epoch, each time for another part of the model.
    #[must_use]
    pub fn in_passes(self, passes: usize) -> Self {
        Self { rounds: self.rounds * passes.max(1), ..self }
    }

    /// A configuration of the papers: an epoch has X+ triples to within a round.
    pub fn of(configuration: Configuration, population: &Population) -> Self {
        let devices = population.devices.len();
        let share = population.mean_history();
        let (cohort, triples, rounds) = match configuration {
            Configuration::Sequential => (Cohort::One, 1, population.interactions),
            Configuration::SequentialPlus => (Cohort::One, share, devices),
            Configuration::Parallel => (Cohort::All, 1, share),
            Configuration::ParallelPlus => (Cohort::All, share, 1),
        };
        Self { cohort, triples, rounds, mean_history: share, devices }
    }

    /// The same with another cohort or another number of triples, and as many rounds as X+ triples take, rounded down
    /// and at least one. `None` leaves a part as it is.
    #[must_use]
    pub fn with(self, cohort: Option<Cohort>, triples: Option<usize>, population: &Population) -> Self {
        if cohort.is_none() && triples.is_none() {
            return self;
        }
        let cohort = cohort.unwrap_or(self.cohort);
        let triples = triples.unwrap_or(self.triples).max(1);
        let a_round = cohort.size(population.devices.len()) * triples;
        Self { cohort, triples, rounds: (population.interactions / a_round.max(1)).max(1), ..self }
    }

    /// The same with as many rounds as the papers' published program holds in an epoch: as if each device of a round
    /// drew one triple, however many it draws.
    #[must_use]
    pub fn published(self, population: &Population) -> Self {
        let cohort = self.cohort.size(population.devices.len()).max(1);
        Self { rounds: (population.interactions / cohort).max(1), ..self }
    }

    /// The same work by so many times fewer devices, each of which draws so many times as many triples.
    #[must_use]
    pub fn concentrated(self, times: usize, population: &Population) -> Self {
        if times <= 1 {
            return self;
        }
        let devices = self.cohort.size(population.devices.len()) / times;
        self.with(Some(Cohort::Count(devices.max(1))), Some(self.triples * times), population)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Choice;

    /// 4 devices that can learn, 11 interactions; one device has nothing, one everything.
    fn population() -> Population {
        let lists = [vec![0, 1, 2, 3], vec![], vec![1, 2, 4], vec![0], vec![0, 1, 2, 3, 4], vec![0, 1, 3]];
        Population::of(&Histories::from_lists(&lists, 5).unwrap())
    }

    #[test]
    fn configurations_are_the_papers() {
        let population = population();
        assert_eq!(population, Population { devices: vec![0, 2, 3, 5], interactions: 11 });
        let schedule = |name| {
            let Schedule { cohort, triples, rounds, .. } =
                Schedule::of(Configuration::named(name).unwrap(), &population);
            (cohort, triples, rounds)
        };
        assert_eq!(schedule("sfpl"), (Cohort::One, 1, 11));
        assert_eq!(schedule("sfpl+"), (Cohort::One, 2, 4));
        assert_eq!(schedule("pfpl"), (Cohort::All, 1, 2));
        assert_eq!(schedule("pfpl+"), (Cohort::All, 2, 1));
        assert!(Configuration::NAMES.iter().all(|name| Configuration::named(name).is_some()));
    }

    #[test]
    fn cohorts_that_do_not_overlap_have_room_for_everybody() {
        let population = Population { devices: (0..69).collect(), interactions: 690 };
        let schedule = Schedule::once(Cohort::Count(10), &population);
        assert_eq!((schedule.rounds, schedule.cohort), (6, Cohort::Count(12)));
        assert_eq!(Schedule::once(Cohort::All, &population), Schedule::in_turn(Cohort::All, &population));
    }

    #[test]
    fn published_rounds_ignore_local_work() {
        let population = population();
        let rounds =
            |name| Schedule::of(Configuration::named(name).unwrap(), &population).published(&population).rounds;
        assert_eq!(["sfpl", "sfpl+", "pfpl", "pfpl+"].map(rounds), [11, 11, 2, 2]);
    }

    #[test]
    fn anything_in_between_has_as_many_rounds_as_an_epoch_takes() {
        let population = population();
        let schedule = Schedule::of(Configuration::ParallelPlus, &population);
        assert_eq!(schedule.with(None, None, &population), schedule);
        let other = schedule.with(Some(Cohort::Count(2)), None, &population);
        assert_eq!(other, Schedule { cohort: Cohort::Count(2), triples: 2, rounds: 2, mean_history: 2, devices: 4 });
        let other = schedule.with(None, Some(7), &population);
        assert_eq!(other, Schedule { cohort: Cohort::All, triples: 7, rounds: 1, mean_history: 2, devices: 4 });
        assert_eq!(schedule.concentrated(1, &population), schedule);
        let other = schedule.concentrated(2, &population);
        assert_eq!(other, Schedule { cohort: Cohort::Count(2), triples: 4, rounds: 1, mean_history: 2, devices: 4 });
    }
}
