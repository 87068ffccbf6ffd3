//! One user a line: the user's id, then the items in time order.

use crate::builder::{DatasetBuilder, RowError};
use crate::error::Result;
use crate::fields::{Delimiter, Fields};
use crate::lines::read_lines;
use crate::load_report::ColumnReport;
use std::io::Read;

/// Reads a whole file; there are no ratings and no times, the order of the items is the order in time.
pub(crate) fn read<R: Read>(source: R, builder: &mut DatasetBuilder, file: &str) -> Result<()> {
    builder.begin(file, false, false)?;
    builder.report.columns = Some(ColumnReport::fixed("the first field", "the fields after it", None, None));
    builder.report.in_order = true;
    let mut fields = Fields::default();
    builder.report.lines += read_lines(source, file, builder, |_, line, builder| {
        // Blanks are not quoted, so splitting cannot fail.
        let _ = fields.split(line, Delimiter::Blanks);
        match fields.len() {
            0 => builder.report.blank += 1,
            1 => return Err(RowError::bad("items", "items after the user's id", line)),
            _ => {}
        }
        (1..fields.len())
            .try_for_each(|index| builder.push(fields.get(line, 0), fields.get(line, index), 1.0, 0).map(|_| ()))
    })?;
    Ok(())
}
