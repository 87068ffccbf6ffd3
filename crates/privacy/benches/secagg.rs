//! The inner loops of secure aggregation. `sottovoce bench secagg` times whole rounds.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sottovoce_privacy::secagg::{Parameters, add_keystream};
use std::hint::black_box;

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
        bench.iter(|| Parameters::choose(black_box(1000), 0.3, 0.1, None));
    });
}

criterion_group!(benches, masks, parameters);
criterion_main!(benches);
