//! Federated models without type parameters, for code that serves all of them.

use super::{
    AggregationSpec, ClientModel, Cohort, DpSgd, Entry, EpochTraffic, FederatedModel, Population, Schedule,
    ServerModel, TensorSlice, TrainInput, TrainStats,
};
use crate::settings::{Config, Settings, TermsError};
use crate::{ModelError, Reason, features};
use sottovoce_core::{Catalog, Facts, Rng};
use sottovoce_protocol::{Layout, ModelError as LayoutError, ModelSpec, Parameters, Trained, UpdateError};
use std::any::Any;
use std::sync::Arc;

/// Working memory of some client.
pub struct Scratch(Box<dyn Any + Send + Sync>);

/// What some client computed from a shared model.
pub struct Prepared(Box<dyn Any + Send + Sync>);

/// The client's half of any model. [`Scratch`] and [`Prepared`] must come from the same client, or one of the same model.
#[derive(Clone)]
pub struct DynClient(Arc<dyn AnyClient>);

trait AnyClient: Send + Sync {
    fn prepare(&self, shared: &Parameters) -> Prepared;
    fn scratch(&self, items: usize) -> Scratch;
    fn private_values(&self) -> usize;
    fn init_private(&self, private: &mut [f32], rng: &mut Rng);
    fn train(
        &self,
        input: TrainInput<'_, Prepared>,
        scratch: &mut Scratch,
        rng: &mut Rng,
        into: &mut Trained,
    ) -> Result<TrainStats, UpdateError>;
    fn supports_dp_sgd(&self) -> bool;
    fn train_dp_sgd(
        &self,
        input: TrainInput<'_, Prepared>,
        dp_sgd: &mut DpSgd<'_>,
        rng: &mut Rng,
        into: &mut Trained,
    ) -> Result<TrainStats, UpdateError>;
    fn score(&self, shared: &Parameters, private: &[f32], history: &[u32], into: &mut [f32]);
    fn explain(&self, shared: &Parameters, private: &[f32], history: &[u32], item: u32) -> Vec<Reason>;
}

/// Gives what was prepared its type back.
fn typed<'a, C: ClientModel>(input: TrainInput<'a, Prepared>) -> TrainInput<'a, C::Prepared> {
    let TrainInput { shared, prepared, private, history, hidden } = input;
    let Some(prepared) = prepared.0.downcast_ref() else { panic!("prepared by the client of another model") };
    TrainInput { shared, prepared, private, history, hidden }
}

impl<C: ClientModel> AnyClient for C {
    fn prepare(&self, shared: &Parameters) -> Prepared {
        Prepared(Box::new(ClientModel::prepare(self, shared)))
    }

    fn scratch(&self, items: usize) -> Scratch {
        Scratch(Box::new(ClientModel::scratch(self, items)))
    }

    fn private_values(&self) -> usize {
        ClientModel::private_values(self)
    }

    fn init_private(&self, private: &mut [f32], rng: &mut Rng) {
        ClientModel::init_private(self, private, rng);
    }

    fn train(
        &self,
        input: TrainInput<'_, Prepared>,
        scratch: &mut Scratch,
        rng: &mut Rng,
        into: &mut Trained,
    ) -> Result<TrainStats, UpdateError> {
        let Some(scratch) = scratch.0.downcast_mut() else { panic!("working memory of another model") };
        ClientModel::train(self, typed::<C>(input), scratch, rng, into)
    }

    fn supports_dp_sgd(&self) -> bool {
        ClientModel::supports_dp_sgd(self)
    }

    fn train_dp_sgd(
        &self,
        input: TrainInput<'_, Prepared>,
        dp_sgd: &mut DpSgd<'_>,
        rng: &mut Rng,
        into: &mut Trained,
    ) -> Result<TrainStats, UpdateError> {
        ClientModel::train_dp_sgd(self, typed::<C>(input), dp_sgd, rng, into)
    }

    fn score(&self, shared: &Parameters, private: &[f32], history: &[u32], into: &mut [f32]) {
        ClientModel::score(self, shared, private, history, into);
    }

    fn explain(&self, shared: &Parameters, private: &[f32], history: &[u32], item: u32) -> Vec<Reason> {
        ClientModel::explain(self, shared, private, history, item)
    }
}

/// As [`ClientModel`] has them.
impl DynClient {
    /// Of any client.
    pub fn new(client: impl ClientModel) -> Self {
        Self(Arc::new(client))
    }

    /// See [`ClientModel::prepare`].
    pub fn prepare(&self, shared: &Parameters) -> Prepared {
        self.0.prepare(shared)
    }

    /// See [`ClientModel::scratch`].
    pub fn scratch(&self, items: usize) -> Scratch {
        self.0.scratch(items)
    }

    /// See [`ClientModel::private_values`].
    pub fn private_values(&self) -> usize {
        self.0.private_values()
    }

    /// See [`ClientModel::init_private`].
    pub fn init_private(&self, private: &mut [f32], rng: &mut Rng) {
        self.0.init_private(private, rng);
    }

    /// See [`ClientModel::train`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// If working memory or what was prepared is another model's.
    pub fn train(
        &self,
        input: TrainInput<'_, Prepared>,
        scratch: &mut Scratch,
        rng: &mut Rng,
        into: &mut Trained,
    ) -> Result<TrainStats, UpdateError> {
        self.0.train(input, scratch, rng, into)
    }

    /// See [`ClientModel::supports_dp_sgd`].
    pub fn supports_dp_sgd(&self) -> bool {
        self.0.supports_dp_sgd()
    }

    /// See [`ClientModel::train_dp_sgd`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// If what was prepared is another model's.
    pub fn train_dp_sgd(
        &self,
        input: TrainInput<'_, Prepared>,
        dp_sgd: &mut DpSgd<'_>,
        rng: &mut Rng,
        into: &mut Trained,
    ) -> Result<TrainStats, UpdateError> {
        self.0.train_dp_sgd(input, dp_sgd, rng, into)
    }

    /// See [`ClientModel::score`].
    pub fn score(&self, shared: &Parameters, private: &[f32], history: &[u32], into: &mut [f32]) {
        self.0.score(shared, private, history, into);
    }

    /// See [`ClientModel::explain`].
    pub fn explain(&self, shared: &Parameters, private: &[f32], history: &[u32], item: u32) -> Vec<Reason> {
        self.0.explain(shared, private, history, item)
    }
}

/// Any model with its settings, and the catalog's facts once they are known.
pub struct DynModel(Box<dyn AnyModel>);

trait AnyModel: Send + Sync {
    fn set_features(&mut self, catalog: Option<&Catalog>) -> Result<(), ModelError>;
    fn features(&self) -> &Arc<Facts>;
    fn client(&self, schedule: Option<&Schedule>) -> DynClient;
    fn spec(&self, schedule: &Schedule) -> ModelSpec;
    fn layout(&self, items: usize) -> Result<Layout, LayoutError>;
    fn init(&self, items: usize, rng: &mut Rng) -> Result<Parameters, LayoutError>;
    fn tensors(&self) -> Vec<TensorSlice>;
    fn schedule(&self, cohort: Option<Cohort>, population: &Population) -> Schedule;
    fn samples_per_device(&self) -> Option<usize>;
    fn aggregation(&self, devices: usize) -> AggregationSpec;
    fn vectors_per_epoch(&self, traffic: &EpochTraffic) -> f64;
    fn baseline_loss(&self, items: usize) -> f64;
}

struct Configured<M: FederatedModel> {
    config: M::Config,
    features: Arc<Facts>,
}

impl<M: FederatedModel> Configured<M> {
    fn scheduled(&self, schedule: Option<&Schedule>) -> M::Config {
        let config = self.config.clone();
        schedule.map_or_else(|| config.clone(), |schedule| M::scheduled(config.clone(), schedule))
    }

    fn server(&self) -> M::Server {
        M::server(&self.config, &self.features)
    }
}

impl<M: FederatedModel> AnyModel for Configured<M> {
    fn set_features(&mut self, catalog: Option<&Catalog>) -> Result<(), ModelError> {
        if M::NEEDS_FEATURES {
            self.features = Arc::clone(features::of_catalog(M::INFO.name, catalog)?);
        }
        Ok(())
    }

    fn features(&self) -> &Arc<Facts> {
        &self.features
    }

    fn client(&self, schedule: Option<&Schedule>) -> DynClient {
        DynClient::new(M::client(&self.scheduled(schedule), &self.features))
    }

    fn spec(&self, schedule: &Schedule) -> ModelSpec {
        self.scheduled(Some(schedule)).to_terms(M::INFO.name)
    }

    fn layout(&self, items: usize) -> Result<Layout, LayoutError> {
        self.server().layout(items)
    }

    fn init(&self, items: usize, rng: &mut Rng) -> Result<Parameters, LayoutError> {
        self.server().init(items, rng)
    }

    fn tensors(&self) -> Vec<TensorSlice> {
        self.server().tensors()
    }

    fn schedule(&self, cohort: Option<Cohort>, population: &Population) -> Schedule {
        M::schedule(&self.config, cohort, population)
    }

    fn samples_per_device(&self) -> Option<usize> {
        M::samples_per_device(&self.config)
    }

    fn aggregation(&self, devices: usize) -> AggregationSpec {
        M::aggregation(&self.config, devices)
    }

    fn vectors_per_epoch(&self, traffic: &EpochTraffic) -> f64 {
        M::vectors_per_epoch(&self.config, traffic)
    }

    fn baseline_loss(&self, items: usize) -> f64 {
        M::baseline_loss(&self.config, items)
    }
}

/// As [`FederatedModel`] has them.
impl DynModel {
    /// A model with checked settings, before the catalog is known.
    pub(super) fn new<M: FederatedModel>(settings: &Settings) -> Self {
        Self(Box::new(Configured::<M> { config: M::Config::read(settings), features: Arc::default() }))
    }

    /// The model that round terms ask for.
    pub(super) fn from_terms<M: FederatedModel>(
        spec: &ModelSpec,
        features: Option<&Arc<Facts>>,
    ) -> Result<Self, TermsError> {
        let config = M::Config::from_terms(spec)?;
        let features = match features.filter(|facts| features::are_usable(facts)) {
            Some(features) if M::NEEDS_FEATURES => Arc::clone(features),
            None if M::NEEDS_FEATURES => return Err(TermsError::NoFeatures { model: spec.name.clone() }),
            _ => Arc::default(),
        };
        Ok(Self(Box::new(Configured::<M> { config, features })))
    }

    /// Takes the facts of a catalog, for models that need them; to be called before anything else.
    ///
    /// # Errors
    /// If the model needs facts and the catalog has none.
    pub fn set_features(&mut self, catalog: Option<&Catalog>) -> Result<(), ModelError> {
        self.0.set_features(catalog)
    }

    /// The facts it uses; empty for models that need none.
    pub fn features(&self) -> &Arc<Facts> {
        self.0.features()
    }

    /// The client's half; without a schedule one that scores but does not train.
    pub fn client(&self, schedule: Option<&Schedule>) -> DynClient {
        self.0.client(schedule)
    }

    /// The model as round terms name it.
    pub fn spec(&self, schedule: &Schedule) -> ModelSpec {
        self.0.spec(schedule)
    }

    /// See [`ServerModel::layout`].
    ///
    /// # Errors
    /// As there.
    pub fn layout(&self, items: usize) -> Result<Layout, LayoutError> {
        self.0.layout(items)
    }

    /// See [`ServerModel::init`].
    ///
    /// # Errors
    /// As there.
    pub fn init(&self, items: usize, rng: &mut Rng) -> Result<Parameters, LayoutError> {
        self.0.init(items, rng)
    }

    /// See [`ServerModel::tensors`].
    pub fn tensors(&self) -> Vec<TensorSlice> {
        self.0.tensors()
    }

    /// See [`FederatedModel::schedule`].
    pub fn schedule(&self, cohort: Option<Cohort>, population: &Population) -> Schedule {
        self.0.schedule(cohort, population)
    }

    /// See [`FederatedModel::samples_per_device`].
    pub fn samples_per_device(&self) -> Option<usize> {
        self.0.samples_per_device()
    }

    /// See [`FederatedModel::aggregation`].
    pub fn aggregation(&self, devices: usize) -> AggregationSpec {
        self.0.aggregation(devices)
    }

    /// See [`FederatedModel::vectors_per_epoch`].
    pub fn vectors_per_epoch(&self, traffic: &EpochTraffic) -> f64 {
        self.0.vectors_per_epoch(traffic)
    }

    /// See [`FederatedModel::baseline_loss`].
    pub fn baseline_loss(&self, items: usize) -> f64 {
        self.0.baseline_loss(items)
    }
}

impl Entry {
    /// The model with these settings, which were checked against [`schema`](Self::schema).
    pub fn configure(&self, settings: &Settings) -> DynModel {
        (self.configure)(settings)
    }

    /// The model that round terms ask for, with the catalog's facts.
    ///
    /// # Errors
    /// If a setting is unknown, missing or out of range, or facts are needed and missing.
    pub fn from_terms(
        &self,
        spec: &ModelSpec,
        features: Option<&Arc<Facts>>,
    ) -> Result<DynModel, TermsError> {
        (self.from_terms)(spec, features)
    }
}
