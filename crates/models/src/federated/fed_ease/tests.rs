use super::*;
use crate::settings::Value;
use crate::{ClientModel, Fit, Quiet, ServerModel, TrainInput, central};
use sottovoce_core::{Histories, Rng};
use sottovoce_protocol::{Parameters, Trained};

fn people(items: usize) -> Vec<Vec<u32>> {
    let mut rng = Rng::new(6);
    let mut person = |_| (0..items as u32).filter(|&item| rng.chance(0.5 / (1.0 + 0.1 * f64::from(item)))).collect();
    (0..50).map(&mut person).filter(|history: &Vec<u32>| !history.is_empty()).collect()
}

/// One epoch with these groups.
fn trained(items: usize, regularisation: f64, groups: &[&[Vec<u32>]]) -> Parameters {
    let (mut shared, mut step) = (Server.init(items, &mut Rng::new(1)).unwrap(), GramStep::default());
    for group in groups {
        let mut sums = Parameters::zeros(&shared.layout());
        for history in *group {
            let mut trained = Trained::new(&shared.layout());
            let history = (&history[..]).into();
            let input = TrainInput { shared: &shared, prepared: &(), private: &mut [], history, hidden: &[] };
            Client.train(input, &mut Scratch::default(), &mut Rng::new(1), &mut trained).unwrap();
            for (row, values) in trained.update().tables()[0].iter() {
                let sum = sums.tables_mut()[0].row_mut(row);
                sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
            }
        }
        let rows = (0..items).map(|row| (row, sums.tables()[0].row(row)));
        step.take(&GramSpec { regularisation }, 3, &mut shared.tables_mut()[0], rows);
    }
    shared
}

#[test]
fn one_round_is_centralised_ease_and_so_are_groups() {
    for items in [17, 18] {
        let everybody = people(items);
        let model = central::MODELS.iter().find(|model| model.info.name == "ease").unwrap().model();
        let mut model = model.build(&model.settings([("regularisation", Value::Real(7.0))]).unwrap());
        model.fit(&Histories::from_lists(&everybody, items).unwrap(), &mut Fit::new(1, &mut Quiet)).unwrap();
        let (one, two) = everybody.split_at(20);
        for shared in [trained(items, 7.0, &[&everybody]), trained(items, 7.0, &[one, two])] {
            for (user, history) in everybody.iter().enumerate() {
                let (mut found, mut expected) = (vec![0.0; items], vec![0.0; items]);
                Client.score(&shared, &[], history[..].into(), &mut found);
                model.score(user, &mut expected);
                assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-4), "{found:?} {expected:?}");
                let all: Vec<u32> = (0..items as u32).collect();
                let reasons = Client.explain(&shared, &[], history[..].into(), &all);
                for (reasons, score) in reasons.iter().zip(&found) {
                    let sum: f32 = reasons.iter().map(|reason| reason.weight).sum();
                    assert!((sum - score).abs() < 1e-5);
                }
            }
        }
    }
}
