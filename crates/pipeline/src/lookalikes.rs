//! The second job: a model's scores for all who were active on a day, and the sizes of the audiences.

use crate::day::Day;
use crate::engine::{Engine, Query};
use crate::scorer::{Model, Popularity};
use crate::store::Folder;
use crate::tables::{Manifest, Run, Table, Tables, digest, latest, read_manifest};
use crate::{interests, merged};
use anyhow::{Context, Result, ensure};
use datafusion::arrow::array::AsArray;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::ScalarValue;
use serde::{Deserialize, Serialize};
use sottovoce_data::interests::THRESHOLD;

/// The name of the job in manifests.
pub const JOB: &str = "lookalikes";

/// Days whose sizes of audiences are kept.
const SIZES_KEPT: u64 = 60;

/// What the job is told.
pub struct Settings {
    /// Where the tables are.
    pub tables: Folder,
    /// The day, whose interests must be there.
    pub day: Day,
    /// The model's bytes.
    pub model: Vec<u8>,
    /// The score from which a person belongs to an audience.
    pub threshold: f32,
}

/// What a day's manifest says beside the runs.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct State {
    /// Digest of the model. People who were not active since keep the scores of the one before.
    pub model: String,
    /// The score from which a person belongs to an audience.
    pub threshold: f32,
    /// People who were scored.
    pub people: u64,
    /// Places of all people in all audiences.
    pub members: u64,
    /// Audiences with anybody in them.
    pub segments: u64,
}

/// Runs a day.
///
/// # Errors
/// If the day's interests are not there, the model cannot be read, the threshold is not that of the days before, or
/// something cannot be read or written.
pub async fn run(engine: &Engine, settings: &Settings) -> Result<Manifest<State>> {
    let Settings { tables: folder, day, model, threshold } = settings;
    ensure!((0.0..=1.0).contains(threshold), "a threshold of {threshold}: expected 0 to 1");
    let scorer = Model::parse(model)?;
    let (mut tables, old) = Tables::open::<State>(folder, engine, JOB, *day).await?;
    if let Some(old) = old {
        ensure!(
            old.threshold == *threshold,
            "a threshold of {threshold}, but {} in the tables, which do not have the scores below it: use that one, or \
             new tables",
            old.threshold
        );
    }
    let missing = || format!("run `interests --day {day}` first");
    let written = read_manifest::<interests::State>(folder, interests::JOB, *day).await.with_context(missing)?;
    check_model(&scorer, &written.state)?;
    let mut runs = Vec::new();
    for table in [Table::Interests, Table::Pages, Table::Titles] {
        runs.push(merged::runs(folder, *day, table).await.with_context(missing)?);
    }
    let [interests, pages, titles] = runs.try_into().unwrap_or_default();
    let (mut people, mut changed) = (0, false);
    // Who was active is in the newest run, alone or merged with others.
    if let Some(newest) = pages.last().filter(|run| run.last == *day) {
        let buckets = newest.files.len();
        let queries = (0..buckets).map(|bucket| scores(settings, [&interests, &pages, &titles], bucket));
        people = tables.add(Table::Lookalikes, queries.collect()).await?.rows();
        changed = true;
    }
    let sizes = sizes(&tables, settings, changed);
    let (mut members, mut segments) = (0, 0);
    if let Some(query) = sizes {
        segments = tables.add(Table::Segments, vec![query]).await?.rows();
        let scan = merged::scan(
            folder,
            "sizes",
            Table::Segments,
            &tables.runs(Table::Segments)[tables.runs(Table::Segments).len() - 1..],
            None,
        );
        let sql = "SELECT coalesce(sum(people), 0) FROM sizes".to_owned();
        let rows = engine.collect(&Query { scans: vec![scan], sql, constants: Vec::new() }).await?;
        members = rows.first().map_or(0, |batch| batch.column(0).as_primitive::<Int64Type>().value(0) as u64);
    }
    tables.compact(Table::Lookalikes).await?;
    tables.forget(Table::Segments, day.minus(SIZES_KEPT));
    let model = digest(model);
    tables.commit(State { model, threshold: *threshold, people, members, segments }).await
}

/// Fails if the model was not trained on such interests and titles.
fn check_model(model: &Model, tables: &interests::State) -> Result<()> {
    if let Some(encoder) = model.scorer().encoder() {
        ensure!(
            encoder == tables.encoder,
            "the model reads titles by another encoder ({encoder}) than that of the tables ({}): write new tables with \
             `interests --encoder MODEL/titles.encoder`",
            tables.encoder
        );
    }
    let known = tables.categories.iter().any(|id| model.number(id).is_some());
    ensure!(
        known || tables.categories.is_empty() || !model.scorer().reads_interests(),
        "the model knows none of the {} categories in the tables: was it trained with another taxonomy?",
        tables.categories.len()
    );
    Ok(())
}

/// Scores of a bucket's people who were active.
fn scores(settings: &Settings, [interests, pages, titles]: [&[Run]; 3], bucket: usize) -> Query {
    let Settings { tables: folder, day, model, threshold } = settings;
    let newest = |runs: &[Run]| runs[runs.len() - 1..].to_vec();
    let mut scans = vec![
        merged::scan(folder, "interests", Table::Interests, &newest(interests), Some(bucket)),
        merged::scan(folder, "newest", Table::Pages, &newest(pages), Some(bucket)),
        merged::scan(folder, "pages", Table::Pages, pages, Some(bucket)),
    ];
    // A page without a title has a place among the last ones, but no vector.
    let embedding = match titles.is_empty() {
        true => "SELECT person, time, page, make_array(CAST(0 AS REAL)) AS embedding FROM recent WHERE false",
        false => {
            scans.push(merged::scan(folder, "titles", Table::Titles, titles, None));
            "SELECT person, time, recent.page AS page, embedding FROM recent \
             LEFT JOIN titles ON recent.page = titles.page"
        }
    };
    let today = format!("arrow_cast({}, 'Date32')", day.number() as i32);
    let sql = format!(
        "WITH active AS (SELECT person, merge_pages(pages) AS pages FROM (SELECT pages.* FROM \
         (SELECT person AS who FROM newest WHERE day = {today}) JOIN pages ON person = who) GROUP BY person), \
         recent AS (SELECT person, visit['time'] AS time, visit['page'] AS page FROM \
         (SELECT person, unnest(unpack_pages(pages)) AS visit FROM active)), \
         embedded AS (SELECT person, array_agg(embedding ORDER BY time, page DESC) AS vectors FROM ({embedding}) \
         GROUP BY person) \
         SELECT person, found['categories'] AS categories, found['scores'] AS scores, {today} AS day FROM \
         (SELECT active.person AS person, lookalike_scores(category, score, vectors, arrow_cast($model, 'Binary'), \
         arrow_cast({threshold:?}, 'Float32')) AS found FROM active \
         LEFT JOIN (SELECT person, category, score FROM interests WHERE day = {today}) AS known \
         ON known.person = active.person LEFT JOIN embedded ON embedded.person = active.person) ORDER BY person",
    );
    Query { scans, sql, constants: vec![("model", ScalarValue::Binary(Some(model.clone())))] }
}

/// How many people are in each audience: as many as before, without those who were active before, with those who are
/// now. So it costs in proportion to the day.
fn sizes(tables: &Tables, settings: &Settings, changed: bool) -> Option<Query> {
    let all = tables.runs(Table::Lookalikes);
    let (today, earlier) = all.split_last().filter(|_| changed)?;
    let mut scans = vec![tables.scan("today", Table::Lookalikes, [today], None)];
    let mut parts = vec!["SELECT unnest(categories) AS category, 1 AS change FROM today".to_owned()];
    if let Some(known) = tables.runs(Table::Segments).last() {
        scans.push(tables.scan("sizes", Table::Segments, [known], None));
        parts.push("SELECT category, people AS change FROM sizes".to_owned());
    }
    // The last branch: a cluster restricts the others, which are plain scans, rightly.
    if !earlier.is_empty() {
        scans.push(tables.scan("earlier", Table::Lookalikes, earlier, None));
        let active = "(SELECT earlier.* FROM (SELECT person AS who FROM today) JOIN earlier ON person = who)";
        parts.push(format!(
            "SELECT unnest(categories) AS category, -1 AS change FROM (WITH active AS {active} {})",
            latest("active")
        ));
    }
    let sql = format!(
        "SELECT category, arrow_cast({:?}, 'Float32') AS threshold, sum(change) AS people FROM ({}) GROUP BY category \
         HAVING sum(change) > 0 ORDER BY category",
        settings.threshold,
        parts.join(" UNION ALL ")
    );
    Some(Query { scans, sql, constants: Vec::new() })
}

/// The popularity baseline of all people as of a day.
///
/// # Errors
/// If the day's interests are not there.
pub async fn popularity(engine: &Engine, folder: &Folder, day: Day) -> Result<Popularity> {
    let runs = merged::runs(folder, day, Table::Interests).await?;
    ensure!(!runs.is_empty(), "nobody was active up to {day}");
    let query = |what: &str, then: &str| Query {
        scans: vec![merged::scan(folder, "runs", Table::Interests, &runs, None)],
        sql: format!("{what} FROM ({}) {then}", latest("runs")),
        constants: Vec::new(),
    };
    let then = format!(") WHERE score >= {THRESHOLD} GROUP BY category ORDER BY category");
    let counts = query(
        "SELECT category, count(*) AS people FROM (SELECT unnest(category) AS category, unnest(score) AS score",
        &then,
    );
    let mut interested = Vec::new();
    for batch in engine.collect(&counts).await? {
        let ids = cast(batch.column(0), &DataType::Utf8View)?;
        let counts = batch.column(1).as_primitive::<Int64Type>().values();
        let ids = ids.as_string_view().iter().flatten().map(str::to_owned);
        interested.extend(ids.zip(counts.iter().map(|count| *count as u64)));
    }
    let rows = engine.collect(&query("SELECT count(*)", "")).await?;
    let people = rows.first().map_or(0, |batch| batch.column(0).as_primitive::<Int64Type>().value(0) as u64);
    Ok(Popularity::new(&interested, people))
}
