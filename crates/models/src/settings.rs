//! Settings of models: typed, documented, with ranges, so that help, checks and searches come from one place.

use crate::ModelError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

/// One setting of a model, as documented to users.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The name used in files and on the command line.
    pub key: &'static str,
    /// One sentence: what it does.
    pub help: &'static str,
    /// The value if none is given.
    pub default: Value,
    /// What values are taken, and over which range a search looks.
    pub domain: Domain,
}

impl Setting {
    /// A whole number within a range.
    pub fn integer(key: &'static str, default: i64, range: RangeInclusive<i64>, help: &'static str) -> Self {
        let domain = Domain::Integer { low: *range.start(), high: *range.end(), log: false };
        Self { key, help, default: Value::Integer(default), domain }
    }

    /// A number within a range.
    pub fn real(key: &'static str, default: f64, range: RangeInclusive<f64>, help: &'static str) -> Self {
        let domain = Domain::Real { low: *range.start(), high: *range.end(), log: false };
        Self { key, help, default: Value::Real(default), domain }
    }

    /// One of a few words; the first is the default.
    ///
    /// # Panics
    /// If there is no word.
    pub fn choice(key: &'static str, words: &'static [&'static str], help: &'static str) -> Self {
        Self { key, help, default: Value::Word(words[0].to_owned()), domain: Domain::Choice(words) }
    }

    /// `true` or `false`.
    pub fn switch(key: &'static str, default: bool, help: &'static str) -> Self {
        Self { key, help, default: Value::Switch(default), domain: Domain::Switch }
    }

    /// Any text, such as a path; none by default.
    pub fn text(key: &'static str, help: &'static str) -> Self {
        Self { key, help, default: Value::Word(String::new()), domain: Domain::Text }
    }

    /// The same, with searches on a logarithmic scale.
    #[must_use]
    pub fn on_log_scale(mut self) -> Self {
        if let Domain::Integer { log, .. } | Domain::Real { log, .. } = &mut self.domain {
            *log = true;
        }
        self
    }
}

/// The values a setting takes.
#[derive(Clone, Debug)]
pub enum Domain {
    /// Whole numbers, both ends included.
    Integer {
        /// Smallest.
        low: i64,
        /// Largest.
        high: i64,
        /// Whether a search should look on a logarithmic scale.
        log: bool,
    },
    /// Finite numbers, both ends included.
    Real {
        /// Smallest.
        low: f64,
        /// Largest.
        high: f64,
        /// Whether a search should look on a logarithmic scale.
        log: bool,
    },
    /// One of these words.
    Choice(&'static [&'static str]),
    /// `true` or `false`.
    Switch,
    /// Any text.
    Text,
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Domain::Integer { low, high, .. } => write!(f, "a whole number from {low} to {high}"),
            Domain::Real { low, high, .. } => write!(f, "a number from {low} to {high}"),
            Domain::Choice(words) => write!(f, "one of {}", words.join(", ")),
            Domain::Switch => f.write_str("true or false"),
            Domain::Text => f.write_str("a text"),
        }
    }
}

/// A setting's value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// `true` or `false`.
    Switch(bool),
    /// A whole number.
    Integer(i64),
    /// A number.
    Real(f64),
    /// A word.
    Word(String),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Switch(v) => v.fmt(f),
            Value::Integer(v) => v.fmt(f),
            Value::Real(v) => v.fmt(f),
            Value::Word(v) => v.fmt(f),
        }
    }
}

impl Value {
    /// Reads a value as people write it: `true`, `20`, `0.05`, `cosine`.
    pub fn parse(text: &str) -> Value {
        let text = text.trim();
        if let Ok(v) = text.parse() {
            Value::Switch(v)
        } else if let Ok(v) = text.parse() {
            Value::Integer(v)
        } else if let Ok(v) = text.parse() {
            Value::Real(v)
        } else {
            Value::Word(text.to_owned())
        }
    }
}

/// A complete and checked set of values for one model.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Settings {
    #[serde(skip)]
    model: &'static str,
    values: BTreeMap<&'static str, Value>,
}

impl Settings {
    /// The defaults, with `given` put over them, every one checked.
    ///
    /// # Errors
    /// If a key is unknown or a value is outside its domain; the message names the nearest that would be right.
    pub fn check<'a>(
        model: &'static str,
        schema: &[Setting],
        given: impl IntoIterator<Item = (&'a str, Value)>,
    ) -> Result<Self, ModelError> {
        let mut values: BTreeMap<_, _> = schema.iter().map(|s| (s.key, s.default.clone())).collect();
        for (key, value) in given {
            let Some(setting) = schema.iter().find(|s| s.key == key) else {
                let keys: Vec<_> = schema.iter().map(|s| s.key).collect();
                return Err(ModelError::UnknownSetting {
                    model: model.to_owned(),
                    key: key.to_owned(),
                    suggestion: nearest(key, keys.iter().copied()),
                    known: if keys.is_empty() { "none".to_owned() } else { keys.join(", ") },
                });
            };
            values.insert(setting.key, fit_domain(model, setting, &value)?);
        }
        Ok(Self { model, values })
    }

    /// The values by key.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.values.iter().map(|(key, value)| (*key, value))
    }

    /// A whole number.
    ///
    /// # Panics
    /// If the schema has no whole number of this name: a mistake of the model's author.
    pub fn integer(&self, key: &str) -> usize {
        match self.values.get(key) {
            Some(&Value::Integer(v)) if v >= 0 => v as usize,
            other => panic!("{}: setting {key} is {other:?}, not a whole number", self.model),
        }
    }

    /// A number.
    ///
    /// # Panics
    /// If the schema has no number of this name.
    pub fn real(&self, key: &str) -> f64 {
        match self.values.get(key) {
            Some(&Value::Real(v)) => v,
            other => panic!("{}: setting {key} is {other:?}, not a number", self.model),
        }
    }

    /// A word.
    ///
    /// # Panics
    /// If the schema has no choice or text of this name.
    pub fn word(&self, key: &str) -> &str {
        match self.values.get(key) {
            Some(Value::Word(v)) => v,
            other => panic!("{}: setting {key} is {other:?}, not a word", self.model),
        }
    }

    /// A switch.
    ///
    /// # Panics
    /// If the schema has no switch of this name.
    pub fn switch(&self, key: &str) -> bool {
        match self.values.get(key) {
            Some(&Value::Switch(v)) => v,
            other => panic!("{}: setting {key} is {other:?}, not a switch", self.model),
        }
    }
}

fn fit_domain(model: &str, setting: &Setting, value: &Value) -> Result<Value, ModelError> {
    let within = |v: f64, low: &f64, high: &f64| (*low..=*high).contains(&v).then_some(Value::Real(v));
    let fitted = match (&setting.domain, value) {
        (Domain::Integer { low, high, .. }, Value::Integer(v)) => {
            (low..=high).contains(&v).then(|| value.clone())
        }
        (Domain::Real { low, high, .. }, Value::Integer(v)) => within(*v as f64, low, high),
        (Domain::Real { low, high, .. }, Value::Real(v)) => within(*v, low, high),
        (Domain::Choice(words), Value::Word(v)) => words.contains(&v.as_str()).then(|| value.clone()),
        (Domain::Switch, Value::Switch(_)) => Some(value.clone()),
        (Domain::Text, _) => Some(Value::Word(value.to_string())),
        _ => None,
    };
    fitted.ok_or_else(|| ModelError::BadValue {
        model: model.to_owned(),
        key: setting.key.to_owned(),
        suggestion: match (&setting.domain, value) {
            (Domain::Choice(words), Value::Word(v)) => nearest(v, words.iter().copied()),
            _ => None,
        },
        value: value.to_string(),
        expected: setting.domain.to_string(),
    })
}

/// The candidate most like `word`, if one is like enough to be what was meant.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    candidates
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(&word.to_lowercase(), candidate), candidate))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> Vec<Setting> {
        vec![
            Setting::integer("factors", 20, 1..=512, "").on_log_scale(),
            Setting::real("rate", 0.05, 0.0..=1.0, ""),
            Setting::choice("similarity", &["cosine", "jaccard"], ""),
        ]
    }

    fn message(given: &[(&str, &str)]) -> String {
        let given = given.iter().map(|(k, v)| (*k, Value::parse(v)));
        Settings::check("toy", &schema(), given).unwrap_err().to_string()
    }

    #[test]
    fn defaults_and_whole_numbers_for_reals_are_taken() {
        let settings = Settings::check("toy", &schema(), [("rate", Value::parse("1"))]).unwrap();
        assert_eq!(
            (settings.real("rate"), settings.integer("factors"), settings.word("similarity")),
            (1.0, 20, "cosine")
        );
    }

    #[test]
    fn mistakes_are_named_with_the_nearest_right_thing() {
        assert_eq!(
            message(&[("factor", "3")]),
            "toy has no setting `factor` (did you mean `factors`?); its settings are: factors, rate, similarity"
        );
        assert_eq!(
            message(&[("similarity", "cosin")]),
            "toy: similarity = cosin: expected one of cosine, jaccard (did you mean `cosine`?)"
        );
        assert_eq!(message(&[("factors", "0")]), "toy: factors = 0: expected a whole number from 1 to 512");
        assert_eq!(message(&[("rate", "NaN")]), "toy: rate = NaN: expected a number from 0 to 1");
        assert_eq!(
            message(&[("factors", "2.5")]),
            "toy: factors = 2.5: expected a whole number from 1 to 512"
        );
    }
}
