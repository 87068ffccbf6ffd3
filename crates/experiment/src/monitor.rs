//! Monitors a training: the training curve, the best epoch, early stopping and checkpoints.

use crate::checkpoint::{Found, Store};
use crate::journal::FolderError;
use crate::outcome::CurvePoint;
use crate::training::Evaluations;
use crate::values;
use serde::{Deserialize, Serialize};
use sottovoce_core::Names;
use sottovoce_models::{Flow, Milestone, ModelError, Progress, Summary, Tensor, TensorData, Watch};
use std::io::{self, Read, Write};

/// The best epoch so far.
#[derive(Serialize, Deserialize)]
pub(crate) struct BestEpoch<T = Tensor> {
    pub(crate) epoch: usize,
    value: Option<f64>,
    /// Evaluations since.
    since: usize,
    pub(crate) tensors: Option<Vec<T>>,
}

/// The state of a training as seen from outside the model.
pub(crate) struct Monitor<'a> {
    pub(crate) evaluations: Option<Evaluations<'a>>,
    pub(crate) curve: Vec<CurvePoint>,
    pub(crate) best: Option<BestEpoch>,
    pub(crate) on_epoch: &'a mut dyn FnMut(usize, usize) -> Flow,
    pub(crate) store: Option<&'a mut Store>,
    pub(crate) users: Option<&'a Names>,
    /// Bytes, rounds and virtual seconds up to the epoch that ends now.
    pub(crate) cost: CurvePoint,
}

impl Watch for Monitor<'_> {
    fn after_epoch(&mut self, progress: &Progress<'_>) -> Flow {
        let due = |evaluations: &Evaluations<'_>| {
            progress.epoch.is_multiple_of(evaluations.curve.every) || progress.epoch == progress.epochs
        };
        let evaluations = self.evaluations.filter(due);
        let value = evaluations.and_then(|evaluations| evaluations.value(progress.model));
        let cost = std::mem::take(&mut self.cost);
        self.curve.push(CurvePoint { epoch: progress.epoch, loss: progress.loss, value, ..cost });
        let early = evaluations.map_or(Flow::Continue, |given| self.compare(&given, value, progress));
        match (self.on_epoch)(progress.epoch, progress.epochs) {
            Flow::Stop => Flow::Stop,
            Flow::Continue => early,
        }
    }

    fn after_rounds(&mut self, so_far: &Summary) {
        let (traffic, turnout) = (&so_far.traffic, &so_far.turnout);
        let (bytes, rounds) = (Some(traffic.down + traffic.up), Some(turnout.rounds));
        self.cost = CurvePoint { bytes, rounds, virtual_time: Some(turnout.seconds), ..CurvePoint::default() };
    }

    fn users(&self) -> Option<&Names> {
        self.users
    }

    fn due(&mut self, milestone: &Milestone) -> bool {
        self.store.as_ref().is_some_and(|store| store.every.due(milestone))
    }

    fn keep(
        &mut self,
        milestone: &Milestone,
        write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), ModelError> {
        let Some(store) = &self.store else { return Ok(()) };
        store.write(milestone, &self.state(), write).map_err(|error| checkpoint_error(&error))
    }

    fn resume(&mut self) -> Result<Option<Box<dyn Read>>, ModelError> {
        let Some(store) = &mut self.store else { return Ok(None) };
        let path = store.path().to_owned();
        let Some(Found { watch, model, .. }) = store.found.take() else { return Ok(None) };
        self.restore(&watch).map_err(|reason| checkpoint_error(&FolderError::io(&path, reason)))?;
        Ok(Some(model))
    }
}

fn checkpoint_error(error: &FolderError) -> ModelError {
    ModelError::Checkpoint(error.to_string())
}

impl Monitor<'_> {
    fn compare(&mut self, checks: &Evaluations<'_>, value: Option<f64>, progress: &Progress<'_>) -> Flow {
        let objective =
            |value: Option<f64>| value.map_or(f64::NEG_INFINITY, |value| checks.curve.metric.objective(value));
        match &mut self.best {
            Some(best) if objective(value) <= objective(best.value) => best.since += 1,
            _ => {
                let tensors = checks.keep_best.then(|| progress.model.tensors());
                self.best = Some(BestEpoch { epoch: progress.epoch, value, since: 0, tensors });
            }
        }
        let since = self.best.as_ref().map_or(0, |best| best.since);
        if checks.curve.patience.is_some_and(|patience| since >= patience) { Flow::Stop } else { Flow::Continue }
    }

    /// The state for a checkpoint: a JSON document after its length, then the values of the best model.
    fn state(&self) -> Vec<u8> {
        let best = self.best.as_ref().map(|best| BestEpoch {
            epoch: best.epoch,
            value: best.value,
            since: best.since,
            tensors: best.tensors.as_ref().map(|tensors| tensors.iter().map(TensorHeader::of).collect()),
        });
        // Numbers, lists and words: writing them to memory does not fail.
        let seen = serde_json::to_vec(&StoredMonitor { curve: self.curve.clone(), best }).unwrap_or_default();
        let mut bytes = Vec::new();
        values::section(&mut bytes, &seen);
        let tensors = self.best.iter().filter_map(|best| best.tensors.as_ref()).flatten();
        for tensor in tensors {
            bytes.extend(match &tensor.data {
                TensorData::F32(values) => values::bytes(values, f32::to_le_bytes),
                TensorData::U32(values) => values::bytes(values, u32::to_le_bytes),
            });
        }
        bytes
    }

    fn restore(&mut self, mut rest: &[u8]) -> io::Result<()> {
        let StoredMonitor { curve, best } = serde_json::from_slice(values::take(&mut rest)?)?;
        self.curve = curve;
        self.best = match best {
            None => None,
            Some(BestEpoch { epoch, value, since, tensors }) => {
                let tensors = tensors.map(|all| all.into_iter().map(|header| header.take(&mut rest)).collect());
                Some(BestEpoch { epoch, value, since, tensors: tensors.transpose()? })
            }
        };
        Ok(())
    }
}

#[derive(Serialize, Deserialize)]
struct StoredMonitor {
    curve: Vec<CurvePoint>,
    best: Option<BestEpoch<TensorHeader>>,
}

/// A tensor without its values.
#[derive(Serialize, Deserialize)]
struct TensorHeader {
    name: String,
    shape: Vec<usize>,
    values: usize,
    floats: bool,
}

impl TensorHeader {
    fn of(tensor: &Tensor) -> Self {
        let (values, floats) = match &tensor.data {
            TensorData::F32(values) => (values.len(), true),
            TensorData::U32(values) => (values.len(), false),
        };
        Self { name: tensor.name.clone(), shape: tensor.shape.clone(), values, floats }
    }

    fn take(self, rest: &mut &[u8]) -> io::Result<Tensor> {
        let bytes = self.values.checked_mul(4).and_then(|bytes| rest.split_at_checked(bytes));
        let (bytes, after) = bytes.ok_or(io::ErrorKind::UnexpectedEof)?;
        *rest = after;
        let data = match self.floats {
            true => TensorData::F32(values::numbers(bytes, f32::from_le_bytes)),
            false => TensorData::U32(values::numbers(bytes, u32::from_le_bytes)),
        };
        Ok(Tensor { name: self.name, shape: self.shape, data })
    }
}
