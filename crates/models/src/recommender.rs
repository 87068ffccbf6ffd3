//! What every recommender can do, whichever way it learns.

use crate::{Reason, ReasonKind};
use serde::Serialize;
use sottovoce_core::{Catalog, Histories, History, Names};
use std::io::{self, Read, Write};
use thiserror::Error;

/// Why a model could not be built, trained or restored.
#[derive(Debug, Error)]
pub enum ModelError {
    /// No model of this name.
    #[error("there is no model `{name}`{}; models are: {known}", did_you_mean(.suggestion))]
    UnknownModel {
        /// What was asked for.
        name: String,
        /// The nearest name, if one is near.
        suggestion: Option<String>,
        /// All names.
        known: String,
    },
    /// No setting of this name.
    #[error("{model} has no setting `{key}`{}; its settings are: {known}", did_you_mean(.suggestion))]
    UnknownSetting {
        /// The model.
        model: String,
        /// What was asked for.
        key: String,
        /// The nearest name, if one is near.
        suggestion: Option<String>,
        /// All settings of the model.
        known: String,
    },
    /// A value that the setting does not take.
    #[error("{model}: {key} = {value}: expected {expected}{}", did_you_mean(.suggestion))]
    BadValue {
        /// The model.
        model: String,
        /// The setting.
        key: String,
        /// The value as written.
        value: String,
        /// What would be taken.
        expected: String,
        /// The nearest choice, if one is near.
        suggestion: Option<String>,
    },
    /// The training data cannot be learnt from.
    #[error("{0}")]
    Data(String),
    /// Parameters became infinite or not a number.
    #[error("training diverged in epoch {epoch}: {advice}")]
    Diverged {
        /// The epoch, from 1.
        epoch: usize,
        /// What to change.
        advice: String,
    },
    /// A file that a setting names.
    #[error("{0}")]
    File(String),
    /// A training that cannot be kept or taken up again.
    #[error("{0}")]
    Checkpoint(String),
    /// A stored model that does not fit.
    #[error("the stored model does not fit: {0}")]
    Restore(String),
}

fn did_you_mean(suggestion: &Option<String>) -> String {
    suggestion.as_ref().map_or_else(String::new, |name| format!(" (did you mean `{name}`?)"))
}

/// A recommender that sees everyone's histories: learn, then score.
///
/// The same seed gives the same bytes on any number of threads.
pub trait Recommender: Send + Sync {
    /// Learns from everyone's histories.
    ///
    /// # Errors
    /// If the data cannot be learnt from, or training diverges.
    fn fit(&mut self, train: &Histories, fit: &mut Fit<'_>) -> Result<Summary, ModelError>;

    /// Writes a score for each item of the catalog; higher is better. Items the user has are scored like others.
    ///
    /// # Panics
    /// If the model was not fitted, `user` is unknown, or `into` is not as long as the catalog.
    fn score(&self, user: usize, into: &mut [f32]);

    /// Writes scores for somebody who was not in training, going by their history alone; false, with nothing written,
    /// for models that know people by what they learnt of each.
    ///
    /// # Panics
    /// If the model was not fitted, or `into` is not as long as the catalog.
    fn score_newcomer(&self, history: History<'_>, into: &mut [f32]) -> bool {
        let _ = (history, into);
        false
    }

    /// Writes scores for a user of the training whose history has gone on since. Models that go by the order of items
    /// take the history that is given; for others it makes no difference.
    ///
    /// # Panics
    /// As [`score`](Self::score).
    fn score_after(&self, user: usize, history: History<'_>, into: &mut [f32]) {
        let _ = history;
        self.score(user, into);
    }

    /// What training took of a device, for models trained in a federation by this program.
    fn footprint(&self) -> Option<DeviceFootprint> {
        None
    }

    /// Whether scores are calibrated probabilities, for which thresholds make sense.
    fn is_calibrated(&self) -> bool {
        false
    }

    /// What its [`reasons`](Self::reasons) are.
    fn reason_kind(&self) -> ReasonKind {
        ReasonKind::None
    }

    /// What speaks for each of some items, for models that can tell. In no particular order.
    ///
    /// # Panics
    /// If the model was not fitted, or `user` or an item is unknown.
    fn reasons(&self, user: usize, items: &[u32]) -> Vec<Vec<Reason>> {
        let _ = user;
        vec![Vec::new(); items.len()]
    }

    /// Takes up what is known of the items, before [`restore`](Self::restore); training is told by its [`Fit`]. Models
    /// that go by nothing but histories do not care.
    ///
    /// # Errors
    /// If the model goes by something that the catalog does not have.
    fn know(&mut self, catalog: &Catalog) -> Result<(), ModelError> {
        let _ = catalog;
        Ok(())
    }

    /// What was learnt, to be stored.
    fn tensors(&self) -> Vec<Tensor>;

    /// Takes back what [`tensors`](Self::tensors) gave, with the histories the model was fitted on.
    ///
    /// # Errors
    /// If the tensors do not fit this model, its settings or the histories.
    fn restore(&mut self, tensors: &[Tensor], train: &Histories) -> Result<(), ModelError>;
}

/// Circumstances of a training run.
pub struct Fit<'a> {
    /// Determines all randomness.
    pub seed: u64,
    /// Is told of each epoch and may end the training.
    pub watch: &'a mut dyn Watch,
    /// What is known of the items, for models and criteria that go by it.
    pub catalog: Option<&'a Catalog>,
    /// What training goes on from: tensors of an earlier one. Federated models and `lookalike-central` do; others begin
    /// anew.
    pub start: Option<&'a [Tensor]>,
    /// Where that was of another catalog: for each item its number in there, `None` for those that are new.
    pub start_items: Option<&'a [Option<u32>]>,
}

impl<'a> Fit<'a> {
    /// With nothing known of the items.
    pub fn new(seed: u64, watch: &'a mut dyn Watch) -> Self {
        Self { seed, watch, catalog: None, start: None, start_items: None }
    }

    /// The same, going on from what an earlier training with the same settings and catalog gave.
    #[must_use]
    pub fn going_on_from(mut self, start: Option<&'a [Tensor]>) -> Self {
        self.start = start;
        self
    }

    /// The same where that training had another catalog: for each item its number in there, `None` for those that are
    /// new. Federated models do; their new items begin as in any training.
    #[must_use]
    pub fn with_items_of(mut self, items: Option<&'a [Option<u32>]>) -> Self {
        self.start_items = items;
        self
    }

    /// The same with what is known of the items; of the catalog's size.
    #[must_use]
    pub fn knowing(mut self, catalog: Option<&'a Catalog>) -> Self {
        self.catalog = catalog;
        self
    }
}

/// What a training run did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Epochs or iterations made; 0 for models that do not iterate.
    pub epochs: usize,
    /// Training triples (or interactions) gone through, over all epochs.
    pub triples: u64,
    /// What went over the wire; nothing for models that are trained in one place.
    pub traffic: Traffic,
    /// Who took part; nobody for models that are trained in one place.
    pub turnout: Turnout,
    /// How many updates had each item's row, by item index; empty for models that are trained in one place.
    pub updates_by_item: Vec<u64>,
    /// What was spent of differential privacy, where there is any.
    pub privacy: Option<Privacy>,
    /// Clusters of devices, where the server finds them.
    pub clusters: Option<ClusterFigures>,
}

/// What a federated model takes of a device, as training measured it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DeviceFootprint {
    /// Vectors of items that a device holds: all of the shared model's, or those of its history that it computes at a
    /// time.
    pub item_vectors: usize,
    /// Values of the private model.
    pub private_values: usize,
    /// Values of the shared model.
    pub shared_values: usize,
    /// Bytes of the private model as a device stores it between rounds; of two, where the owner withholds items.
    pub private_bytes: usize,
    /// Bytes of the whole shared model as it is sent.
    pub shared_bytes: usize,
    /// Bytes of the model's buffers in training, for models that can tell.
    pub working_bytes: Option<usize>,
    /// CPU seconds of a device's training in a round.
    pub round_seconds: Option<f64>,
    /// CPU seconds of an epoch over as many interactions as there are vectors of items, for models that compute these.
    pub session_seconds: Option<f64>,
}

/// Clusters of devices that a server found in a federated training.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClusterFigures {
    /// Clusterings: the round that took each up, and its number of clusters.
    pub clusterings: Vec<(u64, usize)>,
    /// Devices in each cluster, by row of the shared model; devices that count no longer are in none.
    pub sizes: Vec<usize>,
    /// Uploads that were dropped because their device stayed away too long.
    pub stale: u64,
    /// Rounds applied while a clustering that was due was not ready.
    pub late: u64,
}

/// What a training spent of differential privacy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Privacy {
    /// Epsilon against who reads the model, by tight accounts: cohorts are secret, and amplify.
    pub epsilon: f64,
    /// Epsilon against the server: without amplification, with the noise that really came, less that of devices that
    /// may collude. `None`: no bound.
    pub epsilon_server: Option<f64>,
    /// Epsilon by Rényi differential privacy.
    pub epsilon_rdp: f64,
    /// Delta.
    pub delta: f64,
    /// Rounds that were accounted for: all, or with local noise those of the device that took part most often.
    pub rounds: u64,
    /// Where noise was added: `central`, `local`, `distributed` or `sgd`.
    pub placement: &'static str,
    /// How it was distributed: `gaussian` or `laplace`.
    pub shape: &'static str,
    /// What it hides: `a person`, which is a whole history, or `an interaction`.
    pub hides: &'static str,
    /// Its standard deviation, or the scale of Laplace noise, in clips.
    #[serde(rename = "noise_multiplier")]
    pub multiplier: f64,
    /// The clip in the end.
    pub clip: Option<f32>,
    /// The epsilon past which training does not go, if there is one.
    #[serde(skip)]
    pub budget: Option<f64>,
    /// Why training ended before its last epoch, if the budget ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

/// Who took part in a federated training, over all rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Turnout {
    /// Rounds.
    pub rounds: u64,
    /// Devices asked.
    pub asked: u64,
    /// Devices that would have been asked and could not be reached.
    pub unavailable: u64,
    /// Devices that trained and whose update was lost.
    pub dropped: u64,
    /// Devices whose update came too late and was thrown away.
    pub late: u64,
    /// Updates that came in time.
    pub received: u64,
    /// Virtual seconds that training took.
    #[serde(rename = "virtual_seconds")]
    pub seconds: f64,
}

/// What a federated training sent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Traffic {
    /// Bytes from the server to devices, as encoded.
    pub down: u64,
    /// Bytes from devices to the server, as encoded.
    pub up: u64,
    /// As the papers count it: vectors, by formula (TCC).
    pub vectors: f64,
}

/// Sees a model as it learns.
pub trait Watch {
    /// Called after each epoch.
    fn after_epoch(&mut self, progress: &Progress<'_>) -> Flow;

    /// Called before [`after_epoch`](Self::after_epoch) by models that are trained in rounds: what they have done so
    /// far.
    fn after_rounds(&mut self, so_far: &Summary) {
        let _ = so_far;
    }

    /// Names of the users, for settings that name files which speak of them.
    fn users(&self) -> Option<&Names> {
        None
    }

    /// Whether the state of training should be kept now; asked after each round and each epoch by models that can.
    fn due(&mut self, milestone: &Milestone) -> bool {
        let _ = milestone;
        false
    }

    /// Keeps the state of training, which `write` writes.
    ///
    /// # Errors
    /// If it cannot be kept; what was kept before stays.
    fn keep(
        &mut self,
        milestone: &Milestone,
        write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), ModelError> {
        let _ = (milestone, write);
        Ok(())
    }

    /// What was kept last, to go on from.
    ///
    /// # Errors
    /// If it cannot be read.
    fn resume(&mut self) -> Result<Option<Box<dyn Read>>, ModelError> {
        Ok(None)
    }
}

/// How far a training has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Milestone {
    /// Epochs done.
    pub epochs: usize,
    /// Rounds done.
    pub rounds: u64,
    /// Whether an epoch has just ended.
    pub epoch_over: bool,
    /// Whether training is at its end.
    pub last: bool,
}

/// The state of training after an epoch.
pub struct Progress<'a> {
    /// Epochs done, from 1.
    pub epoch: usize,
    /// Epochs planned.
    pub epochs: usize,
    /// Mean training loss of the epoch, if the model has one at hand.
    pub loss: Option<f64>,
    /// The model as it is now.
    pub model: &'a dyn Recommender,
}

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Train on.
    Continue,
    /// End here, keeping what was learnt.
    Stop,
}

/// Watches nothing.
pub struct Quiet;

impl Watch for Quiet {
    fn after_epoch(&mut self, _: &Progress<'_>) -> Flow {
        Flow::Continue
    }
}

/// A named array of a stored model.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Unique in its model.
    pub name: String,
    /// Sizes, outermost first.
    pub shape: Vec<usize>,
    /// Row-major values.
    pub data: TensorData,
}

/// Values of a [`Tensor`].
#[derive(Clone, Debug, PartialEq)]
pub enum TensorData {
    /// 32-bit floats.
    F32(Vec<f32>),
    /// 32-bit indices or counts.
    U32(Vec<u32>),
}
