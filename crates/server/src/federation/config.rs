//! What an operator says of a federation.

use super::catalog::Checked;
use crate::secret;
use serde::{Deserialize, Serialize};
use sottovoce_federation::registry::{self, HostError};
use sottovoce_federation::{Coordinator, Hosted, Hosting};
use sottovoce_models::settings::Value;
use sottovoce_privacy::PrivacyMechanism;
use sottovoce_protocol::{CriterionRequest, FederationId, limits};
use std::collections::{BTreeMap, BTreeSet};

/// Seconds after which a round is over where its settings name no deadline: nobody waits for ever.
const DEFAULT_DEADLINE: f64 = 3600.0;

/// A federation's configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FederationConfig {
    /// The model's name in the registry.
    pub model: String,
    /// Its settings, over the defaults; `cohort`, `over_selection` and `deadline` among them.
    #[serde(default)]
    pub settings: BTreeMap<String, Value>,
    /// Determines the first shared model and the cohorts.
    #[serde(default)]
    pub seed: u64,
    /// Rounds after which it is finished; not given: as the settings' epochs come to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u64>,
    /// Devices without which no round begins.
    #[serde(default = "one")]
    pub devices: u32,
    /// Updates without which a round is abandoned; not given: half of those wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum: Option<u32>,
    /// Only devices heard of within so many seconds are asked; not given: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub present_within: Option<u32>,
    /// Mean seconds between two check-ins of a device that has nothing to do.
    #[serde(default = "minute")]
    pub check_in_seconds: u32,
    /// Check-ins a second that are enough: with many devices they are told to come back later instead.
    #[serde(default = "many")]
    pub check_ins_per_second: u32,
    /// Updates that have a row of a larger Euclidean norm are refused; not given: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row_norm: Option<f32>,
    /// Bytes of an update at most; not given: what an update of all rows takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload_bytes: Option<u64>,
    /// Whether the shared model is for enrolled devices only. Caches on the way cannot help then.
    #[serde(default)]
    pub private_models: bool,
    /// Whether devices are asked how many samples they learnt from.
    #[serde(default)]
    pub samples: bool,
    /// Criteria that devices are asked for, and why.
    #[serde(default)]
    pub criteria: Vec<Criterion>,
    /// Versions of the shared model that are kept.
    #[serde(default = "eight")]
    pub keep_versions: u32,
    /// What becomes of what was learnt from somebody who withdraws.
    #[serde(default)]
    pub unlearn: Unlearn,
    /// Where updates are sealed: seconds after which a step but the first goes on without those who have not answered.
    #[serde(default = "minute")]
    pub seal_step_seconds: u32,
    /// Where updates are encrypted: the digest of the key that devices share and this server does not have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal_key_digest: Option<String>,
    /// Whether the server's noise follows from `seed`, so that a deployed federation can be held against the simulator.
    /// Never for people's devices: who knows the seed can take the noise away.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub simulated_noise: bool,
    /// Whether the server keeps every upload that is taken, for an audit. Devices are told with every round's terms.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub record_uploads: bool,
}

/// What becomes of what was learnt from somebody who withdraws. Stored data goes at once in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unlearn {
    /// It stays in the shared model.
    #[default]
    None,
    /// Training goes back to before they enrolled, and is done again without them.
    Retrain,
}

/// A criterion that devices are asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Criterion {
    /// Its name.
    pub name: String,
    /// What it is for, for the owner to read.
    #[serde(default)]
    pub why: String,
}

fn one() -> u32 {
    1
}

fn eight() -> u32 {
    8
}

fn minute() -> u32 {
    60
}

fn many() -> u32 {
    1000
}

/// Why a federation cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A name that cannot stand in an address.
    #[error("the name {0:?} is not 1 to 64 small letters, digits and hyphens")]
    Name(String),
    /// A value out of its range.
    #[error("{key} is {value}, expected {expected}")]
    Value {
        /// Which.
        key: &'static str,
        /// What it is.
        value: String,
        /// What it may be.
        expected: &'static str,
    },
    /// The model or its settings.
    #[error(transparent)]
    Model(#[from] HostError),
    /// Uploads that cannot be kept.
    #[error("record_uploads: {0}")]
    Uploads(&'static str),
}

fn within(
    key: &'static str,
    fine: bool,
    value: &dyn ToString,
    expected: &'static str,
) -> Result<(), ConfigError> {
    if fine { Ok(()) } else { Err(ConfigError::Value { key, value: value.to_string(), expected }) }
}

/// Checks a federation's name.
///
/// # Errors
/// If it cannot stand in an address.
pub fn check_name(name: &str) -> Result<(), ConfigError> {
    let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if (1..=64).contains(&name.len()) && name.bytes().all(letter) {
        return Ok(());
    }
    Err(ConfigError::Name(name.chars().take(80).collect()))
}

impl FederationConfig {
    /// The smallest: a model, everything else by default.
    pub fn of(model: &str) -> Self {
        Self {
            model: model.to_owned(),
            settings: BTreeMap::new(),
            seed: 0,
            rounds: None,
            devices: one(),
            minimum: None,
            present_within: None,
            check_in_seconds: minute(),
            check_ins_per_second: many(),
            row_norm: None,
            upload_bytes: None,
            private_models: false,
            samples: false,
            criteria: Vec::new(),
            keep_versions: eight(),
            unlearn: Unlearn::None,
            seal_step_seconds: minute(),
            seal_key_digest: None,
            simulated_noise: false,
            record_uploads: false,
        }
    }

    /// Checks what does not concern the model.
    ///
    /// # Errors
    /// Names the first value that is out of range.
    pub fn check(&self) -> Result<(), ConfigError> {
        within("devices", (1..=100_000_000).contains(&self.devices), &self.devices, "1 to 100 million")?;
        within("rounds", self.rounds != Some(0), &0, "at least 1")?;
        within("minimum", self.minimum != Some(0), &0, "at least 1")?;
        within("keep_versions", self.keep_versions >= 1, &self.keep_versions, "at least 1")?;
        within("seal_step_seconds", self.seal_step_seconds >= 1, &0, "at least 1")?;
        within("check_ins_per_second", self.check_ins_per_second >= 1, &0, "at least 1")?;
        let day = 86_400;
        within("check_in_seconds", self.check_in_seconds <= day, &self.check_in_seconds, "at most 86400")?;
        self.check_criteria()?;
        let norm = self.row_norm.unwrap_or(1.0);
        within("row_norm", norm.is_finite() && norm > 0.0, &norm, "a number above 0")
    }

    /// Terms that ask for these can be sent.
    fn check_criteria(&self) -> Result<(), ConfigError> {
        let (count, most) = (self.criteria.len(), limits::CRITERIA as usize);
        within("criteria", count <= most, &format!("a list of {count}"), "at most 32")?;
        let mut names = BTreeSet::new();
        for Criterion { name, why } in &self.criteria {
            let fits = (1..=limits::NAME_BYTES as usize).contains(&name.len());
            let shown = || name.chars().take(80).collect::<String>();
            within("criteria", fits, &shown(), "names of 1 to 128 bytes")?;
            within(
                "criteria",
                why.len() <= limits::TEXT_BYTES as usize,
                &shown(),
                "reasons of at most 4096 bytes",
            )?;
            within("criteria", names.insert(name), &shown(), "each once")?;
        }
        Ok(())
    }

    /// The server's half of the model.
    ///
    /// # Errors
    /// If the model or a setting is wrong.
    pub fn host(&self, federation: u64, catalog: &Checked) -> Result<Hosted, HostError> {
        let asked = |each: &Criterion| CriterionRequest { name: each.name.clone(), purpose: each.why.clone() };
        let hosting = Hosting {
            federation: FederationId(federation),
            items: catalog.items,
            facts: catalog.facts.clone(),
            devices: self.devices as usize,
            seed: self.seed,
            samples: self.samples,
            criteria: self.criteria.iter().map(asked).collect(),
            noise: self.noise()?,
            key_digest: self.seal_key_digest.clone(),
            rounds: self.rounds,
        };
        let mut settings: Vec<(&str, Value)> =
            self.settings.iter().map(|(key, value)| (key.as_str(), value.clone())).collect();
        let is_deadline = |(key, value): &(&str, Value)| {
            *key == "deadline" && !matches!(value, Value::Integer(0)) && *value != Value::Real(0.0)
        };
        if !settings.iter().any(is_deadline) {
            settings.retain(|(key, _)| *key != "deadline");
            settings.push(("deadline", Value::Real(DEFAULT_DEADLINE)));
        }
        registry::host(&self.model, settings, &hosting)
    }

    /// Checks that masks can hide somebody among as many devices as the sums of rounds have room for.
    ///
    /// # Errors
    /// If they cannot.
    pub fn check_sealing(&self, coordinator: &Coordinator) -> Result<(), ConfigError> {
        let Some(protection) = coordinator.protected().map(PrivacyMechanism::config) else { return Ok(()) };
        let room = protection.quantization.map_or(0, |integers| integers.devices);
        let expected = "as many as a sealed round is to have, and at least 3: its sums have room for so many";
        within("devices", protection.seals(room).is_ok(), &self.devices, expected)
    }

    /// Checks that uploads can be kept, where they are to be.
    ///
    /// # Errors
    /// Says why not.
    pub fn check_recording(&self, coordinator: &Coordinator, has_place: bool) -> Result<(), ConfigError> {
        let why = match coordinator.protected() {
            _ if !self.record_uploads => return Ok(()),
            Some(protected) if protected.is_sealed() => {
                "updates are sealed, so that there are no single uploads to keep"
            }
            _ if coordinator.is_anonymous() => {
                "nobody knows whose anonymous uploads are, so that those of somebody who withdraws could not be deleted"
            }
            _ if !has_place => "this server has no folder for them",
            _ => return Ok(()),
        };
        Err(ConfigError::Uploads(why))
    }

    /// What the server's noise follows from.
    fn noise(&self) -> Result<Option<[u8; 32]>, HostError> {
        if self.simulated_noise {
            return Ok(None);
        }
        secret::random().map(Some).map_err(|error| HostError::Randomness(error.to_string()))
    }

    /// Updates without which a round that wants so many is abandoned.
    pub fn minimum_of(&self, wanted: usize) -> u32 {
        self.minimum.unwrap_or_else(|| (wanted as u32).div_ceil(2)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_cannot_stand_in_an_address_are_refused() {
        assert!(check_name("films-2").is_ok());
        for wrong in ["", "Films", "a/b", "..", "a b", "é", &"x".repeat(65)] {
            assert!(check_name(wrong).is_err(), "{wrong:?}");
        }
    }

    fn ten() -> Checked {
        Checked { items: 10, facts: None }
    }

    #[test]
    fn what_is_not_given_has_a_default_and_what_is_wrong_is_named() {
        let config: FederationConfig = serde_json::from_str(r#"{"model":"fcf"}"#).unwrap();
        assert_eq!(config, FederationConfig::of("fcf"));
        assert_eq!((config.minimum_of(5), config.minimum_of(0)), (3, 1));
        let hosted = config.host(1, &ten()).unwrap();
        assert_eq!(hosted.coordinator.rules().deadline, Some(DEFAULT_DEADLINE));
        let wrong = FederationConfig { row_norm: Some(f32::NAN), ..config.clone() };
        assert_eq!(wrong.check().unwrap_err().to_string(), "row_norm is NaN, expected a number above 0");
        assert!(serde_json::from_str::<FederationConfig>(r#"{"model":"fcf","speed":3}"#).is_err());
        let asked = |name: &str| Criterion { name: name.to_owned(), why: String::new() };
        let wrong =
            FederationConfig { criteria: vec![asked("auc"), asked("auc")], ..FederationConfig::of("fcf") };
        assert_eq!(wrong.check().unwrap_err().to_string(), "criteria is auc, expected each once");
        let wrong = FederationConfig { criteria: vec![asked(""); 33], ..wrong };
        assert_eq!(wrong.check().unwrap_err().to_string(), "criteria is a list of 33, expected at most 32");
        let sealed = BTreeMap::from([("seal".to_owned(), Value::Word("secagg".to_owned()))]);
        let alone = FederationConfig { settings: sealed, ..FederationConfig::of("fcf") };
        let wrong = alone.check_sealing(&alone.host(1, &ten()).unwrap().coordinator).unwrap_err().to_string();
        assert!(wrong.starts_with("devices is 1, expected"), "{wrong}");
        let many = FederationConfig { devices: 30, ..alone };
        many.check_sealing(&many.host(1, &ten()).unwrap().coordinator).unwrap();
        let keeps = FederationConfig { record_uploads: true, ..FederationConfig::of("fcf") };
        let refused = |key: &str, value: Value, has_place: bool| {
            let settings = BTreeMap::from([(key.to_owned(), value)]);
            let config = FederationConfig { settings, devices: 100, ..keeps.clone() };
            let checked = config.check_recording(&config.host(1, &ten()).unwrap().coordinator, has_place);
            checked.err().map(|error| error.to_string())
        };
        let cohort = || Value::Integer(50);
        assert_eq!(refused("cohort", cohort(), true), None);
        assert!(refused("cohort", cohort(), false).unwrap().contains("no folder"));
        assert!(refused("seal", Value::Word("secagg".to_owned()), true).unwrap().contains("sealed"));
        assert!(refused("anonymous", Value::Switch(true), true).unwrap().contains("withdraws"));
        let triples = FederationConfig::of("fpl").host(1, &ten()).err().unwrap().to_string();
        assert!(triples.contains("triples must be given"), "{triples}");
    }
}
