//! Decoded models and working memory, which the devices of one process can share.

use sottovoce_client::LoadedModel;
use sottovoce_core::Facts;
use sottovoce_models::settings::TermsError;
use sottovoce_protocol::{ModelSpec, Parameters, SharedModel};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// BLAKE3 of a shared model's values: all tables' f32, little-endian, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(blake3::Hash);

impl Digest {
    /// Of these values.
    pub fn of(parameters: &Parameters) -> Self {
        let mut hasher = blake3::Hasher::new();
        for table in parameters.tables() {
            if cfg!(target_endian = "little") {
                hasher.update(bytemuck::cast_slice(table.values()));
            } else {
                table.values().iter().for_each(|value| {
                    hasher.update(&value.to_le_bytes());
                });
            }
        }
        Self(hasher.finalize())
    }

    /// From 64 hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        blake3::Hash::from_hex(text.trim()).ok().map(Self)
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.to_hex().fmt(f)
    }
}

/// What devices of one process can share: decoded models, and loaded with their working memory.
pub trait ModelCache: Send + Sync {
    /// A model that was kept.
    fn find(&self, digest: &Digest) -> Option<Arc<SharedModel>>;

    /// Keeps a model for others. What it was asked to find and is no longer needed it may forget.
    fn keep(&self, digest: &Digest, model: &Arc<SharedModel>);

    /// A model for these settings and what is known of the items, to be given back.
    ///
    /// # Errors
    /// If the settings are not those of a known model, or it goes by facts and there are none.
    fn lend(&self, spec: &ModelSpec, facts: Option<&Arc<Facts>>) -> Result<Box<LoadedModel>, TermsError>;

    /// Takes a model back.
    fn give_back(&self, model: Box<LoadedModel>);
}

/// For a device by itself: it holds its model anyway, and makes a model for each round.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCache;

impl ModelCache for NoCache {
    fn find(&self, _: &Digest) -> Option<Arc<SharedModel>> {
        None
    }

    fn keep(&self, _: &Digest, _: &Arc<SharedModel>) {}

    fn lend(&self, spec: &ModelSpec, facts: Option<&Arc<Facts>>) -> Result<Box<LoadedModel>, TermsError> {
        LoadedModel::load(spec, facts).map(Box::new)
    }

    fn give_back(&self, _: Box<LoadedModel>) {}
}

/// For many devices in one process: a few models, and as many loaded as devices learn at one time.
#[derive(Default)]
pub struct SharedCache {
    models: Mutex<VecDeque<(Digest, Arc<SharedModel>)>>,
    loaded: Mutex<Vec<Box<LoadedModel>>>,
}

/// Versions worth keeping: a round's, the one before, and one on the way.
const MAX_VERSIONS: usize = 4;

/// Learners that wait for work; as many as a large machine has threads.
const MAX_LOADED: usize = 256;

impl SharedCache {
    /// Empty.
    pub fn new() -> Self {
        Self::default()
    }
}

/// What is shared here is never left half done, whatever happened to the thread that held it.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ModelCache for SharedCache {
    fn find(&self, digest: &Digest) -> Option<Arc<SharedModel>> {
        let models = locked(&self.models);
        models.iter().find(|(kept, _)| kept == digest).map(|(_, model)| Arc::clone(model))
    }

    fn keep(&self, digest: &Digest, model: &Arc<SharedModel>) {
        let mut models = locked(&self.models);
        if models.iter().any(|(kept, _)| kept == digest) {
            return;
        }
        models.push_back((*digest, Arc::clone(model)));
        if models.len() > MAX_VERSIONS {
            models.pop_front();
        }
    }

    fn lend(&self, spec: &ModelSpec, facts: Option<&Arc<Facts>>) -> Result<Box<LoadedModel>, TermsError> {
        let mut loaded = locked(&self.loaded);
        // Devices of one process that share a catalog share its facts.
        let fits = |model: &LoadedModel| model.spec() == spec && model.uses(facts);
        match loaded.iter().rposition(|model| fits(model)) {
            Some(place) => Ok(loaded.swap_remove(place)),
            None => {
                drop(loaded);
                LoadedModel::load(spec, facts).map(Box::new)
            }
        }
    }

    fn give_back(&self, model: Box<LoadedModel>) {
        let mut loaded = locked(&self.loaded);
        if loaded.len() >= MAX_LOADED {
            // The settings of earlier rounds make room for those of this one.
            loaded.clear();
        }
        loaded.push(model);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sottovoce_protocol::{FederationId, Keyed, Layout, ModelVersion, Shape};

    #[test]
    fn a_few_versions_are_kept_and_found_by_their_values() {
        let layout = Layout::new(vec![Shape::new("items", 2, 1, Keyed::Items)]).unwrap();
        let together = SharedCache::new();
        let model = |version: u64| {
            let mut parameters = Parameters::zeros(&layout);
            parameters.tables_mut()[0].values_mut()[1] = version as f32;
            Arc::new(SharedModel { federation: FederationId(0), version: ModelVersion(version), parameters })
        };
        for version in 0..6 {
            let model = model(version);
            together.keep(&Digest::of(&model.parameters), &model);
        }
        let found = |version| together.find(&Digest::of(&model(version).parameters));
        assert!(found(1).is_none());
        assert_eq!(found(5).unwrap().version, ModelVersion(5));
        let expected = blake3::hash(&[0, 0, 0, 0, 0, 0, 0, 0x40]).to_hex().to_string();
        assert_eq!(Digest::of(&model(2).parameters).to_string(), expected);
        assert_eq!(Digest::from_hex(&expected), Some(Digest::of(&model(2).parameters)));
        assert_eq!(Digest::from_hex("f00"), None);
    }
}
