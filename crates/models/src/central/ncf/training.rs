//! Batches of interactions with drawn negatives, and steps of Adam.

use super::Plan;
use super::network::{Network, Part, Weights};
use super::side::SideTraining;
use crate::central::negatives::Owned;
use crate::central::order::Pair;
use rayon::prelude::*;
use sottovoce_core::Rng;
use sottovoce_neural::{Adam, Arena, NeuralError};

/// Parts of a batch: a fixed number, added in order, so that results do not depend on threads.
const PARTS: usize = 4;

/// Below this many multiplications a step is quicker on one thread than handed out.
const WORTH_THREADS: usize = 1 << 20;

/// The memory of one part.
pub(super) struct Lane {
    pub(super) part: Part,
    gradients: Vec<f32>,
    arena: Arena<f32>,
}

impl Lane {
    fn learn(
        &mut self,
        network: &Network,
        sampler: &Sampler<'_>,
        pairs: &[Pair],
        rng: &mut Rng,
        weights: Weights,
    ) -> Result<f64, NeuralError> {
        sampler.fill(&mut self.part, pairs, rng);
        if pairs.is_empty() {
            return Ok(0.0);
        }
        network.learn(&mut self.part, weights, &mut self.gradients, &mut self.arena.space())
    }
}

/// Draws negatives.
pub(super) struct Sampler<'a> {
    pub(super) owned: &'a Owned,
    pub(super) negatives: usize,
}

impl Sampler<'_> {
    fn fill(&self, part: &mut Part, pairs: &[Pair], rng: &mut Rng) {
        let each = 1 + self.negatives;
        part.users.indices.clear();
        part.users.indices.extend(pairs.iter().map(|pair| pair.user));
        part.items.indices.clear();
        part.items.indices.resize(pairs.len() * each, 0);
        part.targets.clear();
        part.targets.resize(pairs.len() * each, 0.0);
        let samples = part.items.indices.chunks_exact_mut(each).zip(part.targets.chunks_exact_mut(each));
        for (pair, (items, targets)) in pairs.iter().zip(samples) {
            (items[0], targets[0]) = (pair.item, 1.0);
            self.owned.draw_negatives(&std::iter::repeat(pair.user), &mut items[1..], rng);
        }
    }
}

/// A training in progress.
pub(super) struct Training {
    plan: Plan,
    pub(super) lanes: Vec<Lane>,
    users: SideTraining,
    items: SideTraining,
    shared: Adam<f32>,
}

impl Training {
    pub(super) fn new(network: &Network, plan: &Plan) -> Result<Self, NeuralError> {
        let (pairs, each) = (plan.batch.div_ceil(PARTS), 1 + plan.negatives);
        let lane = |_| {
            let arena = Arena::new(network.space(pairs, pairs * each), 0)?;
            Ok(Lane { part: Part::default(), gradients: network.layout.zeros(), arena })
        };
        Ok(Self {
            plan: *plan,
            lanes: (0..PARTS).map(lane).collect::<Result<_, NeuralError>>()?,
            users: SideTraining::new(&network.users, plan.rate, plan.batch)?,
            items: SideTraining::new(&network.items, plan.rate, plan.batch * each)?,
            shared: Adam::new(plan.rate, network.shared.len()),
        })
    }

    /// One step on a batch; returns the mean loss of its samples.
    pub(super) fn step(
        &mut self,
        network: &mut Network,
        sampler: &Sampler<'_>,
        batch: &[Pair],
        rng: &Rng,
    ) -> Result<f64, NeuralError> {
        let samples = batch.len() * (1 + self.plan.negatives);
        let weights = Weights { share: 1.0 / samples as f64, regularisation: self.plan.regularisation };
        let worth = samples * (self.plan.factors + network.shared.len()) >= WORTH_THREADS;
        let size = batch.len().div_ceil(PARTS);
        let whole = &*network;
        let learn = |(number, lane): (usize, &mut Lane)| {
            let pairs = batch.chunks(size).nth(number).unwrap_or(&[]);
            lane.learn(whole, sampler, pairs, &mut rng.stream("part", number as u64), weights)
        };
        let losses: Result<Vec<f64>, NeuralError> = if worth {
            self.lanes.par_iter_mut().enumerate().map(learn).collect()
        } else {
            self.lanes.iter_mut().enumerate().map(learn).collect()
        };
        self.descend(network, worth)?;
        Ok(losses?.iter().sum())
    }

    fn descend(&mut self, network: &mut Network, worth: bool) -> Result<(), NeuralError> {
        self.step_shared(network)?;
        let lanes = &self.lanes;
        let (users, items) = (&mut self.users, &mut self.items);
        let (of_users, of_items) = (&mut network.users, &mut network.items);
        let mut users = || users.step(of_users, lanes.iter().map(|lane| &lane.part.users));
        let mut items = || items.step(of_items, lanes.iter().map(|lane| &lane.part.items));
        let (users, items) = if worth { rayon::join(users, items) } else { (users(), items()) };
        users.and(items)
    }

    fn step_shared(&mut self, network: &mut Network) -> Result<(), NeuralError> {
        let Some((sum, others)) = self.lanes.split_first_mut() else { return Ok(()) };
        for other in others {
            for (sum, value) in sum.gradients.iter_mut().zip(&mut other.gradients) {
                *sum += std::mem::take(value);
            }
        }
        network.add_output_decay(self.plan.regularisation, &mut sum.gradients)?;
        self.shared.step(&mut network.shared, &mut sum.gradients)
    }
}
