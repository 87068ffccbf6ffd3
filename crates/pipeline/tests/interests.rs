//! The interests job: the same scores as a log that is read at once, whatever happens in between.

mod common;

use common::{World, at_once, click, contents, engine, first_day, history, write_clicks};
use sottovoce_data::interests::ClickReport;
use sottovoce_pipeline::interests;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Day by day gives the bits that the whole history gives at once: those of each person as of their last active day.
#[tokio::test(flavor = "multi_thread")]
async fn day_by_day_equals_the_whole_history_at_once() {
    let history = history(33);
    let world = World::with(&history);
    let engine = engine(2);
    let mut seen = Vec::new();
    let mut expected = std::collections::BTreeMap::new();
    let (mut used, mut repeated, mut late) = (0, 0, 0);
    for (number, clicks) in (0..).zip(&history) {
        let day = first_day().plus(number);
        let manifest = world.run(&engine, day).await;
        // What was in the future when it came is dropped for good.
        let usable = clicks.iter().filter(|click| click.1.unwrap() <= day.end()).cloned();
        seen.extend(usable);
        let report = &manifest.state.report;
        used += report.used;
        repeated += report.repeated;
        late += report.late;
        let (_, alone) = at_once(clicks, day, &world.rules);
        let drops = |report: &ClickReport| {
            [report.sensitive, report.without_category, report.unknown_category, report.future, report.absurd_seconds]
        };
        assert_eq!(drops(&report.as_clicks()), drops(&alone), "{day}");
        let (all, whole) = at_once(&seen, day, &world.rules);
        assert_eq!((used, repeated), (whole.used, whole.repeated), "{day}");
        let active = active(&world, &engine, day).await;
        assert_eq!(active.len() as u64, report.people);
        expected.retain(|(person, _): &(String, String), _| !active.contains(person));
        expected.extend(all.into_iter().filter(|((person, _), _)| active.contains(person)));
        if number % 8 == 0 || number > 30 {
            assert_eq!(world.interests(&engine, day).await, expected, "{day}");
        }
    }
    assert!(late > 30 && repeated > 100, "{late} {repeated}");
    // Merged by levels: there are few runs, however many days.
    let runs = contents(&world.tables().join("visits")).len();
    assert!(runs < 2 * 16, "{runs}");
}

/// People with a click that counted on a day, by the table of clicks.
async fn active(
    world: &World,
    engine: &sottovoce_pipeline::engine::Engine,
    day: sottovoce_pipeline::day::Day,
) -> std::collections::BTreeSet<String> {
    use sottovoce_pipeline::engine::{Query, Scan};
    use sottovoce_pipeline::tables::Table;
    let folder = world.tables().join(format!("clicks/{day}"));
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path().display().to_string()).collect();
    let scan = Scan { name: "clicks", files, schema: Table::Clicks.schema() };
    let sql = "SELECT DISTINCT person FROM clicks".to_owned();
    let batches = engine.collect(&Query { scans: vec![scan], sql, constants: Vec::new() }).await.unwrap();
    let mut people = std::collections::BTreeSet::new();
    for batch in batches {
        use datafusion::arrow::array::AsArray as _;
        let names = datafusion::arrow::compute::cast(batch.column(0), &datafusion::arrow::datatypes::DataType::Utf8);
        people.extend(names.unwrap().as_string::<i32>().iter().flatten().map(str::to_owned));
    }
    people
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_or_repeated_day_gives_the_same_bytes() {
    let history = history(4);
    let (undisturbed, world) = (World::with(&history), World::with(&history));
    for number in 0..4 {
        undisturbed.run(&engine(1), first_day().plus(number)).await;
    }
    for number in 0..3 {
        world.run(&engine(3), first_day().plus(number)).await;
    }
    let before = contents(&world.tables());
    // The fourth day merges runs. It is stopped before each of its writes, the last of which is the manifest.
    let (mut stopped, last) = (0, first_day().plus(3));
    loop {
        let writes = Arc::new(AtomicUsize::new(0));
        let mut settings = world.settings(last);
        let limit = stopped;
        settings.tables = settings.tables.before_each_write(Arc::new(move |place| {
            let done = writes.fetch_add(1, Ordering::SeqCst);
            anyhow::ensure!(done < limit, "stopped before {place}");
            Ok(())
        }));
        match interests::run(&engine(2), &settings).await {
            Ok(_) => break,
            Err(error) => assert!(format!("{error:#}").contains("stopped before"), "{error:#}"),
        }
        // Nothing that the days before need has changed.
        let now = contents(&world.tables());
        assert!(before.iter().all(|(name, bytes)| now.get(name) == Some(bytes)));
        stopped += 1;
    }
    assert!(stopped > 14, "{stopped}");
    assert!(contents(&world.tables()) == contents(&undisturbed.tables()));
    world.run(&engine(2), last).await;
    assert!(contents(&world.tables()) == contents(&undisturbed.tables()));
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_what_is_dropped_and_names_what_is_wrong() {
    let (world, day) = (World::new(), first_day());
    let noon = day.start() + 43_200;
    let late = click("anna", noon - 8 * 86_400, "p6", "Skiing", Some(40.0));
    let clicks = [
        click("anna", noon * 1000, "p1", "Skiing|Sports", Some(40.0)),
        click("anna", noon, "p1", "2|1", Some(40.0)),
        click("anna", noon, "p2", "Skiing|Taxes", Some(40.0)),
        click("anna", noon, "p3", "Curling", Some(40.0)),
        click("anna", noon, "p4", " | ", Some(40.0)),
        click("anna", noon, "p5", "Skiing", Some(1e9)),
        click("anna", noon + 86_400, "p5", "Skiing", Some(1.0)),
        late,
        click("雪", noon, "p7", "Bread", None),
    ];
    write_clicks(&world.clicks(), day, 0, &clicks);
    let report = world.run(&engine(2), day).await.state.report;
    let counts = [report.read, report.used, report.sensitive, report.without_category, report.unknown_category];
    assert_eq!(counts, [9, 2, 1, 1, 1]);
    assert_eq!([report.future, report.absurd_seconds, report.too_late, report.repeated], [1, 1, 1, 1]);
    assert_eq!((report.unknown, report.new_titles, report.people), (vec!["Curling".to_owned()], 2, 2));

    let error = world.fails(day.plus(1)).await;
    assert!(error.contains("day=2026-11-02: no Parquet files") && error.contains("--allow-empty"), "{error}");
    let mut settings = world.settings(day.plus(1));
    settings.allow_empty = true;
    let report = interests::run(&engine(1), &settings).await.unwrap().state.report;
    assert_eq!((report.read, report.people), (0, 0));
    let error = world.fails(day).await;
    assert!(error.contains("2026-11-02 have been written already"), "{error}");

    let third = day.plus(2);
    let mut nobody = click("", third.start(), "p", "Skiing", None);
    write_clicks(&world.clicks(), third, 0, &[click("a", third.start(), "p", "Skiing", None), nobody.clone()]);
    let error = world.fails(third).await;
    assert!(error.contains("part-0.parquet, row 2, field person") && error.contains("--skip-bad"), "{error}");
    nobody.0 = "b".to_owned();
    nobody.1 = None;
    write_clicks(&world.clicks(), third, 0, &[nobody]);
    let error = world.fails(third).await;
    assert!(error.contains("row 1, field time"), "{error}");
    let mut settings = world.settings(third);
    settings.skip_bad = true;
    assert_eq!(interests::run(&engine(1), &settings).await.unwrap().state.report.bad_rows, 1);

    let path = write_clicks(&world.clicks(), day.plus(3), 1, &clicks);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let error = world.fails(day.plus(3)).await;
    assert!(error.contains("part-1.parquet: not a Parquet file"), "{error}");
    // A table's file that is gone or cut is noticed before anything is computed.
    let run = world.tables().join("visits/2026-11-01/bucket-000.parquet");
    std::fs::write(&run, b"PAR1").unwrap();
    let error = world.fails(day.plus(3)).await;
    assert!(error.contains("bucket-000.parquet: 4 bytes"), "{error}");
    std::fs::remove_file(&run).unwrap();
    let error = world.fails(day.plus(3)).await;
    assert!(error.contains("bucket-000.parquet: the manifest names it, but it is not there"), "{error}");
}

/// A branch that becomes sensitive is gone from the scores on the next day, though its visits were counted.
#[tokio::test(flavor = "multi_thread")]
async fn what_becomes_sensitive_is_no_longer_scored() {
    let mut world = World::new();
    let day = first_day();
    for number in 0..2 {
        let time = day.plus(number).start();
        let clicks = [click("anna", time, "a", "Bread", None), click("anna", time + 1, "b", "Skiing", None)];
        write_clicks(&world.clicks(), day.plus(number), 0, &clicks);
    }
    world.run(&engine(1), day).await;
    let of = |all: std::collections::BTreeMap<(String, String), String>| -> Vec<String> {
        all.into_keys().map(|(_, category)| category).collect()
    };
    assert_eq!(of(world.interests(&engine(1), day).await), ["2", "7"]);
    world.rules = world.rules.clone().also_sensitive(["Food"]).unwrap();
    let report = world.run(&engine(1), day.plus(1)).await.state.report;
    assert_eq!((report.sensitive, report.used), (1, 1));
    assert_eq!(of(world.interests(&engine(1), day.plus(1)).await), ["2"]);
}
