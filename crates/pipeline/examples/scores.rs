//! Scores a whole click log at once, for comparisons with other engines: `scores FILE.parquet [THREADS]`.
//!
//! The rules are those of the pipeline's first job, without what makes it incremental: the clicks of a file of
//! `sottovoce pipeline generate`, as of the end of its last day. Prints the number of scores, their sum, and the
//! seconds that the query took.

#![allow(clippy::print_stdout, reason = "an example that reports")]

use anyhow::{Context, Result};
use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::common::ScalarValue;
use sottovoce_data::interests::{ClickRules, Taxonomy};
use sottovoce_pipeline::engine::{Engine, Query, Scan};
use sottovoce_pipeline::functions::{CodeMap, DWELL_UNITS};
use std::sync::Arc;
use std::time::{Duration, Instant};

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().context("expected a Parquet file")?;
    let threads = arguments.next().map_or(Ok(2), |threads| threads.parse())?;
    let engine = Engine::new(threads, 4 << 30, None, Duration::MAX)?;
    let taxonomy = Taxonomy::town();
    let rules = ClickRules::new(taxonomy.clone());
    let code = |id: &String| rules.resolve(id).map(|found| found.iter().map(|category| *category as u16).collect());
    let codes: CodeMap =
        taxonomy.categories().iter().map(|category| (category.id.clone(), code(&category.id))).collect();
    let unknown = [("no-such-category".to_owned(), Some(Vec::new()))];
    let codes: CodeMap = codes.into_iter().chain(unknown).collect();
    let schema = {
        use datafusion::arrow::datatypes::{DataType, Field, Schema};
        Arc::new(Schema::new(vec![
            Field::new("person", DataType::Utf8, false),
            Field::new("time", DataType::Int64, false),
            Field::new("categories", DataType::Utf8, false),
            Field::new("seconds", DataType::Float32, true),
        ]))
    };
    let scan = Scan { name: "log", files: vec![file], schema };
    let last = "SELECT max(time) FROM log WHERE time < 9000000000".to_owned();
    let start = Instant::now();
    let rows = engine.collect(&Query { scans: vec![scan.clone()], sql: last, constants: Vec::new() }).await?;
    let now = rows[0].column(0).as_primitive::<Int64Type>().value(0).div_euclid(86_400) * 86_400 + 86_399;
    let sql = format!(
        "SELECT count(*), sum(CAST(interest_score(recency, frequency, seconds) AS BIGINT)) FROM (SELECT person, category, \
         recency_level({now} - max(time)) AS recency, \
         frequency_level(sum(CASE WHEN {now} - time < 2592000 THEN 1 ELSE 0 END)) AS frequency, \
         CASE WHEN count(*) = count(dwell) THEN CAST(sum(dwell) AS DOUBLE) / {DWELL_UNITS:?} END AS seconds FROM \
         (SELECT person, time, dwell, unnest(unpack_codes(codes)) AS category FROM \
         (SELECT person, time, dwell_units(seconds) AS dwell, category_codes(categories, CAST($codes AS VARCHAR)) AS codes \
         FROM log) WHERE codes IS NOT NULL AND (dwell IS NULL OR dwell >= 0) AND time <= {now}) \
         GROUP BY person, category)"
    );
    let constants = vec![("codes", ScalarValue::Utf8(Some(serde_json::to_string(&codes)?)))];
    let rows = engine.collect(&Query { scans: vec![scan], sql, constants }).await?;
    let [count, sum] = [0, 1].map(|at| rows[0].column(at).as_primitive::<Int64Type>().value(0));
    println!("{count} scores, sum {sum}, {:.2} s", start.elapsed().as_secs_f64());
    Ok(())
}
