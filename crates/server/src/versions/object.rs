//! The format of an object: a safetensors file with a tensor `shared/NAME` for each table, and the opaque tensor
//! `state`.
//!
//! All metadata are in one JSON value, so that equal versions are equal files.

use super::VersionState;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::{Deserialize, Serialize};
use sottovoce_protocol::{Keyed, Parameters, Shape, Table};
use std::collections::HashMap;

/// Incremented when the format changes.
const LAYOUT: u32 = 1;
const METADATA: &str = "sottovoce";
const STATE: &str = "state";

#[derive(Serialize, Deserialize)]
struct Metadata {
    layout: u32,
    program: String,
    federation: u64,
    name: String,
    model: String,
    version: u64,
    /// In order, which safetensors does not preserve.
    tables: Vec<TableMetadata>,
    /// BLAKE3 of all tables' values as little-endian f32, in order, and of the state.
    digest: String,
}

#[derive(Serialize, Deserialize)]
struct TableMetadata {
    name: String,
    keyed: String,
}

fn keyed_text(keyed: Keyed) -> &'static str {
    match keyed {
        Keyed::Dense => "dense",
        Keyed::Items => "items",
        Keyed::Others => "others",
    }
}

fn read_keyed(text: &str) -> Result<Keyed, String> {
    [Keyed::Dense, Keyed::Items, Keyed::Others]
        .into_iter()
        .find(|keyed| keyed_text(*keyed) == text)
        .ok_or_else(|| format!("rows keyed by {text:?} are unknown"))
}

/// Encodes a version.
pub(super) fn encode(state: &VersionState) -> Result<Vec<u8>, String> {
    let tables = state.shared.tables();
    let values: Vec<Vec<u8>> = tables.iter().map(|table| le_bytes(table.values())).collect();
    let about_table = |shape: &Shape| TableMetadata { name: shape.name.clone(), keyed: keyed_text(shape.keyed).into() };
    let about = Metadata {
        layout: LAYOUT,
        program: env!("CARGO_PKG_VERSION").into(),
        federation: state.federation,
        name: state.name.clone(),
        model: state.model.clone(),
        version: state.version,
        tables: tables.iter().map(|table| about_table(table.shape())).collect(),
        digest: digest(values.iter().map(Vec::as_slice), &state.state),
    };
    let about = serde_json::to_string(&about).map_err(|error| error.to_string())?;
    let shared = tables.iter().zip(&values).map(|(table, bytes)| {
        let shape = vec![table.shape().rows as usize, table.shape().cols as usize];
        TensorView::new(Dtype::F32, shape, bytes).map(|view| (tensor(&table.shape().name), view))
    });
    let opaque = TensorView::new(Dtype::U8, vec![state.state.len()], &state.state);
    let views = shared.chain([opaque.map(|view| (STATE.to_owned(), view))]).collect::<Result<Vec<_>, _>>();
    let metadata = HashMap::from([(METADATA.to_owned(), about)]);
    views.and_then(|views| safetensors::serialize(views, Some(metadata))).map_err(|error| error.to_string())
}

fn tensor(table: &str) -> String {
    format!("shared/{table}")
}

fn le_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn digest<'a>(tables: impl Iterator<Item = &'a [u8]>, state: &[u8]) -> String {
    let mut hasher = blake3::Hasher::new();
    tables.for_each(|table| {
        hasher.update(table);
    });
    hasher.update(state).finalize().to_hex().to_string()
}

/// Decodes a version.
pub(super) fn decode(bytes: &[u8]) -> Result<VersionState, String> {
    let (_, metadata) =
        SafeTensors::read_metadata(bytes).map_err(|error| format!("not a safetensors file: {error}"))?;
    let about = metadata.metadata().as_ref().and_then(|metadata| metadata.get(METADATA));
    let about = about.ok_or_else(|| format!("its metadata have no {METADATA:?}"))?;
    let about: Metadata = serde_json::from_str(about).map_err(|error| format!("metadata: {error}"))?;
    if about.layout > LAYOUT {
        return Err(format!("has layout {}; this program knows up to {LAYOUT}", about.layout));
    }
    let tensors = SafeTensors::deserialize(bytes).map_err(|error| error.to_string())?;
    let names: Vec<_> = about.tables.iter().map(|table| tensor(&table.name)).collect();
    let views = names.iter().map(|name| tensors.tensor(name).map_err(|error| format!("{name}: {error}")));
    let views = views.collect::<Result<Vec<_>, _>>()?;
    let state = tensors.tensor(STATE).map_err(|error| format!("{STATE}: {error}"))?;
    if digest(views.iter().map(TensorView::data), state.data()) != about.digest {
        return Err("its contents do not have the digest in its metadata".into());
    }
    let tables = about.tables.iter().zip(&views).map(|(about, view)| table(about, view));
    let shared = Parameters::new(tables.collect::<Result<_, _>>()?).map_err(|error| error.to_string())?;
    let Metadata { federation, version, name, model, .. } = about;
    Ok(VersionState { federation, version, name, model, shared, state: state.data().to_vec() })
}

fn table(about: &TableMetadata, view: &TensorView<'_>) -> Result<Table, String> {
    let wrong = || format!("table {:?} is not f32 of two dimensions", about.name);
    let [rows, cols] = *view.shape() else { return Err(wrong()) };
    let (Ok(rows), Ok(cols), Dtype::F32) = (rows.try_into(), cols.try_into(), view.dtype()) else {
        return Err(wrong());
    };
    let (values, _) = view.data().as_chunks();
    let values = values.iter().map(|value| f32::from_le_bytes(*value)).collect();
    let shape = Shape::new(&about.name, rows, cols, read_keyed(&about.keyed)?);
    Table::new(shape, values).map_err(|error| error.to_string())
}
