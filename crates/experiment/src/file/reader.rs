//! Reads a TOML document with the position of every value at hand, so that errors point at the mistake.

use sottovoce_models::settings::{Value, nearest};
use std::fmt::Display;
use std::ops::Range;
use thiserror::Error;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// An error in an experiment file, and its position.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{file}:{line}:{column}: {message}")]
pub struct FileError {
    /// The file as the caller named it.
    pub file: String,
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// What is wrong, and what was expected.
    pub message: String,
}

pub(super) type Entry<'a> = Spanned<DeValue<'a>>;
pub(super) type Result<T> = std::result::Result<T, FileError>;

/// The text that spans point into.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) file: &'a str,
    pub(super) text: &'a str,
}

impl Source<'_> {
    pub(super) fn error(&self, span: Range<usize>, message: impl Into<String>) -> FileError {
        let before = &self.text[..span.start.min(self.text.len())];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        FileError {
            file: self.file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            message: message.into(),
        }
    }
}

/// A table whose keys are all known; a section that is absent has none.
pub(super) struct Fields<'a> {
    pub(super) source: Source<'a>,
    name: &'static str,
    span: Range<usize>,
    table: Option<&'a DeTable<'a>>,
}

impl<'a> Fields<'a> {
    /// Rejects keys that are not among `known`; `name` is that of the table in messages, as in "a [[model]]".
    pub(super) fn open(
        source: Source<'a>,
        table: &'a DeTable<'a>,
        span: Range<usize>,
        name: &'static str,
        known: &[&str],
    ) -> Result<Self> {
        for (key, _) in table {
            let given: &str = key.get_ref();
            if !known.contains(&given) {
                let hint = did_you_mean(given, known);
                let message = format!("{name} has no key `{given}`{hint}; its keys are: {}", known.join(", "));
                return Err(source.error(key.span(), message));
            }
        }
        Ok(Self { source, name, span, table: Some(table) })
    }

    /// The section of this key; empty if it is absent.
    pub(super) fn section(&self, key: &'a str, name: &'static str, known: &[&str]) -> Result<Self> {
        let absent = Self { source: self.source, name, span: 0..0, table: None };
        self.get(key).map_or(Ok(absent), |field| field.fields(name, known))
    }

    pub(super) fn get(&self, key: &'a str) -> Option<Field<'a>> {
        Some(Field { source: self.source, key, entry: self.table?.get(key)? })
    }

    /// What `read` makes of the value of this key, if it is there.
    pub(super) fn read<T>(&self, key: &'a str, read: impl Fn(Field<'a>) -> Result<T>) -> Result<Option<T>> {
        self.get(key).map(read).transpose()
    }

    /// As [`read`](Self::read), for keys that must be there.
    pub(super) fn need<T>(&self, key: &'a str, read: impl Fn(Field<'a>) -> Result<T>) -> Result<T> {
        let missing = || self.source.error(self.span.clone(), format!("{} needs `{key}`", self.name));
        self.read(key, read)?.ok_or_else(missing)
    }

    /// An error at the value of this key, or at the table if the key is absent.
    pub(super) fn error(&self, key: &'a str, message: impl Into<String>) -> FileError {
        let span = self.get(key).map_or_else(|| self.span.clone(), |field| field.entry.span());
        self.source.error(span, message)
    }
}

/// The value of a key, or an element of the list that is its value.
#[derive(Clone, Copy)]
pub(super) struct Field<'a> {
    pub(super) source: Source<'a>,
    pub(super) key: &'a str,
    pub(super) entry: &'a Entry<'a>,
}

impl<'a> Field<'a> {
    pub(super) fn error(&self, message: impl Into<String>) -> FileError {
        self.source.error(self.entry.span(), message)
    }

    /// An error that starts with the key.
    pub(super) fn wrong(&self, message: impl Display) -> FileError {
        self.error(format!("{}: {message}", self.key))
    }

    fn unexpected(&self, expected: impl Display) -> FileError {
        self.wrong(format!("expected {expected}, found {}", kind(self.entry)))
    }

    pub(super) fn text(self) -> Result<String> {
        match self.entry.get_ref() {
            DeValue::String(text) if !text.trim().is_empty() => Ok(text.trim().to_owned()),
            DeValue::String(_) => Err(self.unexpected("text")),
            _ => Err(self.unexpected("text in quotes")),
        }
    }

    /// A whole number of at least 1.
    pub(super) fn count(self) -> Result<usize> {
        match self.scalar() {
            Some(Value::Integer(n)) if n >= 1 => Ok(n as usize),
            _ => Err(self.unexpected("a whole number of at least 1")),
        }
    }

    pub(super) fn number(self) -> Result<f64> {
        match self.scalar() {
            Some(Value::Integer(n)) => Ok(n as f64),
            Some(Value::Real(x)) if x.is_finite() => Ok(x),
            _ => Err(self.unexpected("a number")),
        }
    }

    /// A number above 0.
    pub(super) fn positive(self) -> Result<f64> {
        let value = self.number()?;
        if value > 0.0 { Ok(value) } else { Err(self.unexpected("a number above 0")) }
    }

    /// A number above 0 and up to 1.
    pub(super) fn fraction(self) -> Result<f64> {
        let value = self.number()?;
        if value > 0.0 && value <= 1.0 { Ok(value) } else { Err(self.unexpected("a number above 0 and up to 1")) }
    }

    pub(super) fn switch(self) -> Result<bool> {
        match self.entry.get_ref() {
            DeValue::Boolean(value) => Ok(*value),
            _ => Err(self.unexpected("true or false")),
        }
    }

    pub(super) fn seed(self) -> Result<u64> {
        let seed = match self.entry.get_ref() {
            DeValue::Integer(n) => u64::from_str_radix(n.as_str(), n.radix()).ok(),
            _ => None,
        };
        seed.ok_or_else(|| self.wrong("expected whole numbers from 0"))
    }

    /// The value of one of a few words.
    pub(super) fn choice<T: Copy>(self, choices: &[(&str, T)]) -> Result<T> {
        let given = self.text()?;
        choices.iter().find(|(name, _)| *name == given).map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
            let hint = did_you_mean(&given, &names);
            self.wrong(format!("expected one of {}, found `{given}`{hint}", names.join(", ")))
        })
    }

    pub(super) fn value(self) -> Result<Value> {
        self.scalar().ok_or_else(|| self.unexpected("a number, a word or true/false"))
    }

    pub(super) fn is_list(&self) -> bool {
        matches!(self.entry.get_ref(), DeValue::Array(_))
    }

    /// The elements of a list with at least one.
    pub(super) fn list(self) -> Result<impl Iterator<Item = Field<'a>>> {
        match self.entry.get_ref() {
            DeValue::Array(items) if items.is_empty() => Err(self.wrong("the list is empty")),
            DeValue::Array(items) => Ok(items.iter().map(move |entry| Field { entry, ..self })),
            _ => Err(self.unexpected("a list in [ ]")),
        }
    }

    /// What `read` makes of each element of a list.
    pub(super) fn each<T>(self, read: impl Fn(Field<'a>) -> Result<T>) -> Result<Vec<T>> {
        self.list()?.map(read).collect()
    }

    /// As [`each`](Self::each), for lists without repetitions.
    pub(super) fn distinct<T: PartialEq + Display>(self, read: impl Fn(Field<'a>) -> Result<T>) -> Result<Vec<T>> {
        let mut values = Vec::new();
        for item in self.list()? {
            let value = read(item)?;
            if values.contains(&value) {
                return Err(item.wrong(format!("{value} appears twice")));
            }
            values.push(value);
        }
        Ok(values)
    }

    pub(super) fn table(self) -> Result<&'a DeTable<'a>> {
        match self.entry.get_ref() {
            DeValue::Table(table) => Ok(table),
            _ => Err(self.unexpected("a table")),
        }
    }

    /// A table with these keys.
    pub(super) fn fields(self, name: &'static str, known: &[&str]) -> Result<Fields<'a>> {
        Fields::open(self.source, self.table()?, self.entry.span(), name, known)
    }

    fn scalar(&self) -> Option<Value> {
        match self.entry.get_ref() {
            DeValue::String(text) => Some(Value::Word(text.to_string())),
            DeValue::Integer(n) => i64::from_str_radix(n.as_str(), n.radix()).ok().map(Value::Integer),
            DeValue::Float(x) => x.as_str().parse().ok().map(Value::Real),
            DeValue::Boolean(value) => Some(Value::Switch(*value)),
            _ => None,
        }
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

/// " (did you mean `x`?)" with the nearest of `known`, whatever the case of its letters; or nothing.
pub(crate) fn did_you_mean(given: &str, known: &[&str]) -> String {
    let lower: Vec<String> = known.iter().map(|name| name.to_lowercase()).collect();
    let near = nearest(given, lower.iter().map(String::as_str));
    let at = near.and_then(|near| lower.iter().position(|name| *name == near));
    at.map_or_else(String::new, |at| format!(" (did you mean `{}`?)", known[at]))
}
