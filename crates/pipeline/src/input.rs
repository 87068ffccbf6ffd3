//! A day's clicks as they come: Parquet files in `day=YYYY-MM-DD/`.

use crate::day::Day;
use crate::engine::Scan;
use crate::store::Folder;
use anyhow::{Context, Result, bail, ensure};
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Fields, Schema, TimeUnit};
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use futures_util::StreamExt;
use object_store::ObjectStoreExt;
use serde::{Deserialize, Serialize};
use sottovoce_data::interests::click_column;
use std::sync::Arc;

/// A file of the day.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct InputFile {
    /// Its name in the day's folder.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Its rows.
    pub rows: u64,
}

/// The files of a day, and how their columns are read.
#[derive(Clone)]
pub(crate) struct Input {
    pub(crate) files: Vec<InputFile>,
    folder: Folder,
    below: String,
    schema: Arc<Schema>,
    /// SQL for: person, time, page, categories, title, dwell.
    columns: [String; 6],
}

/// Columns as queries name them, beside what a log calls their content.
const COLUMNS: [(&str, &str); 6] = [
    ("person", "user"),
    ("time", "time"),
    ("page", "page"),
    ("categories", "categories"),
    ("title", "title"),
    ("dwell", "seconds"),
];
/// Those that must be there.
const NEEDED: usize = 4;

impl Input {
    /// Looks at all files of a day; `None` if there are none.
    pub(crate) async fn open(clicks: &Folder, day: Day) -> Result<Option<Self>> {
        let below = format!("day={day}");
        let listed = clicks.list(&below).await?;
        let listed = listed.into_iter().filter(|(name, _)| name.ends_with(".parquet"));
        let mut found: Option<Self> = None;
        for (name, bytes) in listed {
            let address = clicks.address(&format!("{below}/{name}"));
            let (schema, rows) = footer(clicks, &format!("{below}/{name}"))
                .await
                .with_context(|| format!("{address}: not a Parquet file that can be read"))?;
            let columns = columns(&schema).with_context(|| address.clone())?;
            let input = found.get_or_insert_with(|| Self {
                files: Vec::new(),
                folder: clicks.clone(),
                below: below.clone(),
                schema: schema.clone(),
                columns: columns.clone(),
            });
            if input.columns != columns || !same_types(&input.schema, &schema) {
                bail!("{address}: its columns differ from those of {}", input.files[0].name);
            }
            input.files.push(InputFile { name, bytes, rows });
        }
        Ok(found)
    }

    /// The files as a table `log`.
    pub(crate) fn scan(&self) -> Scan {
        let address = |file: &InputFile| self.folder.address(&format!("{}/{}", self.below, file.name));
        // Without the metadata that some writers add, which need not be the same in all files. Texts are views, which
        // are not copied.
        let as_view = |field: &Arc<Field>| match field.data_type() {
            DataType::Utf8 | DataType::LargeUtf8 => Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8View)),
            _ => field.clone(),
        };
        let schema = Arc::new(Schema::new(self.schema.fields().iter().map(as_view).collect::<Fields>()));
        Scan { name: "log", files: self.files.iter().map(address).collect(), schema }
    }

    /// A query for some columns of all clicks, as `clicks`.
    pub(crate) fn select(&self, names: &[&str]) -> String {
        let columns = COLUMNS.iter().zip(&self.columns).filter(|((name, _), _)| names.contains(name));
        let columns: Vec<String> = columns.map(|((name, _), sql)| format!("{sql} AS {name}")).collect();
        format!("SELECT {} FROM log", columns.join(", "))
    }

    /// Where the first click is that has no person, page or time.
    pub(crate) async fn first_bad(&self) -> Result<String> {
        let session = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
        for address in self.scan().files {
            // One part, so that rows come in the order of the file.
            let log = session.read_parquet(address.as_str(), ParquetReadOptions::default()).await?;
            let wanted: Vec<&str> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
            let wanted: Vec<&str> = wanted
                .into_iter()
                .filter(|name| matches!(click_column(name), Some("user" | "page" | "time")))
                .collect();
            let mut batches = log.select_columns(&wanted)?.execute_stream().await?;
            let mut row = 1;
            while let Some(batch) = batches.next().await {
                let batch = batch?;
                for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
                    if let Some(at) = first_empty(column)? {
                        return Ok(format!("{address}, row {}, field {}: expected a value", row + at, field.name()));
                    }
                }
                row += batch.num_rows();
            }
        }
        bail!("a click without person, page or time was counted, but cannot be found: the files have changed")
    }
}

async fn footer(folder: &Folder, file: &str) -> Result<(Arc<Schema>, u64)> {
    let store = folder.store();
    let meta = store.head(&folder.path(file)).await?;
    let footer = DFParquetMetadata::new(store.as_ref(), &meta);
    let rows = footer.fetch_metadata().await?.file_metadata().num_rows();
    Ok((Arc::new(footer.fetch_schema().await?), rows as u64))
}

fn first_empty(column: &ArrayRef) -> Result<Option<usize>> {
    let texts = match column.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Dictionary(..) => {
            Some(cast(column, &DataType::Utf8View)?)
        }
        _ => None,
    };
    let empty = |row: &usize| {
        column.is_null(*row) || texts.as_ref().is_some_and(|texts| texts.as_string_view().value(*row).is_empty())
    };
    Ok((0..column.len()).find(empty))
}

fn same_types(one: &Schema, other: &Schema) -> bool {
    let types = |schema: &Schema| -> Vec<(String, DataType)> {
        schema.fields().iter().map(|field| (field.name().clone(), field.data_type().clone())).collect()
    };
    types(one) == types(other)
}

/// How each column is read, or what is wrong with it.
fn columns(schema: &Schema) -> Result<[String; 6]> {
    let mut found: [String; 6] = ["", "", "", "", "CAST(NULL AS VARCHAR)", "CAST(NULL AS BIGINT)"].map(str::to_owned);
    let mut taken = [false; 6];
    for field in schema.fields() {
        let role = click_column(field.name()).and_then(|role| COLUMNS.iter().position(|(_, holds)| *holds == role));
        if let Some(role) = role.filter(|role| !taken[*role]) {
            taken[role] = true;
            found[role] = read_as(role, field.name(), field.data_type())?;
        }
    }
    if let Some(at) = taken[..NEEDED].iter().position(|taken| !taken) {
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        bail!("no column {}; the columns are: {}", COLUMNS[at].1, names.join(", "));
    }
    Ok(found)
}

fn read_as(role: usize, name: &str, kind: &DataType) -> Result<String> {
    let column = format!("\"{}\"", name.replace('"', "\"\""));
    let is_text = |kind: &DataType| match kind {
        DataType::Dictionary(_, value) => matches!(**value, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View),
        kind => matches!(kind, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View),
    };
    let (sql, expected) = match COLUMNS[role].0 {
        "time" => (time(&column, kind), "a timestamp, a date or a whole number"),
        "dwell" => (kind.is_numeric().then(|| format!("dwell_units(CAST({column} AS REAL))")), "a number of seconds"),
        "categories" => (
            match kind {
                kind if is_text(kind) => Some(format!("CAST({column} AS VARCHAR)")),
                DataType::List(item) | DataType::LargeList(item)
                    if is_text(item.data_type()) || item.data_type().is_integer() =>
                {
                    Some(format!("array_to_string({column}, '|')"))
                }
                kind => kind.is_integer().then(|| format!("CAST({column} AS VARCHAR)")),
            },
            "text or a list of texts",
        ),
        _ => ((is_text(kind) || kind.is_integer()).then(|| format!("CAST({column} AS VARCHAR)")), "text"),
    };
    sql.with_context(|| format!("column {name}: expected {expected}, found {kind}"))
}

fn time(column: &str, kind: &DataType) -> Option<String> {
    let units = match kind {
        DataType::Timestamp(TimeUnit::Second, _) => 1,
        DataType::Timestamp(TimeUnit::Millisecond, _) => 1_000,
        DataType::Timestamp(TimeUnit::Microsecond, _) => 1_000_000,
        DataType::Timestamp(TimeUnit::Nanosecond, _) => 1_000_000_000,
        DataType::Date32 => return Some(format!("CAST(CAST({column} AS INT) AS BIGINT) * 86400")),
        // Inferred from the size of each.
        kind if kind.is_integer() => 0,
        _ => return None,
    };
    Some(format!("unix_seconds(CAST({column} AS BIGINT), {units})"))
}

/// The day's clicks, or what to do if there are none.
pub(crate) async fn open_day(clicks: &Folder, day: Day, may_be_empty: bool) -> Result<Option<Input>> {
    let input = Input::open(clicks, day).await?;
    ensure!(
        input.is_some() || may_be_empty,
        "{}: no Parquet files; if nobody clicked on that day, say so with --allow-empty",
        clicks.address(&format!("day={day}"))
    );
    Ok(input)
}
