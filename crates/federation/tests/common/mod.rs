//! Small populations to train, and the parts of a federation that tests vary.

#![allow(dead_code, reason = "each test binary uses its part")]

pub(crate) mod deployed;

use sottovoce_core::{Catalog, Facts, Histories, Rng};
use sottovoce_federation::*;
use sottovoce_models::federated::fpl::{Client, Regularisation, Server, Steps};
use sottovoce_models::federated::{Sum, erased};
use sottovoce_models::settings::Value;
use sottovoce_models::{Fit, ModelError, Negatives, Quiet, Recommender, ServerModel, Summary, TensorData};
use sottovoce_protocol::{DisclosureMode, FederationId, ModelSpec, Policy, TermsDraft, ValueEncoding};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) const FACTORS: usize = 4;

/// A setting and its value.
pub(crate) type Given = (&'static str, Value);

pub(crate) fn word(text: &str) -> Value {
    Value::Word(text.to_owned())
}

/// Users of very different activity over a skewed catalog; every seventh has no items. Items ascending, each once.
pub(crate) fn people(users: usize, items: usize) -> Histories {
    let mut rng = Rng::new(8);
    let lists: Vec<Vec<u32>> = (0..users)
        .map(|user| {
            let length = if user % 7 == 3 { 0 } else { 1 + rng.index(items / 3) };
            let mut list: Vec<u32> = (0..length).map(|_| (rng.unit() * rng.unit() * items as f64) as u32).collect();
            list.sort_unstable();
            list.dedup();
            list
        })
        .collect();
    Histories::from_lists(&lists, items).unwrap()
}

/// Items with four of twenty features each; every item whose number is 5 modulo 11 has none.
pub(crate) fn catalog(items: usize) -> Catalog {
    let mut rng = Rng::new(4);
    let names: Vec<(String, u8)> = (0..20).map(|feature| (format!("f: {feature}"), 1 + feature / 12)).collect();
    let names: Vec<(&str, u8)> = names.iter().map(|(name, hops)| (name.as_str(), *hops)).collect();
    let lists: Vec<Vec<u32>> =
        (0..items).map(|item| if item % 11 == 5 { vec![] } else { (0..4).map(|_| rng.below(20)).collect() }).collect();
    let ids = (0..items).map(|item| item.to_string()).collect();
    Catalog { facts: Some(Facts::of_lists(&names, &lists).into()), ..Catalog::of_ids(ids) }
}

/// A model with these settings, fitted.
pub(crate) fn fitted(
    name: &str,
    settings: &[Given],
    (histories, catalog): (&Histories, Option<&Catalog>),
    seed: u64,
) -> Result<(Box<dyn Recommender>, Summary), ModelError> {
    let model = registry::find(name).unwrap();
    let mut recommender = model.build(&model.settings(settings.iter().cloned()).unwrap());
    let summary = recommender.fit(histories, &mut Fit::new(seed, &mut Quiet).knowing(catalog))?;
    Ok((recommender, summary))
}

/// The bits of a fitted model, by tensor.
pub(crate) fn tensor_bits(model: &dyn Recommender) -> BTreeMap<String, Vec<u32>> {
    let bits = |data| match data {
        TensorData::F32(values) => values.into_iter().map(f32::to_bits).collect(),
        TensorData::U32(values) => values,
    };
    model.tensors().into_iter().map(|tensor| (tensor.name, bits(tensor.data))).collect()
}

/// All floats of a fitted model, tensor after tensor.
pub(crate) fn tensor_values(model: &dyn Recommender) -> Vec<f32> {
    let floats = model.tensors().into_iter().filter_map(|tensor| match tensor.data {
        TensorData::F32(values) => Some(values),
        TensorData::U32(_) => None,
    });
    floats.flatten().collect()
}

/// A server's half for so many devices and items.
pub(crate) fn builder(devices: usize, items: usize, seed: u64) -> FederationBuilder {
    FederationBuilder {
        federation: FederationId(5),
        items,
        facts: None,
        devices,
        seed,
        samples: false,
        criteria: Vec::new(),
        rounds: None,
        secret: None,
        key_digest: None,
        keeper: None,
    }
}

/// Makes a schedule for a population.
pub(crate) type Planner = Box<dyn Fn(&Population) -> Schedule>;

pub(crate) fn fixed(schedule: Schedule) -> Planner {
    Box::new(move |_| schedule)
}

/// An FPL federation: what the tests vary.
pub(crate) struct World {
    pub(crate) histories: Histories,
    pub(crate) schedule: Planner,
    pub(crate) strategy: Box<dyn Strategy>,
    pub(crate) policy: Policy,
    pub(crate) spread: PiSpread,
    pub(crate) values: ValueEncoding,
    pub(crate) delivery: Delivery,
    pub(crate) downloads: Downloads,
    pub(crate) learning_rate: f32,
    pub(crate) profile: DeviceProfile,
    pub(crate) recorder: Option<Arc<dyn Recorder>>,
    pub(crate) rules: RoundRules,
    pub(crate) weights: Option<Vec<f64>>,
}

impl Default for World {
    fn default() -> Self {
        World {
            histories: people(150, 60),
            schedule: Box::new(|population| Schedule::of(Configuration::ParallelPlus, population)),
            strategy: Box::new(Sum { learning_rate: 0.02 }),
            policy: per_round(0.4),
            spread: PiSpread::Fixed,
            values: ValueEncoding::F32,
            delivery: Delivery::Direct,
            downloads: Downloads::default(),
            learning_rate: 0.02,
            profile: DeviceProfile::default(),
            recorder: None,
            rules: RoundRules::default(),
            weights: None,
        }
    }
}

impl World {
    pub(crate) fn federation(self, seed: u64) -> Federation {
        self.weighted_federation(seed).unwrap()
    }

    /// Fails if the weights do not fit.
    pub(crate) fn weighted_federation(self, seed: u64) -> Result<Federation, FederationError> {
        let rng = Rng::new(seed);
        let population = Population::of(&self.histories);
        let schedule = (self.schedule)(&population);
        let client = Client {
            factors: FACTORS,
            triples: schedule.triples,
            learning_rate: self.learning_rate,
            regularisation: Regularisation { user: 0.01, positive: 0.01, negative: 0.001, ..Regularisation::default() },
            init_deviation: 0.1,
            negatives: Negatives::Papers,
            steps: Steps::Together,
        };
        let server = Server { factors: FACTORS, init_deviation: 0.1 };
        let start = server.init(self.histories.catalog_size(), &mut rng.stream("shared", 0)).unwrap();
        let disclosure = Disclosure::spread(self.policy, self.spread, self.histories.users(), &rng);
        let client = erased(client);
        let devices = SimulatedDevices::new(client, self.histories, start.layout(), disclosure, &rng)
            .with_delivery(self.delivery)
            .with_device_profile(self.profile)
            .with_recorder(self.recorder);
        let terms = TermsDraft { model: spec(), values: self.values, ..TermsDraft::default() };
        let mut coordinator = Coordinator::new(self.strategy, start, terms, schedule.cohort, rng)
            .with_rules(self.rules)
            .with_downloads(self.downloads)
            .unwrap();
        coordinator.ask_among(population.devices);
        if let Some(weights) = &self.weights {
            coordinator = coordinator.with_weights(weights)?;
        }
        Ok(Federation::new(devices, coordinator, schedule, 0.69))
    }
}

/// The model as the terms of a [`World`] name it.
pub(crate) fn spec() -> ModelSpec {
    ModelSpec { name: "fpl".to_owned(), settings: [("factors".to_owned(), FACTORS.to_string())].into() }
}

/// Bits of the shared model, of what devices hold of it, and of all private models.
pub(crate) fn bits(federation: &Federation) -> [Vec<u32>; 3] {
    let of = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect();
    [
        of(federation.shared().tables()[0].values()),
        of(federation.distributed().tables()[0].values()),
        of(federation.devices().private()),
    ]
}

/// Those bits after some epochs, and the epochs' reports.
pub(crate) fn after(mut federation: Federation, epochs: usize) -> ([Vec<u32>; 3], Vec<EpochReport>) {
    let reports = (0..epochs).map(|_| federation.epoch().unwrap()).collect();
    (bits(&federation), reports)
}

/// A policy of the papers: which rows are disclosed is drawn anew each round.
pub(crate) fn per_round(pi: f64) -> Policy {
    let mut policy = Policy::new(pi).unwrap();
    policy.disclosure = DisclosureMode::PerRound;
    policy
}
