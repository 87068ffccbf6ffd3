//! What some of the centralised models do. What all models must do is tested in `sottovoce-federation`.

use sottovoce_core::Histories;
use sottovoce_models::{Fit, Quiet, Recommender, central};

fn build(name: &str) -> Box<dyn Recommender> {
    let model = central::MODELS.iter().find(|model| model.info.name == name).unwrap().model();
    model.build(&model.settings([]).unwrap())
}

#[test]
fn models_that_need_features_reject_a_catalog_without() {
    let train = Histories::from_lists(&[vec![0, 1], vec![1]], 3).unwrap();
    for name in ["vsm", "kahfm", "kgflex-central"] {
        let error = build(name).fit(&train, &mut Fit::new(1, &mut Quiet)).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{name} needs facts about items")), "{error}");
    }
}

#[test]
fn models_that_explain_scores_give_reasons() {
    let train = Histories::from_lists(&[vec![0, 1, 2], vec![1, 2, 3], vec![0, 3]], 5).unwrap();
    for name in ["mostpop", "user-knn", "item-knn", "ease"] {
        let mut recommender = build(name);
        recommender.fit(&train, &mut Fit::new(1, &mut Quiet)).unwrap();
        assert!(!recommender.reasons(0, &[3])[0].is_empty(), "{name}");
    }
}
