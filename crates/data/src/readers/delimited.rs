//! Rows of delimited text: the reader of most formats.

use crate::builder::{DatasetBuilder, RowError};
use crate::error::{DataError, Result};
use crate::fields::Fields;
use crate::layout::Layout;
use crate::lines::Lines;
use crate::number::{expect_rating, expect_time};
use crate::preview::is_comment;
use std::io::Read;

/// Reads a whole file into the table.
pub(crate) fn read<R: Read>(source: R, layout: &Layout, builder: &mut DatasetBuilder, file: &str) -> Result<()> {
    builder.begin(file, layout.columns.rating.is_some(), layout.columns.time.is_some())?;
    builder.unit = layout.unit;
    builder.report.columns = Some(layout.columns.report(&layout.names, layout.width));
    let mut header = Vec::new();
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
            line.clone_into(&mut header);
        } else if layout.header && line == header {
            builder.report.repeated_headers += 1;
        } else {
            at_top = false;
            let row = row(line, layout, &mut fields, builder);
            builder.check(lines.number(), row)?;
        }
    }
    builder.report.lines += lines.number();
    Ok(())
}

#[inline]
fn row(line: &[u8], layout: &Layout, fields: &mut Fields, builder: &mut DatasetBuilder) -> Result<(), RowError> {
    if fields.split(line, layout.delimiter).is_err() {
        return Err(RowError::bad("row", "quotes closed at the end of their field", line));
    }
    if fields.len() != layout.width {
        let expected = format!("{} fields, not {}", layout.width, fields.len());
        return Err(RowError::bad("row", expected, line));
    }
    let rating = match layout.columns.rating {
        Some(index) => expect_rating("rating", fields.get(line, index))?,
        None => 1.0,
    };
    let time = match layout.columns.time {
        Some(index) => expect_time("timestamp", fields.get(line, index))?,
        None => 0,
    };
    let mut id = fields.get(line, layout.columns.item);
    if let (true, Some(index)) = (id.is_empty(), layout.item_else) {
        id = fields.get(line, index);
    }
    let item = builder.push(fields.get(line, layout.columns.user), id, rating, time)?;
    if layout.title.is_some() || layout.category.is_some() {
        describe(line, item, layout, fields, builder)?;
    }
    Ok(())
}

/// Titles and categories in the rows themselves.
fn describe(
    line: &[u8],
    item: u32,
    layout: &Layout,
    fields: &Fields,
    builder: &mut DatasetBuilder,
) -> Result<(), RowError> {
    if let Some(index) = layout.title {
        builder.set_title(item, fields.get(line, index));
    }
    match layout.category {
        Some(index) => builder.add_category_once(item, fields.get(line, index)),
        None => Ok(()),
    }
}
