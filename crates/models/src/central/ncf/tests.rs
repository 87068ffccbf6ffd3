//! Against the equations, written down a second time in double precision.

use super::network::Network;
use super::training::{Sampler, Training};
use super::*;
use crate::Quiet;
use crate::settings::Value;
use std::collections::BTreeMap;

fn model(model: &Model, given: &[(&str, &str)]) -> Ncf {
    let small = [("factors", "3"), ("batch", "5"), ("negatives", "2"), ("init_deviation", "0.5")];
    let rest = [("regularisation", "0.1"), ("learning_rate", "0.01"), ("epochs", "4")];
    let given = small.iter().chain(&rest).chain(given).map(|&(key, value)| (key, Value::parse(value)));
    let settings = model.settings(given).unwrap();
    Ncf::new(model.name, &settings, (model.name == "neumf").then(|| settings.integer("layers")))
}

fn both() -> [Ncf; 2] {
    [model(&GMF, &[]), model(&NEUMF, &[("layers", "2")])]
}

fn town() -> Histories {
    Histories::from_lists(&[vec![0, 2], vec![1, 3, 5], vec![4]], 6).unwrap()
}

/// All tensors by name, in double precision.
#[derive(Clone)]
struct Exact {
    tensors: BTreeMap<String, Vec<f64>>,
    factors: usize,
    layers: usize,
}

impl Exact {
    fn new(network: &Network, plan: &Plan) -> Self {
        let of = |(layout, values): (&Layout, &[f32])| {
            let tensors = layout.tensors().to_vec();
            let values = values.to_vec();
            tensors.into_iter().map(move |tensor| {
                (tensor.name, values[tensor.slot.range()].iter().map(|&v| f64::from(v)).collect())
            })
        };
        let tensors = network.buffers().into_iter().flat_map(of).collect();
        Self { tensors, factors: plan.factors, layers: plan.layers.unwrap_or(0) }
    }

    fn row(&self, name: &str, row: usize, width: usize) -> &[f64] {
        &self.tensors[name][row * width..][..width]
    }

    /// x, and the squared lengths of the vectors it is made of.
    fn logit(&self, user: usize, item: usize) -> (f64, f64) {
        let f = self.factors;
        let (p, q) = (self.row("users.table", user, f), self.row("items.table", item, f));
        let h = &self.tensors["output"];
        let x = (0..f).map(|k| h[k] * p[k] * q[k]).sum::<f64>() + self.tensors["bias"][0];
        let mut squares = p.iter().chain(q).map(|v| v * v).sum::<f64>();
        if self.layers == 0 {
            return (x, squares);
        }
        let width = f * 2usize.pow(self.layers as u32 - 1);
        let (p, q) = (self.row("tower.users.table", user, width), self.row("tower.items.table", item, width));
        squares += p.iter().chain(q).map(|v| v * v).sum::<f64>();
        let mut m = [p, q].concat();
        for layer in 0..self.layers {
            let weight = &self.tensors[&format!("tower.{layer}.weight")];
            let bias = &self.tensors[&format!("tower.{layer}.bias")];
            let sum = |j: usize| (0..m.len()).map(|k| m[k] * weight[k * bias.len() + j]).sum::<f64>();
            m = (0..bias.len()).map(|j| (sum(j) + bias[j]).max(0.0)).collect();
        }
        (x + m.iter().zip(&self.tensors["tower.output"]).map(|(m, o)| m * o).sum::<f64>(), squares)
    }

    /// Mean over samples of the cross-entropy, and of that with the regularisation.
    fn loss(&self, samples: &[(usize, usize, f64)], regularisation: f64) -> (f64, f64) {
        let mut sums = (0.0, 0.0);
        for &(user, item, y) in samples {
            let (x, squares) = self.logit(user, item);
            let sigma = 1.0 / (1.0 + (-x).exp());
            let loss = -y * sigma.ln() - (1.0 - y) * (1.0 - sigma).ln();
            sums = (sums.0 + loss, sums.1 + loss + regularisation / 2.0 * squares);
        }
        let weights = self.tensors.iter().filter(|(name, _)| name.ends_with("output"));
        let squares: f64 = weights.flat_map(|(_, values)| values).map(|value| value * value).sum();
        let count = samples.len() as f64;
        (sums.0 / count, sums.1 / count + regularisation / 2.0 * squares)
    }

    /// The slope of the regularised loss along one parameter.
    fn slope(&self, name: &str, place: usize, samples: &[(usize, usize, f64)], regularisation: f64) -> f64 {
        let at = |shift: f64| {
            let mut shifted = self.clone();
            shifted.tensors.get_mut(name).unwrap()[place] += shift;
            shifted.loss(samples, regularisation).1
        };
        (at(1e-5) - at(-1e-5)) / 2e-5
    }
}

/// A first step of Adam moves each parameter by rate g / (|g| + epsilon), and leaves vectors that were not looked up.
#[test]
fn the_first_step_is_that_of_the_equations() {
    let train = town();
    for mut model in both() {
        model.begin(&train, &Rng::new(4)).unwrap();
        let mut network = model.network.take().unwrap();
        let owned = Owned::new(&train);
        let pairs = pairs(&train, &owned);
        let mut training = Training::new(&network, &model.plan).unwrap();
        let before = Exact::new(&network, &model.plan);
        let sampler = Sampler { owned: &owned, negatives: 2 };
        let loss = training.step(&mut network, &sampler, &pairs[..5], &Rng::new(9)).unwrap();
        let samples: Vec<(usize, usize, f64)> = training
            .lanes
            .iter()
            .flat_map(|lane| {
                let items = lane.part.items.indices.iter().zip(&lane.part.targets).enumerate();
                items.map(|(s, (&item, &y))| {
                    (lane.part.users.indices[s / 3] as usize, item as usize, f64::from(y))
                })
            })
            .collect();
        assert_eq!(samples.len(), 15);
        assert!(samples.iter().all(|&(user, item, y)| owned.has(user as u32, item as u32) == (y == 1.0)));
        assert!((loss - before.loss(&samples, 0.1).0).abs() < 1e-6, "{}", model.name);

        let after = Exact::new(&network, &model.plan);
        for (name, values) in &before.tensors {
            for (place, value) in values.iter().enumerate() {
                let slope = before.slope(name, place, &samples, 0.1);
                let expected = if slope.abs() < 1e-7 { 0.0 } else { -0.01 * slope / (slope.abs() + 1e-8) };
                let found = after.tensors[name][place] - value;
                assert!((found - expected).abs() < 1e-4, "{} {name} {place}: {found} {expected}", model.name);
            }
        }
    }
}

/// Scores of all items are logits, also where the tower takes them in more than one block.
#[test]
fn scores_are_logits() {
    let train = Histories::from_lists(&[vec![0, 2], vec![1, 300]], 301).unwrap();
    for mut model in both() {
        model.fit(&train, &mut Fit::new(2, &mut Quiet)).unwrap();
        let exact = Exact::new(model.network.as_ref().unwrap(), &model.plan);
        let mut scores = vec![f32::NAN; 301];
        for user in 0..2 {
            model.score(user, &mut scores);
            for item in 0..301 {
                let (x, _) = exact.logit(user, item);
                assert!((f64::from(scores[item]) - x).abs() < 1e-5, "{} {item}", model.name);
            }
        }
    }
}

/// Large enough for all threads to be given work.
#[test]
fn threads_do_not_change_what_is_learnt() {
    let mut rng = Rng::new(6);
    let lists: Vec<Vec<u32>> = (0..60).map(|_| (0..50).filter(|_| rng.chance(0.3)).collect()).collect();
    let train = Histories::from_lists(&lists, 50).unwrap();
    let trained = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let mut model = model(&NEUMF, &[("batch", "500"), ("factors", "16")]);
        pool.install(|| model.fit(&train, &mut Fit::new(3, &mut Quiet))).unwrap();
        model.tensors()
    };
    assert_eq!(trained(1), trained(3));
}

#[test]
fn a_rate_far_too_large_ends_with_advice_or_stays_finite() {
    for kind in [&GMF, &NEUMF] {
        let mut wild = model(kind, &[("learning_rate", "1"), ("epochs", "100"), ("regularisation", "0")]);
        match wild.fit(&town(), &mut Fit::new(1, &mut Quiet)) {
            Ok(_) => assert!(wild.network.unwrap().is_finite()),
            Err(error) => assert!(error.to_string().contains("learning_rate below 1"), "{error}"),
        }
    }
}
