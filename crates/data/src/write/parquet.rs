//! The Parquet half of writing.

use super::{DataError, Rows, atomically};
use ::parquet::basic::{Compression, ConvertedType, Repetition, Type as Physical, ZstdLevel};
use ::parquet::data_type::{ByteArray, ByteArrayType, DataType, FloatType, Int64Type};
use ::parquet::errors::Result as ParquetResult;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use ::parquet::schema::types::Type;
use sottovoce_core::Names;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

pub(super) fn write(rows: &Rows<'_>, path: &Path) -> Result<(), DataError> {
    atomically(path, |file| {
        let kept = file.try_clone()?;
        parquet_file(rows, file).map_err(io::Error::other)?;
        Ok(kept)
    })
}

/// Rows a row group: large enough to pack well, small enough to be read in little memory.
const GROUP: usize = 1 << 20;

fn parquet_file<W: Write + Send>(rows: &Rows<'_>, file: W) -> ParquetResult<()> {
    let packing = Compression::ZSTD(ZstdLevel::try_new(3)?);
    let properties = WriterProperties::builder().set_compression(packing).build();
    let mut writer = SerializedFileWriter::new(file, Arc::new(schema(rows)?), Arc::new(properties))?;
    for start in (0..rows.user.len()).step_by(GROUP) {
        let range = start..(start + GROUP).min(rows.user.len());
        let mut group = writer.next_row_group()?;
        write_ids(&mut group, rows.users, &rows.user[range.clone()])?;
        write_ids(&mut group, rows.items, &rows.item[range.clone()])?;
        if !rows.rating.is_empty() {
            write_column::<FloatType, W>(&mut group, &rows.rating[range.clone()])?;
        }
        if !rows.time.is_empty() {
            write_column::<Int64Type, W>(&mut group, &rows.time[range])?;
        }
        group.close()?;
    }
    writer.close().map(|_| ())
}

fn schema(rows: &Rows<'_>) -> ParquetResult<Type> {
    let column = |name, physical, converted| {
        let built = Type::primitive_type_builder(name, physical)
            .with_repetition(Repetition::REQUIRED)
            .with_converted_type(converted)
            .build();
        built.map(Arc::new)
    };
    let mut columns = vec![
        column("user", Physical::BYTE_ARRAY, ConvertedType::UTF8)?,
        column("item", Physical::BYTE_ARRAY, ConvertedType::UTF8)?,
    ];
    if !rows.rating.is_empty() {
        columns.push(column("rating", Physical::FLOAT, ConvertedType::NONE)?);
    }
    if !rows.time.is_empty() {
        columns.push(column("timestamp", Physical::INT64, ConvertedType::NONE)?);
    }
    Type::group_type_builder("interactions").with_fields(columns).build()
}

fn write_ids<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    ids: &Names,
    numbers: &[u32],
) -> ParquetResult<()> {
    let values: Vec<ByteArray> =
        numbers.iter().map(|&number| ByteArray::from(ids[number as usize].as_bytes().to_vec())).collect();
    write_column::<ByteArrayType, W>(group, &values)
}

fn write_column<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[T::T],
) -> ParquetResult<()> {
    if let Some(mut column) = group.next_column()? {
        column.typed::<T>().write_batch(values, None, None)?;
        column.close()?;
    }
    Ok(())
}
