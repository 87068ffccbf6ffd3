//! Data sets that are loaded once and shared by all trials.

use crate::file::DataSet;
use crate::outcome::TrialError;
use crate::plan::hash;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Loaded data sets.
pub(crate) struct Cache<T>(Mutex<HashMap<String, Arc<T>>>);

impl<T> Default for Cache<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Cache<T> {
    /// The data set; loaded by the first trial that asks while others wait.
    pub(crate) fn get<E: ToString>(
        &self,
        data: &DataSet,
        load: impl FnOnce() -> Result<T, E>,
    ) -> Result<Arc<T>, TrialError> {
        let mut sets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = hash(data);
        if let Some(loaded) = sets.get(&key) {
            return Ok(loaded.clone());
        }
        let loaded = Arc::new(load().map_err(|error| TrialError::Broken(error.to_string()))?);
        sets.insert(key, loaded.clone());
        Ok(loaded)
    }
}
