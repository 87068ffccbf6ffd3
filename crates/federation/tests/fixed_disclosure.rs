//! With fixed disclosure, withheld items have no influence on what leaves.

mod common;

use common::{Given, catalog, fitted, tensor_bits, word};
use sottovoce_core::{Histories, Rng};
use sottovoce_federation::registry;
use sottovoce_models::federated;
use sottovoce_models::settings::Value;
use sottovoce_protocol::Policy;
use std::collections::BTreeMap;

const ITEMS: usize = 60;
const SEED: u64 = 3;
const PI: f64 = 0.5;

fn people() -> Vec<Vec<u32>> {
    let mut rng = Rng::new(9);
    (0..12).map(|_| (0..ITEMS as u32).filter(|_| rng.chance(0.4)).collect()).collect()
}

/// The items that each user discloses to a federation of this model.
fn disclosed(model: &str, people: &[Vec<u32>]) -> Vec<Vec<u32>> {
    let (policy, root) = (Policy::new(PI).unwrap(), Rng::new(SEED).stream(model, 0));
    let fixed = |user: usize| root.stream("kept", user as u64).next_u64();
    (0..).zip(people).map(|(user, history)| policy.disclosed_items(history, fixed(user)).collect()).collect()
}

fn tensors(model: &str, people: &[Vec<u32>], disclosure: &str, noise: &str) -> BTreeMap<String, Vec<u32>> {
    let has = |key: &str| registry::find(model).unwrap().schema().any(|setting| setting.key == key);
    let mut settings: Vec<Given> = vec![
        ("pi", Value::Real(PI)),
        ("disclosure", word(disclosure)),
        ("epochs", Value::Integer(2)),
        ("noise", word(noise)),
        ("clip", Value::Real(if noise == "none" { 0.0 } else { 0.5 })),
    ];
    // More than there are interactions: an epoch is a round of everybody, however many items they have.
    settings.extend(has("triples").then_some(("triples", Value::Integer(100))));
    settings.extend((model == "kgflex").then_some(("cohort", Value::Integer(people.len() as i64))));
    // As with the triples: told to everybody, and here not to be from the histories that are compared.
    settings.extend(has("mean_history").then_some(("mean_history", Value::Integer(20))));
    // Decoys do not go with per-round disclosure.
    settings.extend(["fpl", "fcf"].contains(&model).then_some(("negatives", word("papers"))));
    // Its update is the history itself.
    settings
        .extend(["fed-ease", "fed-item-knn", "fed-popularity"].contains(&model).then_some(("seal", word("secagg"))));
    let histories = Histories::from_lists(people, ITEMS).unwrap();
    let (model, _) = fitted(model, &settings, (&histories, Some(&catalog(ITEMS))), SEED).unwrap();
    tensor_bits(&*model)
}

/// Whether a model is trained by DP-SGD, too.
fn noises(entry: &federated::Entry) -> Vec<&'static str> {
    let model = registry::find(entry.info.name).unwrap();
    let dp_sgd = entry.configure(&model.settings([]).unwrap()).client(None).supports_dp_sgd();
    if dp_sgd { vec!["none", "sgd"] } else { vec!["none"] }
}

#[test]
fn the_shared_model_is_that_of_users_who_have_the_disclosed_items_only() {
    let all = people();
    for entry in federated::all() {
        let model = entry.info.name;
        for noise in noises(&entry) {
            let less = disclosed(model, &all);
            assert!(less.iter().zip(&all).all(|(less, all)| !less.is_empty() && less.len() < all.len()));
            let (mut of_all, mut of_less) =
                (tensors(model, &all, "fixed", noise), tensors(model, &less, "fixed", noise));
            let private = (of_all.remove("users"), of_less.remove("users"));
            assert_eq!(of_all, of_less, "{model}, noise {noise}");
            if model != "fed-vae" && private.0.as_ref().is_some_and(|private| !private.is_empty()) {
                assert_ne!(private.0, private.1, "{model}: private models are trained on all items");
            }
            // Drawn anew each round, all items have an influence.
            let (mut of_all, mut of_less) =
                (tensors(model, &all, "per-round", noise), tensors(model, &less, "per-round", noise));
            assert_ne!((of_all.remove("users"), of_all), (of_less.remove("users"), of_less), "{model}");
        }
    }
}

#[test]
fn decoys_with_per_round_disclosure_are_refused_by_name() {
    let histories = Histories::from_lists(&people(), ITEMS).unwrap();
    let refused = |model: &str, more: &[Given]| {
        let per_round = [("disclosure", word("per-round")), ("epochs", Value::Integer(1))];
        let settings: Vec<Given> = per_round.into_iter().chain(more.iter().cloned()).collect();
        fitted(model, &settings, (&histories, Some(&catalog(ITEMS))), SEED).err().map(|error| error.to_string())
    };
    let pi = |pi| ("pi", Value::Real(pi));
    for model in ["fpl", "fcf"] {
        let why = refused(model, &[pi(0.5)]).unwrap_or_default();
        assert!(["disclosure = fixed", "negatives = papers"].iter().all(|option| why.contains(option)), "{why}");
        assert!(!why.contains("expected"), "a sentence, not a value and what was expected: {why}");
        assert_eq!(refused(model, &[pi(0.5), ("negatives", word("papers"))]), None);
        // Nothing is withheld, or everything always.
        assert_eq!((refused(model, &[pi(1.0)]), refused(model, &[pi(0.0)])), (None, None));
    }
}
