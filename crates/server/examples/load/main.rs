//! The load that a server sustains, as ratios to bare SQLite and a bare axum handler in the same run.
//!
//! `cargo run --release -p sottovoce-server --example load [-- --long]`; `cargo xtask prove load` does so and checks the
//! bounds. Server and load generator share the machine. The last line is JSON.

#![allow(clippy::print_stdout, reason = "a program that reports to people")]

mod bare;
mod callers;
mod world;

use callers::Commits;
use serde_json::json;
use std::error::Error;
use std::time::Duration;
use world::{CHECK_INS, World};

/// Devices that are enrolled.
const DEVICES: u32 = 10_000;
/// Bytes of an update, about.
const UPDATE: usize = 10_000;
/// Requests under way at the same time.
const CALLERS: usize = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let repeats = if std::env::args().any(|argument| argument == "--long") { 7 } else { 3 };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let empty = resident();
    let mut world = runtime.block_on(World::start(DEVICES, UPDATE))?;
    let idle = resident();
    println!(
        "{DEVICES} devices enrolled: {} MB resident, {} MB of them since the start",
        idle / 1000,
        (idle - empty) / 1000
    );

    let (mut uploads, mut check_ins, mut p99) = (Vec::new(), Vec::new(), Duration::ZERO);
    for round in 0..repeats {
        let ours = runtime.block_on(world.upload_all(CALLERS))?;
        let batch = world.mean_batch();
        let bare = bare::sqlite(&world.update, DEVICES, batch)?;
        println!(
            "round {round}: {:.0} durable uploads/s of {} bytes, {batch} in a transaction; bare SQLite {bare:.0}/s: ratio {:.2}; \
             check-ins meanwhile p50 {:.1} ms, p99 {:.1} ms",
            ours.rate,
            world.update.len(),
            ours.rate / bare,
            ours.p50.as_secs_f64() * 1e3,
            ours.p99.as_secs_f64() * 1e3
        );
        uploads.push((ours.rate / bare, ours.rate, bare));
        p99 = p99.max(ours.p99);
        let ours = runtime.block_on(world.check_in_all(CALLERS))?;
        let bare = runtime.block_on(bare::axum(CALLERS, CHECK_INS))?;
        println!(
            "         {:.0} check-ins/s; a bare axum handler {:.0}/s: ratio {:.2}",
            ours.rate,
            bare.rate,
            ours.rate / bare.rate
        );
        check_ins.push((ours.rate / bare.rate, ours.rate, bare.rate));
    }
    let (upload, check_in) = (median(uploads), median(check_ins));
    let report = json!({
        "uploads": {"ratio": upload.0, "per_second": upload.1, "bare_sqlite_per_second": upload.2},
        "check_ins": {"ratio": check_in.0, "per_second": check_in.1, "bare_axum_per_second": check_in.2},
        "check_in_p99_ms_under_uploads": p99.as_secs_f64() * 1e3,
        "idle_devices": DEVICES,
        "idle_resident_mb": idle as f64 / 1000.0,
    });
    println!("{report}");
    Ok(())
}

/// The median, by ratio.
fn median(mut of: Vec<(f64, f64, f64)>) -> (f64, f64, f64) {
    of.sort_by(|a, b| a.0.total_cmp(&b.0));
    of[of.len() / 2]
}

/// Kilobytes of memory that the process holds.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0)
}

impl World {
    /// Changes that went into a transaction during a round, on average.
    fn mean_batch(&self) -> u32 {
        let Commits { commits, changes } = self.commits();
        let (commits, changes) = (commits - self.counted.commits, changes - self.counted.changes);
        ((changes as f64 / commits.max(1) as f64).round() as u32).max(1)
    }
}
