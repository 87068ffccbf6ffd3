//! `sottovoce audit`, as a person would run it.

mod common;

use common::{failure, json, printed};
use serde_json::Value;
use std::fs;

const TOWN: &str = "synth:town:users=150";

const FPL: [&str; 9] = ["audit", "--model", "fpl", "--data", TOWN, "--set", "epochs=2", "--set", "configuration=pfpl"];

fn auc(found: &Value, attack: &str) -> f64 {
    let attacks = found["attacks"].as_array().unwrap();
    attacks.iter().find(|each| each["name"] == attack).unwrap()["auc"].as_f64().unwrap()
}

#[test]
fn has_the_fixed_fields_and_reconstructs_from_single_uploads() {
    let found = json(&FPL);
    for attack in found["attacks"].as_array().unwrap() {
        for field in ["auc", "precision", "recall", "guess_auc"] {
            assert!((0.0..=1.0).contains(&attack[field].as_f64().unwrap()), "{attack}");
        }
    }
    assert!(found["epsilon"].is_null() && found["metrics"]["10"]["ndcg"].is_number());
    assert!(auc(&found, "combined") > 0.95 && auc(&found, "signs") > 0.9, "{found}");
    assert!(found["over_rounds"].as_array().unwrap().len() > 3);
    assert_eq!(json(&FPL)["attacks"], found["attacks"]);
    let sums = json(&[&FPL[..], &["--view", "sums"]].concat());
    assert_eq!(sums["view"], "sums");
    assert!(auc(&sums, "combined") < auc(&found, "combined"));
}

#[test]
fn writes_sweeps_and_a_report() {
    let temp = tempfile::tempdir().unwrap();
    let out = temp.path().join("audit");
    let more = ["--sweep", "pi=0,1", "--people", "40", "--out", out.to_str().unwrap()];
    let text = printed(&[&FPL[..], &more].concat());
    assert!(text.contains("complement") && text.contains("pi = 0") && text.contains("guessing"), "{text}");
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("What leaks, against pi"));
    let people = fs::read_to_string(out.join("people.tsv")).unwrap();
    assert!(people.lines().filter(|line| line.contains("\tsigns\t")).count() == 40, "{people}");
    let stored: Value = serde_json::from_slice(&fs::read(out.join("audit.json")).unwrap()).unwrap();
    assert_eq!(stored["sweeps"][0]["points"].as_array().unwrap().len(), 2);
}

#[test]
fn rejects_wrong_usage() {
    let wrong = [
        (&["--model", "bpr-mf", "--data", TOWN][..], "no attack is known on the updates of bpr-mf"),
        (&["--model", "fpl", "--data", TOWN, "--view", "all"], "views are: uploads, sums"),
        (&["--model", "fpl", "--data", TOWN, "--sweep", "pi"], "KEY=VALUE,VALUE"),
        (&["--model", "fpl", "--data", TOWN, "--sweep", "pie=1"], "did you mean `pi`?"),
        (&["--model", "kgflex", "--data", TOWN], "--graph"),
        (&["--data", TOWN], "--model"),
    ];
    for (args, text) in wrong {
        let message = failure(2, &[&["audit"][..], args].concat());
        assert!(message.contains(text), "{args:?}: {message}");
    }
}
