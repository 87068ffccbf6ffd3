//! Against the equations, written down a second time in double precision.

use super::network::Network;
use super::training::{SampleGenerator, Training};
use super::*;
use crate::Quiet;
use sottovoce_neural::Layout;
use std::collections::BTreeMap;

fn training() -> NcfTraining {
    NcfTraining { batch: 5, negatives: 2, init_deviation: 0.5, regularisation: 0.1, learning_rate: 0.01, epochs: 4 }
}

fn both(training: &NcfTraining) -> [Ncf; 2] {
    [
        Ncf::gmf(GmfConfig { factors: 3, training: training.clone() }),
        Ncf::neumf(NeuMfConfig { factors: 3, layers: 2, training: training.clone() }),
    ]
}

fn histories() -> Histories {
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
    fn new(model: &Ncf, network: &Network) -> Self {
        let of = |(layout, values): (&Layout, &[f32])| {
            let tensors = layout.tensors().to_vec();
            let values = values.to_vec();
            tensors
                .into_iter()
                .map(move |tensor| (tensor.name, values[tensor.slot.range()].iter().map(|&v| f64::from(v)).collect()))
        };
        let tensors = network.buffers().into_iter().flat_map(of).collect();
        Self { tensors, factors: model.factors, layers: model.layers.unwrap_or(0) }
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
    fn slope(&self, name: &str, index: usize, samples: &[(usize, usize, f64)], regularisation: f64) -> f64 {
        let at = |shift: f64| {
            let mut shifted = self.clone();
            shifted.tensors.get_mut(name).unwrap()[index] += shift;
            shifted.loss(samples, regularisation).1
        };
        (at(1e-5) - at(-1e-5)) / 2e-5
    }
}

/// A first step of Adam moves each parameter by learning rate * g / (|g| + epsilon), and leaves vectors that were not
/// looked up.
#[test]
fn first_step_follows_the_equations() {
    let train = histories();
    for mut model in both(&training()) {
        model.init(&train, &Rng::new(4)).unwrap();
        let mut network = model.network.take().unwrap();
        let sampler = NegativeSampler::new(&train);
        let interactions = interactions(&train, &sampler);
        let mut training = Training::new(&network, &model.training).unwrap();
        let before = Exact::new(&model, &network);
        let generator = SampleGenerator { sampler: &sampler, negatives: 2 };
        let loss = training.step(&mut network, &generator, &interactions[..5], &Rng::new(9)).unwrap();
        let samples: Vec<(usize, usize, f64)> = training
            .workers
            .iter()
            .flat_map(|worker| {
                let samples = &worker.samples;
                let items = samples.items.indices.iter().zip(&samples.targets).enumerate();
                items.map(|(s, (&item, &y))| (samples.users.indices[s / 3] as usize, item as usize, f64::from(y)))
            })
            .collect();
        assert_eq!(samples.len(), 15);
        assert!(samples.iter().all(|&(user, item, y)| sampler.has(user as u32, item as u32) == (y == 1.0)));
        assert!((loss - before.loss(&samples, 0.1).0).abs() < 1e-6, "{}", model.name);

        let after = Exact::new(&model, &network);
        for (name, values) in &before.tensors {
            for (index, value) in values.iter().enumerate() {
                let slope = before.slope(name, index, &samples, 0.1);
                let expected = if slope.abs() < 1e-7 { 0.0 } else { -0.01 * slope / (slope.abs() + 1e-8) };
                let found = after.tensors[name][index] - value;
                assert!((found - expected).abs() < 1e-4, "{} {name} {index}: {found} {expected}", model.name);
            }
        }
    }
}

/// Also where the tower scores items in more than one block.
#[test]
fn scores_are_logits() {
    let train = Histories::from_lists(&[vec![0, 2], vec![1, 300]], 301).unwrap();
    for mut model in both(&training()) {
        model.fit(&train, &mut Fit::new(2, &mut Quiet)).unwrap();
        let exact = Exact::new(&model, model.network.as_ref().unwrap());
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

/// With batches large enough for all threads.
#[test]
fn result_does_not_depend_on_threads() {
    let mut rng = Rng::new(6);
    let lists: Vec<Vec<u32>> = (0..60).map(|_| (0..50).filter(|_| rng.chance(0.3)).collect()).collect();
    let train = Histories::from_lists(&lists, 50).unwrap();
    let trained = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let training = NcfTraining { batch: 500, ..training() };
        let mut model = Ncf::neumf(NeuMfConfig { factors: 16, layers: 3, training });
        pool.install(|| model.fit(&train, &mut Fit::new(3, &mut Quiet))).unwrap();
        model.tensors()
    };
    assert_eq!(trained(1), trained(3));
}

#[test]
fn too_large_learning_rate_ends_with_advice_or_stays_finite() {
    let training = NcfTraining { learning_rate: 1.0, epochs: 100, regularisation: 0.0, ..training() };
    for mut model in both(&training) {
        match model.fit(&histories(), &mut Fit::new(1, &mut Quiet)) {
            Ok(_) => assert!(model.network.unwrap().is_finite()),
            Err(error) => assert!(error.to_string().contains("learning_rate below 1"), "{error}"),
        }
    }
}
