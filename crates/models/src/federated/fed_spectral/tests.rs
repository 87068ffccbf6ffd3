use super::*;
use crate::settings::Value;
use crate::spectral::Readout;
use crate::{ClientModel, Fit, Quiet, Recommender, ServerModel, TrainInput, central};
use sottovoce_core::{Histories, History, Rng};
use sottovoce_protocol::{Parameters, Trained};
use std::collections::BTreeMap;

const ITEMS: usize = 15;

fn people(count: usize) -> Vec<Vec<u32>> {
    let mut rng = Rng::new(4);
    let taste = |user: usize, item: u32| if (item as usize * 3 / ITEMS) == user % 3 { 0.7 } else { 0.15 };
    let mut person = |user| (0..ITEMS as u32).filter(|&item| rng.chance(taste(user, item))).collect();
    let all: Vec<Vec<u32>> = (0..count).map(&mut person).collect();
    all.into_iter().filter(|history| !history.is_empty()).collect()
}

fn config(factors: usize) -> FedSpectralConfig {
    FedSpectralConfig { factors: Some(factors), oversampling: 4, ..FedSpectralConfig::default() }
}

/// The rows that a device sends.
fn sent(client: &Client, shared: &Parameters, history: &[u32], hidden: &[u32]) -> BTreeMap<usize, Vec<f32>> {
    let mut trained = Trained::new(&shared.layout());
    let input = TrainInput { shared, prepared: &(), private: &mut [], history: history.into(), hidden };
    client.train(input, &mut client.scratch(ITEMS), &mut Rng::new(1), &mut trained).unwrap();
    trained.update().tables()[0].iter().map(|(row, values)| (row, values.to_vec())).collect()
}

/// Groups of people, each with its epoch.
type Rounds<'a> = [(u64, &'a [Vec<u32>])];

/// Rounds with these groups.
fn trained(config: &FedSpectralConfig, rounds: &Rounds<'_>) -> (Parameters, SpectralStep) {
    let server = FedSpectral::server(config, &Arc::default());
    trained_from(server.init(ITEMS, &mut Rng::new(9)).unwrap(), config, rounds)
}

/// The same from this shared model on.
fn trained_from(mut shared: Parameters, config: &FedSpectralConfig, rounds: &Rounds<'_>) -> (Parameters, SpectralStep) {
    let client = Client { config: config.clone() };
    let AggregationSpec::Spectral(spec) = FedSpectral::aggregation(config, 0) else { panic!("another strategy") };
    let mut step = SpectralStep::default();
    for &(epoch, group) in rounds {
        let mut sums: BTreeMap<usize, Vec<f32>> = BTreeMap::new();
        for history in group {
            for (row, values) in sent(&client, &shared, history, &[]) {
                let sum = sums.entry(row).or_insert_with(|| vec![0.0; values.len()]);
                sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
            }
        }
        let sums = sums.iter().map(|(row, sum)| (*row, &sum[..]));
        let round = SpectralRound { epoch, people: group.len() as u64, noise: 0.0, sums };
        step.take(&spec, &mut shared, round);
    }
    (shared, step)
}

fn scores(config: &FedSpectralConfig, shared: &Parameters, history: &[u32]) -> Vec<f32> {
    let mut scores = vec![0.0; ITEMS];
    Client { config: config.clone() }.score(shared, &[], history.into(), &mut scores);
    scores
}

fn near(found: &[f32], expected: &[f32], within: f32) -> bool {
    found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < within)
}

#[test]
fn rows_are_the_projection_of_the_history() {
    let config = FedSpectralConfig { user_exponent: 0.5, ..config(3) };
    let client = Client { config: config.clone() };
    let shared = FedSpectral::server(&config, &Arc::default()).init(ITEMS, &mut Rng::new(2)).unwrap();
    let rows = sent(&client, &shared, &[1, 4, 6, 9], &[6]);
    assert_eq!(rows.keys().copied().collect::<Vec<_>>(), [1, 4, 9], "nothing of hidden items");
    for col in 0..7 {
        let sum: f32 = [1, 4, 9].iter().map(|&item| shared.tables()[0].row(item)[col]).sum();
        let expected = shared.tables()[1].row(0)[col] * sum / 3f32.sqrt();
        assert!(rows.values().all(|row| (row[col] - expected).abs() < 1e-6));
    }
}

#[test]
fn rounds_of_everybody_find_what_the_centralised_model_finds() {
    let everybody = people(90);
    let config = config(5);
    let (shared, _) = trained(&config, &(0..12).map(|epoch| (epoch, &everybody[..])).collect::<Vec<_>>());
    let model = centralised("ease-low-rank", &[("factors", Value::Integer(5))], &everybody);
    for (user, history) in everybody.iter().enumerate() {
        let mut expected = vec![0.0; ITEMS];
        model.score(user, &mut expected);
        let found = scores(&config, &shared, history);
        assert!(near(&found, &expected, 2e-3), "{found:?} {expected:?}");
        let client = Client { config: config.clone() };
        let all: Vec<u32> = (0..ITEMS as u32).collect();
        let reasons = client.explain(&shared, &[], history[..].into(), &all);
        let sums: Vec<f32> = reasons.iter().map(|reasons| reasons.iter().map(|reason| reason.weight).sum()).collect();
        assert!(near(&sums, &found, 1e-5), "reasons add up to scores");
    }
}

#[test]
fn groups_of_an_epoch_add_up_to_everybody() {
    let everybody = people(60);
    // All of the space: nothing is lost between groups.
    let config = FedSpectralConfig { oversampling: 0, ..config(ITEMS) };
    let (one, two) = everybody.split_at(25);
    let (first, last) = (two, one);
    let (at_once, all) = trained(&config, &[(0, &everybody), (1, &everybody)]);
    let (in_groups, groups) = trained(&config, &[(0, &everybody), (1, &everybody), (2, first), (2, last)]);
    for (found, expected) in groups.eigenvalues.iter().zip(&all.eigenvalues) {
        assert!((found - expected).abs() < 1e-3 * all.eigenvalues[0], "{found} {expected}");
    }
    let history = &everybody[7];
    assert!(near(&scores(&config, &in_groups, history), &scores(&config, &at_once, history), 1e-2));
    // The next epoch begins anew: nobody counts twice.
    let (_, anew) = trained(&config, &[(0, &everybody), (1, first), (1, last), (2, &everybody)]);
    assert!((anew.eigenvalues[0] - all.eigenvalues[0]).abs() < 1e-3 * all.eigenvalues[0]);
}

#[test]
fn few_people_do_not_close_the_space() {
    let everybody = people(60);
    let config = config(5);
    let (shared, step) = trained(&config, &[(0, &everybody[..1])]);
    assert!(step.eigenvalues[0] > 0.0 && step.eigenvalues[1..].iter().all(|&value| value == 0.0));
    let table = &shared.tables()[0];
    assert!((0..ITEMS).all(|item| table.row(item)[1..5].iter().all(|&value| value == 0.0)), "no noise in scores");
    let later: Vec<(u64, &[Vec<u32>])> =
        [(0, &everybody[..1])].into_iter().chain((1..6).map(|e| (e, &everybody[..]))).collect();
    let (_, step) = trained(&config, &later);
    assert!(step.eigenvalues[..5].iter().all(|&value| value > 0.0));
}

/// The centralised model of this name, trained on these people.
fn centralised(name: &str, settings: &[(&str, Value)], people: &[Vec<u32>]) -> Box<dyn Recommender> {
    let model = central::MODELS.iter().find(|model| model.info.name == name).unwrap().model();
    let mut model = model.build(&model.settings(settings.iter().cloned()).unwrap());
    model.fit(&Histories::from_lists(people, ITEMS).unwrap(), &mut Fit::new(1, &mut Quiet)).unwrap();
    model
}

#[test]
fn graph_filters_are_those_of_gf_cf() {
    let everybody = people(60);
    let (one, two) = everybody.split_at(25);
    // All vectors: the linear filter is whole. With fewer, the ideal one has as many as GF-CF's.
    let config = FedSpectralConfig { readout: Readout::GfCf, oversampling: 0, alpha: 0.5, ..config(ITEMS) };
    let settings = [("factors", Value::Integer(ITEMS as i64)), ("alpha", Value::Real(0.5))];
    let model = centralised("gf-cf", &settings, &everybody);
    let rounds: [&Rounds<'_>; 2] =
        [&[(0, &everybody), (1, &everybody)], &[(0, &everybody), (1, &everybody), (2, one), (2, two)]];
    for rounds in rounds {
        let (shared, step) = trained(&config, rounds);
        assert!((0..ITEMS).all(|item| {
            let people = everybody.iter().filter(|history| history.contains(&(item as u32))).count();
            (step.counts[item] - people as f64).abs() < 1e-3
        }));
        for (user, history) in everybody.iter().enumerate() {
            let mut expected = vec![0.0; ITEMS];
            model.score(user, &mut expected);
            let found = scores(&config, &shared, history);
            assert!(near(&found, &expected, 2e-3), "{found:?} {expected:?}");
            let all: Vec<u32> = (0..ITEMS as u32).collect();
            let reasons = Client { config: config.clone() }.explain(&shared, &[], history[..].into(), &all);
            let sums: Vec<f32> =
                reasons.iter().map(|reasons| reasons.iter().map(|reason| reason.weight).sum()).collect();
            assert!(near(&sums, &found, 1e-4), "reasons add up to scores");
        }
    }
}

#[test]
fn one_round_from_earlier_vectors_is_enough_and_groups_add_up_from_the_first_on() {
    let everybody = people(90);
    let (earlier, _) = everybody.split_at(72);
    let config = config(5);
    let rounds: Vec<(u64, &[Vec<u32>])> = (0..3).map(|epoch| (epoch, earlier)).collect();
    let (before, _) = trained(&config, &rounds);
    let (anew, all) = trained(&config, &(0..8).map(|epoch| (epoch, &everybody[..])).collect::<Vec<_>>());
    let (one, two) = everybody.split_at(40);
    for rounds in [&[(0, &everybody[..])][..], &[(0, one), (0, two)]] {
        let (kept, step) = trained_from(before.clone(), &config, rounds);
        assert_eq!(step.people, everybody.len() as u64);
        assert!((step.eigenvalues[0] / all.eigenvalues[0] - 1.0).abs() < 0.02);
        let wrong = |shared: &Parameters| {
            let differences = everybody.iter().map(|history| {
                let pair = [shared, &anew].map(|shared| scores(&config, shared, history));
                pair[0].iter().zip(&pair[1]).map(|(a, b)| (a - b).abs()).sum::<f32>()
            });
            differences.sum::<f32>()
        };
        // Random vectors after one round are much further off.
        let random = trained(&config, &[(0, &everybody)]).0;
        assert!(wrong(&kept) < 0.5 * wrong(&random), "{} {}", wrong(&kept), wrong(&random));
    }
}

#[test]
fn values_are_of_one_size_whatever_their_eigenvalues() {
    let everybody = people(90);
    let config = config(5);
    let (shared, _) = trained(&config, &[(0, &everybody), (1, &everybody)]);
    let client = Client { config };
    for col in 0..5 {
        let sent =
            everybody.iter().map(|history| sent(&client, &shared, history, &[]).into_values().next().unwrap()[col]);
        let size = (sent.map(|value| f64::from(value).powi(2)).sum::<f64>() / everybody.len() as f64).sqrt();
        assert!((0.6 * UNIT..1.6 * UNIT).contains(&size), "column {col}: {size}");
    }
}

#[test]
fn whatever_a_server_sends_scores_are_finite() {
    let config = FedSpectralConfig { readout: Readout::Ease, ..config(3) };
    let mut shared = FedSpectral::server(&config, &Arc::default()).init(ITEMS, &mut Rng::new(2)).unwrap();
    shared.tables_mut()[0].values_mut().fill(3.0);
    assert!(scores(&config, &shared, &[0, 1]).iter().all(|score| score.is_finite()));
    let filter = FedSpectralConfig { readout: Readout::GfCf, ..config.clone() };
    let mut other = FedSpectral::server(&filter, &Arc::default()).init(ITEMS, &mut Rng::new(2)).unwrap();
    other.tables_mut()[0].values_mut().fill(-3.0);
    assert!(scores(&filter, &other, &[0, 1]).iter().all(|score| score.is_finite()));
    let nothing = History::default();
    let mut of_nothing = vec![1.0; ITEMS];
    Client { config }.score(&shared, &[], nothing, &mut of_nothing);
    assert_eq!(of_nothing, [0.0; ITEMS]);
}
