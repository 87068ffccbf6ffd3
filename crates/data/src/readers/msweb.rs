//! Anonymous Microsoft web data (UCI): `A` lines describe areas, a `C` line begins a visitor, `V` lines are visits.

use crate::builder::{DatasetBuilder, RowError};
use crate::error::Result;
use crate::fields::{Delimiter, Fields};
use crate::lines::read_lines;
use crate::load_report::ColumnReport;
use std::io::Read;

/// Reads a whole file. Visitors of the two files have the same numbers without being the same people, so their ids
/// begin with the file's ending: `data10001`, `test10001`.
pub(crate) fn read<R: Read>(source: R, builder: &mut DatasetBuilder, file: &str) -> Result<()> {
    builder.begin(file, false, false)?;
    builder.report.columns = Some(ColumnReport::fixed("C lines", "V lines", None, None));
    let name = crate::files::unpacked_name(file);
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    let mut state = State { prefix: ending.to_owned(), visitor: String::new(), titles: Vec::new() };
    let mut fields = Fields::default();
    builder.report.lines +=
        read_lines(source, file, builder, |_, line, builder| state.line(line, &mut fields, builder))?;
    for (id, title) in state.titles {
        match builder.item(&id) {
            Some(item) => builder.set_title(item, &title),
            None => builder.report.only_described += 1,
        }
    }
    Ok(())
}

struct State {
    prefix: String,
    visitor: String,
    titles: Vec<(Vec<u8>, Vec<u8>)>,
}

impl State {
    fn line(&mut self, line: &[u8], fields: &mut Fields, builder: &mut DatasetBuilder) -> Result<(), RowError> {
        let bad = |expected: &'static str| RowError::bad("row", expected, line);
        fields.split(line, Delimiter::Byte(b',')).map_err(|_| bad("quotes closed at the end of their field"))?;
        match (fields.get(line, 0), fields.len()) {
            (b"A", 5) => {
                self.titles.push((fields.get(line, 1).to_vec(), fields.get(line, 3).to_vec()));
            }
            (b"C", 3) => {
                let (case, _) = crate::text::decode(fields.get(line, 2));
                self.visitor = format!("{}{case}", self.prefix);
            }
            (b"V", 3) if self.visitor.is_empty() => return Err(bad("a C line before the first V line")),
            (b"V", 3) => {
                builder.push(self.visitor.as_bytes(), fields.get(line, 1), 1.0, 0)?;
            }
            (b"I" | b"T" | b"N" | b"R", _) => builder.report.comments += 1,
            (b"", 1) => builder.report.blank += 1,
            _ => return Err(bad("a line of type A, C, V, I, T, N or R")),
        }
        Ok(())
    }
}
