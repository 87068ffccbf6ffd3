//! The same model, centralised: for comparison, and as a check of the federated one.
//!
//! Features are chosen as on devices. With `batch = triple` each triple is a step of its own, people in an order that
//! is new in each epoch and each with as many triples as they have items; with `batch = all` a step is what all triples
//! of an epoch come to, with the parameters of its beginning: the triples are those of a federated round with all
//! devices, and the step is that round's.

use super::private::{self, slots};
use super::scratch::Scratch;
use super::{Client, KgFlex, KgFlexModelConfig, Server};
use crate::central::epochs::{EpochStats, run_epochs};
use crate::federated::FederatedModel;
use crate::loss::Loss;
use crate::registry::{CentralModel, ModelInfo};
use crate::settings::Config;
use crate::{
    ClientModel, Fit, ModelError, Reason, ReasonKind, Recommender, ServerModel, Summary, Tensor, choices, config,
    features, stored,
};
use sottovoce_core::{Catalog, Histories, History, Rng, SortedIndices, math};
use sottovoce_protocol::Parameters;
use std::sync::Arc;

/// The registry's entry.
pub(crate) const MODEL: CentralModel = CentralModel {
    info: ModelInfo::new("kgflex-central", "KGFlex, centralised")
        .summary("KGFlex trained in one place: facts of a knowledge graph, weighted by information gain")
        .paper("Anelli, Di Noia, Di Sciascio, Ferrara, Mancino: Sparse Feature Factorization for Recommender Systems with Knowledge Graphs. RecSys 2021"),
    schema: || CentralConfig::default().schema(),
    build: |settings| Box::new(Central::new(&CentralConfig::read(settings))),
};

choices! {
    /// What a step is made of.
    #[derive(Default)]
    enum Batch {
        /// One triple.
        #[default]
        Triple => "triple",
        /// All of an epoch.
        All => "all",
    }
}

config! {
    /// Settings of the centralised model.
    struct CentralConfig {
        /// Epochs; in one, as many triples are trained on as there are interactions
        epochs: usize = 50, in 1..=10_000 => [log];
        /// What a step is made of: one triple, or all of an epoch as in a federated round
        batch: Batch = Batch::Triple;
        include
        /// The model.
        model: KgFlexModelConfig = KgFlexModelConfig::default();
    }
}

struct Central {
    device: Client,
    epochs: usize,
    full: bool,
    shared: Parameters,
    /// Private models, one person after the other.
    private: Vec<f32>,
    users: usize,
}

/// What a pass over one person's triples works on.
struct Person<'a> {
    own: &'a mut [f32],
    history: &'a [u32],
    triples: usize,
}

impl Central {
    fn new(config: &CentralConfig) -> Self {
        Self {
            device: Client::new(&config.model, &Arc::default()),
            epochs: config.epochs,
            full: config.batch == Batch::All,
            shared: Parameters::default(),
            private: Vec::new(),
            users: 0,
        }
    }

    fn begin(&mut self, train: &Histories, root: &Rng) -> Result<(), ModelError> {
        let wrong = |error: sottovoce_protocol::ModelError| ModelError::Data(error.to_string());
        let start = Server::of(&self.device).init(train.catalog_size(), &mut root.stream("shared", 0));
        self.shared = start.map_err(wrong)?;
        self.users = train.users();
        self.private = vec![0.0; self.users * self.device.private_values()];
        Ok(())
    }

    fn of(&self, user: usize) -> &[f32] {
        let width = self.device.private_values();
        &self.private[user * width..][..width]
    }

    /// One step a triple, person after person; returns triples and the sum of their losses.
    fn descend(&mut self, train: &Histories, learners: &mut [u32], scratch: &mut Scratch, rng: &Rng) -> (usize, f64) {
        rng.stream("order", 0).shuffle(learners);
        self.each_person(train, learners, None, (scratch, rng), step_by_step)
    }

    /// One step for all triples, as the equations are written; returns triples and the sum of their losses.
    fn leap(&mut self, train: &Histories, learners: &[u32], scratch: &mut Scratch, rng: &Rng) -> (usize, f64) {
        let interactions: usize = learners.iter().map(|&user| train.of(user as usize).len()).sum();
        let triples = Some((interactions / learners.len().max(1)).max(1));
        let mut sums = vec![0.0; self.shared.tables()[0].values().len()];
        let done = self.each_person(train, learners, triples, (scratch, rng), |device, shared, person, _, rng| {
            all_at_once(device, shared, person, &mut sums, rng)
        });
        math::add_scaled(self.shared.tables_mut()[0].values_mut(), self.device.learning_rate, &sums);
        done
    }

    /// Takes a step for each person who has telling features, of so many triples or as many as they have items; returns
    /// triples and the sum of their losses.
    fn each_person(
        &mut self,
        train: &Histories,
        learners: &[u32],
        triples: Option<usize>,
        (scratch, rng): (&mut Scratch, &Rng),
        mut step: impl FnMut(&Client, &mut Parameters, Person<'_>, &mut Scratch, &mut Rng) -> f64,
    ) -> (usize, f64) {
        let width = self.device.private_values();
        let (mut count, mut loss) = (0, 0.0);
        for &user in learners {
            let history = train.of(user as usize);
            let own = &mut self.private[user as usize * width..][..width];
            let mut rng = rng.stream("device", u64::from(user));
            if self.device.select_features(own, history, scratch, &mut rng) {
                let triples = triples.unwrap_or(history.len());
                let person = Person { own, history, triples };
                loss += step(&self.device, &mut self.shared, person, scratch, &mut rng);
                count += triples;
            }
        }
        (count, loss)
    }
}

/// A triple of somebody.
fn draw(history: &[u32], items: u32, rng: &mut Rng) -> [u32; 2] {
    let i = history[rng.index(history.len())];
    loop {
        let j = rng.below(items);
        if history.binary_search(&j).is_err() {
            return [i, j];
        }
    }
}

/// The slots of an item's features that the user has selected.
fn shared_slots<'a>(own: &'a [u32], features: SortedIndices<'a>) -> impl Iterator<Item = usize> + 'a {
    features.iter().filter_map(|feature| own.binary_search(&feature).ok())
}

/// Stochastic gradient descent on one person's triples.
fn step_by_step(
    device: &Client,
    shared: &mut Parameters,
    person: Person<'_>,
    scratch: &mut Scratch,
    rng: &mut Rng,
) -> f64 {
    let Person { own: mine, history, triples } = person;
    let Client { facts, factors, learning_rate, regularisation, .. } = device;
    let (factors, rate) = (*factors, *learning_rate);
    let table = &mut shared.tables_mut()[0];
    let mut loss = Loss::new();
    let touched = &mut scratch.met_slots;
    let own_features = &mut scratch.own_features;
    own_features.clear();
    own_features.extend(slots(mine, factors, facts.features()).map(|slot| (slot.feature, slot.weight)));
    let slot_of = |own: &[(u32, f32)], feature: u32| own.binary_search_by_key(&feature, |own| own.0).ok();
    for _ in 0..triples {
        let pair = draw(history, facts.items() as u32, rng);
        touched.clear();
        let mut x = 0.0;
        for (item, sign) in pair.into_iter().zip([1.0f32, -1.0]) {
            for feature in facts.of(item as usize).iter() {
                let Some(slot) = slot_of(own_features, feature) else { continue };
                let (g, b) = table.row(feature as usize).split_at(factors);
                let p = private::vector(mine, factors, slot);
                x += sign * own_features[slot].1 * (math::dot(p, g) + b[0]);
                touched.push((slot as u32, sign));
            }
        }
        loss.add(math::sigmoid(x));
        let s = math::sigmoid(-x);
        for &(slot, sign) in &*touched {
            let (feature, weight) = own_features[slot as usize];
            let step = sign * s * weight;
            let row = table.row_mut(feature as usize);
            let p = private::vector_mut(mine, factors, slot as usize);
            for (p, g) in p.iter_mut().zip(&mut *row) {
                let before = *p;
                *p += rate * (step * *g - regularisation.personal * before);
                *g += rate * (step * before - regularisation.shared * *g);
            }
            row[factors] += rate * (step - regularisation.shared * row[factors]);
        }
    }
    loss.sum()
}

/// Adds one person's part of a full step to the `sums`, and makes theirs.
fn all_at_once(device: &Client, shared: &Parameters, person: Person<'_>, sums: &mut [f32], rng: &mut Rng) -> f64 {
    let Person { own: mine, history, triples } = person;
    let Client { facts, factors, learning_rate, regularisation, .. } = device;
    let (factors, rate) = (*factors, *learning_rate);
    let table = &shared.tables()[0];
    let before = mine.to_vec();
    let own: Vec<(u32, f32, &[f32])> =
        slots(&before, factors, facts.features()).map(|slot| (slot.feature, slot.weight, slot.vector)).collect();
    let features: Vec<u32> = own.iter().map(|slot| slot.0).collect();
    let mut loss = Loss::new();
    for _ in 0..triples {
        let pair = draw(history, facts.items() as u32, rng);
        let touched = || {
            let signed = pair.into_iter().zip([1.0f32, -1.0]);
            signed
                .flat_map(|(item, sign)| shared_slots(&features, facts.of(item as usize)).map(move |slot| (slot, sign)))
        };
        let part = |(slot, sign): (usize, f32)| {
            let (feature, weight, p) = own[slot];
            let (g, b) = table.row(feature as usize).split_at(factors);
            sign * weight * (math::dot(p, g) + b[0])
        };
        let x: f32 = touched().map(part).sum();
        loss.add(math::sigmoid(x));
        let s = math::sigmoid(-x);
        for (slot, sign) in touched() {
            let (feature, weight, p) = own[slot];
            let step = sign * s * weight;
            let (g, b) = table.row(feature as usize).split_at(factors);
            let sum = &mut sums[feature as usize * (factors + 1)..][..factors + 1];
            let changed = private::vector_mut(mine, factors, slot);
            for f in 0..factors {
                sum[f] += step * p[f] - regularisation.shared * g[f];
                changed[f] += rate * (step * g[f] - regularisation.personal * p[f]);
            }
            sum[factors] += step - regularisation.shared * b[0];
        }
    }
    loss.sum()
}

impl Recommender for Central {
    fn fit(&mut self, train: &Histories, fit: &mut Fit<'_>) -> Result<Summary, ModelError> {
        self.device.facts = Arc::clone(features::of_catalog(MODEL.info.name, fit.catalog)?);
        let train = train.deduplicated();
        let root = Rng::new(fit.seed).stream(KgFlex::INFO.name, 0);
        self.begin(&train, &root)?;
        let learns = |history: &[u32]| !history.is_empty() && history.len() < train.catalog_size();
        let mut learners: Vec<u32> =
            (0..train.users() as u32).filter(|&user| learns(train.of(user as usize))).collect();
        let mut scratch = self.device.scratch(train.catalog_size());
        let rounds = root.stream("rounds", 0);
        let (epochs, rate) = (self.epochs, self.device.learning_rate);
        run_epochs(self, epochs, fit, &format!("take a learning_rate below {rate}"), |model, epoch| {
            let rng = rounds.stream("round", epoch - 1);
            let (triples, loss) = if model.full {
                model.leap(&train, &learners, &mut scratch, &rng)
            } else {
                model.descend(&train, &mut learners, &mut scratch, &rng)
            };
            let finite = math::all_finite(model.shared.tables()[0].values());
            Ok(EpochStats { triples, loss: Some(loss / triples.max(1) as f64), finite })
        })
    }

    fn score(&self, user: usize, into: &mut [f32]) {
        self.device.score(&self.shared, self.of(user), History::default(), into);
    }

    fn reason_kind(&self) -> ReasonKind {
        self.device.reason_kind()
    }

    fn reasons(&self, user: usize, items: &[u32]) -> Vec<Vec<Reason>> {
        self.device.explain(&self.shared, self.of(user), History::default(), items)
    }

    fn know(&mut self, catalog: &Catalog) -> Result<(), ModelError> {
        self.device.facts = Arc::clone(features::of_catalog(MODEL.info.name, Some(catalog))?);
        Ok(())
    }

    fn tensors(&self) -> Vec<Tensor> {
        let (width, features) = (self.device.private_values(), self.device.facts.features());
        let values = self.shared.tables().first().map_or(Vec::new(), |table| table.values().to_vec());
        vec![
            stored::floats("users", [self.users, width], self.private.clone()),
            stored::floats("features", [features, self.device.factors + 1], values),
        ]
    }

    fn restore(&mut self, tensors: &[Tensor], train: &Histories) -> Result<(), ModelError> {
        let (width, features) = (self.device.private_values(), self.device.facts.features());
        let private = stored::take_floats(tensors, "users", &[train.users(), width])?.to_vec();
        let shape = [features, self.device.factors + 1];
        let values = stored::take_floats(tensors, "features", &shape)?;
        let layout = Server::of(&self.device).layout(train.catalog_size());
        let layout = layout.map_err(|error| ModelError::Restore(error.to_string()))?;
        let mut shared = Parameters::zeros(&layout);
        shared.tables_mut()[0].values_mut().copy_from_slice(values);
        (self.shared, self.private, self.users) = (shared, private, train.users());
        Ok(())
    }
}
