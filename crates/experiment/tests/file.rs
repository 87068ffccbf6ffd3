//! The experiment file: what it may contain, and the messages of its errors.

mod common;

use common::{parse, parse_error};
use sottovoce_data::Split;
use sottovoce_evaluate::{Candidates, Metric, Sampling};
use sottovoce_experiment::Experiment;
use sottovoce_experiment::file::{Axis, DataSet, InteractionData, Tuning};
use sottovoce_experiment::metric::MetricAt;
use sottovoce_experiment::search::{Bounds, Method, Range};
use sottovoce_models::settings::Value;
use std::path::Path;

fn interactions(data: &DataSet) -> &InteractionData {
    match data {
        DataSet::Interactions(data) => data,
        DataSet::Images(_) => panic!("images"),
    }
}

const SHORT: &str = "title = \"Short\"\ndata = [\"ml-100k\"]\n[[model]]\nname = \"mostpop\"\n";

#[test]
fn four_lines_are_an_experiment_with_sensible_defaults() {
    let experiment = parse(SHORT);
    assert_eq!(experiment.seeds, [42]);
    assert_eq!(experiment.protocol.cutoffs, [10]);
    assert_eq!(experiment.protocol.candidates, Candidates::AllUnrated);
    assert_eq!(experiment.selection.metric, MetricAt { key: Metric::Ndcg, cutoff: 10 });
    assert!(experiment.selection.refit && experiment.selection.seeds == 1);
    let data = interactions(&experiment.data[0]);
    assert_eq!((data.split, data.validation), (None, None));
    assert_eq!(experiment.rows[0].label, "MostPop");
}

#[test]
fn settings_under_earlier_names_are_taken_with_a_warning() {
    let model = "name = \"fpl\"\nset = { user_pull = 0.1 }\ngrid = { positive_pull = [0.1, 0.2] }\n";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.toml");
    std::fs::write(&path, SHORT.replace("name = \"mostpop\"\n", model)).unwrap();
    let (experiment, _) = Experiment::read(&path).unwrap();
    let expected =
        ["user", "positive"].map(|name| format!("setting `{name}_pull` is now called `{name}_regularisation`"));
    assert_eq!(experiment.warnings, expected);
    assert_eq!(experiment.rows[0].fixed, [("user_regularisation".to_owned(), Value::Real(0.1))]);
}

const LONG: &str = r#"
title = "Long"
question = "Does everything work?"
data = ["ml-100k", { name = "synth:town:users=500", label = "town", split = "last", k_core = 5 }]
seeds = 3
compare = "MostPop"

[protocol]
min_interactions = 21
threshold = 3.5
split = "random:0.7"
validation = "temporal:0.9"
at = [10, 1]
candidates = "sampled:99"

[choice]
metric = "recall@1"
train_on = "train"
every = 5

[[model]]
name = "mostpop"
data = ["town"]

[[model]]
name = "factors"
label = "F{factors}"
set = { learning_rate = 1 }
sweep = { factors = [5, 10] }
grid = { pi = [0, 0.5, 1], bias = [true, false] }

[[model]]
name = "factors"
label = "Searched"
[model.search]
method = "random"
trials = 30
over.learning_rate = { low = 0.001, high = 0.1 }
over.factors = [10, 20]
over.epochs = { low = 5, high = 50, log = false }

[[plot]]
x = "pi"
y = "f1@10"
"#;

#[test]
fn a_long_file_is_understood() {
    let experiment = parse(LONG);
    assert_eq!(experiment.seeds, [42, 43, 44]);
    assert_eq!(
        experiment.protocol.candidates,
        Candidates::Sampled { negatives: 99, sampling: Sampling::Uniform, seed: 42 }
    );
    assert!(!experiment.selection.refit && experiment.selection.every == Some(5));
    let (first, town) = (interactions(&experiment.data[0]), interactions(&experiment.data[1]));
    assert_eq!((first.split, first.validation), (Some(Split::Random(0.7)), Some(Split::Temporal(0.9))));
    assert_eq!((town.label.as_str(), town.split, town.cleaning.k_core), ("town", Some(Split::Last), Some(5)));
    assert_eq!(
        (town.cleaning.min_interactions, town.cleaning.threshold),
        (Some(21), Some(3.5)),
        "shared where not overridden"
    );

    let labels: Vec<_> = experiment.rows.iter().map(|row| row.label.as_str()).collect();
    assert_eq!(labels, ["MostPop", "F5", "F10", "Searched"]);
    assert_eq!(experiment.rows_on(&experiment.data[0]).count(), 3);
    assert_eq!(experiment.rows_on(&experiment.data[1]).count(), 4);
    let swept = &experiment.rows[2];
    assert_eq!(swept.fixed[0], ("learning_rate".to_owned(), Value::Real(1.0)), "a whole number for a real");
    assert_eq!(swept.fixed[1], ("factors".to_owned(), Value::Integer(10)));
    let Tuning::Grid(grid) = &swept.tuning else { panic!("a grid") };
    assert_eq!(grid[0], ("pi".to_owned(), vec![Value::Real(0.0), Value::Real(0.5), Value::Real(1.0)]));

    let Tuning::Search(search) = &experiment.rows[3].tuning else { panic!("a search") };
    assert_eq!((search.method, search.trials, search.startup), (Method::Random, 30, 10));
    let ranges: Vec<_> = search.space.dimensions.iter().map(|d| (d.key.as_str(), d.range.clone())).collect();
    assert_eq!(ranges[0], ("learning_rate", Range::Real(Bounds { low: 0.001, high: 0.1, log: true })));
    assert_eq!(ranges[1].1, Range::Choice(vec![Value::Integer(10), Value::Integer(20)]));
    assert_eq!(ranges[2], ("epochs", Range::Integer(Bounds { low: 5, high: 50, log: false })));
    assert_eq!(experiment.plots[0].x, Axis::Setting("pi".into()));
    assert_eq!(experiment.plots[0].y, Axis::Metric(MetricAt { key: Metric::F1, cutoff: 10 }));
}

#[test]
fn a_search_without_ranges_looks_at_every_setting_that_is_not_fixed() {
    let text = SHORT.replace("mostpop\"", "factors\"\nset = { factors = 8, bias = true }\nsearch = { trials = 5 }");
    let experiment = parse(&text);
    let Tuning::Search(search) = &experiment.rows[0].tuning else { panic!("a search") };
    let keys: Vec<_> = search.space.dimensions.iter().map(|d| d.key.as_str()).collect();
    assert_eq!(keys, ["learning_rate", "similarity", "pi", "epochs"]);
    assert_eq!((search.startup, search.at_once), (3, 1));
}

/// The mistake when a piece of the long file is written otherwise.
fn changed(from: &str, to: &str) -> String {
    assert!(LONG.contains(from), "{from}");
    parse_error(&LONG.replacen(from, to, 1))
}

#[test]
fn shares_of_users_are_data_sets_of_their_own() {
    let list = "data = [{ name = \"ml-100k\", user_share = [0.125, 1], split_seed = 7 }, \"ml-1m\"]";
    let text = SHORT.replace("data = [\"ml-100k\"]", list) + "[protocol]\nuser_share = 0.5\n";
    let experiment = parse(&text);
    let found: Vec<_> = experiment
        .data
        .iter()
        .map(|data| (data.label(), interactions(data).cleaning.user_sample.map(|sample| (sample.share, sample.seed))))
        .collect();
    let expected = [
        ("ml-100k, 12.5 % of users", Some((0.125, 7))),
        ("ml-100k, 100 % of users", Some((1.0, 7))),
        ("ml-1m", Some((0.5, 42))),
    ];
    assert_eq!(found, expected.map(|(label, sample)| (label.to_owned(), sample)));
    let message = |share: &str| parse_error(&format!("{SHORT}[protocol]\nuser_share = {share}\n"));
    assert_eq!(message("1.5"), "x.toml:6:14: user_share: expected a number above 0 and up to 1, found 1.5");
    assert_eq!(message("[0.1, 0]"), "x.toml:6:20: user_share: expected a number above 0 and up to 1, found 0");
    assert_eq!(message("[0.1, 0.1]"), "x.toml:6:20: user_share: 0.1 appears twice");
}

#[test]
fn mistakes_are_pointed_at_with_the_nearest_right_word() {
    let cases = [
        (
            "seeds = 3",
            "seed = 3",
            "x.toml:5:1: an experiment has no key `seed` (did you mean `seeds`?); its keys are: title, question, notes, \
             data, seeds, compare, protocol, choice, model, plot",
        ),
        (
            "metric = \"recall@1\"",
            "metrik = \"recall@1\"",
            "x.toml:17:1: [choice] has no key `metrik` (did you mean `metric`?); its keys are: metric, seeds, train_on, \
             every, patience, test_curve, if_failed",
        ),
        (
            "name = \"mostpop\"",
            "name = \"mostpopular\"",
            "x.toml:22:8: there is no model `mostpopular` (did you mean `mostpop`?); models are: mostpop, factors",
        ),
        (
            "set = { learning_rate = 1 }",
            "set = { learning_rat = 1 }",
            "x.toml:28:9: factors has no setting `learning_rat` (did you mean `learning_rate`?); its settings are: factors, \
             learning_rate, similarity, bias, pi, epochs",
        ),
        ("pi = [0, 0.5, 1]", "pi = [0, 0.5, 2]", "x.toml:30:24: factors: pi = 2: expected a number from 0 to 1"),
        (
            "over.factors = [10, 20]",
            "over.similarity = [\"cosin\"]",
            "x.toml:39:20: factors: similarity = cosin: expected one of cosine, jaccard (did you mean `cosine`?)",
        ),
        (
            "metric = \"recall@1\"",
            "metric = \"recal@1\"",
            "x.toml:17:10: metric: there is no metric `recal` (did you mean `recall`?); metrics are: precision, recall, \
             ndcg, hit_rate, map, mrr, f1, auc, correctness, user_coverage, users_with_hit, item_coverage, \
             item_coverage_share, gini, shannon_entropy, aclt, pop_reo, pop_rsp",
        ),
        (
            "metric = \"recall@1\"",
            "metric = \"recall@5\"",
            "x.toml:17:10: metric: recall@5 needs 5 among the cutoffs (`at` in [protocol])",
        ),
        (
            "compare = \"MostPop\"",
            "compare = \"Mostpop\"",
            "x.toml:6:11: compare: there is no row `Mostpop` (did you mean `MostPop`?); rows are: MostPop, F5, F10, \
             Searched",
        ),
        (
            "split = \"random:0.7\"",
            "split = \"random:7\"",
            "x.toml:11:9: split: expected \"temporal:0.8\", \"newest:0.2\", \"random:0.8\" (any fraction between 0 and 1) or \"last\", \
             found \"random:7\"",
        ),
        (
            "candidates = \"sampled:99\"",
            "candidates = \"sampled\"",
            "x.toml:14:14: candidates: expected \"full\", \"uniform:N\" or \"popular:N\" (as in \"uniform:99\"), found \"sampled\"",
        ),
        (
            "method = \"random\"",
            "method = \"tpee\"",
            "x.toml:36:10: method: expected one of tpe, random, found `tpee` (did you mean `tpe`?)",
        ),
        (
            "data = [\"town\"]",
            "data = [\"twon\"]",
            "x.toml:23:9: data: the experiment has no data set `twon` (did you mean `town`?); it has: ml-100k, town",
        ),
        (
            "low = 0.001, high = 0.1",
            "low = 0.1, high = 0.1",
            "x.toml:38:22: learning_rate: low = 0.1 must be below high = 0.1",
        ),
        (
            "sweep = { factors = [5, 10] }",
            "sweep = { factors = [5, 10] }\nchoose_at = { factors = 20 }",
            "x.toml:30:13: choose_at: expected one value of each setting of `sweep`, among those it lists",
        ),
        (
            "data = [\"town\"]",
            "choose_at = {}",
            "x.toml:23:13: choose_at: there is nothing to choose without a `grid` or a `search`",
        ),
        (
            "every = 5",
            "if_failed = \"nest\"",
            "x.toml:19:13: if_failed: expected one of report, next, tell, found `nest` (did you mean `next`?)",
        ),
        ("sweep = { factors = [5, 10] }", "sweep = { factors = [5, 5] }", "x.toml:29:25: factors: 5 appears twice"),
        ("sweep = { factors = [5, 10] }", "sweep = { pi = [1] }", "x.toml:30:8: pi is in `sweep` and in `grid`"),
        (
            "x = \"pi\"",
            "x = \"pie\"",
            "x.toml:43:5: x: `pie` is no setting of the models, no metric (as in ndcg@10) and none of epochs, triples, \
             train_seconds, bytes_down, bytes_up, cce, tcc (did you mean `pi`?)",
        ),
        (
            "seeds = 3",
            "seeds = 0",
            "x.toml:5:9: seeds: expected a whole number of at least 1 or a list of seeds, found 0",
        ),
        ("at = [10, 1]", "at = []", "x.toml:13:6: at: the list is empty"),
        ("trials = 30\n", "", "x.toml:35:1: a `search` needs `trials`"),
        (
            "\"ml-100k\"",
            "\"../ml-100k\"",
            "x.toml:4:9: data: `../ml-100k` is a path; experiments name data sets (`ml-1m`), \
             which are looked up under --data-dir or $SOTTOVOCE_DATA, or invent them (`synth:town`)",
        ),
    ];
    let wrong: Vec<String> = cases
        .into_iter()
        .map(|(from, to, expected)| (to, changed(from, to), expected))
        .filter(|(_, found, expected)| found != expected)
        .map(|(to, found, expected)| format!("{to}\n  found    {found}\n  expected {expected}"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn broken_toml_is_pointed_at_too() {
    let message = parse_error("title = \"x\"\ndata = [\"a\"\nseeds = 3\n");
    assert!(message.starts_with("x.toml:3:"), "{message}");
    assert_eq!(parse_error("data = [\"a\"]\n[[model]]\nname = \"mostpop\""), "x.toml:1:1: an experiment needs `title`");
}

#[test]
fn a_grid_and_a_search_exclude_each_other() {
    let text = SHORT.replace("mostpop\"", "factors\"\ngrid = { pi = [1] }\nsearch = { trials = 5 }");
    assert_eq!(parse_error(&text), "x.toml:6:10: a [[model]] has a `grid` or a `search`, not both");
}

#[test]
fn every_experiment_of_the_repository_can_be_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let mut read = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "toml") {
            match Experiment::read(&path) {
                Ok((experiment, _)) => assert_eq!(experiment.warnings, [""; 0], "{}", path.display()),
                Err(error) => panic!("{error}"),
            }
            read += 1;
        }
    }
    assert!(read >= 3, "{read} experiments");
}
