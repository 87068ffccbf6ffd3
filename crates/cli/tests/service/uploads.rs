//! Retained uploads: what an audit needs, and no more.

use crate::harness::{Database, TestServer, error_of, printed, program};
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

/// The server is killed several times: no round's uploads are missing or incomplete.
#[test]
fn audit_of_retained_uploads_equals_audit_of_the_simulator() {
    let simulated = audit(&[&["--model", "fpl"], &settings()[..]].concat());
    let server = TestServer::new(Database::Sqlite);
    let mut serving = server.serve();
    let rounds = simulated["rounds"].as_u64().unwrap().to_string();
    let create = ["--model", "fpl", "--catalog-of", TOWN, "--devices", "80", "--check-in-seconds", "0"];
    // With cohorts that follow from the seed, as the simulator's do.
    let create = [&create[..], &settings(), &["--record-uploads", "--simulated-noise", "--rounds", &rounds]].concat();
    server.create("town", &create);
    let owners = server.path("owners.tsv");
    let mut fleet = server.fleet("town", &["--data", TOWN, "--devices-out", owners.to_str().unwrap()]);
    let fleet = fleet.stdout(Stdio::null()).spawn().unwrap();
    for pause in [900, 150, 80, 240, 130] {
        std::thread::sleep(Duration::from_millis(pause));
        serving.kill();
        serving = server.serve();
    }
    assert!(fleet.wait_with_output().unwrap().status.success(), "the fleet failed");
    let folder = server.path("server/uploads/town");
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
fn owners_see_retention_can_decline_it_and_withdrawal_deletes_uploads() {
    let server = TestServer::new(Database::Sqlite);
    let _serving = server.serve();
    let create = ["--model", "fcf", "--catalog-of", TOWN, "--set", "factors=2", "--set", "deadline=1"];
    server.create("town", &[&create[..], &["--record-uploads", "--check-in-seconds", "0"]].concat());
    fs::write(server.path("history.tsv"), "item\n1\n2\n3\n").unwrap();
    let device = |arguments: &[&str]| {
        let mut command = program();
        command.arg("device").args(arguments).arg("--store").arg(server.path("device"));
        printed(&mut command)
    };
    let (url, token) = (server.url(), server.path("enrol.token"));
    let history = server.path("history.tsv");
    let enrol = ["enrol", "--server", &url, "--federation", "town", "--token-file", token.to_str().unwrap()];
    let enrol = [&enrol[..], &["--accept", "open"]].concat();
    let told = device(&[&enrol[..], &["--history", history.to_str().unwrap()]].concat());
    assert!(told.contains("the server retains all of them for an audit"), "{told}");
    device(&["policy", "--refuse", "kept-uploads"]);
    let refused = device(&["run", "--once"]);
    assert!(refused.contains("\"kept-uploads\" is not wanted"), "{refused}");
    let kept = server.path("server/uploads/town");
    assert!(!kept.exists());
    // With pi = 0.5, one device in eight would use none of its three items.
    device(&["policy", "--no-refuse", "kept-uploads", "--pi", "1"]);
    while !kept.join("round-0000000001").exists() && fs::read_dir(&kept).map_or(0, Iterator::count) == 0 {
        device(&["run", "--once"]);
    }
    assert!(device(&["status"]).contains("the server retains them"));
    device(&["withdraw"]);
    assert_eq!(fs::read_dir(&kept).unwrap().count(), 0);
}

#[test]
fn rejects_retention_of_sealed_and_anonymous_uploads() {
    let server = TestServer::new(Database::Sqlite);
    let _serving = server.serve();
    for (setting, why) in [("seal=secagg", "updates are sealed"), ("anonymous=true", "could not be deleted")] {
        let mut command = program();
        command.args(["federation", "create", "town", "--model", "fcf", "--catalog-of", TOWN]);
        command.args(["--set", "cohort=50", "--devices", "80", "--set", setting, "--record-uploads"]);
        command.args(["--server", &server.url(), "--token-file"]).arg(server.path("server/admin.token"));
        let wrong = error_of(&mut command);
        assert!(wrong.contains("record_uploads") && wrong.contains(why), "{wrong}");
    }
}
