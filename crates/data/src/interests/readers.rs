//! Reading click logs.

use super::clicks::{Builder, ClickRules, Clicks, RawClick};
use super::mind;
use crate::builder::{RowError, TimeUnit};
use crate::error::{DataError, Result};
use crate::fields::{Delimiter, Fields};
use crate::files::unpack;
use crate::lines::Lines;
use crate::number;
use crate::text::{decode, plain};
use crate::town::Town;
use serde_json::Value;
use std::fs::File;
use std::io::{Cursor, Read};
use std::path::Path;

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

/// The page views of a synthetic town; `rules` are of [`Taxonomy::town`](super::Taxonomy::town).
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

/// What the column of this name holds in a click log: `user`, `time`, `page`, `categories`, `title`, `entities` or
/// `seconds`; `None` if it is not used.
pub fn click_column(name: &str) -> Option<&'static str> {
    role(name).map(|role| COLUMNS[role].0)
}

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
            None => header = Some(read_header(&line, &mut fields, &mut builder)?),
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

fn read_header(line: &[u8], fields: &mut Fields, builder: &mut Builder<'_>) -> Result<(Delimiter, Vec<Option<usize>>)> {
    let delimiter = if line.contains(&b'\t') { b'\t' } else { b',' };
    let delimiter = Delimiter::Byte(delimiter);
    let names: Vec<String> = match fields.split(line, delimiter) {
        Ok(()) => (0..fields.len()).map(|at| decode(fields.get(line, at)).0.into_owned()).collect(),
        Err(_) => Vec::new(),
    };
    Ok((delimiter, roles(&names, builder)?))
}

/// What columns of these names hold.
fn roles(names: &[String], builder: &mut Builder<'_>) -> Result<Vec<Option<usize>>> {
    let roles: Vec<Option<usize>> = names.iter().map(|name| role(name)).collect();
    if let Some(column) = missing(&roles, builder.rules) {
        return Err(DataError::NoColumn(builder.label.clone(), column.to_owned(), names.join(", ")));
    }
    names.iter().for_each(|name| builder.columns.add(name, click_column(name)));
    Ok(roles)
}

/// The first column that is needed and not there.
fn missing(roles: &[Option<usize>], rules: &ClickRules) -> Option<&'static str> {
    needed(rules).find(|(at, _)| !roles.contains(&Some(*at))).map(|(_, name)| name)
}

/// Positions and names of the columns that must be there; one person's own log need not name the person.
fn needed(rules: &ClickRules) -> impl Iterator<Item = (usize, &'static str)> {
    let first = usize::from(rules.is_of_one_person());
    COLUMNS[..NEEDED].iter().enumerate().skip(first).map(|(at, (name, _))| (at, *name))
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
        seconds: seconds.filter(|text| !text.trim().is_empty()).map(parse_seconds),
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
        let role = role(&name);
        builder.columns.add(&name, role.map(|role| COLUMNS[role].0));
        if let Some(role) = role {
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
    for (at, name) in needed(builder.rules) {
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
        seconds: values[6].iter().flatten().next().map(|text| parse_seconds(text)),
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
            let mut builder = Builder::new(label, rules);
            let roles = roles(&names, &mut builder)?;
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
