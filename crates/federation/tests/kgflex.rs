//! KGFlex in a federation: a round equals a centralised step, and what leaves.

mod common;

use common::{Given, catalog, fitted};
use sottovoce_core::{Catalog, Histories, Rng};
use sottovoce_models::settings::Value;
use sottovoce_models::{Because, Recommender, TensorData};

const ITEMS: usize = 60;

/// Users who like two features each; one has no items, one only items without features.
fn people(catalog: &Catalog) -> Histories {
    let facts = catalog.facts.as_ref().unwrap();
    let mut rng = Rng::new(9);
    let mut lists: Vec<Vec<u32>> = (0..40)
        .map(|_| {
            let liked = [rng.below(20), rng.below(20)];
            let likes = |item: &u32| facts.of(*item as usize).iter().any(|feature| liked.contains(&feature));
            (0..ITEMS as u32).filter(likes).filter(|_| rng.chance(0.6)).collect()
        })
        .collect();
    lists[7] = vec![];
    lists[8] = vec![5, 16];
    Histories::from_lists(&lists, ITEMS).unwrap()
}

fn trained(model: &str, settings: &[Given], people: &Histories, catalog: &Catalog) -> Box<dyn Recommender> {
    fitted(model, settings, (people, Some(catalog)), 3).unwrap().0
}

fn floats(model: &dyn Recommender, name: &str) -> Vec<f32> {
    let tensors = model.tensors();
    let found = tensors.into_iter().find(|tensor| tensor.name == name).unwrap();
    match found.data {
        TensorData::F32(values) => values,
        TensorData::U32(_) => panic!("{name} holds whole numbers"),
    }
}

fn scores(model: &dyn Recommender, user: usize) -> Vec<f32> {
    let mut scores = vec![f32::NAN; ITEMS];
    model.score(user, &mut scores);
    scores
}

#[test]
fn a_round_of_all_devices_equals_a_centralised_step_on_all_triples() {
    let catalog = catalog(ITEMS);
    let people = people(&catalog);
    let settings = [
        ("factors", Value::Integer(3)),
        ("epochs", Value::Integer(2)),
        ("learning_rate", Value::Real(0.05)),
        ("personal_regularisation", Value::Real(0.1)),
        ("shared_regularisation", Value::Real(0.1)),
    ];
    let federated =
        [&settings[..], &[("strategy", Value::Word("sum".into())), ("cohort", Value::Integer(40))]].concat();
    let central = [&settings[..], &[("batch", Value::Word("all".into()))]].concat();
    let federated = trained("kgflex", &federated, &people, &catalog);
    let central = trained("kgflex-central", &central, &people, &catalog);
    let close = |one: &[f32], other: &[f32]| {
        assert_eq!(one.len(), other.len());
        let worst = one.iter().zip(other).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(worst < 2e-5, "{worst}");
    };
    let (vectors, bias) = (floats(&*federated, "features"), floats(&*federated, "bias"));
    let rows = vectors.chunks(3).zip(&bias).flat_map(|(row, bias)| row.iter().chain([bias]).copied());
    close(&rows.collect::<Vec<_>>(), &floats(&*central, "features"));
    close(&floats(&*federated, "users"), &floats(&*central, "users"));
    assert!(bias.iter().any(|bias| bias.abs() > 1e-3), "biases were trained");
    for user in 0..people.users() {
        close(&scores(&*federated, user), &scores(&*central, user));
    }
}

#[test]
fn with_pi_0_nothing_leaves_and_private_models_are_trained() {
    let catalog = catalog(ITEMS);
    let people = people(&catalog);
    let settings =
        |pi: f64, epochs| [("pi", Value::Real(pi)), ("epochs", Value::Integer(epochs)), ("factors", Value::Integer(3))];
    let silent = trained("kgflex", &settings(0.0, 3), &people, &catalog);
    assert!(floats(&*silent, "bias").iter().all(|&bias| bias == 0.0));
    let one = trained("kgflex", &settings(0.0, 1), &people, &catalog);
    assert_ne!(floats(&*silent, "users"), floats(&*one, "users"));
    assert_eq!(floats(&*silent, "features"), floats(&*one, "features"));
}

#[test]
fn users_without_features_are_scored_by_shared_biases() {
    let catalog = catalog(ITEMS);
    let people = people(&catalog);
    let model = trained("kgflex", &[("epochs", Value::Integer(5))], &people, &catalog);
    let facts = catalog.facts.as_ref().unwrap();
    let bias = floats(&*model, "bias");
    let general = |item: usize| {
        let own = facts.of(item);
        own.iter().map(|feature| bias[feature as usize]).sum::<f32>() / own.len().max(1) as f32
    };
    // A user without items; one with items without features only.
    for user in [7, 8] {
        for (item, score) in scores(&*model, user).into_iter().enumerate() {
            assert!((score - general(item)).abs() < 1e-6, "user {user}, item {item}");
        }
        assert!(model.reasons(user, &[0])[0].iter().all(|reason| matches!(reason.because, Because::Fact(_))));
    }
    // An item without features scores 0.
    assert!(scores(&*model, 0)[5] == 0.0 && scores(&*model, 0).iter().any(|&score| score > 0.0));
}
