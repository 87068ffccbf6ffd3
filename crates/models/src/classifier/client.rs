//! The device's half: some epochs of gradient descent over its own images.

use super::Network;
use super::server::flattened;
use crate::{ClientModel, TrainInput, TrainResult, TrainStats};
use sottovoce_core::{History, Images, Rng};
use sottovoce_neural::{Arena, NeuralError, Sgd};
use sottovoce_protocol::{Parameters, Trained, UpdateError};
use std::sync::Arc;

/// How a device trains.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrainConfig {
    /// Passes over its images in a round (E).
    pub epochs: usize,
    /// Images of a step (B); 0: all of them.
    pub batch: usize,
    /// Learning rate.
    pub learning_rate: f64,
}

/// A device that classifies images.
#[derive(Clone, Debug)]
pub struct Classifier {
    network: Network,
    images: Arc<Images>,
    config: TrainConfig,
}

/// Scratch memory: a local model, its gradient, the activations of a chunk.
pub struct Scratch {
    parameters: Vec<f32>,
    gradients: Vec<f32>,
    arena: Result<Arena<f32>, NeuralError>,
    order: Vec<u32>,
}

impl Classifier {
    /// Of a network, with the store that histories point into.
    pub fn new(network: Network, images: Arc<Images>, config: TrainConfig) -> Self {
        Self { network, images, config }
    }

    /// Which of these images a shared model, as [`ClientModel::prepare`] gives it, takes for what they are.
    ///
    /// # Errors
    /// If the model is not this network's or memory is short.
    pub fn evaluate(
        &self,
        parameters: &[f32],
        list: &[u32],
        scratch: &mut Scratch,
        mut call: impl FnMut(usize, bool),
    ) -> Result<(), NeuralError> {
        let arena = scratch.arena.as_mut().map_err(|error| error.clone())?;
        self.network.classify(parameters, &self.images, list, arena, |place, class| {
            call(place, class == self.images.labels()[list[place] as usize]);
        })
    }

    /// Some epochs on a copy of the shared model; returns the sum of the first epoch's losses.
    fn learn(&self, shared: &[f32], own: &[u32], scratch: &mut Scratch, rng: &mut Rng) -> Result<f64, NeuralError> {
        let Scratch { parameters, gradients, arena, order } = scratch;
        let arena = arena.as_mut().map_err(|error| error.clone())?;
        parameters.clear();
        parameters.extend_from_slice(shared);
        gradients.clear();
        gradients.resize(shared.len(), 0.0);
        order.clear();
        order.extend_from_slice(own);
        let batch = if self.config.batch == 0 { own.len() } else { self.config.batch };
        let (mut sgd, mut first) = (Sgd::new(self.config.learning_rate), 0.0);
        for epoch in 0..self.config.epochs {
            // A full batch is the same in any order.
            if batch < own.len() {
                rng.shuffle(order);
            }
            for batch in order.chunks(batch.max(1)) {
                let loss = self.network.add_gradient(parameters, &self.images, batch, gradients, arena)?;
                sgd.step(parameters, gradients)?;
                first += if epoch == 0 { loss } else { 0.0 };
            }
        }
        Ok(first)
    }

    /// Writes the local model minus the shared one.
    fn propose(&self, shared: &[f32], local: &mut [f32], into: &mut Trained) -> Result<(), UpdateError> {
        local.iter_mut().zip(shared).for_each(|(local, shared)| *local -= shared);
        let mut tensors = self.network.layout().tensors().iter().enumerate();
        tensors.try_for_each(|(table, tensor)| into.copy_whole(table, &local[tensor.slot.range()]))
    }
}

impl ClientModel for Classifier {
    type Scratch = Scratch;
    /// The shared model as one flat buffer.
    type Prepared = Vec<f32>;

    fn prepare(&self, shared: &Parameters) -> Vec<f32> {
        flattened(shared)
    }

    fn scratch(&self, _: usize) -> Scratch {
        let (parameters, gradients, order) = Default::default();
        Scratch { parameters, gradients, arena: self.network.arena(), order }
    }

    fn train(
        &self,
        input: TrainInput<'_, Vec<f32>>,
        scratch: &mut Scratch,
        rng: &mut Rng,
        into: &mut Trained,
    ) -> TrainResult {
        let own = input.history.items;
        if own.is_empty() {
            return Ok(TrainStats::default());
        }
        // Shapes are the layout's; a model that is not of this layout has another number of values.
        let found = input.prepared.len();
        let wrong = |_| UpdateError::Values(0, found, self.network.layout().len());
        let loss = self.learn(input.prepared, own, scratch, rng).map_err(wrong)?;
        self.propose(input.prepared, &mut scratch.parameters, into)?;
        into.set_samples(own.len() as u64);
        Ok(TrainStats { samples: own.len() as u64, loss })
    }

    /// The class that each image is taken for; 0 where the model is not this network's.
    fn score(&self, shared: &Parameters, _: &[f32], _: History<'_>, into: &mut [f32]) {
        let list: Vec<u32> = (0..into.len().min(self.images.len()) as u32).collect();
        into.fill(0.0);
        if let Ok(mut arena) = self.network.arena() {
            let parameters = flattened(shared);
            let call = |place: usize, class: u8| into[place] = f32::from(class);
            let _ = self.network.classify(&parameters, &self.images, &list, &mut arena, call);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Architecture, ClassifierServer};
    use super::*;
    use crate::ServerModel;
    use sottovoce_neural::Arithmetic;

    /// Two classes that differ in which half of an image is bright.
    fn images() -> Arc<Images> {
        let mut rng = Rng::new(2);
        let labels: Vec<u8> = (0..40).map(|n| (n % 2) as u8).collect();
        let pixels = labels.iter().flat_map(|&label| (0..16).map(move |n| (n % 4 < 2) == (label == 0)));
        let pixels = pixels.map(|bright| if bright { 200 } else { 30 } + rng.below(50) as u8).collect();
        Arc::new(Images::new([1, 4, 4], 2, pixels, labels).unwrap())
    }

    fn device(batch: usize) -> (Classifier, Parameters) {
        let network = Network::new(Architecture::Mlp, [1, 4, 4], 2, Arithmetic::Portable).unwrap();
        let shared = ClassifierServer::new(network.clone()).init(40, &mut Rng::new(7)).unwrap();
        let config = TrainConfig { epochs: 5, batch, learning_rate: 0.1 };
        (Classifier::new(network, images(), config), shared)
    }

    fn trained(device: &Classifier, shared: &Parameters, own: &[u32]) -> (TrainStats, Trained) {
        let mut into = Trained::new(&shared.layout());
        let input = TrainInput {
            shared,
            prepared: &device.prepare(shared),
            private: &mut [],
            history: own.into(),
            hidden: &[],
        };
        let stats = device.train(input, &mut device.scratch(40), &mut Rng::new(3), &mut into).unwrap();
        (stats, into)
    }

    #[test]
    fn training_reduces_the_loss_and_classifies() {
        let own: Vec<u32> = (0..30).collect();
        for batch in [0, 7] {
            let (device, mut shared) = device(batch);
            let (stats, update) = trained(&device, &shared, &own);
            assert_eq!((stats.samples, update.update().samples()), (30, 30));
            for (table, rows) in shared.tables_mut().iter_mut().zip(update.update().tables()) {
                table.values_mut().iter_mut().zip(rows.values()).for_each(|(value, change)| *value += change);
            }
            let after = trained(&device, &shared, &own).0;
            assert!(after.loss < 0.8 * stats.loss, "{batch}: {} {}", stats.loss, after.loss);
            let mut right = 0;
            let call = |_, correct| right += usize::from(correct);
            let others: Vec<u32> = (30..40).collect();
            device.evaluate(&device.prepare(&shared), &others, &mut device.scratch(0), call).unwrap();
            assert_eq!(right, 10);
            let mut classes = vec![9.0; 40];
            device.score(&shared, &[], History::default(), &mut classes);
            assert_eq!(classes[30..], [0.0, 1.0].repeat(5));
        }
    }

    #[test]
    fn one_step_on_all_images_follows_the_gradient() {
        let (mut device, shared) = device(0);
        device.config = TrainConfig { epochs: 1, batch: 0, learning_rate: 0.5 };
        let own: Vec<u32> = (0..30).collect();
        let (_, update) = trained(&device, &shared, &own);
        let mut gradients = device.network.layout().zeros::<f32>();
        let mut arena = device.network.arena().unwrap();
        let flat = device.prepare(&shared);
        device.network.add_gradient(&flat, &device.images, &own, &mut gradients, &mut arena).unwrap();
        let sent = update.update().tables().iter().flat_map(sottovoce_protocol::Rows::values);
        let far = sent.zip(&gradients).map(|(d, g)| (d + 0.5 * g).abs()).fold(0.0, f32::max);
        assert!(far < 1e-6, "{far}");
    }

    #[test]
    fn trains_on_nothing_without_images_and_rejects_another_model() {
        let (device, shared) = device(0);
        assert_eq!(trained(&device, &shared, &[]).0, TrainStats::default());
        let mut into = Trained::new(&shared.layout());
        let input = TrainInput {
            shared: &shared,
            prepared: &vec![0.0; 3],
            private: &mut [],
            history: (&[1]).into(),
            hidden: &[],
        };
        assert!(device.train(input, &mut device.scratch(40), &mut Rng::new(3), &mut into).is_err());
    }
}
