//! Settings: each is written once, in a [`config!`](crate::config) struct, with its name, type, default, range and
//! help.
//!
//! The command line, experiment files, round terms, hyperparameter searches and `sottovoce models` all follow from that
//! definition. [`Setting`] is what is known of one of them, [`Settings`] a complete and checked set of values.

mod config;
mod terms;
mod words;

pub use config::{Choice, Config, SettingType};
pub(crate) use terms::NO_FEATURES;
pub use terms::TermsError;
pub use words::{Group, find, is_word_for};

use crate::ModelError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// One setting, as documented to users.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The name used in files and on the command line.
    pub key: &'static str,
    /// One sentence: what it does.
    pub help: &'static str,
    /// The value if none is given.
    pub default: Value,
    /// The values it takes, and the range a search looks in.
    pub domain: Domain,
    /// Earlier names, still accepted.
    pub aliases: &'static [&'static str],
    /// Earlier names of its values, still accepted, each with the name of today.
    pub value_aliases: &'static [(&'static str, &'static str)],
    /// What a device accepts from round terms; `None` for a setting that devices do not need.
    pub on_device: Option<Domain>,
    /// Computed from other settings and sent to devices; users cannot set it.
    pub derived: bool,
    /// What it is about.
    pub group: Group,
}

impl Setting {
    fn new(key: &'static str, default: Value, domain: Domain, help: &'static str) -> Self {
        let (aliases, value_aliases, group) = (&[], &[], Group::of_key(key));
        Self { key, help, default, domain, aliases, value_aliases, on_device: None, derived: false, group }
    }

    /// The same, with searches on a logarithmic scale.
    #[must_use]
    pub fn on_log_scale(mut self) -> Self {
        if let Domain::Integer { log, .. } | Domain::Real { log, .. } = &mut self.domain {
            *log = true;
        }
        self
    }

    /// The same, also accepted under earlier names.
    #[must_use]
    pub fn renamed_from(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    /// The same, sent to devices, which accept values of this domain.
    #[must_use]
    pub fn sent_to_devices(self, on_device: Domain) -> Self {
        Self { on_device: Some(on_device), ..self }
    }

    /// The same, sent to devices, which accept what users may set.
    #[must_use]
    pub fn sent_as_set(self) -> Self {
        let domain = self.domain.clone();
        self.sent_to_devices(domain)
    }

    /// The same, computed instead of set by users.
    #[must_use]
    pub fn not_settable(self) -> Self {
        Self { derived: true, ..self }
    }

    /// Whether this is one of the setting's names, in either spelling of "regularisation", or `l2` for it.
    pub fn answers_to(&self, key: &str) -> bool {
        let same = |name: &str| {
            name == key
                || name.strip_suffix("regularisation").is_some_and(|stem| {
                    key.strip_prefix(stem).is_some_and(|rest| rest == "regularization" || rest == "l2")
                })
        };
        same(self.key) || self.aliases.iter().any(|alias| same(alias))
    }

    /// What to say to users who give it by an earlier name.
    pub fn note_on(&self, key: &str) -> Option<String> {
        self.aliases.contains(&key).then(|| format!("setting `{key}` is now called `{}`", self.key))
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
    /// The number, if it is one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Value::Integer(number) => Some(*number as f64),
            Value::Real(number) => Some(*number),
            Value::Switch(_) | Value::Word(_) => None,
        }
    }

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
    values: BTreeMap<&'static str, Value>,
    /// On names that are other words for settings, and settings that do nothing.
    #[serde(skip)]
    notes: Vec<String>,
}

impl Settings {
    /// The defaults, with `given` put over them, every one checked. Of several values of a setting the last counts, and
    /// a note says so.
    ///
    /// # Errors
    /// If a key is unknown or a value is outside its domain; the message names the nearest that would be right.
    pub fn check<'a>(
        model: &str,
        schema: &[Setting],
        given: impl IntoIterator<Item = (&'a str, Value)>,
    ) -> Result<Self, ModelError> {
        let settable = || schema.iter().filter(|setting| !setting.derived);
        let mut values: BTreeMap<_, _> = settable().map(|s| (s.key, s.default.clone())).collect();
        let (mut notes, mut changed, mut seen) = (Vec::new(), Vec::new(), BTreeMap::new());
        for (key, value) in given {
            let (setting, note) = find(model, settable(), key)?;
            notes.extend(note);
            if let Some((first_key, first)) = seen.insert(setting.key, (key, value.clone())) {
                notes.push(format!("setting `{first_key}` is given twice: {first}, then {value}, which counts"));
            }
            let value = fit_domain(model, setting, &value)?;
            if value != setting.default {
                changed.push(setting.key);
            }
            values.insert(setting.key, value);
        }
        notes.extend(changed.into_iter().filter_map(|key| words::without_effect(key, values.get(key)?, &values)));
        Ok(Self { values, notes })
    }

    /// The values by key.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.values.iter().map(|(key, value)| (*key, value))
    }

    /// The value of a setting.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key)
    }

    /// A note for each setting that was given by another name, or that does nothing beside the others.
    pub fn notes(&self) -> impl Iterator<Item = String> {
        self.notes.iter().cloned()
    }
}

fn fit_domain(model: &str, setting: &Setting, value: &Value) -> Result<Value, ModelError> {
    let within = |v: f64, low: &f64, high: &f64| (*low..=*high).contains(&v).then_some(Value::Real(v));
    let fitted = match (&setting.domain, value) {
        (Domain::Integer { low, high, .. }, Value::Integer(v)) => (low..=high).contains(&v).then(|| value.clone()),
        (Domain::Real { low, high, .. }, Value::Integer(v)) => within(*v as f64, low, high),
        (Domain::Real { low, high, .. }, Value::Real(v)) => within(*v, low, high),
        (Domain::Choice(words), Value::Word(v)) => {
            let alias = setting.value_aliases.iter().find(|(old, _)| old == v);
            let word = alias.map_or(v.as_str(), |(_, new)| *new);
            words.contains(&word).then(|| Value::Word(word.to_owned()))
        }
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

    crate::choices! {
        /// For the tests.
        #[derive(Default)]
        enum Similarity {
            /// One.
            #[default]
            Cosine => "cosine",
            /// Another.
            Jaccard => "jaccard",
        }
    }

    crate::config! {
        /// For the tests.
        #[derive(PartialEq)]
        struct Toy {
            /// How many
            factors: usize = 20, in 1..=512 => [log device];
            /// How strong
            user_regularisation: f64 = 0.05, in 0.0..=1.0 => [was("user_pull")];
            /// Which
            similarity: Similarity = Similarity::Cosine;
            /// How many at most
            limit: Option<usize> = None, in 0..=9 => [device(1..=9)];
            /// Computed
            gradients: bool = false => [device derived];
        }
    }

    fn check(given: &[(&str, &str)]) -> Result<Settings, ModelError> {
        let given = given.iter().map(|(k, v)| (*k, Value::parse(v)));
        Settings::check("toy", &Toy::default().schema(), given)
    }

    fn message(given: &[(&str, &str)]) -> String {
        check(given).unwrap_err().to_string()
    }

    #[test]
    fn a_setting_that_is_given_twice_is_noted_whatever_it_is_called() {
        let settings = check(&[("user_pull", "0.1"), ("limit", "2"), ("user_regularisation", "0.3")]).unwrap();
        assert_eq!(settings.get("user_regularisation"), Some(&Value::Real(0.3)));
        let notes: Vec<String> = settings.notes().collect();
        let twice = "setting `user_pull` is given twice: 0.1, then 0.3, which counts".to_owned();
        assert!(notes.contains(&twice), "{notes:?}");
        assert_eq!(check(&[("factors", "8"), ("limit", "2")]).unwrap().notes().count(), 0);
    }

    #[test]
    fn reads_defaults_and_takes_whole_numbers_for_reals() {
        let toy = Toy::read(&check(&[("user_regularisation", "1"), ("limit", "4")]).unwrap());
        assert_eq!(toy, Toy { user_regularisation: 1.0, limit: Some(4), ..Toy::default() });
        assert_eq!(Toy::default().limit, None);
    }

    #[test]
    fn accepts_earlier_names_and_other_spellings() {
        for key in ["user_pull", "user_regularization", "user_l2"] {
            let settings = check(&[(key, "0.5")]).unwrap();
            assert_eq!(Toy::read(&settings).user_regularisation, 0.5, "{key}");
            let notes: Vec<String> = settings.notes().collect();
            assert_eq!(!notes.is_empty(), key == "user_pull", "{notes:?}");
        }
    }

    #[test]
    fn names_mistakes_with_the_nearest_right_thing() {
        assert_eq!(
            message(&[("factor", "3")]),
            "toy has no setting `factor` (did you mean `factors`?); its settings are: factors, user_regularisation, \
             similarity, limit"
        );
        assert_eq!(
            message(&[("similarity", "cosin")]),
            "toy: similarity = cosin: expected one of cosine, jaccard (did you mean `cosine`?)"
        );
        assert_eq!(message(&[("factors", "0")]), "toy: factors = 0: expected a whole number from 1 to 512");
        assert!(message(&[("user_regularisation", "NaN")]).ends_with("expected a number from 0 to 1"));
        assert!(message(&[("factors", "2.5")]).ends_with("expected a whole number from 1 to 512"));
        assert!(message(&[("gradients", "true")]).starts_with("toy has no setting `gradients`"));
    }

    #[test]
    fn round_terms_carry_what_devices_need_and_nothing_else() {
        let toy = Toy { factors: 7, limit: Some(3), gradients: true, user_regularisation: 0.3, ..Toy::default() };
        let mut spec = toy.to_terms("toy");
        let keys: Vec<&str> = spec.settings.keys().map(String::as_str).collect();
        assert_eq!(keys, ["factors", "gradients", "limit"]);
        assert_eq!(Toy::from_terms(&spec).unwrap(), Toy { user_regularisation: 0.05, ..toy });
        let mut wrong = |key: &str, value: &str| {
            let before = spec.settings.insert(key.to_owned(), value.to_owned());
            let error = Toy::from_terms(&spec).unwrap_err().to_string();
            spec.settings.remove(key);
            spec.settings.extend(before.map(|before| (key.to_owned(), before)));
            error
        };
        assert_eq!(wrong("factors", "900"), "toy: factors = \"900\": expected a whole number from 1 to 512");
        assert_eq!(wrong("limit", "0"), "toy: limit = \"0\": expected a whole number from 1 to 9");
        assert_eq!(wrong("similarity", "cosine"), "toy: setting \"similarity\" is not known");
        spec.settings.clear();
        assert_eq!(Toy::from_terms(&spec).unwrap_err().to_string(), "toy: setting \"factors\" is missing");
    }
}
