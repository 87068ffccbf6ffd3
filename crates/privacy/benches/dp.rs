//! Noise for each value, and the accounts after each round.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sottovoce_privacy::SecureRng;
use sottovoce_privacy::dp::accountant::{Accountant, Budget, Round, noise_for};
use sottovoce_privacy::dp::noise::{DiscreteGaussian, DiscreteLaplace, Noise};
use std::hint::black_box;

fn noise(c: &mut Criterion) {
    let mut group = c.benchmark_group("noise");
    let mut values = vec![0i64; 1000];
    group.throughput(Throughput::Elements(values.len() as u64));
    let mut generator = SecureRng::new([1; 32]);
    for sigma in [0.5, 100.0, 1e6, 1e10] {
        let gaussian = DiscreteGaussian::new(sigma).expect("in range");
        group.bench_function(format!("gaussian {sigma}"), |b| {
            b.iter(|| gaussian.add_to(&mut generator, &mut values));
        });
    }
    let laplace = DiscreteLaplace::new(1e6).expect("in range");
    group.bench_function("laplace 1000000", |b| b.iter(|| laplace.add_to(&mut generator, &mut values)));
    group.finish();
}

fn accounts(c: &mut Criterion) {
    let mut group = c.benchmark_group("accountant");
    group.sample_size(10);
    let round = Round::Poisson { rate: 0.01, multiplier: 1.0 };
    let mut accountant = Accountant::default();
    accountant.record(round, 1000).expect("in range");
    group.bench_function("rdp of a new kind of round", |b| {
        b.iter(|| Accountant::default().record(black_box(round), 1).expect("in range"));
    });
    group.bench_function("rdp after a round", |b| b.iter(|| accountant.rdp(black_box(1e-5))));
    for (rate, multiplier, rounds) in [(0.01, 1.0, 1000), (0.1, 0.3, 100), (0.001, 0.8, 100_000)] {
        let round = Round::Poisson { rate, multiplier };
        group.bench_function(format!("tight, q {rate}, sigma {multiplier}, {rounds} rounds"), |b| {
            b.iter(|| {
                let mut accountant = Accountant::default();
                accountant.record(round, rounds).expect("in range");
                accountant.epsilon(black_box(1e-5))
            });
        });
    }
    let budget = Budget::new(2.0, 1e-5).expect("in range");
    group.bench_function("noise for a budget", |b| b.iter(|| noise_for(black_box(&budget), round, 300)));
    group.finish();
}

criterion_group!(benches, noise, accounts);
criterion_main!(benches);
