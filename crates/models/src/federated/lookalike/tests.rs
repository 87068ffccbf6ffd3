use super::*;
use crate::federated::{ClientModel, ServerModel, TrainInput};
use sottovoce_core::{History, PageTable, Pages, Rng};
use sottovoce_neural::{Arithmetic, SparseRows, Statistics};
use sottovoce_protocol::Trained;

fn shape(text: Text, cell: Cell, normalisation: Normalisation) -> Shape {
    Shape { code: 3, text, dim: 4, cell, units: 2, normalisation, dropout: 0.0, page_dropout: 0.0 }
}

const CATEGORIES: usize = 6;
const PEOPLE: usize = 4;

/// A network in double precision with random parameters, its inputs, and the loss as a function of the parameters.
struct Case {
    network: Network,
    parameters: Vec<f64>,
    seen: Vec<u32>,
    targets: Vec<u32>,
    starts: [usize; PEOPLE + 1],
    target_starts: [usize; PEOPLE + 1],
    pages: Vec<f64>,
    statistics: Statistics,
}

impl Case {
    fn new(shape: Shape, statistics: Statistics) -> Self {
        let network = Network::new(shape, CATEGORIES, Arithmetic::Portable).unwrap();
        let mut rng = Rng::new(4);
        let mut parameters: Vec<f64> = (0..network.layout().len()).map(|_| 0.5 * rng.normal()).collect();
        for tensor in network.layout().tensors().iter().filter(|tensor| tensor.name.ends_with("variance")) {
            tensor.slot.of_mut(&mut parameters).unwrap().iter_mut().for_each(|value| *value = 0.5 + value.abs());
        }
        let pages = (0..PEOPLE * PAGES * shape.page_values()).map(|_| rng.normal()).collect();
        let (seen, targets) = (vec![1, 4, 0, 2, 3, 5, 4], vec![1, 4, 5, 0, 2, 2, 3, 5, 0, 4, 1]);
        let (starts, target_starts) = ([0, 2, 3, 6, 7], [0, 3, 5, 9, 11]);
        Self { network, parameters, seen, targets, starts, target_starts, pages, statistics }
    }

    fn loss(&self, parameters: &[f64], gradients: Option<&mut [f64]>) -> f64 {
        let seen = SparseRows::new(&self.starts, &self.seen, None, CATEGORIES).unwrap();
        let targets = SparseRows::new(&self.target_starts, &self.targets, None, CATEGORIES).unwrap();
        let inputs = Inputs { interests: &seen, pages: &self.pages };
        let mut arena = self.network.arena::<f64>(PEOPLE).unwrap();
        let mut space = arena.space();
        let pass = self.network.forward(parameters, inputs, self.statistics, None, &mut space).unwrap();
        let mut dlogits = vec![0.0; pass.logits.len()];
        let loss = self.network.loss(pass.logits, &targets, Some(&mut dlogits)).unwrap();
        if let Some(gradients) = gradients {
            self.network.backward(parameters, inputs, &pass, &dlogits, gradients, &mut space).unwrap();
        }
        loss
    }
}

#[test]
fn gradients_are_those_of_finite_differences() {
    for text in [Text::Nothing, Text::Titles] {
        for cell in [Cell::Lstm, Cell::Gru, Cell::Rnn] {
            for normalisation in [Normalisation::Batch, Normalisation::Layer, Normalisation::Nothing] {
                for statistics in [Statistics::Batch, Statistics::Running] {
                    let case = Case::new(shape(text, cell, normalisation), statistics);
                    let mut gradients = vec![0.0; case.parameters.len()];
                    case.loss(&case.parameters, Some(&mut gradients));
                    let tensors = case.network.layout().tensors().iter();
                    for tensor in tensors.filter(|tensor| tensor.role != sottovoce_neural::Role::Statistic) {
                        let index = tensor.slot.range().start;
                        let mut moved = case.parameters.clone();
                        moved[index] += 1e-6;
                        let slope = (case.loss(&moved, None) - case.loss(&case.parameters, None)) / 1e-6;
                        let error = (slope - gradients[index]).abs();
                        assert!(error < 1e-5, "{} {slope} {}", tensor.name, gradients[index]);
                    }
                }
            }
        }
    }
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
    for (name, cell) in [("lstm", Cell::Lstm), ("gru", Cell::Gru), ("rnn", Cell::Rnn)] {
        let mut case = Case::new(shape(Text::Titles, cell, Normalisation::Batch), Statistics::Batch);
        // Values that both programs compute: sines of their place.
        let sines =
            |count: usize, from: usize| (from..from + count).map(|place| (place as f64 * 1.9 + 1.0).sin() * 0.6);
        let mut place = 0;
        for tensor in case.network.layout().tensors() {
            let values: Vec<f64> = sines(tensor.slot.range().len(), place).collect();
            place += values.len();
            tensor.slot.of_mut(&mut case.parameters).unwrap().copy_from_slice(&values);
        }
        case.pages = sines(case.pages.len(), 1000).collect();
        let mut gradients = vec![0.0; case.parameters.len()];
        let loss = case.loss(&case.parameters.clone(), Some(&mut gradients));
        let figure = |what: &str| {
            let found = expected.iter().find(|(each, ..)| *each == format!("{name} {what}"));
            *found.unwrap_or_else(|| panic!("no figure for {name} {what}"))
        };
        assert!((loss - figure("loss").1).abs() < 1e-9, "{loss}");
        for tensor in case.network.layout().tensors() {
            if tensor.role == sottovoce_neural::Role::Statistic {
                continue;
            }
            let own = tensor.slot.of(&gradients).unwrap();
            let weighted: f64 = own.iter().enumerate().map(|(place, value)| value * (place as f64 * 0.3).cos()).sum();
            let (_, sum, sum_weighted) = figure(&tensor.name);
            // A shift before a norm is undone by it.
            let undone = ["encoder.second.bias", "decoder.first_norm.bias", "decoder.first.bias"]
                .contains(&tensor.name.as_str());
            let matters = undone || own.iter().any(|&value| value.abs() > 1e-5);
            assert!(matters, "{name} {}: nothing to compare", tensor.name);
            let error = (own.iter().sum::<f64>() - sum).abs().max((weighted - sum_weighted).abs());
            assert!(error < 1e-8, "{name} {}: {error}", tensor.name);
        }
    }
}

#[test]
fn calibration_is_the_arc_through_the_corners() {
    assert_eq!((calibrated(0.0), calibrated(1.0)), (0.0, 1.0));
    assert!((calibrated(0.3) - 0.6).abs() < 1e-6);
    assert!((0..100).all(|x| calibrated(x as f32 / 100.0) < calibrated((x + 1) as f32 / 100.0)));
    assert!((0..=100).all(|x| (uncalibrated(calibrated(x as f32 / 100.0)) - x as f32 / 100.0).abs() < 1e-4));
}

#[test]
fn parameters_are_as_many_as_in_table_8() {
    let count = |code| {
        let shape = Shape { code, ..shape(Text::Nothing, Cell::Lstm, Normalisation::Batch) };
        Network::new(shape, 473, Arithmetic::Portable).unwrap().layout().len() as f64 / 1000.0
    };
    for (code, thousands) in [(10, 20.0), (20, 40.0), (30, 62.0), (40, 83.0)] {
        assert!((count(code) - thousands).abs() < 1.0, "{code}: {}", count(code));
    }
    let largest = Shape { code: 70, dim: 512, units: 20, ..shape(Text::Titles, Cell::Lstm, Normalisation::Batch) };
    let bytes = 4 * Network::new(largest, 473, Arithmetic::Portable).unwrap().layout().len();
    assert!(bytes < 1_500_000, "{bytes}");
}

#[test]
fn the_last_pages_are_read_without_those_of_the_hidden_interest() {
    let mut table = PageTable::new(1);
    let numbers: Vec<u32> = (0..8).map(|page| table.push(&[page as f32 + 1.0], &[page % 2, 9])).collect();
    let pages = Pages::new(&table, &numbers).unwrap();
    let shape = Shape { dim: 1, ..shape(Text::Titles, Cell::Lstm, Normalisation::Layer) };
    let mut into = [0f32; PAGES];
    shape.read_pages(pages, None, &mut into);
    assert_eq!(into, [4.0, 5.0, 6.0, 7.0, 8.0]);
    shape.read_pages(pages, Some(1), &mut into);
    assert_eq!(into, [0.0, 1.0, 3.0, 5.0, 7.0]);
    shape.read_pages(pages, Some(9), &mut into);
    assert_eq!(into, [0.0; PAGES]);
    // Vectors of another length are those of another encoder.
    Shape { dim: 2, ..shape }.read_pages(pages, None, &mut [0f32; 2 * PAGES]);
}

fn client() -> Client {
    let config = LookalikeConfig {
        network: NetworkConfig { code: 3, dim: 2, units: 2, dropout_share: 0.0, ..NetworkConfig::default() },
        ..LookalikeConfig::default()
    };
    Client { server: Server { shape: config.network.shape() }, config }
}

/// The gradient comes back in rows: those of the first layer of what was seen, all of the last.
#[test]
fn an_update_has_the_rows_it_says() {
    let client = client();
    let shared = client.server.init(CATEGORIES, &mut Rng::new(5)).unwrap();
    let mut into = Trained::new(&shared.layout());
    let (prepared, mut scratch) = (client.prepare(&shared), client.scratch(CATEGORIES));
    let history = History::from(&[1, 3, 4]);
    let mut train = |history, hidden: &[u32], into: &mut Trained| {
        let input = TrainInput { shared: &shared, prepared: &prepared, private: &mut [], history, hidden };
        client.train(input, &mut scratch, &mut Rng::new(3), into).unwrap()
    };
    let stats = train(history, &[], &mut into);
    assert_eq!(stats.samples, 3);
    assert!(stats.loss > 0.0);
    let rows = |table: usize, into: &Trained| {
        into.update().tables()[table].iter().map(|(row, _)| row as u32).collect::<Vec<u32>>()
    };
    let seen = rows(0, &into);
    assert!(seen.len() <= 2 && seen.iter().all(|item| [1, 3, 4].contains(item)), "{seen:?}");
    assert_eq!(rows(1, &into), (0..6).collect::<Vec<u32>>());
    // With a single interest nothing is shown; from what is hidden by policy nobody learns.
    into.clear();
    assert_eq!(train(history, &[1, 3], &mut into).samples, 1);
    assert!(rows(0, &into).is_empty());
    into.clear();
    assert_eq!(train(history, &[1, 3, 4], &mut into).samples, 0);
}

/// A server that sends a variance below zero, or nothing finite, makes no device panic.
#[test]
fn odd_statistics_do_no_harm() {
    let config = LookalikeConfig {
        network: NetworkConfig { code: 3, normalisation: Normalisation::Batch, ..client().config.network },
        ..client().config
    };
    let client = Client { server: Server { shape: config.network.shape() }, config };
    let mut shared = client.server.init(CATEGORIES, &mut Rng::new(5)).unwrap();
    shared.tables_mut()[2].values_mut().iter_mut().for_each(|value| *value = -value.abs() - 1.0);
    let mut scores = [0.0; CATEGORIES];
    client.score(&shared, &[], History::from(&[1, 2]), &mut scores);
    assert!(scores.iter().all(|score| (0.0..=1.0).contains(score)), "{scores:?}");
}

#[test]
fn replayed_people_have_two_interests_that_go_together() {
    // A model that knows two pairs, one three times as common as the other.
    let score = |seen: &[u32], into: &mut [f32]| {
        into.fill(0.0);
        match seen {
            [] => [(0, 0.3), (1, 0.3), (2, 0.1), (3, 0.1)].map(|(at, value)| into[at] = calibrated(value)),
            [first] => [(*first as usize ^ 1, 0.9); 4].map(|(at, value)| into[at] = calibrated(value)),
            _ => unreachable!(),
        };
    };
    let people = replayed(4000, 6, score, &mut Rng::new(1));
    let common = people.iter().filter(|pair| **pair == [0, 1]).count() as f64 / 4000.0;
    assert!((common - 0.75).abs() < 0.03, "{common}");
    assert!(people.iter().all(|pair| pair[0] < pair[1]));
}

#[test]
fn training_reads_no_pages_as_often_as_asked() {
    let mut table = PageTable::new(4);
    table.push(&[1.0; 4], &[0]);
    let pages = Pages::new(&table, &[0]).unwrap();
    let shape = shape(Text::Titles, Cell::Lstm, Normalisation::Layer);
    let dropping = Shape { page_dropout: 0.25, ..shape };
    let mut rng = Rng::new(7);
    let dropped = (0..4000).filter(|_| dropping.some_pages(pages, &mut rng).is_empty()).count();
    assert!((900..1100).contains(&dropped), "{dropped}");
    let (mut rng, mut untouched) = (Rng::new(7), Rng::new(7));
    assert_eq!(shape.some_pages(pages, &mut rng), pages);
    assert_eq!(rng.next_u64(), untouched.next_u64(), "without dropout no randomness is spent");
}
