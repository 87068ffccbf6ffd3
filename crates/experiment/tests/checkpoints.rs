//! Trainings that are interrupted and resumed.

use sottovoce_data::Split;
use sottovoce_evaluate::{EvaluationInput, Metric};
use sottovoce_experiment::checkpoint::{Begin, Every, Identity, Store};
use sottovoce_experiment::metric::MetricAt;
use sottovoce_experiment::plan::Curve;
use sottovoce_experiment::prepare::{DataPlan, Prepared, prepare};
use sottovoce_experiment::training::{Context, Evaluations, ModelPlan, Trained, evaluate, train};
use sottovoce_federation::registry;
use sottovoce_models::Flow;
use sottovoce_models::registry::Model;
use sottovoce_models::settings::{Settings, Value};
use std::path::Path;

fn town() -> Prepared {
    let validation = Some(Split::Temporal(0.8));
    prepare(&DataPlan { validation, ..DataPlan::new("synth:town:users=80", 1) }).unwrap()
}

fn settings(model: &'static Model, more: &[(&'static str, Value)]) -> Settings {
    let given = [("epochs", Value::Integer(24))];
    model.settings(given.into_iter().chain(more.iter().cloned())).unwrap()
}

fn plan<'a>(model: &'static Model, data: &'a Prepared, settings: &'a Settings) -> ModelPlan<'a> {
    let evaluations = Evaluations {
        question: EvaluationInput::new(&data.parts.train, data.parts.validation.as_ref().unwrap()),
        curve: Curve { every: 2, patience: Some(4), metric: MetricAt { key: Metric::Ndcg, cutoff: 10 } },
        keep_best: true,
    };
    ModelPlan { model, settings, seed: 5, evaluations: Some(evaluations) }
}

fn open(folder: &Path, every: &str) -> Store {
    Store::open(folder, Identity::new(), every.parse::<Every>().unwrap(), Begin::Resume).unwrap()
}

fn train_whole(plan: &ModelPlan<'_>, data: &Prepared) -> Trained {
    let mut on_epoch = |_: usize, _: usize| Flow::Continue;
    train(plan, &data.parts.train, &mut on_epoch, Context::default()).unwrap()
}

/// Stops after an epoch, as a kill would: nothing is written for it.
fn killed_after(plan: &ModelPlan<'_>, data: &Prepared, store: &mut Store, epochs: usize) {
    let mut left = epochs;
    let mut on_epoch = |_: usize, _: usize| {
        left -= 1;
        if left == 0 { Flow::Stop } else { Flow::Continue }
    };
    let context = Context { store: Some(store), ..Context::default() };
    train(plan, &data.parts.train, &mut on_epoch, context).unwrap();
}

fn assert_same(whole: &Trained, resumed: &Trained) {
    assert!(whole.recommender.tensors() == resumed.recommender.tensors(), "another model");
    assert_eq!(whole.curve, resumed.curve);
    assert_eq!((whole.best_epoch, &whole.summary), (resumed.best_epoch, &resumed.summary));
}

#[test]
fn resumed_trainings_give_the_same_model_curve_and_counts() {
    let data = town();
    let trouble = [
        ("dropout", Value::Real(0.1)),
        ("straggler_spread", Value::Real(0.7)),
        ("deadline", Value::Real(90.0)),
        ("selection", Value::Word("history".to_owned())),
        ("cohort", Value::Integer(30)),
    ];
    let adaptive = [("strategy", Value::Word("adaptive".to_owned()))];
    let pfpl = [("configuration", Value::Word("pfpl".to_owned())), trouble[0].clone()];
    for (name, every, more) in
        [("fpl", "1", &trouble[..]), ("fpl", "3", &adaptive), ("fpl", "7rounds", &pfpl), ("fcf", "2", &trouble[..1])]
    {
        let model = registry::find(name).unwrap();
        let settings = settings(model, more);
        let plan = plan(model, &data, &settings);
        let whole = train_whole(&plan, &data);
        assert!(whole.best_epoch.is_some() && whole.summary.turnout.rounds > 0);
        let folder = tempfile::tempdir().unwrap();
        for epochs in [2, 5, 4] {
            killed_after(&plan, &data, &mut open(folder.path(), every), epochs);
        }
        let mut store = open(folder.path(), every);
        assert!(store.found.as_ref().unwrap().epochs >= 5, "{name} {every}");
        let context = Context { store: Some(&mut store), ..Context::default() };
        let mut on_epoch = |_: usize, _: usize| Flow::Continue;
        let resumed = train(&plan, &data.parts.train, &mut on_epoch, context).unwrap();
        assert_same(&whole, &resumed);
    }
}

#[test]
fn patience_ends_a_federated_training_and_restores_the_best_epoch() {
    let data = town();
    let more = [("learning_rate", Value::Real(0.2)), ("epochs", Value::Integer(300))];
    let model = registry::find("fpl").unwrap();
    let settings = settings(model, &more);
    let plan = plan(model, &data, &settings);
    let trained = train_whole(&plan, &data);
    let best = trained.best_epoch.unwrap();
    assert!(trained.summary.epochs < 300, "never stopped");
    assert_eq!(trained.summary.epochs, best + 2 * 4);
    let value = trained.curve[best - 1].value;
    let question = plan.evaluations.unwrap().question;
    let protocol = sottovoce_evaluate::Protocol::all_unrated([10]);
    let again = evaluate(&question, &protocol, trained.recommender.as_ref());
    assert_eq!(value, Some(again.unwrap().at[&10].ndcg));
    let costs: Vec<_> = trained.curve.iter().map(|point| (point.bytes, point.virtual_time)).collect();
    assert!(costs.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1));
    let traffic = trained.summary.traffic;
    assert_eq!(costs.last().unwrap().0, Some(traffic.down + traffic.up));
    assert_eq!(trained.curve.last().unwrap().rounds, Some(trained.summary.turnout.rounds));
    // The counts are those of all epochs that were made.
    let received = trained.summary.turnout.received;
    let users = data.parts.users.len();
    assert!(received > 0 && received <= (trained.summary.epochs * users) as u64);
    assert!(trained.summary.updates_by_item.iter().sum::<u64>() > received);
}
