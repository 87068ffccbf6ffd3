//! The operators' commands.

use crate::harness::{Database, TestServer, error_of, printed, program};
use serde_json::Value;
use std::process::Command;

const TOWN: &str = "synth:town:users=50";

#[test]
fn federation_pauses_resumes_and_survives_restarts() {
    let server = TestServer::new(Database::Sqlite);
    let serving = server.serve();
    let create =
        ["--model", "fcf", "--catalog-of", TOWN, "--devices", "50", "--rounds", "3", "--check-in-seconds", "0"];
    server.create("town", &create);
    assert_eq!(server.operate(&["pause", "town"])["state"], "paused");
    assert!(serving.stop(), "SIGTERM ends the server");
    let _serving = server.serve();
    assert_eq!(server.operate(&["show", "town"])["state"], "paused");
    let store = server.path("fleet");
    let fleet = ["--data", TOWN, "--store", store.to_str().unwrap()];
    let waiting = printed(&mut server.fleet("town", &[&fleet[..], &["--seconds", "0.3"]].concat()));
    let told: Value = serde_json::from_str(&waiting).unwrap();
    assert_eq!((told["devices"].as_u64(), told["version"].as_u64()), (Some(50), Some(0)));
    assert_eq!(server.operate(&["resume", "town"])["state"], "running");
    let told: Value = serde_json::from_str(&printed(&mut server.fleet("town", &fleet))).unwrap();
    assert_eq!((told["updates"].as_u64(), told["version"].as_u64()), (Some(150), Some(3)));
    // Without the devices' state nobody can take their places, and the message says what would have helped.
    let others = error_of(&mut server.fleet("town", &["--data", TOWN]));
    assert!(others.contains("key-used") && others.contains("--store"), "{others}");
    assert_eq!(server.operate(&["list"])["federations"].as_array().unwrap().len(), 1);
    assert!(server.log().contains("finished"));
}

/// The server stops by itself, says why, keeps the last sound model, and cannot be made to go on.
#[test]
fn a_diverged_federation_is_stopped_and_shown() {
    let server = TestServer::new(Database::Sqlite);
    let _serving = server.serve();
    let settings = ["strategy=sum", "learning_rate=1", "triples=100", "user_regularisation=0", "init_deviation=1"];
    let mut create = vec!["--model", "fpl", "--catalog-of", TOWN, "--devices", "50", "--check-in-seconds", "0"];
    create.extend(["--rounds", "40"]);
    create.extend(settings.iter().flat_map(|setting| ["--set", setting]));
    server.create("town", &create);
    let told: Value = serde_json::from_str(&printed(&mut server.fleet("town", &["--data", TOWN]))).unwrap();
    let shown = server.operate(&["show", "town"]);
    assert_eq!(shown["state"], "failed", "{shown:#}");
    let why = shown["failure"].as_str().unwrap();
    assert!(why.contains("diverged") && why.contains("learning_rate"), "{why}");
    let version = told["version"].as_u64().unwrap();
    assert!(version < 40, "{version}");
    assert!(server.model().iter().all(|value| value.abs() <= 1e4));
    let mut resume = program();
    resume.args(["federation", "resume", "town", "--server", &server.url(), "--token-file"]);
    let refused = error_of(resume.arg(server.path("server/admin.token")));
    assert!(refused.contains("cannot continue"), "{refused}");
}

#[test]
fn errors_name_the_cause() {
    let server = TestServer::new(Database::Sqlite);
    let url = server.url();
    let token = server.path("token");
    std::fs::write(&token, "svo_not-a-token\n").unwrap();
    let with = |arguments: &[&str]| {
        let mut command = program();
        command.args(arguments).args(["--server", &url, "--token-file"]).arg(&token);
        error_of(&mut command)
    };
    assert!(with(&["federation", "list"]).contains("does not answer"));
    let _serving = server.serve();
    assert!(with(&["federation", "list"]).contains("bad-credential"));
    let wrong = with(&["fleet", "--federation", "films", "--data", TOWN]);
    assert!(wrong.contains("no-federation"), "{wrong}");
    let admin = server.path("server/admin.token");
    let create = |arguments: &[&str]| {
        let mut command = program();
        command.args(["federation", "create", "town", "--catalog-of", TOWN, "--server", &url]);
        error_of(command.args(arguments).arg("--token-file").arg(&admin))
    };
    assert!(create(&["--model", "fpl"]).contains("setting triples must be given"));
    assert!(create(&["--model", "fpl", "--set", "pi=0.5"]).contains("owners' to choose"));
    assert!(create(&["--model", "bpr-mf"]).contains("fpl, fcf"));
    assert!(create(&["--model", "fcf", "--row-norm=-1"]).contains("row_norm is -1"));
}

#[test]
fn rejects_a_second_server_on_the_same_database() {
    let server = TestServer::new(Database::Sqlite);
    let _serving = server.serve();
    let mut other = program();
    other.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(server.path("server"));
    let wrong = error_of(&mut other);
    assert!(wrong.contains("in use by another server"), "{wrong}");
}

/// The second listing of README's "Deploy it", with another port and fewer rounds.
#[test]
fn what_the_readme_says_can_be_finished_by_one_person() {
    let readme = include_str!("../../../../README.md");
    let (_, after) = readme.split_once("## Deploy it").unwrap();
    let listing = after.split("```").nth(3).unwrap();
    assert!(listing.contains("sottovoce fleet") && listing.contains("sottovoce device run"), "{listing}");
    let server = TestServer::new(Database::Sqlite);
    let _serving = server.serve();
    let url = server.url();
    let quick = [
        ("http://127.0.0.1:8470", url.as_str()),
        ("--rounds 20", "--rounds 3"),
        ("--check-in-seconds 1", "--check-in-seconds 0"),
    ];
    let script = quick.iter().fold(format!("set -e\n{listing}\nwait\n"), |text, (old, new)| text.replace(old, new));
    let binaries = std::path::Path::new(program().get_program()).parent().unwrap().to_owned();
    let path = format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).current_dir(server.folder.path()).env("PATH", path).env_remove("SOTTOVOCE_DATA");
    shell.env("SOTTOVOCE_SERVER", server.url()).env("SOTTOVOCE_TOKEN_FILE", server.path("server/admin.token"));
    shell.env("SOTTOVOCE_DEVICE", server.path("device"));
    let said = printed(&mut shell);
    assert!(said.contains("the federation has finished") && said.contains("For you, by fpl (version 3"), "{said}");
}

/// More rounds, who did it, what would be deleted, and that devices are told, all from the command line.
#[test]
fn a_federation_lives_on_and_ends_from_the_command_line() {
    let server = TestServer::new(Database::Sqlite);
    let _serving = server.serve();
    let create =
        ["--model", "fcf", "--catalog-of", TOWN, "--devices", "20", "--rounds", "1", "--check-in-seconds", "0"];
    server.create("town", &create);
    let fleet = || {
        printed(
            &mut server
                .fleet("town", &["--data", TOWN, "--devices", "20", "--store", server.path("fleet").to_str().unwrap()]),
        )
    };
    fleet();
    assert_eq!(server.operate(&["extend", "town", "--rounds", "2"])["rounds"], 3);
    let told: Value = serde_json::from_str(&fleet()).unwrap();
    assert_eq!(told["version"], 3);
    let scheduled = server.operate(&["schedule", "town", "--every-hours", "24", "--endless"]);
    assert_eq!((scheduled["state"].as_str(), scheduled["plan"]["endless"].as_bool()), (Some("running"), Some(true)));
    let tokens = server.operate(&["tokens", "town"]);
    let number = tokens["tokens"][0]["id"].to_string();
    server.operate_quietly(&["revoke-token", "town", &number]);
    assert_eq!(server.operate(&["tokens", "town"])["tokens"].as_array().unwrap().len(), 0);
    let operator = server.operate(&["operator", "--role", "observer", "--label", "Ada", "--hours", "5"]);
    assert_eq!(server.operate(&["operators"])["tokens"].as_array().unwrap().len(), 2);
    server.operate_quietly(&["revoke-operator", &operator["id"].to_string()]);
    let told = server.operate(&["archive", "town"]);
    assert!(told["archive_deletes"][0].as_str().unwrap().starts_with("20 devices"), "{told}");
    assert_eq!(server.operate(&["show", "town"])["state"], "running");
    assert_eq!(server.operate(&["archive", "town", "--yes"])["done"], "archived");
    assert_eq!(server.operate(&["show", "town"])["state"], "archived");
    assert_eq!(server.operate(&["delete", "town", "--yes"])["done"], "deleted");
    let acts = server.operate(&["acts"]);
    let done: Vec<&str> = acts["acts"].as_array().unwrap().iter().filter_map(|act| act["act"].as_str()).collect();
    let expected = ["delete federation", "archive", "revoke operator token", "create operator token"];
    assert_eq!(done[..4], expected);
    assert!(done[4..].starts_with(&["revoke enrolment token", "schedule", "extend"]), "{done:?}");
}
