//! Federated models at their defaults.

use sottovoce_data::GraphConfig;
use sottovoce_evaluate::{EvaluationInput, Protocol};
use sottovoce_experiment::prepare::{DataPlan, Prepared, prepare};
use sottovoce_experiment::training::{Context, ModelPlan, evaluate, train};
use sottovoce_federation::registry;
use sottovoce_models::Flow;
use sottovoce_models::registry::Model;
use sottovoce_models::settings::Value;

/// Fewer than the defaults, so that the test is fast.
const EPOCHS: i64 = 12;

/// nDCG@10 of a model at its defaults, all of whose scores are finite.
fn ndcg(model: &'static Model, data: &Prepared) -> f64 {
    let has_epochs = model.schema().any(|setting| setting.key == "epochs");
    let epochs = has_epochs.then_some(("epochs", Value::Integer(EPOCHS)));
    // Not to be trained in the open.
    let seal = ["fed-ease", "fed-item-knn", "fed-popularity"]
        .contains(&model.name)
        .then(|| ("seal", Value::Word("secagg".to_owned())));
    let settings = model.settings(epochs.into_iter().chain(seal)).unwrap();
    let plan = ModelPlan { model, settings: &settings, seed: 1, evaluations: None };
    let context = Context { catalog: Some(&data.parts.catalog), ..Context::default() };
    let trained = train(&plan, &data.parts.train, &mut |_, _| Flow::Continue, context);
    let trained = trained.unwrap_or_else(|error| panic!("{}: {error}", model.name));
    let mut scores = vec![f32::NAN; data.parts.train.catalog_size()];
    for user in 0..data.parts.train.users() {
        trained.recommender.score(user, &mut scores);
        assert!(scores.iter().all(|score| score.is_finite()), "{}: user {user}", model.name);
    }
    let question = EvaluationInput::new(&data.parts.train, &data.parts.test);
    evaluate(&question, &Protocol::all_unrated([10]), trained.recommender.as_ref()).unwrap().at[&10].ndcg
}

#[test]
fn every_federated_model_improves_on_a_random_ranking_at_its_defaults() {
    let mut plan = DataPlan::new("synth:town:users=60", 1);
    plan.load.graph = Some(GraphConfig { sources: vec!["town".to_owned()], ..GraphConfig::default() });
    let data = prepare(&plan).unwrap();
    let random = ndcg(registry::find("random").unwrap(), &data);
    // An epoch of ReFRS costs as much as hundreds of another model's; its own tests cover what it learns.
    let models: Vec<_> = registry::federated().into_iter().filter(|model| model.name != "refrs").collect();
    assert!(models.len() > 5 && random > 0.0);
    for model in models {
        let found = ndcg(model, &data);
        assert!(found > 1.2 * random, "{}: nDCG@10 {found:.4}, a random ranking has {random:.4}", model.name);
    }
}
