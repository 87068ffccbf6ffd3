//! Micro-batches: parts of a batch whose gradients are computed in parallel and added in order, so that results do not
//! depend on threads.

use sottovoce_neural::{Arena, Layout, NeuralError};

/// Micro-batches of a batch.
pub(super) const MICRO_BATCHES: usize = 4;

/// Working memory for one micro-batch, whose samples are of type `S`.
pub(super) struct Worker<S> {
    pub(super) samples: S,
    pub(super) gradients: Vec<f32>,
    pub(super) arena: Arena<f32>,
}

/// A worker for each micro-batch, with gradients of this layout and an arena of this size.
pub(super) fn workers<S: Default>(layout: &Layout, space: usize) -> Result<Vec<Worker<S>>, NeuralError> {
    let worker = |_| Ok(Worker { samples: S::default(), gradients: layout.zeros(), arena: Arena::new(space, 0)? });
    (0..MICRO_BATCHES).map(worker).collect()
}

/// Adds gradients and sets those added to zero.
pub(super) fn add_and_clear(sum: &mut [f32], other: &mut [f32]) {
    for (sum, value) in sum.iter_mut().zip(other) {
        *sum += std::mem::take(value);
    }
}
