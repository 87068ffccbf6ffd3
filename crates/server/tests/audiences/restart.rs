//! A measuring round survives the end of its server.

use crate::town::{Fleet, Town, agreed, config, seconds};
use serde_json::json;
use sottovoce_server::federation::AudienceConfig;

#[test]
fn measurements_resume_and_spend_once() {
    let folder = tempfile::tempdir().unwrap();
    let town = Town::open(folder.path());
    let audiences =
        AudienceConfig { k: 5, epsilon: 6.0, budget: 12.0, advertiser_budget: 12.0, ..AudienceConfig::default() };
    town.create(config(24, &audiences));
    let mut histories = vec![vec!["skiing", "opera"]; 18];
    histories.resize(24, vec!["chess", "cooking"]);
    let mut fleet = Fleet::new(&town, &histories, &agreed(5, 100.0));
    fleet.train(&town);
    let advertiser = town.advertiser(None);
    let token = advertiser.token.clone();
    let question = json!({"categories": ["skiing", "chess"], "match": "all"});
    let (status, asked) = advertiser.call(sottovoce_device::Method::Post, "/thresholds", Some(&question));
    assert_eq!((status, asked["measurement"].as_u64()), (202, Some(0)), "{asked}");
    assert_eq!(advertiser.create("ski fans", &["skiing"], "any", 0.95).0, 201);
    // The server ends again and again, in whichever step of the seal.
    let mut town = town;
    let (mut restarts, mut passes) = (0, 0);
    loop {
        fleet.step_at(seconds());
        let state = |id: u64| town.with_token(token.clone()).get(&format!("/measurements/{id}"))["state"].clone();
        let states = [state(0), state(1)];
        if states == ["done", "done"] {
            break;
        }
        passes += 1;
        assert!(passes < 2000, "{states:?}");
        // Before a round opens, the server waits to hear of all devices.
        if states.iter().any(|state| state == "measuring") {
            restarts += 1;
            town = town.restart(folder.path());
            fleet.follow(&town);
        }
    }
    assert!(restarts > 5, "{restarts}");
    let advertiser = town.with_token(token);
    let thresholds = advertiser.get("/measurements/0");
    let sizes = thresholds["sizes"].as_array().unwrap();
    assert_eq!(sizes.len(), 9);
    assert!(sizes.iter().all(|size| size.get("size").is_some() != size.get("below").is_some()), "{thresholds}");
    let skiers = advertiser.get("/audiences/0");
    let size = skiers["size"]["size"].as_u64().unwrap();
    assert!((14..=22).contains(&size), "{skiers}");
    assert_eq!(advertiser.get("/audiences")["measurements"], 2);
    // Training was not shortened: two rounds of it, and two that measured.
    let federation = town.federation();
    assert_eq!((federation.public().version, federation.view(0).round), (2, 4));
    town.stop();
}
