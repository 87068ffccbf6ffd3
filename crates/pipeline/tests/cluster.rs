//! The same plans on a cluster of real processes: the same tables, whatever is killed.

#![allow(clippy::print_stdout, reason = "the figures of a proof")]

mod common;

use common::{World, contents, first_day, history};
use sottovoce_pipeline::engine::{Engine, Query};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_sottovoce-pipeline");

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A process that ends with the test.
struct Running(Child);

impl Running {
    fn start(arguments: &[String]) -> Self {
        let child = Command::new(PROGRAM).args(arguments).stdout(Stdio::null()).stderr(Stdio::inherit()).spawn();
        Self(child.unwrap())
    }

    /// As `kill -9` does.
    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Cluster {
    port: u16,
    scheduler: Running,
    executors: Vec<(Vec<String>, Running)>,
}

impl Cluster {
    fn start(folder: &Path, executors: usize) -> Self {
        let port = free_port();
        let scheduler = Running::start(&Self::scheduler(port));
        let executors = (0..executors).map(|number| {
            let work = folder.join(format!("work-{number}"));
            let arguments = [
                "executor".to_owned(),
                format!("--scheduler=127.0.0.1:{port}"),
                format!("--port={}", free_port()),
                format!("--command-port={}", free_port()),
                "--threads=1".to_owned(),
                format!("--work-dir={}", work.display()),
            ];
            let running = Running::start(&arguments);
            (arguments.to_vec(), running)
        });
        Self { port, scheduler, executors: executors.collect() }
    }

    fn scheduler(port: u16) -> Vec<String> {
        vec!["scheduler".to_owned(), format!("--port={port}")]
    }

    fn kill_and_restart(&mut self, scheduler: bool, number: usize) {
        if scheduler {
            self.scheduler.kill();
            self.scheduler = Running::start(&Self::scheduler(self.port));
        } else {
            let count = self.executors.len();
            let (arguments, running) = &mut self.executors[number % count];
            running.kill();
            *running = Running::start(arguments);
        }
    }
}

fn arguments(world: &World, tables: &Path, day: u64, scheduler: Option<u16>) -> Vec<String> {
    let mut all = vec![
        "interests".to_owned(),
        format!("--clicks={}", world.clicks().display()),
        format!("--tables={}", tables.display()),
        format!("--taxonomy={}", world.folder.path().join("tree.tsv").display()),
        format!("--day={}", first_day().plus(day)),
        "--buckets=2".to_owned(),
    ];
    all.extend(scheduler.map(|port| format!("--scheduler=127.0.0.1:{port}")));
    all.push("--step-timeout=60".to_owned());
    all
}

fn lookalikes(world: &World, tables: &Path, day: u64, scheduler: Option<u16>) -> Vec<String> {
    let mut all = vec![
        "lookalikes".to_owned(),
        format!("--tables={}", tables.display()),
        format!("--day={}", first_day().plus(day)),
        format!("--model={}", world.folder.path().join("model.json").display()),
        "--threshold=0.3".to_owned(),
    ];
    all.extend(scheduler.map(|port| format!("--scheduler=127.0.0.1:{port}")));
    all
}

fn succeed(arguments: &[String]) {
    let done = Command::new(PROGRAM).args(arguments).output().unwrap();
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// The same files with the same bytes; says which differ.
fn assert_same(here: &Path, there: &Path) {
    let (here, there) = (contents(here), contents(there));
    let names: std::collections::BTreeSet<&String> = here.keys().chain(there.keys()).collect();
    let differ: Vec<_> = names.into_iter().filter(|name| here.get(*name) != there.get(*name)).collect();
    let size = |all: &std::collections::BTreeMap<String, Vec<u8>>, name: &String| all.get(name).map(Vec::len);
    let told: Vec<_> = differ.iter().map(|name| (name, size(&here, name), size(&there, name))).collect();
    assert!(told.is_empty(), "{told:?}");
}

fn world(days: u64) -> World {
    let world = World::with(&history(days));
    std::fs::write(world.folder.path().join("tree.tsv"), common::TREE).unwrap();
    let model = r#"{"kind": "popularity", "categories": ["1", "2", "6"], "shares": [0.5, 0.4, 0.1]}"#;
    std::fs::write(world.folder.path().join("model.json"), model).unwrap();
    world
}

#[test]
fn a_cluster_of_two_executors_writes_the_same_tables() {
    let world = world(4);
    let here = world.folder.path().join("here");
    let there = world.folder.path().join("there");
    let cluster = Cluster::start(world.folder.path(), 2);
    for day in 0..4 {
        succeed(&arguments(&world, &here, day, None));
        succeed(&arguments(&world, &there, day, Some(cluster.port)));
        succeed(&lookalikes(&world, &here, day, None));
        succeed(&lookalikes(&world, &there, day, Some(cluster.port)));
    }
    assert_same(&here, &there);
}

/// With few kills here, with many in `cargo xtask prove pipeline`.
#[test]
fn executors_and_schedulers_that_are_killed_change_nothing() {
    let kills: usize = std::env::var("SOTTOVOCE_KILLS").map_or(1, |kills| kills.parse().unwrap());
    let days = kills as u64 + 1;
    let world = world(days);
    let here = world.folder.path().join("here");
    let there = world.folder.path().join("there");
    let mut cluster = Cluster::start(world.folder.path(), 2);
    let mut struck = 0;
    for day in 0..days {
        succeed(&arguments(&world, &here, day, None));
        let started = Instant::now();
        let arguments = arguments(&world, &there, day, Some(cluster.port));
        let mut job = Running::start(&arguments);
        // Each time a little later, so that every kind of step is met.
        std::thread::sleep(Duration::from_millis(300 + 370 * (day % 9)));
        let running = job.0.try_wait().unwrap().is_none();
        cluster.kill_and_restart(day % 2 == 1, day as usize);
        struck += usize::from(running);
        if day % 3 == 2 {
            // The job itself, too: it is started again.
            job.kill();
            job = Running::start(&arguments);
        }
        assert!(job.0.wait().unwrap().success(), "{day}");
        println!("day {day}: struck {running}, done after {:.1} s", started.elapsed().as_secs_f64());
    }
    assert_same(&here, &there);
    println!("{struck} of {days} kills of executors and schedulers struck a running job: the same tables");
}

/// Somebody listens at the scheduler's address and never answers: the job ends, and says so.
#[tokio::test]
async fn a_cluster_that_never_answers_ends_the_job() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let scheduler = silent.local_addr().unwrap().to_string();
    let engine = Engine::new(1, 64 << 20, Some(&scheduler), Duration::from_millis(100)).unwrap();
    let query = Query { scans: Vec::new(), sql: "SELECT 1".to_owned(), constants: Vec::new() };
    let error = format!("{:#}", engine.collect(&query).await.expect_err("nobody answers"));
    assert_eq!(error, "the cluster failed 3 times: no answer for 0.1 s");
}
