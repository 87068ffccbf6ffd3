//! Training on a device, session after session.

use super::RefrsConfig;
use super::candidates::CHUNK;
use super::item_vectors::ItemVectors;
use super::network::Network;
use super::recommender::RecommenderNetwork;
use crate::federated::WorkingMemory;
use sottovoce_core::{Facts, Rng, math};
use sottovoce_neural::{Arena, NeuralError, Sgd};
use std::sync::Arc;

/// The two networks of a device, and what they need to know of items.
#[derive(Clone, Debug)]
pub(super) struct Networks {
    pub(super) embedding: Network,
    pub(super) recommender: RecommenderNetwork,
    vectors: ItemVectors,
    config: RefrsConfig,
}

/// Working memory of a device. Nothing else is held while it trains.
#[derive(Debug)]
pub(super) struct Workspace {
    arena: Arena<f32>,
    /// Of the embedding model and of the recommender.
    gradients: [Vec<f32>; 2],
    /// The embedding model with another encoder.
    parameters: Vec<f32>,
    /// Vectors F of a session's items.
    vectors: Vec<f32>,
    /// Some windows.
    windows: Vec<f32>,
    /// In which order windows are trained on.
    order: Vec<u32>,
    /// Embeddings z of a session's items.
    embeddings: Vec<f32>,
    /// By step of a session: the context of the next item's window, and the embeddings that compete for its place.
    contexts: Vec<f32>,
    candidates: Vec<f32>,
    /// Vectors of some candidates.
    drawn: Vec<f32>,
}

impl Workspace {
    /// How large it is, with items' vectors of this length.
    pub(super) fn size(&self, dim: usize) -> WorkingMemory {
        let Self { arena, gradients: [embedding, recommender], parameters, vectors, windows, .. } = self;
        let Self { order, embeddings, contexts, candidates, drawn, .. } = self;
        let buffers = [embedding, recommender, parameters, vectors, windows, embeddings, contexts, candidates, drawn];
        let values: usize = buffers.iter().map(|buffer| buffer.capacity()).sum();
        let bytes = size_of::<f32>() * values + size_of::<u32>() * order.capacity() + arena.bytes();
        WorkingMemory { item_vectors: vectors.len() / dim, bytes }
    }
}

/// The part of the private model that is the embedding model's, and the recommender's.
pub(super) struct Private<'p> {
    pub(super) embedding: &'p mut [f32],
    pub(super) recommender: &'p mut [f32],
}

impl Networks {
    /// # Errors
    /// If a size is 0 or too large: the ranges of settings leave none out.
    pub(super) fn new(config: &RefrsConfig, facts: &Arc<Facts>) -> Result<Self, NeuralError> {
        let embedding = Network::new(config.network.shape())?;
        let recommender = RecommenderNetwork::new(&config.recommender_shape())?;
        let vectors = ItemVectors::new(facts, config.network.dim, config.network.item_weight);
        Ok(Self { embedding, recommender, vectors, config: config.clone() })
    }

    /// Parameters of both networks.
    pub(super) fn values(&self) -> usize {
        self.embedding.layout().len() + self.recommender.layout().len()
    }

    pub(super) fn private<'p>(&self, values: &'p mut [f32]) -> Private<'p> {
        let (embedding, rest) = values.split_at_mut(self.embedding.layout().len());
        Private { embedding, recommender: &mut rest[..self.recommender.layout().len()] }
    }

    /// Windows that are computed at a time.
    fn batch(&self) -> usize {
        self.config.local_batch.min(self.config.session)
    }

    /// # Errors
    /// If memory has no room for it.
    pub(super) fn workspace(&self) -> Result<Workspace, NeuralError> {
        let RefrsConfig { session, negatives, .. } = self.config;
        let (dim, shape) = (self.config.network.dim, self.embedding.shape());
        let (values, indices) = self.embedding.space(self.batch());
        let recommender = self.recommender.space(session, 1 + negatives);
        let embedded = CHUNK.max(negatives);
        let candidates = embedded * (self.embedding.context_values() + dim);
        let zeros = |values: usize| vec![0.0; values];
        Ok(Workspace {
            arena: Arena::new(values.max(recommender).max(candidates), indices.max(embedded))?,
            gradients: [zeros(self.embedding.layout().len()), zeros(self.recommender.layout().len())],
            parameters: zeros(self.embedding.layout().len()),
            vectors: zeros(session * dim),
            windows: zeros(self.batch() * shape.window_values()),
            order: Vec::with_capacity(session),
            embeddings: zeros(session * dim),
            contexts: zeros(session * self.embedding.context_values()),
            candidates: zeros((session * (1 + negatives)).max(CHUNK) * dim),
            drawn: zeros(embedded * dim),
        })
    }

    /// Computes the vectors of a session's items: those of the session before are swapped out.
    fn load(&self, session: &[u32], work: &mut Workspace) {
        let rows = work.vectors.chunks_exact_mut(self.vectors.dim());
        session.iter().zip(rows).for_each(|(&item, row)| self.vectors.write(item, row));
    }

    /// Writes the windows that end in these places of a session; zeros where nothing comes before.
    fn write_windows<'w>(
        &self,
        vectors: &[f32],
        places: impl Iterator<Item = usize>,
        windows: &'w mut [f32],
    ) -> &'w [f32] {
        let (values, dim) = (self.embedding.shape().window_values(), self.vectors.dim());
        let mut count = 0;
        for (place, window) in places.zip(windows.chunks_exact_mut(values)) {
            let there = ((place + 1) * dim).min(values);
            window[..values - there].fill(0.0);
            window[values - there..].copy_from_slice(&vectors[(place + 1) * dim - there..][..there]);
            count += 1;
        }
        &windows[..count * values]
    }

    /// An epoch of the embedding model over all sessions; returns the sum of the windows' losses.
    pub(super) fn embedding_epoch(
        &self,
        parameters: &mut [f32],
        sequence: &[u32],
        work: &mut Workspace,
        rng: &mut Rng,
    ) -> Result<f64, NeuralError> {
        let mut sgd = Sgd::new(self.config.learning_rate);
        let mut loss = 0.0;
        for session in self.sessions(sequence) {
            self.load(session, work);
            work.order.clear();
            work.order.extend(0..session.len() as u32);
            rng.shuffle(&mut work.order);
            let Workspace { arena, gradients: [gradients, _], vectors, windows, order, .. } = &mut *work;
            for places in order.chunks(self.batch()) {
                let places_of = places.iter().map(|&place| place as usize);
                let windows = self.write_windows(vectors, places_of, windows);
                let mean = self.embedding.step(parameters, windows, rng, gradients, &mut arena.space())?;
                sgd.step(parameters, gradients)?;
                loss += mean * places.len() as f64;
            }
        }
        Ok(loss)
    }

    /// The loss of one window of items, and its gradient, lent.
    pub(super) fn window_gradient(
        &self,
        parameters: &[f32],
        items: &[u32],
        work: &mut Workspace,
        rng: &mut Rng,
        read: impl FnOnce(&[f32]),
    ) -> Result<f64, NeuralError> {
        self.load(items, work);
        let Workspace { arena, gradients: [gradients, _], vectors, windows, .. } = work;
        let window = self.write_windows(vectors, std::iter::once(items.len() - 1), windows);
        let loss = self.embedding.step(parameters, window, rng, gradients, &mut arena.space());
        read(gradients);
        gradients.fill(0.0);
        loss
    }

    /// The mean loss of the newest windows, a step's worth, with another encoder.
    pub(super) fn loss(
        &self,
        parameters: &[f32],
        encoder: &[f32],
        sequence: &[u32],
        work: &mut Workspace,
    ) -> Result<f64, NeuralError> {
        let newest = &sequence[sequence.len().saturating_sub(self.config.session)..];
        self.load(newest, work);
        let Workspace { arena, gradients: [gradients, _], vectors, windows, parameters: other, .. } = work;
        other.copy_from_slice(parameters);
        other[self.embedding.encoder()].copy_from_slice(encoder);
        let places = newest.len().saturating_sub(self.batch())..newest.len();
        let windows = self.write_windows(vectors, places, windows);
        let loss = self.embedding.step(other, windows, &mut Rng::new(0), gradients, &mut arena.space());
        gradients.fill(0.0);
        loss
    }

    /// The sessions of a sequence, oldest first; the oldest may be shorter.
    fn sessions<'s>(&self, sequence: &'s [u32]) -> impl Iterator<Item = &'s [u32]> + use<'s> {
        sequence.rchunks(self.config.session).rev()
    }

    /// Computes a session's embeddings, and the contexts in which its next items compete.
    fn embed(&self, parameters: &[f32], session: &[u32], work: &mut Workspace) -> Result<(), NeuralError> {
        self.load(session, work);
        let (dim, context) = (self.vectors.dim(), self.embedding.context_values());
        let Workspace { arena, vectors, windows, embeddings, contexts, .. } = work;
        for first in (0..session.len()).step_by(self.batch()) {
            let places = first..session.len().min(first + self.batch());
            let windows = self.write_windows(vectors, places.clone(), windows);
            let into = &mut contexts[first * context..places.end * context];
            self.embedding.contexts(parameters, windows, into, &mut arena.space())?;
        }
        let items = vectors.chunks_exact(dim).zip(contexts.chunks_exact(context)).take(session.len());
        for ((vector, context), into) in items.zip(embeddings.chunks_exact_mut(dim)) {
            self.embedding.embed_candidates(parameters, context, vector, into, &mut arena.space())?;
        }
        Ok(())
    }

    /// Embeds drawn items in the places of a session's items from the second on, beside them.
    fn draw(
        &self,
        parameters: &[f32],
        session: &[u32],
        items: u32,
        work: &mut Workspace,
        rng: &mut Rng,
    ) -> Result<(), NeuralError> {
        let (dim, context, each) = (self.vectors.dim(), self.embedding.context_values(), 1 + self.config.negatives);
        let Workspace { arena, embeddings, contexts, candidates, drawn, .. } = work;
        for place in 1..session.len() {
            let (next, others) = candidates[(place - 1) * each * dim..][..each * dim].split_at_mut(dim);
            next.copy_from_slice(&embeddings[place * dim..][..dim]);
            let drawn = &mut drawn[..self.config.negatives * dim];
            drawn.chunks_exact_mut(dim).for_each(|row| self.vectors.write(rng.below(items), row));
            let context = &contexts[place * context..][..context];
            self.embedding.embed_candidates(parameters, context, drawn, others, &mut arena.space())?;
        }
        Ok(())
    }

    /// Epochs of the recommender, with the embedding model as it is.
    pub(super) fn train_recommender(
        &self,
        Private { embedding, recommender }: Private<'_>,
        (sequence, epochs): (&[u32], usize),
        items: u32,
        work: &mut Workspace,
        rng: &mut Rng,
    ) -> Result<(), NeuralError> {
        let (dim, each) = (self.vectors.dim(), 1 + self.config.negatives);
        let mut sgd = Sgd::new(self.config.recommender_learning_rate);
        let only_session = sequence.len() <= self.config.session;
        for epoch in 0..epochs {
            for session in self.sessions(sequence).filter(|session| session.len() > 1) {
                // What is embedded stays so while there is nothing to swap it for.
                if epoch == 0 || !only_session {
                    self.embed(embedding, session, work)?;
                }
                self.draw(embedding, session, items, work, rng)?;
                let Workspace { arena, gradients: [_, gradients], embeddings, candidates, .. } = &mut *work;
                let steps = session.len() - 1;
                let (seen, candidates) = (&embeddings[..steps * dim], &candidates[..steps * each * dim]);
                self.recommender.step(recommender, seen, candidates, gradients, &mut arena.space())?;
                sgd.step(recommender, gradients)?;
            }
        }
        Ok(())
    }

    /// Scores all items as the next of a sequence.
    pub(super) fn score(&self, private: &[f32], sequence: &[u32], into: &mut [f32]) -> Result<(), NeuralError> {
        let mut work = self.workspace()?;
        let (embedding, rest) = private.split_at(self.embedding.layout().len());
        let recommender = &rest[..self.recommender.layout().len()];
        // The newest items but the oldest of them, whose place in the session the next item takes.
        let newest = &sequence[sequence.len().saturating_sub(self.config.session - 1)..];
        self.embed(embedding, newest, &mut work)?;
        let (dim, values) = (self.vectors.dim(), self.embedding.context_values());
        let mut h = vec![0.0; dim];
        let Workspace { arena, vectors, windows, embeddings, contexts, candidates, drawn, .. } = &mut work;
        let seen = &embeddings[..newest.len() * dim];
        self.recommender.state(recommender, seen, &mut h, &mut arena.space())?;
        vectors[newest.len() * dim..][..dim].fill(0.0);
        let window = self.write_windows(vectors, std::iter::once(newest.len()), windows);
        let context = &mut contexts[..values];
        self.embedding.contexts(embedding, window, context, &mut arena.space())?;
        for (first, scores) in (0..).step_by(CHUNK).zip(into.chunks_mut(CHUNK)) {
            let drawn = &mut drawn[..scores.len() * dim];
            (first..).zip(drawn.chunks_exact_mut(dim)).for_each(|(item, row)| self.vectors.write(item, row));
            let embedded = &mut candidates[..scores.len() * dim];
            self.embedding.embed_candidates(embedding, context, drawn, embedded, &mut arena.space())?;
            for (score, candidate) in scores.iter_mut().zip(embedded.chunks_exact(dim)) {
                *score = math::dot(&h, candidate);
            }
        }
        Ok(())
    }
}
