//! Walking a TOML document with the place of every key and value at hand, so that mistakes can be pointed at.

use sottovoce_models::settings::{Value, nearest};
use std::ops::Range;
use thiserror::Error;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A mistake in an experiment file, and where it is.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{file}:{line}:{column}: {message}")]
pub struct FileError {
    /// The file as the caller named it.
    pub file: String,
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// What is wrong and what would be right.
    pub message: String,
}

pub(crate) type Entry<'a> = Spanned<DeValue<'a>>;
pub(crate) type Result<T> = std::result::Result<T, FileError>;

/// The text that spans point into.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) file: &'a str,
    pub(crate) text: &'a str,
}

impl Source<'_> {
    pub(crate) fn error(&self, span: Range<usize>, message: impl Into<String>) -> FileError {
        let before = &self.text[..span.start.min(self.text.len())];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        FileError {
            file: self.file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            message: message.into(),
        }
    }

    fn unexpected(&self, key: &str, expected: &str, found: &Entry<'_>) -> FileError {
        self.error(found.span(), format!("{key}: expected {expected}, found {}", kind(found)))
    }
}

/// A table whose keys are all known.
pub(crate) struct Fields<'a> {
    pub(crate) source: Source<'a>,
    pub(crate) span: Range<usize>,
    table: &'a DeTable<'a>,
}

impl<'a> Fields<'a> {
    /// Refuses keys that are not among `known`; `place` says where the table stands, as in "a [[model]]".
    pub(crate) fn open(
        source: Source<'a>,
        table: &'a DeTable<'a>,
        span: Range<usize>,
        place: &str,
        known: &[&str],
    ) -> Result<Self> {
        for (key, _) in table {
            let name: &str = key.get_ref();
            if !known.contains(&name) {
                let hint = did_you_mean(nearest(name, known.iter().copied()));
                let message =
                    format!("{place} has no key `{name}`{hint}; its keys are: {}", known.join(", "));
                return Err(source.error(key.span(), message));
            }
        }
        Ok(Self { source, span, table })
    }

    pub(crate) fn get(&self, key: &str) -> Option<&'a Entry<'a>> {
        self.table.get(key)
    }

    /// What `read` makes of the value of this key, if it is there.
    pub(crate) fn read<T>(
        &self,
        key: &str,
        read: impl Fn(Source<'a>, &str, &'a Entry<'a>) -> Result<T>,
    ) -> Result<Option<T>> {
        self.get(key).map(|entry| read(self.source, key, entry)).transpose()
    }

    /// As [`read`](Self::read), for keys that must be there.
    pub(crate) fn need<T>(
        &self,
        key: &str,
        place: &str,
        read: impl Fn(Source<'a>, &str, &'a Entry<'a>) -> Result<T>,
    ) -> Result<T> {
        self.read(key, read)?
            .ok_or_else(|| self.source.error(self.span.clone(), format!("{place} needs `{key}`")))
    }
}

pub(crate) fn text(source: Source<'_>, key: &str, entry: &Entry<'_>) -> Result<String> {
    match entry.get_ref() {
        DeValue::String(text) if !text.trim().is_empty() => Ok(text.trim().to_owned()),
        DeValue::String(_) => Err(source.error(entry.span(), format!("{key}: expected text, found \"\""))),
        _ => Err(source.unexpected(key, "text in quotes", entry)),
    }
}

/// A whole number of at least 1.
pub(crate) fn count(source: Source<'_>, key: &str, entry: &Entry<'_>) -> Result<usize> {
    match scalar(entry) {
        Some(Value::Integer(n)) if n >= 1 => Ok(n as usize),
        Some(value) => Err(source
            .error(entry.span(), format!("{key}: expected a whole number of at least 1, found {value}"))),
        None => Err(source.unexpected(key, "a whole number of at least 1", entry)),
    }
}

pub(crate) fn number(source: Source<'_>, key: &str, entry: &Entry<'_>) -> Result<f64> {
    match scalar(entry) {
        Some(Value::Integer(n)) => Ok(n as f64),
        Some(Value::Real(x)) if x.is_finite() => Ok(x),
        _ => Err(source.unexpected(key, "a number", entry)),
    }
}

pub(crate) fn switch(source: Source<'_>, key: &str, entry: &Entry<'_>) -> Result<bool> {
    match entry.get_ref() {
        DeValue::Boolean(value) => Ok(*value),
        _ => Err(source.unexpected(key, "true or false", entry)),
    }
}

/// One of a few words.
pub(crate) fn word<T: Copy>(
    choices: &'static [(&'static str, T)],
) -> impl Fn(Source<'_>, &str, &Entry<'_>) -> Result<T> {
    move |source, key, entry| {
        let given = text(source, key, entry)?;
        choices.iter().find(|(name, _)| *name == given).map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
            let hint = did_you_mean(nearest(&given, names.iter().copied()));
            let message = format!("{key}: expected one of {}, found `{given}`{hint}", names.join(", "));
            source.error(entry.span(), message)
        })
    }
}

pub(crate) fn value(source: Source<'_>, key: &str, entry: &Entry<'_>) -> Result<Value> {
    scalar(entry).ok_or_else(|| source.unexpected(key, "a number, a word or true/false", entry))
}

/// A list with at least one element.
pub(crate) fn list<'a>(source: Source<'a>, key: &str, entry: &'a Entry<'a>) -> Result<&'a [Entry<'a>]> {
    match entry.get_ref() {
        DeValue::Array(items) if items.is_empty() => {
            Err(source.error(entry.span(), format!("{key}: the list is empty")))
        }
        DeValue::Array(items) => Ok(items),
        _ => Err(source.unexpected(key, "a list in [ ]", entry)),
    }
}

pub(crate) fn table<'a>(source: Source<'a>, key: &str, entry: &'a Entry<'a>) -> Result<&'a DeTable<'a>> {
    match entry.get_ref() {
        DeValue::Table(table) => Ok(table),
        _ => Err(source.unexpected(key, "a table", entry)),
    }
}

fn scalar(entry: &Entry<'_>) -> Option<Value> {
    match entry.get_ref() {
        DeValue::String(text) => Some(Value::Word(text.to_string())),
        DeValue::Integer(n) => i64::from_str_radix(n.as_str(), n.radix()).ok().map(Value::Integer),
        DeValue::Float(x) => x.as_str().parse().ok().map(Value::Real),
        DeValue::Boolean(value) => Some(Value::Switch(*value)),
        _ => None,
    }
}

fn kind(entry: &Entry<'_>) -> String {
    match entry.get_ref() {
        DeValue::String(text) => format!("\"{text}\""),
        DeValue::Integer(n) => n.to_string(),
        DeValue::Float(x) => x.to_string(),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Datetime(_) => "a date".to_owned(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

/// " (did you mean `x`?)", or nothing.
pub(crate) fn did_you_mean(nearest: Option<String>) -> String {
    nearest.map_or_else(String::new, |name| format!(" (did you mean `{name}`?)"))
}

/// The label most like `given`, whatever the case of its letters.
pub(crate) fn nearest_label(given: &str, labels: &[&str]) -> Option<String> {
    let lower: Vec<String> = labels.iter().map(|label| label.to_lowercase()).collect();
    let near = nearest(given, lower.iter().map(String::as_str))?;
    lower.iter().position(|label| *label == near).map(|at| labels[at].to_owned())
}
