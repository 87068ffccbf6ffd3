//! Models that see people only through sums: everybody asked once, epsilon shared by rounds, no round without a seal.

mod common;

use common::{Given, builder, catalog, fitted, people, word};
use sottovoce_federation::registry;
use sottovoce_models::Summary;
use sottovoce_models::settings::Value;

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
    for (model, seal) in [("fed-spectral", "none"), ("fed-spectral", "secagg"), ("fed-ease", "secagg")] {
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
    let error = train("fed-ease", &[]).unwrap_err();
    assert!(error.contains("whole history") && error.contains("secagg"), "{error}");
    let hosted = builder(50, ITEMS, 1).build("fed-ease", []);
    assert!(hosted.err().unwrap().to_string().contains("whole history"));
    assert!(builder(50, ITEMS, 1).build("fed-ease", [("seal", word("secagg"))]).is_ok());
    assert!(registry::is_federated("fed-ease"));
}
