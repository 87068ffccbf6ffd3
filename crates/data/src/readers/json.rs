//! One JSON object a line: reviews of Amazon, Goodreads, Yelp and their like.

use crate::builder::{DatasetBuilder, RowError};
use crate::error::Result;
use crate::lines::read_lines;
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

/// Reads a whole file. The first object decides whether there are ratings and times; all others must have the same.
pub(crate) fn read<R: Read>(source: R, builder: &mut DatasetBuilder, file: &str) -> Result<()> {
    builder.begin_metadata(file);
    let mut shape = None;
    builder.report.lines += read_lines(source, file, builder, |_, line, builder| {
        if line.trim_ascii().is_empty() {
            builder.report.blank += 1;
            return Ok(());
        }
        let object = Object::parse(line)?;
        let found = (!object.rating.text.is_empty(), !object.time.text.is_empty());
        if shape.is_none() {
            builder.expect(found.0, found.1)?;
        }
        object.push(*shape.get_or_insert(found), builder)
    })?;
    Ok(())
}

/// Whether a line is an object that names a user and an item.
pub(crate) fn is_interaction(line: &[u8]) -> bool {
    Object::parse(line).is_ok_and(|object| !object.user.text.is_empty() && !object.item.text.is_empty())
}

/// A field's text and the rank of its name: lower is more specific.
#[derive(Default)]
struct Found {
    text: String,
    rank: Option<usize>,
}

impl Found {
    fn offer(&mut self, names: &[&str], key: &str, value: &str) {
        let rank = names.iter().position(|name| *name == key);
        if rank.is_some() && self.rank.is_none_or(|before| rank.is_some_and(|rank| rank < before)) {
            self.rank = rank;
            value.clone_into(&mut self.text);
        }
    }
}

#[derive(Default)]
struct Object {
    user: Found,
    item: Found,
    rating: Found,
    time: Found,
}

impl Object {
    fn parse(line: &[u8]) -> Result<Object, RowError> {
        let (text, _) = crate::text::decode(line);
        let mut parser = serde_json::Deserializer::from_str(&text);
        let object = (&mut parser).deserialize_map(ObjectVisitor);
        let object = object.and_then(|object| parser.end().map(|()| object));
        object.map_err(|error| RowError::bad("object", format!("a JSON object ({error})"), line))
    }

    fn push(self, (rated, timed): (bool, bool), builder: &mut DatasetBuilder) -> Result<(), RowError> {
        let rating = if rated { expect_rating("rating", self.rating.text.as_bytes())? } else { 1.0 };
        let time = if timed { expect_time("timestamp", self.time.text.as_bytes())? } else { 0 };
        builder.push(self.user.text.as_bytes(), self.item.text.as_bytes(), rating, time).map(|_| ())
    }
}

struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Object;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
        let mut object = Object::default();
        while let Some(key) = map.next_key::<String>()? {
            let wanted = [USER, ITEM, RATING, TIME].iter().any(|names| names.contains(&key.as_str()));
            if !wanted {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let value = scalar(map.next_value::<serde_json::Value>()?);
            object.user.offer(USER, &key, &value);
            object.item.offer(ITEM, &key, &value);
            object.rating.offer(RATING, &key, &value);
            object.time.offer(TIME, &key, &value);
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
