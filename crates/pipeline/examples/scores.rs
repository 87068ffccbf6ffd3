//! Scores a whole click log at once, for comparisons with other engines: `scores FILE.parquet [THREADS]`.
//!
//! The rules are those of the pipeline's first job, without what makes it incremental: the clicks of a file of
//! `sottovoce pipeline generate`, as of the end of its last day. Prints the number of scores, their sum, and the
//! seconds that the query took. `scores --codes` prints what the texts of categories stand for, which `scores.py`
//! needs.

#![allow(clippy::print_stdout, reason = "an example that reports")]

use anyhow::{Context, Result};
use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::common::ScalarValue;
use sottovoce_data::interests::{ClickRules, Taxonomy};
use sottovoce_pipeline::engine::{Engine, Query, Scan};
use sottovoce_pipeline::functions::CodeMap;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().context("expected a Parquet file")?;
    let threads = arguments.next().map_or(Ok(2), |threads| threads.parse())?;
    let taxonomy = Taxonomy::town();
    let rules = ClickRules::new(taxonomy.clone());
    let code = |id: &String| rules.resolve(id).map(|found| found.iter().map(|category| *category as u16).collect());
    let codes: CodeMap =
        taxonomy.categories().iter().map(|category| (category.id.clone(), code(&category.id))).collect();
    let unknown = [("no-such-category".to_owned(), Some(Vec::new()))];
    let codes: CodeMap = codes.into_iter().chain(unknown).collect();
    if file == "--codes" {
        println!("{}", serde_json::to_string(&texts(&taxonomy, &codes))?);
        return Ok(());
    }
    let engine = Engine::new(threads, 4 << 30, None, Duration::MAX)?;
    let ids: Vec<&String> = taxonomy.categories().iter().map(|category| &category.id).collect();
    let schema = {
        use datafusion::arrow::datatypes::{DataType, Field, Schema};
        Arc::new(Schema::new(vec![
            Field::new("person", DataType::Utf8View, false),
            Field::new("time", DataType::Int64, false),
            Field::new("categories", DataType::Utf8View, false),
            Field::new("seconds", DataType::Float32, true),
        ]))
    };
    let scan = Scan { name: "log", files: vec![file], schema };
    let last = "SELECT max(time) FROM log WHERE time < 9000000000".to_owned();
    let start = Instant::now();
    let rows = engine.collect(&Query { scans: vec![scan.clone()], sql: last, constants: Vec::new() }).await?;
    let day = rows[0].column(0).as_primitive::<Int64Type>().value(0).div_euclid(86_400);
    let (now, month) = (day * 86_400 + 86_399, day - 29);
    let sql = format!(
        "SELECT count(*), CAST(sum(score) AS BIGINT) FROM (SELECT unnest(found['score']) AS score FROM (SELECT \
         score_visits(visits_of(codes, time, dwell, {month}, {month}), {now}, {month}, CAST($ids AS VARCHAR)) AS found \
         FROM (SELECT person, time, dwell_units(seconds) AS dwell, \
         category_codes(categories, CAST($codes AS VARCHAR)) AS codes FROM log) \
         WHERE codes IS NOT NULL AND (dwell IS NULL OR dwell >= 0) AND time <= {now} GROUP BY person))"
    );
    let text = |json: String| ScalarValue::Utf8(Some(json));
    let constants = vec![("codes", text(serde_json::to_string(&codes)?)), ("ids", text(serde_json::to_string(&ids)?))];
    let rows = engine.collect(&Query { scans: vec![scan], sql, constants }).await?;
    let [count, sum] = [0, 1].map(|at| rows[0].column(at).as_primitive::<Int64Type>().value(0));
    println!("{count} scores, sum {sum}, {:.2} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Codes of all texts of categories in generated logs: a category alone, and with the one above it.
fn texts(taxonomy: &Taxonomy, codes: &CodeMap) -> BTreeMap<String, Vec<u16>> {
    let all = taxonomy.categories();
    let mut found = BTreeMap::new();
    for category in all {
        let parent = category.parent.map_or(category, |parent| &all[parent as usize]);
        let [own, above] = [category, parent].map(|category| codes[&category.id].clone());
        found.extend(own.clone().map(|own| (category.id.clone(), own)));
        if let (Some(own), Some(above)) = (own, above) {
            let mut both = [own, above].concat();
            both.dedup();
            found.insert(format!("{}|{}", category.id, parent.id), both);
        }
    }
    found
}
