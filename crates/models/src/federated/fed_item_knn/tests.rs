use super::*;
use crate::federated::co_occurrences::GramStep;
use crate::settings::Value;
use crate::{ClientModel, Fit, Quiet, TrainInput, central};
use sottovoce_core::Histories;
use sottovoce_protocol::Trained;

fn people(items: usize) -> Vec<Vec<u32>> {
    let mut rng = Rng::new(6);
    let mut person = |_| (0..items as u32).filter(|&item| rng.chance(0.5 / (1.0 + 0.1 * f64::from(item)))).collect();
    (0..50).map(&mut person).filter(|history: &Vec<u32>| !history.is_empty()).collect()
}

fn config(k: usize, similarity: &str, shrinkage: f64, blocks: usize) -> FedItemKnnConfig {
    use crate::settings::{Choice, Config};
    let similarity = Choice::named(similarity).unwrap();
    let mut config = FedItemKnnConfig { blocks, ..FedItemKnnConfig::default() };
    assert_eq!(config.schema().len(), 4);
    (config.neighbours.k, config.neighbours.similarity, config.neighbours.shrinkage) = (k, similarity, shrinkage);
    config
}

/// One round of each block, with what is added to each sum.
fn trained(
    items: usize,
    config: &FedItemKnnConfig,
    people: &[Vec<u32>],
    (noise, mut draw): (f64, impl FnMut() -> f32),
) -> Parameters {
    let (server, client) = (FedItemKnn::server(config, &Arc::default()), FedItemKnn::client(config, &Arc::default()));
    let AggregationSpec::Gram(spec) = FedItemKnn::aggregation(config, 50) else { panic!("another strategy") };
    let (mut shared, mut step) = (server.init(items, &mut Rng::new(1)).unwrap(), GramStep::default());
    for block in 0..config.blocks {
        let mut sums = Parameters::zeros(&shared.layout());
        for history in people {
            let mut trained = Trained::new(&shared.layout());
            let history = (&history[..]).into();
            let input = TrainInput { shared: &shared, prepared: &(), private: &mut [], history, hidden: &[] };
            client.train(input, &mut Scratch::default(), &mut Rng::new(1), &mut trained).unwrap();
            for (row, values) in trained.update().tables()[block].iter() {
                let sum = sums.tables_mut()[block].row_mut(row);
                sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
            }
        }
        sums.tables_mut()[block].values_mut().iter_mut().for_each(|sum| *sum += draw());
        step.take(&spec, (block as u64, noise), &mut shared, |table| {
            let table = &sums.tables()[table];
            (0..items).map(move |row| (row, table.row(row)))
        });
    }
    shared
}

#[test]
fn one_round_is_centralised_item_knn_ties_and_all() {
    let cases =
        [(17, 4, "cosine", 0.0, 1), (18, 4, "cosine", 0.0, 3), (18, 3, "jaccard", 2.0, 1), (17, 30, "jaccard", 0.0, 2)];
    for (items, k, similarity, shrinkage, blocks) in cases {
        let everybody = people(items);
        let model = central::MODELS.iter().find(|model| model.info.name == "item-knn").unwrap().model();
        let settings = [
            ("k", Value::Integer(k as i64)),
            ("similarity", Value::Word(similarity.to_owned())),
            ("shrinkage", Value::Real(shrinkage)),
        ];
        let mut model = model.build(&model.settings(settings).unwrap());
        model.fit(&Histories::from_lists(&everybody, items).unwrap(), &mut Fit::new(1, &mut Quiet)).unwrap();
        let config = config(k, similarity, shrinkage, blocks);
        let client = FedItemKnn::client(&config, &Arc::default());
        let shared = trained(items, &config, &everybody, (0.0, || 0.0));
        let all: Vec<u32> = (0..items as u32).collect();
        for (user, history) in everybody.iter().enumerate() {
            let (mut found, mut expected) = (vec![0.0; items], vec![0.0; items]);
            client.score(&shared, &[], history[..].into(), &mut found);
            model.score(user, &mut expected);
            assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-5), "{found:?} {expected:?}");
            let sorted = |mut reasons: Vec<crate::Reason>| {
                reasons.sort_by(|a, b| format!("{a:?}").cmp(&format!("{b:?}")));
                reasons
            };
            let reasons = client.explain(&shared, &[], history[..].into(), &all);
            for (found, expected) in reasons.into_iter().zip(model.reasons(user, &all)) {
                assert_eq!(sorted(found), sorted(expected));
            }
        }
    }
}

#[test]
fn pairs_that_noise_alone_could_have_made_are_none() {
    let (items, config) = (40, config(400, "cosine", 0.0, 1));
    let mut rng = Rng::new(3);
    let shared = trained(items, &config, &[], (2.0, || 2.0 * rng.normal() as f32));
    let found = shared.tables()[0].values().iter().filter(|&&value| value != 0.0).count();
    // Nobody has anything: hardly one of 780 pairs is taken for one, and scores stay bounded.
    assert!(found <= 4, "{found}");
    assert!(shared.tables()[0].values().iter().all(|value| value.abs() < 40.0));
}
