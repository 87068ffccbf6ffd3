//! The suite for the models that are trained in one place.

mod suite;

use sottovoce_core::Histories;
use sottovoce_models::registry::{Model, find_in};
use sottovoce_models::{Fit, Quiet, central};

fn models() -> &'static [Model] {
    central::MODELS
}

#[test]
fn models_that_go_by_facts_say_so_where_there_are_none() {
    let train = Histories::from_lists(&[vec![0, 1], vec![1]], 3).unwrap();
    for name in ["vsm", "kahfm", "kgflex-central"] {
        let model = find_in(models(), name).unwrap();
        let mut recommender = (model.build)(&model.settings([]).unwrap());
        let error = recommender.fit(&train, &mut Fit::new(1, &mut Quiet)).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{name} goes by facts about items")), "{error}");
    }
}

#[test]
fn models_that_can_tell_reasons_do() {
    let train = Histories::from_lists(&[vec![0, 1, 2], vec![1, 2, 3], vec![0, 3]], 5).unwrap();
    for name in ["mostpop", "user-knn", "item-knn", "ease"] {
        let model = find_in(models(), name).unwrap();
        let mut recommender = (model.build)(&model.settings([]).unwrap());
        recommender.fit(&train, &mut Fit::new(1, &mut Quiet)).unwrap();
        assert!(!recommender.reasons(0, 3).is_empty(), "{name}");
    }
}
