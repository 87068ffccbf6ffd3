//! Models that see people only through sums: everybody asked once, epsilon shared by rounds, no round without a seal.

mod common;

use common::{Given, builder, catalog, fitted, people, word};
use sottovoce_federation::registry;
use sottovoce_models::settings::Value;
use sottovoce_models::{Recommender, Summary, TensorData};

const PEOPLE: usize = 80;
const ITEMS: usize = 40;

fn train(model: &str, settings: &[Given]) -> Result<Summary, String> {
    let fitted = fitted(model, settings, (&people(PEOPLE, ITEMS), Some(&catalog(ITEMS))), 3);
    fitted.map(|(_, summary)| summary).map_err(|error| error.to_string())
}

fn learners() -> u64 {
    people(PEOPLE, ITEMS).iter().filter(|history| !history.is_empty()).count() as u64
}

#[test]
fn everybody_is_asked_once_an_epoch() {
    let sealed = ["fed-spectral", "fed-ease", "fed-item-knn", "fed-popularity"].map(|model| (model, "secagg"));
    for (model, seal) in [("fed-spectral", "none")].into_iter().chain(sealed) {
        for epochs in [1, 2] {
            let settings = [("cohort", Value::Integer(10)), ("epochs", Value::Integer(epochs)), ("seal", word(seal))];
            let turnout = train(model, &settings).unwrap().turnout;
            assert!(turnout.rounds > 1, "several rounds");
            assert_eq!(turnout.received, epochs as u64 * learners(), "{model}, seal {seal}, {epochs} epochs");
        }
    }
}

#[test]
fn two_rounds_of_unequal_noise_spend_epsilon_and_no_more() {
    for epsilon in [0.5, 2.0, 8.0] {
        let noise = [
            ("top_items", Value::Integer(10)),
            ("noise", word("central")),
            ("epsilon", Value::Real(epsilon)),
            ("noise_multiplier", Value::Integer(0)),
        ];
        let spent = train("fed-ease-top", &noise).unwrap().privacy.unwrap();
        assert_eq!((spent.rounds, spent.clip, spent.ended), (2, Some(1.0), None));
        assert!(
            spent.epsilon <= epsilon * (1.0 + 1e-6) && spent.epsilon > 0.97 * epsilon,
            "{} of {epsilon}",
            spent.epsilon
        );
        // A third round is not to be had.
        let longer: Vec<Given> = noise.into_iter().chain([("epochs", Value::Integer(3))]).collect();
        let spent = train("fed-ease-top", &longer).unwrap().privacy.unwrap();
        assert!(spent.rounds == 2 && spent.ended.is_some(), "training ends at the budget");
    }
}

#[test]
fn settings_that_cannot_be_accounted_for_are_refused() {
    let noise = [("noise", word("central")), ("epsilon", Value::Real(1.0)), ("top_items", Value::Integer(10))];
    let with =
        |more: Given| train("fed-ease-top", &[&noise[..], &[more, ("noise_multiplier", Value::Integer(0))]].concat());
    assert!(with(("cohort", Value::Integer(20))).unwrap_err().contains("all devices in each round"));
    assert!(with(("clip_quantile", Value::Real(0.5))).unwrap_err().contains("nothing to adapt to"));
}

#[test]
fn a_model_whose_update_is_the_history_is_not_trained_in_the_open() {
    for model in ["fed-ease", "fed-item-knn", "fed-popularity"] {
        let error = train(model, &[]).unwrap_err();
        assert!(error.contains("whole history") && error.contains("secagg"), "{error}");
        let hosted = builder(50, ITEMS, 1).build(model, []);
        assert!(hosted.err().unwrap().to_string().contains("whole history"));
        assert!(builder(50, ITEMS, 1).build(model, [("seal", word("secagg"))]).is_ok());
        assert!(registry::is_federated(model));
    }
}

/// The tensor of this name.
fn tensor(model: &dyn Recommender, name: &str) -> Vec<f32> {
    let tensors = model.tensors();
    let data = &tensors.iter().find(|tensor| tensor.name == name).unwrap().data;
    match data {
        TensorData::F32(values) => values.clone(),
        TensorData::U32(values) => values.iter().map(|&value| value as f32).collect(),
    }
}

fn trained(model: &str, settings: &[Given]) -> Box<dyn Recommender> {
    fitted(model, settings, (&people(PEOPLE, ITEMS), Some(&catalog(ITEMS))), 3).unwrap().0
}

#[test]
fn counts_and_neighbours_under_a_seal_are_those_of_one_place() {
    for cohort in [0, 10] {
        let sealed = [("seal", word("secagg")), ("cohort", Value::Integer(cohort))];
        let counts = tensor(&*trained("fed-popularity", &sealed), "counts");
        assert_eq!(counts, tensor(&*trained("mostpop", &[]), "counts"));
        let (here, there) = (trained("fed-item-knn", &sealed), trained("item-knn", &[]));
        for user in 0..PEOPLE {
            let scores = [&here, &there].map(|model| {
                let mut scores = vec![0.0; ITEMS];
                model.score(user, &mut scores);
                scores
            });
            assert!(scores[0].iter().zip(&scores[1]).all(|(a, b)| (a - b).abs() < 1e-5), "user {user}");
        }
    }
}

#[test]
fn uploads_in_blocks_make_the_same_model_with_a_part_of_the_bytes_each() {
    let sealed = |blocks| [("seal", word("secagg")), ("blocks", Value::Integer(blocks))];
    for model in ["fed-ease", "fed-item-knn"] {
        let (whole, parts) = (trained(model, &sealed(1)), trained(model, &sealed(4)));
        for user in 0..PEOPLE {
            let scores = [&whole, &parts].map(|model| {
                let mut scores = vec![0.0; ITEMS];
                model.score(user, &mut scores);
                scores
            });
            assert!(scores[0].iter().zip(&scores[1]).all(|(a, b)| (a - b).abs() < 1e-5), "user {user}");
        }
        let turnout = train(model, &sealed(4)).unwrap().turnout;
        assert_eq!((turnout.rounds, turnout.received), (4, 4 * learners()));
        let error = train(model, &[&sealed(4)[..], &[("buckets", Value::Integer(100))]].concat()).unwrap_err();
        assert!(error.contains("buckets") && error.contains("blocks"), "{error}");
        let error = train(model, &sealed(30)).unwrap_err();
        assert!(error.contains("blocks is 30"), "{error}");
    }
}

#[test]
fn sums_of_few_bits_are_refused_where_they_must_be_words() {
    let bits = ("seal_bits", Value::Integer(16));
    let noise = [bits.clone(), ("seal", word("secagg")), ("noise", word("distributed")), ("clip", Value::Real(1.0))];
    assert!(train("fed-spectral", &noise).unwrap_err().contains("seal_bits"));
    assert!(train("fed-spectral", &[bits.clone(), ("seal", word("bfv"))]).unwrap_err().contains("seal_bits"));
    let up = |more: &[Given]| {
        let factors = ("factors", Value::Integer(64));
        let sealed = [&[factors, ("seal", word("secagg")), ("seal_dropout", Value::Real(0.1))][..], more].concat();
        train("fed-spectral", &sealed).unwrap().traffic.up
    };
    // A count for each row of the items, and one for the columns' table.
    let (values, uploads) = (40_u64 * (80 + 1) + (2 * 80 + 1), 3 * learners());
    assert_eq!(up(&[]) - up(&[bits]), 4 * uploads * (values - values.div_ceil(2)));
}
