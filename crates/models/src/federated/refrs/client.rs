//! The device's half.

use super::RefrsConfig;
use super::session::{Networks, Workspace};
use crate::{ClientModel, TrainInput, TrainResult, TrainStats};
use sottovoce_core::{History, Rng};
use sottovoce_neural::NeuralError;
use sottovoce_protocol::{Parameters, Trained, UpdateError};

/// How a device trains.
#[derive(Clone, Debug)]
pub struct Client {
    pub(super) config: RefrsConfig,
    pub(super) networks: Option<Networks>,
}

/// Working memory.
#[derive(Debug)]
pub struct Scratch {
    work: Option<Workspace>,
    items: u32,
}

impl Client {
    fn learn(
        &self,
        networks: &Networks,
        encoder: &[f32],
        (private, sequence): (&mut [f32], &[u32]),
        scratch: &mut Scratch,
        rng: &mut Rng,
    ) -> Result<f64, NeuralError> {
        let Some(work) = &mut scratch.work else { return Ok(0.0) };
        let private = networks.private(private);
        private.embedding[..encoder.len()].copy_from_slice(encoder);
        let mut loss = 0.0;
        for _ in 0..self.config.local_epochs {
            loss += networks.embedding_epoch(private.embedding, sequence, work, rng)?;
        }
        let mut rng = rng.stream("recommender", 0);
        networks.train_recommender(private, (sequence, self.config.recommender_epochs), scratch.items, work, &mut rng)?;
        Ok(loss)
    }
}

/// The items in time order; ascending where no order is known.
fn sequence<'a>(history: &History<'a>) -> &'a [u32] {
    history.items
}

impl ClientModel for Client {
    type Scratch = Scratch;
    type Prepared = ();

    fn prepare(&self, _: &Parameters) {}

    fn scratch(&self, items: usize) -> Scratch {
        let work = self.networks.as_ref().and_then(|networks| networks.workspace().ok());
        Scratch { work, items: items as u32 }
    }

    fn private_values(&self) -> usize {
        self.networks.as_ref().map_or(0, Networks::private_values)
    }

    fn init_private(&self, private: &mut [f32], rng: &mut Rng) {
        let Some(networks) = &self.networks else { return };
        let private = networks.private(private);
        // The buffers are as long as the layouts say.
        let _ = networks.embedding.layout().initialise(private.embedding, rng);
        let _ = networks.recommender.layout().initialise(private.recommender, rng);
    }

    fn train(&self, input: TrainInput<'_>, scratch: &mut Scratch, rng: &mut Rng, into: &mut Trained) -> TrainResult {
        let TrainInput { shared, private, history, .. } = input;
        let (Some(networks), [encoders]) = (&self.networks, shared.tables()) else { return Ok(TrainStats::default()) };
        let sequence = sequence(&history);
        if sequence.is_empty() {
            return Ok(TrainStats::default());
        }
        let encoder = encoders.values();
        let wrong = |_: NeuralError| UpdateError::Values(0, encoder.len(), networks.embedding.encoder().len());
        let loss = self.learn(networks, encoder, (private, sequence), scratch, rng).map_err(wrong)?;
        let change = into.whole(0)?.iter_mut().zip(&private[..encoder.len()]).zip(encoder);
        change.for_each(|((change, now), given)| *change = now - given);
        into.set_samples(sequence.len() as u64);
        Ok(TrainStats { samples: (sequence.len() * self.config.local_epochs) as u64, loss })
    }

    fn score(&self, _: &Parameters, private: &[f32], history: History<'_>, into: &mut [f32]) {
        let sequence = sequence(&history);
        into.fill(0.0);
        if let Some(networks) = self.networks.as_ref().filter(|_| !sequence.is_empty()) {
            assert_eq!(networks.score(private, sequence, into), Ok(()), "a private model of this network");
        }
    }
}
