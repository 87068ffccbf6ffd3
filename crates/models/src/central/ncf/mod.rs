//! GMF and NeuMF: matrix factorisation with a learnt output vector, and with layers of neurons beside it.
//!
//! X. He, L. Liao, H. Zhang, L. Nie, X. Hu, T.-S. Chua: Neural Collaborative Filtering, WWW 2017.
//!
//! Every user has a vector p and every item a vector q of F factors; NeuMF has a second pair p', q' for its tower:
//! ```text
//! GMF      x = h . (p * q) + b
//! NeuMF    x = h . (p * q) + b + o . m_L,      m_0 = [p', q'],      m_l = relu(m_(l-1) W_l + b_l)
//! loss of a sample = - y ln sigma(x) - (1 - y) ln(1 - sigma(x)) + regularisation / 2 (|p|^2 + |q|^2 + |p'|^2 + |q'|^2 + |h|^2 + |o|^2)
//! ```
//! For every interaction (y = 1) some items the user does not have (y = 0) are drawn anew in every epoch. Steps are Adam's on
//! means over batches; only vectors that a batch looked up move. Items are ranked by x.
//!
//! Two things follow S. Rendle, W. Krichene, L. Zhang, J. Anderson: Neural Collaborative Filtering vs. Matrix
//! Factorization Revisited, RecSys 2020, who found a plain product hard to beat when its settings are chosen with care: all
//! vectors are regularised (h too: a longer h would let p and q be short without changing a score), and h starts as ones, so that GMF begins as matrix factorisation. The paper's h starts at
//! random, and NeuMF's halves can be trained before they are joined; here they are trained together from the start.
//!
//! `product` is GMF's own arithmetic, `side` the vectors of users or items, `tower` NeuMF's layers, `network` all of it,
//! `training` the batches and steps.

mod network;
pub(crate) mod product;
mod side;
#[cfg(test)]
mod tests;
mod tower;
mod training;

use super::factors::MOST_FACTORS;
use super::negatives::Owned;
use super::order::Pair;
use crate::registry::Model;
use crate::settings::{Setting, Settings};
use crate::stored;
use crate::{Fit, Flow, ModelError, Progress, Recommender, Summary, Tensor};
use network::Network;
use sottovoce_core::{Histories, Rng};
use sottovoce_neural::Layout;
use training::{Sampler, Training};

const PAPER: &str = "He, Liao, Zhang, Nie, Hu, Chua: Neural Collaborative Filtering. WWW 2017";

/// The registry's entry of GMF.
pub(super) const GMF: Model = Model {
    name: "gmf",
    title: "GMF",
    what: "Generalised matrix factorisation: a weighted product that tells what a user has from what they do not have",
    paper: PAPER,
    settings: gmf_settings,
    build: |settings| Box::new(Ncf::new("gmf", settings, None)),
};

/// The registry's entry of NeuMF.
pub(super) const NEUMF: Model = Model {
    name: "neumf",
    title: "NeuMF",
    what: "GMF joined with layers of neurons above a second pair of vectors",
    paper: PAPER,
    settings: neumf_settings,
    build: |settings| Box::new(Ncf::new("neumf", settings, Some(settings.integer("layers")))),
};

fn gmf_settings() -> Vec<Setting> {
    let factors = Setting::integer("factors", 20, 1..=MOST_FACTORS, "Length of users' and items' vectors");
    [vec![factors.on_log_scale()], learning()].concat()
}

fn neumf_settings() -> Vec<Setting> {
    let factors = Setting::integer(
        "factors",
        16,
        1..=128,
        "Length of the product's vectors, and width of the last layer",
    );
    let layers =
        Setting::integer("layers", 3, 1..=5, "Layers of the tower; each is half as wide as the one before");
    [vec![factors.on_log_scale(), layers], learning()].concat()
}

/// What both have.
fn learning() -> Vec<Setting> {
    vec![
        Setting::integer("epochs", 20, 1..=10_000, "Times every interaction is gone through").on_log_scale(),
        Setting::integer("batch", 256, 1..=100_000, "Interactions of a step").on_log_scale(),
        Setting::integer("negatives", 4, 1..=100, "Items the user does not have, for each interaction"),
        Setting::real("learning_rate", 1e-3, 1e-6..=1.0, "Step of Adam").on_log_scale(),
        Setting::real("regularisation", 1e-4, 0.0..=1.0, "Pull of all vectors to zero"),
        Setting::real("init_deviation", 0.05, 0.0..=1.0, "Standard deviation of the first random vectors"),
    ]
}

/// The numbers among the settings.
#[derive(Clone, Copy)]
struct Plan {
    factors: usize,
    /// Of the tower; none for GMF.
    layers: Option<usize>,
    epochs: usize,
    batch: usize,
    negatives: usize,
    rate: f64,
    regularisation: f64,
    init_deviation: f64,
}

/// Either model.
struct Ncf {
    name: &'static str,
    plan: Plan,
    items: usize,
    network: Option<Network>,
}

impl Ncf {
    fn new(name: &'static str, settings: &Settings, layers: Option<usize>) -> Self {
        let plan = Plan {
            factors: settings.integer("factors"),
            layers,
            epochs: settings.integer("epochs"),
            batch: settings.integer("batch"),
            negatives: settings.integer("negatives"),
            rate: settings.real("learning_rate"),
            regularisation: settings.real("regularisation"),
            init_deviation: settings.real("init_deviation"),
        };
        Self { name, plan, items: 0, network: None }
    }

    fn data(&self, error: &impl std::fmt::Display) -> ModelError {
        ModelError::Data(format!("{}: {error}", self.name))
    }

    fn diverged(&self, epoch: usize) -> ModelError {
        let advice = format!("the loss is no longer finite; take a learning_rate below {}", self.plan.rate);
        ModelError::Diverged { epoch, advice }
    }

    /// A new network; none where there are no users or no items to have vectors.
    fn begin(&mut self, train: &Histories, rng: &Rng) -> Result<(), ModelError> {
        let (users, items) = (train.users(), train.catalog_size());
        (self.items, self.network) = (items, None);
        if users > 0 && items > 0 {
            let network = Network::new(&self.plan, users, items, rng).map_err(|error| self.data(&error))?;
            self.network = Some(network);
        }
        Ok(())
    }

    /// All interactions in a new order; returns the mean loss of a sample.
    fn epoch(&mut self, training: &mut Training, epoch: &mut Epoch<'_>) -> Result<f64, ModelError> {
        let Some(mut network) = self.network.take() else { return Ok(0.0) };
        epoch.rng.shuffle(epoch.pairs);
        let mut sum = 0.0;
        for (number, batch) in epoch.pairs.chunks(self.plan.batch).enumerate() {
            let rng = epoch.rng.stream("batch", number as u64);
            let loss = training.step(&mut network, &epoch.sampler, batch, &rng);
            sum += batch.len() as f64 * loss.map_err(|error| self.data(&error))?;
        }
        network.changed();
        self.network = Some(network);
        Ok(sum / epoch.pairs.len().max(1) as f64)
    }
}

/// What one epoch goes through.
struct Epoch<'a> {
    sampler: Sampler<'a>,
    pairs: &'a mut [Pair],
    rng: Rng,
}

/// Interactions of all users for whom there is a negative.
fn pairs(train: &Histories, owned: &Owned) -> Vec<Pair> {
    let users = (0..train.users() as u32).filter(|&user| !owned.has_all(user));
    users.flat_map(|user| train.of(user as usize).iter().map(move |&item| Pair { user, item })).collect()
}

impl Recommender for Ncf {
    fn fit(&mut self, train: &Histories, fit: &mut Fit<'_>) -> Result<Summary, ModelError> {
        let rng = Rng::new(fit.seed).stream(self.name, 0);
        self.begin(train, &rng)?;
        let Some(network) = &self.network else { return Ok(Summary::default()) };
        let mut training = Training::new(network, &self.plan).map_err(|error| self.data(&error))?;
        let owned = Owned::new(train);
        let mut pairs = pairs(train, &owned);
        let mut summary = Summary::default();
        for number in 1..=self.plan.epochs {
            let sampler = Sampler { owned: &owned, negatives: self.plan.negatives };
            let rng = rng.stream("epoch", number as u64);
            let loss = self.epoch(&mut training, &mut Epoch { sampler, pairs: &mut pairs, rng })?;
            if !(loss.is_finite() && self.network.as_ref().is_some_and(Network::is_finite)) {
                return Err(self.diverged(number));
            }
            let progress =
                Progress { epoch: number, epochs: self.plan.epochs, loss: Some(loss), model: &*self };
            if fit.after_epoch(&mut summary, pairs.len() as u64, &progress) == Flow::Stop {
                break;
            }
        }
        Ok(summary)
    }

    fn score(&self, user: usize, into: &mut [f32]) {
        assert_eq!(into.len(), self.items, "one score an item");
        if into.is_empty() {
            return;
        }
        let scored = self.network.as_ref().map(|network| network.score(user, into));
        assert_eq!(scored, Some(Ok(())), "a model that was fitted");
    }

    fn tensors(&self) -> Vec<Tensor> {
        self.network
            .iter()
            .flat_map(Network::buffers)
            .flat_map(|(layout, values)| tensors(layout, values))
            .collect()
    }

    fn restore(&mut self, tensors: &[Tensor], train: &Histories) -> Result<(), ModelError> {
        self.begin(train, &Rng::new(0))?;
        let Some(network) = &mut self.network else { return Ok(()) };
        for (layout, values) in network.buffers_mut() {
            for tensor in layout.tensors() {
                let stored = stored::take_floats(tensors, &tensor.name, &tensor.shape)?;
                values[tensor.slot.range()].copy_from_slice(stored);
            }
        }
        Ok(())
    }
}

fn tensors(layout: &Layout, values: &[f32]) -> Vec<Tensor> {
    let stored = layout.tensors().iter();
    stored
        .map(|tensor| {
            let values = values[tensor.slot.range()].to_vec();
            stored::floats(&tensor.name, tensor.shape.clone(), values)
        })
        .collect()
}
