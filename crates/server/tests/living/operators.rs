//! Operators' acts, tokens, archives and deletions.

use crate::scene::{NAME, Town, fpl, wait_until, wall_clock};
use serde_json::{Value, json};
use sottovoce_device::{Method, NextStep, StopReason};
use sottovoce_server::federation::FederationConfig;
use sottovoce_server::storage::TokenPurpose;
use sottovoce_server::{Config, Role};

fn path(rest: &str) -> String {
    format!("/federations/{NAME}{rest}")
}

fn ended(next: &NextStep) -> Option<&str> {
    match next {
        NextStep::Stop(StopReason::Rejected { status: 410, code, .. }) => Some(code),
        _ => None,
    }
}

#[test]
fn an_archive_keeps_the_model_and_nothing_of_people() {
    let folder = tempfile::tempdir().unwrap();
    let town = Town::open(folder.path());
    town.create(FederationConfig { record_uploads: true, ..fpl(3, 50) });
    let token = town.admin();
    let mut people = town.people(3);
    town.until("three rounds", &mut people, |federation| federation.public().version >= 3);
    let (_, told) = town.operate(&token, Method::Get, &path("/deletion"), None);
    assert!(told["archive_deletes"][0].as_str().unwrap().starts_with("3 devices"), "{told}");
    assert!(told["archive_deletes"].as_array().unwrap().iter().any(|what| what.as_str().unwrap().contains("audit")));
    let unsure = json!({"confirm": "twon"});
    let (status, refused) = town.operate(&token, Method::Post, &path("/archive"), Some(&unsure));
    assert!(status == 400 && refused["detail"].as_str().unwrap().contains(NAME), "{refused}");
    assert_eq!(town.federation().public().state, "running");
    let sure = json!({"confirm": NAME});
    let (status, archived) = town.operate(&token, Method::Post, &path("/archive"), Some(&sure));
    assert_eq!((status, archived["state"].as_str(), archived["devices"].as_u64()), (200, Some("archived"), Some(0)));
    assert!(!folder.path().join("server/uploads").join(NAME).exists());
    let version = town.federation().public().version;
    let check = |town: &Town| {
        assert!(town.running.server.tokens(Some(town.federation().id)).is_empty());
        assert_eq!((town.federation().public().version, town.federation().public().state), (version, "archived"));
        // Nothing goes on, and nobody makes it.
        for (rest, body) in [("/resume", json!({})), ("/extend", json!({"rounds": 1})), ("/archive", sure.clone())] {
            let (status, answer) = town.operate(&token, Method::Post, &path(rest), Some(&body));
            assert!(status == 409 || status == 410, "{rest}: {answer}");
        }
    };
    check(&town);
    // Devices are told, keep what is theirs, and may forget the server.
    assert_eq!(ended(&town.step(&mut people[0])), Some("archived"));
    let first = &people[0];
    assert!(first.recommend(3).is_ok() && first.ledger().totals().updates >= 3);
    people[1].withdraw().unwrap();
    assert_eq!(town.step(&mut people[1]), NextStep::Stop(StopReason::Withdrawn));
    let town = town.restart(folder.path(), &wall_clock());
    check(&town);
    town.stop();
}

#[test]
fn what_is_deleted_is_gone_and_devices_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let town = Town::open(folder.path());
    town.create(fpl(2, 50));
    let token = town.admin();
    let mut people = town.people(2);
    town.until("two rounds", &mut people, |federation| federation.public().version >= 2);
    let delete = path(&format!("?confirm={NAME}"));
    let operator = town.token(TokenPurpose::Operator { role: Role::Operator.to_string() });
    assert_eq!(town.operate(&operator, Method::Delete, &delete, None).0, 403);
    assert_eq!(town.operate(&token, Method::Delete, &path(""), None).0, 400);
    assert_eq!(town.operate(&token, Method::Delete, &delete, None).0, 204);
    assert!(town.running.server.federations().is_empty());
    let objects = || std::fs::read_dir(folder.path().join("server/models/federations/0")).map_or(0, Iterator::count);
    assert_eq!(objects(), 0);
    assert_eq!(ended(&town.step(&mut people[0])), Some("deleted"));
    let town = town.restart(folder.path(), &wall_clock());
    assert_eq!(ended(&town.step(&mut people[1])), Some("deleted"));
    // The name may be used again, for another federation with other devices.
    town.create(fpl(2, 2));
    let mut others = town.people(2);
    town.until("training ends", &mut others, |federation| federation.public().state == "finished");
    town.stop();
}

#[test]
fn acts_say_who_did_what_and_what_was_refused() {
    let folder = tempfile::tempdir().unwrap();
    let town = Town::open(folder.path());
    let token = town.admin();
    let body = json!({"name": NAME, "model": "fcf", "settings": {"factors": 2}, "catalog": "item\ttitle\na\tA\n"});
    assert_eq!(town.operate(&token, Method::Post, "/federations", Some(&body)).0, 201);
    let (_, made) = town.operate(&token, Method::Post, "/tokens", Some(&json!({"role": "operator", "label": "Ada"})));
    let ada = made["token"].as_str().unwrap().to_owned();
    town.operate(&ada, Method::Post, &path("/pause"), Some(&json!({})));
    town.operate(&ada, Method::Post, &path("/extend"), Some(&json!({"rounds": 7})));
    let (_, poster) =
        town.operate(&ada, Method::Post, &path("/enrolment-tokens"), Some(&json!({"label": "poster", "uses": 3})));
    let number = poster["id"].as_u64().unwrap();
    let (_, listed) = town.operate(&ada, Method::Get, &path("/enrolment-tokens"), None);
    assert_eq!(
        (listed["tokens"][0]["uses"].as_u64(), listed["tokens"][0]["label"].as_str()),
        (Some(3), Some("poster"))
    );
    assert_eq!(town.operate(&ada, Method::Delete, &path(&format!("/enrolment-tokens/{number}")), None).0, 204);
    // Not an admin, and no such device.
    assert_eq!(town.operate(&ada, Method::Post, "/tokens", Some(&json!({"role": "admin"}))).0, 403);
    assert_eq!(town.operate(&ada, Method::Delete, &path("/devices/9"), None).0, 404);
    // Whoever has no token is no operator.
    assert_eq!(town.operate("svo_nobody", Method::Post, &path("/resume"), Some(&json!({}))).0, 401);
    let list = |town: &Town| {
        let (status, told) = town.operate(&token, Method::Get, "/acts?limit=50", None);
        assert_eq!(status, 200);
        told["acts"].as_array().unwrap().clone()
    };
    let acts = list(&town);
    let shown = |act: &Value| {
        let text = |key: &str| act[key].as_str().unwrap_or("-").to_owned();
        format!("{} {} {}: {}", text("label"), text("act"), text("federation"), text("detail"))
    };
    let expected = [
        "Ada revoke device town: 9 refused: not-found".to_owned(),
        "Ada create operator token -: refused: not-allowed".to_owned(),
        format!("Ada revoke enrolment token town: {number}"),
        format!("Ada create enrolment token town: token {number} poster"),
        "Ada extend town: 7 rounds".to_owned(),
        "Ada pause town: ".to_owned(),
        "first create operator token -: token 1, operator Ada".to_owned(),
        "first create federation town: model fcf".to_owned(),
        "whoever runs the server create operator token -: token 0, admin first".to_owned(),
    ];
    assert_eq!(acts.iter().map(shown).collect::<Vec<_>>(), expected);
    let secret = ada.trim_start_matches("svo_");
    assert!(!format!("{acts:?}").contains(secret));
    assert_eq!(town.operate(&ada, Method::Get, "/acts", None).0, 200);
    let town = town.restart(folder.path(), &wall_clock());
    assert_eq!(list(&town), acts);
    town.stop();
}

/// Whoever has the server's machine has a new admin's token, and that shows.
#[test]
fn a_lost_admin_token_is_replaced_on_the_host() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config { listen: "127.0.0.1:0".to_owned(), data: folder.path().join("server"), ..Config::default() };
    let clock = wall_clock();
    let town = Town::open_with(&config, &clock);
    let lost = town.admin();
    town.stop();
    let town = Town::open_with(&Config { new_admin_token: true, ..config.clone() }, &clock);
    let found = town.admin();
    assert_ne!(found, lost);
    let (_, told) = town.operate(&found, Method::Get, "/acts?limit=1", None);
    assert_eq!(told["acts"][0]["detail"], "token 1, admin recovered");
    // The lost one is revoked by hand.
    assert_eq!(town.operate(&found, Method::Delete, "/tokens/0", None).0, 204);
    assert_eq!(town.operate(&lost, Method::Get, "/me", None).0, 401);
    town.stop();
    // Without the flag there is no other one.
    let town = Town::open_with(&config, &clock);
    assert!(town.running.admin_token.is_none());
    wait_until("the token from before is in use", || town.operate(&found, Method::Get, "/me", None).0 == 200);
    town.stop();
}
