//! One JSON object a line: reviews of Amazon, Goodreads, Yelp and their like.

use crate::builder::{DatasetBuilder, RowError};
use crate::columns::{Column, Columns};
use crate::error::{DataError, Result};
use crate::lines::read_lines;
use crate::load_report::ColumnReport;
use crate::number::{expect_rating, expect_time};
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use std::fmt;
use std::io::Read;

/// Names of the fields, the most specific first.
const USER: &[&str] = &["user_id", "reviewerID", "user", "userId", "username", "uid"];
#[rustfmt::skip]
const ITEM: &[&str] = &[
    "parent_asin", "asin", "item_id", "item", "itemId", "book_id", "business_id", "work", "movie_id",
    "movieId", "product_id", "gmap_id",
];
const RATING: &[&str] = &["rating", "overall", "stars", "score"];
const TIME: &[&str] = &["timestamp", "unixReviewTime", "unixtime", "time", "date", "date_added"];

/// The names under which the four fields are looked for.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    user: &'a [&'a str],
    item: &'a [&'a str],
    rating: &'a [&'a str],
    time: &'a [&'a str],
}

/// Those of public data sets.
const USUAL: Wanted<'static> = Wanted { user: USER, item: ITEM, rating: RATING, time: TIME };

/// Reads a whole file. The first object decides whether there are ratings and times; all others must have the same.
pub(crate) fn read<R: Read>(
    source: R,
    columns: Option<&Columns>,
    builder: &mut DatasetBuilder,
    file: &str,
) -> Result<()> {
    builder.begin_metadata(file);
    let named = columns.map(|columns| names(columns, file)).transpose()?;
    let wanted = named.as_ref().map_or(USUAL, |[user, item, rating, time]| Wanted { user, item, rating, time });
    let mut shape = None;
    builder.report.lines += read_lines(source, file, builder, |_, line, builder| {
        if line.trim_ascii().is_empty() {
            builder.report.blank += 1;
            return Ok(());
        }
        let object = Object::parse(line, wanted)?;
        let found = (!object.rating.text.is_empty(), !object.time.text.is_empty());
        if shape.is_none() {
            builder.expect(found.0, found.1)?;
            builder.report.columns = Some(object.report());
        }
        object.push(*shape.get_or_insert(found), builder)
    })?;
    Ok(())
}

/// The names of the columns that a user asked for, none for those that were not.
fn names<'a>(columns: &'a Columns, file: &str) -> Result<[Vec<&'a str>; 4]> {
    let mut names: [Vec<&str>; 4] = Default::default();
    for (role, column) in columns.roles() {
        let slot = ["user", "item", "rating", "timestamp"].iter().position(|name| *name == role).unwrap_or(0);
        match column {
            Column::Named(name) => names[slot].push(name),
            Column::At(number) => {
                let what = format!("the fields of JSON lines have names and no numbers: column {number}");
                return Err(DataError::Columns(file.to_owned(), what));
            }
            Column::LineOrder => {}
        }
    }
    Ok(names)
}

/// Whether a line is an object that names a user and an item.
pub(crate) fn is_interaction(line: &[u8]) -> bool {
    Object::parse(line, USUAL).is_ok_and(|object| !object.user.text.is_empty() && !object.item.text.is_empty())
}

/// A field's text and the rank of its name: lower is more specific.
#[derive(Default)]
struct Found {
    text: String,
    rank: Option<usize>,
    name: String,
}

impl Found {
    fn offer(&mut self, names: &[&str], key: &str, value: &str) {
        let rank = names.iter().position(|name| *name == key);
        if rank.is_some() && self.rank.is_none_or(|before| rank.is_some_and(|rank| rank < before)) {
            self.rank = rank;
            value.clone_into(&mut self.text);
            key.clone_into(&mut self.name);
        }
    }
}

#[derive(Default)]
struct Object {
    user: Found,
    item: Found,
    rating: Found,
    time: Found,
    /// All keys of the object.
    keys: Vec<String>,
}

impl Object {
    fn parse(line: &[u8], wanted: Wanted<'_>) -> Result<Object, RowError> {
        let (text, _) = crate::text::decode(line);
        let mut parser = serde_json::Deserializer::from_str(&text);
        let object = (&mut parser).deserialize_map(ObjectVisitor(wanted));
        let object = object.and_then(|object| parser.end().map(|()| object));
        object.map_err(|error| RowError::bad("object", format!("a JSON object ({error})"), line))
    }

    /// Which of its fields are read as what.
    fn report(&self) -> ColumnReport {
        let optional = |found: &Found| (!found.text.is_empty()).then(|| found.name.clone());
        let used = [&self.user, &self.item, &self.rating, &self.time].map(|found| &found.name);
        ColumnReport {
            user: self.user.name.clone(),
            item: self.item.name.clone(),
            rating: optional(&self.rating),
            timestamp: optional(&self.time),
            ignored: self.keys.iter().filter(|key| !used.contains(key)).cloned().collect(),
        }
    }

    fn push(self, (rated, timed): (bool, bool), builder: &mut DatasetBuilder) -> Result<(), RowError> {
        let rating = if rated { expect_rating("rating", self.rating.text.as_bytes())? } else { 1.0 };
        let time = if timed { expect_time("timestamp", self.time.text.as_bytes())? } else { 0 };
        builder.push(self.user.text.as_bytes(), self.item.text.as_bytes(), rating, time).map(|_| ())
    }
}

struct ObjectVisitor<'a>(Wanted<'a>);

impl<'de> Visitor<'de> for ObjectVisitor<'_> {
    type Value = Object;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
        let mut object = Object::default();
        let Wanted { user, item, rating, time } = self.0;
        while let Some(key) = map.next_key::<String>()? {
            let wanted = [user, item, rating, time].iter().any(|names| names.contains(&key.as_str()));
            if wanted {
                let value = scalar(map.next_value::<serde_json::Value>()?);
                object.user.offer(user, &key, &value);
                object.item.offer(item, &key, &value);
                object.rating.offer(rating, &key, &value);
                object.time.offer(time, &key, &value);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
            object.keys.push(key);
        }
        Ok(object)
    }
}

/// A string or number as text; anything else counts as missing.
fn scalar(value: serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text,
        serde_json::Value::Number(number) => number.to_string(),
        _ => String::new(),
    }
}
