//! A round of look-alike modelling fits a phone: memory by counting what is allocated.
//!
//! One test only: the counter is that of the whole process.

mod common;

use common::{Server, SharedStore, enrolment, options};
use sottovoce_client::LoadedModel;
use sottovoce_core::Rng;
use sottovoce_device::{Device, Enrolment, Items, NextStep, ReadPage, WaitReason};
use sottovoce_models::federated::lookalike::LookalikeConfig;
use sottovoce_models::settings::{Config as _, Settings};
use sottovoce_protocol::{FederationId, ModelVersion, Policy, SharedModel};
use sottovoce_testing::allocation::CountingAllocator;
use sottovoce_text::{HashedNgrams, NgramConfig};
use std::sync::Arc;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new();

/// As many as the synthetic population has.
const CATEGORIES: usize = 307;
const BUDGET: usize = 4_000_000;

#[test]
fn a_round_takes_less_than_four_megabytes() {
    let schema = sottovoce_models::federated::find("lookalike").unwrap().schema();
    let settings = Settings::check("lookalike", &schema, []).unwrap();
    let spec = LookalikeConfig::read(&settings).to_terms("lookalike");
    let model = LoadedModel::load(&spec, None).unwrap();
    let parameters = model.model().server().init(CATEGORIES, &mut Rng::new(1)).unwrap();
    let bytes = 4 * parameters.tables().iter().map(|table| table.values().len()).sum::<usize>();
    let server = Server::new();
    server.with(|world| {
        world.terms.model = spec;
        let model = SharedModel { federation: FederationId(9), version: ModelVersion(0), parameters };
        world.versions = vec![Arc::new(model)];
    });
    let titles: Vec<String> = (0..25).map(|page| format!("A title of some length, about category {page}")).collect();
    let mut catalog = "item\ttitle\tcategories\n".to_owned();
    catalog.extend((0..CATEGORIES).map(|row| format!("i{row}\tCategory {row}\t\n")));
    catalog += &HashedNgrams::fit(NgramConfig::default(), &titles).unwrap().catalog_text();
    let page = |(row, title): (usize, &String)| ReadPage { title: title.clone(), categories: vec![format!("i{row}")] };
    let new = Enrolment {
        policy: Policy::new(1.0).unwrap(),
        pages: titles.iter().enumerate().map(page).collect(),
        items: Some(Arc::new(Items::parse(catalog.into_bytes()).unwrap())),
        ..enrolment(0)
    };
    let mut device = Device::enrol(Box::new(SharedStore::default()), new, options()).unwrap();
    let mut next = None;
    // The server and its answers are in this process, too: that is more than the device alone takes.
    let peak = ALLOCATOR.peak_bytes(|| next = Some(device.step(&*server, Duration::from_secs(1_000_000)).unwrap()));
    assert_eq!(next, Some(NextStep::Wait(Duration::ZERO, WaitReason::UpdateAccepted { round: 0 })));
    eprintln!("a round took {peak} bytes at its peak, with a shared model of {bytes}");
    assert!(peak < BUDGET, "{peak}");
    assert!(peak > bytes, "{peak}: the shared model was downloaded");
}
