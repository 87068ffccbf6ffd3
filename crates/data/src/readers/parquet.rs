//! Parquet files with one flat column each for users, items and, perhaps, ratings and times.

use crate::builder::{DatasetBuilder, RowError, TimeUnit};
use crate::columns::{self, ColumnIndices, ColumnRole, Columns};
use crate::error::{DataError, Result};
use crate::files::Files;
use crate::number;
use bytes::Bytes;
use parquet::basic::{ConvertedType, LogicalType, TimeUnit as ParquetUnit};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType, FixedLenByteArray};
use parquet::errors::Result as ParquetResult;
use parquet::file::reader::{ChunkReader, FileReader, RowGroupReader};
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::schema::types::ColumnDescriptor;
use std::fs::File;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Reads a whole file, one row group at a time.
pub(crate) fn read(
    files: &Files<'_>,
    name: &str,
    columns: Option<&Columns>,
    builder: &mut DatasetBuilder,
) -> Result<()> {
    let label = files.label(name);
    match files {
        Files::Disk(folder) => {
            let file = File::open(folder.join(name)).map_err(|error| DataError::io(&label, error))?;
            read_chunks(file, &label, columns, builder)
        }
        Files::Memory(_) => {
            let mut bytes = Vec::new();
            let read = files.open_raw(name)?.read_to_end(&mut bytes);
            read.map_err(|error| DataError::io(&label, error))?;
            read_chunks(Bytes::from(bytes), &label, columns, builder)
        }
    }
}

fn read_chunks<R: ChunkReader + 'static>(
    source: R,
    label: &str,
    columns: Option<&Columns>,
    builder: &mut DatasetBuilder,
) -> Result<()> {
    let reader = guarded(label, || SerializedFileReader::new(source))?;
    let schema = reader.metadata().file_metadata().schema_descr_ptr();
    let indices = find_columns(schema.columns(), columns, label)?;
    builder.begin(label, indices.rating.is_some(), indices.time.is_some())?;
    let header: Vec<String> = schema.columns().iter().map(|column| column.name().to_owned()).collect();
    builder.report.columns = Some(indices.report(&header, header.len()));
    builder.unit = indices.time.map_or(TimeUnit::Unknown, |index| unit_of(&schema.column(index)));
    for index in 0..reader.num_row_groups() {
        let group = guarded(label, || reader.get_row_group(index))?;
        let get = |index: usize| guarded(label, || read_column(&*group, index));
        let (mut user, mut item) = (get(indices.user)?, get(indices.item)?);
        let mut rating = indices.rating.map(get).transpose()?;
        let mut time = indices.time.map(get).transpose()?;
        let rows = user.rows;
        if [Some(&item), rating.as_ref(), time.as_ref()].into_iter().flatten().any(|other| other.rows != rows) {
            return Err(damaged(label, "its columns are not of one length"));
        }
        for _ in 0..rows {
            builder.report.lines += 1;
            let row = [Some(&mut user), Some(&mut item), rating.as_mut(), time.as_mut()];
            let row = push(row, builder);
            builder.check(builder.report.lines, row)?;
        }
    }
    Ok(())
}

/// Calls the Parquet library, which panics on some damaged files (a data page that names a dictionary which is not
/// there): that too becomes an error. What it was reading is dropped with the panic, so no half-made state is seen.
fn guarded<T>(label: &str, read: impl FnOnce() -> ParquetResult<T>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(damaged(label, &error.to_string())),
        Err(_) => Err(damaged(label, "the file is damaged")),
    }
}

fn damaged(label: &str, reason: &str) -> DataError {
    DataError::Parquet(label.to_owned(), reason.to_owned())
}

fn find_columns(
    all: &[std::sync::Arc<ColumnDescriptor>],
    asked: Option<&Columns>,
    file: &str,
) -> Result<ColumnIndices> {
    let header: Vec<String> = all.iter().map(|column| column.name().to_owned()).collect();
    let indices = match asked {
        Some(asked) => ColumnIndices::asked(asked, &header, header.len(), file)?,
        None => ColumnIndices::of_header(&header).ok_or_else(|| {
            let users = columns::find(&header, ColumnRole::User).is_none();
            let column = if users { "for users" } else { "for items" }.to_owned();
            DataError::NoColumn(file.to_owned(), column, header.join(", "))
        })?,
    };
    if asked.is_none() {
        indices.check_unique(&header, file)?;
    }
    let chosen = [Some(indices.user), Some(indices.item), indices.rating, indices.time];
    match chosen.into_iter().flatten().find(|&index| all[index].max_rep_level() > 0) {
        Some(index) => {
            let reason = format!("column {} is a list; one value a row is expected", header[index]);
            Err(damaged(file, &reason))
        }
        None => Ok(indices),
    }
}

fn unit_of(column: &ColumnDescriptor) -> TimeUnit {
    match (column.logical_type_ref(), column.converted_type()) {
        (Some(LogicalType::Timestamp(about)), _) => match about.unit {
            ParquetUnit::MILLIS => TimeUnit::PerSecond(1_000),
            ParquetUnit::MICROS => TimeUnit::PerSecond(1_000_000),
            ParquetUnit::NANOS => TimeUnit::PerSecond(1_000_000_000),
        },
        (_, ConvertedType::TIMESTAMP_MILLIS) => TimeUnit::PerSecond(1_000),
        (_, ConvertedType::TIMESTAMP_MICROS) => TimeUnit::PerSecond(1_000_000),
        (Some(LogicalType::Date), _) | (_, ConvertedType::DATE) => TimeUnit::Days,
        _ => TimeUnit::Unknown,
    }
}

/// The values of a column in one row group, given out one row after the other.
struct Values {
    cells: Cells,
    /// Whether each row has a value; empty if all have.
    present: Vec<bool>,
    /// Number of rows.
    rows: usize,
    row: usize,
    next: usize,
}

enum Cells {
    Whole(Vec<i64>),
    Decimal(Vec<f64>),
    Short(Vec<f32>),
    Text(Vec<ByteArray>),
    Fixed(Vec<FixedLenByteArray>),
}

/// One value.
#[derive(Clone, Copy)]
enum Cell<'a> {
    Whole(i64),
    Decimal(f64),
    Short(f32),
    Text(&'a [u8]),
}

impl Values {
    /// The next row's value; `None` if it is null.
    fn next(&mut self) -> Option<Cell<'_>> {
        let row = self.row;
        self.row += 1;
        if self.present.get(row) == Some(&false) {
            return None;
        }
        let index = self.next;
        self.next += 1;
        match &self.cells {
            Cells::Whole(values) => values.get(index).map(|&value| Cell::Whole(value)),
            Cells::Decimal(values) => values.get(index).map(|&value| Cell::Decimal(value)),
            Cells::Short(values) => values.get(index).map(|&value| Cell::Short(value)),
            Cells::Text(values) => values.get(index).map(|value| Cell::Text(value.data())),
            Cells::Fixed(values) => values.get(index).map(|value| Cell::Text(value.data())),
        }
    }
}

fn read_column(group: &dyn RowGroupReader, index: usize) -> ParquetResult<Values> {
    let optional = group.metadata().column(index).column_descr().max_def_level() > 0;
    Ok(match group.get_column_reader(index)? {
        ColumnReader::BoolColumnReader(reader) => {
            read_all(reader, optional, |all| Cells::Whole(all.into_iter().map(i64::from).collect()))?
        }
        ColumnReader::Int32ColumnReader(reader) => {
            read_all(reader, optional, |all| Cells::Whole(all.into_iter().map(i64::from).collect()))?
        }
        ColumnReader::Int64ColumnReader(reader) => read_all(reader, optional, Cells::Whole)?,
        ColumnReader::FloatColumnReader(reader) => read_all(reader, optional, Cells::Short)?,
        ColumnReader::DoubleColumnReader(reader) => read_all(reader, optional, Cells::Decimal)?,
        ColumnReader::ByteArrayColumnReader(reader) => read_all(reader, optional, Cells::Text)?,
        ColumnReader::FixedLenByteArrayColumnReader(reader) => read_all(reader, optional, Cells::Fixed)?,
        ColumnReader::Int96ColumnReader(reader) => {
            read_all(reader, optional, |all| Cells::Whole(all.into_iter().map(|value| value.to_millis()).collect()))?
        }
    })
}

fn read_all<T: DataType>(
    mut reader: ColumnReaderImpl<T>,
    optional: bool,
    wrap: impl Fn(Vec<T::T>) -> Cells,
) -> ParquetResult<Values> {
    const BATCH: usize = 64 << 10;
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    loop {
        let wanted = optional.then_some(&mut levels);
        let (rows, _, _) = reader.read_records(BATCH, wanted, None, &mut values)?;
        if rows == 0 {
            break;
        }
    }
    let rows = if levels.is_empty() { values.len() } else { levels.len() };
    let highest = levels.iter().copied().max().unwrap_or(0).max(1);
    let present = levels.iter().map(|&level| level == highest).collect();
    Ok(Values { cells: wrap(values), present, rows, row: 0, next: 0 })
}

fn push(row: [Option<&mut Values>; 4], builder: &mut DatasetBuilder) -> Result<(), RowError> {
    // All four step forward before anything is refused, so that they stay in the same row.
    let [user, item, rating, time] = row.map(|values| values.map(Values::next));
    let rating = rating.map_or(Ok(1.0), rating_of)?;
    let time = time.map_or(Ok(0), time_of)?;
    let (user, item) = (id_of(user.flatten(), "user")?, id_of(item.flatten(), "item")?);
    builder.push(&user, &item, rating, time).map(|_| ())
}

fn id_of<'a>(cell: Option<Cell<'a>>, field: &'static str) -> Result<std::borrow::Cow<'a, [u8]>, RowError> {
    match cell {
        Some(Cell::Text(text)) => Ok(text.into()),
        Some(Cell::Whole(number)) => Ok(number.to_string().into_bytes().into()),
        Some(Cell::Decimal(value)) if value == value.trunc() && value.abs() < 9e15 => {
            Ok((value as i64).to_string().into_bytes().into())
        }
        Some(_) => Err(RowError::bad(field, "text or a whole number", b"a decimal number")),
        None => Err(RowError::bad(field, "an id", b"null")),
    }
}

fn rating_of(cell: Option<Cell<'_>>) -> Result<f32, RowError> {
    let (value, shown) = match cell {
        Some(Cell::Whole(value)) => (Some(value as f32), value.to_string()),
        Some(Cell::Decimal(value)) => (Some(value as f32), value.to_string()),
        Some(Cell::Short(value)) => (Some(value), value.to_string()),
        Some(Cell::Text(text)) => (number::rating(text), crate::text::decode(text).0.into_owned()),
        None => (None, "null".to_owned()),
    };
    let finite = value.filter(|value| value.is_finite()).map(|value| value + 0.0);
    finite.ok_or_else(|| RowError::bad("rating", "a finite number", shown.as_bytes()))
}

fn time_of(cell: Option<Cell<'_>>) -> Result<i64, RowError> {
    let (value, shown) = match cell {
        Some(Cell::Whole(value)) => (Some(value), String::new()),
        Some(Cell::Decimal(value)) => (number::whole(value), value.to_string()),
        Some(Cell::Short(value)) => (number::whole(f64::from(value)), value.to_string()),
        Some(Cell::Text(text)) => (number::time(text), crate::text::decode(text).0.into_owned()),
        None => (None, "null".to_owned()),
    };
    value.ok_or_else(|| RowError::bad("timestamp", "a number or a date", shown.as_bytes()))
}
