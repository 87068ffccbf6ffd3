//! Loads, cleans and parts data sets and says what came out and how long each took:
//! `cargo run --release -p sottovoce-data --example measure -- SOURCE...`
#![allow(clippy::print_stdout, reason = "a program for people")]

use sottovoce_data::{Cleaning, LoadOptions, Split, clean, describe, load, split};
use std::time::Instant;

fn main() {
    for source in std::env::args().skip(1) {
        let start = Instant::now();
        let set = match load(&source, &LoadOptions::default()) {
            Ok(set) => set,
            Err(error) => {
                println!("{source}: {error}\n");
                continue;
            }
        };
        let loading = start.elapsed();
        let about = describe(&set);
        println!(
            "{source}: {:.1} ms, {} bytes held",
            1e3 * loading.as_secs_f64(),
            set.interactions.heap_bytes()
        );
        println!("{}", serde_json::to_string(&about).unwrap_or_default());
        for threshold in [None, Some(3.0)] {
            let start = Instant::now();
            let how = Cleaning { threshold, min_interactions: Some(21), ..Cleaning::default() };
            let (left, _) = clean(set.interactions.clone(), &how);
            let parts = split(&left, Split::Temporal(0.8), None, 0);
            let (train, test) = (parts.train.interactions(), parts.test.interactions());
            let (users, items) = (parts.users.len(), parts.catalog.len());
            let milliseconds = 1e3 * start.elapsed().as_secs_f64();
            println!(
                "at least {threshold:?}: {users} users, {items} items, {train} + {test}; {milliseconds:.1} ms"
            );
        }
        println!();
    }
}
