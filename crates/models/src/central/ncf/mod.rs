//! GMF and NeuMF: matrix factorisation with a trained output vector, alone and joined with a multi-layer perceptron.
//!
//! X. He, L. Liao, H. Zhang, L. Nie, X. Hu, T.-S. Chua: Neural Collaborative Filtering, WWW 2017.
//!
//! Every user has a vector p and every item a vector q of F factors; NeuMF has a second pair p', q' for its tower:
//! ```text
//! GMF      x = h . (p * q) + b
//! NeuMF    x = h . (p * q) + b + o . m_L,      m_0 = [p', q'],      m_l = relu(m_(l-1) W_l + b_l)
//! loss of a sample = - y ln sigma(x) - (1 - y) ln(1 - sigma(x))
//!                    + regularisation / 2 (|p|^2 + |q|^2 + |p'|^2 + |q'|^2 + |h|^2 + |o|^2)
//! ```
//! For every interaction (y = 1) each epoch draws new negatives (y = 0), items that the user does not have. Steps are
//! Adam's on means over batches; only vectors that a batch looked up move. Items are ranked by x.
//!
//! Two things follow S. Rendle, W. Krichene, L. Zhang, J. Anderson: Neural Collaborative Filtering vs. Matrix
//! Factorization Revisited, RecSys 2020, who found a well-tuned dot product hard to beat: all vectors are regularised
//! (h too: a longer h would let p and q be short without changing a score), and h starts as ones, so that GMF starts as
//! matrix factorisation. The paper's h starts at random, and NeuMF's halves can be pretrained; here they are trained
//! together from the start.
//!
//! `product` is GMF's arithmetic, `embeddings` the vectors of users or items, `tower` NeuMF's layers, `network` all
//! parameters, `training` the batches and steps.

mod embeddings;
mod network;
mod product;
#[cfg(test)]
mod tests;
mod tower;
mod training;

use super::epoch_order::Interaction;
use super::epochs::{EpochStats, run_epochs};
use super::factors::MAX_FACTORS;
use super::layout_tensors::{read_tensors, to_tensors};
use super::negative_sampler::NegativeSampler;
use crate::explanation::by_vectors;
use crate::registry::{CentralModel, ModelInfo};
use crate::settings::Config;
use crate::{Fit, ModelError, Reason, ReasonKind, Recommender, Summary, Tensor, config};
use network::Network;
use sottovoce_core::{Histories, Rng};
use training::{SampleGenerator, Training};

const PAPER: &str = "He, Liao, Zhang, Nie, Hu, Chua: Neural Collaborative Filtering. WWW 2017";

/// The registry's entry of GMF.
pub(super) const GMF: CentralModel = CentralModel {
    info: ModelInfo::new("gmf", "GMF")
        .summary("Generalised matrix factorisation: a weighted product that tells what a user has from what they do not have")
        .paper(PAPER),
    schema: || GmfConfig::default().schema(),
    build: |settings| Box::new(Ncf::gmf(GmfConfig::read(settings))),
};

/// The registry's entry of NeuMF.
pub(super) const NEUMF: CentralModel = CentralModel {
    info: ModelInfo::new("neumf", "NeuMF")
        .summary("GMF joined with a multi-layer perceptron above a second pair of vectors")
        .paper(PAPER),
    schema: || NeuMfConfig::default().schema(),
    build: |settings| Box::new(Ncf::neumf(NeuMfConfig::read(settings))),
};

config! {
    /// Settings of GMF.
    struct GmfConfig {
        /// Length of users' and items' vectors
        factors: usize = 20, in 1..=MAX_FACTORS => [log];
        include
        /// How it is trained.
        training: NcfTraining = NcfTraining::default();
    }
}

config! {
    /// Settings of NeuMF.
    struct NeuMfConfig {
        /// Length of the product's vectors, and width of the last layer
        factors: usize = 16, in 1..=128 => [log];
        /// Layers of the tower; each is half as wide as the one before
        layers: usize = 3, in 1..=5;
        include
        /// How it is trained.
        training: NcfTraining = NcfTraining::default();
    }
}

config! {
    /// Settings of training, of both models.
    struct NcfTraining {
        /// Passes over all interactions
        epochs: usize = 20, in 1..=10_000 => [log];
        /// Interactions per batch
        batch: usize = 256, in 1..=100_000 => [log];
        /// Negatives drawn for each interaction
        negatives: usize = 4, in 1..=100;
        /// Learning rate of Adam
        learning_rate: f64 = 1e-3, in 1e-6..=1.0 => [log];
        /// L2 regularisation of all vectors
        regularisation: f64 = 1e-4, in 0.0..=1.0;
        /// Standard deviation of initial vectors
        init_deviation: f64 = 0.05, in 0.0..=1.0;
    }
}

/// Either model.
struct Ncf {
    name: &'static str,
    factors: usize,
    /// Of the tower; `None` for GMF.
    layers: Option<usize>,
    training: NcfTraining,
    items: usize,
    /// What it was fitted on: each user's items ascending, each once.
    train: Histories,
    network: Option<Network>,
}

impl Ncf {
    fn gmf(GmfConfig { factors, training }: GmfConfig) -> Self {
        Self {
            name: GMF.info.name,
            factors,
            layers: None,
            training,
            items: 0,
            train: Histories::default(),
            network: None,
        }
    }

    fn neumf(NeuMfConfig { factors, layers, training }: NeuMfConfig) -> Self {
        Self {
            name: NEUMF.info.name,
            factors,
            layers: Some(layers),
            training,
            items: 0,
            train: Histories::default(),
            network: None,
        }
    }

    fn data(&self, error: &impl std::fmt::Display) -> ModelError {
        ModelError::Data(format!("{}: {error}", self.name))
    }

    /// A new network; none without users or without items.
    fn init(&mut self, train: &Histories, rng: &Rng) -> Result<(), ModelError> {
        let (users, items) = (train.users(), train.catalog_size());
        (self.items, self.train, self.network) = (items, train.deduplicated(), None);
        if users > 0 && items > 0 {
            let network = Network::new(self, users, items, rng).map_err(|error| self.data(&error))?;
            self.network = Some(network);
        }
        Ok(())
    }
}

/// Interactions of all users who lack an item.
fn interactions(train: &Histories, sampler: &NegativeSampler) -> Vec<Interaction> {
    let users = (0..train.users() as u32).filter(|&user| !sampler.has_all(user));
    let items = |user| train.of(user as usize).iter().map(move |&item| Interaction { user, item });
    users.flat_map(items).collect()
}

impl Recommender for Ncf {
    fn fit(&mut self, train: &Histories, fit: &mut Fit<'_>) -> Result<Summary, ModelError> {
        let rng = Rng::new(fit.seed).stream(self.name, 0);
        self.init(train, &rng)?;
        let Some(network) = &self.network else { return Ok(Summary::default()) };
        let mut training = Training::new(network, &self.training).map_err(|error| self.data(&error))?;
        let NcfTraining { epochs, batch, negatives, learning_rate, .. } = self.training;
        let sampler = NegativeSampler::new(train);
        let generator = SampleGenerator { sampler: &sampler, negatives };
        let mut interactions = interactions(train, &sampler);
        let advice = format!("the loss is no longer finite; take a learning_rate below {learning_rate}");
        run_epochs(self, epochs, fit, &advice, |model, epoch| {
            let mut rng = rng.stream("epoch", epoch);
            rng.shuffle(&mut interactions);
            let mut sum = 0.0;
            for (number, batch) in interactions.chunks(batch).enumerate() {
                let Some(network) = &mut model.network else { break };
                let loss = training.step(network, &generator, batch, &rng.stream("batch", number as u64));
                sum += batch.len() as f64 * loss.map_err(|error| model.data(&error))?;
            }
            let triples = interactions.len();
            model.network.iter_mut().for_each(Network::changed);
            let finite = model.network.as_ref().is_some_and(Network::is_finite);
            Ok(EpochStats { triples, loss: Some(sum / triples.max(1) as f64), finite })
        })
    }

    fn score(&self, user: usize, into: &mut [f32]) {
        assert_eq!(into.len(), self.items, "one score per item");
        if into.is_empty() {
            return;
        }
        let scored = self.network.as_ref().map(|network| network.score(user, into));
        assert_eq!(scored, Some(Ok(())), "the model is fitted");
    }

    /// GMF is a matrix factorisation; NeuMF's tower does not come apart.
    fn reason_kind(&self) -> ReasonKind {
        if self.layers.is_none() { ReasonKind::Vectors } else { ReasonKind::None }
    }

    fn reasons(&self, user: usize, items: &[u32]) -> Vec<Vec<Reason>> {
        let product = self.network.as_ref().filter(|_| self.layers.is_none()).and_then(|network| network.product(user));
        let Some((p, weighted)) = product else { return vec![Vec::new(); items.len()] };
        let row = |item: usize| (&weighted[item * p.len()..][..p.len()], 0.0);
        by_vectors(p, self.items, row, self.train.of(user), items)
    }

    fn tensors(&self) -> Vec<Tensor> {
        let buffers = self.network.iter().flat_map(Network::buffers);
        buffers.flat_map(|(layout, values)| to_tensors(layout, values)).collect()
    }

    fn restore(&mut self, tensors: &[Tensor], train: &Histories) -> Result<(), ModelError> {
        self.init(train, &Rng::new(0))?;
        let Some(network) = &mut self.network else { return Ok(()) };
        let mut buffers = network.buffers_mut().into_iter();
        buffers.try_for_each(|(layout, values)| read_tensors(layout, tensors, values))
    }
}
