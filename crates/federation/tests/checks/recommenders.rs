//! What every recommender must do, centralised or federated.

use super::harness::{
    draws, epochs_key, every_model, every_model_that, has, is_personal, is_sequential, small_settings,
};
use sottovoce_core::{Catalog, Facts, Histories, Rng};
use sottovoce_federation::registry;
use sottovoce_models::registry::Model;
use sottovoce_models::settings::{Domain, Value};
use sottovoce_models::{Because, Fit, Flow, Progress, Quiet, Reason, ReasonKind, Recommender, TensorData, Watch};

fn build(model: &Model) -> Box<dyn Recommender> {
    model.build(&small_settings(model, &[]))
}

fn fitted(model: &Model, train: &Histories, seed: u64) -> Box<dyn Recommender> {
    let mut recommender = build(model);
    let catalog = catalog(train.catalog_size());
    let mut quiet = Quiet;
    let mut fit = Fit::new(seed, &mut quiet).knowing(Some(&catalog));
    recommender.fit(train, &mut fit).unwrap_or_else(|e| panic!("{}: {e}", model.name));
    recommender
}

/// A model that knows the catalog and is not fitted.
fn unfitted(model: &Model, items: usize) -> Box<dyn Recommender> {
    let mut recommender = build(model);
    recommender.know(&catalog(items)).unwrap();
    recommender
}

/// Items with features: six that depend on which of two parts of the catalog an item is in, and a few without meaning.
/// Every seventh item of a larger catalog has none.
fn catalog(items: usize) -> Catalog {
    let names: Vec<(String, u8)> = (0..16).map(|feature| (format!("feature {feature}"), 1 + feature / 8)).collect();
    let names: Vec<(&str, u8)> = names.iter().map(|(name, hops)| (name.as_str(), *hops)).collect();
    let of = |item: u32| {
        let part = if item as usize * 24 < 14 * items { [0, 1, 2, 8, 9, 10] } else { [3, 4, 5, 11, 12, 13] };
        let other = if item / 2 % 2 == 1 { Some(14) } else { None };
        part.into_iter().chain([6 + item % 2, 15]).chain(other).collect()
    };
    let lists: Vec<Vec<u32>> =
        (0..items as u32).map(|item| if items > 30 && item % 7 == 3 { vec![] } else { of(item) }).collect();
    let ids = (0..items).map(|item| item.to_string()).collect();
    Catalog { facts: Some(Facts::of_lists(&names, &lists).into()), ..Catalog::of_ids(ids) }
}

fn scores(recommender: &dyn Recommender, train: &Histories) -> Vec<Vec<f32>> {
    (0..train.users())
        .map(|user| {
            let mut scores = vec![f32::NAN; train.catalog_size()];
            recommender.score(user, &mut scores);
            scores
        })
        .collect()
}

fn bits(scores: &[Vec<f32>]) -> Vec<Vec<u32>> {
    scores.iter().map(|row| row.iter().map(|score| score.to_bits()).collect()).collect()
}

/// Two groups of unequal size; users have 7 in 10 of their own group's items, none of the other's.
fn checkerboard() -> Histories {
    let mut rng = Rng::new(11);
    let lists: Vec<Vec<u32>> = (0..50u32)
        .map(|user| {
            let own = if user < 30 { 0..14 } else { 14..24 };
            own.filter(|_| rng.chance(0.7)).collect()
        })
        .collect();
    Histories::from_lists(&lists, 24).unwrap()
}

/// Users of very different activity over a skewed catalog; some have no items, some an item twice; some items have no
/// user.
fn uneven() -> Histories {
    let mut rng = Rng::new(5);
    let lists: Vec<Vec<u32>> = (0..40)
        .map(|user| {
            let length = if user % 9 == 4 { 0 } else { rng.index(25) };
            (0..length).map(|_| (rng.unit() * rng.unit() * 33.0) as u32).collect()
        })
        .collect();
    Histories::from_lists(&lists, 37).unwrap()
}

#[test]
fn names_are_unique_and_described() {
    let all = registry::all();
    every_model(|model| {
        assert_eq!(all.iter().filter(|other| other.name == model.name).count(), 1);
        assert_eq!(registry::find(model.name).unwrap().title, model.title);
        assert!(!model.title.is_empty() && !model.summary.is_empty() && !model.paper.is_empty());
    });
    let error = registry::find("fplx").err().unwrap().to_string();
    assert!(error.contains("did you mean `fpl`?"), "{error}");
}

#[test]
fn settings_have_valid_defaults_and_help() {
    every_model(|model| {
        let keys: Vec<&str> = model.schema().map(|setting| setting.key).collect();
        let twice = keys.iter().enumerate().find(|(place, key)| keys[..*place].contains(key));
        assert_eq!(twice, None, "a setting of the model has the name of another");
        for setting in model.schema() {
            model.settings([(setting.key, setting.default.clone())]).unwrap();
            assert!(!setting.help.is_empty(), "{}", setting.key);
            match setting.domain {
                Domain::Integer { low, high, log } => assert!(low < high && (!log || low > 0)),
                Domain::Real { low, high, log } => assert!(low < high && (!log || low > 0.0)),
                Domain::Choice(words) => assert!(words.len() > 1),
                Domain::Switch | Domain::Text => {}
            }
        }
        model.build(&model.settings([]).unwrap());
    });
}

#[test]
fn personal_models_rank_the_own_group_first() {
    let train = checkerboard();
    every_model_that(is_personal, |model| {
        let recommender = fitted(model, &train, 1);
        for (user, scores) in scores(&*recommender, &train).iter().enumerate() {
            let own = if user < 30 { 0..14 } else { 14..24 };
            let unseen = |item: &u32| !train.of(user).contains(item);
            let worst_own = own.clone().filter(unseen).map(|item| scores[item as usize]).fold(f32::INFINITY, f32::min);
            let others = (0..24).filter(|item| !own.contains(item));
            let best_other = others.map(|item| scores[item as usize]).fold(f32::NEG_INFINITY, f32::max);
            assert!(worst_own > best_other, "user {user}: {worst_own} {best_other}");
        }
    });
}

/// Everybody goes round the same circle of items, from different places on.
fn circle() -> Histories {
    let lists: Vec<Vec<u32>> = (0..48u32).map(|user| (0..6 + user % 5).map(|n| (user + n) % 12).collect()).collect();
    Histories::from_lists(&lists, 12).unwrap()
}

/// Of the items that a user does not have, the one with the highest score must be the next of the circle; for five
/// users in six, and also after one more step.
#[test]
fn sequential_models_predict_what_follows() {
    let train = circle();
    let best = |scores: &[f32], had: &[u32]| {
        let others = (0..12u32).filter(|item| !had.contains(item));
        others.max_by(|&a, &b| scores[a as usize].total_cmp(&scores[b as usize])).unwrap()
    };
    every_model_that(is_sequential, |model| {
        // An epoch of BERT4Rec teaches few items: those that it masks.
        let epochs = if model.name == "bert4rec" { 300 } else { 100 };
        let more = [("epochs", epochs), ("hidden", 16), ("layers", 1), ("dropout", 0), ("window", 1), ("horizon", 1)];
        let more = more.map(|(key, value)| (key, Value::Integer(value)));
        let more = more.into_iter().chain([("learning_rate", Value::Real(0.005))]);
        let more: Vec<(&'static str, Value)> = more.filter(|(key, _)| has(model, key)).collect();
        let mut recommender = model.build(&small_settings(model, &more));
        let known = catalog(12);
        recommender.fit(&train, &mut Fit::new(1, &mut Quiet).knowing(Some(&known))).unwrap();
        let (mut right, mut later) = (0, 0);
        for (user, scores) in scores(&*recommender, &train).iter().enumerate() {
            let mut items = train.of(user).to_vec();
            let next = |items: &[u32]| (items[items.len() - 1] + 1) % 12;
            right += usize::from(best(scores, &items) == next(&items));
            items.push(next(&items));
            let mut scores = vec![f32::NAN; 12];
            recommender.score_after(user, (&items[..]).into(), &mut scores);
            later += usize::from(best(&scores, &items) == next(&items));
        }
        assert!(right >= 40 && later >= 40, "of 48 users: {right} right, {later} right one step later");
    });
}

#[test]
fn the_same_seed_gives_the_same_bits_on_one_and_on_three_threads() {
    let train = uneven();
    every_model(|model| {
        let on = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| bits(&scores(&*fitted(model, &train, 3), &train)))
        };
        assert_eq!(on(1), on(3));
    });
}

#[test]
fn another_seed_gives_another_federated_model() {
    let train = uneven();
    every_model_that(
        |model| registry::is_federated(model.name) && draws(model),
        |model| {
            let of = |seed| bits(&scores(&*fitted(model, &train, seed), &train));
            assert_ne!(of(3), of(4));
        },
    );
}

#[test]
fn fitting_again_starts_anew() {
    let (first, second) = (uneven(), checkerboard());
    every_model(|model| {
        let mut recommender = fitted(model, &first, 1);
        let known = catalog(second.catalog_size());
        recommender.fit(&second, &mut Fit::new(2, &mut Quiet).knowing(Some(&known))).unwrap();
        let fresh = fitted(model, &second, 2);
        assert_eq!(bits(&scores(&*recommender, &second)), bits(&scores(&*fresh, &second)));
    });
}

#[test]
fn a_restored_model_scores_the_same() {
    let train = uneven();
    every_model(|model| {
        let recommender = fitted(model, &train, 7);
        let tensors = recommender.tensors();
        let mut other = unfitted(model, train.catalog_size());
        other.restore(&tensors, &train).unwrap();
        assert_eq!(bits(&scores(&*recommender, &train)), bits(&scores(&*other, &train)));
        assert_eq!(other.tensors(), tensors);
        for tensor in &tensors {
            let length = match &tensor.data {
                TensorData::F32(values) => values.len(),
                TensorData::U32(values) => values.len(),
            };
            assert_eq!(length, tensor.shape.iter().product::<usize>(), "{}", tensor.name);
        }
    });
}

#[test]
fn rejects_stored_models_that_do_not_fit() {
    let train = uneven();
    every_model(|model| {
        let restore = |tensors: &[_]| unfitted(model, train.catalog_size()).restore(tensors, &train);
        let tensors = fitted(model, &train, 7).tensors();
        for index in 0..tensors.len() {
            let mut missing = tensors.clone();
            let name = missing.remove(index).name;
            let error = restore(&missing).unwrap_err().to_string();
            assert!(error.contains(&format!("`{name}`")), "{error}");
            let mut longer = tensors.clone();
            longer[index].shape[0] += 1;
            match &mut longer[index].data {
                TensorData::F32(values) => values.push(0.0),
                TensorData::U32(values) => values.push(0),
            }
            assert!(restore(&longer).is_err(), "{name} is longer");
            let mut infinite = tensors.clone();
            if let TensorData::F32(values) = &mut infinite[index].data
                && let Some(first) = values.first_mut()
            {
                *first = f32::NAN;
                assert!(restore(&infinite).is_err(), "{name} is not finite");
            }
        }
    });
}

#[test]
fn scores_are_finite_on_degenerate_data() {
    let shapes: [(&str, Vec<Vec<u32>>, usize); 7] = [
        ("no users", vec![], 3),
        ("no items", vec![vec![], vec![]], 0),
        ("no interactions", vec![vec![], vec![]], 4),
        ("one user", vec![vec![1, 3]], 5),
        ("one item", vec![vec![0], vec![], vec![0, 0]], 1),
        ("all users have all items", vec![vec![0, 1, 2], vec![2, 1, 0]], 3),
        ("one interaction", vec![vec![], vec![6], vec![]], 9),
    ];
    let shapes = shapes.map(|(what, lists, items)| (what, Histories::from_lists(&lists, items).unwrap()));
    every_model(|model| {
        for (what, train) in shapes.iter().chain([&("uneven", uneven())]) {
            let recommender = fitted(model, train, 1);
            let all = scores(&*recommender, train);
            assert!(all.iter().flatten().all(|score| score.is_finite()), "{what}: {all:?}");
            let mut other = unfitted(model, train.catalog_size());
            other.restore(&recommender.tensors(), train).unwrap_or_else(|error| panic!("{what}: {error}"));
        }
    });
}

/// Records each epoch and ends training after one of them.
struct Stopper {
    at: usize,
    seen: Vec<usize>,
    planned: usize,
    scores: Vec<f32>,
}

impl Watch for Stopper {
    fn after_epoch(&mut self, progress: &Progress<'_>) -> Flow {
        self.seen.push(progress.epoch);
        self.planned = progress.epochs;
        progress.model.score(0, &mut self.scores);
        if progress.epoch == self.at { Flow::Stop } else { Flow::Continue }
    }
}

#[test]
fn the_watch_sees_every_epoch_and_may_stop_training() {
    let train = checkerboard();
    let known = catalog(train.catalog_size());
    every_model_that(
        |model| epochs_key(model).is_some(),
        |model| {
            let key = epochs_key(model).unwrap();
            let watched = |at| {
                let mut recommender = build(model);
                let mut watch = Stopper { at, seen: vec![], planned: 0, scores: vec![0.0; train.catalog_size()] };
                let mut fit = Fit::new(1, &mut watch).knowing(Some(&known));
                let summary = recommender.fit(&train, &mut fit).unwrap();
                (watch, summary, scores(&*recommender, &train))
            };
            let Some(&Value::Integer(planned)) = small_settings(model, &[]).get(key) else {
                panic!("{key} is no number")
            };
            let planned = planned as usize;
            let (watch, summary, _) = watched(0);
            assert_eq!(watch.seen, (1..=planned).collect::<Vec<_>>());
            assert_eq!((watch.planned, summary.epochs), (planned, planned));
            let triples = summary.triples / planned as u64;
            let missing = (train.interactions() as u64).checked_sub(triples);
            let missing = missing.unwrap_or_else(|| panic!("{triples} triples an epoch are too many: {summary:?}"));
            // Devices that draw triples all draw as many, rounded down; the first item of a sequence follows none.
            let may_miss = match model.name {
                "fed-sequential" => train.users() as u64 + 1,
                _ if has(model, "triples") => train.users() as u64,
                _ => 1,
            };
            assert!(missing < may_miss && summary.triples == triples * planned as u64, "{summary:?}");

            let (watch, summary, after) = watched(3);
            assert_eq!(watch.seen, [1, 2, 3]);
            assert_eq!((summary.epochs, summary.triples), (3, 3 * triples));
            assert_eq!(after[0], watch.scores, "the watch sees the model as it is");
            let mut short = model.build(&small_settings(model, &[(key, Value::Integer(3))]));
            short.fit(&train, &mut Fit::new(1, &mut Quiet).knowing(Some(&known))).unwrap();
            assert_eq!(scores(&*short, &train), after, "stopping after 3 epochs equals training for 3");
        },
    );
}

#[test]
fn summaries_count_epochs_of_models_that_have_them() {
    let train = checkerboard();
    let known = catalog(train.catalog_size());
    every_model(|model| {
        let summary = build(model).fit(&train, &mut Fit::new(1, &mut Quiet).knowing(Some(&known))).unwrap();
        assert_eq!(summary.epochs > 0, epochs_key(model).is_some());
    });
}

#[test]
fn reasons_are_what_the_model_says_they_are() {
    let train = uneven();
    every_model(|model| {
        let recommender = fitted(model, &train, 1);
        let (kind, all) = (recommender.reason_kind(), (0..train.catalog_size() as u32).collect::<Vec<_>>());
        let mut found = 0;
        for (user, scores) in scores(&*recommender, &train).iter().enumerate() {
            let relative = |scores: &[f32]| -> Vec<f32> {
                let mean = scores.iter().map(|&score| f64::from(score)).sum::<f64>() / scores.len() as f64;
                scores.iter().map(|&score| (f64::from(score) - mean) as f32).collect()
            };
            let reasons = recommender.reasons(user, &all);
            assert_eq!(reasons.len(), all.len());
            for (item, reasons) in reasons.iter().enumerate() {
                let own =
                    |reason: &Reason| !matches!(reason.because, Because::Had(had) if !train.of(user).contains(&had));
                assert!(reasons.iter().all(own), "user {user}, item {item}: {reasons:?}");
                found += reasons.len();
                let near = |one: f32, other: f32| (one - other).abs() < 1e-4 * (1.0 + scores[item].abs());
                let sum: f32 = reasons.iter().map(|reason| reason.weight).sum();
                match kind {
                    ReasonKind::None | ReasonKind::Order => assert_eq!(reasons, &[]),
                    // Somebody of whom nothing is known has no reasons, whatever the scores.
                    _ if reasons.is_empty() => {}
                    ReasonKind::Shares => assert!(near(sum, scores[item]), "user {user}, item {item}: {sum}"),
                    ReasonKind::Vectors => {
                        assert!(near(sum, relative(scores)[item]), "user {user}, item {item}: {sum}");
                    }
                    ReasonKind::LeftOut => {
                        let Because::Had(first) = reasons[0].because else { panic!("{reasons:?}") };
                        let mut others: Vec<u32> = train.deduplicated().of(user).to_vec();
                        others.retain(|&item| item != first);
                        let mut without = vec![0.0; scores.len()];
                        // A device's model that counts its rounds scores nobody else; its own tests leave items out.
                        if recommender.score_newcomer((&others).into(), &mut without) {
                            let fall = relative(scores)[item] - relative(&without)[item];
                            assert!(near(reasons[0].weight, fall), "user {user}, item {item}: {reasons:?} {fall}");
                        }
                    }
                }
            }
        }
        assert_eq!(found > 0, kind.has_reasons(), "{kind:?}: {found} reasons");
    });
}

/// People's vectors solve a system with the regularisation of a population of this size, and items hardly move after.
#[test]
fn reasons_of_fcf_go_by_the_regularisation_that_it_was_trained_with() {
    let train = uneven();
    let given = [("factors", 2.0), ("epochs", 1.0), ("init_deviation", 1.0), ("learning_rate", 1e-9)];
    let given = given.map(|(key, value)| (key, Value::parse(&value.to_string())));
    let model = registry::find("fcf").unwrap();
    let mut recommender = model.build(&model.settings(given).unwrap());
    recommender.fit(&train, &mut Fit::new(1, &mut Quiet)).unwrap();
    let (all, mut scores): (Vec<u32>, _) =
        ((0..train.catalog_size() as u32).collect(), vec![0.0; train.catalog_size()]);
    for user in (0..train.users()).filter(|&user| !train.of(user).is_empty()) {
        recommender.score(user, &mut scores);
        assert!(scores.iter().any(|score| score.abs() > 0.01), "{scores:?}");
        for reasons in recommender.reasons(user, &all) {
            let rest: Vec<&Reason> = reasons.iter().filter(|reason| reason.because == Because::Rest).collect();
            assert!(rest.iter().all(|rest| rest.weight.abs() < 1e-4), "user {user}: {rest:?} of {reasons:?}");
        }
    }
}
