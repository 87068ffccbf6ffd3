//! Settings in round terms: written by a server, read strictly by devices.

use super::{Domain, Setting, Settings, Value};
use sottovoce_protocol::ModelSpec;
use std::collections::BTreeMap;
use thiserror::Error;

/// Round terms that name no model of this build, or settings that it does not take.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TermsError {
    /// No such model.
    #[error("model {name:?} is not known here; known are: {known}")]
    UnknownModel {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// A setting that the model does not have, or that devices have no use for; or one that it needs.
    #[error("{model}: setting {setting:?} is {wrong}")]
    Setting {
        /// The model.
        model: String,
        /// The setting.
        setting: String,
        /// What is wrong with it: `not known` or `missing`.
        wrong: &'static str,
    },
    /// This model needs item features, and the catalog has none.
    #[error("{0} {NO_FEATURES}")]
    NoFeatures(String),
    /// A value of the wrong type, or outside what a device accepts.
    #[error("{model}: {setting} = {value:?}: expected {expected}")]
    Value {
        /// The model.
        model: String,
        /// The setting.
        setting: &'static str,
        /// What was found.
        value: String,
        /// What would be right.
        expected: String,
    },
}

/// Why a model cannot be used: it needs item features, and there are none.
pub(crate) const NO_FEATURES: &str =
    "needs facts about items, and the catalog has none: name a graph, or take the items' categories as one";

/// What devices need to know of the values that are the schema's defaults.
pub(super) fn to_terms(model: &str, schema: &[Setting]) -> ModelSpec {
    let sent = schema.iter().filter(|setting| setting.on_device.is_some());
    let settings = sent.map(|setting| (setting.key.to_owned(), setting.default.to_string())).collect();
    ModelSpec { name: model.to_owned(), settings }
}

/// The values of round terms, over the schema's defaults.
pub(super) fn from_terms(spec: &ModelSpec, schema: &[Setting]) -> Result<Settings, TermsError> {
    let model = || spec.name.clone();
    let wrong = |setting: &str, wrong| TermsError::Setting { model: model(), setting: setting.to_owned(), wrong };
    let mut values: BTreeMap<_, _> = schema.iter().map(|s| (s.key, s.default.clone())).collect();
    let sent = || schema.iter().filter_map(|setting| Some((setting.key, setting.on_device.as_ref()?)));
    for (setting, domain) in sent() {
        let text = spec.settings.get(setting).ok_or_else(|| wrong(setting, "missing"))?;
        let value = parse(domain, text).ok_or_else(|| TermsError::Value {
            model: model(),
            setting,
            value: text.clone(),
            expected: domain.to_string(),
        })?;
        values.insert(setting, value);
    }
    match spec.settings.keys().find(|key| !sent().any(|(known, _)| known == key.as_str())) {
        None => Ok(Settings { values, notes: Vec::new() }),
        Some(key) => Err(wrong(key, "not known")),
    }
}

fn parse(domain: &Domain, text: &str) -> Option<Value> {
    match domain {
        Domain::Integer { low, high, .. } => {
            text.parse().ok().filter(|value| (low..=high).contains(&value)).map(Value::Integer)
        }
        Domain::Real { low, high, .. } => {
            text.parse().ok().filter(|value| (low..=high).contains(&value)).map(Value::Real)
        }
        Domain::Choice(words) => words.contains(&text).then(|| Value::Word(text.to_owned())),
        Domain::Switch => text.parse().ok().map(Value::Switch),
        Domain::Text => Some(Value::Word(text.to_owned())),
    }
}
