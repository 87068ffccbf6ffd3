//! Reading a model's settings from round terms: strictly, because they come from a server.

use sottovoce_protocol::ModelSpec;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use thiserror::Error;

/// Round terms that name no model of this build, or settings that it does not take.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SpecError {
    /// No such model.
    #[error("model {name:?} is not known here; known are: {known}")]
    UnknownModel {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// A setting that the model does not have.
    #[error("{model}: setting {setting:?} is not known")]
    UnknownSetting {
        /// The model.
        model: String,
        /// The setting.
        setting: String,
    },
    /// A setting that the model needs.
    #[error("{model}: setting {setting:?} is missing")]
    Missing {
        /// The model.
        model: String,
        /// The setting.
        setting: &'static str,
    },
    /// The model goes by facts about items, and the catalog has none.
    #[error("{model} {NO_FACTS}")]
    NoFacts {
        /// The model.
        model: String,
    },
    /// A value that is not of its kind, or out of range.
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

/// Why a model cannot be had: it goes by facts, and there are none.
pub(crate) const NO_FACTS: &str = "goes by facts about items, and the catalog has none: name a graph, or take the items' \
    categories as one";

/// Takes settings out of a specification one by one; what is left at the end is unknown.
pub(crate) struct SpecReader<'a> {
    spec: &'a ModelSpec,
    taken: Vec<&'static str>,
}

impl<'a> SpecReader<'a> {
    pub(crate) fn new(spec: &'a ModelSpec) -> Self {
        Self { spec, taken: Vec::new() }
    }

    /// A whole number within a range.
    pub(crate) fn whole(
        &mut self,
        key: &'static str,
        range: RangeInclusive<usize>,
    ) -> Result<usize, SpecError> {
        self.take(key, range, "a whole number")
    }

    /// A number within a range; none that is not finite is.
    pub(crate) fn real(&mut self, key: &'static str, range: RangeInclusive<f32>) -> Result<f32, SpecError> {
        self.take(key, range, "a number")
    }

    fn take<T: FromStr + PartialOrd + Display>(
        &mut self,
        key: &'static str,
        range: RangeInclusive<T>,
        kind: &str,
    ) -> Result<T, SpecError> {
        let model = || self.spec.name.clone();
        let text = self.spec.settings.get(key);
        let text = text.ok_or_else(|| SpecError::Missing { model: model(), setting: key })?;
        let value = text.parse().ok().filter(|value| range.contains(value));
        let value = value.ok_or_else(|| SpecError::Value {
            model: model(),
            setting: key,
            value: text.clone(),
            expected: format!("{kind} from {} to {}", range.start(), range.end()),
        })?;
        self.taken.push(key);
        Ok(value)
    }

    /// One of some words, by `named`; `None` if the setting is not there.
    pub(crate) fn word<T>(
        &mut self,
        key: &'static str,
        known: &[&str],
        named: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, SpecError> {
        let Some(text) = self.spec.settings.get(key) else { return Ok(None) };
        self.taken.push(key);
        let value = named(text).ok_or_else(|| SpecError::Value {
            model: self.spec.name.clone(),
            setting: key,
            value: text.clone(),
            expected: format!("one of {}", known.join(", ")),
        })?;
        Ok(Some(value))
    }

    /// Nothing may be left.
    pub(crate) fn end(self) -> Result<(), SpecError> {
        match self.spec.settings.keys().find(|key| !self.taken.contains(&key.as_str())) {
            None => Ok(()),
            Some(key) => {
                Err(SpecError::UnknownSetting { model: self.spec.name.clone(), setting: key.clone() })
            }
        }
    }
}
