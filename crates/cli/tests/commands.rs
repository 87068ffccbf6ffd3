//! Every command, run as a user would run it.

mod common;

use common::{failure, json, oracle, printed, run, without_cost};
use serde_json::Value;
use std::fs;

const TOWN: &str = "synth:town:users=80";

#[test]
fn evaluates_the_oracle_cases() {
    for case in 1..=4 {
        let files = ["train.tsv", "test.tsv", "recommendations.tsv", "items.tsv"].map(|file| oracle(case, file));
        let [train, test, lists, items] = files.each_ref().map(String::as_str);
        let found = json(&[
            "evaluate",
            "--train",
            train,
            "--test",
            test,
            "--recommendations",
            lists,
            "--items",
            items,
            "--at",
            "1,5,10",
        ]);
        let expected: Value = serde_json::from_slice(&fs::read(oracle(case, "expected.json")).unwrap()).unwrap();
        assert_within(&expected, &found, &format!("case {case}"));
    }
}

/// All that is expected is found, numbers to 1e-9.
fn assert_within(expected: &Value, found: &Value, place: &str) {
    match expected {
        Value::Object(fields) => {
            for (name, value) in fields {
                assert_within(value, &found[name], &format!("{place}/{name}"));
            }
        }
        Value::Number(number) => {
            let (expected, found) = (number.as_f64().unwrap(), found.as_f64().unwrap_or(f64::NAN));
            assert!((expected - found).abs() < 1e-9, "{place}: {found} instead of {expected}");
        }
        other => assert_eq!(other, found, "{place}"),
    }
}

#[test]
fn describe_has_the_fixed_fields() {
    let found = json(&["data", "describe", TOWN]);
    assert_eq!(found["users"], 80);
    assert_eq!(found["timestamps"], true);
    let cells = found["users"].as_f64().unwrap() * found["items"].as_f64().unwrap();
    let density = found["interactions"].as_f64().unwrap() / cells;
    assert!((found["density"].as_f64().unwrap() - density).abs() < 1e-12);
    assert!(printed(&["data", "describe", TOWN]).contains("fingerprint"));
}

#[test]
fn a_trained_model_recommends_and_explains() {
    let temp = tempfile::tempdir().unwrap();
    let folder = temp.path().join("knn");
    let folder = folder.to_str().unwrap();
    let trained = json(&["train", "--model", "item-knn", "--data", TOWN, "--out", folder]);
    assert_eq!(trained["model"], "item-knn");
    assert!(trained["metrics"]["10"]["ndcg"].as_f64().unwrap() > 0.0);
    assert_eq!(trained["bytes"], serde_json::json!({"down": 0, "up": 0}));
    for field in ["load", "train", "evaluate"] {
        assert!(trained["seconds"][field].as_f64().unwrap() >= 0.0);
    }
    let list = json(&["recommend", "--model-dir", folder, "--user", "7", "-k", "4", "--explain"]);
    let items = list["items"].as_array().unwrap();
    assert_eq!(items.len(), 4);
    assert!(items.is_sorted_by(|a, b| a["score"].as_f64() >= b["score"].as_f64()));
    let reason = &items[0]["reasons"][0];
    assert!(reason["text"].as_str().unwrap().starts_with("because of "), "{reason}");
    assert!((0.0..=1.0).contains(&reason["share"].as_f64().unwrap()));
    let message = failure(2, &["recommend", "--model-dir", folder, "--user", "777"]);
    assert!(message.contains("has no user `777`"), "{message}");
    let message = failure(1, &["recommend", "--model-dir", temp.path().to_str().unwrap(), "--user", "7"]);
    assert!(message.contains("model.json"), "{message}");
}

#[test]
fn a_federated_model_reports_its_traffic() {
    let sent = |pi: &str, more: &str| {
        let pi = format!("pi={pi}");
        let set = ["--set", "configuration=pfpl+", "--set", "epochs=3", "--set", &pi, "--set", more];
        json(&[&["train", "--model", "fpl", "--data", TOWN][..], &set].concat())
    };
    let (open, closed) = (sent("1", "values=f32"), sent("0", "values=f32"));
    let half = sent("0.5", "values=f32");
    let up = |trained: &serde_json::Value| trained["bytes"]["up"].as_u64().unwrap();
    assert_eq!(open["bytes"]["down"], closed["bytes"]["down"]);
    assert!(
        open["bytes"]["down"].as_u64().unwrap() > up(&open)
            && up(&open) > up(&half)
            && up(&half) > 0
            && up(&closed) == 0
    );
    assert!(up(&sent("1", "values=i8-row")) * 2 < up(&open));
    assert!(open["vectors"].as_f64().unwrap() > closed["vectors"].as_f64().unwrap());
    let wild = ["train", "--model", "fpl", "--data", TOWN, "--set", "learning_rate=1", "--set", "user_pull=10"];
    let message = failure(1, &[&wild[..], &["--set", "triples=1000"]].concat());
    assert!(message.contains("training diverged") && message.contains("strategy = adaptive"), "{message}");
}

#[test]
fn every_model_is_stored_and_restored() {
    let temp = tempfile::tempdir().unwrap();
    for model in json(&["models"])["models"].as_array().unwrap() {
        let name = model["name"].as_str().unwrap();
        let folder = temp.path().join(name);
        let folder = folder.to_str().unwrap();
        // Those that go by facts need some; to the others they are nothing.
        let mut args = vec!["train", "--model", name, "--data", TOWN, "--graph", "town", "--out", folder];
        // What is learnt does not matter: two epochs are enough.
        let keys: Vec<&str> = model["settings"].as_array().unwrap().iter().filter_map(|s| s["key"].as_str()).collect();
        for (key, few) in [("epochs", "epochs=2"), ("pretraining_epochs", "pretraining_epochs=1")] {
            if keys.contains(&key) {
                args.extend(["--set", few]);
            }
        }
        json(&args);
        let list = json(&["recommend", "--model-dir", folder, "--user", "0"]);
        assert_eq!(list["items"].as_array().unwrap().len(), 10, "{name}");
    }
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    for model in ["user-knn", "item-knn", "bpr-mf", "ials", "ease", "fpl", "fcf"] {
        let result = |threads: &str| {
            without_cost(json(&[
                "train",
                "--model",
                model,
                "--data",
                TOWN,
                "--threads",
                threads,
                "--seed",
                "5",
                "--validation",
                "temporal:0.8",
            ]))
            .to_string()
        };
        assert_eq!(result("1"), result("2"), "{model}");
    }
    let with_seed =
        |seed: &str| json(&["train", "--model", "bpr-mf", "--data", TOWN, "--seed", seed])["metrics"].clone();
    assert_ne!(with_seed("1"), with_seed("2"));
}

#[test]
fn reports_early_stopping_and_sampled_negatives() {
    let found = json(&[
        "train",
        "--model",
        "bpr-mf",
        "--data",
        TOWN,
        "--validation",
        "temporal:0.8",
        "--patience",
        "2",
        "--set",
        "learning_rate=0.2",
        "--sampled-negatives",
        "20",
    ]);
    assert!(found["epochs"].as_u64().unwrap() < 100);
    assert_eq!(found["epochs"].as_u64().unwrap(), found["best_epoch"].as_u64().unwrap() + 2);
    assert!(found["candidates"].as_str().unwrap().starts_with("sampled: 20 negatives"));
    assert!(failure(2, &["train", "--model", "ials", "--data", TOWN, "--patience", "2"]).contains("--validation"));
}

#[test]
fn several_kinds_of_candidates_are_reported_apart() {
    let train = |candidates| {
        json(&["train", "--model", "item-transitions", "--data", TOWN, "--split", "last", "--candidates", candidates])
    };
    let all = train("popular:9,full,uniform:9");
    let seed = all["seed"].as_u64().unwrap();
    assert_eq!(all["candidates"], format!("sampled: 9 negatives by popularity, seed {seed}"));
    let others = all["with_other_candidates"].as_array().unwrap();
    let names: Vec<&str> = others.iter().map(|other| other["candidates"].as_str().unwrap()).collect();
    assert_eq!(names, ["all unrated items", &format!("sampled: 9 negatives, seed {seed}")]);
    let full = train("full");
    assert_eq!((&full["metrics"], &full["candidates"]), (&others[0]["metrics"], &others[0]["candidates"]));
    assert!(full.get("with_other_candidates").is_none());
    assert!(
        failure(2, &["train", "--model", "ials", "--data", TOWN, "--candidates", "uniform"]).contains("uniform:99")
    );
}

#[test]
fn converted_and_split_data_is_read_back() {
    let temp = tempfile::tempdir().unwrap();
    let path = |name: &str| temp.path().join(name).to_str().unwrap().to_owned();
    let original = json(&["data", "describe", TOWN]);
    for name in ["town.tsv", "town.tsv.gz", "town.tsv.zst", "town.parquet"] {
        printed(&["data", "convert", TOWN, &path(name)]);
        let found = json(&["data", "describe", &path(name)]);
        assert_eq!(found["fingerprint"], original["fingerprint"], "{name}");
    }
    let sizes = json(&["data", "split", TOWN, "--validation", "last", "--split", "last", "--out", &path("parts")]);
    let part = |name: &str| json(&["data", "describe", &path(&format!("parts/{name}.tsv"))])["interactions"].clone();
    assert_eq!(
        (part("train"), part("validation"), part("test")),
        (sizes["train"].clone(), sizes["validation"].clone(), sizes["test"].clone())
    );
    assert_eq!(sizes["test"], 80);
    assert!(failure(2, &["data", "convert", TOWN, &path("town.xlsx")]).contains(".parquet"));
}

#[test]
fn generates_a_whole_town() {
    let temp = tempfile::tempdir().unwrap();
    let folder = temp.path().join("town");
    printed(&["data", "synth", "town:users=60:seed=4", "--out", folder.to_str().unwrap()]);
    for name in ["checkins.tsv", "places.tsv", "graph.nt", "pages.tsv", "reading.tsv", "residents.tsv"] {
        assert!(fs::metadata(folder.join(name)).unwrap().len() > 100, "{name}");
    }
    let found = json(&["data", "describe", folder.join("checkins.tsv").to_str().unwrap()]);
    assert_eq!(found["fingerprint"], json(&["data", "describe", "synth:town:users=60:seed=4"])["fingerprint"]);
    assert!(failure(2, &["data", "synth", "town:user=60", "--out", "x"]).contains("users"));
}

#[test]
fn errors_suggest_the_nearest_valid_name() {
    let cases: &[(i32, &[&str], &str)] = &[
        (2, &["train", "--model", "bpr-fm", "--data", TOWN], "did you mean `bpr-mf`?"),
        (2, &["train", "--model", "bpr-mf", "--data", TOWN, "--set", "factor=3"], "did you mean `factors`?"),
        (2, &["train", "--model", "bpr-mf", "--data", TOWN, "--set", "factors=none"], "a whole number from 1 to 512"),
        (2, &["train", "--model", "item-knn", "--data", TOWN, "--set", "similarity=cosin"], "did you mean `cosine`?"),
        (2, &["train", "--model", "ease", "--data", TOWN, "--split", "temporal:2"], "temporal:SHARE"),
        (2, &["trian"], "train"),
        (2, &["bench", "evalute"], "did you mean `evaluate`?"),
        (1, &["data", "describe", "ml-1m"], "grouplens.org"),
        (1, &["data", "describe", "no/such/file.tsv"], "no/such/file.tsv"),
        (1, &["train", "--model", "ease", "--data", TOWN, "--min-interactions", "100000"], "nothing is left"),
        (1, &["run", "no-such.toml"], "no-such.toml"),
    ];
    for (code, arguments, expected) in cases {
        let message = failure(*code, arguments);
        assert!(message.contains(expected), "{arguments:?}: {message}");
    }
}

#[test]
fn bad_lines_are_errors_unless_skipped() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("bad.tsv");
    fs::write(&file, "user\titem\trating\na\tx\t3\na\ty\tNaN\nb\tx\t-2\n").unwrap();
    let file = file.to_str().unwrap();
    let message = failure(1, &["data", "describe", file]);
    assert!(message.contains("bad.tsv") && message.contains("line 3") && message.contains("NaN"), "{message}");
    let found = json(&["data", "describe", file, "--skip-bad"]);
    assert_eq!((found["interactions"].as_u64(), found["notes"]["skipped"].as_u64()), (Some(2), Some(1)));
}

#[test]
fn prints_completions_and_manual_pages() {
    assert!(printed(&["completions", "bash"]).contains("_sottovoce"));
    assert!(printed(&["man"]).contains(".TH sottovoce"));
    let temp = tempfile::tempdir().unwrap();
    printed(&["man", "--out", temp.path().to_str().unwrap()]);
    assert!(temp.path().join("sottovoce-train.1").exists());
}

#[test]
fn prints_only_json_and_no_colours_to_a_pipe() {
    let output = run(&["train", "--model", "bpr-mf", "--data", TOWN, "--set", "epochs=2", "--json"]);
    assert!(serde_json::from_slice::<Value>(&output.stdout).is_ok());
    assert!(!output.stderr.contains(&0x1b) && !output.stdout.contains(&0x1b));
}

#[test]
fn features_are_described_and_explain_recommendations() {
    let described = printed(&["data", "describe", TOWN, "--graph", "town"]);
    assert!(described.contains("linked items") && described.contains("in district > neighbour: "), "{described}");
    let document = json(&["data", "describe", TOWN, "--graph", "town", "--graph-hops", "1"]);
    assert_eq!(document["graph"]["by_hops"].as_array().map(Vec::len), Some(1));
    let wrong = failure(1, &["data", "describe", TOWN, "--graph", "nowhere.nt"]);
    assert!(wrong.contains("nowhere.nt: no such file"), "{wrong}");
    let without = failure(1, &["train", "--model", "kgflex", "--data", TOWN]);
    assert!(without.contains("kgflex needs facts about items"), "{without}");

    let temp = tempfile::tempdir().unwrap();
    for model in ["kgflex", "kahfm", "vsm"] {
        let out = temp.path().join(model);
        let out = out.to_str().unwrap();
        let epochs: &[&str] = if model == "vsm" { &[] } else { &["--set", "epochs=3"] };
        let train = ["train", "--model", model, "--data", TOWN, "--graph", "town", "--out", out];
        json(&[&train[..], epochs].concat());
        let list = json(&["recommend", "--model-dir", out, "--user", "3", "-k", "4", "--explain"]);
        let reasons = list["items"].as_array().unwrap().iter().flat_map(|item| item["reasons"].as_array().unwrap());
        let reasons: Vec<&Value> = reasons.collect();
        assert!(!reasons.is_empty(), "{model}: {list}");
        for reason in reasons {
            let (text, share) = (reason["text"].as_str().unwrap(), reason["share"].as_f64().unwrap());
            assert!(text.contains(": ") || text.contains("users have it"), "{model}: {text}");
            assert!(share > 0.0 && share <= 1.0, "{model}: {share}");
        }
    }
}
