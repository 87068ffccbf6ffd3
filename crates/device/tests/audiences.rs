//! Audiences under a server that lies, and an owner who changes their mind.

use serde_json::{Value, json};
use sottovoce_client::LoadedModel;
use sottovoce_core::Rng;
use sottovoce_device::{
    Device, Enrolment, History, Items, MemoryStore, Method, NextStep, Options, Request, Response, Secret, Transport,
    TransportError, WaitReason,
};
use sottovoce_models::federated::audience_size::{self, Match, Question};
use sottovoce_models::settings::Config as _;
use sottovoce_privacy::quantize::{Packing, RowLayout};
use sottovoce_privacy::tokens::{BlindedElement, Issuer, Scope, to_hex};
use sottovoce_privacy::{Noise, Placement, PrivacyConfig, Quantization, Seal, SecureRng};
use sottovoce_protocol::{
    AudiencePolicy, FederationId, ModelSpec, ModelVersion, Policy, RoundId, RoundTerms, SharedModel, TermsDraft,
    ValueEncoding, codec,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const DAY: u64 = 86_400;
const NOW: Duration = Duration::from_secs(20_000 * DAY + 7_000);
const CATEGORIES: [&str; 5] = ["skiing", "hiking", "chess", "opera", "health"];
const FEDERATION: FederationId = FederationId(4);

fn lookalike() -> ModelSpec {
    let entry = sottovoce_models::federated::find("lookalike").unwrap();
    let settings = sottovoce_models::settings::Settings::check("lookalike", &entry.schema(), []).unwrap();
    let config = sottovoce_models::federated::lookalike::LookalikeConfig::read(&settings);
    config.to_terms("lookalike")
}

/// A server that says what a test has it say.
struct Server {
    list: Mutex<Value>,
    /// What it offers at check-in.
    terms: Mutex<Option<TermsDraft>>,
    model: SharedModel,
    issuer: Issuer,
    requests: Mutex<Vec<Request>>,
    /// Whether sealed rounds are over.
    round_is_closed: AtomicBool,
}

impl Server {
    fn new(audiences: &[(&str, &[&str], f32)]) -> Self {
        let model = LoadedModel::load(&lookalike(), None).unwrap();
        let parameters = model.model().server().init(CATEGORIES.len(), &mut Rng::new(1)).unwrap();
        let rotation = NOW.as_secs() / DAY;
        let issuer = Issuer::new([3; 32], Scope { federation: FEDERATION, round: RoundId(rotation) });
        let key = to_hex(&issuer.key().to_bytes());
        let listed = audiences.iter().zip(0..).map(|((name, categories, threshold), id)| {
            json!({"audience": id, "name": name, "categories": categories, "match": "any", "threshold": threshold,
                   "expires": NOW.as_secs() + DAY, "key": key})
        });
        let spec = lookalike();
        let list = json!({
            "federation": FEDERATION.0, "k": 1000, "rotation": rotation, "rotation_seconds": DAY,
            "report_epsilon": 0.5, "model": spec.name, "settings": spec.settings,
            "audiences": listed.collect::<Vec<_>>(),
        });
        Self {
            list: Mutex::new(list),
            terms: Mutex::new(None),
            model: SharedModel { federation: FEDERATION, version: ModelVersion(0), parameters },
            issuer,
            requests: Mutex::default(),
            round_is_closed: AtomicBool::new(false),
        }
    }

    fn count(&self, wanted: impl Fn(&Request) -> bool) -> usize {
        self.requests.lock().unwrap().iter().filter(|request| wanted(request)).count()
    }

    fn asked(&self, part: &str) -> usize {
        self.count(|request| request.path.contains(part))
    }
}

impl Transport for Server {
    fn send(&self, request: &Request) -> Result<Response, TransportError> {
        self.requests.lock().unwrap().push(request.clone());
        let path = request.path.strip_prefix("/v1/federations/town/").unwrap();
        let (mut status, mut headers, mut body) = (200, Vec::new(), Vec::new());
        match (request.method, path.split('/').next().unwrap()) {
            (Method::Post, "devices") => body = br#"{"device": 3, "credential": "svd_3"}"#.to_vec(),
            (_, "check-in") => match self.terms.lock().unwrap().clone() {
                Some(terms) => {
                    codec::encode_terms(&RoundTerms::freeze(terms).unwrap(), &mut body);
                    let digest = sottovoce_device::Digest::of(&self.model.parameters).to_string();
                    headers.push(("sottovoce-model-digest".to_owned(), digest));
                    headers.push(("sottovoce-seat".to_owned(), "5".to_owned()));
                }
                None => status = 204,
            },
            (_, "models") => codec::encode_model(&self.model, ValueEncoding::F32, &mut body).unwrap(),
            (_, "audiences") if request.method == Method::Get => {
                body = self.list.lock().unwrap().to_string().into_bytes();
            }
            (_, "audiences") => status = 201,
            (_, "audience-tokens") => {
                for entry in request.body.chunks(8 + BlindedElement::BYTES) {
                    body.extend_from_slice(&entry[..8]);
                    let element = BlindedElement::from_bytes(&entry[8..]).unwrap();
                    body.extend_from_slice(&self.issuer.evaluate(&element, &mut SecureRng::new([1; 32])).to_bytes());
                }
            }
            (_, "rounds") => status = if self.round_is_closed.load(Ordering::Relaxed) { 409 } else { 204 },
            other => panic!("{other:?}"),
        }
        Ok(Response { status, headers, body })
    }
}

fn device(history: &[&str], audiences: AudiencePolicy) -> Device {
    let catalog: String = CATEGORIES.iter().map(|id| format!("{id}\t\t\n")).collect();
    let mut policy = Policy::new(1.0).unwrap();
    policy.audiences = audiences;
    let mut enrolment = Enrolment::new("http://localhost", "town", "sve_1", Secret::new([7; 32]), policy);
    enrolment.history = History::from_ids(history.iter().copied());
    let catalog = format!("item\ttitle\tcategories\n{catalog}");
    enrolment.items = Some(Arc::new(Items::parse(catalog.into_bytes()).unwrap()));
    Device::enrol(Box::new(MemoryStore::new()), enrolment, Options::default()).unwrap()
}

fn agreed() -> AudiencePolicy {
    AudiencePolicy { takes_part: true, ..AudiencePolicy::default() }
}

/// The terms of an honest measurement.
fn measurement(round: u64) -> TermsDraft {
    let question = Question { categories: vec![0, 2], matching: Match::Any, thresholds: vec![0.6] };
    let privacy = PrivacyConfig {
        quantization: Some(Quantization {
            range: 1.0,
            clip: Some(1.0),
            devices: 1500,
            rows: RowLayout::Dense,
            packing: Packing::Words,
        }),
        noise: Some(Noise { shares: 1000, ..Noise::new(Placement::Distributed, 40.0) }),
        seal: Some(Seal::SecureAggregation { dropout: 0.3, colluding: 0.1, identities: false }),
    };
    TermsDraft {
        federation: FEDERATION,
        round: RoundId(round),
        cohort_size: 1500,
        model: question.settings(&lookalike()).to_terms(audience_size::NAME),
        privacy: privacy.terms(),
        ..TermsDraft::default()
    }
}

/// Why the device declines a round of these terms; `None` if it takes part.
fn declines(device: &mut Device, server: &Server, terms: TermsDraft, now: Duration) -> Option<String> {
    *server.terms.lock().unwrap() = Some(terms);
    let before = server.asked("/seal");
    let next = device.step(server, now).unwrap();
    *server.terms.lock().unwrap() = None;
    match next {
        NextStep::Wait(_, WaitReason::Declined { why, .. }) => Some(why),
        NextStep::Wait(_, WaitReason::NoRound { .. }) if server.asked("/seal") > before => None,
        other => panic!("{other:?}"),
    }
}

/// The server ends the sealed round that the device is in.
fn leave_round(device: &mut Device, server: &Server, now: Duration) {
    server.round_is_closed.store(true, Ordering::Relaxed);
    device.step(server, now + Duration::from_secs(600)).unwrap();
    server.round_is_closed.store(false, Ordering::Relaxed);
}

#[test]
fn takes_no_part_until_the_owner_agrees() {
    let server = Server::new(&[("ski fans", &["skiing"], 0.6)]);
    let mut device = device(&["skiing", "opera"], AudiencePolicy::default());
    let why = declines(&mut device, &server, measurement(0), NOW).unwrap();
    assert!(why.contains("has not agreed"), "{why}");
    assert_eq!((server.asked("/audience"), server.count(|request| request.audiences)), (0, 0));
    assert_eq!(device.audiences().unwrap(), []);
    device.join_audiences().unwrap();
    assert_eq!(declines(&mut device, &server, measurement(1), NOW), None);
    assert_eq!((server.asked("/audiences"), server.asked("/audience-tokens")), (1, 1));
    assert_eq!((device.ledger().totals().updates, device.audience_account().0.len()), (1, 1));
    device.leave_audiences().unwrap();
    device.step(&server, NOW + Duration::from_secs(3 * DAY)).unwrap();
    assert_eq!((server.asked("/audiences"), device.audiences().unwrap().len()), (1, 0));
}

#[test]
fn refuses_lists_that_the_owner_did_not_agree_to() {
    let rotation = NOW.as_secs() / DAY;
    let cases: [(&str, Value, &str); 7] = [
        ("k", json!(999), "sizes from 999 people on"),
        ("rotation_seconds", json!(3600), "change every 3600 seconds"),
        ("rotation", json!(rotation + 2), "by this device's clock it is"),
        ("rotation", json!(0), "by this device's clock it is"),
        ("report_epsilon", json!(-1.0), "report_epsilon is missing or wrong"),
        ("audiences", json!("all"), "audiences is missing or wrong"),
        ("settings", json!({"code": 4}), "settings is missing or wrong"),
    ];
    for (field, value, expected) in cases {
        let server = Server::new(&[("ski fans", &["skiing"], 0.6)]);
        server.list.lock().unwrap()[field] = value;
        let mut device = device(&["skiing", "opera"], agreed());
        device.step(&server, NOW).unwrap();
        let why = device.audiences().unwrap_err();
        assert!(why.contains(expected), "{field}: {why}");
        assert_eq!(server.asked("/audience-tokens"), 0, "{field}");
    }
    let many: Vec<String> = (0..101).map(|number| format!("audience {number}")).collect();
    let many: Vec<(&str, &[&str], f32)> = many.iter().map(|name| (name.as_str(), &["opera"][..], 0.5)).collect();
    let server = Server::new(&many);
    let mut device = device(&["skiing", "opera"], agreed());
    device.step(&server, NOW).unwrap();
    assert!(device.audiences().unwrap_err().contains("101 audiences are open, the owner agreed to 100"));
    assert_eq!(server.asked("/audience-tokens"), 0);
}

/// A change to the terms of a measurement.
type Lie = fn(&mut TermsDraft);

fn setting(terms: &mut TermsDraft, layer: &str, key: &str, value: &str) {
    let layer = terms.privacy.layers.iter_mut().find(|each| each.name == layer).unwrap();
    layer.settings.insert(key.to_owned(), value.to_owned());
}

#[test]
fn refuses_measurements_that_say_too_much() {
    let lies: [(&str, Lie); 10] = [
        ("needs a seal", |terms| drop(terms.privacy.layers.pop())),
        ("without secure aggregation", |terms| terms.privacy.layers.clear()),
        ("without noise by the devices", |terms| drop(terms.privacy.layers.remove(1))),
        ("would spend epsilon", |terms| setting(terms, "noise", "multiplier", "0.5")),
        ("too few devices", |terms| setting(terms, "noise", "shares", "1400")),
        ("not meant for an answer of 0 or 1", |terms| setting(terms, "integers", "clip", "0.01")),
        ("too few devices", |terms| setting(terms, "secure-aggregation", "dropout", "0.9")),
        ("sizes from 2 people on", |terms| drop(terms.model.settings.insert("least_published".into(), "2".into()))),
        ("expected 1 to 64 scores", |terms| drop(terms.model.settings.insert("thresholds".into(), "0".into()))),
        ("no-such-model", |terms| drop(terms.model.settings.insert("scored_by".into(), "no-such-model".into()))),
    ];
    for (expected, lie) in lies {
        let server = Server::new(&[]);
        let mut device = device(&["skiing", "opera"], agreed());
        let mut terms = measurement(0);
        lie(&mut terms);
        let why = declines(&mut device, &server, terms, NOW);
        assert!(why.as_ref().is_some_and(|why| why.contains(expected)), "{expected}: {why:?}");
        assert_eq!((server.asked("/seal"), device.ledger().totals().updates), (0, 0), "{expected}");
        assert_eq!(device.audience_account(), (&[][..], 0.0), "{expected}");
    }
}

#[test]
fn answers_a_round_once_and_no_more_than_the_owner_allows_in_a_day() {
    let policy = AudiencePolicy { epsilon_per_day: 0.25, ..agreed() };
    let server = Server::new(&[]);
    let mut device = device(&["skiing", "opera"], policy);
    assert_eq!(declines(&mut device, &server, measurement(7), NOW), None);
    let spent = device.audience_account().1;
    assert!(spent > 0.05 && spent < 0.12, "{spent}");
    // The sealed round is given up here; its number stays used.
    leave_round(&mut device, &server, NOW);
    let later = |hours: u64| NOW + Duration::from_secs(3600 * hours);
    let why = declines(&mut device, &server, measurement(7), later(1)).unwrap();
    assert!(why.contains("already"), "{why}");
    let mut answered = 1;
    let why = loop {
        let now = later(1 + answered);
        match declines(&mut device, &server, measurement(7 + answered), now) {
            None => answered += 1,
            Some(why) => break why,
        }
        leave_round(&mut device, &server, now);
        assert!(answered < 10);
    };
    assert!(why.contains("the owner agreed to 0.25 a day") && (2..5).contains(&answered), "{answered}: {why}");
    // A day later there is room again, and the total goes on.
    assert_eq!(declines(&mut device, &server, measurement(20), later(30)), None);
    assert!(device.audience_account().1 > spent * answered as f64);
}

#[test]
fn requests_for_tokens_do_not_depend_on_membership() {
    let audiences: [(&str, &[&str], f32); 2] = [("ski fans", &["skiing"], 0.9), ("chess fans", &["chess"], 0.9)];
    let request_of = |history: &[&str], policy: AudiencePolicy| {
        let server = Server::new(&audiences);
        device(history, policy).step(&server, NOW).unwrap();
        let requests = server.requests.into_inner().unwrap();
        let tokens = requests.into_iter().find(|request| request.path.contains("/audience-tokens")).unwrap();
        (tokens.body, tokens.bearer)
    };
    let of_skier = request_of(&["skiing", "opera"], agreed());
    assert_eq!(of_skier, request_of(&["chess", "opera"], agreed()));
    let excluded = AudiencePolicy { excluded: ["skiing".to_owned()].into(), ..agreed() };
    assert_eq!(of_skier, request_of(&["skiing", "opera"], excluded), "nor on what the owner excludes");
}

/// Names of 60 audiences, so that some answers are the opposite of the truth.
fn names() -> Vec<String> {
    (0..60).map(|number| format!("audience {number}")).collect()
}

#[test]
fn tokens_of_another_key_excluded_categories_and_audiences_left_get_no_report() {
    let names = names();
    let audiences: Vec<(&str, &[&str], f32)> = names
        .iter()
        .enumerate()
        .map(|(number, name)| {
            let categories: &[&str] = if number % 2 == 0 { &["skiing"] } else { &["skiing", "health"] };
            (name.as_str(), categories, 0.5 + number as f32 / 1000.0)
        })
        .collect();
    let end = Duration::from_secs((NOW.as_secs() / DAY + 1) * DAY - 1);
    let sent = |prepare: &dyn Fn(&Server, &mut Device)| {
        let server = Server::new(&audiences);
        let policy = AudiencePolicy { epsilon_per_day: 100.0, ..agreed() };
        let mut device = device(&["skiing", "opera"], policy);
        // It needs a model to score with before it is told of audiences.
        let listed = std::mem::take(&mut server.list.lock().unwrap()["audiences"]);
        server.list.lock().unwrap()["audiences"] = json!([]);
        assert_eq!(declines(&mut device, &server, measurement(0), NOW), None);
        leave_round(&mut device, &server, NOW);
        server.list.lock().unwrap()["audiences"] = listed;
        device.join_audiences().unwrap();
        prepare(&server, &mut device);
        device.step(&server, NOW + Duration::from_secs(1000)).unwrap();
        device.step(&server, end).unwrap();
        let reports = server.requests.into_inner().unwrap();
        let reports: Vec<Request> = reports.into_iter().filter(|request| request.path.contains("/segments/")).collect();
        assert!(reports.iter().all(|request| request.bearer.is_none() && request.body.len() == 16));
        assert_eq!(device.segments().len(), reports.len());
        reports
    };
    let numbers = |reports: &[Request]| -> Vec<u64> {
        let number = |request: &Request| request.path.split('/').nth(5).unwrap().parse().unwrap();
        reports.iter().map(number).collect()
    };
    let all = sent(&|_, _| ());
    assert!(all.len() > 25 && all.len() < 60, "some say the opposite: {}", all.len());
    let without_health = sent(&|_, device| device.exclude_category("health").unwrap());
    assert!(!without_health.is_empty() && numbers(&without_health).iter().all(|number| number % 2 == 0));
    let left =
        sent(&|_, device| (0..30).for_each(|number| device.leave_audience(&format!("audience {number}")).unwrap()));
    assert!(!left.is_empty() && numbers(&left).iter().all(|&number| number >= 30));
    let other_key = sent(&|server, _| {
        let other = Issuer::new([4; 32], Scope { federation: FEDERATION, round: RoundId(NOW.as_secs() / DAY) });
        let mut list = server.list.lock().unwrap();
        for audience in list["audiences"].as_array_mut().unwrap() {
            audience["key"] = to_hex(&other.key().to_bytes()).into();
        }
    });
    assert_eq!(other_key.len(), 0, "a key of its own would name the device");
}
