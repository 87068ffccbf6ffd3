//! Loads, cleans and parts data sets and says what came out and how much processor time each took:
//! `cargo run --release -p sottovoce-data --example measure -- SOURCE...`
#![allow(clippy::print_stdout, reason = "a program for people")]

use sottovoce_data::{Cleaning, LoadOptions, Split, clean, describe, load, split};
use std::sync::LazyLock;
use std::time::Instant;

/// Seconds of processor time of this thread where the system tells (Linux), else seconds that passed.
fn seconds() -> f64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds =
        told.and_then(|text| text.split(' ').next().and_then(|first| first.parse::<f64>().ok()));
    nanoseconds.map_or_else(|| START.elapsed().as_secs_f64(), |nanoseconds| nanoseconds * 1e-9)
}

fn main() {
    for source in std::env::args().skip(1) {
        let start = seconds();
        let set = match load(&source, &LoadOptions::default()) {
            Ok(set) => set,
            Err(error) => {
                println!("{source}: {error}\n");
                continue;
            }
        };
        let loading = seconds() - start;
        let about = describe(&set);
        println!("{source}: {:.1} ms, {} bytes held", 1e3 * loading, set.interactions.heap_bytes());
        println!("{}", serde_json::to_string(&about).unwrap_or_default());
        for threshold in [None, Some(3.0)] {
            let start = seconds();
            let how = Cleaning { threshold, min_interactions: Some(21), ..Cleaning::default() };
            let (left, _) = clean(set.interactions.clone(), &how);
            let parts = split(&left, Split::Temporal(0.8), None, 0);
            let (train, test) = (parts.train.interactions(), parts.test.interactions());
            let (users, items) = (parts.users.len(), parts.catalog.len());
            let milliseconds = 1e3 * (seconds() - start);
            println!(
                "at least {threshold:?}: {users} users, {items} items, {train} + {test}; {milliseconds:.1} ms"
            );
        }
        println!();
    }
}
