//! The two halves of a federated model: what the server holds, and what each device does.

use crate::{Bounds, Reason};
use sottovoce_core::Rng;
use sottovoce_protocol::{Layout, ModelError, Parameters, Trained, UpdateError};
use std::borrow::Cow;

/// The server's half: which tables the shared model has and how they begin.
pub trait SharedPart {
    /// Names and shapes of the tables for a catalog of this size.
    ///
    /// # Errors
    /// If the catalog is empty or too large for the wire format.
    fn layout(&self, items: usize) -> Result<Layout, ModelError>;

    /// The shared model before the first round.
    ///
    /// # Errors
    /// As [`layout`](Self::layout).
    fn start(&self, items: usize, rng: &mut Rng) -> Result<Parameters, ModelError>;
}

/// What a device is given to learn from.
pub struct Task<'a, P = ()> {
    /// The shared model as it was distributed.
    pub shared: &'a Parameters,
    /// What [`DevicePart::prepare`] made of that shared model.
    pub prepared: &'a P,
    /// The private model, [`DevicePart::private_values`] long; changed by training and never sent.
    pub private: &'a mut [f32],
    /// The items the owner has, ascending, each once.
    pub history: &'a [u32],
    /// The items of which nothing may leave, ascending. Rows of such items stay at home by themselves, unless the model covers
    /// them with what it would send of anybody; a model whose rows are something else marks those that only hidden items
    /// explain.
    pub hidden: &'a [u32],
}

impl<'a, P> Task<'a, P> {
    /// The history without hidden items: what models learn from whose update has layers that belong to no item.
    pub fn shown(&self) -> Cow<'a, [u32]> {
        if self.hidden.is_empty() {
            return Cow::Borrowed(self.history);
        }
        let shown = |item: &u32| self.hidden.binary_search(item).is_err();
        Cow::Owned(self.history.iter().copied().filter(shown).collect())
    }
}

/// What a device did in a round; stays with it unless the owner reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Lesson {
    /// Samples learnt from; 0 if there was nothing to learn from.
    pub samples: u64,
    /// Sum of their losses before the step.
    pub loss: f64,
}

/// The device's half. It holds settings only: a device's state is its private model, which a simulator keeps for many
/// devices in one column, and working memory is handed in, so that training allocates nothing once it has grown.
pub trait DevicePart: Send + Sync {
    /// Working memory, used for one device after the other.
    type Scratch: Send + Sync;

    /// What follows from the shared model alone and is worth computing once; `()` for most models.
    type Prepared: Send + Sync;

    /// Computes what follows from a shared model: a phone does so after each download, a simulator once a round for all
    /// devices, which get it with their [`Task`].
    fn prepare(&self, shared: &Parameters) -> Self::Prepared;

    /// Working memory for a catalog of this size.
    fn scratch(&self, items: usize) -> Self::Scratch;

    /// Number of values of a private model.
    fn private_values(&self) -> usize;

    /// The private model before the first round.
    fn start(&self, private: &mut [f32], rng: &mut Rng);

    /// Learns, changes the private model, and puts what it proposes for the shared model `into` an emptied buffer.
    ///
    /// # Errors
    /// If the buffer is not of the shared model's layout.
    fn train(
        &self,
        task: Task<'_, Self::Prepared>,
        scratch: &mut Self::Scratch,
        rng: &mut Rng,
        into: &mut Trained,
    ) -> Result<Lesson, UpdateError>;

    /// Whether it can learn with each interaction's share bounded ([`train_on_each`](Self::train_on_each)): models that go down a
    /// gradient which is a sum over interactions, and whose private model nothing else of the history goes into.
    fn bounds_interactions(&self) -> bool {
        false
    }

    /// Learns by DP-SGD: as [`train`](Self::train) does, but so that no interaction moves the private model's gradient and the
    /// update together by more than the bound, and with noise on the private model. Noise on the update is its
    /// carrier's to add, on all rows of all tables.
    ///
    /// # Errors
    /// If the buffer is not of the shared model's layout. Models that cannot, learn nothing.
    fn train_on_each(
        &self,
        task: Task<'_, Self::Prepared>,
        bounds: &mut Bounds<'_>,
        rng: &mut Rng,
        into: &mut Trained,
    ) -> Result<Lesson, UpdateError> {
        let _ = (task, bounds, rng, into);
        Ok(Lesson::default())
    }

    /// A score for each item, higher for what is more wanted. `history` is as in a [`Task`]; models that keep all they need
    /// in the private model do not look at it.
    ///
    /// # Panics
    /// If `into` is not as long as the catalog.
    fn score(&self, shared: &Parameters, private: &[f32], history: &[u32], into: &mut [f32]);

    /// What speaks for an item, for models that can tell; weights add up to its score. In no particular order.
    ///
    /// # Panics
    /// If the item is not in the catalog.
    fn reasons(&self, shared: &Parameters, private: &[f32], history: &[u32], item: u32) -> Vec<Reason> {
        let _ = (shared, private, history, item);
        Vec::new()
    }
}
