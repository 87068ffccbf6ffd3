//! What the owner's clicks say: trained on, stored and never sent.

mod common;

use common::{ITEMS, Server, SharedStore, enrolment, options};
use sottovoce_client::LoadedModel;
use sottovoce_core::Rng;
use sottovoce_device::{
    Bounds, ClickImport, Device, DeviceError, Enrolment, NextStep, Options, ReadPage, Reading, WaitReason,
};
use sottovoce_models::federated::lookalike::LookalikeConfig;
use sottovoce_models::settings::{Config as _, Settings, Value};
use sottovoce_protocol::{FederationId, ModelSpec, ModelVersion, Policy, SharedModel};
use std::sync::Arc;
use std::time::Duration;

const NOW: Duration = Duration::from_secs(1_000_000);
/// Words that are in titles and nowhere else.
const WORD: &str = "tourbillon";

fn lookalike(text: &str) -> ModelSpec {
    let schema = sottovoce_models::federated::find("lookalike").unwrap().schema();
    let given = [
        ("text", Value::Word(text.to_owned())),
        ("code", Value::Integer(3)),
        ("dim", Value::Integer(8)),
        ("units", Value::Integer(2)),
    ];
    LookalikeConfig::read(&Settings::check("lookalike", &schema, given).unwrap()).to_terms("lookalike")
}

/// A federation of look-alike modelling.
fn server(text: &str) -> Arc<Server> {
    let (server, spec) = (Server::new(), lookalike(text));
    let model = LoadedModel::load(&spec, None).unwrap();
    let parameters = model.model().server().init(ITEMS, &mut Rng::new(1)).unwrap();
    let model = SharedModel { federation: FederationId(9), version: ModelVersion(0), parameters };
    server.with(|world| {
        world.terms.model = spec;
        world.versions = vec![Arc::new(model)];
    });
    server
}

fn page(title: &str, categories: &[&str]) -> ReadPage {
    ReadPage { title: title.to_owned(), categories: categories.iter().map(|&id| id.to_owned()).collect() }
}

fn reading(pages: &[ReadPage]) -> Reading {
    Reading { interests: ["i1", "i4", "i7"].map(str::to_owned).to_vec(), pages: pages.to_vec() }
}

fn device(pages: &[ReadPage], change: impl FnOnce(&mut Device)) -> Device {
    let new = Enrolment { policy: Policy::new(1.0).unwrap(), ..enrolment(0) };
    let mut device = Device::enrol(Box::new(SharedStore::default()), new, options()).unwrap();
    device.import_clicks(reading(pages)).unwrap();
    change(&mut device);
    device
}

/// The update that a device sends.
fn update(server: &Server, device: &mut Device) -> Vec<u8> {
    let next = device.step(server, NOW).unwrap();
    assert_eq!(next, NextStep::Wait(Duration::ZERO, WaitReason::UpdateAccepted { round: 0 }));
    server.with(|world| world.updates.values().next().unwrap().1.clone())
}

fn pages() -> Vec<ReadPage> {
    vec![
        page(&format!("A {WORD} on the wrist"), &["i1"]),
        page(&format!("{WORD}s compared"), &["i4", "i9"]),
        page(&format!("Where {WORD}s come from"), &["i7"]),
    ]
}

#[test]
fn pages_are_trained_on_and_no_word_of_them_leaves() {
    let with = update(&server("titles"), &mut device(&pages(), |_| ()));
    let without = update(&server("titles"), &mut device(&[], |_| ()));
    assert_ne!(with, without, "pages make a difference");
    let plain = |pages: &[ReadPage]| update(&server("none"), &mut device(pages, |_| ()));
    assert_eq!(plain(&pages()), plain(&[]), "a model that reads no titles sees none");
    let server = server("titles");
    update(&server, &mut device(&pages(), |_| ()));
    server.with(|world| {
        assert!(world.requests.len() > 3);
        for request in &world.requests {
            let said = format!("{request:?} {}", String::from_utf8_lossy(&request.body)).to_lowercase();
            assert!(!said.contains(WORD) && !said.contains("wrist"), "{}", request.path);
        }
    });
}

#[test]
fn pages_about_hidden_interests_are_not_read() {
    let hiding =
        |pages: &[ReadPage]| update(&server("titles"), &mut device(pages, |device| device.hide("i4").unwrap()));
    let all = pages();
    let others = [all[0].clone(), all[2].clone()];
    assert_eq!(hiding(&all), hiding(&others), "as if the page did not exist");
    assert_ne!(hiding(&all), hiding(&others[..1]));
}

#[test]
fn a_reading_replaces_the_history_and_is_stored() {
    let store = SharedStore::default();
    let mut device = Device::enrol(Box::new(store.clone()), enrolment(0), options()).unwrap();
    let before = device.history().len();
    let mut more = reading(&pages());
    more.interests.push("not in the catalog".to_owned());
    device.step(&*server("titles"), NOW).unwrap();
    let imported = device.import_clicks(more).unwrap();
    assert_eq!(imported, ClickImport { interests: 4, unknown: 1, pages: 3, replaced: before });
    drop(device);
    let device = Device::open(Box::new(store), options()).unwrap();
    assert_eq!((device.history().len(), device.pages()), (4, &pages()[..]));
}

#[test]
fn recommendations_read_pages_too() {
    let scores = |pages: &[ReadPage]| {
        let server = server("titles");
        let mut device = device(pages, |_| ());
        update(&server, &mut device);
        device.recommend(5).unwrap()
    };
    assert_ne!(scores(&pages()), scores(&[]));
}

#[test]
fn too_many_pages_are_refused() {
    let bounds = Bounds { pages: 2, title_bytes: 10, ..Bounds::default() };
    let new = || Enrolment { policy: Policy::new(1.0).unwrap(), ..enrolment(0) };
    let bounded = || Options { bounds, ..options() };
    let mut device = Device::enrol(Box::new(SharedStore::default()), new(), bounded()).unwrap();
    let before = device.history().clone();
    let error = device.import_clicks(reading(&pages())).unwrap_err();
    assert_eq!(error.to_string(), "3 pages, this device stores at most 2");
    let error = device.import_clicks(reading(&pages()[..1])).unwrap_err();
    assert!(matches!(error, DeviceError::TooLong { what: "bytes of titles", .. }), "{error}");
    assert_eq!((device.history(), device.pages().len()), (&before, 0));
    let refused = Device::enrol(Box::new(SharedStore::default()), Enrolment { pages: pages(), ..new() }, bounded());
    assert!(refused.is_err());
}
