//! The look-alikes job: scores of who was active, merged with the old ones, and the sizes of audiences.

mod common;

use common::{World, click, contents, engine, first_day, write_clicks};
use datafusion::arrow::array::AsArray;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use sottovoce_pipeline::day::Day;
use sottovoce_pipeline::engine::{Engine, Query, Scan};
use sottovoce_pipeline::lookalikes::{self, Settings};
use sottovoce_pipeline::merged;
use sottovoce_pipeline::store::Folder;
use sottovoce_pipeline::tables::Table;
use std::collections::BTreeMap;

/// Counts by the first column of a query over all Parquet files below a folder.
async fn counts(engine: &Engine, folder: &std::path::Path, table: Table, sql: &str) -> BTreeMap<String, i64> {
    let files = contents(folder).into_keys().map(|name| folder.join(name).display().to_string()).collect();
    let scan = Scan { name: "t", files, schema: table.schema() };
    let query = Query { scans: vec![scan], sql: sql.to_owned(), constants: Vec::new() };
    let mut found = BTreeMap::new();
    for batch in engine.collect(&query).await.unwrap() {
        let names = cast(batch.column(0), &DataType::Utf8).unwrap();
        let names = names.as_string::<i32>().iter().map(|name| name.unwrap().to_owned());
        found.extend(names.zip(batch.column(1).as_primitive::<Int64Type>().values().iter().copied()));
    }
    found
}

fn settings(world: &World, day: Day, model: &str, threshold: f32) -> Settings {
    Settings { tables: world.settings(day).tables, day, model: model.as_bytes().to_vec(), threshold }
}

/// The sizes, which are kept up day by day, are those of a count of everybody; also when a new model moves people out
/// of audiences.
#[tokio::test(flavor = "multi_thread")]
async fn sizes_day_by_day_equal_a_count_of_everybody() {
    let (world, engine) = (World::new(), engine(2));
    let models = [
        r#"{"kind": "popularity", "categories": ["1", "2", "6"], "shares": [0.5, 0.4, 0.1]}"#,
        r#"{"kind": "popularity", "categories": ["6", "7"], "shares": [0.9, 0.2]}"#,
    ];
    let people = [&["a", "b", "c"][..], &["b", "d"], &["a", "e"], &["b"], &["e", "f"]];
    let mut expected: BTreeMap<&str, usize> = BTreeMap::new();
    for (number, active) in (0..).zip(people) {
        let (day, model) = (first_day().plus(number), usize::from(number > 1));
        let time = day.start();
        let clicks: Vec<_> = active.iter().map(|person| click(person, time, "p", "Skiing", None)).collect();
        write_clicks(&world.clicks(), day, 0, &clicks);
        world.run(&engine, day).await;
        let manifest = lookalikes::run(&engine, &settings(&world, day, models[model], 0.3)).await.unwrap();
        assert_eq!(manifest.state.people, active.len() as u64);
        expected.extend(active.iter().map(|person| (*person, model)));
        let of = |model: usize| expected.values().filter(|other| **other == model).count() as i64;
        let all = [("1", of(0)), ("2", of(0)), ("6", of(1))];
        let all = all.into_iter().filter(|(_, count)| *count > 0).map(|(id, count)| (id.to_owned(), count)).collect();
        let sizes = world.tables().join(format!("segments/{day}"));
        assert_eq!(counts(&engine, &sizes, Table::Segments, "SELECT category, people FROM t").await, all, "{day}");
        let out = world.folder.path().join(format!("out-{number}"));
        let folder = Folder::open(out.to_str().unwrap()).unwrap();
        let tables = world.settings(day).tables;
        merged::export(&engine, &tables, day, Table::Lookalikes, &folder).await.unwrap();
        let counted = "SELECT category, count(*) FROM (SELECT unnest(categories) AS category FROM t) GROUP BY category";
        assert_eq!(counts(&engine, &out, Table::Lookalikes, counted).await, all, "{day}");
        // Again: the same bytes.
        let before = contents(&world.tables());
        lookalikes::run(&engine, &settings(&world, day, models[model], 0.3)).await.unwrap();
        assert!(contents(&world.tables()) == before, "{day}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn says_what_is_missing_or_contradicts() {
    let (world, engine, day) = (World::new(), engine(1), first_day());
    let model = r#"{"kind": "popularity", "categories": ["1"], "shares": [0.5]}"#;
    let fails = async |model: &str, threshold: f32| {
        let failed = lookalikes::run(&engine, &settings(&world, day, model, threshold)).await;
        format!("{:#}", failed.expect_err("it was to fail"))
    };
    let error = fails(model, 0.3).await;
    assert!(error.contains("run `interests --day 2026-11-01` first"), "{error}");
    write_clicks(&world.clicks(), day, 0, &[click("a", day.start(), "p", "Skiing", None)]);
    world.run(&engine, day).await;
    assert!(fails(model, 1.5).await.contains("a threshold of 1.5: expected 0 to 1"));
    assert!(fails("{", 0.3).await.contains("not a model"));
    lookalikes::run(&engine, &settings(&world, day, model, 0.3)).await.unwrap();
    write_clicks(&world.clicks(), day.plus(1), 0, &[click("a", day.plus(1).start(), "p", "Skiing", None)]);
    world.run(&engine, day.plus(1)).await;
    let failed = lookalikes::run(&engine, &settings(&world, day.plus(1), model, 0.4)).await;
    let error = format!("{:#}", failed.expect_err("it was to fail"));
    assert!(error.contains("a threshold of 0.4, but 0.3 in the tables"), "{error}");
}
