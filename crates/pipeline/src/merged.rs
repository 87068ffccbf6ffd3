//! Tables with everybody in them, put together from the runs of many days.

use crate::day::Day;
use crate::engine::{Engine, Query, Scan};
use crate::store::Folder;
use crate::tables::{MERGED_PAGES, Manifest, Run, Table, check_files, latest, read_manifest, write_file};
use crate::{interests, lookalikes};
use anyhow::{Result, bail};
use serde_json::Value;

/// The runs of a table as of a day, after a check that they are there.
pub(crate) async fn runs(folder: &Folder, day: Day, table: Table) -> Result<Vec<Run>> {
    let job = match table {
        Table::Lookalikes | Table::Segments => lookalikes::JOB,
        _ => interests::JOB,
    };
    let manifest: Manifest<Value> = read_manifest(folder, job, day).await?;
    let runs = manifest.tables.get(&table).cloned().unwrap_or_default();
    check_files(folder, runs.iter().flat_map(|run| run.files.clone()).collect()).await?;
    Ok(runs)
}

/// All files of some runs; of one bucket, if one is given.
pub(crate) fn scan(folder: &Folder, name: &'static str, table: Table, runs: &[Run], bucket: Option<usize>) -> Scan {
    let files = runs.iter().flat_map(|run| match bucket {
        Some(bucket) => &run.files[bucket..=bucket],
        None => &run.files[..],
    });
    // Rows are what is needed of a file; of empty ones one is enough to have a table at all.
    let mut files: Vec<_> = files.collect();
    match files.iter().any(|file| file.rows > 0) {
        true => files.retain(|file| file.rows > 0),
        false => files.truncate(1),
    }
    Scan { name, files: files.iter().map(|file| folder.address(&file.path)).collect(), schema: table.schema() }
}

/// Writes a table with everybody, each as of the last day on which they were active, sorted by person. Returns the
/// number of rows.
///
/// # Errors
/// If the day has not been run, or something cannot be read or written.
pub async fn export(engine: &Engine, folder: &Folder, day: Day, table: Table, out: &Folder) -> Result<u64> {
    let runs = runs(folder, day, table).await?;
    let Some(first) = runs.first() else { bail!("there are no {} as of {day}", table.name()) };
    let latest = latest("runs");
    let sql = match table {
        Table::Interests => format!(
            "SELECT person, unnest(category) AS category, unnest(recency) AS recency, unnest(frequency) AS frequency, \
             unnest(seconds) AS seconds, unnest(score) AS score, day FROM ({latest}) ORDER BY person, category"
        ),
        Table::Pages => format!(
            "SELECT person, visit['time'] AS time, visit['page'] AS page, day FROM \
             (SELECT person, unnest(unpack_pages(pages)) AS visit, day FROM ({MERGED_PAGES})) \
             ORDER BY person, time DESC, page"
        ),
        Table::Lookalikes => format!("{latest} ORDER BY person"),
        other => bail!("{} cannot be exported", other.name()),
    };
    let mut rows = 0;
    for bucket in 0..first.files.len() {
        let scans = vec![scan(folder, "runs", table, &runs, Some(bucket))];
        let query = Query { scans, sql: sql.clone(), constants: Vec::new() };
        let place = format!("bucket-{bucket:03}.parquet");
        rows += engine.retry(|| write_file(engine, out, table.exported(), &query, &place)).await?.rows;
    }
    Ok(rows)
}
