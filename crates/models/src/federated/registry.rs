//! The federated models that are known by name.

use super::audience_size::AudienceSize;
use super::candidate_scores::CandidateScores;
use super::{DynModel, Epochs, Exposure, FeatureUse, FederatedModel, MODELS, ModelInfo, dynamic};
use crate::settings::{Config, Setting, Settings, TermsError};
use sottovoce_core::Facts;
use sottovoce_protocol::ModelSpec;
use std::sync::{Arc, PoisonError, RwLock};

/// A federated model in the registry.
#[derive(Clone, Copy)]
pub struct Entry {
    /// Name, title, summary, paper.
    pub info: ModelInfo,
    /// What an epoch is.
    pub epochs: Epochs,
    /// What it uses of the catalog.
    pub features: FeatureUse,
    schema: fn() -> Vec<Setting>,
    exposure: fn() -> Vec<Exposure>,
    pub(super) configure: fn(&Settings) -> DynModel,
    pub(super) from_terms: fn(&ModelSpec, Option<&Arc<Facts>>) -> Result<DynModel, TermsError>,
}

impl Entry {
    /// Of a model.
    pub const fn of<M: FederatedModel>() -> Self {
        Self {
            info: M::INFO,
            epochs: M::EPOCHS,
            features: M::FEATURES,
            schema: || M::Config::default().schema(),
            exposure: M::exposure,
            configure: dynamic::configure::<M>,
            from_terms: dynamic::from_terms::<M>,
        }
    }

    /// Its own settings, without those that all federated models share.
    pub fn schema(&self) -> Vec<Setting> {
        (self.schema)()
    }

    /// What the rows of its updates say about a person.
    pub fn exposure(&self) -> Vec<Exposure> {
        (self.exposure)()
    }
}

/// Counts people instead of learning from them: devices and servers know it, but it is in no list of models to train.
pub static AUDIENCE_SIZE: Entry = Entry::of::<AudienceSize>();

/// Compares candidates for a model: it is in no list either.
pub static CANDIDATE_SCORES: Entry = Entry::of::<CandidateScores>();

/// Models that are in no list.
static UNLISTED: [&Entry; 2] = [&AUDIENCE_SIZE, &CANDIDATE_SCORES];

static REGISTERED: RwLock<Vec<Entry>> = RwLock::new(Vec::new());

/// A model cannot be registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is a model named {0:?} already")]
pub struct RegisterError(pub String);

/// Makes a model from outside this workspace known to the simulator, the server, devices and the audit of this process.
///
/// # Errors
/// If there is a model of this name.
pub fn register<M: FederatedModel>() -> Result<(), RegisterError> {
    let mut registered = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
    let entry = Entry::of::<M>();
    if MODELS.iter().chain(UNLISTED).chain(registered.iter()).any(|known| known.info.name == entry.info.name) {
        return Err(RegisterError(entry.info.name.to_owned()));
    }
    registered.push(entry);
    Ok(())
}

/// All federated models, in the order in which they are shown: those of this workspace, then those that were
/// registered.
pub fn all() -> Vec<Entry> {
    let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner);
    MODELS.iter().chain(registered.iter()).copied().collect()
}

/// The federated model of this name.
///
/// # Errors
/// If there is none.
pub fn find(name: &str) -> Result<Entry, TermsError> {
    let all = all();
    let known = || all.iter().map(|entry| entry.info.name).collect::<Vec<_>>().join(", ");
    let found = all.iter().chain(UNLISTED).find(|entry| entry.info.name == name).copied();
    found.ok_or_else(|| TermsError::UnknownModel { name: name.to_owned(), known: known() })
}
