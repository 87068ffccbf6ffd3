//! Batches of users, their micro-batches in parallel, and steps of Adam.
//!
//! The users of a batch are sorted by the length of their histories and divided into a fixed number of micro-batches,
//! whose gradients are added in order: results do not depend on threads. Adam moves all rows of a table, as PyTorch
//! does, also those that the batch did not touch.

use super::{Fitted, Layouts, SequenceTraining, Weights};
use crate::central::negative_sampler::NegativeSampler;
use rayon::prelude::*;
use sottovoce_core::{Histories, Rng};
use sottovoce_neural::{Adam, Arena, NeuralError, RowGradients};

/// Micro-batches of a batch.
const MICRO_BATCHES: usize = 8;

/// Shards of the parameters when a step is made.
const SHARDS: usize = 8;

/// Which loss is minimised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Of a model that is trained twice, the first.
    PreTraining,
    /// Of what is scored in the end.
    Training,
}

/// Users of a part of a step.
pub(super) struct MicroBatch<'a> {
    pub(super) histories: &'a Histories,
    /// Those with the longest histories first.
    pub(super) users: &'a [u32],
    pub(super) sampler: &'a NegativeSampler,
    pub(super) phase: Phase,
    /// 1 / samples of the batch.
    pub(super) scale: f64,
    /// The same for all micro-batches of the batch.
    pub(super) shared_rng: &'a Rng,
}

/// Gradients and working memory of a micro-batch.
pub(super) struct Worker {
    pub(super) gradients: Vec<f32>,
    pub(super) tables: Vec<RowGradients<f32>>,
    pub(super) arena: Arena<f32>,
    pub(super) scratch: Scratch,
}

/// Lists that a micro-batch is described by; what each is depends on the model.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) starts: Vec<usize>,
    pub(super) items: Vec<u32>,
    pub(super) targets: Vec<u32>,
    pub(super) negatives: Vec<u32>,
    pub(super) rows: Vec<u32>,
    pub(super) others: Vec<u32>,
}

impl Worker {
    pub(super) fn new(layouts: &Layouts, space: usize, indices: usize) -> Result<Self, NeuralError> {
        let rows = layouts.tables.iter().map(|table| RowGradients::new(table.rows, table.width, 0));
        Ok(Self {
            gradients: layouts.network.zeros(),
            tables: rows.collect::<Result<_, _>>()?,
            arena: Arena::new(space, indices)?,
            scratch: Scratch::default(),
        })
    }
}

impl Scratch {
    /// Empties all lists; the first sequence starts at 0.
    pub(super) fn clear(&mut self) {
        self.starts.clear();
        self.starts.push(0);
        for list in [&mut self.items, &mut self.targets, &mut self.negatives, &mut self.rows, &mut self.others] {
            list.clear();
        }
    }
}

impl MicroBatch<'_> {
    /// Appends items that the user does not have; any items, if they have all.
    pub(super) fn draw_negatives(&self, user: u32, count: usize, into: &mut Vec<u32>, rng: &mut Rng) {
        let start = into.len();
        into.resize(start + count, 0);
        let drawn = &mut into[start..];
        if self.sampler.has_all(user) {
            drawn.fill_with(|| rng.below(self.histories.catalog_size() as u32));
        } else {
            self.sampler.sample(&std::iter::repeat(user), drawn, rng);
        }
    }
}

/// Adam over shards, so that all threads take part in a step.
struct ShardedAdam {
    optimisers: Vec<Adam<f32>>,
    shard: usize,
}

impl ShardedAdam {
    fn new(parameters: usize, learning_rate: f64) -> Self {
        let shard = parameters.div_ceil(SHARDS).max(1);
        let sizes = (0..parameters).step_by(shard).map(|start| shard.min(parameters - start));
        Self { optimisers: sizes.map(|size| Adam::new(learning_rate, size)).collect(), shard }
    }

    fn step(&mut self, parameters: &mut [f32], gradients: &mut [f32]) -> Result<(), NeuralError> {
        let parts = parameters.par_chunks_mut(self.shard).zip(gradients.par_chunks_mut(self.shard));
        parts.zip(&mut self.optimisers).try_for_each(|((parameters, gradients), adam)| adam.step(parameters, gradients))
    }
}

/// The state of training.
pub(super) struct Training {
    workers: Vec<Worker>,
    network: ShardedAdam,
    tables: Vec<ShardedAdam>,
    /// Gradients of the whole tables.
    sums: Vec<Vec<f32>>,
    sampler: NegativeSampler,
    /// A batch's users, by length.
    by_length: Vec<u32>,
}

impl Training {
    pub(super) fn new(fitted: &Fitted, config: &SequenceTraining, train: &Histories) -> Result<Self, NeuralError> {
        let users = config.batch.min(train.users().max(1)).div_ceil(MICRO_BATCHES);
        let space = fitted.model.space(users);
        // Indices: a class for each position.
        let worker = |_| Worker::new(&fitted.layouts, space, users * (config.max_length + 1));
        let adam = |values: &Vec<f32>| ShardedAdam::new(values.len(), config.learning_rate);
        Ok(Self {
            workers: (0..MICRO_BATCHES).map(worker).collect::<Result<_, NeuralError>>()?,
            network: adam(&fitted.weights.network),
            tables: fitted.weights.tables.iter().map(adam).collect(),
            sums: fitted.weights.tables.iter().map(|values| vec![0.0; values.len()]).collect(),
            sampler: NegativeSampler::new(train),
            by_length: Vec::new(),
        })
    }

    /// Forgets the moments of earlier steps.
    pub(super) fn reset(&mut self) {
        let all = self.tables.iter_mut().chain([&mut self.network]);
        all.flat_map(|adam| &mut adam.optimisers).for_each(Adam::reset);
    }

    /// One step on a batch; its mean loss and its number of samples.
    pub(super) fn step(
        &mut self,
        fitted: &mut Fitted,
        histories: &Histories,
        users: &[u32],
        phase: Phase,
        rng: &Rng,
    ) -> Result<(f64, usize), NeuralError> {
        let samples: usize = users.iter().map(|&user| fitted.model.samples(histories.of(user as usize))).sum();
        self.by_length.clear();
        self.by_length.extend_from_slice(users);
        self.by_length.sort_by_key(|&user| std::cmp::Reverse(histories.of(user as usize).len()));
        let size = users.len().div_ceil(MICRO_BATCHES);
        let (model, weights, sampler) = (&*fitted.model, &fitted.weights, &self.sampler);
        let parts = self.workers.par_iter_mut().zip(self.by_length.par_chunks(size)).enumerate();
        let losses = parts.map(|(number, (worker, users))| {
            let scale = 1.0 / samples.max(1) as f64;
            let batch = MicroBatch { histories, users, sampler, phase, scale, shared_rng: rng };
            model.backpropagate(weights, &batch, worker, &mut rng.stream("part", number as u64))
        });
        let loss = losses.collect::<Result<Vec<_>, _>>()?.iter().sum();
        self.optimise(&mut fitted.weights)?;
        Ok((loss, samples))
    }

    /// Adds the workers' gradients in order and steps.
    fn optimise(&mut self, weights: &mut Weights) -> Result<(), NeuralError> {
        for (number, sum) in self.sums.iter_mut().enumerate() {
            for worker in &mut self.workers {
                worker.tables[number].add_to(sum)?;
                worker.tables[number].clear();
            }
            self.tables[number].step(&mut weights.tables[number], sum)?;
        }
        let Some((sum, others)) = self.workers.split_first_mut() else { return Ok(()) };
        let shard = self.network.shard;
        let mut parts: Vec<Vec<&mut [f32]>> = self.network.optimisers.iter().map(|_| Vec::new()).collect();
        for other in others {
            for (parts, chunk) in parts.iter_mut().zip(other.gradients.chunks_mut(shard)) {
                parts.push(chunk);
            }
        }
        sum.gradients.par_chunks_mut(shard).zip(parts).for_each(|(sum, parts)| {
            for part in parts {
                crate::central::micro_batches::add_and_clear(sum, part);
            }
        });
        self.network.step(&mut weights.network, &mut sum.gradients)
    }
}
