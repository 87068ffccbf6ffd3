//! Shared models on their way to devices: whole, or as the difference to a version a device has.

use super::envelope::{ENVELOPE_BYTES, Kind, open, seal};
use super::primitives::{Reader, number_bytes, write_number, write_text};
use super::update::check_layout;
use crate::difference::{Difference, DifferenceKind};
use crate::error::{DecodeError, ModelError, Result, ValueError};
use crate::parameters::{Keyed, Layout, Parameters, Shape, SharedModel, Table};
use crate::rows::{self, Rows};
use crate::{FederationId, ModelVersion, ValueEncoding, limits};

/// A table's name and shape, as layouts' fingerprints and model messages have it.
pub(crate) fn write_shape(shape: &Shape, out: &mut Vec<u8>) {
    write_text(&shape.name, out);
    write_number(shape.rows.into(), out);
    write_number(shape.cols.into(), out);
    out.push(shape.keyed as u8);
}

fn read_shape(from: &mut Reader<'_>) -> Result<Shape> {
    let name = from.name("table's name")?;
    let rows = from.number_to("rows", limits::ROWS)? as u32;
    let cols = from.number_to("cols", limits::COLS)? as u32;
    let keyed = from.code("keyed", |code| {
        [Keyed::Dense, Keyed::Items, Keyed::Others].into_iter().find(|&keyed| keyed as u8 == code)
    })?;
    Ok(Shape { name, rows, cols, keyed })
}

/// Bytes of a whole model of this layout as [`encode_model`] writes it.
pub fn model_bytes(layout: &Layout, model: &SharedModel, encoding: ValueEncoding) -> u64 {
    let of_table = |shape: &Shape| {
        let name = shape.name.len() as u64;
        let (rows, cols) = (shape.rows.into(), shape.cols.into());
        let head = number_bytes(name) + name + number_bytes(rows) + number_bytes(cols) + 1;
        head + encoding.block_bytes(rows, cols)
    };
    let tables: u64 = layout.shapes().iter().map(of_table).sum();
    let head = number_bytes(model.federation.0) + number_bytes(model.version.0) + 1;
    ENVELOPE_BYTES + head + number_bytes(layout.shapes().len() as u64) + tables
}

/// Appends a whole model. With an encoding other than f32 the device will hold rounded values; a server that sends
/// differences afterwards keeps the same by decoding what it sent.
///
/// # Errors
/// If a value cannot be encoded or the message would be too large; nothing is appended then.
pub fn encode_model(model: &SharedModel, encoding: ValueEncoding, out: &mut Vec<u8>) -> Result<(), ModelError> {
    let tables = model.parameters.tables();
    if let Some(table) = tables.iter().position(|table| !encoding.carries(table.values())) {
        return Err(ValueError { table, encoding }.into());
    }
    let bytes = model_bytes(&model.parameters.layout(), model, encoding);
    check_size(bytes)?;
    out.reserve(bytes as usize);
    seal(Kind::Model, out, |out| {
        write_number(model.federation.0, out);
        write_number(model.version.0, out);
        out.push(encoding as u8);
        write_number(tables.len() as u64, out);
        for table in tables {
            write_shape(table.shape(), out);
            encoding.write(table.values(), table.shape().cols as usize, out);
        }
    });
    Ok(())
}

fn check_size(found: u64) -> Result<(), ModelError> {
    let most = limits::MESSAGE_BYTES;
    let wrong = || ModelError::Limit(String::new(), "message bytes", found, most);
    if found > most { Err(wrong()) } else { Ok(()) }
}

/// Reads a whole model.
///
/// # Errors
/// Says what is wrong and where.
pub fn decode_model(bytes: &[u8]) -> Result<SharedModel> {
    let mut from = open(bytes, Kind::Model)?;
    let federation = FederationId(from.number("federation")?);
    let version = ModelVersion(from.number("version")?);
    let encoding = from.code("encoding", ValueEncoding::from_code)?;
    let tables = from.list("tables", limits::TABLES, |from| read_table(from, encoding))?;
    from.end()?;
    let parameters = Parameters::new(tables).map_err(|error| DecodeError::Content(error.to_string()))?;
    Ok(SharedModel { federation, version, parameters })
}

fn read_table(from: &mut Reader<'_>, encoding: ValueEncoding) -> Result<Table> {
    let shape = read_shape(from)?;
    let content = |error: ModelError| DecodeError::Content(error.to_string());
    shape.check().map_err(content)?;
    let mut values = Vec::new();
    encoding.read(shape.rows as usize, shape.cols as usize, from, &mut values)?;
    Table::new(shape, values).map_err(content)
}

/// Bytes of a difference as [`encode_difference`] writes it.
pub fn difference_bytes(difference: &Difference) -> u64 {
    let Difference { federation, base, version, tables, encoding, .. } = difference;
    let numbers: u64 = [federation.0, base.0, version.0].into_iter().map(number_bytes).sum();
    // Two checksums and two codes.
    ENVELOPE_BYTES + numbers + 10 + rows::all_bytes(tables, *encoding)
}

/// Appends a difference.
///
/// # Errors
/// If the message would be too large; nothing is appended then.
pub fn encode_difference(difference: &Difference, out: &mut Vec<u8>) -> Result<(), ModelError> {
    check_size(difference_bytes(difference))?;
    seal(Kind::Difference, out, |out| {
        for number in [difference.federation.0, difference.base.0, difference.version.0] {
            write_number(number, out);
        }
        out.extend_from_slice(&difference.layout.to_le_bytes());
        out.extend_from_slice(&difference.base_checksum.to_le_bytes());
        out.push(difference.kind as u8);
        out.push(difference.encoding as u8);
        rows::write_all(&difference.tables, difference.encoding, out);
    });
    Ok(())
}

/// Reads a difference for models of this layout.
///
/// # Errors
/// Says what is wrong and where.
pub fn decode_difference(bytes: &[u8], layout: &Layout) -> Result<Difference> {
    let mut from = open(bytes, Kind::Difference)?;
    let federation = FederationId(from.number("federation")?);
    let base = ModelVersion(from.number("base")?);
    let version = ModelVersion(from.number("version")?);
    check_layout(&mut from, layout.fingerprint())?;
    let base_checksum = from.u32("checksum of the base")?;
    let kind = if from.flag("how")? { DifferenceKind::Add } else { DifferenceKind::Replace };
    let encoding = from.code("encoding", ValueEncoding::from_code)?;
    let mut tables = Rows::of_layout(layout);
    rows::read_all(&mut tables, encoding, &mut from)?;
    from.end()?;
    let layout = layout.fingerprint();
    Ok(Difference { federation, base, version, layout, base_checksum, kind, encoding, tables })
}

/// Reads a difference and applies it to the version held.
///
/// # Errors
/// If the bytes are wrong or made for another version or content; the model is unchanged then.
pub fn apply_difference(bytes: &[u8], held: &mut SharedModel) -> Result<()> {
    let difference = decode_difference(bytes, &held.parameters.layout())?;
    difference.apply(held).map_err(|error| DecodeError::Content(error.to_string()))
}
