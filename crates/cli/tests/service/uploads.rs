//! What a server keeps of uploads is what an audit needs, and no more.

use crate::common::program;
use crate::harness::{Database, Place, complaint, printed};
use serde_json::Value;
use std::fs;
use std::process::Stdio;
use std::time::Duration;

const TOWN: &str = "synth:town:users=80";
const SETTINGS: [&str; 5] = ["factors=4", "triples=8", "cohort=30", "epochs=2", "configuration=pfpl"];

fn settings() -> Vec<&'static str> {
    SETTINGS.iter().flat_map(|&setting| ["--set", setting]).collect()
}

fn audit(arguments: &[&str]) -> Value {
    let mut command = program();
    command.args(["audit", "--json", "--quiet", "--data", TOWN, "--people", "80"]).args(arguments);
    serde_json::from_str(&printed(&mut command)).unwrap()
}

/// The server is killed again and again meanwhile: no round's uploads are missing, and none are half there.
#[test]
fn what_is_kept_shows_an_audit_what_the_simulator_shows_it() {
    let simulated = audit(&[&["--model", "fpl"], &settings()[..]].concat());
    let place = Place::new(Database::Sqlite);
    let mut serving = place.serve();
    let rounds = simulated["rounds"].as_u64().unwrap().to_string();
    let create = ["--model", "fpl", "--catalog-of", TOWN, "--devices", "80", "--check-in-seconds", "0"];
    let create = [&create[..], &settings(), &["--record-uploads", "--rounds", &rounds]].concat();
    place.found("town", &create);
    let owners = place.path("owners.tsv");
    let mut fleet = place.fleet("town", &["--data", TOWN, "--devices-out", owners.to_str().unwrap()]);
    let fleet = fleet.stdout(Stdio::null()).spawn().unwrap();
    for pause in [900, 150, 80, 240, 130] {
        std::thread::sleep(Duration::from_millis(pause));
        serving.kill();
        serving = place.serve();
    }
    assert!(fleet.wait_with_output().unwrap().status.success(), "the fleet failed");
    let folder = place.path("server/uploads/town");
    let kept = audit(&["--uploads", folder.to_str().unwrap(), "--devices", owners.to_str().unwrap()]);
    for what in ["rounds", "uploads", "people", "attacks", "over_rounds"] {
        assert_eq!(kept[what], simulated[what], "{what}");
        assert!(!kept[what].is_null(), "{what}");
    }
    let attacks = kept["attacks"].as_array().unwrap();
    let combined = attacks.iter().find(|attack| attack["name"] == "combined").unwrap();
    assert!(combined["auc"].as_f64().unwrap() > 0.95, "{combined}");
    assert_eq!(fs::read_dir(&folder).unwrap().count().to_string(), rounds);
    drop(serving);
}

#[test]
fn owners_are_told_may_refuse_and_take_their_uploads_along() {
    let place = Place::new(Database::Sqlite);
    let _serving = place.serve();
    let create = ["--model", "fcf", "--catalog-of", TOWN, "--set", "factors=2", "--set", "deadline=2"];
    place.found("town", &[&create[..], &["--record-uploads", "--check-in-seconds", "0"]].concat());
    fs::write(place.path("history.tsv"), "item\n1\n2\n3\n").unwrap();
    let device = |arguments: &[&str]| {
        let mut command = program();
        command.arg("device").args(arguments).arg("--store").arg(place.path("device"));
        printed(&mut command)
    };
    let (url, token) = (place.url(), place.path("enrol.token"));
    let history = place.path("history.tsv");
    let enrol = ["enrol", "--server", &url, "--federation", "town", "--token-file", token.to_str().unwrap()];
    let told = device(&[&enrol[..], &["--history", history.to_str().unwrap()]].concat());
    assert!(told.contains("the server keeps every one of them, for an audit"), "{told}");
    device(&["policy", "--refuse", "kept-uploads"]);
    let refused = device(&["run", "--once"]);
    assert!(refused.contains("\"kept-uploads\" is not wanted"), "{refused}");
    let kept = place.path("server/uploads/town");
    assert!(!kept.exists());
    // All of it shown: of three likes, half of them by a secret of the device's, one device in eight shows none.
    device(&["policy", "--no-refuse", "kept-uploads", "--pi", "1"]);
    while !kept.join("round-0000000001").exists() && fs::read_dir(&kept).map_or(0, Iterator::count) == 0 {
        device(&["run", "--once"]);
    }
    assert!(device(&["status"]).contains("the server says that it keeps them"));
    device(&["withdraw"]);
    assert_eq!(fs::read_dir(&kept).unwrap().count(), 0);
}

#[test]
fn uploads_that_say_nothing_or_belong_to_nobody_are_not_kept() {
    let place = Place::new(Database::Sqlite);
    let _serving = place.serve();
    for (setting, why) in [("seal=secagg", "updates are sealed"), ("anonymous=true", "could not be deleted")]
    {
        let mut command = program();
        command.args(["federation", "create", "town", "--model", "fcf", "--catalog-of", TOWN]);
        command.args(["--set", "cohort=50", "--devices", "80", "--set", setting, "--record-uploads"]);
        command.args(["--server", &place.url(), "--token-file"]).arg(place.path("server/admin.token"));
        let wrong = complaint(&mut command);
        assert!(wrong.contains("record_uploads") && wrong.contains(why), "{wrong}");
    }
}
