use super::*;
use crate::federated::co_occurrences::GramStep;
use crate::settings::Value;
use crate::{ClientModel, Fit, Quiet, ServerModel, TrainInput, central};
use sottovoce_core::{Histories, Rng};
use sottovoce_protocol::{Parameters, Trained};

fn people(items: usize) -> Vec<Vec<u32>> {
    let mut rng = Rng::new(6);
    let mut person = |_| (0..items as u32).filter(|&item| rng.chance(0.5 / (1.0 + 0.1 * f64::from(item)))).collect();
    (0..50).map(&mut person).filter(|history: &Vec<u32>| !history.is_empty()).collect()
}

/// One epoch with these groups, block by block.
fn trained(items: usize, config: &FedEaseConfig, groups: &[&[Vec<u32>]]) -> Parameters {
    let (server, client) = (FedEase::server(config, &Arc::default()), FedEase::client(config, &Arc::default()));
    let AggregationSpec::Gram(spec) = FedEase::aggregation(config, 50) else { panic!("another strategy") };
    let (mut shared, mut step) = (server.init(items, &mut Rng::new(1)).unwrap(), GramStep::default());
    for (block, group) in (0..config.blocks).flat_map(|block| groups.iter().map(move |group| (block, group))) {
        let mut sums = Parameters::zeros(&shared.layout());
        for history in *group {
            let mut trained = Trained::new(&shared.layout());
            trained.expect_table((config.blocks > 1).then_some(block as u32));
            let history = (&history[..]).into();
            let input = TrainInput { shared: &shared, prepared: &(), private: &mut [], history, hidden: &[] };
            client.train(input, &mut Scratch::default(), &mut Rng::new(1), &mut trained).unwrap();
            let others = trained.update().tables().iter().enumerate().filter(|(table, _)| *table != block);
            assert!(others.into_iter().all(|(_, rows)| rows.is_empty()), "a round asks for one block");
            for (row, values) in trained.update().tables()[block].iter() {
                let sum = sums.tables_mut()[block].row_mut(row);
                sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
            }
        }
        assert!(shared.tables().iter().all(|table| block == 0 || table.values().iter().all(|&value| value == 0.0)));
        let pass = (3 * config.blocks + block) as u64;
        step.take(&spec, (pass, 0.0), &mut shared, |table| {
            let table = &sums.tables()[table];
            (0..items).map(move |row| (row, table.row(row)))
        });
    }
    shared
}

#[test]
fn one_round_is_centralised_ease_and_so_are_groups_and_blocks() {
    for (items, blocks) in [(17, 1), (18, 1), (17, 3), (18, 4), (2, 2)] {
        let everybody = people(items);
        let model = central::MODELS.iter().find(|model| model.info.name == "ease").unwrap().model();
        let mut model = model.build(&model.settings([("regularisation", Value::Real(7.0))]).unwrap());
        model.fit(&Histories::from_lists(&everybody, items).unwrap(), &mut Fit::new(1, &mut Quiet)).unwrap();
        let config = FedEaseConfig { regularisation: 7.0, blocks };
        let client = FedEase::client(&config, &Arc::default());
        let (one, two) = everybody.split_at(everybody.len() / 2);
        for shared in [trained(items, &config, &[&everybody]), trained(items, &config, &[one, two])] {
            for (user, history) in everybody.iter().enumerate() {
                let (mut found, mut expected) = (vec![0.0; items], vec![0.0; items]);
                client.score(&shared, &[], history[..].into(), &mut found);
                model.score(user, &mut expected);
                assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-4), "{found:?} {expected:?}");
                let all: Vec<u32> = (0..items as u32).collect();
                let reasons = client.explain(&shared, &[], history[..].into(), &all);
                for (reasons, score) in reasons.iter().zip(&found) {
                    let sum: f32 = reasons.iter().map(|reason| reason.weight).sum();
                    assert!((sum - score).abs() < 1e-5);
                }
            }
        }
    }
}

#[test]
fn more_blocks_than_columns_are_refused() {
    let server = FedEase::server(&FedEaseConfig { blocks: 30, ..FedEaseConfig::default() }, &Arc::default());
    let error = server.layout(40).unwrap_err().to_string();
    assert!(error.contains("blocks is 30") && error.contains("21"), "{error}");
}
