//! Encoding and decoding of an FPL update (200 rows of 20) and of a whole table of ml-1m's size (3,706 x 21).
//!
//! Throughput counts the values as f32, whatever they are encoded as, so that the encodings can be compared.
#![allow(missing_docs)]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use sottovoce_core::Rng;
use sottovoce_protocol::*;
use std::hint::black_box;

struct Case {
    name: &'static str,
    layout: Layout,
    step: usize,
}

fn cases() -> [Case; 2] {
    let layout = |cols| Layout::new(vec![Shape::new("items", 3706, cols, Keyed::Items)]).unwrap();
    [
        Case { name: "update 200x20", layout: layout(20), step: 18 },
        Case { name: "table 3706x21", layout: layout(21), step: 1 },
    ]
}

fn disclosed(case: &Case, values: ValueEncoding) -> Disclosed {
    let mut rng = Rng::new(1);
    let mut trained = Trained::new(&case.layout);
    let most = if case.step == 1 { 3706 } else { 200 };
    for row in (0..3706).step_by(case.step).take(most) {
        rng.fill_normal(0.1, trained.push_row(0, row, RowOrigin::Other).unwrap());
    }
    let terms = RoundTerms::freeze(TermsDraft { values, ..TermsDraft::default() }).unwrap();
    trained
        .disclose(
            &Policy::new(1.0).unwrap(),
            &terms,
            0,
            &mut Ledger::totals_only(),
            DisclosureSeeds::once(&mut rng),
        )
        .unwrap()
}

fn codec(criterion: &mut Criterion) {
    for case in cases() {
        let mut group = criterion.benchmark_group(case.name);
        for encoding in ValueEncoding::ALL {
            let sent = disclosed(&case, encoding);
            let mut bytes = Vec::new();
            codec::encode_update(&sent, &mut bytes);
            let values = sent.update().tables()[0].values().to_vec();
            group.throughput(Throughput::Bytes(4 * values.len() as u64));
            group.bench_function(BenchmarkId::new("encode", encoding), |bencher| {
                let mut out = Vec::new();
                bencher.iter(|| {
                    out.clear();
                    codec::encode_update(black_box(&sent), &mut out);
                });
            });
            group.bench_function(BenchmarkId::new("decode", encoding), |bencher| {
                let mut received = Received::new(&case.layout);
                bencher.iter(|| codec::decode_update(black_box(&bytes), &mut received).unwrap());
            });
        }
        let values = disclosed(&case, ValueEncoding::F32).update().tables()[0].values().to_vec();
        group.bench_function("memcpy", |bencher| {
            let mut out: Vec<f32> = Vec::new();
            bencher.iter(|| {
                out.clear();
                out.extend_from_slice(black_box(&values));
            });
        });
        group.finish();
    }
}

criterion_group!(benches, codec);
criterion_main!(benches);
