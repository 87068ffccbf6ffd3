//! The same network trained in one place by Adam on batches of people, as a yardstick.

use super::network::{Inputs, Network, PAGES};
use super::{Continual, NetworkConfig, Normalisation, PAPER};
use crate::central::epochs::{EpochStats, run_epochs};
use crate::central::layout_tensors::{read_tensors, to_tensors};
use crate::registry::{CentralModel, ModelInfo};
use crate::settings::Config;
use crate::{Fit, ModelError, Recommender, Summary, Tensor, config};
use sottovoce_core::{Histories, History, Rng};
use sottovoce_neural::{Adam, Arithmetic, NeuralError, SparseRows, Statistics};

config! {
    /// Settings of look-alike modelling in one place.
    struct CentralConfig {
        /// With earlier data (--before): how training goes on from it
        continual: Continual = Continual::Nothing;
        /// Passes over all people
        epochs: usize = 10, in 1..=10_000 => [log];
        /// People per batch
        batch: usize = 64, in 1..=100_000 => [log];
        /// Learning rate of Adam
        learning_rate: f64 = 2e-3, in 1e-6..=1.0 => [log];
        include
        /// The network.
        network: NetworkConfig = NetworkConfig { normalisation: Normalisation::Batch, ..NetworkConfig::default() };
    }
}

/// The entry of the registry.
pub const MODEL: CentralModel = CentralModel {
    info: ModelInfo::new("lookalike-central", "Look-alike, centralised")
        .summary("The autoencoder of look-alike modelling trained in one place")
        .paper(PAPER),
    schema: || CentralConfig::default().schema(),
    build: |settings| Box::new(Central { config: CentralConfig::read(settings), ..Central::default() }),
};

#[derive(Default)]
struct Central {
    config: CentralConfig,
    people: Histories,
    trained: Option<(Network, Vec<f32>)>,
}

/// One batch of people in memory.
#[derive(Default)]
struct Batch {
    starts: Vec<usize>,
    seen: Vec<u32>,
    target_starts: Vec<usize>,
    targets: Vec<u32>,
    pages: Vec<f32>,
}

impl Batch {
    /// Each of these people with one interest hidden.
    fn fill(&mut self, network: &Network, people: &Histories, batch: &[u32], rng: &mut Rng) {
        self.starts.clear();
        self.target_starts.clear();
        self.seen.clear();
        self.targets.clear();
        let width = PAGES * network.shape().page_values();
        self.pages.resize(batch.len() * width, 0.0);
        self.starts.push(0);
        self.target_starts.push(0);
        for (place, &person) in batch.iter().enumerate() {
            let history = people.history(person as usize);
            let hidden = history[rng.index(history.len())];
            self.seen.extend(history.iter().copied().filter(|&interest| interest != hidden));
            self.targets.extend_from_slice(&history);
            self.starts.push(self.seen.len());
            self.target_starts.push(self.targets.len());
            let pages = network.shape().some_pages(history.pages, rng);
            network.shape().read_pages(pages, Some(hidden), &mut self.pages[place * width..][..width]);
        }
    }
}

impl Central {
    fn network(&self, categories: usize) -> Result<Network, ModelError> {
        Network::new(self.config.network.shape(), categories, Arithmetic::Portable).map_err(failed)
    }

    fn predict(&self, history: History<'_>, into: &mut [f32]) {
        assert_eq!(into.len(), self.people.catalog_size(), "one score per category");
        let Some((network, parameters)) = &self.trained else { return };
        let predicted = network
            .arena(1)
            .and_then(|mut arena| network.predict(parameters, history.items, history.pages, &mut arena, into));
        assert_eq!(predicted, Ok(()), "parameters of this network");
    }
}

#[allow(clippy::needless_pass_by_value, reason = "a function for map_err")]
fn failed(error: NeuralError) -> ModelError {
    ModelError::Data(format!("look-alike: {error}"))
}

impl Recommender for Central {
    fn fit(&mut self, train: &Histories, fit: &mut Fit<'_>) -> Result<Summary, ModelError> {
        self.people = train.deduplicated();
        if train.catalog_size() == 0 {
            return Ok(Summary::default());
        }
        let rng = Rng::new(fit.seed).stream(MODEL.info.name, 0);
        let network = self.network(train.catalog_size())?;
        let mut parameters = network.layout().zeros::<f32>();
        match fit.start {
            Some(tensors) => read_tensors(network.layout(), tensors, &mut parameters)?,
            None => network.layout().initialise(&mut parameters, &rng.stream("network", 0)).map_err(failed)?,
        }
        let mut gradients = network.layout().zeros::<f32>();
        let mut adam = Adam::new(self.config.learning_rate, parameters.len());
        let CentralConfig { epochs, batch: size, learning_rate, .. } = self.config;
        let mut arena = network.arena(size).map_err(failed)?;
        let mut order: Vec<u32> =
            (0..train.users() as u32).filter(|&user| !self.people.of(user as usize).is_empty()).collect();
        self.trained = Some((network, parameters));
        let mut batch = Batch::default();
        let mut dlogits = Vec::new();
        let advice = format!("the loss is no longer finite; take a learning_rate below {learning_rate}");
        run_epochs(self, epochs, fit, &advice, |model, epoch| {
            let mut rng = rng.stream("epoch", epoch);
            rng.shuffle(&mut order);
            let mut sum = 0.0;
            for people in order.chunks(size) {
                let Some((network, parameters)) = &mut model.trained else { break };
                batch.fill(network, &model.people, people, &mut rng);
                let categories = network.categories();
                let mut step = || -> Result<f64, NeuralError> {
                    let seen = SparseRows::new(&batch.starts, &batch.seen, None, categories)?;
                    let targets = SparseRows::new(&batch.target_starts, &batch.targets, None, categories)?;
                    let inputs = Inputs { interests: &seen, pages: &batch.pages };
                    let statistics = if people.len() > 1 { Statistics::Batch } else { Statistics::Running };
                    let mut space = arena.space();
                    let pass = network.forward(parameters, inputs, statistics, Some(&mut rng), &mut space)?;
                    dlogits.clear();
                    dlogits.resize(pass.logits.len(), 0.0);
                    let loss = network.loss(pass.logits, &targets, Some(&mut dlogits))?;
                    network.backward(parameters, inputs, &pass, &dlogits, &mut gradients, &mut space)?;
                    network.follow(parameters, &pass, &mut gradients)?;
                    adam.step(parameters, &mut gradients)?;
                    Ok(loss)
                };
                sum += people.len() as f64 * step().map_err(failed)?;
            }
            let loss = Some(sum / order.len().max(1) as f64);
            Ok(EpochStats { triples: model.people.interactions(), loss, finite: true })
        })
    }

    fn score(&self, user: usize, into: &mut [f32]) {
        self.predict(self.people.history(user), into);
    }

    fn score_newcomer(&self, history: History<'_>, into: &mut [f32]) -> bool {
        self.predict(history, into);
        true
    }

    fn is_calibrated(&self) -> bool {
        true
    }

    fn tensors(&self) -> Vec<Tensor> {
        self.trained.as_ref().map_or_else(Vec::new, |(network, values)| to_tensors(network.layout(), values))
    }

    fn restore(&mut self, tensors: &[Tensor], train: &Histories) -> Result<(), ModelError> {
        self.people = train.deduplicated();
        if train.catalog_size() == 0 {
            return Ok(());
        }
        let network = self.network(train.catalog_size())?;
        let mut parameters = network.layout().zeros::<f32>();
        read_tensors(network.layout(), tensors, &mut parameters)?;
        self.trained = Some((network, parameters));
        Ok(())
    }
}
