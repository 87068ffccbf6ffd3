//! What every model must do. The file that includes this says which models: `super::models()`; a new one inherits these
//! tests by being in that list.

use super::models;
use sottovoce_core::{Catalog, Facts, Histories, Rng};
use sottovoce_models::registry::{Model, find_in};
use sottovoce_models::settings::{Domain, Settings, Value};
use sottovoce_models::{Fit, Flow, Progress, Quiet, Recommender, TensorData, Watch};

/// Facts about models that the tests need.
mod facts {
    /// Models whose scores do not look at the user's own history, so that they cannot know the user's group.
    pub(crate) const IMPERSONAL: &[&str] = &["random", "mostpop"];
    /// Models that learn in epochs, and the setting that says how many.
    pub(crate) const ITERATIVE: &[(&str, &str)] = &[
        ("bpr-mf", "epochs"),
        ("ials", "iterations"),
        ("multivae", "epochs"),
        ("gmf", "epochs"),
        ("neumf", "epochs"),
        ("fpl", "epochs"),
        ("fcf", "epochs"),
        ("fed-gmf", "epochs"),
        ("fed-vae", "epochs"),
        ("mf", "epochs"),
        ("kahfm", "epochs"),
        ("kgflex-central", "epochs"),
        ("kgflex", "epochs"),
    ];
    /// Models whose devices all learn from as many samples, rounded down: an epoch may fall short of all interactions by
    /// almost one a user.
    pub(crate) const ROUNDS_DOWN: &[&str] = &["fpl", "kgflex"];
    /// Settings that suit problems of a few dozen users.
    pub(crate) fn small(model: &str) -> Vec<(&'static str, &'static str)> {
        match model {
            "user-knn" | "item-knn" => vec![("k", "8")],
            "bpr-mf" => vec![("factors", "2"), ("epochs", "60"), ("learning_rate", "0.05")],
            "ials" => vec![("factors", "2"), ("iterations", "6"), ("regularisation", "0.5")],
            "ease" => vec![("regularisation", "5")],
            "multivae" => vec![
                ("hidden", "16"),
                ("latent", "4"),
                ("epochs", "60"),
                ("batch", "10"),
                ("learning_rate", "0.01"),
            ],
            "gmf" | "neumf" => vec![
                ("factors", "2"),
                ("epochs", "30"),
                ("batch", "32"),
                ("learning_rate", "0.02"),
                ("regularisation", "0.02"),
            ],
            "fpl" => vec![("factors", "2"), ("epochs", "60"), ("learning_rate", "0.05")],
            "fcf" => vec![("factors", "2"), ("epochs", "60"), ("regularisation", "0.5")],
            "fed-gmf" => vec![("factors", "2"), ("epochs", "60")],
            "fed-vae" => vec![("hidden", "16"), ("latent", "4"), ("epochs", "60"), ("server_rate", "0.01")],
            "mf" => vec![("factors", "2"), ("epochs", "60"), ("learning_rate", "0.05"), ("negatives", "2")],
            "kahfm" => vec![("epochs", "60"), ("learning_rate", "0.05")],
            "kgflex" | "kgflex-central" => vec![("factors", "2"), ("epochs", "60"), ("learning_rate", "0.1")],
            _ => vec![],
        }
    }
}

fn small_settings(model: &Model) -> Settings {
    let given = facts::small(model.name).into_iter().map(|(key, value)| (key, Value::parse(value)));
    model.settings(given).unwrap()
}

fn build(model: &Model) -> Box<dyn Recommender> {
    (model.build)(&small_settings(model))
}

fn fitted(model: &Model, train: &Histories, seed: u64) -> Box<dyn Recommender> {
    let mut recommender = build(model);
    let catalog = catalog(train.catalog_size());
    let mut quiet = Quiet;
    let mut fit = Fit::new(seed, &mut quiet).knowing(Some(&catalog));
    recommender.fit(train, &mut fit).unwrap_or_else(|e| panic!("{}: {e}", model.name));
    recommender
}

/// One that is told of the items, and of nothing else.
fn told(model: &Model, items: usize) -> Box<dyn Recommender> {
    let mut recommender = build(model);
    recommender.know(&catalog(items)).unwrap();
    recommender
}

/// Items of which some things are known: six that say in which of two parts of the catalog they are, a few of no
/// importance, and of every seventh item of a larger catalog nothing.
fn catalog(items: usize) -> Catalog {
    let names: Vec<(String, u8)> =
        (0..16).map(|feature| (format!("feature {feature}"), 1 + feature / 8)).collect();
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

/// Two groups of unequal size; 7 in 10 of the own group's items are had, none of the other's.
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

/// Users of very different activity over a skewed catalog; some have nothing, one item twice, some items nobody.
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
fn names_are_unique_and_found() {
    for (place, model) in models().iter().enumerate() {
        let found = find_in(models(), model.name).unwrap();
        assert!(std::ptr::eq(found, &models()[place]), "{} is listed twice", model.name);
        assert!(!model.title.is_empty() && !model.what.is_empty() && !model.paper.is_empty());
    }
    let typo = format!("{}x", models()[0].name);
    let wrong = find_in(models(), &typo).err().unwrap().to_string();
    assert!(wrong.contains(&format!("did you mean `{}`?", models()[0].name)), "{wrong}");
}

#[test]
fn defaults_lie_in_their_domains_and_ranges_are_ranges() {
    for model in models() {
        let schema = (model.settings)();
        for setting in &schema {
            model.settings([(setting.key, setting.default.clone())]).unwrap();
            assert!(!setting.help.is_empty(), "{} {}", model.name, setting.key);
            match setting.domain {
                Domain::Integer { low, high, log } => assert!(low < high && (!log || low > 0)),
                Domain::Real { low, high, log } => assert!(low < high && (!log || low > 0.0)),
                Domain::Choice(words) => assert!(words.len() > 1),
                Domain::Switch | Domain::Text => {}
            }
        }
        (model.build)(&model.settings([]).unwrap());
    }
}

#[test]
fn the_own_group_comes_first_on_the_checkerboard() {
    let train = checkerboard();
    for model in models().iter().filter(|model| !facts::IMPERSONAL.contains(&model.name)) {
        let recommender = fitted(model, &train, 1);
        for (user, scores) in scores(&*recommender, &train).iter().enumerate() {
            let own = if user < 30 { 0..14 } else { 14..24 };
            let unseen = |item: &u32| !train.of(user).contains(item);
            let worst_own =
                own.clone().filter(unseen).map(|item| scores[item as usize]).fold(f32::INFINITY, f32::min);
            let best_other = (0..24)
                .filter(|item| !own.contains(item))
                .map(|item| scores[item as usize])
                .fold(f32::NEG_INFINITY, f32::max);
            assert!(worst_own > best_other, "{} user {user}: {worst_own} {best_other}", model.name);
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_bits_on_one_and_on_three_threads() {
    let train = uneven();
    for model in models() {
        let on = |threads, seed| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| bits(&scores(&*fitted(model, &train, seed), &train)))
        };
        assert_eq!(on(1, 3), on(3, 3), "{}", model.name);
    }
    let other_seed = models().iter().filter(|model| {
        let of = |seed| bits(&scores(&*fitted(model, &train, seed), &train));
        of(3) != of(4)
    });
    assert!(other_seed.count() > 0, "no model looks at the seed");
}

#[test]
fn fitting_again_forgets_what_was_learnt_before() {
    let (first, second) = (uneven(), checkerboard());
    for model in models() {
        let mut recommender = fitted(model, &first, 1);
        let known = catalog(second.catalog_size());
        recommender.fit(&second, &mut Fit::new(2, &mut Quiet).knowing(Some(&known))).unwrap();
        let fresh = fitted(model, &second, 2);
        assert_eq!(bits(&scores(&*recommender, &second)), bits(&scores(&*fresh, &second)), "{}", model.name);
    }
}

#[test]
fn what_is_stored_and_restored_scores_the_same() {
    let train = uneven();
    for model in models() {
        let recommender = fitted(model, &train, 7);
        let tensors = recommender.tensors();
        let mut other = told(model, train.catalog_size());
        other.restore(&tensors, &train).unwrap();
        assert_eq!(bits(&scores(&*recommender, &train)), bits(&scores(&*other, &train)), "{}", model.name);
        assert_eq!(other.tensors(), tensors, "{}", model.name);
        for tensor in &tensors {
            let length = match &tensor.data {
                TensorData::F32(values) => values.len(),
                TensorData::U32(values) => values.len(),
            };
            assert_eq!(length, tensor.shape.iter().product::<usize>(), "{} {}", model.name, tensor.name);
        }
    }
}

#[test]
fn a_stored_model_that_does_not_fit_is_refused() {
    let train = uneven();
    for model in models() {
        let tensors = fitted(model, &train, 7).tensors();
        for missing in 0..tensors.len() {
            let mut rest = tensors.clone();
            let name = rest.remove(missing).name;
            let error = told(model, train.catalog_size()).restore(&rest, &train).unwrap_err().to_string();
            assert!(error.contains(&format!("`{name}`")), "{}: {error}", model.name);
        }
        for place in 0..tensors.len() {
            let mut longer = tensors.clone();
            longer[place].shape[0] += 1;
            match &mut longer[place].data {
                TensorData::F32(values) => values.push(0.0),
                TensorData::U32(values) => values.push(0),
            }
            assert!(told(model, train.catalog_size()).restore(&longer, &train).is_err(), "{}", model.name);
            if let TensorData::F32(values) = &mut longer[place].data {
                values.pop();
                values[0] = f32::NAN;
                longer[place].shape[0] -= 1;
                assert!(
                    told(model, train.catalog_size()).restore(&longer, &train).is_err(),
                    "{}",
                    model.name
                );
            }
        }
    }
}

#[test]
fn scores_are_finite_on_odd_shapes() {
    let shapes: [(&str, Vec<Vec<u32>>, usize); 7] = [
        ("nobody", vec![], 3),
        ("no items", vec![vec![], vec![]], 0),
        ("nothing happened", vec![vec![], vec![]], 4),
        ("one user", vec![vec![1, 3]], 5),
        ("one item", vec![vec![0], vec![], vec![0, 0]], 1),
        ("everyone has everything", vec![vec![0, 1, 2], vec![2, 1, 0]], 3),
        ("one interaction, items nobody has", vec![vec![], vec![6], vec![]], 9),
    ];
    for (what, lists, items) in shapes {
        let train = Histories::from_lists(&lists, items).unwrap();
        for model in models() {
            let recommender = fitted(model, &train, 1);
            let all = scores(&*recommender, &train);
            assert!(all.iter().flatten().all(|score| score.is_finite()), "{} on {what}: {all:?}", model.name);
            let mut other = told(model, train.catalog_size());
            other
                .restore(&recommender.tensors(), &train)
                .unwrap_or_else(|e| panic!("{} on {what}: {e}", model.name));
        }
    }
    for model in models() {
        let train = uneven();
        assert!(scores(&*fitted(model, &train, 1), &train).iter().flatten().all(|score| score.is_finite()));
    }
}

/// Notes each epoch and ends the training at one of them.
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
fn the_watch_sees_every_epoch_and_may_end_the_training() {
    let train = checkerboard();
    let known = catalog(train.catalog_size());
    let iterative = |model: &Model| facts::ITERATIVE.iter().find(|(name, _)| *name == model.name);
    for (model, &(name, key)) in models().iter().filter_map(|model| Some((model, iterative(model)?))) {
        let watched = |at| {
            let mut recommender = build(model);
            let mut watch = Stopper { at, seen: vec![], planned: 0, scores: vec![0.0; train.catalog_size()] };
            let mut fit = Fit::new(1, &mut watch).knowing(Some(&known));
            let summary = recommender.fit(&train, &mut fit).unwrap();
            (watch, summary, scores(&*recommender, &train))
        };
        let planned = small_settings(model).integer(key);
        let (watch, summary, _) = watched(0);
        assert_eq!(watch.seen, (1..=planned).collect::<Vec<_>>(), "{name}");
        assert_eq!((watch.planned, summary.epochs), (planned, planned), "{name}");
        let an_epoch = summary.triples / planned as u64;
        let missing = (train.interactions() as u64).checked_sub(an_epoch);
        let missing =
            missing.unwrap_or_else(|| panic!("{name}: {an_epoch} triples are too many: {summary:?}"));
        let may_miss = if facts::ROUNDS_DOWN.contains(&name) { train.users() as u64 } else { 1 };
        assert!(missing < may_miss && summary.triples == an_epoch * planned as u64, "{name}: {summary:?}");

        let (watch, summary, after) = watched(3);
        assert_eq!(watch.seen, [1, 2, 3], "{name}");
        assert_eq!((summary.epochs, summary.triples), (3, 3 * an_epoch), "{name}");
        assert_eq!(after[0], watch.scores, "{name}: the watch sees the model as it is");
        let given = facts::small(name).into_iter().filter(|(k, _)| *k != key).chain([(key, "3")]);
        let settings = model.settings(given.map(|(k, v)| (k, Value::parse(v)))).unwrap();
        let mut short = (model.build)(&settings);
        short.fit(&train, &mut Fit::new(1, &mut Quiet).knowing(Some(&known))).unwrap();
        assert_eq!(scores(&*short, &train), after, "{name}: stopping at 3 is learning for 3");
    }
}

#[test]
fn models_that_do_not_iterate_say_so() {
    let train = checkerboard();
    for model in models() {
        let iterates = facts::ITERATIVE.iter().any(|(name, _)| *name == model.name);
        let known = catalog(train.catalog_size());
        let summary = build(model).fit(&train, &mut Fit::new(1, &mut Quiet).knowing(Some(&known))).unwrap();
        assert_eq!(summary.epochs > 0, iterates, "{}", model.name);
    }
}

#[test]
fn reasons_add_up_to_the_score() {
    let train = uneven();
    for model in models() {
        let recommender = fitted(model, &train, 1);
        let scores = scores(recommender.as_ref(), &train);
        for user in 0..train.users() {
            for item in 0..train.catalog_size() {
                let reasons = recommender.reasons(user, item as u32);
                let sum: f32 = reasons.iter().map(|reason| reason.weight).sum();
                assert!(
                    reasons.is_empty() || (sum - scores[user][item]).abs() < 1e-4,
                    "{}: user {user}, item {item}: {sum} of {}",
                    model.name,
                    scores[user][item]
                );
            }
        }
    }
}
