//! Configuration of a federation.

use super::audiences::AudienceConfig;
use super::catalog::{CatalogError, CheckedCatalog};
use super::keeper::KeeperConfig;
use crate::secret;
use serde::{Deserialize, Serialize};
use sottovoce_federation::{
    BuildError, Coordinator, FederationBuilder, FederationError, HostedFederation, SEALED_FROM,
};
use sottovoce_models::settings::Value;
use sottovoce_privacy::{PrivacyMechanism, Seal};
use sottovoce_protocol::{CriterionRequest, FederationId, limits};
use std::collections::{BTreeMap, BTreeSet};

/// Seconds after which a round closes if its settings name no deadline.
const DEFAULT_DEADLINE: f64 = 3600.0;

/// Room for honest devices, whose longest rows differ with what they have (docs/decisions/0036).
const DEFAULT_NORM_BOUND: f32 = 200.0;

/// A federation's configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FederationConfig {
    /// The model's name in the registry.
    pub model: String,
    /// Its settings, over the defaults; `cohort`, `over_selection` and `deadline` among them.
    pub settings: BTreeMap<String, Value>,
    /// Seed of the first shared model and of the cohorts.
    pub seed: u64,
    /// Number of rounds; default: as many as the settings' epochs take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u64>,
    /// Devices that must have enrolled before a round opens.
    pub devices: u32,
    /// With fewer updates a round is abandoned; default: half of those wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum: Option<u32>,
    /// Select only devices that checked in within this many seconds; default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub present_within: Option<u32>,
    /// Mean seconds between two check-ins of a device that has nothing to do.
    pub check_in_seconds: u32,
    /// Check-ins per second at most: with many devices each checks in less often.
    pub check_ins_per_second: u32,
    /// Reject updates with a row of a larger Euclidean norm; default: no bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub row_norm: Option<f32>,
    /// Rows of open updates that are longer than this many times the median of the round's devices are clipped to that,
    /// and updates far beyond are left out; 0: no bound.
    pub norm_bound: f32,
    /// The largest size of an update in bytes; default: the size of an update of all rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upload_bytes: Option<u64>,
    /// Whether only enrolled devices can download the shared model. Then shared caches cannot store it.
    pub private_models: bool,
    /// Whether devices are asked for the number of samples they trained on.
    pub samples: bool,
    /// Criteria that devices are asked for, and why.
    pub criteria: Vec<Criterion>,
    /// Number of versions of the shared model to keep.
    pub keep_versions: u32,
    /// What happens to the shared model when a device withdraws.
    pub unlearn: Unlearn,
    /// If updates are sealed: seconds after which a step but the first continues without devices that have not
    /// answered.
    pub seal_step_seconds: u32,
    /// If updates are encrypted: the digest of the key that devices share and the server does not have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seal_key_digest: Option<String>,
    /// With seal = keeper: which keeper it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keeper: Option<KeeperConfig>,
    /// Whether the server's noise and cohorts are derived from `seed`, to compare a deployed federation with the
    /// simulator. Never for real devices: whoever knows the seed can remove the noise and foretell who is asked.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub simulated_noise: bool,
    /// Whether the server retains every accepted upload for an audit. Devices are told in every round's terms.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub record_uploads: bool,
    /// Rules for audiences; default: none are served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audiences: Option<AudienceConfig>,
}

impl Default for FederationConfig {
    fn default() -> Self {
        Self {
            model: String::new(),
            settings: BTreeMap::new(),
            seed: 0,
            rounds: None,
            devices: 1,
            minimum: None,
            present_within: None,
            check_in_seconds: 60,
            check_ins_per_second: 1000,
            row_norm: None,
            norm_bound: DEFAULT_NORM_BOUND,
            upload_bytes: None,
            private_models: false,
            samples: false,
            criteria: Vec::new(),
            keep_versions: 8,
            unlearn: Unlearn::None,
            seal_step_seconds: 60,
            seal_key_digest: None,
            keeper: None,
            simulated_noise: false,
            record_uploads: false,
            audiences: None,
        }
    }
}

/// What happens to the shared model when a device withdraws. Its stored data are deleted in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unlearn {
    /// Nothing.
    #[default]
    None,
    /// Training is rolled back to before the device enrolled, and repeated without it.
    Retrain,
}

/// A criterion that devices are asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Criterion {
    /// Its name.
    pub name: String,
    /// Its purpose, for the owner to read.
    #[serde(default)]
    pub why: String,
}

/// Why a federation cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// An invalid name.
    #[error("the name {0:?} is not 1 to 64 lower-case letters, digits and hyphens")]
    Name(String),
    /// A value out of range.
    #[error("{key} is {value}, expected {expected}")]
    Value {
        /// The setting.
        key: &'static str,
        /// Its value.
        value: String,
        /// The range.
        expected: &'static str,
    },
    /// The catalog.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// The model or its settings.
    #[error(transparent)]
    Model(#[from] BuildError),
    /// The first version of the model.
    #[error(transparent)]
    Federation(#[from] FederationError),
    /// No round could ever be held.
    #[error("{0}")]
    NeverMet(String),
    /// Uploads cannot be retained.
    #[error("record_uploads: {0}")]
    Retention(&'static str),
    /// What the settings ask for does not go with the seal that they did not ask for. Fields: why; devices of a round.
    #[error(
        "{0}. Rounds of {SEALED_FROM} devices or more ({1} here) seal updates (seal = secagg) unless the settings say \
         otherwise: `--set seal=none` leaves each update open to the server, which devices are told"
    )]
    SealedByDefault(Box<Self>, usize),
}

pub(super) fn require(
    key: &'static str,
    valid: bool,
    value: &dyn ToString,
    expected: &'static str,
) -> Result<(), ConfigError> {
    if valid { Ok(()) } else { Err(ConfigError::Value { key, value: value.to_string(), expected }) }
}

/// Checks a federation's name, which becomes part of URLs.
pub(crate) fn check_name(name: &str) -> Result<(), ConfigError> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if (1..=64).contains(&name.len()) && name.bytes().all(allowed) {
        return Ok(());
    }
    Err(ConfigError::Name(name.chars().take(80).collect()))
}

impl FederationConfig {
    /// A model with default settings.
    pub fn new(model: &str) -> Self {
        Self { model: model.to_owned(), ..Self::default() }
    }

    /// Checks everything but the model's settings.
    ///
    /// # Errors
    /// Names the first value that is out of range.
    pub fn check(&self) -> Result<(), ConfigError> {
        require("model", !self.model.is_empty(), &"missing", "the name of a model")?;
        require("devices", (1..=100_000_000).contains(&self.devices), &self.devices, "1 to 100 million")?;
        require("rounds", self.rounds != Some(0), &0, "at least 1")?;
        require("minimum", self.minimum != Some(0), &0, "at least 1")?;
        require("keep_versions", self.keep_versions >= 1, &self.keep_versions, "at least 1")?;
        require("seal_step_seconds", self.seal_step_seconds >= 1, &0, "at least 1")?;
        require("check_ins_per_second", self.check_ins_per_second >= 1, &0, "at least 1")?;
        let day = 86_400;
        require("check_in_seconds", self.check_in_seconds <= day, &self.check_in_seconds, "at most 86400")?;
        self.keeper.as_ref().map_or(Ok(()), KeeperConfig::check)?;
        self.check_criteria()?;
        self.audiences.as_ref().map_or(Ok(()), |audiences| audiences.check(&self.model))?;
        let bound = self.norm_bound;
        let valid = bound == 0.0 || (1.0..=1e6).contains(&bound);
        require("norm_bound", valid, &bound, "0, or a number from 1 to a million")?;
        let norm = self.row_norm.unwrap_or(1.0);
        require("row_norm", norm.is_finite() && norm > 0.0, &norm, "a number above 0")
    }

    /// Checks that the criteria fit into a round's terms.
    fn check_criteria(&self) -> Result<(), ConfigError> {
        let (count, most) = (self.criteria.len(), limits::CRITERIA as usize);
        require("criteria", count <= most, &format!("a list of {count}"), "at most 32")?;
        let mut names = BTreeSet::new();
        for Criterion { name, why } in &self.criteria {
            let shown = name.chars().take(80).collect::<String>();
            let is_name = (1..=limits::NAME_BYTES as usize).contains(&name.len());
            require("criteria", is_name, &shown, "names of 1 to 128 bytes")?;
            let is_text = why.len() <= limits::TEXT_BYTES as usize;
            require("criteria", is_text, &shown, "reasons of at most 4096 bytes")?;
            require("criteria", names.insert(name), &shown, "each once")?;
        }
        Ok(())
    }

    /// The federation as it is founded: with what its settings leave open decided for good, so that it is the same
    /// after a later version decides otherwise. Large rounds are sealed.
    ///
    /// # Errors
    /// If a value is invalid, or does not go with the others.
    pub(crate) fn founded(
        mut self,
        federation: u64,
        catalog: &CheckedCatalog,
        has_folder: bool,
    ) -> Result<(Self, HostedFederation), ConfigError> {
        let hosted = |config: &Self| {
            let hosted = config.host(federation, catalog)?;
            config.check_seal(&hosted.coordinator)?;
            config.check_possible(&hosted.coordinator)?;
            config.check_retention(&hosted.coordinator, has_folder)?;
            Ok(hosted)
        };
        let cohort = self.builder(federation, catalog, None).cohort(&self.model, self.given())?;
        let open = self.clone();
        if cohort >= SEALED_FROM {
            self.settings.entry("seal".to_owned()).or_insert_with(|| Value::Word("secagg".to_owned()));
        }
        match hosted(&self) {
            Ok(hosted) => Ok((self, hosted)),
            Err(why) if self != open && hosted(&open).is_ok() => {
                Err(ConfigError::SealedByDefault(Box::new(why), cohort))
            }
            Err(why) => Err(why),
        }
    }

    fn given(&self) -> impl Iterator<Item = (&str, Value)> {
        self.settings.iter().map(|(key, value)| (key.as_str(), value.clone()))
    }

    fn builder(&self, federation: u64, catalog: &CheckedCatalog, secret: Option<[u8; 32]>) -> FederationBuilder {
        let asked = |each: &Criterion| CriterionRequest { name: each.name.clone(), purpose: each.why.clone() };
        FederationBuilder {
            federation: FederationId(federation),
            items: catalog.items,
            facts: catalog.facts.clone(),
            devices: self.devices as usize,
            seed: self.seed,
            samples: self.samples,
            criteria: self.criteria.iter().map(asked).collect(),
            secret,
            key_digest: self.seal_key_digest.clone(),
            keeper: self.keeper.as_ref().and_then(KeeperConfig::keys),
            rounds: self.rounds,
        }
    }

    /// Creates the server's half of the model.
    ///
    /// # Errors
    /// If the model or a setting is invalid.
    pub fn host(&self, federation: u64, catalog: &CheckedCatalog) -> Result<HostedFederation, BuildError> {
        let builder = self.builder(federation, catalog, self.secret_seed()?);
        let mut settings: Vec<(&str, Value)> = self.given().collect();
        let is_deadline = |(key, value): &(&str, Value)| {
            *key == "deadline" && !matches!(value, Value::Integer(0)) && *value != Value::Real(0.0)
        };
        if !settings.iter().any(is_deadline) {
            settings.retain(|(key, _)| *key != "deadline");
            settings.push(("deadline", Value::Real(DEFAULT_DEADLINE)));
        }
        let mut hosted = builder.build(&self.model, settings)?;
        hosted.coordinator.never_wait();
        Ok(hosted)
    }

    /// Checks that a seal can hide a device among the expected number of devices.
    pub(crate) fn check_seal(&self, coordinator: &Coordinator) -> Result<(), ConfigError> {
        let protection = coordinator.privacy().map(PrivacyMechanism::config);
        let is_kept = protection.is_some_and(|protection| matches!(protection.seal, Some(Seal::Keeper(_))));
        let expected = "the keeper's address and key with seal = keeper (--keeper, --keeper-key), and only then";
        let found = self.keeper.as_ref().map_or("missing", |keeper| keeper.url.as_str());
        require("keeper", is_kept == self.keeper.is_some(), &found, expected)?;
        let Some(protection) = protection else { return Ok(()) };
        let devices = protection.quantization.map_or(0, |integers| integers.devices);
        let expected =
            "the number of devices that sealed rounds are to have, and at least 3: sums have room for that many";
        require("devices", protection.seals(devices).is_ok(), &self.devices, expected)
    }

    /// Checks that rounds can be held and updates accepted, once enough devices are there. At creation only: a
    /// federation that exists waits, and says for what.
    pub(crate) fn check_possible(&self, coordinator: &Coordinator) -> Result<(), ConfigError> {
        let never = |why: String| Err(ConfigError::NeverMet(why));
        if let Some((minimum, most)) = self.minimum.zip(coordinator.most_updates())
            && minimum as usize > most
        {
            return never(format!(
                "minimum is {minimum}, but a round wants at most {most} updates, so that every round would be \
                 abandoned: give a minimum of at most {most}, or a larger cohort (`--set cohort={minimum}`; with a seal \
                 or noise `--devices` too)"
            ));
        }
        if let Some(present) = self.present_within.filter(|&seconds| seconds < self.check_in_seconds.max(1)) {
            let interval = self.check_in_seconds.max(1);
            return never(format!(
                "present_within is {present} s, but devices check in every {interval} s, so that few are ever present: \
                 give a present_within of at least {interval}, or a shorter `--check-in-seconds`"
            ));
        }
        if let Err(FederationError::Budget(why)) = coordinator.check_budget_of(self.devices as usize) {
            return never(format!(
                "the privacy budget allows no round: {why}; give a larger epsilon, a larger noise_multiplier (0: as \
                 much noise as all rounds need), or more devices"
            ));
        }
        let message = coordinator.privacy().filter(|privacy| privacy.sends_quantized());
        let bytes = message.map_or(0, PrivacyMechanism::message_bytes);
        if let Some(limit) = self.upload_bytes.filter(|&limit| limit < bytes) {
            return never(format!(
                "upload_bytes is {limit}, but every update has at least {bytes} bytes: leave it out, or give more"
            ));
        }
        Ok(())
    }

    /// Checks that uploads can be retained, if they are to be.
    pub(crate) fn check_retention(&self, coordinator: &Coordinator, has_folder: bool) -> Result<(), ConfigError> {
        let why = match coordinator.privacy() {
            _ if !self.record_uploads => return Ok(()),
            Some(protected) if protected.is_sealed() => {
                "updates are sealed, so that there are no single uploads to retain"
            }
            _ if coordinator.is_anonymous() => {
                "nobody knows whose anonymous uploads are, so that those of a device that withdraws could not be deleted"
            }
            _ if !has_folder => "this server has no folder for them",
            _ => return Ok(()),
        };
        Err(ConfigError::Retention(why))
    }

    /// The secret seed of the server's noise and cohorts.
    fn secret_seed(&self) -> Result<Option<[u8; 32]>, BuildError> {
        if self.simulated_noise {
            return Ok(None);
        }
        secret::random().map(Some).map_err(|error| BuildError::Randomness(error.to_string()))
    }

    /// With fewer updates a round that wants `wanted` is abandoned.
    pub(crate) fn minimum_of(&self, wanted: usize) -> u32 {
        self.minimum.unwrap_or_else(|| (wanted as u32).div_ceil(2)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_invalid_names() {
        assert!(check_name("films-2").is_ok());
        for wrong in ["", "Films", "a/b", "..", "a b", "é", &"x".repeat(65)] {
            assert!(check_name(wrong).is_err(), "{wrong:?}");
        }
    }

    fn ten_items() -> CheckedCatalog {
        CheckedCatalog { items: 10, facts: None }
    }

    fn error(config: &FederationConfig) -> String {
        config.check().unwrap_err().to_string()
    }

    #[test]
    fn missing_fields_have_defaults() {
        let config: FederationConfig = serde_json::from_str(r#"{"model":"fcf"}"#).unwrap();
        assert_eq!(config, FederationConfig::new("fcf"));
        assert_eq!((config.minimum_of(5), config.minimum_of(0)), (3, 1));
        let hosted = config.host(1, &ten_items()).unwrap();
        assert_eq!(hosted.coordinator.rules().deadline, Some(DEFAULT_DEADLINE));
        assert!(serde_json::from_str::<FederationConfig>(r#"{"model":"fcf","speed":3}"#).is_err());
    }

    #[test]
    fn rejects_values_out_of_range() {
        let config = FederationConfig::new("fcf");
        assert_eq!(error(&FederationConfig::default()), "model is missing, expected the name of a model");
        let wrong = FederationConfig { row_norm: Some(f32::NAN), ..config.clone() };
        assert_eq!(error(&wrong), "row_norm is NaN, expected a number above 0");
        let wrong = FederationConfig { norm_bound: 0.5, ..config.clone() };
        assert_eq!(error(&wrong), "norm_bound is 0.5, expected 0, or a number from 1 to a million");
        let asked = |name: &str| Criterion { name: name.to_owned(), why: String::new() };
        let wrong = FederationConfig { criteria: vec![asked("auc"), asked("auc")], ..config.clone() };
        assert_eq!(error(&wrong), "criteria is auc, expected each once");
        let wrong = FederationConfig { criteria: vec![asked(""); 33], ..config };
        assert_eq!(error(&wrong), "criteria is a list of 33, expected at most 32");
        let triples = FederationConfig::new("fpl").host(1, &ten_items()).err().unwrap().to_string();
        assert!(triples.contains("triples must be given"), "{triples}");
    }

    #[test]
    fn a_keeper_goes_with_its_seal_and_has_an_address() {
        let keeper = |url: &str, key: &str| super::KeeperConfig {
            url: url.to_owned(),
            key: key.to_owned(),
            ca: None,
            plain_http: false,
            opener: String::new(),
        };
        let settings = BTreeMap::from([("seal".to_owned(), Value::Word("keeper".to_owned()))]);
        let config = FederationConfig { settings, devices: 30, ..FederationConfig::new("fcf") };
        let checked = |config: &FederationConfig| {
            config.check().and_then(|()| config.check_seal(&config.host(1, &ten_items()).unwrap().coordinator))
        };
        let key = "09".repeat(32);
        let with = |url: &str, key: &str| FederationConfig { keeper: Some(keeper(url, key)), ..config.clone() };
        checked(&with("https://keeper.example:8471", &key)).unwrap();
        checked(&with("http://127.0.0.1:8471/", &key)).unwrap();
        let plain = KeeperConfig { plain_http: true, ..keeper("http://keeper.example", &key) };
        checked(&FederationConfig { keeper: Some(plain), ..config.clone() }).unwrap();
        for (wrong, what) in [
            (config.clone(), "keeper is missing"),
            (with("http://127.0.0.1.evil.example", &key), "keeper.url is http"),
            (with("https://keeper.example/path", &key), "keeper.url is"),
            (with("https://keeper.example", "0a"), "keeper.key is 0a"),
            (FederationConfig { settings: BTreeMap::new(), ..with("https://a", &key) }, "keeper is https://a"),
            (FederationConfig { devices: 2, ..with("https://a", &key) }, "devices is 2"),
        ] {
            let error = checked(&wrong).unwrap_err().to_string();
            assert!(error.contains(what), "{what}: {error}");
        }
    }

    #[test]
    fn seals_need_enough_devices() {
        let sealed = BTreeMap::from([("seal".to_owned(), Value::Word("secagg".to_owned()))]);
        let alone = FederationConfig { settings: sealed, ..FederationConfig::new("fcf") };
        let checked = |config: &FederationConfig| config.check_seal(&config.host(1, &ten_items()).unwrap().coordinator);
        let wrong = checked(&alone).unwrap_err().to_string();
        assert!(wrong.starts_with("devices is 1, expected"), "{wrong}");
        checked(&FederationConfig { devices: 30, ..alone }).unwrap();
    }

    /// With these settings over `fcf`, for so many devices: the seal that it is founded with, or why it is not.
    fn founded(settings: &[(&str, Value)], devices: u32) -> Result<Option<Value>, String> {
        let settings = settings.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
        let config = FederationConfig { settings, devices, ..FederationConfig::new("fcf") };
        let (config, hosted) = config.founded(1, &ten_items(), true).map_err(|error| error.to_string())?;
        let is_sealed = hosted.coordinator.privacy().is_some_and(PrivacyMechanism::is_sealed);
        let seal = config.settings.get("seal").cloned();
        assert_eq!(is_sealed, seal.as_ref().is_some_and(|seal| *seal != word("none")));
        // The decision is stored: founding it again changes nothing.
        let again = config.clone().founded(1, &ten_items(), true).map_err(|error| error.to_string())?;
        assert_eq!(again.0, config);
        Ok(seal)
    }

    fn word(word: &str) -> Value {
        Value::Word(word.to_owned())
    }

    #[test]
    fn rounds_of_100_are_sealed_unless_the_settings_say_otherwise() {
        let cohort = |count: i64| ("cohort", Value::Integer(count));
        assert_eq!(founded(&[cohort(100)], 500), Ok(Some(word("secagg"))));
        assert_eq!(founded(&[], 100), Ok(Some(word("secagg"))));
        assert_eq!(founded(&[cohort(99)], 500), Ok(None));
        assert_eq!(founded(&[], 99), Ok(None));
        assert_eq!(founded(&[cohort(100), ("seal", word("none"))], 500), Ok(Some(word("none"))));
        assert_eq!(founded(&[cohort(30), ("seal", word("secagg"))], 500), Ok(Some(word("secagg"))));
    }

    #[test]
    fn what_does_not_go_with_the_seal_by_default_is_refused_with_the_way_out() {
        let cohort = ("cohort", Value::Integer(100));
        let cases = [
            (("robust_aggregation", word("median")), 500),
            (("weighting", word("samples")), 500),
            (("anonymous", Value::Switch(true)), 500),
            // Sums have room for as many devices as are announced.
            (("epochs", Value::Integer(2)), 1),
        ];
        for (setting, devices) in cases {
            let why = founded(&[cohort.clone(), setting.clone()], devices).unwrap_err();
            assert!(why.contains("`--set seal=none`") && why.contains("(100 here)"), "{setting:?}: {why}");
            let open = founded(&[cohort.clone(), setting.clone(), ("seal", word("none"))], devices);
            assert_eq!(open, Ok(Some(word("none"))), "{setting:?}");
        }
        // What is wrong in any case says only that.
        let why = founded(&[cohort, ("speed", Value::Integer(1))], 500).unwrap_err();
        assert!(why.contains("speed") && !why.contains("seal=none"), "{why}");
        let retains = FederationConfig { record_uploads: true, devices: 100, ..FederationConfig::new("fcf") };
        let why = retains.founded(1, &ten_items(), true).map(|_| ()).unwrap_err().to_string();
        assert!(why.contains("sealed") && why.contains("`--set seal=none`"), "{why}");
    }

    #[test]
    fn retains_only_single_uploads_of_known_devices() {
        let retains = FederationConfig { record_uploads: true, ..FederationConfig::new("fcf") };
        let rejected = |key: &str, value: Value, has_folder: bool| {
            let settings = BTreeMap::from([(key.to_owned(), value)]);
            let config = FederationConfig { settings, devices: 100, ..retains.clone() };
            let hosted = config.host(1, &ten_items()).unwrap();
            config.check_retention(&hosted.coordinator, has_folder).err().map(|error| error.to_string())
        };
        let cohort = || Value::Integer(50);
        assert_eq!(rejected("cohort", cohort(), true), None);
        assert!(rejected("cohort", cohort(), false).unwrap().contains("no folder"));
        assert!(rejected("seal", Value::Word("secagg".to_owned()), true).unwrap().contains("sealed"));
        assert!(rejected("anonymous", Value::Switch(true), true).unwrap().contains("withdraws"));
    }
}
