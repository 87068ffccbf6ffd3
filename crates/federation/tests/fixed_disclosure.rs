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
    (0..30).map(|_| (0..ITEMS as u32).filter(|_| rng.chance(0.4)).collect()).collect()
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
        ("epochs", Value::Integer(3)),
        ("noise", word(noise)),
        ("clip", Value::Real(if noise == "none" { 0.0 } else { 0.5 })),
    ];
    // More than there are interactions: an epoch is a round of everybody, however many items they have.
    settings.extend(has("triples").then_some(("triples", Value::Integer(100))));
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
