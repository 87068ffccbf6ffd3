//! From training to a delivered audience, with 1,200 devices.

use crate::town::{Fleet, Town, agreed, config, seconds};
use rusqlite::Connection;
use serde_json::json;
use sottovoce_device::Method;
use sottovoce_server::federation::AudienceConfig;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tracing_subscriber::fmt::MakeWriter;

const PEOPLE: usize = 1200;
/// People who ski, of whom some also play chess.
const SKIERS: usize = 1120;
const CHESS_PLAYERS: usize = 90;

/// Everybody has two or three interests.
fn histories() -> Vec<Vec<&'static str>> {
    let other = ["hiking", "opera", "cooking", "cycling"];
    (0..PEOPLE)
        .map(|person| match person {
            0..CHESS_PLAYERS => vec!["skiing", "chess", other[person % 4]],
            CHESS_PLAYERS..SKIERS => vec!["skiing", other[person % 4]],
            _ => vec!["gardening", "astronomy"],
        })
        .collect()
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Log;

    fn make_writer(&'a self) -> Log {
        self.clone()
    }
}

/// Columns that say which device it was, and columns that say something about audiences.
const ABOUT_DEVICES: [&str; 3] = ["device", "number", "credential"];
const ABOUT_AUDIENCES: [&str; 4] = ["audience", "segment", "nullifier", "definition"];

/// Columns of each table of a database.
fn columns(database: &Connection) -> BTreeMap<String, BTreeSet<String>> {
    let mut tables = database.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").unwrap();
    let names: Vec<String> = tables.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let of = |table: &String| {
        let mut info = database.prepare(&format!("PRAGMA table_info({table})")).unwrap();
        info.query_map([], |row| row.get(1)).unwrap().map(Result::unwrap).collect()
    };
    names.iter().map(|table| (table.clone(), of(table))).collect()
}

/// How far the order of a list is the order of its numbers: 1 if it ascends, 0 if it has nothing to do with it.
fn rank_correlation(numbers: &[usize]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    let rank = |number: &usize| sorted.binary_search(number).unwrap() as f64;
    let count = numbers.len() as f64;
    let squares: f64 = numbers.iter().zip(0..).map(|(number, at)| (rank(number) - f64::from(at)).powi(2)).sum();
    1.0 - 6.0 * squares / (count * (count * count - 1.0))
}

fn check_database(folder: &Path, segments: &BTreeMap<[u8; 16], usize>) {
    let database = Connection::open(folder.join("server/server.sqlite")).unwrap();
    let tables = columns(&database);
    assert!(tables.contains_key("segment") && tables.contains_key("audience_issued"), "{tables:?}");
    for (table, columns) in &tables {
        let says = |words: &[&str]| words.iter().any(|word| columns.contains(*word));
        assert!(!(says(&ABOUT_DEVICES) && says(&ABOUT_AUDIENCES)), "{table}: {columns:?}");
    }
    let count = |sql: &str| database.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(count("SELECT count(*) FROM audience_issued"), PEOPLE as i64, "everybody asks for tokens");
    assert_eq!(count("SELECT count(*) FROM body"), 0, "no answer outlives its round");
    assert_eq!(count("SELECT count(*) FROM seal_note"), 0, "nor do the messages of its seal");
    let sizes = "SELECT count(DISTINCT bytes) FROM receipt WHERE round = (SELECT max(round) FROM receipt)";
    assert_eq!(count(sizes), 1, "answers are of one size");
    // Segment ids are there, in an order that has nothing to do with devices.
    let mut stored = database.prepare("SELECT segment FROM segment").unwrap();
    let stored: Vec<Vec<u8>> = stored.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let order: Vec<usize> = stored.iter().map(|id| segments[&<[u8; 16]>::try_from(&id[..]).unwrap()]).collect();
    assert_eq!(order.len(), segments.len());
    assert!(rank_correlation(&order).abs() < 0.1, "{}", rank_correlation(&order));
}

#[test]
fn advertisers_get_noisy_sizes_and_nobody_learns_who_is_in() {
    let log = Log::default();
    let writer = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_ansi(false);
    tracing::subscriber::set_global_default(writer.with_writer(log.clone()).finish()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let town = Town::open(folder.path());
    town.create(config(PEOPLE as u32, &AudienceConfig::default()));
    let fleet = Fleet::new(&town, &histories(), &agreed(1000, 4.0));
    fleet.train(&town);
    let ski_shop = town.advertiser(Some(2));

    // A large audience gets a noisy size; the noise has a standard deviation of 36 people.
    let (status, skiers) = ski_shop.create("ski fans", &["skiing"], "any", 0.99);
    assert_eq!((status, &skiers["state"], &skiers["size"]), (201, &json!("measuring"), &json!(null)), "{skiers}");
    fleet.measure(&ski_shop, 0);
    let skiers = ski_shop.get("/audiences/0");
    let size = skiers["size"]["size"].as_u64().unwrap();
    assert!(size.abs_diff(SKIERS as u64) < 150 && size != SKIERS as u64, "{skiers}");
    assert_eq!(skiers["state"], "open");

    // A small one is below k, and nothing else.
    let (status, _) = ski_shop.create("skiing chess players", &["skiing", "chess"], "all", 0.99);
    assert_eq!(status, 201);
    fleet.measure(&ski_shop, 1);
    let players = ski_shop.get("/audiences/1");
    assert_eq!((&players["state"], &players["size"]), (&json!("below k"), &json!({"threshold": 0.99, "below": 1000})));

    // What was spent is shown, and the quota holds.
    let mine = ski_shop.get("/audiences");
    let spent = mine["epsilon"].as_f64().unwrap();
    assert!(spent > 0.1 && spent < 0.2 && mine["measurements"] == 2, "{mine}");
    assert_eq!(ski_shop.create("third", &["opera"], "any", 0.5).1["code"], "quota");

    // Devices report segment ids of their own.
    for device in &fleet.devices {
        device.lock().unwrap().join_audiences().unwrap();
    }
    fleet.step_at(seconds());
    let end = Duration::from_secs((seconds().as_secs() / 86_400 + 1) * 86_400 - 1);
    fleet.step_at(end);
    let mut segments = BTreeMap::new();
    let mut told_the_truth = 0;
    for (person, device) in fleet.devices.iter().enumerate() {
        let device = device.lock().unwrap();
        let memberships = device.audiences().unwrap();
        let [membership] = &memberships[..] else { panic!("{memberships:?}") };
        assert_eq!((membership.name.as_str(), membership.is_in), ("ski fans", person < SKIERS));
        told_the_truth += usize::from(membership.is_in != device.segments().is_empty());
        for segment in device.segments() {
            assert!(segments.insert(segment.id, person).is_none(), "ids are one device's own");
        }
    }
    // Each says the opposite with probability 0.12.
    assert!((980..1130).contains(&told_the_truth), "{told_the_truth}");
    assert_eq!(ski_shop.call(Method::Delete, "/audiences/0", None).1["state"], "closed");
    let too_early = ski_shop.call(Method::Get, "/audiences/0/segments", None);
    assert_eq!(too_early.1["code"], "below-k", "the rotation before had none");
    drop(fleet);
    town.stop();
    check_database(folder.path(), &segments);
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(text.contains("measuring round opened") && !text.contains("ski fans"));
    for word in ["device=", "segment=", "sva_", "svd_"] {
        assert!(!text.contains(word), "`{word}` is logged");
    }
}
