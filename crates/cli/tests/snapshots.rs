//! Snapshots of what users read: help, tables and errors.
//!
//! `INSTA_UPDATE=always cargo nextest run -p sottovoce --test snapshots` rewrites them after an intended change.

mod common;

use std::fs;
use std::path::Path;

const TOWN: &str = "synth:town:users=60";

/// Runs the program in a folder, without settings from the environment and with the default width.
fn run(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = common::program();
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("SOTTOVOCE_")) {
        command.env_remove(name);
    }
    let output = command.current_dir(folder).env_remove("COLUMNS").args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Subcommands without a help of this program: `pipeline` hands on to a program of its own.
const OTHERS: [&str; 2] = ["help", "pipeline"];

/// The names under "Commands:" in a help text.
fn subcommands(help: &str) -> Vec<&str> {
    let section = help.split("\nCommands:\n").nth(1).unwrap_or_default();
    let lines = section.lines().take_while(|line| !line.is_empty());
    // Longer descriptions continue on lines that are indented further.
    let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next()).filter(|name| !OTHERS.contains(name)).collect()
}

fn snapshot_help(command: &[&str]) {
    let (code, help, _) = run(Path::new("."), &[command, &["--help"]].concat());
    assert_eq!(code, Some(0), "{command:?}");
    let children = subcommands(&help);
    assert!(!children.is_empty() || help.contains("Example"), "{command:?} has no example");
    insta::assert_snapshot!(["help", &command.join("-")].join("-").trim_end_matches('-'), help);
    for child in children {
        snapshot_help(&[command, &[child]].concat());
    }
}

#[test]
fn help_of_every_command() {
    snapshot_help(&[]);
}

/// Text with wall-clock times replaced.
fn redacted(text: &str) -> String {
    let line = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let is_time = |at: usize| words.get(at + 1) == Some(&"s") && words[at].parse::<f64>().is_ok();
        let shown = (0..words.len()).map(|at| if is_time(at) { "[time]" } else { words[at] });
        shown.collect::<Vec<_>>().join(" ") + "\n"
    };
    text.lines().map(line).collect()
}

#[test]
fn tables() {
    let folder = tempfile::tempdir().unwrap();
    let cases: &[(&str, &[&str])] = &[
        ("models-bpr-mf", &["models", "bpr-mf"]),
        ("models-fpl", &["models", "fpl"]),
        ("describe", &["data", "describe", TOWN]),
        ("interests", &["data", "interests", "synth:town:users=200", "--out", "interests.tsv"]),
        ("describe-graph", &["data", "describe", TOWN, "--graph", "town"]),
        ("train", &["train", "--model", "item-knn", "--data", TOWN, "--out", "knn"]),
        ("train-federated", &["train", "--model", "fpl", "--data", TOWN, "--set", "epochs=2"]),
        ("recommend", &["recommend", "--model-dir", "knn", "--user", "7", "-k", "3", "--explain"]),
        ("audit", &["audit", "--model", "fpl", "--data", TOWN, "--set", "epochs=2", "--people", "20"]),
        ("run-plan", &["run", "small.toml", "--plan"]),
        ("run", &["run", "small.toml", "--jobs", "1"]),
    ];
    let experiment = format!(
        "title = \"Popularity against neighbours\"\ndata = [\"{TOWN}\"]\n[[model]]\nname = \"mostpop\"\n\
         [[model]]\nname = \"item-knn\"\ngrid = {{ k = [5, 20] }}\n"
    );
    fs::write(folder.path().join("small.toml"), experiment).unwrap();
    for (name, arguments) in cases {
        let (code, text, errors) = run(folder.path(), arguments);
        assert_eq!(code, Some(0), "{arguments:?}: {errors}");
        insta::assert_snapshot!(*name, redacted(&text));
    }
}

/// Not a snapshot: a new model changes no file of this test.
#[test]
fn models_are_listed_with_what_they_do() {
    let (code, text, _) = run(Path::new("."), &["models"]);
    assert_eq!(code, Some(0));
    let models = sottovoce_federation::registry::all();
    let widest = models.iter().map(|model| model.name.len()).max().unwrap();
    let expected: Vec<String> =
        models.iter().map(|model| format!("{:widest$}  {}", model.name, model.summary)).collect();
    let (list, hint) = text.split_once("\n\n").unwrap();
    assert_eq!(list.lines().collect::<Vec<_>>(), expected);
    assert_eq!(hint, "Run `sottovoce models NAME` for the settings of a model.\n");
}

#[test]
fn errors() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("nan.tsv"), "user\titem\trating\na\tx\t3\na\ty\tNaN\n").unwrap();
    fs::write(folder.path().join("empty.tsv"), "").unwrap();
    fs::write(folder.path().join("wrong.toml"), "title = \"t\"\ndata = [\"a\"]\n[[modell]]\nname = \"fpl\"\n").unwrap();
    let train = ["train", "--data", TOWN, "--model"];
    let with = |more: &[&'static str]| [&train[..], more].concat();
    let cases: Vec<(&str, Vec<&str>)> = vec![
        ("unknown-command", vec!["trian"]),
        ("missing-argument", vec!["train", "--model", "fpl"]),
        ("missing-file", vec!["data", "describe", "no/such/file.tsv"]),
        ("missing-data-set", vec!["data", "describe", "ml-1m"]),
        ("nan", vec!["data", "describe", "nan.tsv"]),
        ("empty-file", vec!["data", "describe", "empty.tsv"]),
        ("no-taxonomy", vec!["data", "interests", "nan.tsv"]),
        ("unknown-category", vec!["data", "interests", "synth:town:users=60", "--sensitive", "Curling"]),
        ("nothing-left", with(&["ease", "--min-interactions", "100000"])),
        ("unknown-model", with(&["bpr-fm"])),
        ("unknown-setting", with(&["bpr-mf", "--set", "factor=3"])),
        ("out-of-range", with(&["bpr-mf", "--set", "factors=0"])),
        ("wrong-kind", with(&["bpr-mf", "--set", "factors=many"])),
        ("unknown-choice", with(&["item-knn", "--set", "similarity=cosin"])),
        ("not-key-value", with(&["bpr-mf", "--set", "factors"])),
        ("wrong-split", with(&["ease", "--split", "temporal:2"])),
        ("no-graph", with(&["kgflex"])),
        ("no-checkpoint", with(&["fpl", "--checkpoint", "here", "--resume"])),
        ("not-a-history-file", with(&["fpl", "--stream"])),
        ("not-auditable", vec!["audit", "--data", TOWN, "--model", "bpr-mf"]),
        ("wrong-experiment", vec!["run", "wrong.toml"]),
        ("missing-experiment", vec!["run", "no-such.toml"]),
        ("missing-model", vec!["recommend", "--model-dir", ".", "--user", "7"]),
        ("unknown-benchmark", vec!["bench", "evalute"]),
    ];
    for (name, arguments) in cases {
        let (code, _, errors) = run(folder.path(), &arguments);
        let code = code.unwrap_or(-1);
        assert!(code == 1 || code == 2, "{arguments:?} ended with {code}");
        let names: Vec<&str> = sottovoce_federation::registry::all().iter().map(|model| model.name).collect();
        let errors = errors.replace(&names.join(", "), "[all models]");
        let text = format!("$ sottovoce {}\nexit code {code}\n{errors}", arguments.join(" "));
        insta::assert_snapshot!(format!("error-{name}"), text);
    }
}
