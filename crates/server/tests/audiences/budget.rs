//! Budgets, quotas and wrong requests. No device is needed: what is asked for is spent.

use crate::town::{Town, config};
use serde_json::json;
use sottovoce_device::{Method, Request, Transport};
use sottovoce_server::federation::AudienceConfig;

fn town(folder: &std::path::Path, audiences: &AudienceConfig) -> Town {
    let town = Town::open(folder);
    town.create(config(10, audiences));
    town
}

#[test]
fn measurements_are_refused_when_the_budget_is_spent() {
    let folder = tempfile::tempdir().unwrap();
    let budgets = AudienceConfig { epsilon: 0.5, advertiser_budget: 1.0, budget: 1.3, ..AudienceConfig::default() };
    let town = town(folder.path(), &budgets);
    let (one, other) = (town.advertiser(None), town.advertiser(None));
    let mut made = 0;
    let refused = loop {
        let (status, document) = one.create(&format!("variant {made}"), &["opera"], "any", 0.5 + made as f32 / 1000.0);
        match status {
            201 => made += 1,
            _ => break document,
        }
    };
    assert!(made >= 3, "tight accounting allows more than adding up: {made}");
    assert_eq!((&refused["code"], &refused["status"]), (&json!("budget-spent"), &json!(403)));
    let detail = refused["detail"].as_str().unwrap();
    assert!(detail.contains("this advertiser") && detail.contains(&format!("{made} measurements")), "{detail}");
    // Another has a budget of its own, but the federation's is shared.
    let mut others = 0;
    let refused = loop {
        let (status, document) = other.create(&format!("other {others}"), &["opera"], "any", 0.7);
        match status {
            201 => others += 1,
            _ => break document,
        }
    };
    assert!(others >= 1 && others < made, "{others}");
    assert!(refused["detail"].as_str().unwrap().contains("this federation"), "{refused}");
    // Closing gives nothing back, and a restart forgets nothing.
    assert_eq!(one.call(Method::Delete, "/audiences/0", None).0, 200);
    assert_eq!(one.create("again", &["opera"], "any", 0.5).1["code"], "budget-spent");
    let token = one.token.clone();
    let town = town.restart(folder.path());
    let one = town.with_token(token);
    assert_eq!(one.create("again", &["opera"], "any", 0.5).1["code"], "budget-spent");
    let mine = one.get("/audiences");
    assert_eq!(mine["audiences"].as_array().unwrap().len(), made);
    assert!(mine["epsilon"].as_f64().unwrap() <= 1.0);
    town.stop();
}

#[test]
fn wrong_requests_are_told_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let town = town(folder.path(), &AudienceConfig { open: 1, ..AudienceConfig::default() });
    let advertiser = town.advertiser(Some(5));
    let audience = |key: &str, value: serde_json::Value| {
        let mut body = json!({"name": "n", "categories": ["opera"], "match": "any", "threshold": 0.5, "days": 3});
        body[key] = value;
        let (status, document) = advertiser.call(Method::Post, "/audiences", Some(&body));
        (status, format!("{} {}", document["code"].as_str().unwrap(), document["detail"].as_str().unwrap()))
    };
    for (key, value, expected) in [
        ("categories", json!(["jazz"]), "categories is \"jazz\", expected ids of the catalog"),
        ("categories", json!([]), "categories is a list of 0"),
        ("categories", json!(["opera", "opera"]), "each once"),
        ("match", json!("some"), "match is \"some\", expected any or all"),
        ("threshold", json!(0.0), "threshold is 0, expected a score above 0"),
        ("threshold", json!(1.5), "threshold is 1.5"),
        ("days", json!(0), "days is 0, expected 1 to 365"),
        ("name", json!(""), "name is \"\""),
        ("name", json!("a\u{7}"), "name is"),
        ("colour", json!("red"), "unknown field `colour`"),
    ] {
        let (status, text) = audience(key, value);
        assert_eq!(status, 400, "{text}");
        assert!(text.starts_with("bad-request ") && text.contains(expected), "{text}");
    }
    assert_eq!(advertiser.create("taken", &["opera"], "any", 0.5).0, 201);
    assert_eq!(advertiser.create("taken", &["opera"], "any", 0.6).1["code"], "name-taken");
    assert_eq!(advertiser.create("second", &["opera"], "any", 0.6).1["code"], "quota");
    // Nobody sees or closes another's audience.
    let other = town.advertiser(None);
    assert_eq!(other.call(Method::Get, "/audiences/0", None).0, 404);
    assert_eq!(other.call(Method::Delete, "/audiences/0", None).0, 404);
    assert_eq!(other.call(Method::Get, "/measurements/0", None).0, 404);
    assert_eq!(other.get("/audiences")["audiences"], json!([]));
    // An audience that is being measured is not in the devices' list.
    let path = "/v1/federations/town/audiences".to_owned();
    let list = town.transport().send(&Request { path, max_response_bytes: 1 << 16, ..Request::default() }).unwrap();
    let list: serde_json::Value = serde_json::from_slice(&list.body).unwrap();
    assert_eq!((&list["audiences"], &list["k"]), (&json!([]), &json!(1000)));
    // An advertiser's token opens nothing else.
    let operator = town.transport().send(&Request {
        path: "/v1/operator/federations".to_owned(),
        bearer: Some(advertiser.token.clone()),
        max_response_bytes: 1 << 16,
        ..Request::default()
    });
    assert_eq!(operator.unwrap().status, 401);
    assert_eq!(town.with_token("sva_nonsense".to_owned()).call(Method::Get, "/audiences", None).0, 401);
    town.stop();
}
