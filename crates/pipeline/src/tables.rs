//! The pipeline's tables: Parquet files in runs, and the manifests that say which runs count.
//!
//! Each day adds one run to a table, so that it writes in proportion to the day. Runs are merged by levels: some of a
//! level become one of the next, so that there are few to read however long the history is. A run has one file for each
//! bucket of people. The manifest of a day is written last; until then the day has not happened.

use crate::day::Day;
use crate::engine::{Engine, Query, Scan};
use crate::functions;
use crate::store::Folder;
use anyhow::{Context, Result, bail, ensure};
use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::compute::{BatchCoalescer, cast};
use datafusion::arrow::datatypes::{DataType, Field, Int32Type, Schema, SchemaRef};
use datafusion::parquet::arrow::AsyncArrowWriter;
use datafusion::parquet::basic::{Compression, ZstdLevel};
use datafusion::parquet::file::properties::WriterProperties;
use futures_util::StreamExt;
use object_store::buffered::BufWriter;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rows that the writer takes at once. Where pages end depends on it, so it is fixed.
const BATCH: usize = 8192;

/// The tables.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Table {
    /// Clicks after all that must not be used is gone: what later days compare late clicks with.
    Clicks,
    /// Visits and time by person, category and day, from which interests are scored.
    Visits,
    /// Interests of people, as of the last day on which each was active.
    Interests,
    /// The last five pages of people.
    Pages,
    /// Titles of pages with their vectors.
    Titles,
    /// The categories that a model suggests for people.
    Lookalikes,
    /// How many people are in the audience of each category.
    Segments,
}

impl Table {
    /// The folder's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Clicks => "clicks",
            Self::Visits => "visits",
            Self::Interests => "interests",
            Self::Pages => "pages",
            Self::Titles => "titles",
            Self::Lookalikes => "lookalikes",
            Self::Segments => "segments",
        }
    }

    /// Columns.
    pub fn schema(self) -> SchemaRef {
        use DataType::{Binary, BinaryView, Date32, Float32, Float64, Int32, Int64, Utf8, Utf8View};
        let must = |name: &str, kind: DataType| Field::new(name, kind, false);
        let list = |name: &str, kind: DataType| must(name, DataType::new_list(kind, true));
        Arc::new(Schema::new(match self {
            Self::Clicks => vec![
                must("person", Utf8View),
                must("time", Int64),
                must("page", Utf8View),
                must("codes", Binary),
                Field::new("dwell", Int64, true),
            ],
            Self::Visits => vec![must("person", Utf8View), must("visits", BinaryView)],
            Self::Interests => vec![
                must("person", Utf8View),
                list("category", Utf8),
                list("recency", Int32),
                list("frequency", Int32),
                list("seconds", Float64),
                list("score", Int32),
                must("day", Date32),
            ],
            Self::Pages => vec![must("person", Utf8View), must("pages", BinaryView), must("day", Date32)],
            Self::Titles => {
                vec![must("page", Utf8View), must("title", Utf8View), must("embedding", functions::vector())]
            }
            Self::Lookalikes => {
                vec![must("person", Utf8View), list("categories", Utf8), list("scores", Float32), must("day", Date32)]
            }
            Self::Segments => vec![must("category", Utf8View), must("threshold", Float32), must("people", Int64)],
        }))
    }

    /// Columns of the table with everybody in it, where a person's interests and pages have a row each.
    pub fn exported(self) -> SchemaRef {
        use DataType::{Date32, Float64, Int32, Int64, Utf8};
        let must = |name: &str, kind: DataType| Field::new(name, kind, false);
        match self {
            Self::Interests => Arc::new(Schema::new(vec![
                must("person", Utf8),
                must("category", Utf8),
                must("recency", Int32),
                must("frequency", Int32),
                Field::new("seconds", Float64, true),
                must("score", Int32),
                must("day", Date32),
            ])),
            Self::Pages => {
                let columns = [("person", Utf8), ("time", Int64), ("page", Utf8), ("day", Date32)];
                Arc::new(Schema::new(columns.map(|(name, kind)| must(name, kind)).to_vec()))
            }
            other => other.schema(),
        }
    }

    /// Runs of one level that become one of the next. Where a day does not read the earlier runs, there may be more of
    /// them, and each row is written again less often.
    fn fan_out(self) -> usize {
        if self == Self::Interests { 16 } else { 4 }
    }

    /// How several runs become one, of which only rows that still count are left.
    fn merge(self, day: Day) -> String {
        match self {
            // Visits of more than 30 days ago never count again; all that matters of them is the last and the time.
            Self::Visits => format!(
                "SELECT person, merge_visits(visits, {}, 1000000000) AS visits FROM runs GROUP BY person \
                 ORDER BY person",
                day.month_start()
            ),
            Self::Pages => format!("{MERGED_PAGES} ORDER BY person"),
            Self::Interests | Self::Lookalikes => format!("{} ORDER BY person", latest("runs")),
            Self::Titles => "SELECT * FROM runs ORDER BY page".to_owned(),
            Self::Clicks | Self::Segments => unreachable!("these are never merged"),
        }
    }
}

/// The last pages of everybody in some runs.
pub(crate) const MERGED_PAGES: &str =
    "SELECT person, merge_pages(pages) AS pages, max(day) AS day FROM runs GROUP BY person";

/// The row of each person's last day.
pub(crate) fn latest(table: &str) -> String {
    format!(
        "SELECT {table}.* FROM {table} JOIN (SELECT person AS who, max(day) AS newest FROM {table} GROUP BY person) \
         ON person = who AND day = newest"
    )
}

/// A file of a run.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct File {
    /// Its path in the folder of tables.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Its rows.
    pub rows: u64,
}

/// A sorted part of a table: what some days added.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Run {
    /// How often it was merged.
    pub level: u32,
    /// The first of its days.
    pub first: Day,
    /// The last of its days.
    pub last: Day,
    /// One for each bucket.
    pub files: Vec<File>,
}

impl Run {
    /// All rows.
    pub fn rows(&self) -> u64 {
        self.files.iter().map(|file| file.rows).sum()
    }
}

/// What a day's job left: all that the next one needs to know.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Manifest<S> {
    /// Of this format.
    pub version: u32,
    /// The day.
    pub day: Day,
    /// The day of the job before; `None` for the first.
    pub before: Option<Day>,
    /// What was asked for, counted and decided.
    #[serde(flatten)]
    pub state: S,
    /// The runs of each table.
    pub tables: BTreeMap<Table, Vec<Run>>,
    /// Files that this day no longer needs. The next day removes them; until then this day can be run again.
    pub obsolete: Vec<String>,
}

/// By what an encoder or a model is known.
pub(crate) fn digest(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex()[..16].to_owned()
}

/// The version of manifests and tables.
const VERSION: u32 = 2;

/// The tables of one job, as of one day.
pub(crate) struct Tables {
    pub(crate) folder: Folder,
    pub(crate) engine: Engine,
    job: &'static str,
    day: Day,
    /// The runs that are there, with those of this day.
    runs: BTreeMap<Table, Vec<Run>>,
    before: Option<Day>,
    /// Files that no day needs any more.
    leftover: Vec<String>,
    /// Files of the day before.
    known: Vec<String>,
}

impl Tables {
    /// The tables as the last day before this one left them, and what it wrote down.
    pub(crate) async fn open<S: for<'a> Deserialize<'a> + Serialize>(
        folder: &Folder,
        engine: &Engine,
        job: &'static str,
        day: Day,
    ) -> Result<(Self, Option<S>)> {
        let days = days(folder, job).await?;
        if let Some(later) = days.last().filter(|last| **last > day) {
            bail!(
                "{job} of {later} have been written already, and days are run in order: put clicks that come late into \
                 a later day's folder, or write to new tables"
            );
        }
        let before = days.into_iter().rfind(|other| *other < day);
        let manifest = match before {
            Some(before) => Some(read_manifest::<S>(folder, job, before).await?),
            None => None,
        };
        let (runs, leftover) =
            manifest.as_ref().map(|old| (old.tables.clone(), old.obsolete.clone())).unwrap_or_default();
        let known = files(&runs).map(|file| file.path.clone()).collect();
        let tables = Self { folder: folder.clone(), engine: engine.clone(), job, day, runs, before, leftover, known };
        tables.check(None).await?;
        Ok((tables, manifest.map(|manifest| manifest.state)))
    }

    /// Fails if a file that counts is not there as it was written.
    async fn check(&self, table: Option<Table>) -> Result<()> {
        let chosen = self.runs.iter().filter(|(name, _)| table.is_none_or(|table| table == **name));
        let files: Vec<File> = chosen.flat_map(|(_, runs)| runs.iter().flat_map(|run| run.files.clone())).collect();
        check_files(&self.folder, files).await
    }

    /// The runs of a table.
    pub(crate) fn runs(&self, table: Table) -> &[Run] {
        self.runs.get(&table).map_or(&[], Vec::as_slice)
    }

    /// What a query reads: the files of one bucket of some runs.
    pub(crate) fn scan<'a>(
        &self,
        name: &'static str,
        table: Table,
        runs: impl IntoIterator<Item = &'a Run>,
        bucket: Option<usize>,
    ) -> Scan {
        let runs: Vec<Run> = runs.into_iter().cloned().collect();
        crate::merged::scan(&self.folder, name, table, &runs, bucket)
    }

    /// Where this day's run of a table goes.
    fn place(&self, table: Table, first: Day, bucket: usize) -> String {
        let days = if first == self.day { first.to_string() } else { format!("{first}_{}", self.day) };
        format!("{}/{days}/bucket-{bucket:03}.parquet", table.name())
    }

    /// Adds this day's run: what one query gives for each bucket.
    pub(crate) async fn add(&mut self, table: Table, queries: Vec<Query>) -> Result<&Run> {
        let run = self.write_run(table, 0, self.day, queries).await?;
        let runs = self.runs.entry(table).or_default();
        runs.push(run);
        Ok(&runs[runs.len() - 1])
    }

    async fn write_run(&self, table: Table, level: u32, first: Day, queries: Vec<Query>) -> Result<Run> {
        let places: Vec<String> = (0..queries.len()).map(|bucket| self.place(table, first, bucket)).collect();
        let work: Arc<Vec<(Query, String)>> = Arc::new(queries.into_iter().zip(places).collect());
        let files = self.engine.each(work.len(), |bucket| {
            let (engine, folder, work) = (self.engine.clone(), self.folder.clone(), work.clone());
            async move {
                let (query, place) = &work[bucket];
                engine.retry(|| write_file(&engine, &folder, table.schema(), query, place)).await
            }
        });
        Ok(Run { level, first, last: self.day, files: files.await? })
    }

    /// Adds this day's run: what one query gives for all buckets, whose numbers are its first column, in order.
    pub(crate) async fn add_split(&mut self, table: Table, query: &Query, buckets: usize) -> Result<&Run> {
        let places: Vec<String> = (0..buckets).map(|bucket| self.place(table, self.day, bucket)).collect();
        let files = self.engine.retry(|| write_split(&self.engine, &self.folder, table, query, &places)).await?;
        let runs = self.runs.entry(table).or_default();
        runs.push(Run { level: 0, first: self.day, last: self.day, files });
        Ok(&runs[runs.len() - 1])
    }

    /// Forgets runs whose last day is before this one.
    pub(crate) fn forget(&mut self, table: Table, before: Day) {
        if let Some(runs) = self.runs.get_mut(&table) {
            runs.retain(|run| run.last >= before);
        }
    }

    /// Merges runs as long as enough of them have the same level.
    pub(crate) async fn compact(&mut self, table: Table) -> Result<()> {
        loop {
            let runs = self.runs(table);
            let Some(level) = runs.last().map(|run| run.level) else { return Ok(()) };
            let same = runs.iter().rev().take_while(|run| run.level == level).count();
            if same < table.fan_out() {
                return Ok(());
            }
            let old = &runs[runs.len() - same..];
            let queries = (0..old[0].files.len()).map(|bucket| Query {
                scans: vec![self.scan("runs", table, old, Some(bucket))],
                sql: table.merge(self.day),
                constants: Vec::new(),
            });
            let run = self.write_run(table, level + 1, old[0].first, queries.collect()).await?;
            let runs = self.runs.entry(table).or_default();
            runs.truncate(runs.len() - same);
            runs.push(run);
        }
    }

    /// Writes the manifest, and with it the day; then removes what no day needs any more.
    pub(crate) async fn commit<S: Serialize>(self, state: S) -> Result<Manifest<S>> {
        let needed: Vec<&str> = files(&self.runs).map(|file| file.path.as_str()).collect();
        // Merged at once: what this day wrote and read again is not listed anywhere.
        let obsolete = self.known.iter().filter(|path| !needed.contains(&path.as_str())).cloned();
        let obsolete: Vec<String> = obsolete.collect();
        let written = self.written_and_merged(&needed).await?;
        let manifest =
            Manifest { version: VERSION, day: self.day, before: self.before, state, tables: self.runs, obsolete };
        let mut text = serde_json::to_vec_pretty(&manifest)?;
        text.push(b'\n');
        self.folder.write(&place(self.job, self.day), text).await?;
        for file in self.leftover.iter().chain(&written) {
            self.folder.remove(file).await?;
        }
        Ok(manifest)
    }

    /// Files of this day's that were merged into others on the same day.
    async fn written_and_merged(&self, needed: &[&str]) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for table in self.runs.keys() {
            let folder = format!("{}/{}", table.name(), self.day);
            let files = self.folder.list(&folder).await?.into_iter().map(|(file, _)| format!("{folder}/{file}"));
            found.extend(files.filter(|file| !needed.contains(&file.as_str())));
        }
        Ok(found)
    }
}

fn files(runs: &BTreeMap<Table, Vec<Run>>) -> impl Iterator<Item = &File> {
    runs.values().flatten().flat_map(|run| &run.files)
}

fn place(job: &str, day: Day) -> String {
    format!("manifests/{job}/{day}.json")
}

/// The days that a job has written, in order.
pub(crate) async fn days(folder: &Folder, job: &str) -> Result<Vec<Day>> {
    let files = folder.list(&format!("manifests/{job}")).await?;
    files.iter().filter_map(|(file, _)| file.strip_suffix(".json")).map(str::parse).collect()
}

/// What a job wrote down on a day.
pub(crate) async fn read_manifest<S: for<'a> Deserialize<'a>>(
    folder: &Folder,
    job: &str,
    day: Day,
) -> Result<Manifest<S>> {
    let place = place(job, day);
    let bytes = folder.read(&place).await?.with_context(|| format!("{}: not there", folder.address(&place)))?;
    let manifest: Manifest<S> =
        serde_json::from_slice(&bytes).with_context(|| format!("{}: not a manifest", folder.address(&place)))?;
    ensure!(
        manifest.version == VERSION,
        "{}: version {}, but this program knows version {VERSION}",
        folder.address(&place),
        manifest.version
    );
    Ok(manifest)
}

/// Fails if a file is not there as it was written.
pub(crate) async fn check_files(folder: &Folder, files: Vec<File>) -> Result<()> {
    let checks = futures_util::stream::iter(files.into_iter().map(|file| async move {
        let found = folder.size(&file.path).await?;
        let address = folder.address(&file.path);
        match found {
            Some(bytes) if bytes == file.bytes => Ok(()),
            Some(bytes) => bail!(
                "{address}: {bytes} bytes, but the manifest says {}: a later run was stopped; run that day again",
                file.bytes
            ),
            None => bail!("{address}: the manifest names it, but it is not there"),
        }
    }));
    let mut checks = checks.buffer_unordered(16);
    while let Some(check) = checks.next().await {
        check?;
    }
    Ok(())
}

/// A Parquet file under construction, whose bytes depend on its rows only.
struct Writer {
    place: String,
    schema: SchemaRef,
    file: AsyncArrowWriter<BufWriter>,
    rows: BatchCoalescer,
    count: u64,
}

impl Writer {
    fn create(folder: &Folder, schema: SchemaRef, place: &str) -> Result<Self> {
        folder.check_write(place)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_max_row_group_row_count(Some(1 << 18))
            .set_data_page_row_count_limit(BATCH)
            .build();
        let sink = BufWriter::new(folder.store(), folder.path(place));
        let file = AsyncArrowWriter::try_new(sink, schema.clone(), Some(properties))?;
        let rows = BatchCoalescer::new(schema.clone(), BATCH);
        Ok(Self { place: place.to_owned(), schema, file, rows, count: 0 })
    }

    /// Takes rows whose last columns are the table's.
    async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let skip = batch.num_columns() - self.schema.fields().len();
        let columns = self.schema.fields().iter().zip(&batch.columns()[skip..]);
        let columns = columns.map(|(field, column)| cast(column, field.data_type())).collect::<Result<_, _>>()?;
        self.rows.push_batch(RecordBatch::try_new(self.schema.clone(), columns)?)?;
        self.flush().await
    }

    async fn flush(&mut self) -> Result<()> {
        while let Some(batch) = self.rows.next_completed_batch() {
            self.count += batch.num_rows() as u64;
            self.file.write(&batch).await?;
        }
        Ok(())
    }

    async fn finish(mut self, folder: &Folder) -> Result<File> {
        self.rows.finish_buffered_batch()?;
        self.flush().await?;
        self.file.close().await.with_context(|| format!("writing {}", folder.address(&self.place)))?;
        let bytes = folder.size(&self.place).await?.context("a file that was just written is not there")?;
        Ok(File { path: self.place, bytes, rows: self.count })
    }
}

pub(crate) async fn write_file(
    engine: &Engine,
    folder: &Folder,
    schema: SchemaRef,
    query: &Query,
    place: &str,
) -> Result<File> {
    // The buckets run side by side; none needs more than one thread.
    let mut rows = engine.stream(query, 1).await?;
    let mut writer = Writer::create(folder, schema, place)?;
    while let Some(batch) = rows.next().await {
        writer.write(&batch?).await?;
    }
    writer.finish(folder).await
}

async fn write_split(
    engine: &Engine,
    folder: &Folder,
    table: Table,
    query: &Query,
    places: &[String],
) -> Result<Vec<File>> {
    let mut rows = engine.stream(query, engine.threads()).await?;
    let mut files = Vec::new();
    let mut writer = Writer::create(folder, table.schema(), &places[0])?;
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        let buckets = batch.column(0).as_primitive::<Int32Type>().values().clone();
        let mut start = 0;
        for part in buckets.chunk_by(|a, b| a == b) {
            while files.len() < part[0] as usize {
                files.push(writer.finish(folder).await?);
                writer = Writer::create(folder, table.schema(), &places[files.len()])?;
            }
            writer.write(&batch.slice(start, part.len())).await?;
            start += part.len();
        }
    }
    loop {
        files.push(writer.finish(folder).await?);
        if files.len() == places.len() {
            return Ok(files);
        }
        writer = Writer::create(folder, table.schema(), &places[files.len()])?;
    }
}
