//! Clicks to test with, and what a log that is read at once says of them.

#![allow(dead_code, reason = "each test uses some of it")]

use datafusion::arrow::array::{Float32Array, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::parquet::arrow::ArrowWriter;
use sottovoce_data::interests::{ClickReport, ClickRules, Interests, Taxonomy, clicks_of_bytes};
use sottovoce_pipeline::day::Day;
use sottovoce_pipeline::engine::{Engine, Query, Scan};
use sottovoce_pipeline::interests::{self, Settings, State};
use sottovoce_pipeline::merged;
use sottovoce_pipeline::store::Folder;
use sottovoce_pipeline::tables::{Manifest, Table};
use sottovoce_text::{HashedNgrams, NgramConfig};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) const TREE: &str = "id\tparent\tname\n1\t\tSports\n2\t1\tSkiing\n3\t2\tTelemark\n4\t\tPolitics\n5\t4\tTaxes\n\
                        6\t\tFood\n7\t6\tBread\n";

pub(crate) fn rules() -> ClickRules {
    ClickRules::new(Taxonomy::parse("own", TREE.as_bytes()).unwrap())
}

/// A click: person, time, page, title, categories, seconds.
pub(crate) type Click = (String, Option<i64>, String, String, String, Option<f32>);

pub(crate) fn click(person: &str, time: i64, page: &str, categories: &str, seconds: Option<f32>) -> Click {
    let title = format!("All about {page}");
    (person.to_owned(), Some(time), page.to_owned(), title, categories.to_owned(), seconds)
}

pub(crate) fn write_clicks(folder: &Path, day: Day, part: usize, clicks: &[Click]) -> PathBuf {
    let text = |name: &str| Field::new(name, DataType::Utf8, true);
    let schema = Arc::new(Schema::new(vec![
        text("person"),
        Field::new("time", DataType::Int64, true),
        text("page"),
        text("title"),
        text("categories"),
        Field::new("seconds", DataType::Float32, true),
    ]));
    let texts =
        |get: fn(&Click) -> &String| Arc::new(clicks.iter().map(|click| Some(get(click))).collect::<StringArray>());
    let columns: Vec<Arc<dyn datafusion::arrow::array::Array>> = vec![
        texts(|click| &click.0),
        Arc::new(clicks.iter().map(|click| click.1).collect::<Int64Array>()),
        texts(|click| &click.2),
        texts(|click| &click.3),
        texts(|click| &click.4),
        Arc::new(clicks.iter().map(|click| click.5).collect::<Float32Array>()),
    ];
    let folder = folder.join(format!("day={day}"));
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join(format!("part-{part}.parquet"));
    let mut writer = ArrowWriter::try_new(File::create(&path).unwrap(), schema.clone(), None).unwrap();
    writer.write(&RecordBatch::try_new(schema, columns).unwrap()).unwrap();
    writer.close().unwrap();
    path
}

pub(crate) fn first_day() -> Day {
    "2026-11-01".parse().unwrap()
}

/// A little world of clicks: by day of arrival, with late and repeated clicks and all kinds of bad ones.
pub(crate) fn history(days: u64) -> Vec<Vec<Click>> {
    let mut rng = sottovoce_core::Rng::new(5);
    let categories = ["1", "Skiing", "3|6", "7;2", "Taxes", "Bread|Politics", "Curling", "", "6", "Gambling"];
    let mut all: Vec<Vec<Click>> = Vec::new();
    for day in 0..days {
        let start = first_day().plus(day).start();
        let mut today = Vec::new();
        for _ in 0..60 {
            // People come and go: some only on some days.
            let person = rng.below(12) + 4 * (day as u32 / 9);
            let late = if rng.chance(0.1) { i64::from(rng.below(5)) * 86_400 } else { 0 };
            let time = start - late + i64::from(rng.below(86_400));
            let seconds = match rng.below(20) {
                0 => None,
                1 => Some(-3.0),
                2 => Some(f32::NAN),
                // Not a sum of few powers of two.
                odd => Some(odd as f32 * 0.7 + 0.1),
            };
            let time = if rng.chance(0.02) { start + 9 * 86_400 } else { time };
            let text = categories[rng.index(categories.len())];
            today.push(click(&format!("p{person}"), time, &format!("page{}", rng.below(40)), text, seconds));
        }
        for _ in 0..4 {
            let again = today[rng.index(today.len())].clone();
            today.push(again);
            if let Some(before) = all.last() {
                let again = before[rng.index(before.len())].clone();
                today.push(again);
            }
        }
        all.push(today);
    }
    all
}

pub(crate) fn engine(threads: usize) -> Engine {
    Engine::new(threads, 256 << 20, None, std::time::Duration::MAX).unwrap()
}

pub(crate) fn encoder() -> HashedNgrams {
    HashedNgrams::new(NgramConfig { dim: 8, ..NgramConfig::default() }).unwrap()
}

pub(crate) struct World {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) rules: ClickRules,
    pub(crate) encoder: HashedNgrams,
}

impl World {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), rules: rules(), encoder: encoder() }
    }

    pub(crate) fn with(history: &[Vec<Click>]) -> Self {
        let world = Self::new();
        for (day, clicks) in (0..).zip(history) {
            // Two files, so that nothing depends on there being one.
            let (one, other) = clicks.split_at(clicks.len() / 2);
            write_clicks(&world.clicks(), first_day().plus(day), 0, one);
            write_clicks(&world.clicks(), first_day().plus(day), 1, other);
        }
        world
    }

    pub(crate) fn clicks(&self) -> PathBuf {
        self.folder.path().join("clicks")
    }

    pub(crate) fn tables(&self) -> PathBuf {
        self.folder.path().join("tables")
    }

    pub(crate) fn settings(&self, day: Day) -> Settings<'_> {
        Settings {
            clicks: Folder::open(self.clicks().to_str().unwrap()).unwrap(),
            tables: Folder::open(self.tables().to_str().unwrap()).unwrap(),
            day,
            rules: &self.rules,
            encoder: &self.encoder,
            late_days: 7,
            buckets: 2,
            allow_empty: false,
            skip_bad: false,
        }
    }

    pub(crate) async fn run(&self, engine: &Engine, day: Day) -> Manifest<State> {
        interests::run(engine, &self.settings(day)).await.unwrap_or_else(|error| panic!("{day}: {error:#}"))
    }

    pub(crate) async fn fails(&self, day: Day) -> String {
        match interests::run(&engine(2), &self.settings(day)).await {
            Ok(_) => panic!("{day} was to fail"),
            Err(error) => format!("{error:#}"),
        }
    }

    /// Everybody's interests as of a day.
    pub(crate) async fn interests(&self, engine: &Engine, day: Day) -> BTreeMap<(String, String), String> {
        let out = self.folder.path().join("export");
        let folder = Folder::open(out.to_str().unwrap()).unwrap();
        merged::export(engine, &self.settings(day).tables, day, Table::Interests, &folder).await.unwrap();
        let files = fs::read_dir(&out).unwrap().map(|file| file.unwrap().path().display().to_string()).collect();
        let scan = Scan { name: "interests", files, schema: Table::Interests.exported() };
        let sql = "SELECT arrow_cast(person, 'Utf8'), arrow_cast(category, 'Utf8'), \
                   concat(recency, ' ', frequency, ' ', coalesce(CAST(seconds AS VARCHAR), 'unknown'), ' ', score) \
                   FROM interests ORDER BY person, category";
        let query = Query { scans: vec![scan], sql: sql.to_owned(), constants: Vec::new() };
        let mut found = BTreeMap::new();
        for batch in engine.collect(&query).await.unwrap() {
            let texts: Vec<StringArray> = batch
                .columns()
                .iter()
                .map(|column| {
                    let text = datafusion::arrow::compute::cast(column, &DataType::Utf8).unwrap();
                    StringArray::from(text.to_data())
                })
                .collect();
            for row in 0..batch.num_rows() {
                let [person, category, rest] = [0, 1, 2].map(|at: usize| texts[at].value(row).to_owned());
                assert!(found.insert((person, category), rest).is_none(), "a row came twice");
            }
        }
        found
    }
}

/// What the same clicks give when they are read at once, as of the end of a day.
pub(crate) fn at_once(
    clicks: &[Click],
    day: Day,
    rules: &ClickRules,
) -> (BTreeMap<(String, String), String>, ClickReport) {
    let mut log = "user\ttime\tpage\ttitle\tcategories\tseconds\n".to_owned();
    for (person, time, page, title, categories, seconds) in clicks {
        let seconds = seconds.map_or_else(String::new, |seconds| seconds.to_string());
        writeln!(log, "{person}\t{}\t{page}\t{title}\t{categories}\t{seconds}", time.unwrap()).unwrap();
    }
    let rules = rules.clone().at(Some(day.end()));
    let clicks = clicks_of_bytes("log.tsv", log.as_bytes(), &rules).unwrap();
    let scored = Interests::score(&clicks);
    let mut found = BTreeMap::new();
    for (number, person) in clicks.people().iter().enumerate() {
        for interest in scored.of(number) {
            let id = &rules.taxonomy().categories()[interest.category as usize].id;
            let seconds = interest.seconds.map_or_else(|| "unknown".to_owned(), |seconds| format!("{seconds:?}"));
            let rest = format!("{} {} {seconds} {}", interest.recency, interest.frequency, interest.score());
            found.insert((person.to_owned(), id.clone()), rest);
        }
    }
    (found, clicks.report().clone())
}

/// All files below a folder with their bytes.
pub(crate) fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                open.push(entry);
            } else {
                let name = entry.strip_prefix(folder).unwrap().display().to_string();
                found.insert(name, fs::read(entry).unwrap());
            }
        }
    }
    found
}
