use super::*;
use crate::federated::{ClientModel, ServerModel, TrainInput, TrainStats};
use crate::settings::Choice;
use sottovoce_core::{History, Rng};
use sottovoce_neural::Arena;
use sottovoce_protocol::{Parameters, Trained};

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
        network.embed_candidates(&parameters, &context, &candidates, &mut found, &mut arena.space()).unwrap();
        for (candidate, found) in candidates.chunks_exact(4).zip(found.chunks_exact(4)) {
            let mut whole = window.clone();
            let last = whole.len() - 4;
            whole[last..].copy_from_slice(candidate);
            let mut expected = [0.0; 4];
            let mut space = arena.space();
            let latents = network.encode(&parameters, &whole, &mut space).unwrap().latents;
            let last = &latents[latents.len() / 3 * 2..];
            network.embed(&parameters, last, candidate, &mut expected, &mut space).unwrap();
            let far = found.iter().zip(expected).map(|(found, expected)| (found - expected).abs()).fold(0.0, f64::max);
            assert!(far < 1e-12, "{embedding:?}: {far}");
        }
    }
}

/// A small catalog: forty items of two kinds, half of them each.
fn content() -> Arc<Facts> {
    let lists: Vec<Vec<u32>> = (0..ITEMS as u32).map(|item| vec![item % 2]).collect();
    Arc::new(Facts::of_lists(&[("genre: drama", 1), ("genre: war", 1)], &lists))
}

const ITEMS: usize = 40;

/// A client with small networks.
pub(super) fn client(change: impl FnOnce(&mut RefrsConfig)) -> Client {
    let mut config = RefrsConfig::default();
    (config.network.dim, config.network.codes, config.network.decoder_units) = (8, 12, 10);
    config.recommender_units = 6;
    change(&mut config);
    Refrs::client(&config, &content())
}

/// The shared model before the first round.
pub(super) fn shared(client: &Client) -> Parameters {
    Refrs::server(&client.config, &content()).init(ITEMS, &mut Rng::new(5)).unwrap()
}

/// A device after some rounds alone with its server, and what left in the last.
fn train(client: &Client, sequence: &[u32], rounds: u64) -> (Vec<f32>, Trained, TrainStats) {
    let (shared, mut scratch) = (shared(client), client.scratch(ITEMS));
    let prepared = client.prepare(&shared);
    let mut private = vec![0.0; client.private_values()];
    client.init_private(&mut private, &mut Rng::new(2));
    let mut into = Trained::new(&shared.layout());
    let mut stats = TrainStats::default();
    for round in 0..rounds {
        into.clear();
        let mut items = sequence.to_vec();
        items.sort_unstable();
        items.dedup();
        let history = History { sequence, ..(&items).into() };
        let input = TrainInput { shared: &shared, prepared: &prepared, private: &mut private, history, hidden: &[] };
        stats = client.train(input, &mut scratch, &mut Rng::new(3 + round), &mut into).unwrap();
    }
    (private, into, stats)
}

fn scores(client: &Client, private: &[f32], sequence: &[u32]) -> Vec<f32> {
    let mut items = sequence.to_vec();
    items.sort_unstable();
    items.dedup();
    let mut into = vec![f32::NAN; ITEMS];
    client.score(&shared(client), private, History { sequence, ..(&items).into() }, &mut into);
    into
}

/// Sequences shorter than the window, of one item, with repetitions, longer than a session, of items that the catalog
/// says nothing about; and none at all.
#[test]
fn odd_sequences_are_trained_on_and_scored() {
    let long: Vec<u32> = (0..250).map(|n| n * 7 % ITEMS as u32).collect();
    let cases: [&[u32]; 5] = [&[5], &[5, 5, 5], &[1, 2, 3], &[39, 0], &long];
    for embedding in [Embedding::Vae, Embedding::VqVae, Embedding::Refrs] {
        for recommender in [Recommender::Gru4Rec, Recommender::SasRec] {
            for facts in [content(), Arc::new(Facts::none(ITEMS))] {
                let mut client = client(|config| {
                    (config.network.embedding, config.recommender) = (embedding, recommender);
                    (config.local_epochs, config.recommender_epochs, config.clustering.clusters) = (1, 1, 2);
                });
                client.networks = Networks::new(&client.config, &facts).ok();
                for sequence in cases {
                    let (private, trained, stats) = train(&client, sequence, 2);
                    assert_eq!(stats.samples, sequence.len() as u64);
                    assert!(stats.loss > 0.0 && stats.loss.is_finite());
                    assert_eq!(trained.update().tables()[0].len(), 1);
                    assert!(scores(&client, &private, sequence).iter().all(|score| score.is_finite()));
                }
                let (private, trained, stats) = train(&client, &[], 1);
                assert_eq!((stats, trained.update().rows()), (TrainStats::default(), 0));
                assert_eq!(scores(&client, &private, &[]), [0.0; ITEMS]);
            }
        }
    }
}

/// What leaves is the change of the encoder in the row of the device's cluster, and nothing else.
#[test]
fn only_the_encoder_leaves() {
    let client = client(|_| ());
    let networks = client.networks.as_ref().unwrap();
    let (private, trained, _) = train(&client, &[1, 3, 5, 7, 9, 11], 1);
    let rows: Vec<usize> = trained.update().tables().iter().map(sottovoce_protocol::Rows::len).collect();
    assert_eq!(rows, [1, 0, 0]);
    let shared = shared(&client);
    let change = trained.update().tables()[0].values();
    let encoder = networks.embedding.encoder();
    assert_eq!(change.len(), encoder.len());
    for ((change, start), own) in change.iter().zip(shared.tables()[0].row(0)).zip(&private[encoder]) {
        assert!((start + change - own).abs() < 1e-6);
    }
    assert!(change.iter().any(|&change| change != 0.0));
}

/// FRS-1: devices neither take anything from the server nor send anything.
#[test]
fn devices_can_train_alone() {
    let client = client(|config| config.clustering.assignment = clustering::Assignment::Alone);
    let (private, trained, stats) = train(&client, &[1, 3, 5, 7], 1);
    assert!(stats.samples > 0 && trained.update().rows() == 0);
    let mut start = vec![0.0; private.len()];
    client.init_private(&mut start, &mut Rng::new(2));
    let far = |from: &[f32]| from.iter().zip(&private).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    let encoder = client.networks.as_ref().unwrap().embedding.encoder();
    assert!(far(&start[encoder]) < far(shared(&client).tables()[0].row(0)));
}

/// Items that policy hides have no part in training.
#[test]
fn hidden_items_are_not_trained_on() {
    let client = client(|_| ());
    let shared = shared(&client);
    let prepared = client.prepare(&shared);
    let train = |sequence: &[u32], hidden: &[u32]| {
        let (mut scratch, mut into) = (client.scratch(ITEMS), Trained::new(&shared.layout()));
        let mut private = vec![0.0; client.private_values()];
        client.init_private(&mut private, &mut Rng::new(2));
        let mut items = sequence.to_vec();
        items.sort_unstable();
        let history = History { sequence, ..(&items).into() };
        let input = TrainInput { shared: &shared, prepared: &prepared, private: &mut private, history, hidden };
        client.train(input, &mut scratch, &mut Rng::new(3), &mut into).unwrap();
        into.update().clone()
    };
    assert_eq!(train(&[9, 2, 5, 7], &[2]), train(&[9, 5, 7], &[2]));
    assert_ne!(train(&[9, 2, 5, 7], &[]), train(&[9, 5, 7], &[]));
}

/// Paper, table 8: 100 vectors of items, about 50,000 parameters, 270 kB.
#[test]
fn a_device_is_as_small_as_in_table_8() {
    let config = RefrsConfig::default();
    let client = Refrs::client(&config, &Arc::new(Facts::none(3700)));
    let networks = client.networks.as_ref().unwrap();
    assert!((45_000..55_000).contains(&networks.values()), "{}", networks.values());
    assert!(4 * client.private_values() < 300_000);
    assert_eq!(config.session, 100);
    assert!(networks.embedding.encoder().len() < 3000, "{}", networks.embedding.encoder().len());
}

/// The fraction of devices whose next item, drawn from those of a kind, is among the five best of those not had.
fn hit_rate(client: &Client, devices: &[Vec<f32>], sequence: &[u32], kind: u32) -> f64 {
    let next: Vec<u32> = (0..ITEMS as u32).filter(|item| item % 2 == kind && !sequence.contains(item)).collect();
    let hits = devices.iter().map(|private| {
        let scores = scores(client, private, sequence);
        let mut order: Vec<u32> = (0..ITEMS as u32).filter(|item| !sequence.contains(item)).collect();
        order.sort_by(|a, b| scores[*b as usize].total_cmp(&scores[*a as usize]));
        order[..5].iter().filter(|item| next.contains(item)).count() as f64 / 5.0
    });
    hits.sum::<f64>() / devices.len() as f64
}

/// Somebody who watched films of one kind begins to watch those of the other: the device follows without a round.
#[test]
fn devices_adapt_to_a_change_of_taste() {
    let client = client(|config| (config.adapt_epochs, config.recommender_epochs) = (30, 30));
    let before: Vec<u32> = (0..14).map(|n| 2 * n).collect();
    let after: Vec<u32> = before.iter().copied().chain((0..8).map(|n| 2 * n + 1)).collect();
    let mut devices: Vec<Vec<f32>> = Vec::new();
    for device in 0..6 {
        let mut sequence = before.clone();
        Rng::new(device).shuffle(&mut sequence);
        devices.push(train(&client, &sequence, 3).0);
    }
    let learnt = hit_rate(&client, &devices, &before, 0);
    let changed = hit_rate(&client, &devices, &after, 1);
    let encoder = client.networks.as_ref().unwrap().embedding.layout().len();
    for private in &mut devices {
        let was = private.clone();
        let mut items = after.clone();
        items.sort_unstable();
        let history = History { sequence: &after, ..(&items).into() };
        assert!(client.adapt(private, history, ITEMS, &mut Rng::new(1)));
        assert_eq!(was[..encoder], private[..encoder], "updates depend on this");
    }
    let adapted = hit_rate(&client, &devices, &after, 1);
    eprintln!("hit rate: old taste {learnt:.3}, new taste {changed:.3}, after adapting {adapted:.3}");
    assert!(learnt > 0.6 && adapted > changed + 0.2, "{learnt} {changed} {adapted}");
    // Without a round there is nothing to adapt.
    let mut fresh = vec![0.0; client.private_values()];
    assert!(!client.adapt(&mut fresh, (&[1, 2]).into(), ITEMS, &mut Rng::new(1)));
}
