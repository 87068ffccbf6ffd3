//! History files, from `data convert` to `train --stream`.

mod common;

use common::{failure, json};

#[test]
fn streamed_training_gives_the_same_model() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let town = path("town.histories");
    let found = json(&["data", "convert", "synth:town:users=600", &town]);
    assert_eq!(found["users"], 600);
    let train = |out: &str, more: &[&str]| {
        let mut line = vec!["train", "--model", "fpl", "--data", &town, "--set", "epochs=2", "--out", out];
        line.extend(more);
        (json(&line), std::fs::read(format!("{out}/model.safetensors")).unwrap())
    };
    let (in_memory, model) = train(&path("memory"), &[]);
    let (streamed, same) = train(&path("file"), &["--stream", "--threads", "1"]);
    assert!(model == same, "the streamed model differs");
    assert_eq!((&in_memory["streamed"], &streamed["streamed"]), (&false.into(), &true.into()));
    assert_eq!(in_memory["loss"], streamed["loss"]);
    assert_eq!(in_memory["data"]["interactions"], found["interactions"]);
    let found = failure(1, &["recommend", "--model-dir", &path("file"), "--user", "1"]);
    assert!(found.contains("which has no names"), "{found}");
}

#[test]
fn a_town_and_its_table_have_the_same_histories() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let [table, direct, by_table] = [path("town.tsv"), path("direct.histories"), path("table.histories")];
    json(&["data", "convert", "synth:town:users=300", &table]);
    let found = json(&["data", "convert", "synth:town:users=300", &direct]);
    let again = json(&["data", "convert", &table, &by_table]);
    // A place where nobody went has no line in the table.
    assert_eq!((&found["users"], &found["interactions"]), (&again["users"], &again["interactions"]));
}

#[test]
fn rejects_options_that_do_not_apply_to_history_files() {
    let folder = tempfile::tempdir().unwrap();
    let town = folder.path().join("town.histories");
    let town = town.to_str().unwrap();
    json(&["data", "convert", "synth:town:users=60", town]);
    let found = failure(2, &["train", "--model", "fpl", "--data", "synth:town:users=60", "--stream"]);
    assert!(found.contains("sottovoce data convert synth:town:users=60 OUT.histories"), "{found}");
    let found = failure(2, &["train", "--model", "item-knn", "--data", town]);
    assert!(found.contains("models that can: fpl, fcf"), "{found}");
    let found = failure(2, &["train", "--model", "fpl", "--data", town, "--validation", "last"]);
    assert!(found.contains("--validation does not apply"), "{found}");
    let found = failure(2, &["data", "convert", "synth:town:users=60", town, "--keep-repeats"]);
    assert!(found.contains("each item once"), "{found}");
    std::fs::write(town, b"SOTTOHIS and no more").unwrap();
    let found = failure(1, &["train", "--model", "fpl", "--data", town]);
    assert!(found.contains("too few for a file of histories"), "{found}");
}
