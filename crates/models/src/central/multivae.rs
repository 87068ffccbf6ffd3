//! MultiVAE: a variational autoencoder of histories with a multinomial likelihood.
//!
//! D. Liang, R. G. Krishnan, M. D. Hoffman, T. Jebara: Variational Autoencoders for Collaborative Filtering, WWW 2018.
//!
//! With x_u the items of a user as ones, scaled to length 1 and with some of them dropped at random in training:
//! ```text
//! h = tanh(x W1 + b1)    m = h W2 + b2    l = h W3 + b3    z = m + n e^(l/2), n standard normal (z = m when scoring)
//! s = tanh(z W4 + b4) W5 + b5
//! loss of a user = - sum over their items i of ln softmax(s)_i + beta KL(N(m, e^l) || N(0, 1))
//! ```
//! beta rises linearly from 0 until it reaches its cap ("annealing"). Steps are Adam's on means over batches of users.
//! A batch is split into a fixed number of micro-batches, whose gradients are added in order, so that results do not
//! depend on threads.

use super::epochs::{EpochStats, run_epochs};
use super::layout_tensors::{read_tensors, to_tensors};
use super::micro_batches::{MICRO_BATCHES, Worker, add_and_clear, workers};
use crate::explanation::by_leaving_out;
use crate::registry::{CentralModel, ModelInfo};
use crate::settings::Config;
use crate::{Fit, ModelError, Reason, ReasonKind, Recommender, Summary, Tensor, config};
use rayon::prelude::*;
use sottovoce_core::{Histories, History, Rng};
use sottovoce_neural::losses::{kl_gaussian, multinomial, sample_gaussian, sample_gaussian_backward};
use sottovoce_neural::{Activation, Adam, Arena, Arithmetic, Layout, Linear, NeuralError, Space, SparseRows};

/// The registry's entry.
pub(super) const MODEL: CentralModel = CentralModel {
    info: ModelInfo::new("multivae", "MultiVAE")
        .summary("A variational autoencoder of histories with a multinomial likelihood")
        .paper("Liang, Krishnan, Hoffman, Jebara: Variational Autoencoders for Collaborative Filtering. WWW 2018"),
    schema: || MultiVaeConfig::default().schema(),
    build: |settings| Box::new(MultiVae { config: MultiVaeConfig::read(settings), ..MultiVae::default() }),
};

config! {
    /// Settings of MultiVAE.
    struct MultiVaeConfig {
        /// Width of the hidden layers
        hidden: usize = 600, in 1..=10_000 => [log];
        /// Width of the latent layer
        latent: usize = 200, in 1..=10_000 => [log];
        /// Passes over all users
        epochs: usize = 100, in 1..=10_000 => [log];
        /// Users per batch
        batch: usize = 500, in 1..=100_000 => [log];
        /// Learning rate of Adam
        learning_rate: f64 = 1e-3, in 1e-6..=1.0 => [log];
        /// Fraction of a user's items that training drops
        dropout: f64 = 0.5, in 0.0..=0.95;
        /// Weight of the KL divergence once annealed
        beta: f64 = 0.2, in 0.0..=1.0;
        /// Steps over which beta is annealed
        annealing: usize = 2000, in 1..=10_000_000 => [log];
    }
}

/// Shards of the parameters when a step is made.
const SHARDS: usize = 4;

#[derive(Default)]
struct MultiVae {
    config: MultiVaeConfig,
    users: Histories,
    network: Option<Network>,
}

fn data(error: impl std::fmt::Display) -> ModelError {
    ModelError::Data(format!("MultiVAE: {error}"))
}

impl Recommender for MultiVae {
    fn fit(&mut self, train: &Histories, fit: &mut Fit<'_>) -> Result<Summary, ModelError> {
        self.users = train.deduplicated();
        if train.catalog_size() == 0 {
            return Ok(Summary::default());
        }
        let rng = Rng::new(fit.seed).stream("multivae", 0);
        let network = Network::new(&self.config, train.catalog_size(), &rng).map_err(data)?;
        let mut training = Training::new(&network, &self.config).map_err(data)?;
        self.network = Some(network);
        let mut order: Vec<u32> =
            (0..train.users() as u32).filter(|&user| !self.users.of(user as usize).is_empty()).collect();
        let MultiVaeConfig { epochs, batch, learning_rate, .. } = self.config;
        let advice = format!("the loss is no longer finite; take a learning_rate below {learning_rate}");
        run_epochs(self, epochs, fit, &advice, |model, epoch| {
            let mut rng = rng.stream("epoch", epoch);
            rng.shuffle(&mut order);
            let mut sum = 0.0;
            for (number, users) in order.chunks(batch).enumerate() {
                let Some(network) = &mut model.network else { break };
                let batch = Batch { histories: &model.users, users, rng: rng.stream("batch", number as u64) };
                sum += users.len() as f64 * training.step(network, &batch).map_err(data)?;
            }
            let loss = Some(sum / order.len().max(1) as f64);
            Ok(EpochStats { triples: model.users.interactions(), loss, finite: true })
        })
    }

    fn score(&self, user: usize, into: &mut [f32]) {
        self.score_newcomer(self.users.history(user), into);
    }

    fn score_newcomer(&self, history: History<'_>, into: &mut [f32]) -> bool {
        assert_eq!(into.len(), self.users.catalog_size(), "one score per item");
        if !into.is_empty() {
            let scored = self.network.as_ref().map(|network| network.score(&history, into));
            assert_eq!(scored, Some(Ok(())), "the model is fitted");
        }
        true
    }

    fn reason_kind(&self) -> ReasonKind {
        ReasonKind::LeftOut
    }

    fn reasons(&self, user: usize, items: &[u32]) -> Vec<Vec<Reason>> {
        by_leaving_out(self.users.of(user), items, self.users.catalog_size(), |history, into| {
            self.score_newcomer(history.into(), into);
        })
    }

    fn tensors(&self) -> Vec<Tensor> {
        let tensors = self.network.iter().flat_map(|network| to_tensors(&network.layout, &network.parameters));
        tensors.collect()
    }

    fn restore(&mut self, tensors: &[Tensor], train: &Histories) -> Result<(), ModelError> {
        self.users = train.deduplicated();
        if train.catalog_size() == 0 {
            return Ok(());
        }
        let mut network = Network::new(&self.config, train.catalog_size(), &Rng::new(0)).map_err(data)?;
        read_tensors(&network.layout, tensors, &mut network.parameters)?;
        self.network = Some(network);
        Ok(())
    }
}

/// Layers and parameters.
struct Network {
    layout: Layout,
    encoder: Linear,
    mean: Linear,
    log_variance: Linear,
    decoder: Linear,
    output: Linear,
    parameters: Vec<f32>,
}

impl Network {
    fn new(config: &MultiVaeConfig, items: usize, rng: &Rng) -> Result<Self, NeuralError> {
        let mut layout = Layout::new(Arithmetic::Machine);
        let mut linear = |name, inputs, outputs| Linear::new(&mut layout, name, inputs, outputs);
        let encoder = linear("encoder", items, config.hidden)?;
        let mean = linear("mean", config.hidden, config.latent)?;
        let log_variance = linear("log_variance", config.hidden, config.latent)?;
        let decoder = linear("decoder", config.latent, config.hidden)?;
        let output = linear("output", config.hidden, items)?;
        let mut parameters = layout.zeros();
        layout.initialise(&mut parameters, rng)?;
        Ok(Self { layout, encoder, mean, log_variance, decoder, output, parameters })
    }

    /// Size of the arena for a training pass over so many users.
    fn space(&self, users: usize) -> usize {
        let layers = [&self.encoder, &self.mean, &self.log_variance, &self.decoder, &self.output];
        // Each output with its gradient; the latent sample, its deviations and its gradient.
        2 * layers.iter().map(|layer| layer.space(users)).sum::<usize>() + 3 * self.mean.space(users)
    }

    fn score(&self, items: &[u32], into: &mut [f32]) -> Result<(), NeuralError> {
        let mut arena = Arena::new(self.space(1), 0)?;
        let mut space = arena.space();
        let scaled = vec![unit_scale(items); items.len()];
        let x = SparseRows::one(items, Some(&scaled), into.len())?;
        let h = self.encoder.forward_sparse(&self.parameters, &x, &mut space)?;
        Activation::Tanh.apply(h);
        let z = self.mean.forward(&self.parameters, h, &mut space)?;
        let d = self.decoder.forward(&self.parameters, z, &mut space)?;
        Activation::Tanh.apply(d);
        into.copy_from_slice(self.output.forward(&self.parameters, d, &mut space)?);
        Ok(())
    }

    /// Adds a micro-batch's gradients; returns its loss. `scale` is 1 / users of the batch.
    fn backpropagate(
        &self,
        samples: &MicroBatch,
        beta: f64,
        scale: f64,
        rng: &mut Rng,
        gradients: &mut [f32],
        space: &mut Space<'_, f32>,
    ) -> Result<f64, NeuralError> {
        let p = &self.parameters;
        let (x, items) = (samples.input(self.encoder.inputs())?, samples.items(self.encoder.inputs())?);
        let h = self.encoder.forward_sparse(p, &x, space)?;
        Activation::Tanh.apply(h);
        let m = self.mean.forward(p, h, space)?;
        let l = self.log_variance.forward(p, h, space)?;
        let (z, deviations) = sample_gaussian(m, l, rng, space)?;
        let d = self.decoder.forward(p, z, space)?;
        Activation::Tanh.apply(d);
        let s = self.output.forward(p, d, space)?;

        let (ds, dd, dz) = (space.zeros(s.len())?, space.zeros(d.len())?, space.zeros(z.len())?);
        let (dm, dl, dh) = (space.zeros(m.len())?, space.zeros(l.len())?, space.zeros(h.len())?);
        let mut loss = multinomial(s, &items, scale, Some(ds))?;
        self.output.backward(p, d, ds, gradients, Some(dd))?;
        Activation::Tanh.backward(d, dd)?;
        self.decoder.backward(p, z, dd, gradients, Some(dz))?;
        sample_gaussian_backward(deviations, dz, dm, dl)?;
        loss += kl_gaussian(m, l, beta * scale, Some((&mut *dm, &mut *dl)))?;
        self.mean.backward(p, h, dm, gradients, Some(&mut *dh))?;
        self.log_variance.backward(p, h, dl, gradients, Some(&mut *dh))?;
        Activation::Tanh.backward(h, dh)?;
        self.encoder.backward_sparse(&x, dh, gradients)?;
        Ok(loss)
    }
}

/// The factor that scales a row of ones to length 1.
fn unit_scale(items: &[u32]) -> f32 {
    1.0 / (items.len().max(1) as f32).sqrt()
}

/// Users of one step.
struct Batch<'a> {
    histories: &'a Histories,
    users: &'a [u32],
    rng: Rng,
}

/// A part of a batch: inputs after dropout, and the items to be predicted.
#[derive(Default)]
struct MicroBatch {
    starts: Vec<usize>,
    inputs: Vec<u32>,
    values: Vec<f32>,
    item_starts: Vec<usize>,
    items: Vec<u32>,
}

impl MicroBatch {
    fn clear(&mut self) {
        for starts in [&mut self.starts, &mut self.item_starts] {
            starts.clear();
            starts.push(0);
        }
        self.inputs.clear();
        self.values.clear();
        self.items.clear();
    }

    fn fill(&mut self, batch: &Batch<'_>, users: &[u32], dropout: f64, rng: &mut Rng) {
        self.clear();
        for &user in users {
            let items = batch.histories.of(user as usize);
            let value = unit_scale(items) / (1.0 - dropout) as f32;
            self.items.extend_from_slice(items);
            self.inputs.extend(items.iter().filter(|_| !rng.chance(dropout)));
            self.values.resize(self.inputs.len(), value);
            self.starts.push(self.inputs.len());
            self.item_starts.push(self.items.len());
        }
    }

    fn input(&self, items: usize) -> Result<SparseRows<'_, f32>, NeuralError> {
        SparseRows::new(&self.starts, &self.inputs, Some(&self.values), items)
    }

    fn items(&self, items: usize) -> Result<SparseRows<'_, f32>, NeuralError> {
        SparseRows::new(&self.item_starts, &self.items, None, items)
    }
}

impl Worker<MicroBatch> {
    fn backpropagate(
        &mut self,
        network: &Network,
        batch: &Batch<'_>,
        number: usize,
        dropout: f64,
        beta: f64,
    ) -> Result<f64, NeuralError> {
        let size = batch.users.len().div_ceil(MICRO_BATCHES);
        let users = batch.users.chunks(size).nth(number).unwrap_or(&[]);
        if users.is_empty() {
            return Ok(0.0);
        }
        let mut rng = batch.rng.stream("part", number as u64);
        self.samples.fill(batch, users, dropout, &mut rng);
        let scale = 1.0 / batch.users.len() as f64;
        network.backpropagate(&self.samples, beta, scale, &mut rng, &mut self.gradients, &mut self.arena.space())
    }
}

/// The state of training.
struct Training {
    config: MultiVaeConfig,
    workers: Vec<Worker<MicroBatch>>,
    /// One for each shard of the parameters, so that all threads take part in a step.
    optimisers: Vec<Adam<f32>>,
    shard: usize,
    steps: usize,
}

impl Training {
    fn new(network: &Network, config: &MultiVaeConfig) -> Result<Self, NeuralError> {
        let space = network.space(config.batch.div_ceil(MICRO_BATCHES));
        let shard = network.parameters.len().div_ceil(SHARDS);
        let shards = network.parameters.chunks(shard);
        Ok(Self {
            config: config.clone(),
            workers: workers(&network.layout, space)?,
            optimisers: shards.map(|shard| Adam::new(config.learning_rate, shard.len())).collect(),
            shard,
            steps: 0,
        })
    }

    /// One step on a batch; returns the mean loss of its users.
    fn step(&mut self, network: &mut Network, batch: &Batch<'_>) -> Result<f64, NeuralError> {
        let annealed = self.steps as f64 / self.config.annealing as f64;
        let MultiVaeConfig { dropout, beta, .. } = self.config;
        let beta = beta * annealed.min(1.0);
        self.steps += 1;
        let shared = &*network;
        let workers = self.workers.par_iter_mut().enumerate();
        let losses = workers.map(|(number, worker)| worker.backpropagate(shared, batch, number, dropout, beta));
        let loss = losses.collect::<Result<Vec<_>, _>>()?.iter().sum();
        self.optimise(&mut network.parameters)?;
        Ok(loss)
    }

    /// Adds the workers' gradients in order and steps, shard by shard.
    fn optimise(&mut self, parameters: &mut [f32]) -> Result<(), NeuralError> {
        let mut gradients: Vec<Vec<&mut [f32]>> = self.optimisers.iter().map(|_| Vec::new()).collect();
        for worker in &mut self.workers {
            for (of_shard, part) in gradients.iter_mut().zip(worker.gradients.chunks_mut(self.shard)) {
                of_shard.push(part);
            }
        }
        let shards = parameters.par_chunks_mut(self.shard).zip(gradients).zip(&mut self.optimisers);
        shards.try_for_each(|((parameters, mut parts), adam)| {
            let Some((sum, others)) = parts.split_first_mut() else { return Ok(()) };
            for other in others {
                add_and_clear(sum, other);
            }
            adam.step(parameters, sum)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Quiet;

    fn small() -> MultiVaeConfig {
        MultiVaeConfig { hidden: 12, latent: 4, batch: 7, epochs: 5, ..MultiVaeConfig::default() }
    }

    fn histories() -> Histories {
        let mut rng = Rng::new(6);
        let lists: Vec<Vec<u32>> = (0..40).map(|_| (0..30).filter(|_| rng.chance(0.2)).collect()).collect();
        Histories::from_lists(&lists, 30).unwrap()
    }

    fn trained(threads: usize) -> Vec<Tensor> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let mut model = MultiVae { config: small(), ..MultiVae::default() };
        pool.install(|| model.fit(&histories(), &mut Fit::new(3, &mut Quiet))).unwrap();
        model.tensors()
    }

    #[test]
    fn result_does_not_depend_on_threads() {
        assert_eq!(trained(1), trained(3));
    }

    /// The gradient of a whole batch against central differences, with the same draws each time.
    #[test]
    fn gradient_equals_central_differences() {
        let users = histories();
        let mut network = Network::new(&small(), 30, &Rng::new(1)).unwrap();
        let batch = Batch { histories: &users, users: &[0, 1, 2], rng: Rng::new(2) };
        let mut samples = MicroBatch::default();
        samples.fill(&batch, batch.users, 0.3, &mut Rng::new(4));
        let mut arena = Arena::new(network.space(3), 0).unwrap();
        let mut loss = |network: &Network, gradients: &mut [f32]| {
            network.backpropagate(&samples, 0.5, 1.0, &mut Rng::new(5), gradients, &mut arena.space()).unwrap()
        };
        let mut gradients = network.layout.zeros();
        loss(&network, &mut gradients);
        let mut unused = network.layout.zeros();
        for index in (0..network.parameters.len()).step_by(17) {
            let start = network.parameters[index];
            let mut at = |shift: f32| {
                network.parameters[index] = start + shift;
                loss(&network, &mut unused)
            };
            let slope = (at(0.01) - at(-0.01)) / 0.02;
            network.parameters[index] = start;
            let error = (slope - f64::from(gradients[index])).abs();
            assert!(error < 5e-3 * (1.0 + slope.abs()), "{index}: {slope} {}", gradients[index]);
        }
    }

    /// Adam bounds its steps, so that even the largest learning rate may converge; a non-finite model must not result.
    #[test]
    fn too_large_learning_rate_ends_with_advice_or_stays_finite() {
        let config = MultiVaeConfig { learning_rate: 1.0, epochs: 60, ..small() };
        let mut model = MultiVae { config, ..MultiVae::default() };
        match model.fit(&histories(), &mut Fit::new(1, &mut Quiet)) {
            Ok(_) => assert!(model.network.unwrap().parameters.iter().all(|value| value.is_finite())),
            Err(error) => assert!(error.to_string().contains("learning_rate below 1"), "{error}"),
        }
    }
}
