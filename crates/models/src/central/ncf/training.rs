//! Batches of interactions with sampled negatives, and steps of Adam.

use super::NcfTraining;
use super::embeddings::EmbeddingsOptimiser;
use super::network::{MicroBatch, Network, Objective};
use crate::central::epoch_order::Interaction;
use crate::central::micro_batches::{MICRO_BATCHES, Worker, add_and_clear, workers};
use crate::central::negative_sampler::NegativeSampler;
use rayon::prelude::*;
use sottovoce_core::Rng;
use sottovoce_neural::{Adam, NeuralError};

/// Below this many multiplications a step is faster on one thread.
const MIN_PARALLEL: usize = 1 << 20;

impl Worker<MicroBatch> {
    fn backpropagate(
        &mut self,
        network: &Network,
        generator: &SampleGenerator<'_>,
        positives: &[Interaction],
        rng: &mut Rng,
        objective: Objective,
    ) -> Result<f64, NeuralError> {
        generator.fill(&mut self.samples, positives, rng);
        if positives.is_empty() {
            return Ok(0.0);
        }
        network.backpropagate(&mut self.samples, objective, &mut self.gradients, &mut self.arena.space())
    }
}

/// Makes samples of interactions by drawing negatives.
pub(super) struct SampleGenerator<'a> {
    pub(super) sampler: &'a NegativeSampler,
    /// For each interaction.
    pub(super) negatives: usize,
}

impl SampleGenerator<'_> {
    fn fill(&self, samples: &mut MicroBatch, positives: &[Interaction], rng: &mut Rng) {
        let each = 1 + self.negatives;
        samples.users.indices.clear();
        samples.users.indices.extend(positives.iter().map(|positive| positive.user));
        samples.items.indices.clear();
        samples.items.indices.resize(positives.len() * each, 0);
        samples.targets.clear();
        samples.targets.resize(positives.len() * each, 0.0);
        let (items, targets) = (&mut samples.items.indices, &mut samples.targets);
        let rows = items.chunks_exact_mut(each).zip(targets.chunks_exact_mut(each));
        for (positive, (items, targets)) in positives.iter().zip(rows) {
            (items[0], targets[0]) = (positive.item, 1.0);
            self.sampler.sample(&std::iter::repeat(positive.user), &mut items[1..], rng);
        }
    }
}

/// The state of training.
pub(super) struct Training {
    config: NcfTraining,
    pub(super) workers: Vec<Worker<MicroBatch>>,
    users: EmbeddingsOptimiser,
    items: EmbeddingsOptimiser,
    shared: Adam<f32>,
}

impl Training {
    pub(super) fn new(network: &Network, config: &NcfTraining) -> Result<Self, NeuralError> {
        let NcfTraining { batch, negatives, learning_rate, .. } = *config;
        let (positives, each) = (batch.div_ceil(MICRO_BATCHES), 1 + negatives);
        Ok(Self {
            config: config.clone(),
            workers: workers(&network.layout, network.space(positives, positives * each))?,
            users: EmbeddingsOptimiser::new(&network.users, learning_rate, batch)?,
            items: EmbeddingsOptimiser::new(&network.items, learning_rate, batch * each)?,
            shared: Adam::new(learning_rate, network.shared.len()),
        })
    }

    /// One step on a batch; returns the mean loss of its samples.
    pub(super) fn step(
        &mut self,
        network: &mut Network,
        generator: &SampleGenerator<'_>,
        batch: &[Interaction],
        rng: &Rng,
    ) -> Result<f64, NeuralError> {
        let samples = batch.len() * (1 + self.config.negatives);
        let objective = Objective { scale: 1.0 / samples as f64, regularisation: self.config.regularisation };
        let parallel = samples * (network.factors() + network.shared.len()) >= MIN_PARALLEL;
        let size = batch.len().div_ceil(MICRO_BATCHES);
        let shared = &*network;
        let backpropagate = |(number, worker): (usize, &mut Worker<MicroBatch>)| {
            let positives = batch.chunks(size).nth(number).unwrap_or(&[]);
            let mut rng = rng.stream("part", number as u64);
            worker.backpropagate(shared, generator, positives, &mut rng, objective)
        };
        let losses: Result<Vec<f64>, NeuralError> = if parallel {
            self.workers.par_iter_mut().enumerate().map(backpropagate).collect()
        } else {
            self.workers.iter_mut().enumerate().map(backpropagate).collect()
        };
        self.optimise(network, parallel)?;
        Ok(losses?.iter().sum())
    }

    fn optimise(&mut self, network: &mut Network, parallel: bool) -> Result<(), NeuralError> {
        self.step_shared(network)?;
        let workers = &self.workers;
        let (users, items) = (&mut self.users, &mut self.items);
        let (of_users, of_items) = (&mut network.users, &mut network.items);
        let mut users = || users.step(of_users, workers.iter().map(|worker| &worker.samples.users));
        let mut items = || items.step(of_items, workers.iter().map(|worker| &worker.samples.items));
        let (users, items) = if parallel { rayon::join(users, items) } else { (users(), items()) };
        users.and(items)
    }

    fn step_shared(&mut self, network: &mut Network) -> Result<(), NeuralError> {
        let Some((sum, others)) = self.workers.split_first_mut() else { return Ok(()) };
        for other in others {
            add_and_clear(&mut sum.gradients, &mut other.gradients);
        }
        network.add_output_decay(self.config.regularisation, &mut sum.gradients)?;
        self.shared.step(&mut network.shared, &mut sum.gradients)
    }
}
