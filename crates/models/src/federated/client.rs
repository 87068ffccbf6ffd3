//! The client's half of a federated model.

use super::DpSgd;
use crate::{Reason, ReasonKind};
use sottovoce_core::{History, Rng};
use sottovoce_protocol::{Parameters, Trained, UpdateError};
use std::borrow::Cow;

/// What a client trains on.
pub struct TrainInput<'a, P: ?Sized = ()> {
    /// The shared model as it was distributed.
    pub shared: &'a Parameters,
    /// What [`ClientModel::prepare`] computed from that shared model.
    pub prepared: &'a P,
    /// The private model, [`ClientModel::private_values`] long; changed by training and never sent.
    pub private: &'a mut [f32],
    /// The user's items, ascending, each once, and what else the device knows of its owner.
    pub history: History<'a>,
    /// The items of which nothing may leave, ascending. Rows of such items are withheld by the disclosure policy,
    /// unless the model provides decoys for them; a model whose rows are not items marks those that only hidden items
    /// explain.
    pub hidden: &'a [u32],
}

impl<'a, P: ?Sized> TrainInput<'a, P> {
    /// The sequence without hidden items, for models whose updates have layers that belong to no item.
    pub fn visible_sequence(&self) -> Cow<'a, [u32]> {
        if self.hidden.is_empty() {
            return Cow::Borrowed(self.history.sequence);
        }
        let visible = |item: &u32| self.hidden.binary_search(item).is_err();
        Cow::Owned(self.history.sequence.iter().copied().filter(visible).collect())
    }

    /// The history without hidden items, for models whose updates have layers that belong to no item.
    pub fn visible(&self) -> Cow<'a, [u32]> {
        if self.hidden.is_empty() {
            return Cow::Borrowed(self.history.items);
        }
        let visible = |item: &u32| self.hidden.binary_search(item).is_err();
        Cow::Owned(self.history.iter().copied().filter(visible).collect())
    }
}

/// Statistics of a client's training in a round. They stay on the device unless its owner reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TrainStats {
    /// Samples trained on; 0 if there were none.
    pub samples: u64,
    /// Sum of their losses before the step.
    pub loss: f64,
}

/// What a device holds in memory while it trains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkingMemory {
    /// Vectors of items of the history that are there at a time.
    pub item_vectors: usize,
    /// Bytes of all buffers.
    pub bytes: usize,
}

/// What training gives: its statistics, or why the update could not be written.
pub type TrainResult = Result<TrainStats, UpdateError>;

/// What runs on a device. It holds settings only: a device's state is its private model, which the simulator stores for
/// many devices in one slab. Working memory is passed in, so that training does not allocate.
pub trait ClientModel: Send + Sync + 'static {
    /// Working memory, used for one device after the other.
    type Scratch: Send + Sync + 'static;

    /// What depends on the shared model alone and is worth computing once; `()` for most models.
    type Prepared: Send + Sync + 'static;

    /// Computes what depends on the shared model alone: on a device after each download, in the simulator once a round.
    fn prepare(&self, shared: &Parameters) -> Self::Prepared;

    /// Working memory for a catalog of this size.
    fn scratch(&self, items: usize) -> Self::Scratch;

    /// How large working memory is, for models that are to fit small devices.
    fn working_memory(&self, scratch: &Self::Scratch) -> Option<WorkingMemory> {
        let _ = scratch;
        None
    }

    /// Number of values of a private model; 0 for models that have none.
    fn private_values(&self) -> usize {
        0
    }

    /// Initialises a private model.
    fn init_private(&self, private: &mut [f32], rng: &mut Rng) {
        let _ = (private, rng);
    }

    /// Trains: changes the private model and writes the update `into` an empty buffer.
    ///
    /// # Errors
    /// If the buffer does not have the shared model's layout.
    fn train(
        &self,
        input: TrainInput<'_, Self::Prepared>,
        scratch: &mut Self::Scratch,
        rng: &mut Rng,
        into: &mut Trained,
    ) -> TrainResult;

    /// Whether a single update is the history itself, so that devices decline rounds without a seal.
    fn needs_seal(&self) -> bool {
        false
    }

    /// Whether [`train_dp_sgd`](Self::train_dp_sgd) is implemented: for models whose gradient is a sum to which each
    /// interaction contributes within a bound, and whose private model, as far as updates depend on it, depends on the
    /// history through that gradient only.
    fn supports_dp_sgd(&self) -> bool {
        false
    }

    /// Trains by DP-SGD: no interaction moves the private model's gradient and the update together by more than the
    /// clip, and the private model gets noise. Noise on the update is added later, on all rows of all tables. A part of
    /// the private model on which no update ever depends may be trained without noise: it stays on the device.
    ///
    /// # Errors
    /// If the buffer does not have the shared model's layout. Models without support train on nothing.
    fn train_dp_sgd(
        &self,
        input: TrainInput<'_, Self::Prepared>,
        dp_sgd: &mut DpSgd<'_>,
        rng: &mut Rng,
        into: &mut Trained,
    ) -> TrainResult {
        let _ = (input, dp_sgd, rng, into);
        Ok(TrainStats::default())
    }

    /// Adapts the private model to a history that has grown since the last round; returns whether it did. Nothing
    /// leaves: a model may change here only what no later update depends on. By default the private model waits for
    /// the next round.
    fn adapt(&self, private: &mut [f32], history: History<'_>, items: usize, rng: &mut Rng) -> bool {
        let _ = (private, history, items, rng);
        false
    }

    /// Scores all items; higher is better. Models that have all they need in the private model ignore `history`.
    ///
    /// # Panics
    /// If `into` is not as long as the catalog.
    fn score(&self, shared: &Parameters, private: &[f32], history: History<'_>, into: &mut [f32]);

    /// Length of the vectors of titles that the model reads; `None` if it reads none.
    fn title_dim(&self) -> Option<usize> {
        None
    }

    /// Whether scores are calibrated probabilities, for which thresholds make sense.
    fn is_calibrated(&self) -> bool {
        false
    }

    /// What the reasons of [`explain`](Self::explain) are.
    fn reason_kind(&self) -> ReasonKind {
        ReasonKind::None
    }

    /// What speaks for each of some items, for models that can tell, from what the device has. In no particular order.
    /// Hidden items are in `history` like others: reasons are for the owner and do not leave the device.
    ///
    /// # Panics
    /// If an item is not in the catalog.
    fn explain(&self, shared: &Parameters, private: &[f32], history: History<'_>, items: &[u32]) -> Vec<Vec<Reason>> {
        let _ = (shared, private, history);
        vec![Vec::new(); items.len()]
    }
}
