//! How fast text becomes interactions, and interactions parts. The text is generated; no real data are needed.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sottovoce_core::Rng;
use sottovoce_data::{Cleaning, LoadOptions, Split, clean, fingerprint, load_bytes, split};
use std::fmt::Write;
use std::hint::black_box;

const ROWS: u32 = 200_000;

/// Rows as in MovieLens: users one after the other, popular items more often, whole ratings, times in seconds.
fn text(delimiter: &str, header: &str) -> String {
    let mut rng = Rng::new(5);
    let mut text = header.to_owned();
    for row in 0..ROWS {
        let limit = 1 + rng.below(3_700);
        let (user, item) = (1 + row / 165, 1 + rng.below(limit));
        let (rating, time) = (1 + rng.below(5), 956_703_932 + rng.below(90_000_000));
        // Writing to a string does not fail.
        let _ = writeln!(text, "{user}{delimiter}{item}{delimiter}{rating}{delimiter}{time}");
    }
    text
}

fn loading(c: &mut Criterion) {
    let mut group = c.benchmark_group("load");
    let sets = [
        ("ratings.dat", text("::", "")),
        ("ratings.csv", text(",", "userId,movieId,rating,timestamp\n")),
        ("visits.tsv", text("\t", "user\titem\trating\ttimestamp\n")),
    ];
    for (name, text) in &sets {
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(*name, |b| {
            b.iter(|| load_bytes("bench", &[(name, black_box(text.as_bytes()))], &LoadOptions::default()));
        });
    }
    group.finish();
}

fn after_loading(c: &mut Criterion) {
    let text = text("\t", "user\titem\trating\ttimestamp\n");
    let Ok(set) = load_bytes("bench", &[("visits.tsv", text.as_bytes())], &LoadOptions::default()) else {
        return;
    };
    let mut group = c.benchmark_group("prepare");
    group.throughput(Throughput::Elements(u64::from(ROWS)));
    let how = Cleaning { k_core: Some(10), ..Cleaning::default() };
    group.bench_function("clean", |b| b.iter(|| clean(black_box(set.interactions.clone()), &how)));
    let (left, _) = clean(set.interactions.clone(), &how);
    group.bench_function("split", |b| b.iter(|| split(black_box(&left), Split::Temporal(0.8), None, 1)));
    group.bench_function("fingerprint", |b| b.iter(|| fingerprint(black_box(&left))));
    group.finish();
}

criterion_group!(benches, loading, after_loading);
criterion_main!(benches);
