//! Files of histories, from `data convert` to `train --stream`.

mod common;

use common::{complaint, json};

#[test]
fn histories_left_in_their_file_give_the_same_model() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let town = path("town.histories");
    let told = json(&["data", "convert", "synth:town:users=600", &town]);
    assert_eq!(told["users"], 600);
    let learn = |out: &str, more: &[&str]| {
        let mut line = vec!["train", "--model", "fpl", "--data", &town, "--set", "epochs=2", "--out", out];
        line.extend(more);
        (json(&line), std::fs::read(format!("{out}/model.safetensors")).unwrap())
    };
    let (in_memory, model) = learn(&path("memory"), &[]);
    let (streamed, same) = learn(&path("file"), &["--stream", "--threads", "1"]);
    assert!(model == same, "learnt something else from the file");
    assert_eq!((&in_memory["streamed"], &streamed["streamed"]), (&false.into(), &true.into()));
    assert_eq!(in_memory["loss"], streamed["loss"]);
    assert_eq!(in_memory["data"]["interactions"], told["interactions"]);
    let told = complaint(1, &["recommend", "--model-dir", &path("file"), "--user", "1"]);
    assert!(told.contains("which has no names"), "{told}");
}

#[test]
fn a_town_and_its_table_have_the_same_histories() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let [table, direct, by_table] = [path("town.tsv"), path("direct.histories"), path("table.histories")];
    json(&["data", "convert", "synth:town:users=300", &table]);
    let told = json(&["data", "convert", "synth:town:users=300", &direct]);
    let again = json(&["data", "convert", &table, &by_table]);
    // A place where nobody went has no line in the table.
    assert_eq!((&told["users"], &told["interactions"]), (&again["users"], &again["interactions"]));
}

#[test]
fn streaming_says_what_it_cannot_do() {
    let folder = tempfile::tempdir().unwrap();
    let town = folder.path().join("town.histories");
    let town = town.to_str().unwrap();
    json(&["data", "convert", "synth:town:users=60", town]);
    let told = complaint(2, &["train", "--model", "fpl", "--data", "synth:town:users=60", "--stream"]);
    assert!(told.contains("sottovoce data convert synth:town:users=60 OUT.histories"), "{told}");
    let told = complaint(2, &["train", "--model", "item-knn", "--data", town]);
    assert!(told.contains("models that do: fpl, fcf"), "{told}");
    let told = complaint(2, &["train", "--model", "fpl", "--data", town, "--validation", "last"]);
    assert!(told.contains("without --validation"), "{told}");
    let told = complaint(2, &["data", "convert", "synth:town:users=60", town, "--keep-repeats"]);
    assert!(told.contains("each item once"), "{told}");
    std::fs::write(town, b"SOTTOHIS and no more").unwrap();
    let told = complaint(1, &["train", "--model", "fpl", "--data", town]);
    assert!(told.contains("too few for a file of histories"), "{told}");
}
