use super::*;
use crate::settings::Value;
use crate::spectral::Readout;
use crate::{ClientModel, Fit, Quiet, ServerModel, TrainInput, central};
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

/// Rounds with these groups, as (epoch, group).
fn trained(config: &FedSpectralConfig, rounds: &[(u64, &[Vec<u32>])]) -> (Parameters, SpectralStep) {
    let client = Client { config: config.clone() };
    let server = FedSpectral::server(config, &Arc::default());
    let AggregationSpec::Spectral(spec) = FedSpectral::aggregation(config, 0) else { panic!("another strategy") };
    let (mut shared, mut step) = (server.init(ITEMS, &mut Rng::new(9)).unwrap(), SpectralStep::default());
    for &(epoch, group) in rounds {
        let mut sums: BTreeMap<usize, Vec<f32>> = BTreeMap::new();
        for history in group {
            for (row, values) in sent(&client, &shared, history, &[]) {
                let sum = sums.entry(row).or_insert_with(|| vec![0.0; values.len()]);
                sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
            }
        }
        let rows = sums.iter().map(|(row, sum)| (*row, &sum[..]));
        step.take(&spec, epoch, &mut shared.tables_mut()[0], rows);
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
        let expected = UNIT * sum / 3f32.sqrt();
        assert!(rows.values().all(|row| (row[col] - expected).abs() < 1e-6));
    }
}

#[test]
fn rounds_of_everybody_find_what_the_centralised_model_finds() {
    let everybody = people(90);
    let config = config(5);
    let (shared, _) = trained(&config, &(0..12).map(|epoch| (epoch, &everybody[..])).collect::<Vec<_>>());
    let model = central::MODELS.iter().find(|model| model.info.name == "ease-low-rank").unwrap().model();
    let mut model = model.build(&model.settings([("factors", Value::Integer(5))]).unwrap());
    model.fit(&Histories::from_lists(&everybody, ITEMS).unwrap(), &mut Fit::new(1, &mut Quiet)).unwrap();
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

#[test]
fn whatever_a_server_sends_scores_are_finite() {
    let config = FedSpectralConfig { readout: Readout::Ease, ..config(3) };
    let mut shared = FedSpectral::server(&config, &Arc::default()).init(ITEMS, &mut Rng::new(2)).unwrap();
    shared.tables_mut()[0].values_mut().fill(3.0);
    assert!(scores(&config, &shared, &[0, 1]).iter().all(|score| score.is_finite()));
    let nothing = History::default();
    let mut of_nothing = vec![1.0; ITEMS];
    Client { config }.score(&shared, &[], nothing, &mut of_nothing);
    assert_eq!(of_nothing, [0.0; ITEMS]);
}
