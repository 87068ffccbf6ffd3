//! The rows of the tables: the settings of each `[[model]]` that are fixed, swept, or tuned by a grid or a search.

use super::reader::{Field, Fields, Result, did_you_mean};
use super::{DataSet, Learner, RowSpec, Search, Tuning};
use crate::search::{Bounds, Dimension, Method, Range, Space};
use sottovoce_models::ModelError;
use sottovoce_models::registry::{Model, find_in};
use sottovoce_models::settings::{Setting, Value, find};
use std::cell::RefCell;

const MODEL: &str = "name, label, data, set, sweep, grid, search, select, choose_at";
const SEARCH: &str = "method, trials, startup, at_once, over";

/// Settings and their values.
type Point = Vec<(String, Value)>;

/// Settings, each with several values.
type Lists = [(String, Vec<Value>)];

/// One row a `[[model]]`, or one a value of its sweep; and what to say about settings under earlier names.
pub(super) fn rows(
    top: &Fields<'_>,
    models: &[&'static Model],
    data: &[DataSet],
) -> Result<(Vec<RowSpec>, Vec<String>)> {
    let labels: Vec<String> = data.iter().map(DataSet::label).collect();
    let (mut rows, mut warnings): (Vec<RowSpec>, Vec<String>) = Default::default();
    for field in top.need("model", Field::list)? {
        for row in rows_of_model(field, models, &labels, &mut warnings)? {
            if rows.iter().any(|other| other.label == row.label) {
                let message = format!("two rows are called `{}`; give one another `label`", row.label);
                return Err(field.error(message));
            }
            rows.push(row);
        }
    }
    Ok((rows, warnings))
}

fn rows_of_model(
    field: Field<'_>,
    models: &[&'static Model],
    labels: &[String],
    warnings: &mut Vec<String>,
) -> Result<Vec<RowSpec>> {
    let fields = field.fields("a [[model]]", MODEL)?;
    let model =
        fields.need("name", |field| find_in(models, &field.text()?).map_err(|error| field.error(error.to_string())))?;
    let settings = ModelSettings { model, schema: model.schema().cloned().collect(), notes: RefCell::default() };
    let fixed = fields.read("set", |field| settings.values(field))?.unwrap_or_default();
    let sweep = fields.read("sweep", |field| settings.lists(field))?.unwrap_or_default();
    let tuning = settings.tuning(&fields)?;
    let select = fields.read("select", |field| settings.lists(field))?.unwrap_or_default();
    once(&fields, (&fixed, &sweep, &select), &tuning)?;
    let family = fields.read("label", Field::text)?.unwrap_or_else(|| model.title.to_owned());
    let only = fields.read("data", |field| field.each(|item| known_label(item, labels)))?;
    let combinations = combinations(&sweep);
    let tuned_at = tuned_at(&fields, &settings, &combinations, &tuning)?;
    warnings.append(&mut settings.notes.borrow_mut());
    let with = |swept: &Point| fixed.iter().chain(swept).cloned().collect::<Point>();
    let rows = combinations.into_iter().map(|swept| RowSpec {
        label: label(&family, &swept),
        family: family.clone(),
        learner: Learner::Recommender(model),
        fixed: with(&swept),
        tuning: tuning.clone(),
        select: select.clone(),
        tuned_at: tuned_at.as_ref().filter(|other| **other != swept).map(with),
        only: only.clone(),
        swept,
    });
    Ok(rows.collect())
}

/// The label of one of the experiment's data sets.
fn known_label(field: Field<'_>, labels: &[String]) -> Result<String> {
    let label = field.text()?;
    if labels.contains(&label) {
        return Ok(label);
    }
    let hint = did_you_mean(&label, &labels.iter().map(String::as_str).collect::<Vec<_>>());
    let has = labels.join(", ");
    Err(field.wrong(format!("the experiment has no data set `{label}`{hint}; it has: {has}")))
}

/// Every combination of lists of values, in their order; the last setting varies fastest. Of no lists there is one,
/// empty.
pub fn combinations(lists: &Lists) -> Vec<Point> {
    lists.iter().fold(vec![Vec::new()], |combinations, (key, values)| {
        let extend = |start: &Point, value: &Value| {
            let mut longer = start.clone();
            longer.push((key.clone(), value.clone()));
            longer
        };
        combinations.iter().flat_map(|start| values.iter().map(move |value| extend(start, value))).collect()
    })
}

/// The combination of a sweep at which settings are tuned for all of it, if one is named.
fn tuned_at(
    fields: &Fields<'_>,
    settings: &ModelSettings,
    combinations: &[Point],
    tuning: &Tuning,
) -> Result<Option<Point>> {
    let Some(field) = fields.get("choose_at") else { return Ok(None) };
    if *tuning == Tuning::None {
        return Err(field.wrong("there is nothing to choose without a `grid` or a `search`"));
    }
    let named = settings.values(field)?;
    let is_named = |row: &&Point| row.len() == named.len() && named.iter().all(|setting| row.contains(setting));
    match combinations.iter().find(is_named) {
        Some(row) if !row.is_empty() => Ok(Some(row.clone())),
        _ => Err(field.wrong("expected one value of each setting of `sweep`, among those it lists")),
    }
}

/// Puts swept values into the label: where it says `{pi}`, or else behind it.
fn label(family: &str, swept: &Point) -> String {
    let filled = swept
        .iter()
        .fold(family.to_owned(), |label, (key, value)| label.replace(&format!("{{{key}}}"), &value.to_string()));
    if swept.is_empty() || filled != family {
        return filled;
    }
    let values: Vec<_> = swept.iter().map(|(key, value)| format!("{key} = {value}")).collect();
    format!("{family} ({})", values.join(", "))
}

/// The settings of a model.
struct ModelSettings {
    model: &'static Model,
    schema: Vec<Setting>,
    /// On settings under earlier names.
    notes: RefCell<Vec<String>>,
}

impl ModelSettings {
    /// A table of settings, each read by `read`, in the order of the file.
    fn table<'a, T>(
        &self,
        field: Field<'a>,
        read: impl Fn(&Setting, Field<'a>) -> Result<T>,
    ) -> Result<Vec<(String, T)>> {
        let mut entries: Vec<_> = field.table()?.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let setting = |(key, entry): (&'a toml::Spanned<toml::de::DeString<'a>>, &'a super::reader::Entry<'a>)| {
            let found = find(self.model.name, self.schema.iter(), key.get_ref());
            let (setting, note) = found.map_err(|error| field.source.error(key.span(), error.to_string()))?;
            self.notes.borrow_mut().extend(note);
            let value = Field { source: field.source, key: setting.key, entry };
            Ok((setting.key.to_owned(), read(setting, value)?))
        };
        entries.into_iter().map(setting).collect()
    }

    fn setting(&self, key: &str) -> std::result::Result<&Setting, ModelError> {
        find(self.model.name, self.schema.iter(), key).map(|(setting, _)| setting)
    }

    /// A value as the model takes it (an integer where a real is meant becomes one).
    fn value(&self, setting: &Setting, field: Field<'_>) -> Result<Value> {
        let given = field.value()?;
        let checked = self.model.settings([(setting.key, given.clone())]);
        let checked = checked.map_err(|error| field.error(error.to_string()))?;
        let taken = checked.iter().find(|(key, _)| *key == setting.key).map(|(_, value)| value.clone());
        Ok(taken.unwrap_or(given))
    }

    fn values(&self, field: Field<'_>) -> Result<Point> {
        self.table(field, |setting, field| self.value(setting, field))
    }

    fn lists(&self, field: Field<'_>) -> Result<Vec<(String, Vec<Value>)>> {
        self.table(field, |setting, field| field.distinct(|item| self.value(setting, item)))
    }

    fn tuning(&self, fields: &Fields<'_>) -> Result<Tuning> {
        let grid = fields.read("grid", |field| self.lists(field))?;
        let search = fields.read("search", |field| self.search(field, fields))?;
        match (grid, search) {
            (Some(_), Some(_)) => Err(fields.error("search", "a [[model]] has a `grid` or a `search`, not both")),
            (Some(grid), None) => Ok(Tuning::Grid(grid)),
            (None, Some(search)) => Ok(Tuning::Search(search)),
            (None, None) => Ok(Tuning::None),
        }
    }

    fn search<'a>(&self, field: Field<'a>, model: &Fields<'a>) -> Result<Search> {
        let fields = field.fields("a `search`", SEARCH)?;
        let trials = fields.need("trials", Field::count)?;
        let space = match fields.get("over") {
            Some(over) => self.space(over)?,
            None => self.whole_space(model)?,
        };
        if space.dimensions.is_empty() {
            return Err(field.error(format!("{} has no setting left to search", self.model.name)));
        }
        let method = |field: Field<'_>| field.choice(&[("tpe", Method::Tpe), ("random", Method::Random)]);
        Ok(Search {
            method: fields.read("method", method)?.unwrap_or(Method::Tpe),
            trials,
            // Enough to see where the good settings lie, and most of a small budget left to look there.
            startup: fields.read("startup", Field::count)?.unwrap_or_else(|| (trials / 3).clamp(3, 10)),
            at_once: fields.read("at_once", Field::count)?.unwrap_or(1),
            space,
        })
    }

    /// `over = ["factors"]`, `over = { factors = [10, 20], rate = { low = 0.01, high = 0.1 } }`.
    fn space(&self, over: Field<'_>) -> Result<Space> {
        if !over.is_list() {
            let ranges = self.table(over, |setting, field| self.range(setting, field))?;
            let dimensions = ranges.into_iter().map(|(key, range)| Dimension { key, range }).collect();
            return Ok(Space { dimensions });
        }
        let keys = over.distinct(|item| {
            let key = item.text()?;
            self.setting(&key).map(|setting| setting.key).map_err(|error| item.error(error.to_string()))
        })?;
        Ok(self.whole_ranges(|key| keys.iter().position(|given| *given == key)))
    }

    /// Every setting that is neither fixed nor swept.
    fn whole_space(&self, model: &Fields<'_>) -> Result<Space> {
        let mut bound = Vec::new();
        for key in ["set", "sweep", "select"] {
            if let Some(table) = model.read(key, Field::table)? {
                bound.extend(table.keys().map(|key| -> &str { key.get_ref() }));
            }
        }
        Ok(self.whole_ranges(|key| (!bound.contains(&key)).then_some(0)))
    }

    /// The whole ranges of the settings that have a rank, in its order.
    fn whole_ranges(&self, rank: impl Fn(&str) -> Option<usize>) -> Space {
        let mut ranked: Vec<_> = self.schema.iter().filter_map(|setting| Some((rank(setting.key)?, setting))).collect();
        ranked.sort_by_key(|(rank, _)| *rank);
        let dimension = |setting: &Setting| Dimension { key: setting.key.to_owned(), range: Range::of(setting) };
        Space { dimensions: ranked.into_iter().map(|(_, setting)| dimension(setting)).collect() }
    }

    fn range(&self, setting: &Setting, field: Field<'_>) -> Result<Range> {
        if field.is_list() {
            return Ok(Range::Choice(field.distinct(|item| self.value(setting, item))?));
        }
        let fields = field.fields("a range", "low, high, log").map_err(|mut error| {
            error.message = error.message.replace("a table", "{ low = .., high = .. } or a list of values");
            error
        })?;
        for end in ["low", "high"] {
            fields.read(end, |field| self.value(setting, field))?;
        }
        let [low, high] = ["low", "high"].map(|end| fields.read(end, Field::number));
        let (low, high, log) = (low?, high?, fields.read("log", Field::switch)?);
        let (whole, ends) = match Range::of(setting) {
            Range::Integer(Bounds { low, high, log }) => (true, (low as f64, high as f64, log)),
            Range::Real(Bounds { low, high, log }) => (false, (low, high, log)),
            Range::Choice(_) => {
                return Err(field.wrong(format!("expected a list of values: it is {}", setting.domain)));
            }
        };
        let (low, high, log) = (low.unwrap_or(ends.0), high.unwrap_or(ends.1), log.unwrap_or(ends.2));
        if low >= high {
            return Err(field.wrong(format!("low = {low} must be below high = {high}")));
        }
        if log && low <= 0.0 {
            return Err(field.wrong(format!("low = {low} must be above 0 on a logarithmic scale")));
        }
        Ok(match whole {
            true => Range::Integer(Bounds { low: low as i64, high: high as i64, log }),
            false => Range::Real(Bounds { low, high, log }),
        })
    }
}

/// A setting is given in one place.
fn once(fields: &Fields<'_>, (fixed, sweep, select): (&Point, &Lists, &Lists), tuning: &Tuning) -> Result<()> {
    let tuned: Vec<(&'static str, &str)> = match tuning {
        Tuning::None => Vec::new(),
        Tuning::Grid(lists) => lists.iter().map(|(key, _)| ("grid", key.as_str())).collect(),
        Tuning::Search(search) => {
            search.space.dimensions.iter().map(|dimension| ("search", dimension.key.as_str())).collect()
        }
    };
    let fixed = fixed.iter().map(|(key, _)| ("set", key.as_str()));
    let sweep = sweep.iter().map(|(key, _)| ("sweep", key.as_str()));
    let select = select.iter().map(|(key, _)| ("select", key.as_str()));
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for (table, key) in fixed.chain(sweep).chain(tuned).chain(select) {
        if let Some((first, _)) = seen.iter().find(|(_, other)| *other == key) {
            return Err(fields.error(table, format!("{key} is in `{first}` and in `{table}`")));
        }
        seen.push((table, key));
    }
    Ok(())
}

/// The settings that rows have, for the axes of plots.
pub(super) fn setting_names(rows: &[RowSpec]) -> Vec<&'static str> {
    let models = rows.iter().filter_map(|row| row.learner.recommender());
    let mut names: Vec<_> =
        models.flat_map(sottovoce_models::registry::Model::schema).map(|setting| setting.key).collect();
    names.sort_unstable();
    names.dedup();
    names
}
