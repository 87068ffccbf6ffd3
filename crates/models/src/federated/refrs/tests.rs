use super::*;
use crate::settings::Choice;
use sottovoce_core::Rng;
use sottovoce_neural::Arena;

const WINDOWS: usize = 3;

fn network(embedding: Embedding) -> Network {
    let shape = Shape { embedding, dim: 4, window: 16, codes: 5, heads: 2, units: 6, beta: 0.25 };
    Network::new(shape).unwrap()
}

/// Values that both programs compute: sines of their place.
fn sines(count: usize, from: usize) -> Vec<f64> {
    (from..from + count).map(|place| (place as f64 * 1.9 + 1.0).sin() * 0.6).collect()
}

fn loss(network: &Network, parameters: &[f64], gradients: &mut [f64]) -> f64 {
    let windows = sines(WINDOWS * network.shape().window_values(), 1000);
    let (values, indices) = network.space(WINDOWS);
    let mut arena = Arena::new(values, indices).unwrap();
    network.step(parameters, &windows, &mut Rng::new(3), gradients, &mut arena.space()).unwrap()
}

/// Figures of `pytorch.py` beside this file.
#[test]
fn gradients_are_pytorchs() {
    let expected: Vec<(&str, f64, f64)> = include_str!("pytorch.txt")
        .lines()
        .map(|line| {
            let mut fields = line.split('\t');
            let mut next = || fields.next().unwrap();
            (next(), next().parse().unwrap(), next().parse().unwrap())
        })
        .collect();
    for embedding in [Embedding::VqVae, Embedding::Refrs] {
        let network = network(embedding);
        let parameters = sines(network.layout().len(), 0);
        let mut gradients = vec![0.0; parameters.len()];
        let loss = loss(&network, &parameters, &mut gradients);
        let figure = |what: &str| {
            let found = expected.iter().find(|(each, ..)| *each == format!("{} {what}", embedding.name()));
            *found.unwrap_or_else(|| panic!("no figure for {what}"))
        };
        assert!((loss - figure("loss").1).abs() < 1e-9, "{loss}");
        for tensor in network.layout().tensors() {
            let own = tensor.slot.of(&gradients).unwrap();
            // A softmax undoes what all keys have in common.
            let matters = tensor.name == "attention.key.bias" || own.iter().any(|&value| value.abs() > 1e-5);
            assert!(matters, "{}: nothing to compare", tensor.name);
            let weighted: f64 = own.iter().enumerate().map(|(place, value)| value * (place as f64 * 0.3).cos()).sum();
            let (_, sum, sum_weighted) = figure(&tensor.name);
            let error = (own.iter().sum::<f64>() - sum).abs().max((weighted - sum_weighted).abs());
            assert!(error < 1e-8, "{}: {error}", tensor.name);
        }
    }
}

/// Without codes all is smooth.
#[test]
fn gradients_of_the_vae_are_those_of_finite_differences() {
    let network = network(Embedding::Vae);
    let parameters = sines(network.layout().len(), 0);
    let mut gradients = vec![0.0; parameters.len()];
    loss(&network, &parameters, &mut gradients);
    for index in (0..parameters.len()).step_by(3) {
        let at = |by: f64| {
            let mut moved = parameters.clone();
            moved[index] += by;
            loss(&network, &moved, &mut vec![0.0; parameters.len()])
        };
        let slope = (at(1e-6) - at(-1e-6)) / 2e-6;
        assert!((slope - gradients[index]).abs() < 1e-6 * (1.0 + slope.abs()), "{index}: {slope} {}", gradients[index]);
    }
}

/// A candidate in the last place is embedded as the window that it makes.
#[test]
fn candidates_are_embedded_like_windows() {
    for embedding in [Embedding::Vae, Embedding::VqVae, Embedding::Refrs] {
        let network = network(embedding);
        let parameters = sines(network.layout().len(), 0);
        let (values, indices) = network.space(8);
        let mut arena = Arena::<f64>::new(values, indices).unwrap();
        let window = sines(network.shape().window_values(), 50);
        let candidates = sines(5 * 4, 700);
        let mut context = vec![0.0; network.context_values()];
        network.contexts(&parameters, &window, &mut context, &mut arena.space()).unwrap();
        let mut found = vec![0.0; 5 * 4];
        let of_window = network.context(&context);
        network.embed_candidates(&parameters, of_window, &candidates, &mut found, &mut arena.space()).unwrap();
        for (candidate, found) in candidates.chunks_exact(4).zip(found.chunks_exact(4)) {
            let mut whole = window.clone();
            let last = whole.len() - 4;
            whole[last..].copy_from_slice(candidate);
            let mut expected = [0.0; 4];
            let mut space = arena.space();
            let encoded = network.encode(&parameters, &whole, &mut space).unwrap();
            network.embed(&parameters, encoded.latents, &mut expected, &mut space).unwrap();
            let far = found.iter().zip(expected).map(|(found, expected)| (found - expected).abs()).fold(0.0, f64::max);
            assert!(far < 1e-12, "{embedding:?}: {far}");
        }
    }
}
