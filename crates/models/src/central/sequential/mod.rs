//! Sequential recommenders: what comes next, given a person's items in time order.
//!
//! Each file holds one model, or a family that shares its code, and opens with its paper and its equations. Shared:
//! this file (the recommender around a network), `training` (batches, micro-batches, Adam), `objective` (losses of the
//! next item), `attributes` (what is known of the items). The networks that devices use too are in
//! [`crate::sequential`].
//!
//! Histories keep their order and their repeated items. A user with fewer than two items teaches nothing about what
//! follows what, and is only scored. A user without items has a score of 0 for each item.

mod attributes;
mod autoint;
mod bert4rec;
mod caser;
mod fdsa;
mod hgn;
mod item_transitions;
mod next_item;
mod objective;
mod s3rec;
#[cfg(test)]
mod tests;
mod training;
mod windows;

use super::epochs::{EpochStats, run_epochs};
use crate::registry::{CentralModel, ModelInfo};
use crate::sequential::transformer::TransformerShape;
use crate::settings::{Config, Settings};
use crate::{Fit, ModelError, ReasonKind, Recommender, Summary, Tensor, config, stored};
use attributes::Attributes;
use sottovoce_core::{Catalog, Histories, History, Rng};
use sottovoce_neural::products::{Matrix, MatrixMut, add_product_by_transposed};
use sottovoce_neural::{Arithmetic, Init, Layout, Mask, NeuralError};
use std::sync::Arc;
use training::{MicroBatch, Phase, Training, Worker};

/// The sequential models, in the order in which they are shown.
pub(super) const GRU4REC: CentralModel = entry::<next_item::Gru4RecConfig>();
pub(super) const SASREC: CentralModel = entry::<next_item::SasRecConfig>();
pub(super) const GSASREC: CentralModel = next_item::GSASREC;
pub(super) const BERT4REC: CentralModel = entry::<bert4rec::Bert4RecConfig>();
pub(super) const CASER: CentralModel = entry::<caser::CaserConfig>();
pub(super) const HGN: CentralModel = entry::<hgn::HgnConfig>();
pub(super) const FDSA: CentralModel = entry::<fdsa::FdsaConfig>();
pub(super) const S3REC: CentralModel = entry::<s3rec::S3RecConfig>();
pub(super) const AUTOINT: CentralModel = entry::<autoint::AutoIntConfig>();
pub(super) const ITEM_TRANSITIONS: CentralModel = item_transitions::MODEL;

config! {
    /// Settings of training that all neural models share.
    struct SequenceTraining {
        /// Items of a sequence at most: the latest
        max_length: usize = 50, in 1..=1000 => [log];
        /// Passes over all users
        epochs: usize = 100, in 1..=10_000 => [log];
        /// Users per batch
        batch: usize = 256, in 1..=100_000 => [log];
        /// Learning rate of Adam
        learning_rate: f64 = 1e-3, in 1e-6..=1.0 => [log];
    }
}

config! {
    /// Settings of self-attention.
    struct SelfAttention {
        /// Length of items' vectors; a multiple of heads
        hidden: usize = 64, in 1..=1024 => [log];
        /// Blocks of self-attention
        layers: usize = 2, in 1..=4;
        /// Heads of attention
        heads: usize = 2, in 1..=16;
        /// Fraction of values that training drops
        dropout: f64 = 0.5, in 0.0..=0.95;
    }
}

impl SelfAttention {
    fn shape(&self, size: &Size, mask: Mask) -> TransformerShape {
        let Self { hidden, layers, heads, dropout } = *self;
        TransformerShape { width: hidden, heads, layers, inner: 4 * hidden, positions: size.max_length, mask, dropout }
    }
}

/// What a network is made for.
struct Size {
    users: usize,
    items: usize,
    /// Items of a sequence at most.
    max_length: usize,
    attributes: Option<Arc<Attributes>>,
}

/// The parameters that a network has: layers, and tables of which a batch touches few rows.
struct Layouts {
    network: Layout,
    tables: Vec<Table>,
}

/// A table of vectors.
struct Table {
    name: &'static str,
    rows: usize,
    width: usize,
    init: Init,
}

/// Values of all parameters.
struct Weights {
    network: Vec<f32>,
    tables: Vec<Vec<f32>>,
}

impl Layouts {
    fn new() -> Self {
        Self { network: Layout::new(Arithmetic::Machine), tables: Vec::new() }
    }

    fn init(&self, rng: &Rng) -> Result<Weights, NeuralError> {
        let mut network = self.network.zeros();
        self.network.initialise(&mut network, rng)?;
        let table = |table: &Table| {
            let mut values = vec![0.0; table.rows * table.width];
            table.init.fill(&mut values, &mut rng.stream(table.name, 0));
            values
        };
        Ok(Weights { network, tables: self.tables.iter().map(table).collect() })
    }

    fn tensors(&self, weights: &Weights) -> Vec<Tensor> {
        let tables = self.tables.iter().zip(&weights.tables);
        let tables =
            tables.map(|(table, values)| stored::floats(table.name, [table.rows, table.width], values.clone()));
        let network = super::layout_tensors::to_tensors(&self.network, &weights.network);
        tables.chain(network).collect()
    }

    fn read(&self, tensors: &[Tensor], weights: &mut Weights) -> Result<(), ModelError> {
        for (table, values) in self.tables.iter().zip(&mut weights.tables) {
            values.copy_from_slice(stored::take_floats(tensors, table.name, &[table.rows, table.width])?);
        }
        super::layout_tensors::read_tensors(&self.network, tensors, &mut weights.network)
    }
}

/// A network that is trained on sequences, and its loss.
trait SequenceModel: Send + Sync {
    /// Samples that a history gives, by which losses are averaged; 0 for one that teaches nothing.
    fn samples(&self, history: &[u32]) -> usize;

    /// Values that a step with so many users takes from the arena.
    fn space(&self, users: usize) -> usize;

    /// Adds the gradients of a micro-batch to the worker's; returns its part of the batch's mean loss.
    fn backpropagate(
        &self,
        weights: &Weights,
        batch: &MicroBatch<'_>,
        worker: &mut Worker,
        rng: &mut Rng,
    ) -> Result<f64, NeuralError>;

    /// Scores of all items after this history, which has an item; of a user of the training, if it is one.
    fn score(
        &self,
        weights: &Weights,
        user: Option<usize>,
        history: &[u32],
        into: &mut [f32],
    ) -> Result<(), NeuralError>;
}

/// A network that was made, or why it cannot be.
type Made = Result<Box<dyn SequenceModel>, NeuralError>;

/// Makes a network.
type Make = Box<dyn Fn(&Size, &mut Layouts) -> Made + Send + Sync>;

/// Settings of a model, and how they make one.
trait SequenceConfig: Config + Default + Send + Sync + 'static {
    /// The model, as the registry has it.
    const INFO: ModelInfo;

    /// Whether it goes by what is known of the items.
    const NEEDS_ATTRIBUTES: bool = false;

    /// How it is trained.
    fn training(&self) -> &SequenceTraining;

    /// Epochs of pre-training.
    fn pretraining(&self) -> usize {
        0
    }

    /// Makes the network.
    fn network(&self, size: &Size, layouts: &mut Layouts) -> Made;
}

/// The registry's entry of the model with these settings.
const fn entry<C: SequenceConfig>() -> CentralModel {
    let build = |settings: &Settings| Box::new(Sequential::new(C::INFO.name, C::read(settings))) as Box<_>;
    CentralModel { info: C::INFO, schema: || C::default().schema(), build }
}

/// The recommender around a network.
struct Sequential {
    name: &'static str,
    training: SequenceTraining,
    make: Make,
    needs_attributes: bool,
    /// Epochs of pre-training, before those that count.
    pretraining: usize,
    attributes: Option<Arc<Attributes>>,
    users: Histories,
    fitted: Option<Fitted>,
}

struct Fitted {
    model: Box<dyn SequenceModel>,
    layouts: Layouts,
    weights: Weights,
}

impl Sequential {
    fn new<C: SequenceConfig>(name: &'static str, config: C) -> Self {
        Self {
            name,
            training: config.training().clone(),
            needs_attributes: C::NEEDS_ATTRIBUTES,
            pretraining: config.pretraining(),
            make: Box::new(move |size, layouts| config.network(size, layouts)),
            attributes: None,
            users: Histories::default(),
            fitted: None,
        }
    }

    fn data(&self, error: &impl std::fmt::Display) -> ModelError {
        ModelError::Data(format!("{}: {error}", self.name))
    }

    /// A new network; none without users or without items.
    fn init(&mut self, train: &Histories, rng: &Rng) -> Result<(), ModelError> {
        (self.users, self.fitted) = (train.clone(), None);
        let size = Size {
            users: train.users(),
            items: train.catalog_size(),
            max_length: self.training.max_length,
            attributes: self.attributes.clone(),
        };
        if size.users > 0 && size.items > 0 {
            let mut layouts = Layouts::new();
            let model = (self.make)(&size, &mut layouts).map_err(|error| self.data(&error))?;
            let weights = layouts.init(rng).map_err(|error| self.data(&error))?;
            self.fitted = Some(Fitted { model, layouts, weights });
        }
        Ok(())
    }

    /// One pass over all users; the mean loss.
    fn run_epoch(
        &mut self,
        training: &mut Training,
        phase: Phase,
        order: &mut [u32],
        rng: &mut Rng,
    ) -> Result<Option<f64>, ModelError> {
        rng.shuffle(order);
        let (mut sum, mut samples) = (0.0, 0);
        for (number, users) in order.chunks(self.training.batch).enumerate() {
            let Some(fitted) = &mut self.fitted else { break };
            let rng = rng.stream("batch", number as u64);
            let step = training.step(fitted, &self.users, users, phase, &rng);
            let (loss, of_batch) = step.map_err(|error| self.data(&error))?;
            sum += loss * of_batch as f64;
            samples += of_batch;
        }
        Ok((samples > 0).then(|| sum / samples as f64))
    }

    fn score_history(&self, user: Option<usize>, history: &[u32], into: &mut [f32]) {
        assert_eq!(into.len(), self.users.catalog_size(), "one score per item");
        into.fill(0.0);
        let history = &history[history.len().saturating_sub(self.training.max_length)..];
        if history.is_empty() {
            return;
        }
        let scored = self.fitted.as_ref().map(|fitted| fitted.model.score(&fitted.weights, user, history, into));
        assert_eq!(scored, Some(Ok(())), "the model is fitted");
    }
}

impl Recommender for Sequential {
    fn fit(&mut self, train: &Histories, fit: &mut Fit<'_>) -> Result<Summary, ModelError> {
        if self.needs_attributes {
            self.attributes = Some(Attributes::of_catalog(self.name, fit.catalog)?);
        }
        let rng = Rng::new(fit.seed).stream(self.name, 0);
        self.init(train, &rng)?;
        let Some(fitted) = &self.fitted else { return Ok(Summary::default()) };
        let new_training = |fitted: &Fitted, config: &SequenceTraining| Training::new(fitted, config, train);
        let mut training = new_training(fitted, &self.training).map_err(|error| self.data(&error))?;
        let teaches = |&user: &u32| fitted.model.samples(train.of(user as usize)) > 0;
        let mut order: Vec<u32> = (0..train.users() as u32).filter(teaches).collect();
        for epoch in 1..=self.pretraining as u64 {
            self.run_epoch(&mut training, Phase::PreTraining, &mut order, &mut rng.stream("pre-training", epoch))?;
        }
        training.reset();
        let SequenceTraining { epochs, learning_rate, .. } = self.training;
        let advice = format!("the loss is no longer finite; take a learning_rate below {learning_rate}");
        run_epochs(self, epochs, fit, &advice, |model, epoch| {
            let mut rng = rng.stream("epoch", epoch);
            let loss = model.run_epoch(&mut training, Phase::Training, &mut order, &mut rng)?;
            Ok(EpochStats { triples: train.interactions(), loss, finite: true })
        })
    }

    fn score(&self, user: usize, into: &mut [f32]) {
        self.score_history(Some(user), self.users.of(user), into);
    }

    fn score_after(&self, user: usize, history: History<'_>, into: &mut [f32]) {
        self.score_history(Some(user), &history, into);
    }

    fn score_newcomer(&self, history: History<'_>, into: &mut [f32]) -> bool {
        self.score_history(None, &history, into);
        true
    }

    fn reason_kind(&self) -> ReasonKind {
        ReasonKind::Order
    }

    fn know(&mut self, catalog: &Catalog) -> Result<(), ModelError> {
        if self.needs_attributes {
            self.attributes = Some(Attributes::of_catalog(self.name, Some(catalog))?);
        }
        Ok(())
    }

    fn tensors(&self) -> Vec<Tensor> {
        self.fitted.iter().flat_map(|fitted| fitted.layouts.tensors(&fitted.weights)).collect()
    }

    fn restore(&mut self, tensors: &[Tensor], train: &Histories) -> Result<(), ModelError> {
        self.init(train, &Rng::new(0))?;
        match &mut self.fitted {
            Some(Fitted { layouts, weights, .. }) => layouts.read(tensors, weights),
            None => Ok(()),
        }
    }
}

/// The latest items of a history.
fn latest(history: &[u32], most: usize) -> &[u32] {
    &history[history.len().saturating_sub(most)..]
}

/// Adds h . v for each vector v of a table.
fn add_scores(h: &[f32], table: &[f32], into: &mut [f32]) -> Result<(), NeuralError> {
    let items = into.len();
    let table = Matrix::strided(table, items, h.len(), h.len())?;
    add_product_by_transposed(Arithmetic::Portable, Matrix::new(h, h.len())?, table, MatrixMut::new(into, items)?)
}
