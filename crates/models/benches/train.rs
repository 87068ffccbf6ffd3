//! Training and scoring times on synthetic data with a skewed catalog.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sottovoce_core::{Histories, Rng};
use sottovoce_models::settings::Value;
use sottovoce_models::{Fit, Quiet, Recommender, central};
use std::hint::black_box;

const USERS: usize = 2000;
const ITEMS: usize = 1500;

/// Histories of about 60 items, popular ones much more often.
fn problem() -> Histories {
    let mut rng = Rng::new(1);
    let lists: Vec<Vec<u32>> = (0..USERS)
        .map(|_| {
            let length = 10 + rng.index(100);
            let mut items: Vec<u32> = (0..length).map(|_| (rng.unit() * rng.unit() * ITEMS as f64) as u32).collect();
            items.sort_unstable();
            items.dedup();
            items
        })
        .collect();
    Histories::from_lists(&lists, ITEMS).expect("items are below the catalog's size")
}

fn build(name: &str, given: &[(&str, Value)]) -> Box<dyn Recommender> {
    let model = central::MODELS.iter().find(|model| model.info.name == name).expect("a model of the registry").model();
    let settings = model.settings(given.iter().cloned()).expect("settings of the model");
    model.build(&settings)
}

fn fit(model: &mut dyn Recommender, train: &Histories) {
    model.fit(train, &mut Fit::new(1, &mut Quiet)).expect("data that the model can be fitted to");
}

fn training(criterion: &mut Criterion) {
    let train = problem();
    let mut group = criterion.benchmark_group("fit");
    group.throughput(Throughput::Elements(train.interactions() as u64)).sample_size(10);
    let once = |key| vec![(key, Value::Integer(1))];
    let cases = [
        ("bpr-mf", once("epochs")),
        ("ials", once("iterations")),
        ("user-knn", vec![]),
        ("item-knn", vec![]),
        ("ease", vec![]),
    ];
    for (name, given) in cases {
        group.bench_function(name, |bencher| bencher.iter(|| fit(&mut *build(name, &given), &train)));
    }
}

fn scoring(criterion: &mut Criterion) {
    let train = problem();
    let mut group = criterion.benchmark_group("score");
    group.throughput(Throughput::Elements(ITEMS as u64));
    for name in ["bpr-mf", "user-knn", "item-knn", "ease"] {
        let given = if name == "bpr-mf" { vec![("epochs", Value::Integer(1))] } else { vec![] };
        let mut model = build(name, &given);
        fit(&mut *model, &train);
        let mut scores = vec![0.0; ITEMS];
        group.bench_function(name, |bencher| bencher.iter(|| model.score(black_box(7), &mut scores)));
    }
}

criterion_group!(benches, training, scoring);
criterion_main!(benches);
