//! The models of the file: what is fixed, swept, tried in a grid or searched.

use super::reader::{
    Entry, Fields, FileError, Result, Source, count, did_you_mean, list, nearest_label, number, switch,
    table, text, value, word,
};
use super::{Alternatives, Contender, Experiment, Search};
use crate::grid;
use crate::search::{Dimension, Method, Range, Space};
use sottovoce_models::ModelError;
use sottovoce_models::registry::Model;
use sottovoce_models::settings::{Setting, Value, nearest};
use toml::de::DeValue;

const MODEL: &[&str] = &["name", "label", "data", "set", "sweep", "grid", "search", "choose_at"];
const SEARCH: &[&str] = &["method", "trials", "startup", "at_once", "over"];

/// The rows: one a `[[model]]`, or one a value of its sweep.
pub(super) fn contenders(top: &Fields<'_>, models: &'static [Model]) -> Result<Vec<Contender>> {
    let mut rows: Vec<Contender> = Vec::new();
    for entry in top.need("model", "an experiment", list)? {
        for row in model(top.source, entry, models)? {
            if rows.iter().any(|other| other.label == row.label) {
                let message = format!("two rows are called `{}`; give one another `label`", row.label);
                return Err(top.source.error(entry.span(), message));
            }
            rows.push(row);
        }
    }
    Ok(rows)
}

fn model(source: Source<'_>, entry: &Entry<'_>, models: &'static [Model]) -> Result<Vec<Contender>> {
    let inside = table(source, "model", entry)?;
    let fields = Fields::open(source, inside, entry.span(), "a [[model]]", MODEL)?;
    let model = fields.need("name", "a [[model]]", |source, key, entry| {
        let name = text(source, key, entry)?;
        find(models, &name).map_err(|error| source.error(entry.span(), error.to_string()))
    })?;
    let settings = Vocabulary { model, schema: (model.settings)() };
    let fixed = fields.read("set", |s, k, e| settings.values(s, k, e))?.unwrap_or_default();
    let sweep = fields.read("sweep", |s, k, e| settings.lists(s, k, e))?.unwrap_or_default();
    let alternatives = settings.alternatives(&fields)?;
    once(&fields, &fixed, &sweep, &alternatives)?;
    let family = fields.read("label", text)?.unwrap_or_else(|| model.title.to_owned());
    let only = fields.read("data", names)?;
    let combinations = grid::combinations(&sweep);
    let guide = guide(&fields, &settings, &combinations, &alternatives)?;
    let with = |swept: &[(String, Value)]| fixed.iter().chain(swept).cloned().collect::<Vec<_>>();
    let rows = combinations.into_iter().map(|swept| Contender {
        label: label(&family, &swept),
        family: family.clone(),
        model,
        fixed: with(&swept),
        alternatives: alternatives.clone(),
        guide: guide.as_ref().filter(|guide| **guide != swept).map(|guide| with(guide)),
        only: only.clone(),
        swept,
    });
    Ok(rows.collect())
}

/// The combination of a sweep at which settings are chosen for all of it, if one is named.
fn guide(
    fields: &Fields<'_>,
    settings: &Vocabulary,
    combinations: &[Vec<(String, Value)>],
    alternatives: &Alternatives,
) -> Result<Option<Vec<(String, Value)>>> {
    let Some(entry) = fields.get("choose_at") else { return Ok(None) };
    if *alternatives == Alternatives::None {
        let message = "choose_at: there is nothing to choose without a `grid` or a `search`";
        return Err(fields.source.error(entry.span(), message));
    }
    let named = settings.values(fields.source, "choose_at", entry)?;
    let is_named = |row: &&Vec<(String, Value)>| {
        row.len() == named.len() && named.iter().all(|setting| row.contains(setting))
    };
    match combinations.iter().find(is_named) {
        Some(row) if !row.is_empty() => Ok(Some(row.clone())),
        _ => {
            let message = "choose_at: expected one value of each setting of `sweep`, among those it lists";
            Err(fields.source.error(entry.span(), message))
        }
    }
}

fn find(models: &'static [Model], name: &str) -> std::result::Result<&'static Model, ModelError> {
    models.iter().find(|model| model.name == name).ok_or_else(|| ModelError::UnknownModel {
        name: name.to_owned(),
        suggestion: nearest(name, models.iter().map(|model| model.name)),
        known: models.iter().map(|model| model.name).collect::<Vec<_>>().join(", "),
    })
}

/// Puts swept values into the label: where it says `{pi}`, or else behind it.
fn label(family: &str, swept: &[(String, Value)]) -> String {
    let filled = swept.iter().fold(family.to_owned(), |label, (key, value)| {
        label.replace(&format!("{{{key}}}"), &value.to_string())
    });
    if swept.is_empty() || filled != family {
        return filled;
    }
    let values: Vec<_> = swept.iter().map(|(key, value)| format!("{key} = {value}")).collect();
    format!("{family} ({})", values.join(", "))
}

fn names(source: Source<'_>, key: &str, entry: &Entry<'_>) -> Result<Vec<String>> {
    list(source, key, entry)?.iter().map(|item| text(source, key, item)).collect()
}

/// The settings a model knows.
struct Vocabulary {
    model: &'static Model,
    schema: Vec<Setting>,
}

impl Vocabulary {
    /// A table of settings, each read by `read`, in the order of the file.
    fn table<'a, T>(
        &self,
        source: Source<'a>,
        key: &str,
        entry: &'a Entry<'a>,
        read: impl Fn(Source<'a>, &Setting, &'a Entry<'a>) -> Result<T>,
    ) -> Result<Vec<(String, T)>> {
        let mut entries: Vec<_> = table(source, key, entry)?.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        entries
            .into_iter()
            .map(|(key, entry)| {
                let setting = self.setting(key.get_ref()).map_err(|error| at(source, key.span(), &error))?;
                Ok((setting.key.to_owned(), read(source, setting, entry)?))
            })
            .collect()
    }

    fn setting(&self, key: &str) -> std::result::Result<&Setting, ModelError> {
        self.schema.iter().find(|setting| setting.key == key).ok_or_else(|| ModelError::UnknownSetting {
            model: self.model.name.to_owned(),
            key: key.to_owned(),
            suggestion: nearest(key, self.schema.iter().map(|setting| setting.key)),
            known: match self.schema.is_empty() {
                true => "none".to_owned(),
                false => self.schema.iter().map(|setting| setting.key).collect::<Vec<_>>().join(", "),
            },
        })
    }

    /// A value as the model takes it (a whole number where a real is meant becomes one).
    fn value(&self, source: Source<'_>, setting: &Setting, entry: &Entry<'_>) -> Result<Value> {
        let given = value(source, setting.key, entry)?;
        let checked = self
            .model
            .settings([(setting.key, given.clone())])
            .map_err(|error| at(source, entry.span(), &error))?;
        let taken = checked.iter().find(|(key, _)| *key == setting.key).map(|(_, value)| value.clone());
        Ok(taken.unwrap_or(given))
    }

    fn values<'a>(
        &self,
        source: Source<'a>,
        key: &str,
        entry: &'a Entry<'a>,
    ) -> Result<Vec<(String, Value)>> {
        self.table(source, key, entry, |source, setting, entry| self.value(source, setting, entry))
    }

    fn lists<'a>(
        &self,
        source: Source<'a>,
        key: &str,
        entry: &'a Entry<'a>,
    ) -> Result<Vec<(String, Vec<Value>)>> {
        self.table(source, key, entry, |source, setting, entry| self.list(source, setting, entry))
    }

    fn list<'a>(&self, source: Source<'a>, setting: &Setting, entry: &'a Entry<'a>) -> Result<Vec<Value>> {
        let mut values = Vec::new();
        for item in list(source, setting.key, entry)? {
            let value = self.value(source, setting, item)?;
            if values.contains(&value) {
                let message = format!("{}: {value} is there twice", setting.key);
                return Err(source.error(item.span(), message));
            }
            values.push(value);
        }
        Ok(values)
    }

    fn alternatives(&self, fields: &Fields<'_>) -> Result<Alternatives> {
        let grid = fields.read("grid", |s, k, e| self.lists(s, k, e))?;
        let search = fields.read("search", |s, k, e| self.search(s, k, e, fields))?;
        match (grid, search, fields.get("search")) {
            (Some(_), Some(_), Some(entry)) => Err(fields
                .source
                .error(entry.span(), "a [[model]] has a `grid` or a `search`, not both".to_owned())),
            (Some(grid), ..) => Ok(Alternatives::Grid(grid)),
            (None, Some(search), _) => Ok(Alternatives::Search(search)),
            _ => Ok(Alternatives::None),
        }
    }

    fn search<'a>(
        &self,
        source: Source<'a>,
        key: &str,
        entry: &'a Entry<'a>,
        model: &Fields<'a>,
    ) -> Result<Search> {
        let inside = table(source, key, entry)?;
        let fields = Fields::open(source, inside, entry.span(), "a `search`", SEARCH)?;
        let trials = fields.need("trials", "a `search`", count)?;
        let space = match fields.get("over") {
            Some(over) => self.space(source, over)?,
            None => self.whole_space(model)?,
        };
        if space.dimensions.is_empty() {
            let message = format!("{} has no setting left to search", self.model.name);
            return Err(source.error(entry.span(), message));
        }
        Ok(Search {
            method: fields
                .read("method", word(&[("tpe", Method::Tpe), ("random", Method::Random)]))?
                .unwrap_or(Method::Tpe),
            trials,
            // Enough to see the lie of the land, and most of a small budget left to use it.
            startup: fields.read("startup", count)?.unwrap_or_else(|| (trials / 3).clamp(3, 10)),
            at_once: fields.read("at_once", count)?.unwrap_or(1),
            space,
        })
    }

    /// `over = ["factors"]`, `over = { factors = [10, 20], rate = { low = 0.01, high = 0.1 } }`.
    fn space<'a>(&self, source: Source<'a>, over: &'a Entry<'a>) -> Result<Space> {
        let DeValue::Array(_) = over.get_ref() else {
            let ranges = self.table(source, "over", over, |s, setting, e| self.range(s, setting, e))?;
            let dimensions = ranges.into_iter().map(|(key, range)| Dimension { key, range }).collect();
            return Ok(Space { dimensions });
        };
        let mut dimensions: Vec<Dimension> = Vec::new();
        for item in list(source, "over", over)? {
            let key = text(source, "over", item)?;
            let setting = self.setting(&key).map_err(|error| at(source, item.span(), &error))?;
            if dimensions.iter().any(|dimension| dimension.key == key) {
                return Err(source.error(item.span(), format!("over: {key} is there twice")));
            }
            dimensions.push(Dimension { key, range: Range::of(setting) });
        }
        Ok(Space { dimensions })
    }

    /// Every setting that is neither fixed nor swept.
    fn whole_space(&self, model: &Fields<'_>) -> Result<Space> {
        let mut bound = Vec::new();
        for key in ["set", "sweep"] {
            if let Some(inside) = model.read(key, table)? {
                bound.extend(inside.keys().map(|key| key.get_ref().to_string()));
            }
        }
        let free = self.schema.iter().filter(|setting| !bound.iter().any(|key| key == setting.key));
        let dimension =
            |setting: &Setting| Dimension { key: setting.key.to_owned(), range: Range::of(setting) };
        Ok(Space { dimensions: free.map(dimension).collect() })
    }

    fn range<'a>(&self, source: Source<'a>, setting: &Setting, entry: &'a Entry<'a>) -> Result<Range> {
        if let DeValue::Array(_) = entry.get_ref() {
            return Ok(Range::Choice(self.list(source, setting, entry)?));
        }
        let inside = table(source, setting.key, entry).map_err(|mut error| {
            error.message = error.message.replace("a table", "{ low = .., high = .. } or a list of values");
            error
        })?;
        let fields = Fields::open(source, inside, entry.span(), "a range", &["low", "high", "log"])?;
        for end in ["low", "high"] {
            fields.read(end, |s, _, e| self.value(s, setting, e))?;
        }
        let (low, high, log) =
            (fields.read("low", number)?, fields.read("high", number)?, fields.read("log", switch)?);
        let range = match Range::of(setting) {
            Range::Integer { low: l, high: h, log: g } => Range::Integer {
                low: low.map_or(l, |x| x as i64),
                high: high.map_or(h, |x| x as i64),
                log: log.unwrap_or(g),
            },
            Range::Real { low: l, high: h, log: g } => {
                Range::Real { low: low.unwrap_or(l), high: high.unwrap_or(h), log: log.unwrap_or(g) }
            }
            Range::Choice(_) => {
                let message = format!("{}: expected a list of values: it is {}", setting.key, setting.domain);
                return Err(source.error(entry.span(), message));
            }
        };
        check_ends(&range)
            .map_err(|message| source.error(entry.span(), format!("{}: {message}", setting.key)))?;
        Ok(range)
    }
}

fn check_ends(range: &Range) -> std::result::Result<(), String> {
    let (low, high, log) = match *range {
        Range::Integer { low, high, log } => (low as f64, high as f64, log),
        Range::Real { low, high, log } => (low, high, log),
        Range::Choice(_) => return Ok(()),
    };
    if low >= high {
        return Err(format!("low = {low} must be below high = {high}"));
    }
    if log && low <= 0.0 {
        return Err(format!("low = {low} must be above 0 on a logarithmic scale"));
    }
    Ok(())
}

/// A setting is given in one place.
fn once(
    fields: &Fields<'_>,
    fixed: &[(String, Value)],
    sweep: &[(String, Vec<Value>)],
    alternatives: &Alternatives,
) -> Result<()> {
    let (place, chosen): (_, Vec<&str>) = match alternatives {
        Alternatives::None => ("grid", Vec::new()),
        Alternatives::Grid(lists) => ("grid", lists.iter().map(|(key, _)| key.as_str()).collect()),
        Alternatives::Search(search) => {
            ("search", search.space.dimensions.iter().map(|d| d.key.as_str()).collect())
        }
    };
    let fixed = fixed.iter().map(|(key, _)| ("set", key.as_str()));
    let sweep = sweep.iter().map(|(key, _)| ("sweep", key.as_str()));
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for (place, key) in fixed.chain(sweep).chain(chosen.into_iter().map(|key| (place, key))) {
        if let Some((first, _)) = seen.iter().find(|(_, other)| *other == key) {
            let span = fields.get(place).map_or(fields.span.clone(), Entry::span);
            return Err(fields.source.error(span, format!("{key} is in `{first}` and in `{place}`")));
        }
        seen.push((place, key));
    }
    Ok(())
}

/// The settings that rows have, for the axes of plots.
pub(super) fn setting_names(contenders: &[Contender]) -> Vec<&'static str> {
    let mut names: Vec<_> =
        contenders.iter().flat_map(|row| (row.model.settings)()).map(|setting| setting.key).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// `data = [...]` of a model names data sets of the experiment.
pub(super) fn check_only(top: &Fields<'_>, experiment: &Experiment) -> Result<()> {
    let known: Vec<&str> = experiment.data.iter().map(|set| set.label.as_str()).collect();
    for entry in top.need("model", "an experiment", list)? {
        let Some(only) = table(top.source, "model", entry)?.get("data") else { continue };
        for item in list(top.source, "data", only)? {
            let label = text(top.source, "data", item)?;
            if !known.contains(&label.as_str()) {
                let hint = did_you_mean(nearest_label(&label, &known));
                let message = format!(
                    "data: the experiment has no data set `{label}`{hint}; it has: {}",
                    known.join(", ")
                );
                return Err(top.source.error(item.span(), message));
            }
        }
    }
    Ok(())
}

fn at(source: Source<'_>, span: std::ops::Range<usize>, error: &ModelError) -> FileError {
    source.error(span, error.to_string())
}
