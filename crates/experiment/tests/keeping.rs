//! Trainings that are interrupted and go on.

use sottovoce_data::{Cleaning, LoadOptions, Split};
use sottovoce_evaluate::{Key, Question};
use sottovoce_experiment::checkpoint::{Begin, Every, Identity, Store};
use sottovoce_experiment::metric::MetricAt;
use sottovoce_experiment::trial::{
    Checks, DataPlan, Keeping, ModelPlan, Prepared, Trained, prepare, train, train_keeping,
};
use sottovoce_federation::registry;
use sottovoce_models::Flow;
use sottovoce_models::settings::{Settings, Value};
use std::path::Path;

fn town() -> Prepared {
    let plan = DataPlan {
        source: "synth:town:users=80".to_owned(),
        load: LoadOptions::default(),
        cleaning: Cleaning::default(),
        split: None,
        validation: Some(Split::Temporal(0.8)),
        seed: 1,
    };
    prepare(&plan).unwrap()
}

fn settings(configuration: &str, more: &[(&'static str, Value)]) -> Settings {
    let word = |word: &str| Value::Word(word.to_owned());
    let given = [("configuration", word(configuration)), ("epochs", Value::Integer(24))];
    registry::find("fpl").unwrap().settings(given.into_iter().chain(more.iter().cloned())).unwrap()
}

fn plan<'a>(data: &'a Prepared, settings: &'a Settings) -> ModelPlan<'a> {
    let checks = Checks {
        question: Question::new(&data.parts.train, data.parts.validation.as_ref().unwrap()),
        metric: MetricAt { key: Key::Ndcg, cutoff: 10 },
        every: 2,
        patience: Some(4),
        keep_best: true,
    };
    ModelPlan { model: registry::find("fpl").unwrap(), settings, seed: 5, checks: Some(checks) }
}

fn open(folder: &Path, every: &str) -> Store {
    Store::open(folder, Identity::new(), every.parse::<Every>().unwrap(), Begin::GoOn).unwrap()
}

/// Stops after an epoch, as a kill would: nothing is written for it.
fn killed_after(data: &Prepared, settings: &Settings, store: &mut Store, epochs: usize) {
    let mut left = epochs;
    let mut on_epoch = |_: usize, _: usize| {
        left -= 1;
        if left == 0 { Flow::Stop } else { Flow::Continue }
    };
    let keeping = Keeping { store: Some(store), users: None };
    train_keeping(&plan(data, settings), &data.parts.train, &mut on_epoch, keeping).unwrap();
}

fn assert_same(whole: &Trained, resumed: &Trained) {
    assert!(whole.recommender.tensors() == resumed.recommender.tensors(), "another model");
    assert_eq!(whole.curve, resumed.curve);
    assert_eq!((whole.best_epoch, &whole.summary), (resumed.best_epoch, &resumed.summary));
}

#[test]
fn a_training_put_down_again_and_again_ends_in_the_same_model_curve_and_counts() {
    let data = town();
    let trouble = [
        ("dropout", Value::Real(0.1)),
        ("straggler_spread", Value::Real(0.7)),
        ("deadline", Value::Real(90.0)),
        ("selection", Value::Word("history".to_owned())),
        ("cohort", Value::Integer(30)),
    ];
    for (configuration, every, more) in
        [("pfpl+", "1", &trouble[..]), ("pfpl+", "3", &[]), ("pfpl", "7rounds", &trouble[..1])]
    {
        let settings = settings(configuration, more);
        let whole = train(&plan(&data, &settings), &data.parts.train, &mut |_, _| Flow::Continue).unwrap();
        assert!(whole.best_epoch.is_some() && whole.summary.turnout.rounds > 0);
        let folder = tempfile::tempdir().unwrap();
        for epochs in [2, 5, 4] {
            killed_after(&data, &settings, &mut open(folder.path(), every), epochs);
        }
        let mut store = open(folder.path(), every);
        assert!(store.found().unwrap().epochs >= 5, "{configuration} {every}");
        let keeping = Keeping { store: Some(&mut store), users: None };
        let mut go_on = |_: usize, _: usize| Flow::Continue;
        let resumed = train_keeping(&plan(&data, &settings), &data.parts.train, &mut go_on, keeping).unwrap();
        assert_same(&whole, &resumed);
    }
}

#[test]
fn patience_ends_a_federated_training_and_the_best_epoch_comes_back() {
    let data = town();
    let more = [("learning_rate", Value::Real(0.2)), ("epochs", Value::Integer(300))];
    let settings = settings("pfpl+", &more);
    let plan = plan(&data, &settings);
    let trained = train(&plan, &data.parts.train, &mut |_, _| Flow::Continue).unwrap();
    let best = trained.best_epoch.unwrap();
    assert!(trained.summary.epochs < 300, "never stopped");
    assert_eq!(trained.summary.epochs, best + 2 * 4);
    let told = trained.curve[best - 1].value;
    let question = plan.checks.unwrap().question;
    let protocol = sottovoce_evaluate::Protocol::all_unrated([10]);
    let again = sottovoce_experiment::trial::evaluate(&question, &protocol, trained.recommender.as_ref());
    assert_eq!(told, Some(again.unwrap().at[&10].ndcg));
    // The counts are those of all epochs that were made.
    let received = trained.summary.turnout.received;
    let users = data.parts.users.len();
    assert!(received > 0 && received <= (trained.summary.epochs * users) as u64);
    assert!(trained.summary.updates_by_item.iter().sum::<u64>() > received);
}
