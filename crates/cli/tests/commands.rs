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
fn lists_that_do_not_fit_the_data_are_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let train = file("train.tsv", "user\titem\nanna\tduomo\nbruno\tcorso\ncarla\tduomo\n");
    let test = file("test.tsv", "user\titem\nanna\tcorso\nbruno\tduomo\n");
    let evaluate =
        |lists: &str| ["evaluate", "--train", &train, "--test", &test, "--recommendations", lists].map(str::to_owned);
    let typo = evaluate(&file("typo.tsv", "user\titem\trank\nanna\tcorso\t1\nbrumo\tdouomo\t1\n"));
    let typo = typo.each_ref().map(String::as_str);
    let output = run(&typo);
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    for expected in [
        "1 user (`bruno`) of the test part without a list",
        "1 user (`brumo`) with a list but neither in the training part nor in the test part",
        "1 recommended item (`douomo`) that the other files do not have",
    ] {
        assert!(notes.contains(expected), "{expected}: {notes}");
    }
    let found = json(&typo);
    assert_eq!(found["mismatches"]["test_users_without_list"]["examples"][0], "bruno");
    assert_eq!(found["at"]["1"]["users_with_hit"], 1);
    let numbers = evaluate(&file("numbers.tsv", "user\titem\trank\n0\t1\t1\n1\t0\t1\n"));
    let message = failure(1, &numbers.each_ref().map(String::as_str));
    assert!(message.contains("called like `0`") && message.contains("like `anna`"), "{message}");
    let twice = evaluate(&file("twice.tsv", "user\titem\trank\nanna\tcorso\t1\nanna\tcorso\t2\n"));
    let message = failure(1, &twice.each_ref().map(String::as_str));
    assert!(message.contains("item `corso` comes more than once in the list of user `anna`"), "{message}");
}

#[test]
fn the_published_protocol_is_in_what_a_training_writes() {
    let found = json(&[
        "train",
        "--model",
        "mostpop",
        "--data",
        TOWN,
        "--repeats",
        "latest",
        "--split",
        "newest:0.2",
        "--catalog",
        "training",
        "--user-share",
        "0.5",
    ]);
    let data = &found["data"];
    assert_eq!((&data["split"], &data["catalog"]), (&Value::from("newest:0.2"), &Value::from("training")));
    assert_eq!(data["cleaning"]["repeats"], "latest");
    assert_eq!(data["cleaning"]["user_sample"]["share"], 0.5);
    assert!(data["test_not_in_catalog"].as_u64().unwrap() > 0 && data["source_bias"].is_object(), "{data}");
    let whole = json(&["train", "--model", "mostpop", "--data", TOWN, "--split", "newest:0.2", "--user-share", "0.5"]);
    assert_eq!((&whole["data"]["test"], &whole["data"]["train"]), (&data["test"], &data["train"]));
    assert!(whole["data"]["items"].as_u64() > data["items"].as_u64());
    assert!(failure(2, &["train", "--model", "ease", "--data", TOWN, "--catalog", "train"]).contains("training"));
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
fn factor_models_name_items_of_the_history_and_sequential_models_say_why_not() {
    let temp = tempfile::tempdir().unwrap();
    for (model, kind) in [("fpl", "vectors"), ("fcf", "shares"), ("gru4rec", "order")] {
        let out = temp.path().join(model);
        let out = out.to_str().unwrap();
        json(&["train", "--model", model, "--data", TOWN, "--set", "epochs=2", "--out", out]);
        let recommend = ["recommend", "--model-dir", out, "--user", "7", "-k", "3", "--explain"];
        let list = json(&recommend);
        assert_eq!(list["reasons"]["kind"], kind, "{list}");
        let text = printed(&recommend);
        assert!(text.contains(list["reasons"]["text"].as_str().unwrap()), "{text}");
        let reasons = list["items"].as_array().unwrap().iter().flat_map(|item| item["reasons"].as_array().unwrap());
        let named = reasons.filter(|reason| reason["item"].is_string()).count();
        assert_eq!(named > 0, kind != "order", "{list}");
    }
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
    let wild = [
        "train",
        "--model",
        "fpl",
        "--data",
        TOWN,
        "--set",
        "learning_rate=1",
        "--set",
        "user_pull=10",
        "--set",
        "strategy=sum",
    ];
    let message = failure(1, &[&wild[..], &["--set", "triples=1000", "--set", "scale_regularisation=false"]].concat());
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
        let few_people = "synth:town:users=50";
        let mut args = vec!["train", "--model", name, "--data", few_people, "--graph", "town", "--out", folder];
        // What is learnt does not matter: few people and two epochs are enough.
        let keys: Vec<&str> = model["settings"].as_array().unwrap().iter().filter_map(|s| s["key"].as_str()).collect();
        for (key, few) in
            [("epochs", "epochs=2"), ("local_epochs", "local_epochs=1"), ("pretraining_epochs", "pretraining_epochs=1")]
        {
            if keys.contains(&key) {
                args.extend(["--set", few]);
            }
        }
        // Some are never sent in the open, and say what to do.
        let open = run(&args);
        if !open.status.success() {
            let message = String::from_utf8_lossy(&open.stderr).into_owned();
            assert!(message.contains("seal = \"none\": expected secagg"), "{name}: {message}");
            args.extend(["--set", "seal=secagg"]);
            json(&args);
        }
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
        (2, &["train", "--model", "ease", "--data", TOWN, "--user-share", "1.5"], "a number above 0 and up to 1"),
        (2, &["train", "--model", "lookalike", "--data", "synth:clicks", "--user-share", "0.5"], "not for click logs"),
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
fn a_share_of_the_users_is_trained_on_and_noted() {
    let train = ["train", "--model", "mostpop", "--data", TOWN, "--user-share", "0.25"];
    let output = run(&train);
    let notes = String::from_utf8_lossy(&output.stderr);
    assert!(notes.contains("the random sample has 20 of 80 users"), "{notes}");
    let found = json(&train);
    assert_eq!(found["data"]["users"], 20);
    let whole = json(&train[..5]);
    assert_ne!(found["data"]["fingerprint"], whole["data"]["fingerprint"]);
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

/// The order of lines says nothing about time: a split by time refuses, and both commands have the same default.
#[test]
fn data_without_timestamps_are_not_split_by_time() {
    let temp = tempfile::tempdir().unwrap();
    let lines: String =
        (0..600).map(|row| format!("u{},i{},{},x\n", row % 30, (row * 7 + row / 30) % 40, 1 + row % 5)).collect();
    let file = temp.path().join("books.csv");
    fs::write(&file, format!("user,book,stars,mood\n{lines}")).unwrap();
    let file = file.to_str().unwrap();
    let train = ["train", "--model", "mostpop", "--data", file];
    for more in [&["--split", "temporal:0.8"][..], &["--split", "last"], &["--validation", "temporal:0.8"]] {
        let message = failure(1, &[&train[..], more].concat());
        for part in ["no column holds a timestamp", "--split random:0.8", "--columns", "item = book"] {
            assert!(message.contains(part), "{message}");
        }
    }
    let data = temp.path().to_str().unwrap();
    let experiment = |split: &str| {
        let text = format!("title = \"t\"\ndata = [\"books.csv\"]\n[protocol]\n{split}[[model]]\nname = \"mostpop\"\n");
        let path = temp.path().join("books.toml");
        fs::write(&path, text).unwrap();
        (path.to_str().unwrap().to_owned(), temp.path().join("out").to_str().unwrap().to_owned())
    };
    let (path, out) = experiment("split = \"temporal:0.8\"\n");
    let message = failure(1, &["run", &path, "--out", &out, "--data-dir", data]);
    assert!(message.contains("no column holds a timestamp") && message.contains("split = \"random:0.8\""), "{message}");
    let (path, out) = experiment("");
    let output = run(&["run", &path, "--out", &out, "--data-dir", data, "--json", "--fresh"]);
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    let columns = "columns: user = user, item = book, rating = stars, no timestamp; ignored: mood";
    assert!(notes.contains("no timestamps: split at random") && notes.contains(columns), "{notes}");
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(results["data"][0]["card"]["card"]["split"].as_str().unwrap().starts_with("random:0.8"), "{results}");
    let output = run(&[&train[..], &["--json"]].concat());
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(notes.contains("no timestamps: split at random") && notes.contains(columns), "{notes}");
    let trained: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(trained["data"]["split"], "random:0.8");
}

#[test]
fn outputs_that_cannot_be_written_are_found_before_training() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("file");
    fs::write(&file, "title = \"t\"\ndata = [\"nowhere\"]\n[[model]]\nname = \"mostpop\"\n").unwrap();
    let (file, below) = (file.to_str().unwrap(), file.join("out.tsv"));
    let below = below.to_str().unwrap();
    // The data set does not exist: whoever looked at it first would say so.
    let commands: &[&[&str]] = &[
        &["train", "--model", "mostpop", "--data", "nowhere", "--out", below],
        &["train", "--model", "fpl", "--data", "nowhere", "--checkpoint", below],
        &["run", file, "--out", below],
        &["demo", "--out", below],
        &["audit", "--model", "fpl", "--data", "nowhere", "--out", below],
        &["data", "convert", "nowhere", below],
        &["data", "split", "nowhere", "--out", below],
        &["data", "history", "nowhere", "--user", "1", "--out", below],
        &["data", "interests", "nowhere", "--out", below],
        &["data", "synth", "--out", below],
        &["evaluate", "--train", "nowhere", "--test", "nowhere", "--recommendations", "nowhere", "--per-user", below],
        &["man", "--out", below],
    ];
    for command in commands {
        let message = failure(2, command);
        assert!(message.contains("file/out.tsv cannot be written"), "{command:?}: {message}");
    }
    let message = failure(2, &["train", "--model", "mostpop", "--data", "nowhere", "--out", file]);
    assert!(message.contains("is a file, not a folder"), "{message}");
}

#[test]
fn run_json_holds_everything_that_was_chosen() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("visits.csv");
    let lines: String = (0..300).map(|row| format!("u{},p{},{},x\n", row % 20, (row * 7) % 31, 1000 + row)).collect();
    fs::write(&file, format!("who,what,when,mood\n{lines}")).unwrap();
    let out = temp.path().join("out");
    let (file, out) = (file.to_str().unwrap(), out.to_str().unwrap());
    let train =
        ["train", "--model", "bpr-mf", "--data", file, "--columns", "user=who,item=what,time=when", "--out", out];
    let more =
        ["--set", "epochs=2", "--validation", "last", "--patience", "3", "--at", "3,7", "--k-core", "2", "--seed", "9"];
    printed(&[&train[..], &more].concat());
    let found: Value = serde_json::from_slice(&fs::read(temp.path().join("out/run.json")).unwrap()).unwrap();
    let expected = serde_json::json!({
        "model": "bpr-mf", "seed": 9, "version": env!("CARGO_PKG_VERSION"), "settings": {"epochs": 2},
        "protocol": {
            "split": "temporal:0.8", "split_seed": 9, "validation": "last", "relevant": null, "at": [3, 7],
            "candidates": ["all unrated items"], "patience": 3, "metric_of_patience": "ndcg@10"
        },
        "data": {
            "split": "temporal:0.8", "format": "delimited", "skip_bad": false, "skipped": 0, "graph": null,
            "columns": {"user": "who", "item": "what", "rating": null, "timestamp": "when", "ignored": ["mood"]},
            "cleaning": {"min_interactions": null, "k_core": 2, "threshold": null}
        }
    });
    assert_within(&expected, &found, "run.json");
    let models = json(&["models", "bpr-mf"]);
    for setting in models["models"][0]["settings"].as_array().unwrap() {
        assert!(!found["settings"][setting["key"].as_str().unwrap()].is_null(), "{setting}");
    }
    assert_eq!(found["data"]["fingerprint"].as_str().map(str::is_empty), Some(false));
}

/// What a command prints on standard error when it succeeds.
fn notes(arguments: &[&str]) -> String {
    let output = run(arguments);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {text}");
    text
}

#[test]
fn what_cannot_be_meant_is_refused_or_told() {
    let train = |more: &[&'static str]| [&["train", "--data", TOWN, "--model"][..], more].concat();
    let temp = tempfile::tempdir().unwrap();
    let rated = temp.path().join("rated.tsv");
    let lines: String = (0..200).map(|row| format!("{}\t{}\t{}\t{row}\n", row % 9, row % 31, 1 + row % 5)).collect();
    fs::write(&rated, lines).unwrap();
    let rated = rated.to_str().unwrap();
    let refused: &[(Vec<&str>, &str)] = &[
        (train(&["mostpop", "--candidates", "full,uniform:100000"]), "asks for 100000 negatives"),
        (train(&["mostpop", "--before", "x"]), "are for click logs"),
        (train(&["mostpop", "--people", "validation"]), "are for click logs"),
        (vec!["train", "--model", "mostpop", "--data", rated, "--relevant", "9"], "has no test interactions"),
        (train(&["bpr-mf", "--set", "reg=1"]), "did you mean `user_regularisation` or"),
        (train(&["bpr-mf", "--lr", "1"]), "--set lr=VALUE"),
        (train(&["fpl", "--set", "aggregation=sum"]), "did you mean `strategy` or"),
        (vec!["federation", "token", "films", "--uses", "0"], "0 is not in 1.."),
        (vec!["fleet", "--federation", "f", "--token-file", "t", "--data", TOWN, "--seconds=-1"], "--seconds"),
    ];
    for (arguments, expected) in refused {
        let message = failure(2, arguments);
        assert!(message.contains(expected), "{arguments:?}: {message}");
    }
    let experiment = temp.path().join("cohort.toml");
    let rows =
        "[[model]]\nname = \"fpl\"\nset = { epochs = 1, clients_per_round = 1000 }\n[[model]]\nname = \"mostpop\"\n";
    fs::write(&experiment, format!("title = \"t\"\ndata = [\"{TOWN}\"]\n{rows}")).unwrap();
    let (experiment, out) = (experiment.to_str().unwrap(), temp.path().join("cohort"));
    let unlearn = ["unlearn", "--model", "fpl", "--data", TOWN, "--set", "epochs=1", "--set", "cohort=1000"];
    let told: &[(Vec<&str>, &str)] = &[
        (vec!["run", experiment, "--out", out.to_str().unwrap()], "FPL: a cohort of 1000 devices, but 80 users"),
        (train(&["fpl", "--set", "epochs=9", "--set", "epochs=1"]), "`epochs` is given twice: 9, then 1, which counts"),
        (unlearn.to_vec(), "a cohort of 1000 devices, but 80 users"),
        (train(&["fpl", "--set", "epochs=1", "--set", "cohort=1000"]), "a cohort of 1000 devices, but 80 users"),
        (train(&["fpl", "--set", "epochs=1", "--set", "epsilon=1"]), "`epsilon` = 1 does nothing with noise = none"),
        (
            train(&["fpl", "--set", "epochs=1", "--set", "clients_per_round=9"]),
            "`clients_per_round` is called `cohort`",
        ),
        (train(&["fpl", "--set", "epochs=1", "--set", "never_return=1"]), "the model has learnt nothing"),
        (train(&["bpr-mf", "--set", "epochs=1", "--set", "lr=0.1"]), "setting `lr` is called `learning_rate`"),
        (train(&["mostpop", "--relevant", "3"]), "--relevant does nothing"),
        (train(&["mostpop", "--top-k", "7"]), ""),
    ];
    for (arguments, expected) in told {
        let found = notes(arguments);
        assert!(found.contains(expected), "{arguments:?}: {found}");
    }
}

#[test]
fn settings_are_listed_in_groups() {
    let page = printed(&["models", "fpl"]);
    let places =
        ["\nmodel\n", "\ntraining\n", "\nfederation\n", "\nprivacy\n", "\ndisclosure\n", "\nsimulated devices\n"];
    let places: Vec<usize> =
        places.iter().map(|heading| page.find(heading).unwrap_or_else(|| panic!("{heading}{page}"))).collect();
    assert!(places.is_sorted(), "{places:?}");
    let listed = json(&["models", "fpl"])["models"][0]["settings"].as_array().unwrap().len();
    assert_eq!(
        page.lines().filter(|line| line.starts_with("  ") && line.contains(" = ") && !line.starts_with("   ")).count(),
        listed
    );
}
