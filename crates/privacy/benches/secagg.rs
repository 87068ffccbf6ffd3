//! What secure aggregation costs a device and the server.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sottovoce_privacy::secagg::{Parameters, add_keystream, trial};
use std::hint::black_box;
use std::time::Instant;

const VALUES: usize = 100_000;

fn masks(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("secagg");
    group.throughput(Throughput::Bytes(4 * VALUES as u64));
    let mut words = vec![0; VALUES];
    group.bench_function("add one mask of 100,000 values", |bench| {
        bench.iter(|| add_keystream(black_box(&[3; 32]), false, black_box(&mut words)));
    });
    group.finish();
}

fn parameters(criterion: &mut Criterion) {
    criterion.bench_function("secagg/choose parameters for 1,000 devices", |bench| {
        bench.iter(|| Parameters::choose(black_box(1000), 0.3, 0.1));
    });
}

fn rounds(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("secagg round");
    group.sample_size(10);
    let start = Instant::now();
    for n in [10, 50] {
        group.bench_function(format!("{n} devices, 10,000 values, 30 % lost"), |bench| {
            bench.iter(|| trial((n, 10_000), 0.3, false, [1; 32], &|| start.elapsed().as_secs_f64()));
        });
    }
    group.finish();
}

criterion_group!(benches, masks, parameters, rounds);
criterion_main!(benches);
