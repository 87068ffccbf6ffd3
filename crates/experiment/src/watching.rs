//! Watching a model learn: its curve, its best epoch, when to stop, and what is kept to go on from.

use crate::checkpoint::{CheckpointError, Found, Store};
use crate::outcome::CurvePoint;
use crate::trial::Checks;
use serde::{Deserialize, Serialize};
use sottovoce_core::Names;
use sottovoce_models::{Flow, Milestone, ModelError, Progress, Summary, Tensor, TensorData, Watch};
use std::io::{self, Read, Write};

/// The best epoch so far.
pub(crate) struct Best {
    pub(crate) epoch: usize,
    value: Option<f64>,
    /// Judgements since.
    since: usize,
    pub(crate) tensors: Option<Vec<Tensor>>,
}

/// What is seen of a training.
pub(crate) struct Watcher<'a> {
    pub(crate) checks: Option<Checks<'a>>,
    pub(crate) curve: Vec<CurvePoint>,
    pub(crate) best: Option<Best>,
    pub(crate) on_epoch: &'a mut dyn FnMut(usize, usize) -> Flow,
    pub(crate) store: Option<&'a mut Store>,
    pub(crate) users: Option<&'a Names>,
    /// Bytes, rounds and virtual seconds up to the epoch that ends now.
    pub(crate) cost: Option<(u64, u64, f64)>,
}

impl Watch for Watcher<'_> {
    fn after_epoch(&mut self, progress: &Progress<'_>) -> Flow {
        let due = |checks: &Checks<'_>| {
            progress.epoch.is_multiple_of(checks.every) || progress.epoch == progress.epochs
        };
        let checks = self.checks.filter(due);
        let value = checks.and_then(|checks| checks.value(progress.model));
        let cost = self.cost.take();
        self.curve.push(CurvePoint {
            epoch: progress.epoch,
            loss: progress.loss,
            value,
            bytes: cost.map(|cost| cost.0),
            rounds: cost.map(|cost| cost.1),
            virtual_time: cost.map(|cost| cost.2),
        });
        let verdict = checks.map_or(Flow::Continue, |checks| self.compare(&checks, value, progress));
        match (self.on_epoch)(progress.epoch, progress.epochs) {
            Flow::Stop => Flow::Stop,
            Flow::Continue => verdict,
        }
    }

    fn after_rounds(&mut self, so_far: &Summary) {
        let (traffic, turnout) = (&so_far.traffic, &so_far.turnout);
        self.cost = Some((traffic.down + traffic.up, turnout.rounds, turnout.seconds));
    }

    fn users(&self) -> Option<&Names> {
        self.users
    }

    fn due(&mut self, milestone: &Milestone) -> bool {
        self.store.as_ref().is_some_and(|store| store.due(milestone))
    }

    fn keep(
        &mut self,
        milestone: &Milestone,
        write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), ModelError> {
        let Some(store) = &self.store else { return Ok(()) };
        store.write(milestone, &self.state(), write).map_err(|error| unkept(&error))
    }

    fn resume(&mut self) -> Result<Option<Box<dyn Read>>, ModelError> {
        let Some(store) = &mut self.store else { return Ok(None) };
        let path = store.path().display().to_string();
        let Some(Found { watch, model, .. }) = store.take() else { return Ok(None) };
        self.take_back(&watch).map_err(|error| unkept(&CheckpointError::Io { path, reason: error }))?;
        Ok(Some(model))
    }
}

fn unkept(error: &CheckpointError) -> ModelError {
    ModelError::Checkpoint(error.to_string())
}

impl Watcher<'_> {
    fn compare(&mut self, checks: &Checks<'_>, value: Option<f64>, progress: &Progress<'_>) -> Flow {
        let worth = |value: Option<f64>| value.map_or(f64::NEG_INFINITY, |value| checks.metric.worth(value));
        match &mut self.best {
            Some(best) if worth(value) <= worth(best.value) => best.since += 1,
            _ => {
                let tensors = checks.keep_best.then(|| progress.model.tensors());
                self.best = Some(Best { epoch: progress.epoch, value, since: 0, tensors });
            }
        }
        let since = self.best.as_ref().map_or(0, |best| best.since);
        if checks.patience.is_some_and(|patience| since >= patience) { Flow::Stop } else { Flow::Continue }
    }

    /// What has been seen, for a checkpoint: a JSON document after its length, then the values of the best model.
    fn state(&self) -> Vec<u8> {
        let best = self.best.as_ref().map(|best| BestSeen {
            epoch: best.epoch,
            value: best.value,
            since: best.since,
            tensors: best.tensors.as_ref().map(|tensors| tensors.iter().map(Kind::of).collect()),
        });
        // Numbers, lists and words: writing them to memory does not fail.
        let seen = serde_json::to_vec(&Seen { curve: self.curve.clone(), best }).unwrap_or_default();
        let mut bytes = (seen.len() as u64).to_le_bytes().to_vec();
        bytes.extend(seen);
        let tensors = self.best.iter().filter_map(|best| best.tensors.as_ref()).flatten();
        for tensor in tensors {
            match &tensor.data {
                TensorData::F32(values) => bytes.extend(values.iter().flat_map(|v| v.to_le_bytes())),
                TensorData::U32(values) => bytes.extend(values.iter().flat_map(|v| v.to_le_bytes())),
            }
        }
        bytes
    }

    fn take_back(&mut self, bytes: &[u8]) -> io::Result<()> {
        let short = || io::Error::from(io::ErrorKind::UnexpectedEof);
        let (length, rest) = bytes.split_first_chunk::<8>().ok_or_else(short)?;
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| short())?;
        let (seen, mut rest) = rest.split_at_checked(length).ok_or_else(short)?;
        let Seen { curve, best } = serde_json::from_slice(seen)?;
        self.curve = curve;
        self.best = match best {
            None => None,
            Some(BestSeen { epoch, value, since, tensors }) => {
                let tensors =
                    tensors.map(|kinds| kinds.into_iter().map(|kind| kind.take(&mut rest)).collect());
                Some(Best { epoch, value, since, tensors: tensors.transpose()? })
            }
        };
        Ok(())
    }
}

#[derive(Serialize, Deserialize)]
struct Seen {
    curve: Vec<CurvePoint>,
    best: Option<BestSeen>,
}

#[derive(Serialize, Deserialize)]
struct BestSeen {
    epoch: usize,
    value: Option<f64>,
    since: usize,
    tensors: Option<Vec<Kind>>,
}

/// A tensor without its values.
#[derive(Serialize, Deserialize)]
struct Kind {
    name: String,
    shape: Vec<usize>,
    values: usize,
    floats: bool,
}

impl Kind {
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
        let words = bytes.as_chunks::<4>().0.iter();
        let data = if self.floats {
            TensorData::F32(words.map(|word| f32::from_le_bytes(*word)).collect())
        } else {
            TensorData::U32(words.map(|word| u32::from_le_bytes(*word)).collect())
        };
        Ok(Tensor { name: self.name, shape: self.shape, data })
    }
}
