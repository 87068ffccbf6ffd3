//! A small world to federate.

#![allow(dead_code, reason = "each test binary uses its part")]

use sottovoce_core::{Histories, Rng};
use sottovoce_federation::{
    Delivery, Disclosure, Downloads, Federation, DeviceProfile, InProcess, PiSpread, Schedule, Population, Setup,
    Strategy,
};
use sottovoce_models::federated::fpl::{Client, Regularisation, Server};
use sottovoce_models::{Negatives, ServerModel};
use sottovoce_protocol::{DisclosureMode, Policy, ValueEncoding};

pub(crate) const FACTORS: usize = 4;

/// People of very different activity over a skewed catalog; every seventh has nothing. Items ascending, each once.
pub(crate) fn people(users: usize, items: usize) -> Histories {
    let mut rng = Rng::new(8);
    let lists: Vec<Vec<u32>> = (0..users)
        .map(|user| {
            let length = if user % 7 == 3 { 0 } else { 1 + rng.index(items / 3) };
            let mut list: Vec<u32> =
                (0..length).map(|_| (rng.unit() * rng.unit() * items as f64) as u32).collect();
            list.sort_unstable();
            list.dedup();
            list
        })
        .collect();
    Histories::from_lists(&lists, items).unwrap()
}

/// Makes a schedule for a population.
pub(crate) type Planner = Box<dyn Fn(&Population) -> Schedule>;

/// What the tests vary.
pub(crate) struct World {
    pub(crate) histories: Histories,
    pub(crate) schedule: Planner,
    pub(crate) strategy: Box<dyn Strategy>,
    pub(crate) policy: Policy,
    pub(crate) spread: PiSpread,
    pub(crate) values: ValueEncoding,
    pub(crate) delivery: Delivery,
    pub(crate) downloads: Downloads,
    pub(crate) rate: f32,
}

impl World {
    pub(crate) fn found(self, seed: u64) -> Federation<InProcess<Client>> {
        self.found_with(seed, DeviceProfile::default())
    }

    pub(crate) fn found_with(self, seed: u64, profile: DeviceProfile) -> Federation<InProcess<Client>> {
        let rng = Rng::new(seed);
        let population = Population::of(&self.histories);
        let schedule = (self.schedule)(&population);
        let pull = Regularisation { user: 0.01, positive: 0.01, negative: 0.001 };
        let device = Client {
            factors: FACTORS,
            triples: schedule.triples,
            rate: self.rate,
            pull,
            init_deviation: 0.1,
            negatives: Negatives::Papers,
        };
        let shared = Server { factors: FACTORS, init_deviation: 0.1 };
        let start = shared.start(self.histories.catalog_size(), &mut rng.stream("shared", 0)).unwrap();
        let disclosure = Disclosure::spread(self.policy, self.spread, self.histories.users(), &rng);
        let fleet = InProcess::new(device, self.histories, start.layout(), disclosure, &rng)
            .with_delivery(self.delivery)
            .with_device_profile(profile, &rng);
        let (strategy, values) = (self.strategy, self.values);
        let setup = Setup {
            strategy,
            schedule,
            population,
            start,
            model: device.spec(),
            values,
            samples: false,
            criteria: Vec::new(),
            baseline_loss: 0.69,
        };
        Federation::new(fleet, setup, rng).with_downloads(self.downloads).unwrap()
    }
}

/// A policy of the papers: what leaves by pi is drawn anew each round.
pub(crate) fn papers(pi: f64) -> Policy {
    let mut policy = Policy::new(pi).unwrap();
    policy.disclosure = DisclosureMode::PerRound;
    policy
}
