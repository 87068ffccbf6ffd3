//! The device's half: learns to complete its owner's interests, one of which is hidden.

use super::LookalikeConfig;
use super::network::{Inputs, Network, PAGES, Text};
use super::server::{Server, flattened, output_rows};
use crate::{ClientModel, TrainInput, TrainResult, TrainStats};
use sottovoce_core::{History, Pages, Rng, math};
use sottovoce_neural::{Arena, NeuralError, SparseRows, Statistics};
use sottovoce_protocol::{Parameters, RowOrigin, Trained, UpdateError};

/// How a device trains.
#[derive(Clone, Debug)]
pub struct Client {
    /// The network.
    pub server: Server,
    /// The settings.
    pub config: LookalikeConfig,
}

/// Working memory.
pub struct Scratch {
    network: Option<(Network, Arena<f32>)>,
    /// The model with this device's steps, where it makes more than one.
    local: Vec<f32>,
    gradients: Vec<f32>,
    /// Sum of the gradients of all steps.
    change: Vec<f32>,
    pages: Vec<f32>,
    input: Vec<u32>,
    dlogits: Vec<f32>,
    items: Vec<u32>,
    marks: Vec<RowOrigin>,
}

impl Client {
    /// Learns for some epochs; leaves the sum of their gradients in the scratch and returns the first loss.
    fn learn(
        &self,
        shared: &[f32],
        (interests, pages): (&[u32], Pages<'_>),
        scratch: &mut Scratch,
        rng: &mut Rng,
    ) -> Result<f64, NeuralError> {
        let Scratch { network, local, gradients, change, pages: vectors, input, dlogits, .. } = scratch;
        let Some((network, arena)) = network else { return Ok(0.0) };
        vectors.resize(PAGES * network.shape().page_values(), 0.0);
        dlogits.resize(network.categories(), 0.0);
        change.clear();
        change.resize(shared.len(), 0.0);
        let steps = self.config.local_epochs;
        if steps > 1 {
            local.clear();
            local.extend_from_slice(shared);
            gradients.clear();
            gradients.resize(shared.len(), 0.0);
        }
        let mut first = 0.0;
        for step in 0..steps {
            let hidden = interests[rng.index(interests.len())];
            input.clear();
            input.extend(interests.iter().copied().filter(|&interest| interest != hidden));
            let pages = network.shape().some_pages(pages, rng);
            network.shape().read_pages(pages, Some(hidden), vectors);
            let seen = SparseRows::one(input, None, network.categories())?;
            let targets = SparseRows::one(interests, None, network.categories())?;
            let inputs = Inputs { interests: &seen, pages: vectors };
            let (parameters, into) = if steps > 1 { (&local[..], &mut *gradients) } else { (shared, &mut *change) };
            let mut space = arena.space();
            let pass = network.forward(parameters, inputs, Statistics::Running, Some(rng), &mut space)?;
            dlogits.fill(0.0);
            let loss = network.loss(pass.logits, &targets, Some(&mut dlogits[..]))?;
            network.backward(parameters, inputs, &pass, dlogits, into, &mut space)?;
            first += if step == 0 { loss } else { 0.0 };
            if steps > 1 {
                math::add_scaled(local, -self.config.learning_rate as f32, gradients);
                math::add_scaled(change, 1.0, gradients);
                gradients.fill(0.0);
            }
        }
        Ok(first)
    }

    /// Writes the change: rows of the first layer for the interests that were seen, rows of the last layer for all
    /// categories, and the layers between.
    fn propose(&self, interests: &[u32], scratch: &mut Scratch, into: &mut Trained) -> Result<(), UpdateError> {
        let Scratch { network: Some((network, _)), change, items, marks, .. } = scratch else { return Ok(()) };
        let (width, rate) = (network.shape().hidden(), -self.config.learning_rate as f32);
        let moved = |&interest: &u32| change[interest as usize * width..][..width].iter().any(|&value| value != 0.0);
        for &interest in interests.iter().filter(|interest| moved(interest)) {
            let row = into.push_row(0, interest, RowOrigin::Consumed)?;
            row.iter_mut().zip(&change[interest as usize * width..]).for_each(|(row, change)| *row = rate * change);
        }
        items.clear();
        items.extend(0..network.categories() as u32);
        marks.clear();
        marks.resize(items.len(), RowOrigin::Other);
        interests.iter().for_each(|&interest| marks[interest as usize] = RowOrigin::Consumed);
        output_rows(network, change, rate, into.push_rows(1, items, marks)?);
        let middle = into.whole(2)?;
        middle.iter_mut().zip(&change[network.middle()]).for_each(|(middle, change)| *middle = rate * change);
        Ok(())
    }
}

impl ClientModel for Client {
    type Scratch = Scratch;
    /// The shared model as one flat buffer.
    type Prepared = Vec<f32>;

    fn prepare(&self, shared: &Parameters) -> Vec<f32> {
        let categories = shared.tables().first().map_or(0, |table| table.shape().rows as usize);
        self.server.network(categories).map_or_else(Vec::new, |network| flattened(&network, shared))
    }

    fn scratch(&self, items: usize) -> Scratch {
        let network = self.server.network(items).and_then(|network| Some((network.arena(1).ok()?, network)));
        Scratch {
            network: network.map(|(arena, network)| (network, arena)),
            local: Vec::new(),
            gradients: Vec::new(),
            change: Vec::new(),
            pages: Vec::new(),
            input: Vec::new(),
            dlogits: Vec::new(),
            items: Vec::new(),
            marks: Vec::new(),
        }
    }

    fn train(
        &self,
        input: TrainInput<'_, Vec<f32>>,
        scratch: &mut Scratch,
        rng: &mut Rng,
        into: &mut Trained,
    ) -> TrainResult {
        let interests = &*input.visible();
        if interests.is_empty() {
            return Ok(TrainStats::default());
        }
        let values = scratch.network.as_ref().map_or(0, |(network, _)| network.layout().len());
        if input.prepared.len() != values {
            return Err(UpdateError::Values(2, input.prepared.len(), values));
        }
        let loss = self.learn(input.prepared, (interests, input.history.pages), scratch, rng);
        let loss = loss.map_err(|_| UpdateError::Values(2, input.prepared.len(), values))?;
        self.propose(interests, scratch, into)?;
        into.set_samples(1);
        Ok(TrainStats { samples: interests.len() as u64, loss: loss * interests.len() as f64 })
    }

    fn title_dim(&self) -> Option<usize> {
        let shape = &self.server.shape;
        (shape.text == Text::Titles).then_some(shape.dim)
    }

    fn is_calibrated(&self) -> bool {
        true
    }

    /// Calibrated probabilities that the person is interested.
    fn score(&self, shared: &Parameters, _: &[f32], history: History<'_>, into: &mut [f32]) {
        let network = self.server.network(into.len());
        let scored = network.and_then(|network| {
            let parameters = flattened(&network, shared);
            network.predict(&parameters, history.items, history.pages, &mut network.arena(1).ok()?, into).ok()
        });
        assert!(scored.is_some() || into.is_empty(), "a shared model of this network, and one score a category");
    }
}
