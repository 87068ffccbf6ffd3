//! Full ranking with all measures, at the size of MovieLens 1M: 6,040 users, 3,706 items, 20 factors.

use criterion::{Criterion, criterion_group, criterion_main};
use sottovoce_core::{Histories, Rng, math};
use sottovoce_evaluate::{EvaluationInput, Protocol, evaluate};
use std::hint::black_box;

const USERS: usize = 6_040;
const ITEMS: usize = 3_706;
const FACTORS: usize = 20;

/// Histories of about 165 items a user, popular items more often, every fifth held out.
fn histories(rng: &mut Rng) -> (Histories, Histories) {
    let (mut train, mut test) = (Vec::new(), Vec::new());
    for _ in 0..USERS {
        let wanted = (40.0 + 125.0 * rng.exponential()).min(1500.0) as usize;
        let mut items: Vec<u32> = (0..wanted).map(|_| (math::pow(rng.unit(), 2.0) * ITEMS as f64) as u32).collect();
        items.sort_unstable();
        items.dedup();
        rng.shuffle(&mut items);
        let held = items.split_off(items.len() - items.len().div_ceil(5));
        train.push(items);
        test.push(held);
    }
    (Histories::from_lists(&train, ITEMS).unwrap(), Histories::from_lists(&test, ITEMS).unwrap())
}

fn factors(rng: &mut Rng, rows: usize) -> Vec<f32> {
    let mut values = vec![0.0; rows * FACTORS];
    rng.fill_normal(0.3, &mut values);
    values
}

fn bench(criterion: &mut Criterion) {
    let mut rng = Rng::new(1);
    let (train, test) = histories(&mut rng);
    let (users, items) = (factors(&mut rng, USERS), factors(&mut rng, ITEMS));
    let score = |user: usize, into: &mut [f32]| {
        let of_user = &users[user * FACTORS..(user + 1) * FACTORS];
        for (into, of_item) in into.iter_mut().zip(items.chunks_exact(FACTORS)) {
            *into = math::dot(of_user, of_item);
        }
    };
    let input = EvaluationInput::new(&train, &test);
    let protocol = Protocol::all_unrated([1, 5, 10, 20, 50]);
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let mut group = criterion.benchmark_group("ml-1m size, one thread");
    group.sample_size(10);
    group.bench_function("scoring alone", |bencher| {
        let mut scores = vec![0.0; ITEMS];
        bencher.iter(|| (0..USERS).for_each(|user| score(user, black_box(&mut scores))));
    });
    group.bench_function("scoring and evaluating", |bencher| {
        bencher.iter(|| one.install(|| evaluate(&input, &protocol, score).unwrap()));
    });
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
