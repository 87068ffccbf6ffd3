//! Click logs: who looked at which page, when, for how long, and what it is about.

use super::mind;
use super::taxonomy::{CategoryMapping, SENSITIVE, Taxonomy};
use crate::builder::{RowError, TimeUnit};
use crate::error::{BadLine, DataError, Result, shorten};
use crate::fields::{Delimiter, Fields};
use crate::files::unpack;
use crate::intern::Interner;
use crate::lines::Lines;
use crate::number;
use crate::text::{decode, plain};
use crate::time_unit;
use crate::town::Town;
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;
use serde_json::Value;
use sottovoce_core::Names;
use std::fs::File;
use std::io::{Cursor, Read};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds on one page beyond which a device was left alone: a day.
const MOST_SECONDS: f32 = 86_400.0;

/// Unknown categories that a report names.
const UNKNOWN_NAMED: usize = 10;

/// What is taken from a click log, and how it is understood.
#[derive(Clone, Debug)]
pub struct ClickRules {
    taxonomy: Taxonomy,
    /// By category: whether its pages are dropped.
    sensitive: Vec<bool>,
    /// Plain names that are sensitive even if the taxonomy does not have them.
    sensitive_names: FxHashSet<String>,
    mapping: CategoryMapping,
    tier: Option<u32>,
    now: Option<i64>,
    skip_bad: bool,
}

impl ClickRules {
    /// The categories of a taxonomy, without its sensitive branches.
    pub fn new(taxonomy: Taxonomy) -> Self {
        let sensitive = taxonomy.sensitive();
        Self {
            sensitive,
            sensitive_names: SENSITIVE.iter().map(|name| plain(name)).collect(),
            taxonomy,
            mapping: CategoryMapping::default(),
            tier: None,
            now: None,
            skip_bad: false,
        }
    }

    /// The taxonomy.
    pub fn taxonomy(&self) -> &Taxonomy {
        &self.taxonomy
    }

    /// Whether a category is sensitive.
    pub fn is_sensitive(&self, category: u32) -> bool {
        self.sensitive[category as usize]
    }

    /// More branches that are sensitive, by id or name.
    ///
    /// # Errors
    /// If the taxonomy does not have one of them.
    pub fn also_sensitive<'a>(mut self, branches: impl IntoIterator<Item = &'a str> + Clone) -> Result<Self> {
        let marked = self.taxonomy.branches(branches.clone())?;
        self.sensitive.iter_mut().zip(marked).for_each(|(sensitive, marked)| *sensitive |= marked);
        self.sensitive_names.extend(branches.into_iter().map(plain));
        Ok(self)
    }

    /// Branches that are not sensitive after all.
    ///
    /// # Errors
    /// If the taxonomy does not have one of them.
    pub fn not_sensitive<'a>(mut self, branches: impl IntoIterator<Item = &'a str> + Clone) -> Result<Self> {
        let marked = self.taxonomy.branches(branches.clone())?;
        self.sensitive.iter_mut().zip(marked).for_each(|(sensitive, marked)| *sensitive &= !marked);
        for name in branches {
            self.sensitive_names.remove(&plain(name));
        }
        Ok(self)
    }

    /// Translates ids that the taxonomy does not have.
    #[must_use]
    pub fn mapped(self, mapping: CategoryMapping) -> Self {
        Self { mapping, ..self }
    }

    /// Replaces categories below this tier by those above them in it.
    #[must_use]
    pub fn in_tier(self, tier: Option<u32>) -> Self {
        Self { tier, ..self }
    }

    /// The moment of the scores in seconds since 1970; `None`: that of the last click.
    #[must_use]
    pub fn at(self, now: Option<i64>) -> Self {
        Self { now, ..self }
    }

    /// Whether lines that cannot be read are skipped and counted.
    #[must_use]
    pub fn skipping_bad_lines(self, skip_bad: bool) -> Self {
        Self { skip_bad, ..self }
    }
}

/// What was read and what was left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClickReport {
    /// Clicks in the log.
    pub read: u64,
    /// Clicks used.
    pub used: u64,
    /// Dropped: on a page in a sensitive branch.
    pub sensitive: u64,
    /// Dropped: no category.
    pub without_category: u64,
    /// Dropped: no category that is known.
    pub unknown_category: u64,
    /// Dropped: in the future.
    pub future: u64,
    /// Dropped: a negative time on page, one that is no number, or more than a day.
    pub absurd_seconds: u64,
    /// Dropped: the same person, page and time as another click.
    pub repeated: u64,
    /// Lines that cannot be read, skipped on request.
    pub bad_lines: u64,
    /// The first unknown categories.
    pub unknown: Vec<String>,
}

/// One click.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Click<'a> {
    /// The person's number.
    pub person: u32,
    /// The page's number.
    pub page: u32,
    /// Seconds since 1970.
    pub time: i64,
    /// Seconds on the page, if known.
    pub seconds: Option<f32>,
    /// What it is about.
    pub categories: &'a [u32],
}

/// A click log after all that must not be used is gone, in the order of the log.
#[derive(Clone, Debug)]
pub struct Clicks {
    people: Names,
    pages: Names,
    titles: Vec<String>,
    entities: Vec<Vec<String>>,
    rows: Vec<Row>,
    categories: Vec<u32>,
    now: i64,
    timed: bool,
    report: ClickReport,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    person: u32,
    page: u32,
    time: i64,
    seconds: Option<f32>,
    /// Of `categories`.
    first: u32,
    count: u32,
}

impl Clicks {
    /// Ids of the people.
    pub fn people(&self) -> &Names {
        &self.people
    }

    /// Ids of the pages.
    pub fn pages(&self) -> &Names {
        &self.pages
    }

    /// A page's title; empty if the log has none.
    ///
    /// # Panics
    /// If there is no such page.
    pub fn title(&self, page: u32) -> &str {
        &self.titles[page as usize]
    }

    /// The entities named on a page.
    ///
    /// # Panics
    /// If there is no such page.
    pub fn entities(&self, page: u32) -> &[String] {
        &self.entities[page as usize]
    }

    /// All clicks.
    pub fn iter(&self) -> impl Iterator<Item = Click<'_>> {
        self.rows.iter().map(|row| Click {
            person: row.person,
            page: row.page,
            time: row.time,
            seconds: row.seconds,
            categories: &self.categories[row.first as usize..][..row.count as usize],
        })
    }

    /// The moment as of which interests are scored.
    pub fn now(&self) -> i64 {
        self.now
    }

    /// Whether the log says how long people stayed.
    pub fn are_timed(&self) -> bool {
        self.timed
    }

    /// What was read and left out.
    pub fn report(&self) -> &ClickReport {
        &self.report
    }
}

/// A click as a log has it.
#[derive(Default)]
pub(super) struct RawClick<'a> {
    pub(super) person: &'a str,
    pub(super) page: &'a str,
    pub(super) title: &'a str,
    pub(super) categories: Vec<&'a str>,
    pub(super) entities: Vec<&'a str>,
    pub(super) time: i64,
    /// `None` if the log has no such column; not a number if it cannot be used.
    pub(super) seconds: Option<f32>,
}

/// Clicks under construction.
pub(super) struct Builder<'a> {
    rules: &'a ClickRules,
    label: String,
    people: Interner,
    pages: Interner,
    titles: Vec<String>,
    entities: Vec<Vec<String>>,
    rows: Vec<Row>,
    categories: Vec<u32>,
    pub(super) unit: TimeUnit,
    report: ClickReport,
    /// By text: the categories it stands for, `None` for a sensitive one.
    known: FxHashMap<String, Option<Vec<u32>>>,
}

impl<'a> Builder<'a> {
    pub(super) fn new(label: &str, rules: &'a ClickRules) -> Self {
        Self {
            rules,
            label: label.to_owned(),
            people: Interner::default(),
            pages: Interner::default(),
            titles: Vec::new(),
            entities: Vec::new(),
            rows: Vec::new(),
            categories: Vec::new(),
            unit: TimeUnit::Unknown,
            report: ClickReport::default(),
            known: FxHashMap::default(),
        }
    }

    /// Whether the taxonomy has this id or name.
    pub(super) fn knows(&self, text: &str) -> bool {
        self.rules.taxonomy.find(text).is_some()
    }

    /// What a category's text stands for; `None` if that is sensitive.
    fn category(&mut self, text: &str) -> Option<&[u32]> {
        if !self.known.contains_key(text) {
            let ClickRules { taxonomy, mapping, sensitive, sensitive_names, tier, .. } = self.rules;
            let found = match taxonomy.find(text) {
                Some(category) => vec![category],
                None => mapping.of(text).to_vec(),
            };
            let secret = match found.is_empty() {
                true => sensitive_names.contains(&plain(text)),
                false => found.iter().any(|&category| sensitive[category as usize]),
            };
            if found.is_empty() && !secret && self.report.unknown.len() < UNKNOWN_NAMED {
                self.report.unknown.push(shorten(text.as_bytes()));
            }
            let lifted = |category| tier.map_or(category, |tier| taxonomy.in_tier(category, tier));
            let found = (!secret).then(|| found.into_iter().map(lifted).collect());
            self.known.insert(text.to_owned(), found);
        }
        self.known[text].as_deref()
    }

    pub(super) fn push(&mut self, click: &RawClick<'_>) -> Result<(), RowError> {
        for (field, id) in [("user", click.person), ("page", click.page)] {
            if id.is_empty() {
                return Err(RowError::bad(field, "an id", b""));
            }
        }
        self.report.read += 1;
        let first = self.categories.len();
        for text in click.categories.iter().map(|text| text.trim()).filter(|text| !text.is_empty()) {
            let Some(found) = self.category(text).map(<[u32]>::to_vec) else {
                self.report.sensitive += 1;
                self.categories.truncate(first);
                return Ok(());
            };
            for category in found {
                if !self.categories[first..].contains(&category) {
                    self.categories.push(category);
                }
            }
        }
        if self.categories.len() == first {
            let named = click.categories.iter().any(|text| !text.trim().is_empty());
            *if named { &mut self.report.unknown_category } else { &mut self.report.without_category } += 1;
            return Ok(());
        }
        if click.seconds.is_some_and(|seconds| !(0.0..=MOST_SECONDS).contains(&seconds)) {
            self.report.absurd_seconds += 1;
            self.categories.truncate(first);
            return Ok(());
        }
        let full = |what: &'static str| move |_| RowError::Full(what);
        let person = self.people.number(click.person.as_bytes()).map_err(full("people"))?;
        let page = self.pages.number(click.page.as_bytes()).map_err(full("pages"))?;
        if page as usize == self.titles.len() {
            self.titles.push(String::new());
            self.entities.push(Vec::new());
        }
        if self.titles[page as usize].is_empty() {
            click.title.trim().clone_into(&mut self.titles[page as usize]);
        }
        if self.entities[page as usize].is_empty() {
            let named = click.entities.iter().map(|name| name.trim()).filter(|name| !name.is_empty());
            self.entities[page as usize] = named.map(str::to_owned).collect();
        }
        let (first, count) =
            (u32::try_from(first).map_err(|_| RowError::Full("categories of clicks"))?, self.categories.len() - first);
        self.rows.push(Row { person, page, time: click.time, seconds: click.seconds, first, count: count as u32 });
        Ok(())
    }

    /// Takes note of a line that could not be used, or fails.
    pub(super) fn check(&mut self, line: u64, row: Result<(), RowError>) -> Result<()> {
        let (field, expected, found) = match row {
            Ok(()) => return Ok(()),
            Err(RowError::Bad { field, expected, found }) => (field, expected, found),
            Err(RowError::Full(what)) => return Err(DataError::TooLarge(self.label.clone(), what)),
            Err(RowError::File(error)) => return Err(*error),
        };
        if self.rules.skip_bad {
            self.report.bad_lines += 1;
            return Ok(());
        }
        let bad = BadLine { file: self.label.clone(), line, field, expected, text: shorten(&found) };
        Err(DataError::BadLine(Box::new(bad)))
    }

    /// Converts times, and drops what is in the future or comes twice.
    pub(super) fn finish(mut self) -> Result<Clicks> {
        let mut times: Vec<i64> = self.rows.iter().map(|row| row.time).collect();
        time_unit::to_seconds(&mut times, self.unit);
        self.rows.iter_mut().zip(times).for_each(|(row, time)| row.time = time);
        let latest = self.rules.now.unwrap_or_else(|| {
            // The clock of this machine only tells what cannot have happened yet.
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(i64::MAX, |now| now.as_secs() as i64)
        });
        let mut seen = FxHashSet::default();
        let report = &mut self.report;
        self.rows.retain(|row| {
            let future = row.time > latest;
            report.future += u64::from(future);
            let new = future || seen.insert((row.person, row.page, row.time));
            report.repeated += u64::from(!new);
            !future && new
        });
        self.report.used = self.rows.len() as u64;
        let now = self.rules.now.or_else(|| self.rows.iter().map(|row| row.time).max()).unwrap_or_default();
        if self.rows.is_empty() {
            return Err(DataError::Mismatch(self.label, nothing_left(&self.report)));
        }
        Ok(Clicks {
            people: self.people.into_names(),
            pages: self.pages.into_names(),
            titles: self.titles,
            entities: self.entities,
            timed: self.rows.iter().any(|row| row.seconds.is_some()),
            rows: self.rows,
            categories: self.categories,
            now,
            report: self.report,
        })
    }
}

fn nothing_left(report: &ClickReport) -> String {
    let ClickReport { read, sensitive, without_category, unknown_category, future, absurd_seconds, .. } = report;
    let examples = match report.unknown.is_empty() {
        true => String::new(),
        false => format!(" (such as {})", report.unknown.join(", ")),
    };
    format!(
        "none of {read} clicks can be used: {sensitive} are sensitive, {without_category} without category, \
         {unknown_category} of unknown categories{examples}, {future} in the future, {absurd_seconds} with an impossible \
         time on page"
    )
}

/// Reads a click log: delimited text with a header, JSON lines, Parquet, or a folder of Microsoft News (MIND) with
/// `behaviors.tsv` and `news.tsv`. Text may be compressed.
///
/// Columns are found by name: a person (`user`), a `page`, a `time` and `categories` are needed; `title`, `entities`
/// and `seconds` are optional. Several categories or entities are separated by `|` or `;`, or are a list.
///
/// # Errors
/// If the log cannot be read, a column is missing, a line is bad and not to be skipped, or nothing is left of it.
pub fn read_clicks(path: &Path, rules: &ClickRules) -> Result<Clicks> {
    let label = path.display().to_string();
    if path.is_dir() {
        return mind::read(path, rules);
    }
    let open = || File::open(path).map_err(|error| DataError::io(&label, error));
    #[cfg(feature = "parquet")]
    if starts_with(&mut open()?, b"PAR1") {
        return columns::read(open()?, &label, rules);
    }
    #[cfg(not(feature = "parquet"))]
    if starts_with(&mut open()?, b"PAR1") {
        return Err(DataError::without_parquet(&label));
    }
    read_text(&label, unpack(Box::new(open()?)).map_err(|error| DataError::io(&label, error))?, rules)
}

fn starts_with(file: &mut File, magic: &[u8; 4]) -> bool {
    let mut first = [0; 4];
    file.read_exact(&mut first).is_ok() && first == *magic
}

/// The same for text in memory.
///
/// # Errors
/// As [`read_clicks`].
pub fn clicks_of_bytes(label: &str, bytes: &[u8], rules: &ClickRules) -> Result<Clicks> {
    let source = unpack(Box::new(Cursor::new(bytes.to_vec()))).map_err(|error| DataError::io(label, error))?;
    read_text(label, source, rules)
}

/// The page views of a synthetic town; `rules` are of [`Taxonomy::town`].
///
/// # Errors
/// If nothing is left of them.
pub fn town_clicks(town: &Town, rules: &ClickRules) -> Result<Clicks> {
    let mut builder = Builder::new("synth:town", rules);
    builder.unit = TimeUnit::PerSecond(1);
    let mut views = Vec::new();
    for user in 0..town.spec().users {
        town.reading(user, &mut views);
        let person = user.to_string();
        for view in &views {
            let page = &town.pages()[view.page as usize];
            let (id, topic) = (view.page.to_string(), page.topic.to_string());
            let about = page.about.map(|place| town.places()[place as usize].title.as_str());
            let row = builder.push(&RawClick {
                person: &person,
                page: &id,
                title: &page.title,
                categories: vec![&topic],
                entities: about.into_iter().collect(),
                time: view.time,
                seconds: Some(view.dwell),
            });
            builder.check(0, row)?;
        }
    }
    builder.finish()
}

/// Names of the columns, in the order of [`Column`].
const COLUMNS: [(&str, &[&str]); 7] = [
    ("user", &["user", "userid", "person", "personid", "visitor", "visitorid", "uid"]),
    ("time", &["time", "timestamp", "date", "datetime"]),
    ("page", &["page", "pageid", "url", "article", "item", "newsid"]),
    ("categories", &["categories", "category", "topics", "topic", "iab"]),
    ("title", &["title", "headline"]),
    ("entities", &["entities", "entity"]),
    ("seconds", &["seconds", "dwell", "dwelltime", "duration", "timeonpage"]),
];
/// Those that must be there.
const NEEDED: usize = 4;

fn role(name: &str) -> Option<usize> {
    COLUMNS.iter().position(|(_, names)| names.contains(&plain(name).as_str()))
}

fn read_text(label: &str, source: impl Read, rules: &ClickRules) -> Result<Clicks> {
    let mut builder = Builder::new(label, rules);
    let mut lines = Lines::new(source);
    let mut header: Option<(Delimiter, Vec<Option<usize>>)> = None;
    let (mut fields, mut json) = (Fields::default(), None);
    while let Some(line) = lines.next().map_err(|error| DataError::io(label, error))? {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let line = line.to_vec();
        let number = lines.number();
        if *json.get_or_insert(line.trim_ascii_start().starts_with(b"{")) {
            let row = push_object(&line, &mut builder);
            builder.check(number, row)?;
            continue;
        }
        match &header {
            None => header = Some(read_header(label, &line, &mut fields)?),
            Some((delimiter, roles)) => {
                let row = push_row(&line, *delimiter, roles, &mut fields, &mut builder);
                builder.check(number, row)?;
            }
        }
    }
    if json.is_none() {
        return Err(DataError::Empty(label.to_owned()));
    }
    builder.finish()
}

fn read_header(label: &str, line: &[u8], fields: &mut Fields) -> Result<(Delimiter, Vec<Option<usize>>)> {
    let delimiter = if line.contains(&b'\t') { b'\t' } else { b',' };
    let delimiter = Delimiter::Byte(delimiter);
    let names: Vec<String> = match fields.split(line, delimiter) {
        Ok(()) => (0..fields.len()).map(|at| decode(fields.get(line, at)).0.into_owned()).collect(),
        Err(_) => Vec::new(),
    };
    let roles: Vec<Option<usize>> = names.iter().map(|name| role(name)).collect();
    match missing(&roles) {
        Some(column) => Err(DataError::NoColumn(label.to_owned(), column.to_owned(), names.join(", "))),
        None => Ok((delimiter, roles)),
    }
}

/// The first column that is needed and not there.
fn missing(roles: &[Option<usize>]) -> Option<&'static str> {
    COLUMNS[..NEEDED].iter().enumerate().find(|(at, _)| !roles.contains(&Some(*at))).map(|(_, (name, _))| *name)
}

fn push_row(
    line: &[u8],
    delimiter: Delimiter,
    roles: &[Option<usize>],
    fields: &mut Fields,
    builder: &mut Builder<'_>,
) -> Result<(), RowError> {
    if fields.split(line, delimiter).is_err() {
        return Err(RowError::bad("row", "quotes closed at the end of their field", line));
    }
    if fields.len() != roles.len() {
        return Err(RowError::bad("row", format!("{} fields, not {}", roles.len(), fields.len()), line));
    }
    let mut texts: [Option<std::borrow::Cow<'_, str>>; 7] = Default::default();
    for (at, role) in roles.iter().enumerate() {
        if let Some(role) = role {
            texts[*role].get_or_insert_with(|| decode(fields.get(line, at)).0);
        }
    }
    let [person, time, page, categories, title, entities, seconds] = texts.each_ref().map(Option::as_deref);
    builder.push(&RawClick {
        person: person.unwrap_or_default(),
        page: page.unwrap_or_default(),
        title: title.unwrap_or_default(),
        categories: categories.unwrap_or_default().split(['|', ';']).collect(),
        entities: entities.unwrap_or_default().split(['|', ';']).collect(),
        time: number::expect_time("time", time.unwrap_or_default().as_bytes())?,
        seconds: seconds.map(parse_seconds),
    })
}

/// Seconds; not a number where they are none, so that the click is counted as impossible.
fn parse_seconds(text: &str) -> f32 {
    text.trim().parse().unwrap_or(f32::NAN)
}

fn push_object(line: &[u8], builder: &mut Builder<'_>) -> Result<(), RowError> {
    let (text, _) = decode(line);
    let object: serde_json::Map<String, Value> = serde_json::from_str(&text)
        .map_err(|error| RowError::bad("object", format!("a JSON object ({error})"), line))?;
    let mut values: [Option<Vec<String>>; 7] = Default::default();
    for (name, value) in object {
        if let Some(role) = role(&name) {
            values[role].get_or_insert_with(|| texts(value));
        }
    }
    push_values(&values, builder)
}

/// Pushes a click whose columns are lists of texts, as JSON and Parquet have them.
fn push_values(values: &[Option<Vec<String>>; 7], builder: &mut Builder<'_>) -> Result<(), RowError> {
    let one = |at: usize| values[at].as_ref().and_then(|all| all.first()).map_or("", String::as_str);
    let all =
        |at: usize| -> Vec<&str> { values[at].iter().flatten().flat_map(|text| text.split(['|', ';'])).collect() };
    for (at, (name, _)) in COLUMNS[..NEEDED].iter().enumerate() {
        if values[at].is_none() {
            return Err(RowError::bad(name, "a value", b""));
        }
    }
    builder.push(&RawClick {
        person: one(0),
        page: one(2),
        title: one(4),
        categories: all(3),
        entities: all(5),
        time: number::expect_time("time", one(1).as_bytes())?,
        seconds: values[6].is_some().then(|| parse_seconds(one(6))),
    })
}

/// A value as texts: one, or those of a list.
fn texts(value: Value) -> Vec<String> {
    match value {
        Value::Null => Vec::new(),
        Value::String(text) => vec![text],
        Value::Array(all) => all.into_iter().flat_map(texts).collect(),
        other => vec![other.to_string()],
    }
}

/// Click logs in Parquet.
#[cfg(feature = "parquet")]
mod columns {
    use super::*;
    use parquet::file::reader::FileReader;
    use parquet::file::serialized_reader::SerializedFileReader;
    use parquet::record::Field;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    pub(super) fn read(file: File, label: &str, rules: &ClickRules) -> Result<Clicks> {
        let damaged = |reason: &str| DataError::Parquet(label.to_owned(), reason.to_owned());
        let reading = AssertUnwindSafe(|| {
            let reader = SerializedFileReader::new(file).map_err(|error| damaged(&error.to_string()))?;
            let schema = reader.metadata().file_metadata().schema_descr();
            let names: Vec<String> =
                schema.root_schema().get_fields().iter().map(|field| field.name().to_owned()).collect();
            let roles: Vec<Option<usize>> = names.iter().map(|name| role(name)).collect();
            if let Some(column) = missing(&roles) {
                return Err(DataError::NoColumn(label.to_owned(), column.to_owned(), names.join(", ")));
            }
            let mut builder = Builder::new(label, rules);
            let rows = reader.get_row_iter(None).map_err(|error| damaged(&error.to_string()))?;
            for (number, row) in (1..).zip(rows) {
                let row = row.map_err(|error| damaged(&error.to_string()))?;
                let mut values: [Option<Vec<String>>; 7] = Default::default();
                for ((_, field), role) in row.get_column_iter().zip(&roles) {
                    if let Some(role) = role {
                        values[*role].get_or_insert_with(|| texts(field));
                    }
                }
                let pushed = push_values(&values, &mut builder);
                builder.check(number, pushed)?;
            }
            builder.finish()
        });
        // The library panics on some damaged files; what it was reading is dropped with the panic.
        catch_unwind(reading).unwrap_or_else(|_| Err(damaged("the file is damaged")))
    }

    fn texts(field: &Field) -> Vec<String> {
        match field {
            Field::Null => Vec::new(),
            Field::Str(text) => vec![text.clone()],
            Field::Bytes(bytes) => vec![decode(bytes.data()).0.into_owned()],
            Field::ListInternal(list) => list.elements().iter().flat_map(texts).collect(),
            // Whole numbers of the unit, which is inferred from their size.
            Field::TimestampMillis(time) | Field::TimestampMicros(time) | Field::Long(time) => vec![time.to_string()],
            Field::Date(days) => vec![(i64::from(*days) * 86_400).to_string()],
            Field::Float(value) => vec![value.to_string()],
            Field::Double(value) => vec![value.to_string()],
            other => vec![other.to_string()],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interests::Interests;

    const TREE: &str = "id\tparent\tname\n1\t\tSports\n2\t1\tSkiing\n3\t2\tTelemark\n4\t\tPolitics\n5\t4\tTaxes\n";

    fn rules() -> ClickRules {
        ClickRules::new(Taxonomy::parse("own", TREE.as_bytes()).unwrap())
    }

    fn read(text: &str, rules: &ClickRules) -> Result<Clicks> {
        clicks_of_bytes("log.tsv", text.as_bytes(), rules)
    }

    const HEADER: &str = "user\ttime\tpage\ttitle\tcategories\tentities\tseconds\n";

    #[test]
    fn counts_what_is_left_out_by_reason() {
        let log = [
            "anna\t1700000000\ta\tSlalom\tSkiing|Sports\tAlps;Tyrol\t40",
            "anna\t1700000100\tb\t雪\t3\t\t12.5",
            "anna\t1700000000\ta\tSlalom\tSkiing\t\t40",
            "anna\t1700000200\tc\t\tSkiing|Taxes\t\t40",
            "anna\t1700000200\td\t\tSkiing;Gambling\t\t40",
            "bea\t1700000200\te\t\tCurling\t\t40",
            "bea\t1700000200\tf\t\t\t\t40",
            "bea\t1700000200\tg\t\tSkiing\t\t-1",
            "bea\t1700000200\th\t\tSkiing\t\tNaN",
            "bea\t1700000200\ti\t\tSkiing\t\t1e9",
            "bea\t4000000000\tj\t\tSkiing\t\t1",
        ];
        let clicks = read(&(HEADER.to_owned() + &log.join("\n")), &rules()).unwrap();
        let expected = ClickReport {
            read: 11,
            used: 2,
            sensitive: 2,
            without_category: 1,
            unknown_category: 1,
            future: 1,
            absurd_seconds: 3,
            repeated: 1,
            bad_lines: 0,
            unknown: vec!["Curling".to_owned()],
        };
        assert_eq!(*clicks.report(), expected);
        let first = clicks.iter().next().unwrap();
        assert_eq!((first.categories, first.seconds, clicks.title(first.page)), (&[1, 0][..], Some(40.0), "Slalom"));
        assert_eq!(clicks.entities(first.page), ["Alps", "Tyrol"]);
        assert_eq!((clicks.title(1), clicks.now(), clicks.are_timed()), ("雪", 1_700_000_100, true));
    }

    #[test]
    fn configures_what_is_sensitive_and_lifts_tiers() {
        let log = "user\ttime\tpage\tcategory\na\t2024-01-30\tp\tTaxes\na\t2024-01-30\tq\tTelemark\n";
        let used = |rules: &ClickRules| -> Vec<u32> {
            read(log, rules).unwrap().iter().flat_map(|click| click.categories.to_vec()).collect()
        };
        assert_eq!(used(&rules()), [2]);
        assert_eq!(used(&rules().not_sensitive(["Politics"]).unwrap()), [4, 2]);
        assert_eq!(used(&rules().in_tier(Some(1))), [0]);
        let error = read(log, &rules().also_sensitive(["Sports"]).unwrap()).unwrap_err().to_string();
        assert!(error.contains("none of 2 clicks can be used: 2 are sensitive"), "{error}");
        assert!(rules().also_sensitive(["Curling"]).is_err());
        // Without a column of seconds nothing counts as clicked by accident.
        let clicks = read(log, &rules()).unwrap();
        assert!(!clicks.are_timed());
        assert_eq!(Interests::score(&clicks).interested(0).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn reads_json_lines_with_lists_and_commas() {
        let json = "{\"user\": 7, \"timestamp\": 1700000000000, \"url\": \"a\", \"categories\": [\"Skiing\", 1], \"dwell\": 11}\n\
                    {\"user\": 7, \"timestamp\": 1700000000001, \"url\": \"b\", \"categories\": \"Skiing|1\", \"dwell\": null}\n";
        let clicks = read(json, &rules()).unwrap();
        let all: Vec<_> = clicks.iter().map(|click| (click.time, click.categories.to_vec(), click.seconds)).collect();
        // A time on page that is there and no number cannot be used.
        assert_eq!(all, [(1_700_000_000, vec![1, 0], Some(11.0))]);
        assert_eq!(clicks.report().absurd_seconds, 1);
        let csv = "user,time,page,title,category\nx,1700000000,a,\"Snow, more snow\",Skiing\n";
        assert_eq!(read(csv, &rules()).unwrap().title(0), "Snow, more snow");
    }

    #[test]
    fn scores_as_of_a_moment() {
        let day = 86_400;
        let mut log = "user\ttime\tpage\tcategory\tseconds\n".to_owned();
        for visit in 0..6 {
            log += &format!("a\t{}\tp{visit}\tSkiing\t2\n", 1_700_000_000 - visit * day);
        }
        let rules = rules().at(Some(1_700_000_000 + 7 * day));
        let clicks = read(&log, &rules).unwrap();
        let interests = Interests::score(&clicks);
        let skiing = interests.of(0)[0];
        assert_eq!((skiing.recency, skiing.frequency, skiing.seconds, skiing.score()), (2, 2, Some(12.0), 4));
        // What happened after the moment is in the future.
        let early = read(&log, &rules.at(Some(1_700_000_000 - 1))).unwrap();
        assert_eq!(early.report().future, 1);
    }

    #[test]
    fn names_what_is_wrong_and_where() {
        let cases = [
            ("", "the file is empty"),
            ("user\ttime\tpage\n", "no column categories; the columns are: user, time, page"),
            (
                "user\ttime\tpage\tcategory\na\tnow\tp\tSkiing\n",
                "line 2, field time: expected a number or a date, found `now`",
            ),
            ("user\ttime\tpage\tcategory\n\t5\tp\tSkiing\n", "line 2, field user: expected an id"),
            ("user\ttime\tpage\tcategory\na\t5\tSkiing\n", "line 2, field row: expected 4 fields, not 3"),
            ("{\"user\": 1\n", "line 1, field object: expected a JSON object"),
            ("{\"user\": 1, \"time\": 5, \"page\": 1}\n", "line 1, field categories: expected a value"),
            ("user\ttime\tpage\tcategory\na\t5\tp\tCurling\n", "1 of unknown categories (such as Curling)"),
        ];
        for (text, expected) in cases {
            let error = read(text, &rules()).unwrap_err().to_string();
            assert!(error.contains("log.tsv") && error.contains(expected), "{error}");
        }
        let text = "user\ttime\tpage\tcategory\na\tnow\tp\tSkiing\na\t5\tp\tSkiing\n";
        let clicks = read(text, &rules().skipping_bad_lines(true)).unwrap();
        assert_eq!((clicks.report().bad_lines, clicks.report().used), (1, 1));
    }

    #[test]
    fn a_towns_page_views_are_clicks() {
        let town = Town::build(&"synth:town:users=60:seed=3".parse().unwrap()).unwrap();
        let rules = ClickRules::new(Taxonomy::town());
        let clicks = town_clicks(&town, &rules).unwrap();
        assert!(clicks.report().sensitive > 0 && clicks.report().unknown_category == 0);
        assert!(clicks.iter().all(|click| click.categories.iter().all(|&category| !rules.is_sensitive(category))));
        let interests = Interests::score(&clicks);
        // People are interested in what the town says they care for more often than in anything else.
        let (mut hits, mut all) = (0, 0);
        for (person, id) in (0..interests.people()).zip(clicks.people().iter()) {
            let truth = town.interests(id.parse().unwrap());
            for category in interests.interested(person) {
                let topic: u32 = rules.taxonomy().categories()[category as usize].id.parse().unwrap();
                hits += usize::from(truth.contains(&topic));
                all += 1;
            }
        }
        assert!(all > 40 && 10 * hits > 8 * all, "{hits} of {all}");
    }
}
