//! More rounds, rounds without end, and rounds by a schedule.

use crate::scene::{NAME, Town, fpl, history, options, seconds, wait_until, wall_clock};
use serde_json::{Value, json};
use sottovoce_device::{Device, Method, NextStep, WaitReason};
use sottovoce_server::federation::{Clock, FederationConfig};
use sottovoce_server::now;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const HOUR: u64 = 3_600_000;

fn state(town: &Town) -> &'static str {
    town.federation().public().state
}

fn path(rest: &str) -> String {
    format!("/federations/{NAME}{rest}")
}

/// An operator's request that must succeed.
fn operate(town: &Town, rest: &str, body: &Value) -> Value {
    let (status, answer) = town.operate(&town.admin(), Method::Post, &path(rest), Some(body));
    assert_eq!(status, 200, "{answer}");
    answer
}

/// Lets devices work until so many rounds are over.
fn until_round(town: &Town, people: &mut [Device], round: u64) {
    town.until("rounds are held", people, |federation| federation.view(now()).round == round);
}

/// Lets devices check in a few times; returns the rounds that are over.
fn after_check_ins(town: &Town, people: &mut [Device]) -> u64 {
    for _ in 0..3 {
        people.iter_mut().for_each(|device| drop(town.step(device)));
    }
    town.federation().view(now()).round
}

#[test]
fn a_finished_federation_is_extended_and_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let town = Town::open(folder.path());
    town.create(fpl(3, 2));
    let token = town.admin();
    let mut people = town.people(3);
    town.until("training ends", &mut people, |federation| federation.public().state == "finished");
    let (status, refused) = town.operate(&token, Method::Post, &path("/resume"), Some(&json!({})));
    assert!(status == 409 && refused["detail"].as_str().unwrap().contains("extend"), "{refused}");
    let extended = operate(&town, "/extend", &json!({"rounds": 3}));
    assert_eq!((extended["rounds"].as_u64(), extended["state"].as_str()), (Some(5), Some("running")));
    until_round(&town, &mut people, 3);
    // A running one, too; and the server remembers.
    operate(&town, "/extend", &json!({"rounds": 1}));
    let digest = town.federation().public().digest;
    let before = town.federation().public().version;
    let town = town.restart(folder.path(), &wall_clock());
    assert!(town.federation().public().version > before || town.federation().public().digest == digest);
    assert_eq!(town.federation().view(now()).rounds, 6);
    let (status, wrong) = {
        let path = path("/extend");
        let body = json!({"rounds": 0});
        let request = Some(&body);
        town.operate(&token, Method::Post, &path, request)
    };
    assert!(status == 422 && wrong["detail"].as_str().unwrap().contains("rounds is 0"), "{wrong}");
    town.stop();
}

/// A budget of differential privacy that is spent allows no more rounds, whatever operators wish.
#[test]
fn a_spent_budget_is_not_extended_and_one_that_allows_no_round_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let town = Town::open(folder.path());
    let noise = |epsilon: f64| {
        let settings = json!({"factors": 2, "triples": 5, "learning_rate": 0.1, "clip": 0.5, "noise": "central",
            "noise_multiplier": 1.0, "epsilon": epsilon});
        FederationConfig { settings: serde_json::from_value(settings).unwrap(), ..fpl(3, 300) }
    };
    let catalog = "item\ttitle\n0-0\tA\n1-0\tB\n".to_owned();
    let created = town.runtime.block_on(town.running.server.create_federation("small", noise(0.01), catalog));
    let refused = created.err().unwrap().to_string();
    assert!(refused.contains("privacy budget allows no round") && refused.contains("larger epsilon"), "{refused}");
    town.create(noise(7.0));
    let mut people = town.people(3);
    town.until("the budget is spent", &mut people, |federation| federation.public().state == "finished");
    let held = town.federation().view(now()).round;
    assert!((1..300).contains(&held), "{held}");
    let (status, refused) = town.operate(&town.admin(), Method::Post, &path("/extend"), Some(&json!({"rounds": 5})));
    assert!(status == 409 && refused["detail"].as_str().unwrap().contains("budget"), "{refused}");
    assert_eq!(state(&town), "finished");
    town.stop();
}

/// A clock that stands still until it is moved.
fn clock() -> (Arc<AtomicU64>, Clock) {
    let time = Arc::new(AtomicU64::new(now()));
    let read = Arc::clone(&time);
    (time, Arc::new(move || read.load(Ordering::SeqCst)))
}

fn scheduled(folder: &Path, clock: &Clock, schedule: &Value) -> (Town, Vec<Device>) {
    let town = Town::open_at(folder, clock);
    town.create(fpl(2, 1));
    operate(&town, "/schedule", &json!({"schedule": schedule, "endless": true}));
    let people = town.people(2);
    (town, people)
}

#[test]
fn rounds_are_held_every_so_many_hours_without_end() {
    let folder = tempfile::tempdir().unwrap();
    let (time, clock) = clock();
    let schedule = json!({"every_hours": 6.0, "rounds": 2});
    let (town, mut people) = scheduled(folder.path(), &clock, &schedule);
    // More than the one round that the federation was set up with; then it waits, and says for what.
    until_round(&town, &mut people, 2);
    assert_eq!(after_check_ins(&town, &mut people), 2);
    let view = town.federation().view(now());
    assert!(view.public.waits_for.as_ref().unwrap().contains("its schedule: the next round is due on"), "{view:?}");
    let told = people[0].waits_for().unwrap().to_owned();
    assert!(told.contains("the next round is due on"), "{told}");
    time.fetch_add(6 * HOUR - 1, Ordering::SeqCst);
    assert_eq!(after_check_ins(&town, &mut people), 2);
    // The schedule goes on where it was after a restart.
    let town = town.restart(folder.path(), &clock);
    assert_eq!(town.federation().view(now()).plan.schedule.as_ref().unwrap().rounds, 2);
    assert!(town.federation().view(now()).under_way.is_none());
    time.fetch_add(1, Ordering::SeqCst);
    wait_until("the next rounds begin", || town.federation().view(now()).under_way.is_some());
    // Without a schedule and with an end, the rounds that were planned are over.
    let token = std::fs::read_to_string(folder.path().join("server/admin.token")).unwrap();
    let body = json!({"endless": false});
    let (status, _) = town.operate(token.trim(), Method::Post, &path("/schedule"), Some(&body));
    assert_eq!(status, 200);
    town.stop();
}

#[test]
fn rounds_are_held_at_a_time_of_the_day_or_when_new_people_are_there() {
    let folder = tempfile::tempdir().unwrap();
    let (time, clock) = clock();
    // Deadlines of rounds are in the future for those who go by the system's clock, too.
    let midnight = (time.load(Ordering::SeqCst) / (24 * HOUR) + 1) * (24 * HOUR);
    time.store(midnight + HOUR, Ordering::SeqCst);
    let (town, mut people) = scheduled(folder.path(), &clock, &json!({"at": "02:30"}));
    assert_eq!(after_check_ins(&town, &mut people), 0);
    time.store(midnight + 5 * HOUR / 2, Ordering::SeqCst);
    until_round(&town, &mut people, 1);
    assert_eq!(after_check_ins(&town, &mut people), 1);
    time.store(midnight + 27 * HOUR, Ordering::SeqCst);
    until_round(&town, &mut people, 2);
    // Another schedule in its place: all who are there count once.
    operate(&town, "/schedule", &json!({"schedule": {"new_people": 2}, "endless": true}));
    until_round(&town, &mut people, 3);
    people.push(town.device(7, &history(1, 7), options(false)));
    assert_eq!(after_check_ins(&town, &mut people), 3);
    let waits = town.federation().public().waits_for.unwrap();
    assert_eq!(waits, "1 more new device: 1 of 2 enrolled since the last rounds");
    people.push(town.device(8, &history(0, 8), options(false)));
    until_round(&town, &mut people, 4);
    let wrong = json!({"schedule": {"at": "25:00"}});
    let (status, refused) = town.operate(&town.admin(), Method::Post, &path("/schedule"), Some(&wrong));
    assert!(status == 422 && refused["detail"].as_str().unwrap().contains("such as 02:30"), "{refused}");
    town.stop();
}

/// Who waits for what, in the answer to a check-in and in the federation's page.
#[test]
fn a_federation_says_what_it_waits_for() {
    let folder = tempfile::tempdir().unwrap();
    let town = Town::open(folder.path());
    town.create(FederationConfig { minimum: Some(4), ..fpl(3, 2) });
    let mut people = town.people(2);
    let waits = |town: &Town| town.federation().view(now()).public.waits_for.unwrap_or_default();
    let next = people[0].step(&town.transport(), seconds()).unwrap();
    assert!(matches!(next, NextStep::Wait(_, WaitReason::NoRound { .. })), "{next:?}");
    assert_eq!(people[0].waits_for(), Some("1 more device: 2 of 3 enrolled"));
    assert_eq!(waits(&town), "1 more device: 2 of 3 enrolled");
    people.push(town.device(2, &history(0, 2), options(false)));
    let too_few = "1 more device: 3 of the 4 that a round needs can be asked";
    wait_until("a round is tried", || waits(&town) == too_few);
    people.push(town.device(3, &history(1, 3), options(false)));
    wait_until("a round is open", || waits(&town).starts_with("4 more updates of round 0: 0 of 4 came"));
    town.until("training ends", &mut people, |federation| federation.public().state == "finished");
    assert_eq!(town.federation().public().waits_for, None);
    town.stop();
}

/// Settings under which no round could ever count are refused when the federation is created, with what helps.
#[test]
fn what_can_never_be_met_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let town = Town::open(folder.path());
    let refused = |config: FederationConfig| {
        let catalog = "item\ttitle\n0-0\tA\n1-0\tB\n0-1\tC\n".to_owned();
        let created = town.runtime.block_on(town.running.server.create_federation("x", config, catalog));
        created.err().map(|error| error.to_string()).unwrap_or_default()
    };
    let with = |more: Value| {
        let mut settings = json!({"factors": 2, "triples": 5, "learning_rate": 0.1});
        more.as_object().unwrap().iter().for_each(|(key, value)| settings[key] = value.clone());
        FederationConfig { settings: serde_json::from_value(settings).unwrap(), ..fpl(30, 9) }
    };
    let why = refused(FederationConfig { minimum: Some(11), ..with(json!({"cohort": 10})) });
    assert!(why.contains("minimum is 11, but a round wants at most 10") && why.contains("cohort=11"), "{why}");
    let why = refused(FederationConfig { minimum: Some(31), ..with(json!({"seal": "secagg"})) });
    assert!(why.contains("at most 30 updates"), "{why}");
    let rare = FederationConfig { present_within: Some(30), check_in_seconds: 60, ..with(json!({})) };
    let why = refused(rare);
    assert!(why.contains("present_within is 30 s, but devices check in every 60 s"), "{why}");
    let why = refused(FederationConfig { upload_bytes: Some(20), ..with(json!({"seal": "secagg"})) });
    assert!(why.contains("upload_bytes is 20, but every update has at least"), "{why}");
    assert!(town.running.server.federations().is_empty());
    // Just so that it can be met.
    assert_eq!(refused(FederationConfig { minimum: Some(10), ..with(json!({"cohort": 10})) }), "");
    town.stop();
}
