//! What operators and owners meet on their way.

use crate::common::program;
use crate::harness::{Database, Place, complaint, printed};
use serde_json::Value;

const TOWN: &str = "synth:town:users=50";

#[test]
fn a_federation_is_paused_resumed_and_outlives_its_server() {
    let place = Place::new(Database::Sqlite);
    let serving = place.serve();
    let create = [
        "--model",
        "fcf",
        "--catalog-of",
        TOWN,
        "--devices",
        "50",
        "--rounds",
        "3",
        "--check-in-seconds",
        "0",
    ];
    place.found("town", &create);
    assert_eq!(place.operate(&["pause", "town"])["state"], "paused");
    assert!(serving.stop(), "a server that is asked to end ends well");
    let _serving = place.serve();
    assert_eq!(place.operate(&["show", "town"])["state"], "paused");
    let waiting = printed(&mut place.fleet("town", &["--data", TOWN, "--seconds", "1"]));
    let told: Value = serde_json::from_str(&waiting).unwrap();
    assert_eq!((told["devices"].as_u64(), told["version"].as_u64()), (Some(50), Some(0)));
    assert_eq!(place.operate(&["resume", "town"])["state"], "running");
    let told: Value = serde_json::from_str(&printed(&mut place.fleet("town", &["--data", TOWN]))).unwrap();
    assert_eq!((told["updates"].as_u64(), told["version"].as_u64()), (Some(150), Some(3)));
    assert_eq!(place.operate(&["list"])["federations"].as_array().unwrap().len(), 1);
    assert!(place.log().contains("finished"));
}

#[test]
fn what_is_wrong_is_said_in_words() {
    let place = Place::new(Database::Sqlite);
    let url = place.url();
    let token = place.path("token");
    std::fs::write(&token, "svo_not-a-token\n").unwrap();
    let with = |arguments: &[&str]| {
        let mut command = program();
        command.args(arguments).args(["--server", &url, "--token-file"]).arg(&token);
        complaint(&mut command)
    };
    assert!(with(&["federation", "list"]).contains("does not answer"));
    let _serving = place.serve();
    assert!(with(&["federation", "list"]).contains("bad-credential"));
    let wrong = with(&["fleet", "--federation", "films", "--data", TOWN]);
    assert!(wrong.contains("no-federation"), "{wrong}");
    let admin = place.path("server/admin.token");
    let create = |arguments: &[&str]| {
        let mut command = program();
        command.args(["federation", "create", "town", "--catalog-of", TOWN, "--server", &url]);
        complaint(command.args(arguments).arg("--token-file").arg(&admin))
    };
    assert!(create(&["--model", "fpl"]).contains("setting triples must be given"));
    assert!(create(&["--model", "fpl", "--set", "pi=0.5"]).contains("owners' to choose"));
    assert!(create(&["--model", "bpr-mf"]).contains("fpl, fcf"));
    assert!(create(&["--model", "fcf", "--row-norm=-1"]).contains("row_norm is -1"));
}

#[test]
fn a_second_server_on_the_same_record_is_turned_away() {
    let place = Place::new(Database::Sqlite);
    let _serving = place.serve();
    let mut other = program();
    other.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(place.path("server"));
    let wrong = complaint(&mut other);
    assert!(wrong.contains("in use by another server"), "{wrong}");
}
