//! Building the server's half of a federation whose devices are elsewhere.

use crate::config::FederationConfig;
use crate::privacy::{KeeperKeys, SealKeys};
use crate::simulation::{check_dp_sgd, check_seal};
use crate::{Coordinator, FederationError, Population, Schedule, strategy};
use sottovoce_client::streams;
use sottovoce_core::{Catalog, Facts};
use sottovoce_models::ModelError;
use sottovoce_models::federated::audience_size::AudienceSizeConfig;
use sottovoce_models::federated::{self, AUDIENCE_SIZE, DynModel, Entry};
use sottovoce_models::registry::find_in;
use sottovoce_models::settings::{Config, Settings, Value};
use sottovoce_privacy::SecureRng;
use sottovoce_protocol::{CriterionRequest, FederationId, TermsDraft};
use std::sync::Arc;

/// What a server knows of a federation beside its model's settings.
#[derive(Clone, Debug)]
pub struct FederationBuilder {
    /// Its number.
    pub federation: FederationId,
    /// Items of the catalog.
    pub items: usize,
    /// Facts about them, for models that need them.
    pub facts: Option<Arc<Facts>>,
    /// Devices that are expected to take part.
    pub devices: usize,
    /// Determines the initial shared model; the cohorts too where there is no `secret`.
    pub seed: u64,
    /// Whether devices are asked how many samples they trained on.
    pub samples: bool,
    /// Criteria that devices are asked for.
    pub criteria: Vec<CriterionRequest>,
    /// Rounds that will be held; `None`: as the settings say.
    pub rounds: Option<u64>,
    /// Seed of the server's noise and of its cohorts: fresh and secret. `None`: from `seed`, to be compared with the
    /// simulator.
    pub secret: Option<[u8; 32]>,
    /// Where updates are encrypted: the digest of the key that devices share.
    pub key_digest: Option<String>,
    /// With seal = keeper: which keeper it is.
    pub keeper: Option<KeeperKeys>,
}

/// A model ready to be trained by devices that come and go.
pub struct HostedFederation {
    /// The server's half.
    pub coordinator: Coordinator,
    /// Rounds that the settings' epochs come to with the expected devices.
    pub rounds: u64,
}

/// Why a server cannot host a federation.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// No such model, or wrong settings.
    #[error(transparent)]
    Settings(#[from] ModelError),
    /// A setting of simulated devices.
    #[error("setting {0} is about simulated devices or is their owners' to choose: a server has no say in it")]
    NotTheServers(String),
    /// There is no noise to be had.
    #[error("the machine gives no random numbers: {0}")]
    Randomness(String),
    /// The model cannot be started.
    #[error(transparent)]
    Start(#[from] FederationError),
}

/// A federated model and its settings: these over the defaults.
fn find_entry<'a>(
    model: &str,
    given: impl IntoIterator<Item = (&'a str, Value)>,
) -> Result<(Entry, Settings), BuildError> {
    let given: Vec<(&str, Value)> = given.into_iter().collect();
    if let Some((key, _)) = given.iter().find(|(key, _)| FederationConfig::is_of_devices(key)) {
        return Err(BuildError::NotTheServers((*key).to_owned()));
    }
    let settings = find_in(&crate::registry::federated(), model)?.settings(given)?;
    let entry = federated::find(model).map_err(|error| ModelError::Data(error.to_string()))?;
    Ok((entry, settings))
}

impl FederationBuilder {
    /// The server's half of a federated model, with these settings over the defaults.
    ///
    /// # Errors
    /// If there is no such model, a setting is wrong or not the server's, or the model cannot be started.
    pub fn build<'a>(
        &self,
        model: &str,
        given: impl IntoIterator<Item = (&'a str, Value)>,
    ) -> Result<HostedFederation, BuildError> {
        let (entry, settings) = find_entry(model, given)?;
        self.assemble(&entry, &settings)
    }

    /// Devices that a round of this model is to have: as many as its settings ask for, whether they have come yet or
    /// not; where they say nothing, the model's own default among the devices expected.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn cohort<'a>(
        &self,
        model: &str,
        given: impl IntoIterator<Item = (&'a str, Value)>,
    ) -> Result<usize, BuildError> {
        let (entry, settings) = find_entry(model, given)?;
        let config = FederationConfig::read(&settings);
        let (_, schedule) = self.scheduled(&entry, &settings, &config)?;
        Ok(config.cohort.unwrap_or_else(|| schedule.cohort.size(self.devices)))
    }

    /// The server's half of a measurement: a round that counts people instead of training on them.
    /// [`items`](Self::items) are the cells of the question.
    ///
    /// # Errors
    /// If a setting is wrong, or the layers of protection do not go together.
    pub fn build_measurement<'a>(
        &self,
        question: &AudienceSizeConfig,
        given: impl IntoIterator<Item = (&'a str, Value)>,
    ) -> Result<HostedFederation, BuildError> {
        let asked = question.schema();
        let asked = asked.iter().map(|setting| (setting.key, setting.default.clone()));
        let settings = crate::registry::model(&AUDIENCE_SIZE).settings(asked.chain(given).collect::<Vec<_>>())?;
        self.assemble(&AUDIENCE_SIZE, &settings)
    }

    /// The model and its schedule for the expected devices.
    fn scheduled(
        &self,
        entry: &Entry,
        settings: &Settings,
        config: &FederationConfig,
    ) -> Result<(DynModel, Schedule), BuildError> {
        let mut model = entry.configure(settings);
        model.set_features(Some(&Catalog { facts: self.facts.clone(), ..Catalog::default() }))?;
        let share = model.samples_per_device().ok_or(FederationError::NotHostable {
            key: "triples",
            why: "a server does not know how long histories are",
        })?;
        let devices = self.devices;
        let population =
            Population { devices: (0..devices as u32).collect(), interactions: devices.saturating_mul(share) };
        model = config.fitted(&model, &population, self.items, self.rounds, &[]);
        let schedule = model.schedule(config.cohort(), &population);
        Ok((model, schedule))
    }

    fn assemble(&self, entry: &Entry, settings: &Settings) -> Result<HostedFederation, BuildError> {
        let (config, devices) = (FederationConfig::read(settings), self.devices);
        let (model, schedule) = self.scheduled(entry, settings, &config)?;
        let root = streams::root(self.seed, entry.info.name);
        let start =
            model.server().init(self.items, &mut root.stream(streams::SHARED, 0)).map_err(FederationError::from)?;
        let mut criteria = config.aggregation.requests()?;
        let weighted: Vec<String> = criteria.iter().map(|request| request.name.clone()).collect();
        criteria.extend(self.criteria.iter().filter(|request| !weighted.contains(&request.name)).cloned());
        let rules = config.round;
        let terms = TermsDraft {
            federation: self.federation,
            model: model.spec(&schedule),
            values: config.values,
            deadline: rules.deadline.map_or(0, |seconds| seconds.ceil() as u32),
            samples: self.samples || config.aggregation.asks_samples(),
            criteria,
            ..TermsDraft::default()
        };
        let rounds = (schedule.rounds * config.epochs) as u64;
        let strategy = strategy::build(model.aggregation(&schedule, devices));
        let expected = schedule.cohort.size(devices);
        let simulated = || SecureRng::simulated(&root, streams::PRIVACY_ENGINE, 0);
        let rng =
            self.secret.map_or_else(simulated, |secret| SecureRng::new(secret).stream(streams::PRIVACY_ENGINE, 0));
        let held = self.rounds.unwrap_or(rounds);
        let keys = SealKeys { shared: self.key_digest.as_deref(), keeper: self.keeper.unwrap_or_default() };
        let engine = config.privacy_engine(&model, (expected, devices), held, &keys, rng)?;
        let client = model.client(Some(&schedule));
        check_dp_sgd(entry.info.name, &client, engine.as_ref())?;
        check_seal(entry.info.name, &client, engine.as_ref())?;
        let coordinator = Coordinator::new(strategy, start, terms, schedule.cohort, root.stream(streams::ROUNDS, 0))
            .stopping_at(model.largest_value())
            .asking_once(model.asks_once_an_epoch(), schedule.rounds, model.passes());
        let cohorts = self.secret.map(|secret| SecureRng::new(secret).stream(streams::ROUNDS, 0));
        let coordinator = cohorts.into_iter().fold(coordinator, Coordinator::drawing_in_secret);
        let coordinator = config.configured(coordinator, engine)?;
        Ok(HostedFederation { coordinator, rounds })
    }
}
