//! What owners keep at home for good has no part in what leaves.

use sottovoce_core::{Catalog, Facts, Histories, Rng};
use sottovoce_federation::registry;
use sottovoce_models::settings::Value;
use sottovoce_models::{Fit, Quiet, TensorData};
use sottovoce_protocol::Policy;
use std::collections::BTreeMap;

const ITEMS: usize = 60;
const SEED: u64 = 3;
const PI: f64 = 0.5;

fn catalog() -> Catalog {
    let mut rng = Rng::new(4);
    let names: Vec<String> = (0..20).map(|feature| format!("f: {feature}")).collect();
    let names: Vec<(&str, u8)> = names.iter().map(|name| (name.as_str(), 1)).collect();
    let lists: Vec<Vec<u32>> = (0..ITEMS).map(|_| (0..4).map(|_| rng.below(20)).collect()).collect();
    let ids = (0..ITEMS).map(|item| item.to_string()).collect();
    Catalog { facts: Some(Facts::of_lists(&names, &lists).into()), ..Catalog::of_ids(ids) }
}

fn people() -> Vec<Vec<u32>> {
    let mut rng = Rng::new(9);
    (0..30).map(|_| (0..ITEMS as u32).filter(|_| rng.chance(0.4)).collect()).collect()
}

/// Of everybody what they show to a federation of this model.
fn disclosed(model: &str, people: &[Vec<u32>]) -> Vec<Vec<u32>> {
    let (policy, root) = (Policy::new(PI).unwrap(), Rng::new(SEED).stream(model, 0));
    let kept = |user: usize| root.stream("kept", user as u64).next_u64();
    (0..).zip(people).map(|(user, history)| policy.disclosed_items(history, kept(user)).collect()).collect()
}

fn tensors(model: &str, people: &[Vec<u32>], draw: &str, noise: &str) -> BTreeMap<String, Vec<u32>> {
    let info = registry::find(model).unwrap();
    let known = |key: &str| (info.settings)().iter().any(|setting| setting.key == key);
    let mut settings = vec![
        ("pi", Value::Real(PI)),
        ("pi_draw", Value::Word(draw.to_owned())),
        ("epochs", Value::Integer(3)),
        ("noise", Value::Word(noise.to_owned())),
        ("clip", Value::Real(if noise == "none" { 0.0 } else { 0.5 })),
    ];
    // More than there are interactions: an epoch is a round of everybody, whatever they have.
    settings.extend(known("triples").then_some(("triples", Value::Integer(100))));
    let mut recommender = (info.build)(&info.settings(settings).unwrap());
    let histories = Histories::from_lists(people, ITEMS).unwrap();
    recommender.fit(&histories, &mut Fit::new(SEED, &mut Quiet).knowing(Some(&catalog()))).unwrap();
    let bits = |data| match data {
        TensorData::F32(values) => values.into_iter().map(f32::to_bits).collect(),
        TensorData::U32(values) => values,
    };
    recommender.tensors().into_iter().map(|tensor| (tensor.name, bits(tensor.data))).collect()
}

#[test]
fn the_shared_model_is_that_of_people_who_have_no_more_than_they_show() {
    let all = people();
    let models = ["fpl", "fcf", "kgflex", "fed-fed_gmf", "fed-vae"].map(|model| (model, "none"));
    for (model, noise) in models.into_iter().chain([("fpl", "sgd"), ("fed-fed_gmf", "sgd")]) {
        let less = disclosed(model, &all);
        assert!(less.iter().zip(&all).all(|(less, all)| !less.is_empty() && less.len() < all.len()));
        let (mut of_all, mut of_less) =
            (tensors(model, &all, "kept", noise), tensors(model, &less, "kept", noise));
        let own = (of_all.remove("users"), of_less.remove("users"));
        assert_eq!(of_all, of_less, "{model}, noise {noise}");
        if model != "fed-vae" {
            assert_ne!(own.0, own.1, "{model}: for themselves people learn from everything");
        }
        // SelectedCohort anew each round, everything has its part.
        let (mut of_all, mut of_less) =
            (tensors(model, &all, "each-round", noise), tensors(model, &less, "each-round", noise));
        assert_ne!((of_all.remove("users"), of_all), (of_less.remove("users"), of_less), "{model}");
    }
}
