//! The look-alikes job: scores of who was active, merged with the old ones, and the sizes of audiences.

mod common;

use common::{Click, World, at_once, click, contents, engine, first_day, history, write_clicks};
use datafusion::arrow::array::AsArray;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use safetensors::tensor::{Dtype, TensorView};
use sottovoce_core::{Histories, History, PageTable, Pages};
use sottovoce_models::federated::lookalike::CENTRAL;
use sottovoce_models::settings::{Settings as ModelSettings, Value};
use sottovoce_models::{Fit, Quiet, Recommender, TensorData};
use sottovoce_pipeline::day::Day;
use sottovoce_pipeline::engine::{Engine, Query, Scan};
use sottovoce_pipeline::lookalikes::{self, Settings};
use sottovoce_pipeline::merged;
use sottovoce_pipeline::store::Folder;
use sottovoce_pipeline::tables::Table;
use sottovoce_pipeline::trained;
use sottovoce_text::Encoder as _;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

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

fn settings(world: &World, day: Day, model: impl AsRef<[u8]>, threshold: f32) -> Settings {
    Settings { tables: world.settings(day).tables, day, model: model.as_ref().to_vec(), threshold }
}

/// Categories that are not sensitive, in the order of the taxonomy.
const CATEGORIES: [&str; 5] = ["1", "2", "3", "6", "7"];

/// A model that was trained a little, with vectors of titles of this length.
fn trained_model(text: &str, dim: usize) -> (Box<dyn Recommender>, ModelSettings) {
    let model = CENTRAL.model();
    let dim = dim.to_string();
    let given = [("code", "4"), ("units", "3"), ("dim", &dim), ("text", text)];
    let settings = model.settings(given.map(|(key, value)| (key, Value::parse(value)))).unwrap();
    let mut recommender = model.build(&settings);
    let people = Histories::from_lists(&[vec![0, 1], vec![1, 2, 3], vec![3, 4], vec![0, 4]], CATEGORIES.len()).unwrap();
    recommender.fit(&people, &mut Fit::new(1, &mut Quiet)).unwrap();
    (recommender, settings)
}

/// Writes what `sottovoce train --out` writes.
fn write_model(
    folder: &Path,
    (recommender, settings): &(Box<dyn Recommender>, ModelSettings),
    ids: &[&str],
    encoder: Option<&[u8]>,
) {
    std::fs::create_dir_all(folder).unwrap();
    let settings: BTreeMap<&str, &Value> = settings.iter().collect();
    let about = serde_json::json!({"layout": 1, "model": CENTRAL.info.name, "settings": settings, "seed": 1});
    std::fs::write(folder.join("model.json"), serde_json::to_vec(&about).unwrap()).unwrap();
    let mut arrays: Vec<(String, Dtype, Vec<usize>, Vec<u8>)> = Vec::new();
    for tensor in recommender.tensors() {
        let TensorData::F32(values) = &tensor.data else { panic!("all are floats") };
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        arrays.push((format!("model.{}", tensor.name), Dtype::F32, tensor.shape, bytes));
    }
    let ends: Vec<u8> = (1..=ids.len() as u32).flat_map(u32::to_le_bytes).collect();
    arrays.push(("items.text".to_owned(), Dtype::U8, vec![ids.len()], ids.concat().into_bytes()));
    arrays.push(("items.ends".to_owned(), Dtype::U32, vec![ids.len()], ends));
    arrays.push(("users.text".to_owned(), Dtype::U8, vec![4], b"anna".to_vec()));
    let views = arrays
        .iter()
        .map(|(name, dtype, shape, bytes)| (name.clone(), TensorView::new(*dtype, shape.clone(), bytes).unwrap()));
    std::fs::write(folder.join("model.safetensors"), safetensors::serialize(views, None).unwrap()).unwrap();
    if let Some(encoder) = encoder {
        std::fs::write(folder.join("titles.encoder"), encoder).unwrap();
    }
}

/// The last five pages of each person among clicks that the rules leave, oldest first and each once.
fn last_pages(clicks: &[Click]) -> BTreeMap<String, Vec<String>> {
    let mut visits: BTreeMap<&str, BTreeMap<&str, i64>> = BTreeMap::new();
    let good = ["1", "Skiing", "3|6", "7;2", "6"];
    let possible = |seconds: Option<f32>| seconds.is_none_or(|seconds| seconds >= 0.0);
    for (person, time, page, ..) in clicks.iter().filter(|click| good.contains(&&*click.4) && possible(click.5)) {
        let last = visits.entry(person).or_default().entry(page).or_insert(i64::MIN);
        *last = time.unwrap().max(*last);
    }
    let last = |pages: BTreeMap<&str, i64>| {
        let mut pages: Vec<(i64, &str)> = pages.into_iter().map(|(page, time)| (time, page)).collect();
        pages.sort_by(|one, other| other.0.cmp(&one.0).then(one.1.cmp(other.1)));
        pages.into_iter().take(5).rev().map(|(_, page)| page.to_owned()).collect()
    };
    visits.into_iter().map(|(person, pages)| (person.to_owned(), last(pages))).collect()
}

/// A trained model says of everybody what it says outside the pipeline, from interests and pages that are worked out
/// apart from it.
#[tokio::test(flavor = "multi_thread")]
async fn a_trained_model_scores_as_it_does_outside() {
    let days = 6;
    let history = history(days);
    let (world, engine) = (World::with(&history), engine(2));
    let model = trained_model("titles", world.encoder.dim());
    let folder = world.folder.path().join("model");
    write_model(&folder, &model, &CATEGORIES, Some(&world.encoder.to_bytes()));
    let packed = trained::pack(&folder).unwrap();
    assert!(!packed.windows(4).any(|bytes| bytes == b"anna"), "a plan names nobody");
    let day = first_day().plus(days - 1);
    let mut seen: Vec<Click> = Vec::new();
    for (number, clicks) in (0..).zip(&history) {
        let day = first_day().plus(number);
        world.run(&engine, day).await;
        seen.extend(clicks.iter().filter(|click| click.1.unwrap() <= day.end()).cloned());
    }
    lookalikes::run(&engine, &settings(&world, day, &packed, 0.0)).await.unwrap();
    let (interests, _) = at_once(&seen, day, &world.rules);
    let pages = last_pages(&seen);
    let scan = Scan {
        name: "t",
        files: contents(&world.tables().join(format!("lookalikes/{day}")))
            .into_keys()
            .map(|name| world.tables().join(format!("lookalikes/{day}")).join(name).display().to_string())
            .collect(),
        schema: Table::Lookalikes.schema(),
    };
    let sql = "SELECT person, unnest(categories) AS category, unnest(scores) AS score FROM t".to_owned();
    let mut people = BTreeSet::new();
    for batch in engine.collect(&Query { scans: vec![scan], sql, constants: Vec::new() }).await.unwrap() {
        let text = |at: usize| cast(batch.column(at), &DataType::Utf8).unwrap();
        let (names, categories) = (text(0), text(1));
        let scores = batch.column(2).as_primitive::<datafusion::arrow::datatypes::Float32Type>();
        for row in 0..batch.num_rows() {
            let (person, category) = (names.as_string::<i32>().value(row), categories.as_string::<i32>().value(row));
            let strong = |rest: &str| rest.rsplit(' ').next().unwrap().parse::<u32>().unwrap() >= 3;
            let has = |id: &str| interests.get(&(person.to_owned(), id.to_owned())).is_some_and(|rest| strong(rest));
            let own: Vec<u32> = (0..5).filter(|&at| has(CATEGORIES[at as usize])).collect();
            let mut table = PageTable::new(world.encoder.dim());
            let last: Vec<u32> = pages[person]
                .iter()
                .map(|page| table.push(&world.encoder.vector(&format!("All about {page}")), &[]))
                .collect();
            let mut expected = [0.0; CATEGORIES.len()];
            let history = History { pages: Pages::new(&table, &last).unwrap(), ..(&own).into() };
            assert!(model.0.score_newcomer(history, &mut expected));
            let at = CATEGORIES.iter().position(|id| *id == category).unwrap();
            assert_eq!(scores.value(row), expected[at], "{person} {category} {own:?} {:?}", pages[person]);
            people.insert(person.to_owned());
        }
    }
    assert!(people.len() > 8, "{people:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_does_not_fit_the_tables_is_refused() {
    let (world, engine, day) = (World::new(), engine(1), first_day());
    write_clicks(&world.clicks(), day, 0, &[click("a", day.start(), "p", "Skiing", None)]);
    world.run(&engine, day).await;
    let folder = world.folder.path().join("model");
    let pack = |text: &str, ids: &[&str], encoder: Option<&[u8]>| {
        let _ = std::fs::remove_dir_all(&folder);
        write_model(&folder, &trained_model(text, world.encoder.dim()), ids, encoder);
        trained::pack(&folder).map_err(|error| format!("{error:#}"))
    };
    let error = pack("titles", &CATEGORIES, None).unwrap_err();
    assert!(error.contains("no titles.encoder"), "{error}");
    let error = pack("entities", &CATEGORIES, None).unwrap_err();
    assert!(error.contains("reads entities"), "{error}");
    let fails = async |model: Vec<u8>| {
        let failed = lookalikes::run(&engine, &settings(&world, day, model, 0.3)).await;
        format!("{:#}", failed.expect_err("it was to fail"))
    };
    let error = fails(pack("titles", &CATEGORIES, Some(b"another encoder")).unwrap()).await;
    assert!(error.contains("--encoder MODEL/titles.encoder"), "{error}");
    let error = fails(pack("none", &["a", "b", "c", "d", "e"], None).unwrap()).await;
    assert!(error.contains("none of the 1 categories"), "{error}");
    // Without titles no encoder is needed.
    let plain = pack("none", &CATEGORIES, None).unwrap();
    assert_eq!(lookalikes::run(&engine, &settings(&world, day, plain, 0.3)).await.unwrap().state.people, 1);
    let error = trained::pack(world.folder.path()).err().map(|error| format!("{error:#}"));
    assert!(error.as_ref().is_some_and(|error| error.contains("`sottovoce train --out`")), "{error:?}");
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
