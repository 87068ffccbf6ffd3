//! One user a line: the user's id, then the items in time order.

use crate::builder::{DatasetBuilder, RowError};
use crate::error::DataError;
use crate::fields::{Delimiter, Fields};
use crate::lines::Lines;
use std::io::Read;

/// Reads a whole file; there are no ratings and no times, the order of the items is the order in time.
pub(crate) fn read<R: Read>(source: R, builder: &mut DatasetBuilder, file: &str) -> Result<(), DataError> {
    builder.begin(file, false, false)?;
    let mut lines = Lines::new(source);
    let mut fields = Fields::default();
    while let Some(line) = lines.next().map_err(|error| DataError::io(file, error))? {
        let outcome = user(line, &mut fields, builder);
        builder.settle(lines.number(), outcome)?;
    }
    builder.report.lines += lines.number();
    Ok(())
}

fn user(line: &[u8], fields: &mut Fields, builder: &mut DatasetBuilder) -> Result<(), RowError> {
    // Blanks are not quoted, so cutting cannot fail.
    let _ = fields.cut(line, Delimiter::Blanks);
    match fields.len() {
        0 => builder.report.blank += 1,
        1 => return Err(RowError::row("items", "items after the user's id", line)),
        _ => {}
    }
    for place in 1..fields.len() {
        builder.push(fields.get(line, 0), fields.get(line, place), 1.0, 0)?;
    }
    Ok(())
}
