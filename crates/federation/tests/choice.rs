//! People's devices choose between candidates for a model.

mod common;

use common::{Given, catalog, tensor_bits, word};
use sottovoce_core::{Histories, Rng};
use sottovoce_federation::{Changes, Choice, choose, registry};
use sottovoce_models::settings::{Settings, Value};
use sottovoce_models::{Fit, Quiet, Recommender, Summary};

const PEOPLE: usize = 120;
const ITEMS: usize = 40;

/// People of four tastes, in the order in which they came to items.
fn people() -> Histories {
    let mut rng = Rng::new(5);
    let quarter = ITEMS as u32 / 4;
    let person = |user: usize| {
        let mut list: Vec<u32> = (0..ITEMS as u32)
            .filter(|item| rng.chance(if item / quarter == user as u32 % 4 { 0.7 } else { 0.08 }))
            .collect();
        (1..list.len()).for_each(|end| list.swap(end, rng.index(end + 1)));
        list
    };
    Histories::from_lists(&(0..PEOPLE).map(person).collect::<Vec<_>>(), ITEMS).unwrap()
}

fn settings(model: &str, given: &[Given]) -> Settings {
    registry::find(model).unwrap().settings(given.iter().cloned()).unwrap()
}

fn of(key: &str, values: &[f64]) -> Vec<Changes> {
    values.iter().map(|&value| vec![(key.to_owned(), Value::Real(value))]).collect()
}

fn chosen(model: &str, given: &[Given], candidates: &[Changes]) -> Result<Choice, String> {
    let catalog = catalog(ITEMS);
    let mut quiet = Quiet;
    let fit = Fit::new(7, &mut quiet).knowing(Some(&catalog));
    choose(model, &settings(model, given), candidates, &people(), &fit).map_err(|error| error.to_string())
}

/// The last training.
fn trained(model: &str, choice: &Choice) -> (Box<dyn Recommender>, Summary) {
    let mut simulation = choice.simulation(model).unwrap();
    let summary = simulation.fit(&people(), &mut Fit::new(7, &mut Quiet)).unwrap();
    (Box::new(simulation), summary)
}

fn values(choice: &Choice) -> Vec<f64> {
    choice.candidates.iter().map(|(_, value)| *value).collect()
}

#[test]
fn the_best_candidate_is_taken_and_trained_on_everything() {
    let seal = [("seal", word("secagg"))];
    let choice = chosen("fed-ease", &seal, &of("regularisation", &[1e6, 5.0, 0.001])).unwrap();
    let found = values(&choice);
    assert_eq!((choice.trainings, choice.noise), (1, 0.0));
    assert!(found.iter().all(|value| *value <= found[choice.chosen] && *value > 0.1), "{found:?}");
    assert!(found.iter().any(|value| *value < found[choice.chosen]), "candidates that differ: {found:?}");
    assert!(choice.traffic.up > 0 && choice.privacy.is_none());
    let (model, _) = trained("fed-ease", &choice);
    let (plain, _) = common::fitted(
        "fed-ease",
        &[seal[0].clone(), ("regularisation", choice.candidates[choice.chosen].0[0].1.clone())],
        (&people(), Some(&catalog(ITEMS))),
        7,
    )
    .unwrap();
    assert!(tensor_bits(&*model) == tensor_bits(&*plain), "as if it had been set");
}

/// Candidates that are read from the sums of one training are worth what they are worth in trainings of their own.
#[test]
fn one_training_serves_candidates_that_differ_in_how_sums_are_read() {
    for (model, other) in [("fed-ease", None), ("fed-spectral", Some(("basis_rounds", 1))), ("fed-ease-top", None)] {
        let vectors = (model == "fed-spectral").then_some(("factors", Value::Integer(8)));
        let seal: Vec<Given> = vectors.into_iter().chain([("seal", word("secagg"))]).collect();
        let together = chosen(model, &seal, &of("regularisation", &[9.0, 0.5])).unwrap();
        assert_eq!(together.trainings, 1, "{model}");
        // The first training has the same seed.
        let mut apart = of("regularisation", &[0.5, 0.5]);
        let mut key = other.map_or(("epochs", 2), |other| other);
        if model == "fed-ease-top" {
            key = ("top_items", 11);
        }
        apart[1].push((key.0.to_owned(), Value::Integer(key.1)));
        let apart = chosen(model, &seal, &apart).unwrap();
        assert_eq!(apart.trainings, 2, "{model}");
        let (one, other) = (values(&together)[1], values(&apart)[0]);
        assert!((one - other).abs() < 2e-3, "{model}: {one} {other}");
    }
}

#[test]
fn private_models_are_scored_with_their_own() {
    let candidates: Vec<Changes> = [1, 60].map(|epochs| vec![("epochs".to_owned(), Value::Integer(epochs))]).into();
    let given = [("factors", Value::Integer(8)), ("learning_rate", Value::Real(0.1))];
    let choice = chosen("fpl", &given, &candidates).unwrap();
    let found = values(&choice);
    assert!(choice.chosen == 1 && found[1] > found[0], "{found:?}");
    let again = chosen("fpl", &given, &candidates).unwrap();
    assert_eq!(values(&again), found, "the same seed chooses the same");
}

/// What first trainings, comparison and last training spend together is what there is to spend, and all of it.
#[test]
fn epsilon_is_counted_through_all_of_it() {
    for (model, rounds, trainings) in [("fed-ease-top", 3, 0), ("fpl", 9, 1)] {
        for placement in ["central", "distributed"] {
            let given = [
                ("noise", word(placement)),
                ("seal", word(if placement == "central" { "none" } else { "secagg" })),
                ("seal_dropout", Value::Real(0.0)),
                ("seal_colluding", Value::Real(0.0)),
                ("epsilon", Value::Real(6.0)),
                ("noise_multiplier", Value::Integer(0)),
                if model == "fpl" { ("epochs", Value::Integer(4)) } else { ("top_items", Value::Integer(12)) },
                if model == "fpl" { ("clip", Value::Real(0.1)) } else { ("regularisation", Value::Real(2.0)) },
            ];
            let candidates = match model {
                "fpl" => of("init_deviation", &[0.1, 0.2]),
                _ => of("regularisation", &[2.0, 0.5, 0.1]),
            };
            // FPL's candidates need a training each; the last is a third.
            let rounds = if model == "fpl" { rounds + 4 } else { rounds };
            let choice = chosen(model, &given, &candidates).unwrap();
            assert_eq!(choice.trainings, trainings * candidates.len(), "{model}");
            let before = choice.privacy.clone().unwrap();
            let (_, summary) = trained(model, &choice);
            let spent = summary.privacy.unwrap();
            assert_eq!((spent.rounds, spent.ended), (rounds, None), "{model} {placement}");
            let (low, high) = (0.97 * 6.0, 6.0 * (1.0 + 1e-6));
            assert!(spent.epsilon > low && spent.epsilon <= high, "{model} {placement}: {}", spent.epsilon);
            assert!(before.epsilon < spent.epsilon && choice.noise > 0.0);
            match placement {
                "central" => assert_eq!(spent.epsilon_server, None),
                // Those who take part are fewer than the noise was made for, if anything.
                _ => assert!(spent.epsilon_server.unwrap() > before.epsilon_server.unwrap()),
            }
        }
    }
}

/// In noise that hides everything the first candidate stays, whatever the sums say.
#[test]
fn the_first_candidate_stays_unless_another_is_clearly_better() {
    let noise = [
        ("noise", word("central")),
        ("epsilon", Value::Real(0.05)),
        ("noise_multiplier", Value::Integer(0)),
        ("top_items", Value::Integer(12)),
    ];
    let candidates = of("regularisation", &[2.0, 1.0, 0.5, 0.25]);
    let choice = chosen("fed-ease-top", &noise, &candidates).unwrap();
    let found = values(&choice);
    let difference = 2.0 * std::f64::consts::SQRT_2 * choice.noise;
    let clear = found.iter().any(|value| *value > found[0] + difference);
    assert!(choice.noise > 0.5 && (clear || choice.chosen == 0), "{found:?}");
}

#[test]
fn refuses_what_it_cannot_choose() {
    let two = of("regularisation", &[1.0, 2.0]);
    assert!(chosen("ease", &[], &two).err().unwrap().contains("centralised"));
    assert!(chosen("fed-ease", &[("seal", word("secagg"))], &two[..1]).err().unwrap().contains("2 to 64"));
    let wrong = of("no_such_setting", &[1.0, 2.0]);
    assert!(chosen("fed-ease", &[("seal", word("secagg"))], &wrong).is_err());
    let sgd = [("noise", word("sgd")), ("clip", Value::Real(0.1))];
    let error = chosen("fpl", &sgd, &of("learning_rate", &[0.1, 0.2])).err().unwrap();
    assert!(error.contains("whole history"), "{error}");
}
