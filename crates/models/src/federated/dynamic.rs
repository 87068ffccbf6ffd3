//! Federated models without type parameters, for code that serves all of them.

use super::{
    AggregationSpec, BudgetShare, ClientModel, Cohort, DpSgd, Entry, EpochTraffic, FeatureUse, FederatedModel,
    Population, PublicFacts, Schedule, ServerModel, TrainInput, TrainResult, WorkingMemory,
};
use crate::settings::{Config, Settings, TermsError};
use crate::{ModelError, Reason, ReasonKind, features};
use sottovoce_core::{Catalog, Facts, History, Rng};
use sottovoce_protocol::{ModelSpec, Parameters, Trained};
use std::any::Any;
use std::sync::Arc;

/// Working memory of some client.
pub struct Scratch(Box<dyn Any + Send + Sync>);

/// What some client computed from a shared model.
pub struct Prepared(Box<dyn Any + Send + Sync>);

/// [`ClientModel`] without its types. [`Scratch`] and [`Prepared`] must come from the same client, or one of the same
/// model; training panics if they are another model's.
pub type AnyClient = dyn ClientModel<Scratch = Scratch, Prepared = Prepared>;

/// The client's half of any model.
pub type DynClient = Arc<AnyClient>;

/// A client without its types.
pub fn erased(client: impl ClientModel) -> DynClient {
    Arc::new(Erased(client))
}

/// A client whose types are erased.
struct Erased<C>(C);

/// Gives what was prepared its type back.
fn typed<P: 'static>(input: TrainInput<'_, Prepared>) -> TrainInput<'_, P> {
    let TrainInput { shared, prepared, private, history, hidden } = input;
    let Some(prepared) = prepared.0.downcast_ref() else { panic!("prepared by the client of another model") };
    TrainInput { shared, prepared, private, history, hidden }
}

impl<C: ClientModel> ClientModel for Erased<C> {
    type Scratch = Scratch;
    type Prepared = Prepared;

    fn prepare(&self, shared: &Parameters) -> Prepared {
        Prepared(Box::new(self.0.prepare(shared)))
    }

    fn scratch(&self, items: usize) -> Scratch {
        Scratch(Box::new(self.0.scratch(items)))
    }

    fn working_memory(&self, scratch: &Scratch) -> Option<WorkingMemory> {
        self.0.working_memory(scratch.0.downcast_ref()?)
    }

    fn private_values(&self) -> usize {
        self.0.private_values()
    }

    fn init_private(&self, private: &mut [f32], rng: &mut Rng) {
        self.0.init_private(private, rng);
    }

    fn train(
        &self,
        input: TrainInput<'_, Prepared>,
        scratch: &mut Scratch,
        rng: &mut Rng,
        into: &mut Trained,
    ) -> TrainResult {
        let Some(scratch) = scratch.0.downcast_mut() else { panic!("working memory of another model") };
        self.0.train(typed(input), scratch, rng, into)
    }

    fn needs_seal(&self) -> bool {
        self.0.needs_seal()
    }

    fn supports_dp_sgd(&self) -> bool {
        self.0.supports_dp_sgd()
    }

    fn train_dp_sgd(
        &self,
        input: TrainInput<'_, Prepared>,
        dp_sgd: &mut DpSgd<'_>,
        rng: &mut Rng,
        into: &mut Trained,
    ) -> TrainResult {
        self.0.train_dp_sgd(typed(input), dp_sgd, rng, into)
    }

    fn score(&self, shared: &Parameters, private: &[f32], history: History<'_>, into: &mut [f32]) {
        self.0.score(shared, private, history, into);
    }

    fn title_dim(&self) -> Option<usize> {
        self.0.title_dim()
    }

    fn adapt(&self, private: &mut [f32], history: History<'_>, items: usize, rng: &mut Rng) -> bool {
        self.0.adapt(private, history, items, rng)
    }

    fn is_calibrated(&self) -> bool {
        self.0.is_calibrated()
    }

    fn reason_kind(&self) -> ReasonKind {
        self.0.reason_kind()
    }

    fn explain(&self, shared: &Parameters, private: &[f32], history: History<'_>, items: &[u32]) -> Vec<Vec<Reason>> {
        self.0.explain(shared, private, history, items)
    }
}

/// Any model with its settings, and the catalog's facts once they are known.
pub type DynModel = Box<dyn AnyModel>;

/// [`FederatedModel`] with settings and facts, without its types.
pub trait AnyModel: Send + Sync {
    /// Takes the facts or the content of a catalog, for models that use them; to be called before anything else.
    ///
    /// # Errors
    /// If the model needs facts and the catalog has none.
    fn set_features(&mut self, catalog: Option<&Catalog>) -> Result<(), ModelError>;

    /// The same with the settings filled in that were left to a rule: see [`FederatedModel::fitted`].
    fn fitted(&self, public: &PublicFacts<'_>) -> DynModel;

    /// See [`FederatedModel::READOUT`].
    fn readout(&self) -> &'static [&'static str];

    /// The facts or the content that it uses; empty for models that use none.
    fn features(&self) -> &Arc<Facts>;

    /// Whether its clients are given sequences.
    fn is_sequential(&self) -> bool;

    /// See [`FederatedModel::ONCE_AN_EPOCH`].
    fn asks_once_an_epoch(&self) -> bool;

    /// See [`FederatedModel::SENSITIVITY`].
    fn sensitivity(&self) -> Option<f32>;

    /// See [`FederatedModel::BUDGET_SHARES`].
    fn budget_shares(&self) -> &'static [BudgetShare];

    /// The client's half; without a schedule one that scores but does not train.
    fn client(&self, schedule: Option<&Schedule>) -> DynClient;

    /// The model as round terms name it.
    fn spec(&self, schedule: &Schedule) -> ModelSpec;

    /// The server's half.
    fn server(&self) -> Box<dyn ServerModel>;

    /// See [`FederatedModel::schedule`].
    fn schedule(&self, cohort: Option<Cohort>, population: &Population) -> Schedule;

    /// See [`FederatedModel::samples_per_device`].
    fn samples_per_device(&self) -> Option<usize>;

    /// See [`FederatedModel::aggregation`], with what follows from the schedule filled in.
    fn aggregation(&self, schedule: &Schedule, devices: usize) -> AggregationSpec;

    /// See [`FederatedModel::vectors_per_epoch`].
    fn vectors_per_epoch(&self, traffic: &EpochTraffic) -> f64;

    /// See [`FederatedModel::baseline_loss`].
    fn baseline_loss(&self, items: usize) -> f64;

    /// See [`FederatedModel::LARGEST_VALUE`].
    fn largest_value(&self) -> f32;
}

struct Configured<M: FederatedModel> {
    /// As it was given, before any rule.
    given: M::Config,
    config: M::Config,
    features: Arc<Facts>,
}

impl<M: FederatedModel> Configured<M> {
    fn new(config: M::Config, features: Arc<Facts>) -> Self {
        Self { given: config.clone(), config, features }
    }

    fn scheduled(&self, schedule: Option<&Schedule>) -> M::Config {
        let config = self.config.clone();
        match schedule {
            Some(schedule) => M::scheduled(config, schedule),
            None => config,
        }
    }
}

impl<M: FederatedModel> AnyModel for Configured<M> {
    fn set_features(&mut self, catalog: Option<&Catalog>) -> Result<(), ModelError> {
        self.features = match M::FEATURES {
            FeatureUse::None => Arc::default(),
            FeatureUse::Content => catalog.map(Catalog::content).unwrap_or_default(),
            FeatureUse::Facts => Arc::clone(features::of_catalog(M::INFO.name, catalog)?),
        };
        Ok(())
    }

    fn fitted(&self, public: &PublicFacts<'_>) -> DynModel {
        let Self { given, features, .. } = self;
        let config = M::fitted(given.clone(), public);
        Box::new(Self { given: given.clone(), config, features: Arc::clone(features) })
    }

    fn readout(&self) -> &'static [&'static str] {
        M::READOUT
    }

    fn features(&self) -> &Arc<Facts> {
        &self.features
    }

    fn is_sequential(&self) -> bool {
        M::SEQUENTIAL
    }

    fn asks_once_an_epoch(&self) -> bool {
        M::ONCE_AN_EPOCH
    }

    fn sensitivity(&self) -> Option<f32> {
        M::SENSITIVITY
    }

    fn budget_shares(&self) -> &'static [BudgetShare] {
        M::BUDGET_SHARES
    }

    fn client(&self, schedule: Option<&Schedule>) -> DynClient {
        erased(M::client(&self.scheduled(schedule), &self.features))
    }

    fn spec(&self, schedule: &Schedule) -> ModelSpec {
        self.scheduled(Some(schedule)).to_terms(M::INFO.name)
    }

    fn server(&self) -> Box<dyn ServerModel> {
        Box::new(M::server(&self.config, &self.features))
    }

    fn schedule(&self, cohort: Option<Cohort>, population: &Population) -> Schedule {
        M::schedule(&self.config, cohort, population)
    }

    fn samples_per_device(&self) -> Option<usize> {
        M::samples_per_device(&self.config)
    }

    fn aggregation(&self, schedule: &Schedule, devices: usize) -> AggregationSpec {
        M::aggregation(&self.scheduled(Some(schedule)), devices)
    }

    fn vectors_per_epoch(&self, traffic: &EpochTraffic) -> f64 {
        M::vectors_per_epoch(&self.config, traffic)
    }

    fn baseline_loss(&self, items: usize) -> f64 {
        M::baseline_loss(&self.config, items)
    }

    fn largest_value(&self) -> f32 {
        M::LARGEST_VALUE
    }
}

impl Entry {
    /// The model with these settings, which were checked against [`schema`](Self::schema).
    pub fn configure(&self, settings: &Settings) -> DynModel {
        (self.configure)(settings)
    }

    /// The model that round terms ask for, with what it uses of the catalog: see [`features`](Self::features).
    ///
    /// # Errors
    /// If a setting is unknown, missing or out of range, or facts are needed and missing.
    pub fn from_terms(&self, spec: &ModelSpec, features: Option<&Arc<Facts>>) -> Result<DynModel, TermsError> {
        (self.from_terms)(spec, features)
    }
}

/// A model with checked settings, before the catalog is known.
pub(super) fn configure<M: FederatedModel>(settings: &Settings) -> DynModel {
    Box::new(Configured::<M>::new(M::Config::read(settings), Arc::default()))
}

/// The model that round terms ask for.
pub(super) fn from_terms<M: FederatedModel>(
    spec: &ModelSpec,
    features: Option<&Arc<Facts>>,
) -> Result<DynModel, TermsError> {
    let config = M::Config::from_terms(spec)?;
    let usable = match M::FEATURES {
        FeatureUse::None => return Ok(Box::new(Configured::<M>::new(config, Arc::default()))),
        FeatureUse::Content => features.filter(|facts| facts.items() > 0),
        FeatureUse::Facts => features.filter(|facts| features::are_usable(facts)),
    };
    let features = Arc::clone(usable.ok_or_else(|| TermsError::NoFeatures(spec.name.clone()))?);
    Ok(Box::new(Configured::<M>::new(config, features)))
}
