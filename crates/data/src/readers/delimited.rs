//! Rows of delimited text: the reader of most formats.

use crate::builder::{DatasetBuilder, RowError};
use crate::error::DataError;
use crate::fields::Fields;
use crate::layout::Layout;
use crate::lines::Lines;
use crate::number;
use crate::preview::is_comment;
use std::io::Read;

/// Reads a whole file into the table.
pub(crate) fn read<R: Read>(
    source: R,
    layout: &Layout,
    builder: &mut DatasetBuilder,
    file: &str,
) -> Result<(), DataError> {
    builder.begin(file, layout.rating.is_some(), layout.time.is_some())?;
    builder.unit = layout.unit;
    let mut lines = Lines::new(source);
    let mut fields = Fields::default();
    let mut at_top = true;
    while let Some(line) = lines.next().map_err(|error| DataError::io(file, error))? {
        if line.is_empty() {
            builder.report.blank += 1;
        } else if at_top && is_comment(line) {
            builder.report.comments += 1;
        } else if at_top && layout.header {
            at_top = false;
        } else {
            at_top = false;
            let outcome = row(line, layout, &mut fields, builder);
            if outcome.is_err() {
                builder.settle(lines.number(), outcome)?;
            }
        }
    }
    builder.report.lines += lines.number();
    Ok(())
}

#[inline]
fn row(
    line: &[u8],
    layout: &Layout,
    fields: &mut Fields,
    builder: &mut DatasetBuilder,
) -> Result<(), RowError> {
    if fields.cut(line, layout.delimiter).is_err() {
        return Err(RowError::row("row", "quotes closed at the end of their field", line));
    }
    if fields.len() != layout.width {
        let expected = format!("{} fields, not {}", layout.width, fields.len());
        return Err(RowError::row("row", expected, line));
    }
    let rating = match layout.rating {
        Some(place) => parse(number::rating, fields.get(line, place), "rating", "a finite number")?,
        None => 1.0,
    };
    let time = match layout.time {
        Some(place) => parse(number::time, fields.get(line, place), "timestamp", "a number or a date")?,
        None => 0,
    };
    let mut id = fields.get(line, layout.item);
    if let (true, Some(place)) = (id.is_empty(), layout.item_else) {
        id = fields.get(line, place);
    }
    let item = builder.push(fields.get(line, layout.user), id, rating, time)?;
    if layout.title.is_some() || layout.category.is_some() {
        describe(line, item, layout, fields, builder)?;
    }
    Ok(())
}

#[inline]
fn parse<T>(
    by: impl Fn(&[u8]) -> Option<T>,
    text: &[u8],
    field: &'static str,
    expected: &'static str,
) -> Result<T, RowError> {
    match by(text) {
        Some(value) => Ok(value),
        None => Err(RowError::row(field, expected, text)),
    }
}

/// Titles and categories that stand in the rows themselves.
fn describe(
    line: &[u8],
    item: u32,
    layout: &Layout,
    fields: &Fields,
    builder: &mut DatasetBuilder,
) -> Result<(), RowError> {
    if let Some(place) = layout.title {
        builder.set_title(item, fields.get(line, place));
    }
    match layout.category {
        Some(place) => builder.add_category_once(item, fields.get(line, place)),
        None => Ok(()),
    }
}
