//! Runs a check on all models, and what tests must know of single ones.

use sottovoce_federation::registry;
use sottovoce_models::federated::{self, Entry};
use sottovoce_models::registry::Model;
use sottovoce_models::settings::{Settings, Value};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Checks all of these, and fails with the names of all that failed; the panics themselves are in the output.
fn check_each<T>(all: impl IntoIterator<Item = T>, name: impl Fn(&T) -> &'static str, check: impl Fn(&T)) {
    let failed = |each: &T| catch_unwind(AssertUnwindSafe(|| check(each))).is_err();
    let (mut checked, mut failures) = (0, Vec::new());
    for each in all {
        checked += 1;
        if failed(&each) {
            failures.push(name(&each));
        }
    }
    assert!(checked > 0, "no model was checked");
    assert!(failures.is_empty(), "failed for {}", failures.join(", "));
}

/// Checks all models, centralised and federated.
pub(crate) fn every_model(check: impl Fn(&Model)) {
    check_each(registry::all(), |model| model.name, |model| check(model));
}

/// Checks all models for which this holds.
pub(crate) fn every_model_that(holds: impl Fn(&Model) -> bool, check: impl Fn(&Model)) {
    check_each(registry::all().into_iter().filter(|model| holds(model)), |model| model.name, |model| check(model));
}

/// Checks all federated models.
pub(crate) fn every_federated_model(check: impl Fn(&Entry)) {
    check_each(federated::all(), |entry| entry.info.name, check);
}

/// Checks all federated models that can be trained by DP-SGD.
pub(crate) fn every_dp_sgd_model(check: impl Fn(&Entry)) {
    let supports = |entry: &Entry| {
        let model = registry::find(entry.info.name).unwrap();
        entry.configure(&small_settings(model, &[])).client(None).supports_dp_sgd()
    };
    check_each(federated::all().into_iter().filter(supports), |entry| entry.info.name, check);
}

/// Whether a model has a setting.
pub(crate) fn has(model: &Model, key: &str) -> bool {
    model.schema().any(|setting| setting.key == key)
}

/// Whether training draws random numbers, without noise.
pub(crate) fn draws(model: &Model) -> bool {
    !["fed-ease", "fed-ease-top", "fed-item-knn", "fed-popularity"].contains(&model.name)
}

/// Whether scores depend on the user's own items, in whatever order.
pub(crate) fn is_personal(model: &Model) -> bool {
    !["random", "mostpop", "fed-popularity"].contains(&model.name) && !is_sequential(model)
}

/// Whether a model goes by the order of items.
pub(crate) fn is_sequential(model: &Model) -> bool {
    model.name == "item-transitions" || has(model, "max_length")
}

/// The setting that says how many epochs a model trains for; `None` if it does not train in epochs.
pub(crate) fn epochs_key(model: &Model) -> Option<&'static str> {
    ["epochs", "iterations"].into_iter().find(|key| has(model, key))
}

/// Settings that suit problems of a few dozen users. A model that is not listed gets what its schema has of the common
/// ones.
pub(crate) fn small(model: &Model) -> Vec<(&'static str, &'static str)> {
    let own: &[(&str, &str)] = match model.name {
        "user-knn" | "item-knn" => &[("k", "8")],
        "bpr-mf" | "fpl" | "kahfm" => &[("learning_rate", "0.05")],
        "ials" => &[("iterations", "6"), ("regularisation", "0.5")],
        "ease" => &[("regularisation", "5")],
        "multivae" => &[("batch", "10"), ("learning_rate", "0.01")],
        "gmf" | "neumf" => &[("epochs", "30"), ("batch", "32"), ("learning_rate", "0.02"), ("regularisation", "0.02")],
        "fcf" => &[("regularisation", "0.5"), ("scale_regularisation", "false")],
        "fed-ease" => &[("regularisation", "5"), ("seal", "secagg")],
        "fed-ease-top" => &[("top_items", "24")],
        "fed-item-knn" => &[("k", "8"), ("seal", "secagg")],
        "fed-popularity" => &[("seal", "secagg")],
        "fed-vae" => &[("network", "vae"), ("server_learning_rate", "0.01"), ("cohort", "100")],
        "lookalike" => &[("server_learning_rate", "0.03"), ("dropout_share", "0")],
        "refrs" => &[
            ("epochs", "8"),
            ("local_epochs", "1"),
            ("recommender_epochs", "4"),
            ("recommender_learning_rate", "0.1"),
            ("decoder_units", "8"),
            ("codes", "8"),
            ("assignment", "projection"),
            ("clusters", "2"),
            ("item_weight", "0.05"),
        ],
        "mf" => &[("learning_rate", "0.05"), ("negatives", "2")],
        "kgflex" | "kgflex-central" => &[("learning_rate", "0.1")],
        "fed-sequential" => &[("server_learning_rate", "0.03"), ("dropout_share", "0"), ("hidden", "8")],
        _ if has(model, "max_length") => {
            &[("epochs", "5"), ("hidden", "8"), ("batch", "16"), ("learning_rate", "0.01")]
        }
        _ => &[],
    };
    let common = [("factors", "2"), ("hidden", "16"), ("latent", "4"), ("epochs", "60"), ("pretraining_epochs", "2")];
    let not_own = |(key, _): &(&str, &str)| has(model, key) && own.iter().all(|(other, _)| other != key);
    common.into_iter().filter(not_own).chain(own.iter().copied()).collect()
}

/// The same, checked; `more` replace those of the same key.
pub(crate) fn small_settings(model: &Model, more: &[(&'static str, Value)]) -> Settings {
    let given = small(model).into_iter().map(|(key, value)| (key, Value::parse(value)));
    model.settings(given.chain(more.iter().cloned())).unwrap()
}
