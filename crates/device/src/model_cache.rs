//! Decoded models and their working memory, which the devices of one process can share.

use sottovoce_client::{Digest, LoadedModel};
use sottovoce_core::Facts;
use sottovoce_models::settings::TermsError;
use sottovoce_protocol::{ModelSpec, SharedModel};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What devices of one process can share: shared models, and loaded models with their working memory.
pub trait ModelCache: Send + Sync {
    /// The shared model of this digest, if it is in the cache.
    fn get(&self, digest: &Digest) -> Option<Arc<SharedModel>>;

    /// Adds a shared model; older ones may be evicted.
    fn insert(&self, digest: &Digest, model: &Arc<SharedModel>);

    /// A model with these settings and what it uses of the catalog, to be released again.
    ///
    /// # Errors
    /// If the model is unknown, its settings are invalid, or it needs facts and there are none.
    fn load(&self, spec: &ModelSpec, facts: Option<&Arc<Facts>>) -> Result<LoadedModel, TermsError>;

    /// Returns a loaded model to the cache.
    fn release(&self, model: LoadedModel);
}

/// For a single device: it holds its shared model anyway, and loads the model for each round.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCache;

impl ModelCache for NoCache {
    fn get(&self, _: &Digest) -> Option<Arc<SharedModel>> {
        None
    }

    fn insert(&self, _: &Digest, _: &Arc<SharedModel>) {}

    fn load(&self, spec: &ModelSpec, facts: Option<&Arc<Facts>>) -> Result<LoadedModel, TermsError> {
        LoadedModel::load(spec, facts)
    }

    fn release(&self, _: LoadedModel) {}
}

/// For many devices in one process: a few shared models, and as many loaded models as devices train at one time.
#[derive(Default)]
pub struct SharedCache {
    models: Mutex<VecDeque<(Digest, Arc<SharedModel>)>>,
    loaded: Mutex<Vec<LoadedModel>>,
}

/// Shared models in the cache: that of the round, those before it, and the next.
const MAX_VERSIONS: usize = 4;

/// Idle loaded models; as many as a large machine has threads.
const MAX_LOADED: usize = 256;

impl SharedCache {
    /// An empty cache.
    pub fn new() -> Self {
        Self::default()
    }
}

/// The cache is consistent even after a panic of the thread that held the lock.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ModelCache for SharedCache {
    fn get(&self, digest: &Digest) -> Option<Arc<SharedModel>> {
        let models = lock(&self.models);
        models.iter().find(|(known, _)| known == digest).map(|(_, model)| Arc::clone(model))
    }

    fn insert(&self, digest: &Digest, model: &Arc<SharedModel>) {
        let mut models = lock(&self.models);
        if models.iter().any(|(known, _)| known == digest) {
            return;
        }
        models.push_back((*digest, Arc::clone(model)));
        if models.len() > MAX_VERSIONS {
            models.pop_front();
        }
    }

    fn load(&self, spec: &ModelSpec, facts: Option<&Arc<Facts>>) -> Result<LoadedModel, TermsError> {
        let mut loaded = lock(&self.loaded);
        // Devices of one process that share a catalog share its facts and content.
        let fits = |model: &LoadedModel| model.spec() == spec && model.uses(facts);
        match loaded.iter().rposition(fits) {
            Some(index) => Ok(loaded.swap_remove(index)),
            None => {
                drop(loaded);
                LoadedModel::load(spec, facts)
            }
        }
    }

    fn release(&self, model: LoadedModel) {
        let mut loaded = lock(&self.loaded);
        if loaded.len() >= MAX_LOADED {
            // Evicts models with the settings of earlier rounds.
            loaded.clear();
        }
        loaded.push(model);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sottovoce_protocol::{FederationId, Keyed, Layout, ModelVersion, Parameters, Shape};

    #[test]
    fn holds_the_latest_models_by_digest() {
        let layout = Layout::new(vec![Shape::new("items", 2, 1, Keyed::Items)]).unwrap();
        let cache = SharedCache::new();
        let model = |version: u64| {
            let mut parameters = Parameters::zeros(&layout);
            parameters.tables_mut()[0].values_mut()[1] = version as f32;
            Arc::new(SharedModel { federation: FederationId(0), version: ModelVersion(version), parameters })
        };
        for version in 0..6 {
            let model = model(version);
            cache.insert(&Digest::of(&model.parameters), &model);
        }
        let found = |version| cache.get(&Digest::of(&model(version).parameters));
        assert!(found(1).is_none());
        assert_eq!(found(5).unwrap().version, ModelVersion(5));
        let expected = blake3::hash(&[0, 0, 0, 0, 0, 0, 0, 0x40]).to_hex().to_string();
        assert_eq!(Digest::of(&model(2).parameters).to_string(), expected);
        assert_eq!(Digest::from_hex(&expected), Some(Digest::of(&model(2).parameters)));
        assert_eq!(Digest::from_hex("f00"), None);
    }
}
