//! The device's half.

use super::RefrsConfig;
use super::session::{Networks, Workspace};
use crate::federated::WorkingMemory;
use crate::federated::clustering::{Assignment, Clusters, PreparedClusters};
use crate::{ClientModel, DpSgd, ReasonKind, TrainInput, TrainResult, TrainStats};
use sottovoce_core::{History, Rng};
use sottovoce_neural::NeuralError;
use sottovoce_protocol::{Parameters, Trained, UpdateError};
use std::borrow::Cow;

/// How a device trains. Its private model is the embedding model, with the device's own encoder first, the recommender,
/// and whether the device has trained.
#[derive(Clone, Debug)]
pub struct Client {
    pub(super) config: RefrsConfig,
    pub(super) networks: Option<Networks>,
    pub(super) clusters: Clusters,
}

/// Working memory.
#[derive(Debug)]
pub struct Scratch {
    work: Option<Workspace>,
    items: u32,
}

impl Client {
    /// The cluster of a device.
    fn assign(
        &self,
        networks: &Networks,
        (shared, prepared): (&Parameters, &PreparedClusters),
        (private, sequence): (&[f32], &[u32]),
        work: &mut Workspace,
    ) -> usize {
        let embedding = &private[..networks.embedding.layout().len()];
        let own = has_trained(private).then(|| &embedding[networks.embedding.encoder()]);
        let loss = |encoder: &[f32]| networks.loss(embedding, encoder, sequence, work).unwrap_or(f64::INFINITY);
        self.clusters.assign(shared, prepared, own, loss)
    }

    /// Trains both networks, the embedding model first; returns the sum of its losses.
    fn learn(
        &self,
        networks: &Networks,
        (private, sequence): (&mut [f32], &[u32]),
        items: u32,
        work: &mut Workspace,
        rng: &mut Rng,
    ) -> Result<f64, NeuralError> {
        let private = networks.private(private);
        let mut loss = 0.0;
        for _ in 0..self.config.local_epochs {
            loss += networks.embedding_epoch(private.embedding, sequence, work, rng)?;
        }
        let mut rng = rng.stream("recommender", 0);
        networks.train_recommender(private, (sequence, self.config.recommender_epochs), items, work, &mut rng)?;
        Ok(loss)
    }
}

/// Whether a private model was trained: its encoder then tells to which cluster the device belongs.
pub(super) fn has_trained(private: &[f32]) -> bool {
    private.last().is_some_and(|&trained| trained > 0.0)
}

/// The items in time order; ascending where no order is known.
fn sequence<'a>(history: &History<'a>) -> &'a [u32] {
    if history.sequence.is_empty() { history.items } else { history.sequence }
}

fn visible_sequence<'a>(input: &TrainInput<'a, PreparedClusters>) -> Cow<'a, [u32]> {
    if input.history.sequence.is_empty() { input.visible() } else { input.visible_sequence() }
}

impl ClientModel for Client {
    type Scratch = Scratch;
    type Prepared = PreparedClusters;

    fn prepare(&self, shared: &Parameters) -> PreparedClusters {
        self.clusters.prepare(shared)
    }

    fn scratch(&self, items: usize) -> Scratch {
        let work = self.networks.as_ref().and_then(|networks| networks.workspace().ok());
        Scratch { work, items: items as u32 }
    }

    fn working_memory(&self, scratch: &Scratch) -> Option<WorkingMemory> {
        Some(scratch.work.as_ref()?.size(self.config.network.dim))
    }

    fn private_values(&self) -> usize {
        self.networks.as_ref().map_or(0, |networks| networks.values() + 1)
    }

    fn init_private(&self, private: &mut [f32], rng: &mut Rng) {
        let Some(networks) = &self.networks else { return };
        private.fill(0.0);
        let private = networks.private(private);
        // The buffers are as long as the layouts say.
        let _ = networks.embedding.layout().initialise(private.embedding, rng);
        let _ = networks.recommender.layout().initialise(private.recommender, rng);
    }

    fn train(
        &self,
        input: TrainInput<'_, PreparedClusters>,
        scratch: &mut Scratch,
        rng: &mut Rng,
        into: &mut Trained,
    ) -> TrainResult {
        let sequence = &*visible_sequence(&input);
        let TrainInput { shared, prepared, private, .. } = input;
        let (Some(networks), Some(work)) = (&self.networks, &mut scratch.work) else {
            return Ok(TrainStats::default());
        };
        if sequence.is_empty() {
            return Ok(TrainStats::default());
        }
        let (encoder, alone) = (networks.embedding.encoder(), self.clusters.assignment == Assignment::Alone);
        let cluster = self.assign(networks, (shared, prepared), (private, sequence), work);
        if !alone {
            private[encoder.clone()].copy_from_slice(shared.tables()[self.clusters.networks()].row(cluster));
        }
        let loss = self.learn(networks, (private, sequence), scratch.items, work, rng);
        let loss = loss.map_err(|_| UpdateError::Values(0, private.len(), networks.values() + 1))?;
        private.iter_mut().last().into_iter().for_each(|trained| *trained = 1.0);
        if !alone {
            self.clusters.propose(shared, prepared, cluster, &mut private[encoder], into)?;
        }
        into.set_samples(sequence.len() as u64);
        Ok(TrainStats { samples: (sequence.len() * self.config.local_epochs) as u64, loss })
    }

    /// Not where devices choose their cluster by the loss on their history, which is not noisy, where the server looks
    /// at single updates, or where nothing is sent.
    fn supports_dp_sgd(&self) -> bool {
        matches!(self.clusters.assignment, Assignment::Projection | Assignment::Single)
    }

    fn train_dp_sgd(
        &self,
        input: TrainInput<'_, PreparedClusters>,
        dp_sgd: &mut DpSgd<'_>,
        rng: &mut Rng,
        into: &mut Trained,
    ) -> TrainResult {
        let sequence = &*visible_sequence(&input);
        let Some(networks) = self.networks.as_ref().filter(|_| !sequence.is_empty() && self.supports_dp_sgd()) else {
            return Ok(TrainStats::default());
        };
        let TrainInput { shared, prepared, private, history, hidden } = input;
        let input = TrainInput { shared, prepared, private: &mut *private, history, hidden };
        let stats = self.step_dp_sgd(networks, sequence, input, dp_sgd, rng, into)?;
        private.iter_mut().last().into_iter().for_each(|trained| *trained = 1.0);
        Ok(stats)
    }

    /// Trains the recommender on the newest session, with the embedding model as it is. Updates depend on the embedding
    /// model only, so that none will tell of this.
    fn adapt(&self, private: &mut [f32], history: History<'_>, items: usize, rng: &mut Rng) -> bool {
        let sequence = sequence(&history);
        let newest = &sequence[sequence.len().saturating_sub(self.config.session)..];
        let Some(networks) = self.networks.as_ref().filter(|_| newest.len() > 1 && has_trained(private)) else {
            return false;
        };
        let (items, epochs) = (items as u32, self.config.adapt_epochs);
        let adapted = networks.workspace().and_then(|mut work| {
            networks.train_recommender(networks.private(private), (newest, epochs), items, &mut work, rng)
        });
        adapted.is_ok()
    }

    fn reason_kind(&self) -> ReasonKind {
        ReasonKind::Order
    }

    fn score(&self, _: &Parameters, private: &[f32], history: History<'_>, into: &mut [f32]) {
        let sequence = sequence(&history);
        into.fill(0.0);
        if let Some(networks) = self.networks.as_ref().filter(|_| !sequence.is_empty()) {
            assert_eq!(networks.score(private, sequence, into), Ok(()), "a private model of this network");
        }
    }
}
