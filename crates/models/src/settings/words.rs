//! What people call settings: groups to list them in, and the words of other programs and papers.

use super::{Setting, Value, nearest};
use crate::ModelError;
use std::collections::BTreeMap;

/// What a setting is about, for lists of settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// What the model is.
    Model,
    /// How it is trained.
    Training,
    /// Rounds, and how updates become the next shared model.
    Federation,
    /// How updates are weighted, and malicious ones bounded.
    Aggregation,
    /// What is sent, and how many bytes it has.
    Communication,
    /// How updates are protected.
    Privacy,
    /// What owners disclose.
    Disclosure,
    /// What simulated devices are like.
    Devices,
}

impl Group {
    /// All, in the order of lists.
    pub const ALL: [Group; 8] = [
        Group::Model,
        Group::Training,
        Group::Federation,
        Group::Aggregation,
        Group::Communication,
        Group::Privacy,
        Group::Disclosure,
        Group::Devices,
    ];

    /// The heading.
    pub fn name(self) -> &'static str {
        match self {
            Group::Model => "model",
            Group::Training => "training",
            Group::Federation => "federation",
            Group::Aggregation => "aggregation",
            Group::Communication => "communication",
            Group::Privacy => "privacy",
            Group::Disclosure => "disclosure",
            Group::Devices => "simulated devices",
        }
    }

    /// The group of a setting whose definition names none: that of a model's own settings goes by what they are called.
    pub(super) fn of_key(key: &str) -> Self {
        const TRAINING: [&str; 18] = [
            "negatives",
            "batch",
            "iterations",
            "solver",
            "cg_steps",
            "loss",
            "calibration",
            "annealing",
            "triples",
            "configuration",
            "local_work",
            "rounds_per_epoch",
            "steps",
            "regularise_biases",
            "mean_history",
            "dropout_share",
            "page_dropout",
            "mask_probability",
        ];
        const FEDERATION: [&str; 7] =
            ["bias_steps", "cohort", "assignment", "clusters", "cluster_dim", "recluster", "staleness"];
        const COMMUNICATION: [&str; 4] = ["values", "download", "differences", "min_change"];
        let ends = ["learning_rate", "regularisation", "epochs", "local_steps", "local_batch", "init_deviation"];
        if TRAINING.contains(&key) || ends.iter().any(|end| key.ends_with(end)) {
            Group::Training
        } else if FEDERATION.contains(&key) || key.starts_with("sampler_") {
            Group::Federation
        } else if COMMUNICATION.contains(&key) {
            Group::Communication
        } else {
            Group::Model
        }
    }
}

/// Words of other programs, and the settings that they may mean: the first of these lists of which the model has a
/// setting. A name that begins with `*` stands for all that end with the rest.
#[rustfmt::skip]
const WORDS: &[(&[&str], &[&[&str]])] = &[
    (&["lr", "rate", "eta", "step_size", "learningrate", "learn_rate"], &[&["learning_rate"]]),
    (&["reg", "l2", "lambda", "weight_decay", "regularization", "regularisation", "l2_reg", "reg_weight", "reg_lambda"],
        &[&["*regularisation"]]),
    (&["embedding_size", "embedding_dim", "embed_dim", "emb_size", "emb_dim", "n_factors", "num_factors", "latent_dim",
        "latent_size", "latent_factors", "dim", "dims", "dimension", "dimensions", "rank", "factors"],
        &[&["factors"], &["latent"], &["dim"], &["hidden"]]),
    (&["hidden_size", "hidden_dim", "hidden_units"], &[&["hidden"], &["units"]]),
    (&["n_epochs", "num_epochs", "max_epochs", "epoch", "n_iter", "iters", "iterations", "epochs"],
        &[&["epochs"], &["iterations"]]),
    (&["clients_per_round", "devices_per_round", "users_per_round", "num_clients", "n_clients", "clients",
        "cohort_size", "participants"], &[&["cohort"]]),
    (&["client_epochs", "num_local_epochs"], &[&["local_epochs"], &["local_steps"]]),
    (&["batch_size", "minibatch", "bs"], &[&["batch"], &["local_batch"]]),
    (&["num_negatives", "n_negatives", "neg_samples", "negative_samples", "num_neg"], &[&["negatives"]]),
    (&["neighbors", "neighbours", "n_neighbors", "num_neighbors", "knn", "n_neighbours"], &[&["k"]]),
    (&["shrink", "shrink_term"], &[&["shrinkage"]]),
    (&["aggregation", "aggregator", "aggregation_strategy"], &[&["strategy", "weighting", "robust_aggregation"]]),
    (&["server_lr", "global_lr"], &[&["server_learning_rate"]]),
    (&["sigma", "noise_scale", "noise_level"], &[&["noise_multiplier"]]),
    (&["eps", "target_epsilon", "dp_epsilon"], &[&["epsilon"]]),
    (&["target_delta", "dp_delta"], &[&["delta"]]),
    (&["max_grad_norm", "clip_norm", "clipping", "clipping_norm", "l2_norm_clip"], &[&["clip"]]),
    (&["secagg", "secure_aggregation", "encryption"], &[&["seal"]]),
    (&["dropout_rate", "dropout_prob", "drop_rate"], &[&["dropout_share"], &["dropout"]]),
    (&["n_heads", "num_heads"], &[&["heads"]]),
    (&["n_layers", "num_layers", "num_blocks"], &[&["layers"]]),
    (&["maxlen", "max_len", "max_seq_length", "max_sequence_length", "seq_len"], &[&["max_length"]]),
    (&["init_std", "init_stddev", "std"], &[&["init_deviation"]]),
];

/// Words that are no settings, and what to give instead.
const INSTEAD: &[(&[&str], &str)] = &[
    (&["rounds", "n_rounds", "num_rounds"], "epochs"),
    (&["seed", "random_state", "random_seed"], "--seed"),
    (&["top_k", "topk", "cutoff", "cutoffs"], "--at"),
    (&["patience", "early_stopping"], "--patience"),
    (&["split", "test_size"], "--split"),
    (&["threads", "n_jobs", "num_workers"], "--threads"),
];

/// Settings that do something only with certain values of another: the settings, the other, those values (or all but
/// those that begin with `!`).
const ONLY_WITH: &[(&[&str], &str, &[&str])] = &[
    (&["epsilon", "noise_multiplier", "noise_shape", "delta", "sampling"], "noise", &["!none"]),
    (&["interactions"], "noise", &["sgd"]),
    (&["buckets"], "seal", &["!none"]),
    (&["seal_dropout", "seal_colluding", "seal_identities"], "seal", &["secagg", "keeper"]),
    (&["keeper_least"], "seal", &["keeper"]),
    (&["robust_norm"], "robust_aggregation", &["clip", "clip-update"]),
    (&["robust_fraction"], "robust_aggregation", &["trimmed-mean", "krum", "multi-krum"]),
    (&["criteria"], "weighting", &["prioritised", "mean", "weighted-mean", "owa"]),
    (&["criteria_weights"], "weighting", &["weighted-mean", "owa"]),
    (&["adaptive_step"], "strategy", &["adaptive"]),
    (&["damped_devices"], "strategy", &["damped"]),
    (&["server_beta1", "server_tau"], "strategy", &["fedadam", "fedadagrad", "fedyogi"]),
    (&["server_beta2"], "strategy", &["fedadam", "fedyogi"]),
    (&["min_change"], "differences", &["true"]),
    (&["weights_file"], "selection", &["weights"]),
    (&["available_hours", "available_spread"], "availability", &["diurnal"]),
    (&["trace_file"], "availability", &["trace"]),
];

/// What to say of a setting that does nothing beside these values of the others, if it does nothing.
pub(super) fn without_effect(key: &str, value: &Value, values: &BTreeMap<&'static str, Value>) -> Option<String> {
    let (_, other, with) =
        ONLY_WITH.iter().find(|(keys, other, _)| keys.contains(&key) && values.contains_key(other))?;
    let found = values.get(other)?.to_string();
    let has_effect = with.iter().any(|wanted| wanted.strip_prefix('!').map_or(found == *wanted, |not| found != not));
    let wanted = match with.first().and_then(|wanted| wanted.strip_prefix('!')) {
        Some(not) => format!("another {other} than {not}"),
        None => format!("{other} = {}", with.join(" or ")),
    };
    (!has_effect).then(|| format!("setting `{key}` = {value} does nothing with {other} = {found}: it needs {wanted}"))
}

/// The setting that users mean by a word, with a note if it has another name.
///
/// # Errors
/// If there is none, or several could be meant; the message names them.
pub fn find<'s>(
    model: &str,
    schema: impl Iterator<Item = &'s Setting> + Clone,
    word: &str,
) -> Result<(&'s Setting, Option<String>), ModelError> {
    if let Some(setting) = schema.clone().find(|setting| setting.answers_to(word)) {
        return Ok((setting, setting.note_on(word)));
    }
    let plain = word.to_lowercase().replace(['-', ' '], "_");
    if let Some(setting) = schema.clone().find(|setting| setting.answers_to(&plain)) {
        return Ok((setting, setting.note_on(&plain)));
    }
    let meant = meant_by(&plain, &schema);
    if let [only] = meant[..] {
        return Ok((only, Some(format!("setting `{word}` is called `{}`", only.key))));
    }
    let keys: Vec<&str> = schema.map(|setting| setting.key).collect();
    let instead = INSTEAD.iter().find(|(words, _)| words.contains(&plain.as_str())).map(|(_, instead)| *instead);
    let instead = instead.filter(|instead| instead.starts_with('-') || keys.contains(instead));
    let suggestion = match meant.is_empty() {
        true => instead.map(str::to_owned).or_else(|| nearest(&plain, keys.iter().copied())),
        false => Some(meant.iter().map(|setting| setting.key).collect::<Vec<_>>().join("` or `")),
    };
    Err(ModelError::UnknownSetting {
        model: model.to_owned(),
        key: word.to_owned(),
        suggestion,
        known: if keys.is_empty() { "none".to_owned() } else { keys.join(", ") },
    })
}

/// Whether a word, as people type it, is or may mean a setting of this schema.
pub fn is_word_for(word: &str, schema: &[&Setting]) -> bool {
    let plain = word.to_lowercase().replace('-', "_");
    let schema = schema.iter().copied();
    schema.clone().any(|setting| setting.answers_to(&plain)) || !meant_by(&plain, &schema).is_empty()
}

fn meant_by<'s>(word: &str, schema: &(impl Iterator<Item = &'s Setting> + Clone)) -> Vec<&'s Setting> {
    let lists = WORDS.iter().filter(|(words, _)| words.contains(&word)).flat_map(|(_, lists)| lists.iter());
    let named = |list: &&[&str]| -> Vec<&'s Setting> {
        let is = |name: &str, key: &str| match name.strip_prefix('*') {
            Some(end) => key.ends_with(end),
            None => name == key,
        };
        schema.clone().filter(|setting| list.iter().any(|name| is(name, setting.key))).collect()
    };
    lists.map(named).find(|found| !found.is_empty()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::central::MODELS;
    use crate::settings::{Domain, Settings};

    fn schema(model: &str) -> Vec<Setting> {
        (MODELS.iter().find(|known| known.info.name == model).unwrap().schema)()
    }

    fn found(model: &str, word: &str) -> String {
        match find(model, schema(model).iter(), word) {
            Ok((setting, note)) => format!("{}{}", setting.key, if note.is_some() { " with a note" } else { "" }),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn words_of_other_programs_are_understood() {
        for (model, word, key) in [
            ("bpr-mf", "lr", "learning_rate with a note"),
            ("bpr-mf", "Learning-Rate", "learning_rate"),
            ("bpr-mf", "embedding_size", "factors with a note"),
            ("multivae", "embedding_size", "latent with a note"),
            ("sasrec", "embedding_dim", "hidden with a note"),
            ("ease", "l2", "regularisation"),
            ("ease", "reg", "regularisation with a note"),
            ("ials", "epochs", "iterations with a note"),
            ("item-knn", "neighbors", "k with a note"),
        ] {
            assert_eq!(found(model, word), key, "{model}: {word}");
        }
    }

    #[test]
    fn words_that_could_mean_several_settings_are_asked_back() {
        let several = found("bpr-mf", "reg");
        assert!(several.contains("did you mean `user_regularisation` or `positive_regularisation`"), "{several}");
        assert!(found("bpr-mf", "seed").contains("did you mean `--seed`?"));
        assert!(found("bpr-mf", "top-k").contains("did you mean `--at`?"));
        assert!(found("bpr-mf", "factor").contains("did you mean `factors`?"));
        assert!(!found("bpr-mf", "xyzzy").contains("did you mean"));
    }

    #[test]
    fn settings_without_effect_are_noted() {
        let schema: Vec<Setting> = [("noise", "none"), ("strategy", "sum"), ("epsilon", ""), ("adaptive_step", "")]
            .map(|(key, value)| {
                let value = if value.is_empty() { Value::Real(0.0) } else { Value::Word(value.to_owned()) };
                let domain = match value {
                    Value::Real(_) => Domain::Real { low: 0.0, high: 9.0, log: false },
                    _ => Domain::Text,
                };
                Setting::new(key, value, domain, "help")
            })
            .into();
        let notes = |given: &[(&str, &str)]| -> Vec<String> {
            let given = given.iter().map(|(key, value)| (*key, Value::parse(value)));
            Settings::check("toy", &schema, given).unwrap().notes().collect()
        };
        let expected = "setting `epsilon` = 1 does nothing with noise = none: it needs another noise than none";
        assert_eq!(notes(&[("epsilon", "1")]), [expected]);
        let expected = "setting `adaptive_step` = 2 does nothing with strategy = sum: it needs strategy = adaptive";
        assert_eq!(notes(&[("adaptive_step", "2")]), [expected]);
        for fine in [&[("epsilon", "1"), ("noise", "local")][..], &[("epsilon", "0")], &[("strategy", "adaptive")]] {
            assert!(notes(fine).is_empty(), "{fine:?}");
        }
    }

    #[test]
    fn settings_under_other_words_are_noted() {
        let given = [("lr", Value::Real(0.5))];
        let settings = Settings::check("bpr-mf", &schema("bpr-mf"), given).unwrap();
        assert_eq!(settings.get("learning_rate"), Some(&Value::Real(0.5)));
        assert_eq!(settings.notes().collect::<Vec<_>>(), ["setting `lr` is called `learning_rate`"]);
    }
}
