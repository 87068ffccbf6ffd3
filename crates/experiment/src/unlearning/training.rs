//! Training that resumes from the state of another one.

use super::{Plan, UnlearningError};
use sottovoce_core::Histories;
use sottovoce_data::DataSplit;
use sottovoce_federation::{Simulation, registry};
use sottovoce_models::registry::{Model, find_in};
use sottovoce_models::settings::{SettingType, Settings, Value};
use sottovoce_models::{Fit, Flow, Milestone, ModelError, Progress, Recommender as _, Watch};
use std::io::{self, Cursor, Read, Write};
use std::sync::Arc;

/// The setting that says how long to train.
const EPOCHS: &str = "epochs";

/// A model, and the state to train it further.
pub(super) struct TrainedState {
    pub(super) model: Simulation,
    pub(super) epochs: usize,
    pub(super) rounds: u64,
    state: Arc<[u8]>,
}

/// How all of them are trained.
pub(super) struct Training<'a> {
    model: &'static Model,
    plan: &'a Plan,
    parts: &'a DataSplit,
}

impl<'a> Training<'a> {
    pub(super) fn new(plan: &'a Plan, parts: &'a DataSplit) -> Result<Self, ModelError> {
        Ok(Self { model: find_in(&registry::federated(), &plan.model)?, plan, parts })
    }

    fn settings(&self, epochs: Option<usize>) -> Result<Settings, ModelError> {
        let given = self.plan.settings.iter().map(|(key, value)| (key.as_str(), value.clone()));
        let given = given.filter(|(key, _)| epochs.is_none() || *key != EPOCHS);
        self.model.settings(given.chain(epochs.map(|epochs| (EPOCHS, Value::Integer(epochs as i64)))))
    }

    /// Epochs that the settings ask for.
    pub(super) fn epochs(&self) -> Result<usize, ModelError> {
        let settings = self.settings(None)?;
        Ok(settings.get(EPOCHS).and_then(usize::from_value).unwrap_or_default())
    }

    /// Trains until so many epochs are done, from the start or from the state of another training.
    pub(super) fn run(
        &self,
        histories: &Histories,
        epochs: usize,
        from: Option<&TrainedState>,
        seed: u64,
    ) -> Result<TrainedState, UnlearningError> {
        let settings = self.settings(Some(epochs))?;
        let unknown = || ModelError::Data(format!("{} is not trained in a federation", self.model.name));
        let mut model = registry::simulation(self.model.name, &settings).ok_or_else(unknown)?;
        let mut watch = StateInMemory { from: from.map(|from| Arc::clone(&from.state)), state: Vec::new() };
        let mut fit = Fit::new(seed, &mut watch).knowing(Some(&self.parts.catalog));
        let summary = model.fit(histories, &mut fit)?;
        let state = watch.state.into();
        Ok(TrainedState { model, epochs: summary.epochs, rounds: summary.turnout.rounds, state })
    }
}

/// Keeps the state at the end of a training in memory.
struct StateInMemory {
    from: Option<Arc<[u8]>>,
    state: Vec<u8>,
}

impl Watch for StateInMemory {
    fn after_epoch(&mut self, _: &Progress<'_>) -> Flow {
        Flow::Continue
    }

    fn due(&mut self, milestone: &Milestone) -> bool {
        milestone.epoch_over && milestone.last
    }

    fn keep(
        &mut self,
        _: &Milestone,
        write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), ModelError> {
        self.state.clear();
        write(&mut self.state).map_err(|error| ModelError::Checkpoint(error.to_string()))
    }

    fn resume(&mut self) -> Result<Option<Box<dyn Read>>, ModelError> {
        Ok(self.from.take().map(|from| Box::new(Cursor::new(from)) as Box<dyn Read>))
    }
}
