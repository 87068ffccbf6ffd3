//! Losses and gradients against PyTorch, and what happens with data at the limits.

use super::bert4rec::{Bert4Rec, Bert4RecConfig};
use super::next_item::NextItem;
use super::objective::{Loss, Objective};
use super::*;
use crate::Quiet;
use crate::sequential::SequenceNetwork;
use crate::sequential::gru4rec::Gru4RecShape;
use crate::sequential::transformer::TransformerShape;
use sottovoce_neural::Mask;

const ITEMS: usize = 7;
const INPUTS: [u32; 10] = [1, 5, 4, 0, 6, 0, 3, 3, 6, 2];
const TARGETS: [u32; 10] = [5, 4, 0, 6, 2, 3, 3, 6, 1, 4];
const STARTS: [usize; 4] = [0, 5, 9, 10];

fn size() -> Size {
    Size { users: 3, items: ITEMS, max_length: 5, attributes: None }
}

/// Parameters like those of `pytorch.py`.
fn sines(layouts: &Layouts) -> Weights {
    let mut place = 0.0;
    let mut fill = |values: &mut [f32]| {
        for value in values {
            *value = ((place * 1.9f64 + 1.0).sin() * 0.6) as f32;
            place += 1.0;
        }
    };
    let mut weights = layouts.init(&Rng::new(1)).unwrap();
    weights.tables.iter_mut().for_each(|table| fill(table));
    fill(&mut weights.network);
    weights
}

/// Compares loss and gradients with the figures of `pytorch.py`.
fn check(model: &str, layouts: &Layouts, weights: &Weights, worker: &mut Worker, loss: f64) {
    let mut table = vec![0.0; weights.tables[0].len()];
    worker.tables[0].add_to(&mut table).unwrap();
    let network = layouts.network.tensors().iter();
    let gradients = network.map(|tensor| (tensor.name.as_str(), &worker.gradients[tensor.slot.range()]));
    let gradients: Vec<(&str, &[f32])> = std::iter::once(("items", &table[..])).chain(gradients).collect();
    let lines = include_str!("pytorch.txt").lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let mut compared = 0;
    for line in lines.filter(|line| line[0] == model) {
        let [sum, weighted] = [line[2], line[3]].map(|value| value.parse::<f64>().unwrap());
        let found = if line[1] == "loss" {
            [loss, 0.0]
        } else {
            let (_, gradient) = gradients.iter().find(|(name, _)| *name == line[1]).unwrap();
            let gradient = gradient.iter().map(|&value| f64::from(value));
            let cosine = |(place, value): (usize, f64)| value * (place as f64 * 0.7).cos();
            [gradient.clone().sum(), gradient.enumerate().map(cosine).sum()]
        };
        for (found, expected) in found.into_iter().zip([sum, weighted]) {
            assert!((found - expected).abs() < 1e-5, "{model} {}: {found} instead of {expected}", line[1]);
        }
        compared += 1;
    }
    assert_eq!(compared, gradients.len() + 1, "{model}");
}

fn worker(layouts: &Layouts, model: &dyn SequenceModel) -> Worker {
    let mut worker = Worker::new(layouts, model.space(3), 20).unwrap();
    worker.scratch.starts = STARTS.to_vec();
    worker.scratch.items = INPUTS.to_vec();
    worker.scratch.targets = TARGETS.to_vec();
    worker
}

#[test]
fn next_item_gradients_are_pytorchs() {
    let gru = Gru4RecShape { width: 4, units: 3, layers: 2, dropout: 0.0 };
    let transformer =
        TransformerShape { width: 4, heads: 2, layers: 2, inner: 16, positions: 5, mask: Mask::Causal, dropout: 0.0 };
    let own: Vec<u32> = TARGETS.iter().flat_map(|&t| [(2 * t + 1) % 7, (t + 3) % 7]).collect();
    let all: Vec<u32> = (0..ITEMS as u32).collect();
    let objective = |loss, negatives| Objective { loss, negatives, calibration: 0.75 };
    for (name, objective, negatives) in [
        ("gru4rec", objective(Loss::CrossEntropy, 0), all),
        ("sasrec", objective(Loss::Bce, 2), own),
        ("gsasrec", objective(Loss::Gbce, 3), vec![2, 6, 4]),
    ] {
        let mut layouts = Layouts::new();
        let network = |layout: &mut Layout| match name {
            "gru4rec" => SequenceNetwork::gru4rec(layout, "network", &gru),
            _ => SequenceNetwork::transformer(layout, "network", &transformer),
        };
        let model = NextItem::new(&size(), &mut layouts, &objective, 0, network).unwrap();
        let (weights, mut worker) = (sines(&layouts), worker(&layouts, &model));
        worker.scratch.negatives = negatives;
        let loss = model.add_gradients(&weights, 0.1, &mut worker, None).unwrap();
        check(name, &layouts, &weights, &mut worker, loss);
    }
}

#[test]
fn bert4rec_gradients_are_pytorchs() {
    let attention = SelfAttention { hidden: 4, ..SelfAttention::default() };
    let config = Bert4RecConfig { attention, ..Bert4RecConfig::default() };
    let mut layouts = Layouts::new();
    let model = Bert4Rec::new(&config, &size(), &mut layouts).unwrap();
    let (weights, mut worker) = (sines(&layouts), worker(&layouts, &model));
    worker.scratch.rows = vec![1, 4, 5, 9];
    worker.scratch.targets.clear();
    for &row in &[1, 4, 5, 9] {
        worker.scratch.targets.push(INPUTS[row]);
        worker.scratch.items[row] = ITEMS as u32;
    }
    worker.scratch.negatives = (0..ITEMS as u32).collect();
    let loss = model.add_gradients(&weights, 0.1, &mut worker, None).unwrap();
    check("bert4rec", &layouts, &weights, &mut worker, loss);
}

fn models() -> impl Iterator<Item = crate::registry::Model> {
    let names = ["gru4rec", "sasrec", "gsasrec", "bert4rec"];
    let all = crate::central::MODELS.iter().filter(move |model| names.contains(&model.info.name));
    all.map(CentralModel::model)
}

fn fitted(model: &crate::registry::Model, train: &Histories) -> Box<dyn Recommender> {
    let given = [("hidden", "8"), ("epochs", "3"), ("batch", "4")];
    let given = given.map(|(key, value)| (key, crate::settings::Value::parse(value)));
    let mut recommender = model.build(&model.settings(given).unwrap());
    recommender.fit(train, &mut Fit::new(1, &mut Quiet)).unwrap();
    recommender
}

/// Sequences of one item teach nothing; whoever has one is scored all the same, and whoever has none gets zeros.
#[test]
fn users_with_one_item_or_none_are_scored() {
    let with = Histories::from_lists(&[vec![0, 1, 2], vec![4], vec![], vec![2, 3, 0]], 5).unwrap();
    for model in models() {
        let recommender = fitted(&model, &with);
        let score = |user: usize| {
            let mut scores = [f32::NAN; 5];
            recommender.score(user, &mut scores);
            scores
        };
        assert!(score(1).iter().all(|score| score.is_finite()), "{}", model.name);
        assert_ne!(score(0), score(1), "{}", model.name);
        assert_eq!(score(2), [0.0; 5], "{}", model.name);
    }
    let without = Histories::from_lists(&[vec![0], vec![1], vec![]], 3).unwrap();
    models().for_each(|model| drop(fitted(&model, &without)));
}

#[test]
fn scores_depend_on_order_and_on_repetition() {
    let train = Histories::from_lists(&[vec![0, 1, 2, 1, 3], vec![3, 1, 0, 2]], 5).unwrap();
    for model in models() {
        let recommender = fitted(&model, &train);
        let score = |items: &[u32]| {
            let mut scores = [f32::NAN; 5];
            recommender.score_after(0, items.into(), &mut scores);
            scores
        };
        assert_ne!(score(&[0, 1, 2]), score(&[2, 1, 0]), "{}", model.name);
        assert_ne!(score(&[0, 1, 1]), score(&[0, 1]), "{}", model.name);
        let mut trained = [f32::NAN; 5];
        recommender.score(0, &mut trained);
        assert_eq!(trained, score(&[0, 1, 2, 1, 3]), "{}", model.name);
    }
}

#[test]
fn heads_must_divide_the_width() {
    let model = models().find(|model| model.name == "sasrec").unwrap();
    let given = [("hidden", "7"), ("heads", "2")].map(|(key, value)| (key, crate::settings::Value::parse(value)));
    let train = Histories::from_lists(&[vec![0, 1]], 2).unwrap();
    let mut recommender = model.build(&model.settings(given).unwrap());
    let error = recommender.fit(&train, &mut Fit::new(1, &mut Quiet)).unwrap_err().to_string();
    assert_eq!(error, "sasrec: attention: 2 heads do not divide a width of 7");
}
