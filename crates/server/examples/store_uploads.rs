//! How fast uploads of 10 kB are stored, next to a bare loop over SQLite with the same durability and batches, and how
//! that loop fares with other sizes of a page.
//!
//! `cargo run --release -p sottovoce-server --example store_uploads -- [URL]`; without a URL a file in a temporary
//! folder. The database must be empty.

#![allow(clippy::print_stdout, reason = "a program that reports to people")]

use sottovoce_server::storage::{
    Change, DeviceRecord, FederationRecord, Receipt, RoundOpening, RoundRecord, Sender, Storage, TokenPurpose,
    TokenRecord, VersionRecord, open,
};
use std::error::Error;
use std::path::Path;
use std::time::Instant;

const BATCH: u32 = 256;
const BATCHES: u32 = 40;
const BYTES: usize = 10_000;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("server.db");
    let url = std::env::args().nth(1).unwrap_or_else(|| file.display().to_string());
    let storage = open(&url)?;
    prepare(&*storage)?;
    // In turns, so that a change of the machine's load affects all.
    let pages = [4, 8, 16, 32, 64];
    let (mut ours, mut bare_rates) = (Vec::new(), [(); 5].map(|()| Vec::new()));
    for round in 0..5 {
        for (rates, page) in bare_rates.iter_mut().zip(pages) {
            rates.push(bare(&folder.path().join("bare.db"), page)?);
        }
        ours.push(stored(&*storage, round)?);
    }
    let ours = best(&ours);
    for (rates, page) in bare_rates.into_iter().zip(pages) {
        let bare = best(&rates);
        println!("bare SQLite, pages of {page:>2} KiB: {bare:.0} uploads/s, ratio {:.2}", ours / bare);
    }
    println!("stored: {ours:.0} uploads/s");
    Ok(())
}

/// What else runs on the machine only slows down.
fn best(rates: &[f64]) -> f64 {
    rates.iter().copied().fold(0.0, f64::max)
}

/// Bytes that do not compress, different for every device.
fn body(device: u32) -> Vec<u8> {
    let mut state = u64::from(device) + 1;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(BYTES).collect()
}

/// Devices in an order that is not theirs.
fn batch(number: u32) -> impl Iterator<Item = u32> {
    let all = BATCH * BATCHES;
    (number * BATCH..(number + 1) * BATCH).map(move |at| at * 4_001 % all)
}

fn rate(began: Instant) -> f64 {
    f64::from(BATCH * BATCHES) / began.elapsed().as_secs_f64()
}

fn bare(path: &Path, page_kib: u32) -> Result<f64, Box<dyn Error>> {
    let mut connection = rusqlite::Connection::open(path)?;
    connection.execute_batch(&format!(
        "PRAGMA page_size = {}; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
         PRAGMA wal_autocheckpoint = {}; CREATE TABLE body (device INTEGER, bytes BLOB)",
        page_kib << 10,
        (64 << 10) / page_kib
    ))?;
    let bodies: Vec<_> = (0..BATCH * BATCHES).map(body).collect();
    let began = Instant::now();
    for number in 0..BATCHES {
        let work = connection.transaction()?;
        {
            let mut insert = work.prepare_cached("INSERT INTO body VALUES (?1, ?2)")?;
            for device in batch(number) {
                insert.execute((device, &bodies[device as usize]))?;
            }
        }
        work.commit()?;
    }
    let rate = rate(began);
    drop(connection);
    std::fs::remove_file(path)?;
    Ok(rate)
}

fn stored(storage: &dyn Storage, round: u64) -> Result<f64, Box<dyn Error>> {
    storage.commit(&[Change::OpenRound(opening(round))])?;
    let batches: Vec<Vec<_>> =
        (0..BATCHES).map(|number| batch(number).map(|device| upload(round, device)).collect()).collect();
    let began = Instant::now();
    for changes in &batches {
        storage.commit(changes)?;
    }
    let rate = rate(began);
    let began = Instant::now();
    storage.commit(&[Change::CloseRound(Box::new(record(round)), None)])?;
    println!("{rate:.0} uploads/s; the round's end took {:.0} ms", began.elapsed().as_secs_f64() * 1e3);
    Ok(rate)
}

fn upload(round: u64, device: u32) -> Change {
    let receipt =
        Receipt { sender: Sender::Device(device), key: format!("{device:022}"), digest: [9; 32], bytes: BYTES as u64 };
    Change::Upload { federation: 0, round, receipt, bytes: body(device).into() }
}

fn prepare(storage: &dyn Storage) -> Result<(), Box<dyn Error>> {
    let federation = FederationRecord::new(0, "load", "{}".to_owned(), Vec::new(), 0);
    let version = VersionRecord { federation: 0, version: 0, digest: [0; 32], bytes: 0, created: 0, rounds: 0 };
    let purpose = TokenPurpose::Enrolment { federation: 0, uses: None };
    let token = TokenRecord { id: 0, purpose, hash: [0; 32], label: String::new(), created: 0, expires: None };
    let mut changes = vec![Change::CreateFederation(Box::new(federation), version), Change::AddToken(token)];
    changes.extend((0..BATCH * BATCHES).map(|number| {
        let (credential, quarantine) = ([0; 32], None);
        let device =
            DeviceRecord { federation: 0, number, credential, enrolled: 0, seen: 0, revoked: false, quarantine };
        Change::Enrol { device, token: 0 }
    }));
    let began = Instant::now();
    storage.commit(&changes)?;
    println!("{} devices enrolled in {:.2} s", BATCH * BATCHES, began.elapsed().as_secs_f64());
    Ok(())
}

fn opening(round: u64) -> RoundOpening {
    let cohort = (0..BATCH * BATCHES).collect();
    let (wanted, minimum) = (BATCH * BATCHES, 1);
    RoundOpening { federation: 0, round, version: 0, cohort, wanted, minimum, opened: 0, deadline: None }
}

fn record(round: u64) -> RoundRecord {
    RoundRecord {
        federation: 0,
        round,
        version: None,
        asked: BATCH * BATCHES,
        counted: 0,
        declined: 0,
        refused: 0,
        bytes_up: 0,
        bytes_down: 0,
        opened: 0,
        closed: 0,
        criteria: "{}".into(),
        remark: "measured".into(),
    }
}
